"""backup and list on the command line."""

from __future__ import annotations

import json
import sys
from datetime import timedelta

import pytest
from cli_runs import NOON, save

from colony_memory import ColonyMemory
from colony_memory import words as text

# --- backup


def test_backup_says_what_was_left_out_and_is_code_1(cli, vault, folder):
    (folder / "link").symlink_to("../MEMORY.md")
    reason = "is a link to '../MEMORY.md', out of the folder; it is not followed"
    code, out, err = cli("backup", folder)
    assert code == 1
    assert out.splitlines()[1].startswith("2 files, 1 empty folder, 1 left out, ")
    assert err == f"left out: link: {reason}\n"
    assert ColonyMemory(backend=vault).latest() is not None
    code, out, err = cli("backup", folder, "--json")
    assert (code, json.loads(err)) == (1, {"warning": f"left out: link: {reason}", "hint": None})
    answer = json.loads(out)
    assert answer["left_out"] == [{"name": "link", "reason": reason, "unread": False}]
    assert answer["snapshot"]["reused"] is True
    code, out, err = cli("backup", folder, "--quiet")
    assert (code, out, err) == (1, "", f"left out: link: {reason}\n")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["backup"], "missing argument 'PATH'; try: colony-memory backup --help"),
        (["backup", "nowhere"], "'nowhere': no such file or directory"),
        (["backup", ""], "an empty path"),
        (["backup", "empty"], "nothing to back up"),
        (["backup", "--frob", "memory"], "--frob"),
        (["backup", "--keep", "0", "memory"], "try: colony-memory backup --help"),
        (["backup", "--keep", "many", "memory"], "try: colony-memory backup --help"),
        (["backup", "--label"], "--label"),
        (["restore"], "missing argument '[ID] DIR'; try: colony-memory restore --help"),
        (["restore", ""], "an empty path"),
        (["restore", "memory/MEMORY.md"], "cannot be a directory"),
        (["restore", "out", "--only", "*.png"], "nothing in the snapshot matches '*.png'"),
        (["restore", "out", "--snapshot", "../x"], "names no snapshot"),
        (["restore", "latest", "out", "again"], "'again' is too much"),
        (["restore", "latest~1"], "names a snapshot, and the DIR is missing; a folder is ./latest~1"),
        (["restore", "latest", ""], "an empty path"),
        (["restore", "../x", "out"], "names no snapshot"),
        (["restore", "latest", "out", "--snapshot", "latest"], "each name a snapshot"),
        (["cat", "latest"], "names a snapshot, and the NAME is missing"),
        (["cat", ""], "an empty name"),
        (["cat", "latest", "a.md", "b.md"], "'b.md' is too much"),
        (["list", "--label", "\u00e9"], "give the label a name"),
        (["status", "--label", "a b"], "use 'a-b'"),
        (["list", "--vault", ""], "it is empty: give a value, or leave it out"),
        (["list", "--vault", "memory:"], "would be gone"),
        (["list", "--vault", "colony:"], "set COLONY_API_KEY"),
        (["list", "--vault", "COLONY://"], "set COLONY_API_KEY"),
        (["list", "--vault", "gopher://x"], "gopher: is not a kind of vault"),
        (["list", "--vault", "memory/MEMORY.md"], "is not a directory"),
        (["frob"], "frob"),
        (["--frob"], "try: colony-memory --help"),
        (["list", "--a\x1b[31m\nb"], "try: colony-memory list --help"),
    ],
)
def test_usage_errors_are_one_line_and_code_2(refused, vault, folder, arguments, says):
    (folder.parent / "empty").mkdir()
    save(vault, {"a.md": "x"})
    line = refused(2, *arguments)
    assert says in line
    assert "\x1b" not in line
    assert not (folder.parent / "out").exists()


def test_a_vault_inside_what_is_saved_is_refused(refused, cli, folder, tmp_path):
    inside = folder / "vault"
    for path in (folder, inside):
        assert cli("init", path)[0] == 0
    assert "each backup would hold all the ones before" in refused(2, "backup", folder, "--vault", inside)
    assert "keep the vault elsewhere" in refused(2, "backup", folder, "--vault", folder)
    assert list(inside.glob("cmem.*")) == []
    assert cli("backup", folder / "notes", "--vault", inside)[0] == 0


# --- list


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (3, ["restore", "OUT"]),
        (3, ["restore", "latest~1", "OUT"]),
        (3, ["restore", "--at", "2026-11-01", "OUT"]),
        (3, ["show", "latest"]),
        (3, ["cat", "a.md"]),
        (3, ["log", "a.md"]),
        (3, ["grep", "a"]),
        (3, ["verify"]),
        (3, ["diff", "latest", "latest~1"]),
        (3, ["pin", "latest"]),
        (3, ["delete", "latest", "--yes"]),
        (3, ["export", "latest", "OUT"]),
        (3, ["status"]),
        (0, ["list"]),
        (0, ["prune", "--keep", "1", "--yes"]),
        (0, ["prune", "--keep", "1", "--dry-run"]),
        (0, ["run", "OUT", "--", sys.executable, "-c", ""]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_label_that_is_not_there_names_those_that_are(cli, vault, tmp_path, code, words):
    for number in range(10):
        save(vault, {"a.md": "x"}, label=f"agent-{number}")
    label = ["--label", "agent"]
    at = words.index("--") if "--" in words else len(words)
    words = [*words[:at], *label, *words[at:]]
    got, out, err = cli(*(word.replace("OUT", str(tmp_path / "out")) for word in words))
    assert got == code
    named = ", ".join(f"'agent-{number}'" for number in range(8))
    said = out + err
    assert "nothing is saved " in said
    assert f"there are {named} and 2 more" in said
    assert f"in the vault {vault.path}" in said


def test_list_shows_the_newest_first_and_marks_the_latest(cli, vault):
    first = save(vault, {"a.md": "x" * 5000}, at=NOON)
    second = save(vault, {"a.md": "y", "b.md": "z"}, at=NOON + timedelta(days=1))
    other = save(vault, {"a.md": "x"}, at=NOON + timedelta(days=2), label="other")
    code, out, err = cli("list")
    assert (code, err) == (0, "")
    heads, *rows, foot = out.splitlines()
    assert heads.split() == ["id", "label", "created", "size", "stored", "signed", "by", "remarks"]
    assert [row[:31] for row in rows] == [f"* {other.snapshot_id}", f"* {second.snapshot_id}", f"  {first.snapshot_id}"]
    assert rows[2].split()[1:] == [
        *("default", "2026-11-01", "12:00", "UTC", "5.0", "kB"),
        *text.size(first.stored_bytes).split(),
        "-",
        *["kept,", "as", "much", "less", "followed"],
    ]
    assert foot == "3 snapshots; * is the latest, which restore gives"
    assert len(cli("list", "--label", "other")[1].splitlines()) == 3
    listed = json.loads(cli("list", "--json", "--label", "default")[1])["snapshots"]
    assert [each["snapshot_id"] for each in listed] == [second.snapshot_id, first.snapshot_id]
