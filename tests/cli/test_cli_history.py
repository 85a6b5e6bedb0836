"""cat, log, grep and diff -p."""

import base64
import io
import json
import shutil
import subprocess
import sys
from datetime import timedelta

import cli_runs
import pytest
from cli_runs import NOON, POSIX, damage, save

from colony_memory import SnapshotInfo
from colony_memory.reports import Change, DocumentChange
from colony_memory.shell.app import compare
from colony_memory.shell.app.compare import FileHistory
from colony_memory.shell.cli.output import Output
from colony_memory.shell.cli.verbs import look
from colony_memory.shell.words.errors import Failure

STATES = ({"a.md": "one\nfriday\n"}, {"a.md": "one\ntwo\nfriday\n"}, {"b.md": "x"}, {"a.md": "one\r\n", "b.md": "x"})
EVIL = "evil\x1b[31m\nfile\u202e.md"


@pytest.fixture
def ids(vault):
    return [save(vault, each, at=NOON + timedelta(days=day)).snapshot_id for day, each in enumerate(STATES)]


def test_what_became_of_a_file(cli, vault, ids):
    code, out, err = cli("log", "a.md")
    assert (code, err) == (0, "")
    assert [line.split() for line in out.splitlines()] == [
        ["id", "created", "change", "lines", "size"],
        [ids[3], "2026-11-04", "12:00", "UTC", "returned", "+1", "-0", "5", "B"],
        [ids[2], "2026-11-03", "12:00", "UTC", "removed", "+0", "-3", "-"],
        [ids[1], "2026-11-02", "12:00", "UTC", "changed", "+1", "-0", "15", "B"],
        [ids[0], "2026-11-01", "12:00", "UTC", "in", "the", "oldest", "+2", "-0", "11", "B"],
        ["4", "changes", "in", "4", "snapshots;", "the", "newest", "has", "it"],
    ]
    save(vault, {"b.md": "y"}, at=NOON + timedelta(days=9))
    assert cli("log", "a.md")[1].endswith(f"5 changes in 5 snapshots; last seen in {ids[3]}\n")


def test_what_a_backup_had_to_leave_out_was_not_removed(cli, vault, ids):
    save(vault, {"b.md": "z"}, at=NOON + timedelta(days=9), incomplete=["a.md: Permission denied"])
    assert cli("log", "a.md")[1].splitlines()[1].split()[4:6] == ["left", "out"]


def test_when_a_line_came_and_went(cli, vault, ids):
    save(vault, {"a.md": "one\nfriday\nfriday night\n"}, label="other")
    code, out, err = cli("grep", "fri.ay|tw[o]|x")
    assert (code, err) == (0, "")
    moments = [f"{each}  2026-11-0{day} 12:00 UTC" for day, each in enumerate(ids, 1)]
    assert out.splitlines() == [
        "a.md",
        f"  first  {moments[0]}",
        f"  last   {moments[1]}",
        f"  gone   {moments[2]}",
        "    3: friday",
        "a.md",
        f"  first  {moments[1]}",
        f"  last   {moments[1]}",
        f"  gone   {moments[2]}",
        "    2: two",
        "b.md",
        f"  first  {moments[2]}",
        f"  last   {moments[3]} (latest)",
        "    1: x",
        "3 lines in 4 snapshots",
    ]
    assert cli("grep", "night")[0] == 1
    assert cli("grep", "NIGHT", "-i", "--label", "other")[0] == 0


def test_more_lines_than_are_shown(cli, vault, ids, monkeypatch):
    from colony_memory._engine import history

    monkeypatch.setattr(history, "MOST_LINES", 1)
    code, out, err = cli("grep", ".")
    assert code == 0
    assert out.endswith("1 line in 4 snapshots\n")
    assert "only the newest line is shown" in err


@pytest.mark.parametrize(
    ("code", "arguments", "says"),
    [
        (2, ["log"], "missing argument 'NAME'"),
        (2, ["log", ""], "an empty name"),
        (2, ["log", "a.md", "b.md"], "unexpected extra argument"),
        (2, ["log", "a.md", "--label", "no/label"], "label 'no/label' cannot be used"),
        (
            1,
            ["log", "A.md"],
            "there is no 'A.md' in any of the 4 snapshots of label 'default'; the nearest are 'b.md', 'a.md'",
        ),
        (1, ["log", EVIL], "there is no 'evil\\x1b[31m\\nfile\\u202e.md' in any"),
        (3, ["log", "a.md", "--label", "none"], "nothing is saved yet under label 'none'"),
        (2, ["grep"], "missing argument 'PATTERN'"),
        (2, ["grep", ""], "an empty pattern"),
        (2, ["grep", "["], "'[' is not a regular expression: unterminated character set at position 0"),
        (2, ["grep", "a{99999999999}"], "is not a regular expression"),
        (2, ["grep", "a\nb"], "must not hold a line feed"),
        (2, ["grep", "-x"], "there is no option -x"),
        (3, ["grep", "a", "--label", "none"], "nothing is saved yet under label 'none'"),
        (3, ["diff", "-p", "latest~9"], "further back than the oldest"),
        (2, ["diff", "-p", "./none"], "none"),
        (5, ["log", "a.md", "--vault", "./none"], "there is no vault"),
        (5, ["grep", "a", "--vault", "./none"], "there is no vault"),
    ],
)
def test_bad_input(refused, vault, ids, code, arguments, says):
    before = sorted(vault.path.iterdir())
    assert says in refused(code, *arguments)
    assert sorted(vault.path.iterdir()) == before


