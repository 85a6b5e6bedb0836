"""How much of the package, and of what is heavy, a short command loads: counted, as times hang on the machine."""

import subprocess
import sys

import pytest

pytest.importorskip("click")


#: So many modules of this package does it load at the most.
LOADED = {"--version": 16, "list": 74, "backup": 98, "hook": 103}
#: Of others none of these: they are for other commands, or for a terminal.
HEAVY = {
    *("asyncio", "colony_sdk", "cryptography", "email", "http", "importlib.metadata", "pydantic", "ssl"),
    *("decimal", "tempfile", "urllib.request"),
}
#: Nor has what is plain to be parsed by click, nor is anything logged.
PARSING = {"click", "dataclasses", "inspect", "logging"}


@pytest.mark.parametrize("verb", LOADED)
def test_a_short_command_loads_few_modules(vault, tmp_path, verb):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("text")
    words = [verb] if verb in ("--version", "list") else [verb, str(tmp_path / "notes")]
    heavy = HEAVY | PARSING
    code = (
        "import io, sys; before = set(sys.modules); from colony_memory.__main__ import main; "
        "sys.stdin = io.StringIO('{}'); "
        f"code = main({words!r}); loaded = set(sys.modules) - before; "
        f"print(code, len([m for m in loaded if m.startswith('colony_memory')]), sorted(loaded & {heavy!r}))"
    )
    if verb != "--version":
        subprocess.run([sys.executable, "-m", "colony_memory", "backup", tmp_path / "notes"], timeout=60, check=True)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True, stdin=subprocess.DEVNULL
    )
    code, own, heavy = done.stdout.splitlines()[-1].split(" ", 2)
    assert (code, heavy) == ("0", "[]")
    assert int(own) <= LOADED[verb]


#: So many files of the package does it enter at the most: a file is entered where a function of it runs.
ENTERED = {"backup": 75, "restore": 64}
COUNT = """
import sys, threading
from colony_memory.__main__ import main
files = set()
def enter(frame, event, _):
    code = frame.f_code
    if event == "call" and code.co_flags & 2 and code.co_name[0] != "<" and "colony_memory" in code.co_filename:
        files.add(code.co_filename)
threading.setprofile(enter)
sys.setprofile(enter)
code = main(sys.argv[1:])
sys.setprofile(None)
print(code, len(files))
"""


def test_a_backup_and_a_restore_enter_few_files(tmp_path, vault):
    (tmp_path / "notes").mkdir()
    for name in ("a.md", "b.md"):
        (tmp_path / "notes" / name).write_text("text")
    for verb, folder in {"backup": "notes", "restore": "new"}.items():
        words = [sys.executable, "-c", COUNT, verb, tmp_path / folder]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
        code, entered = done.stdout.splitlines()[-1].split()
        assert code == "0"
        assert int(entered) <= ENTERED[verb], verb
