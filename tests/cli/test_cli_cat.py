"""``cat``, and the snapshot that stands before what ``restore`` and ``cat`` are about."""

from __future__ import annotations

import base64
import io
import json
import subprocess
import sys

import pytest
from cli_runs import POSIX, save

from colony_memory.cli.output import Output
from colony_memory.words.errors import Failure, write

BYTES = bytes(range(256)) * 3


def _run(*args):
    """What a process writes to stdout, as bytes."""
    return subprocess.run(
        [sys.executable, "-m", "colony_memory", "cat", *map(str, args)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=True,
    ).stdout


def test_every_byte_comes_out(cli, vault, folder):
    (folder / "face.png").write_bytes(BYTES)
    assert cli("backup", folder)[0] == 0
    assert _run("MEMORY.md") == b"two years\r\n"
    assert _run("latest", "face.png") == BYTES
    assert _run("notes/caf\u00e9.md", "--quiet") == b"caf\xe9\n"
    assert _run(".colony-memory/folder.json").startswith(b'{"empty_dirs":["logs"]')


def test_for_programs(cli, vault, folder):
    (folder / "face.png").write_bytes(BYTES)
    assert cli("backup", folder)[0] == 0
    answer = json.loads(cli("cat", "face.png", "--json")[1])
    assert (answer["name"], answer["text"], base64.b64decode(answer["base64"])) == ("face.png", None, BYTES)
    answer = json.loads(cli("cat", "MEMORY.md", "--json")[1])
    assert (answer["text"], answer["base64"]) == ("two years\r\n", None)


def test_what_is_not_there_is_said_with_what_is_near(cli, refused, vault):
    info = save(vault, {"notes/monday.md": "x", "b.md": "y"}, incomplete=["lost.md: Permission denied"])
    line = refused(1, "cat", "note/monday.md")
    assert f"there is no 'note/monday.md' in snapshot {info.snapshot_id}; the nearest is 'notes/monday.md'" in line
    assert line.endswith("the snapshot is incomplete, 1 left out: lost.md: Permission denied")
    assert "the nearest is 'notes/monday.md'" in refused(1, "cat", "notes")
    assert "there is no 'zzz'" in refused(1, "cat", "zzz")
    assert "nothing is saved yet" in refused(3, "cat", "a.md", "--label", "none")


@POSIX
def test_a_link_is_told(cli, refused, vault, folder):
    (folder / "today.md").symlink_to("MEMORY.md")
    assert cli("backup", folder)[0] == 0
    assert "'today.md' is a link, to 'MEMORY.md'" in refused(1, "cat", "today.md")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_is_not_commanded(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    Output().answer_content("a\tb\x1b[2J\r\nc", name="a.md")
    assert screen.getvalue() == "a\tb\\x1b[2J\nc\n"
    with pytest.raises(Failure, match="is not text"):
        Output().answer_content(BYTES, name="face.png")


def test_an_output_that_takes_nothing_is_told(monkeypatch):
    class Full(io.BytesIO):
        def write(self, _):
            raise OSError(28, "No space left on device")

    class Closed(io.BytesIO):
        def write(self, _):
            raise BrokenPipeError

    for raw, says in ((Full(), "No space left"), (Closed(), "closed before")):
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw))
        with pytest.raises(Failure, match=says):
            Output().answer_content("x", name="a.md")
    write(None, b"nobody listens")


# --- [ID] DIR