# --- differences


@POSIX
@pytest.mark.parametrize("program", [["git", "apply"], ["patch", "-p1", "-s"]], ids=["git", "patch"])
def test_differences_apply(cli, vault, folder, tmp_path, program):
    if shutil.which(program[0]) is None:
        pytest.skip(f"no {program[0]}")
    assert cli("backup", folder)[0] == 0
    assert cli("restore", tmp_path / "again")[0] == 0
    (folder / "MEMORY.md").write_bytes(b"two years\r\nand a day, \xe2\x82\xac")
    (folder / "notes" / EVIL).write_text("said\nmuch\n")
    (folder / "notes" / "caf\u00e9.md").write_bytes(b"caf\xe9!\n")
    text = subprocess.run(
        [sys.executable, "-m", "colony_memory", "diff", "-p", "latest", folder],
        capture_output=True,
        check=True,
        timeout=60,
    ).stdout
    assert "Binary files a/notes/caf\u00e9.md and b/notes/caf\u00e9.md differ\n".encode() in text
    subprocess.run(program, cwd=tmp_path / "again", input=text, check=True, timeout=60)
    for name in ("MEMORY.md", f"notes/{EVIL}"):
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()


# --- on a terminal


class Terminal(io.StringIO):
    def isatty(self):
        return True


def on_screen(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    return screen


def test_a_terminal_gets_colours_and_no_commands(monkeypatch):
    screen = on_screen(monkeypatch)
    text = 'diff --git "a/x" "b/x"\n--- "a/x"\n+++ "b/x"\n@@ -1,2 +1 @@\n--- gone\x1b[2J\n+\tnew\u202e\n'
    Output().answer_patch(text)
    lines = screen.getvalue().splitlines()
    assert lines[0].startswith("\x1b[1mdiff --git ")
    assert lines[3].startswith("\x1b[36m@@")
    assert lines[4] == "\x1b[31m--- gone\\x1b[2J\x1b[0m"
    assert lines[5] == "\x1b[32m+\tnew\\u202e\x1b[0m"


def test_names_and_lines_command_no_terminal(cli, vault):
    save(vault, {EVIL: "red\x1b[31m text\n"})
    for out in (cli("grep", "red")[1], cli("log", EVIL)[1]):
        assert "\x1b" not in out
    assert cli("grep", "red")[1].splitlines()[0] == "evil\\x1b[31m\\nfile\\u202e.md"
    assert cli("log", "-p", EVIL)[1].count("\x1b") == 1  # the text itself, byte for byte


def test_what_is_special_is_said(cli, vault, monkeypatch):
    info = cli_runs.snapshot()
    most = Change("changed", info, info, DocumentChange(9, 9, exact=False), 5)
    assert look.line_counts(most) == "+9 -9 at most"
    assert look.line_counts(Change("changed", info, info, None, 5)) == "not text"
    monkeypatch.setattr(compare, "file_history", lambda *_, **__: FileHistory("a", (most,), 2))
    assert cli("log", "-p", "a")[1].endswith("at most\nToo much to show.\n")


def test_what_is_no_text_and_a_latest_that_cannot_be_read(cli, vault, folder):
    assert cli("backup", folder)[0] == 0
    (folder / "MEMORY.md").write_text("new")
    assert cli("backup", folder)[0] == 0
    info = max(vault.path.glob("cmem.*.manifest.json")).name.split(".")[2]
    damage(vault, SnapshotInfo(info, "default", "", [], 1, 1, ""))
    code, out, _ = cli("grep", "caf")
    assert code == 0
    assert "    not text, and found in it\n" in out
    assert "(latest not read)" in out


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


def test_a_terminal_is_not_commanded(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    Output().answer_content("a\tb\x1b[2J\r\nc", name="a.md")
    assert screen.getvalue() == "a\tb\\x1b[2J\nc\n"
    with pytest.raises(Failure, match="is not text"):
        Output().answer_content(BYTES, name="face.png")
