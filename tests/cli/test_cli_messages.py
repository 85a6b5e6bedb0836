"""No message of the package speaks to one face alone: what there is to do is in its hint."""

import ast
import functools
import inspect
import re
from pathlib import Path

import pytest

import colony_memory
from colony_memory import ColonyMemory, capture

pytest.importorskip("click")

from colony_memory.shell.cli.app import VERBS

#: What words the errors of the library for those who use it.
FACES = {"cli", "mcp", "words"}
PACKAGE = Path(colony_memory.__file__).parent
#: Their messages are still to become messages with hints.
NOT_YET = {"_engine"}
#: Of those, these are done.
DONE = {"store.py", "faces.py", "boundary.py"}
#: Nothing in them is called by the command line, or their text is no message.
APART = {"testing", "autobackup.py", "_secret_kinds.py"}
#: Said only to whoever calls the library in a way that no other face does.
TO_PYTHON = (
    "give a client=, or what to make one of",
    " is not a vault: it has no ",
    "this backend is asynchronous: use AsyncColonyMemory",
    "must not be asynchronous: use AsyncColonyMemory",
    "AsyncColonyMemory needs the event loop of asyncio",
    "import main; sys.exit(main())",  # a program
    "See :meth:`ColonyMemory.",  # the documentation of a method
)


def arguments():
    """Names of arguments that are no words, of the facade and of what reads and writes folders."""
    verbs = [member for member in vars(ColonyMemory).values() if inspect.isfunction(member)]
    verbs += [member for name in capture.__all__ if inspect.isfunction(member := getattr(capture, name))]
    return {name for verb in verbs for name in inspect.signature(verb).parameters if "_" in name.strip("_")}


#: A call, an argument with its sign, an argument's name, a class of the library.
PYTHON = re.compile(
    rf"\b[A-Za-z_][\w.]*\(\)|(?<!-)\b[a-z_]+=(?!=)|\b(?:{'|'.join(sorted(arguments()))})\b|\b(?:Async)?ColonyMemory\b"
)
#: A command, an option: those of this package's own.
COMMAND = re.compile(rf"\bcolony-memory (?:{'|'.join(VERBS)})\b|(?<![\w-])--[a-z][a-z-]+")


@functools.cache
def texts():
    """Every text of several words in the source that is no docstring, with its file's path and its line."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        inside = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                inside.add(node.value)  # a docstring
            if isinstance(node, ast.JoinedStr):
                inside |= set(ast.walk(node)) - {node}
                pieces = [each.value if isinstance(each, ast.Constant) else "\u2026" for each in node.values]
                text = "".join(map(str, pieces))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in inside:
                text = node.value
            else:
                continue
            if " " in text.strip() and not text.startswith(("PRAGMA ", "SELECT ")):
                found.append((path.relative_to(PACKAGE), node.lineno, text))
    return found


def messages(*, face):
    """Those of a face, or of all else."""
    for path, line, text in texts():
        parts = set(path.parts)
        if APART & parts or bool(FACES & parts) is not face or (NOT_YET & parts and not DONE & parts):
            continue
        yield f"{path}:{line}", text


@pytest.mark.parametrize(
    ("face", "speaks", "excepted"),
    [(False, PYTHON, TO_PYTHON), (False, COMMAND, ("diff --git ",)), (True, PYTHON, ())],
    ids=["the library, Python", "the library, commands", "a face, Python"],
)
def test_no_message_speaks_to_one_face_alone(face, speaks, excepted):
    found = list(messages(face=face))
    assert len(found) > 100
    assert [(where, text) for where, text in found if speaks.search(text) and not any(map(text.count, excepted))] == []
