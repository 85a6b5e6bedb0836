"""What a backup had to leave out goes into the snapshot, and whoever looks at it is told."""

from __future__ import annotations

import json
import os

import pytest
from cli_runs import NOON, POSIX, save

from colony_memory import ColonyMemory
from colony_memory.app.pick import left_out


@pytest.fixture
def lacking(folder):
    """A folder with something in it that no snapshot can hold."""
    os.mkfifo(folder / "pipe")
    return folder


@POSIX
def test_each_verb_tells_what_is_missing(lacking, vault, cli, tmp_path):
    code, out, err = cli("backup", lacking)
    assert (code, "1 left out" in out) == (1, True)
    told = err.removeprefix("left out: ").rstrip("\n")
    assert told.startswith("pipe: ")
    heads, row, _ = cli("list")[1].splitlines()
    assert heads.endswith("  remarks")
    assert row.endswith("  1 left out")
    shown = cli("show", "latest")[1].splitlines()
    assert "incomplete  1 left out" in shown
    assert shown[-2:] == ["left out:", told]
    assert "newest: 1 left out" in cli("status")[1]
    code, _, err = cli("restore", "--quiet", tmp_path / "out")
    (info,) = json.loads(cli("list", "--json")[1])["snapshots"]
    assert (code, err) == (0, f"warning: snapshot {info['snapshot_id']} is incomplete, 1 left out: {told}\n")
    assert info["incomplete"] == [told]
    for verb in (["show", "latest"], ["restore", tmp_path / "again"]):
        assert json.loads(cli(*verb, "--json")[1])["snapshot"]["incomplete"] == [told]
    assert json.loads(cli("status", "--json")[1])["newest"]["incomplete"] == [told]


@POSIX
def test_the_same_left_out_again_is_nothing_new(lacking, vault, cli):
    for number in range(40):
        os.mkfifo(lacking / f"pipe-{number:02}")
    assert cli("backup", lacking)[0] == 1
    code, out, _ = cli("backup", lacking)
    assert (code, out.splitlines()[0].endswith("; nothing written")) == (1, True)
    assert cli("list")[1].splitlines()[1].endswith("  41 left out")
    assert len(cli("show", "latest")[1].partition("\nleft out:\n")[2].splitlines()) == 41
    (lacking / "pipe").unlink()
    assert cli("backup", lacking)[1].startswith("saved ")


@POSIX
def test_the_newest_complete_snapshot_stays(lacking, vault, cli):
    (lacking / "pipe").unlink()
    assert cli("backup", lacking, "--keep", "1")[0] == 0
    os.mkfifo(lacking / "pipe")
    for turn in range(3):
        (lacking / "MEMORY.md").write_text(f"{turn}\n")
        assert cli("backup", lacking, "--keep", "1")[0] == 1
    infos = ColonyMemory(backend=vault).list_snapshots()
    assert [bool(info.incomplete) for info in infos] == [True, False]


@POSIX
def test_what_is_saved_before_a_restore_tells_it_too(lacking, vault, cli, tmp_path):
    (lacking / "pipe").unlink()
    assert cli("backup", lacking)[0] == 0
    (lacking / "MEMORY.md").write_text("mine\n")
    os.mkfifo(lacking / "pipe")
    assert cli("restore", "--snapshot-first", "--force", lacking)[0] == 0
    (info,) = ColonyMemory(backend=vault).list_snapshots(label="default-before-restore")
    assert [each.partition(":")[0] for each in info.incomplete] == ["pipe"]


def test_much_is_told_by_a_few_names_and_the_number(vault, cli, tmp_path):
    lines = [f"{number:02}.md: Permission denied" for number in range(30)]
    info = save(vault, {"a.md": "x"}, at=NOON, incomplete=lines)
    assert left_out(info) == f"30 left out: {'; '.join(lines[:3])}; and 27 more"
    (listed,) = ColonyMemory(backend=vault).list_snapshots()
    assert (len(listed.incomplete), left_out(listed)) == (20, left_out(info))
    again = ColonyMemory(backend=vault)
    assert again.backup({"a.md": "x"}, incomplete=lines).reused
    assert not again.backup({"a.md": "x"}, incomplete=lines[:-1]).reused
    few = save(vault, {"a.md": "x"}, at=NOON, label="few", incomplete=["x"])
    assert left_out(few) == "1 left out: x"


def test_names_cannot_move_the_cursor(vault, cli, tmp_path):
    save(vault, {"a.md": "x"}, at=NOON, incomplete=["a\x1b[2Jb: gone"])
    for verb in (["show", "latest"], ["status"], ["restore", tmp_path / "out"]):
        _, out, err = cli(*verb)
        assert r"a\x1b[2Jb" in out + err
        assert "\x1b" not in out + err
