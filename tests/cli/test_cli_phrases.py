"""Messages of the library as the command line says them."""

from __future__ import annotations

import ast
import inspect
import re
import warnings
from pathlib import Path

import pytest

pytest.importorskip("typer")

import cli_runs

import colony_memory
from colony_memory import ColonyMemory, capture
from colony_memory.cli.phrases import spoken
from colony_memory.exceptions import ColonyMemoryWarning, QuotaExceeded

environment, vault, cli, refused = cli_runs.environment, cli_runs.vault, cli_runs.cli, cli_runs.refused

PACKAGE = Path(colony_memory.__file__).parent
#: Nothing in them is called by the command line, or their text is no message.
APART = {"cli", "testing", "autobackup.py", "attestation.py", "_secret_kinds.py", "mcp_server.py"}
#: Said only to whoever calls the library in a way that the command line does not.
NEVER_SAID = (
    "at_least",
    "newer_than needs",
    "on_conflict must be",
    "load_export() and read_export() give one",
    "or retention=, not both",
    "no vault: give api_key=",
    "give a client=, or what to make one of",
    "base_url (or COLONY_BASE_URL)",
)


def arguments():
    """Names of arguments that are no words, of the facade and of what reads and writes folders."""
    verbs = [member for member in vars(ColonyMemory).values() if inspect.isfunction(member)]
    verbs += [member for name in capture.__all__ if inspect.isfunction(member := getattr(capture, name))]
    return {name for verb in verbs for name in inspect.signature(verb).parameters if "_" in name.strip("_")}


PYTHON = re.compile(rf"\b[A-Za-z_][\w.]*\(\)|(?<!-)\b[a-z_]+=(?!=)|\b(?:{'|'.join(sorted(arguments()))})\b")


def messages():
    for path in sorted(PACKAGE.rglob("*.py")):
        if APART & set(path.relative_to(PACKAGE).parts):
            continue
        parsed = ast.parse(path.read_text(encoding="utf-8"))
        inside = set()
        for node in ast.walk(parsed):
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
                yield f"{path.relative_to(PACKAGE)}:{node.lineno}", text


def test_no_message_speaks_python_on_the_command_line():
    left = [
        (where, spoken(text))
        for where, text in messages()
        if PYTHON.search(spoken(text)) and not any(each in text for each in NEVER_SAID)
    ]
    assert left == []


def test_there_are_such_messages():
    assert len([text for _, text in messages() if PYTHON.search(text)]) > 10


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "too large: prune() makes room, status() tells",
            "'colony-memory prune' makes room, 'colony-memory status' tells",
        ),
        (
            "a has 9 bytes, more than max_bytes=8: raise it to read this snapshot",
            "than the 8 bytes that the command line",
        ),
        ("the documents are 9 bytes, more than max_bytes=8", "more than the 8 bytes that the command line takes"),
        ("say secrets=warn or secrets=allow", "say --secrets=warn or --secrets=allow"),
        ("nothing to change", "nothing to change"),
    ],
)
def test_what_is_said_in_its_place(text, said):
    assert said in spoken(text)


def test_errors_and_warnings_are_said_so(cli, vault, monkeypatch):
    def fail(self, **_):
        warnings.warn("list_snapshots() tells", ColonyMemoryWarning, stacklevel=1)
        raise QuotaExceeded("no room; prune() makes room")

    monkeypatch.setattr(ColonyMemory, "list_snapshots", fail)
    assert cli("list") == (
        1,
        "",
        "warning: 'colony-memory list' tells\nerror: no room; 'colony-memory prune' makes room\n",
    )
