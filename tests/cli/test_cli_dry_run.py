"""``backup --dry-run`` tells all of what a backup would do, and changes nothing."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing

import cli_runs
import pytest
from cli_runs import NOON, save

from colony_memory import ColonyMemory
from colony_memory.cli import output
from colony_memory.testing import FakeVault, VaultServer


def everything(path):
    """Each entry with what shows whether it was touched."""
    found = {}
    for entry in sorted(path.rglob("*")):
        status = entry.lstat()
        found[str(entry)] = status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino
    return found


def test_a_first_one_makes_neither_vault_nor_state(folder, cli, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    before = everything(tmp_path)
    code, out, err = cli("backup", "--dry-run", folder)
    assert code == 0
    first, second, third, last = out.splitlines()
    assert (first, second) == (
        "would save 2 files, 1 empty folder, 16 B to label default",
        "nothing is saved yet under it",
    )
    assert third.startswith("fits: takes about 1.")
    assert last == "nothing written"
    assert err == f"the first backup makes the local vault {tmp_path}/data/colony-memory/vault\n"
    answer = json.loads(cli("backup", "-n", folder, "--json")[1])
    assert (answer["snapshot"], answer["dry_run"], answer["would"]["latest"]) == (None, True, None)
    assert everything(tmp_path) == before


def test_it_tells_what_changed_and_changes_nothing(folder, vault, cli, tmp_path):
    pytest.importorskip("cryptography")
    witness, key = tmp_path / "witness.json", tmp_path / "key.pem"
    cli("keygen", key)
    trusted = ["--witness", witness, "--key-file", key]
    with closing(sqlite3.connect(folder / "memory.db", isolation_level=None)) as database:
        for statement in ("PRAGMA journal_mode=WAL", "CREATE TABLE t(x)", "INSERT INTO t VALUES (1)"):
            database.execute(statement).fetchall()
        assert cli("backup", folder, *trusted)[0] == 0
        # A witness that fell behind would be told by whoever reads.
        heads = witness.read_text()
        (folder / "other.md").write_text("more")
        assert cli("backup", folder, *trusted)[0] == 0
        witness.write_text(heads)
        (folder / "MEMORY.md").write_text("three years\n")
        (folder / "other.md").unlink()
        (folder / "new\x1b[2J.md").write_text("x")
        before = everything(tmp_path)
        code, out, err = cli("backup", "-n", folder, "--keep", "1", *trusted)
        assert everything(tmp_path) == before
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[1].endswith(": 1 added, 1 removed, 1 changed")
    assert lines[2:5] == ["~ MEMORY.md  +1 -1 lines", "+ new\\x1b[2J.md", "- other.md"]
    assert lines[5].startswith("fits: takes about ")
    assert lines[6:] == ["would then delete 2 older snapshots", "nothing written"]
    assert len(ColonyMemory(backend=vault).list_snapshots()) == 2


def test_colours_stay_colours_on_a_terminal(folder, vault, cli, monkeypatch):
    cli("backup", folder)
    (folder / "new\x1b[2J.md").write_text("x")
    monkeypatch.setattr(output, "draws", lambda _: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    for verb in (["backup", "-n", folder], ["status", folder], ["diff", "latest", folder]):
        out = cli(*verb)[1]
        assert "\x1b[32m+ new\\x1b[2J.md\x1b[0m\n" in out


def test_unchanged_memory_would_write_nothing(folder, vault, cli):
    cli("backup", folder, "--tag", "a")
    code, out, _ = cli("backup", "-n", folder)
    assert (code, out.splitlines()[0][:60]) == (
        0,
        "would write nothing to label default: unchanged since " + out[54:60],
    )
    assert cli("backup", "-n", folder, "--tag", "a")[1].startswith("would write nothing ")
    assert cli("backup", "-n", folder, "--tag", "b")[1].startswith("would save ")
    assert cli("backup", "-n", folder, "--note", "x")[1].startswith("would save ")
    assert json.loads(cli("backup", "-n", folder, "--json")[1])["would"]["unchanged"] is True


def test_what_does_not_fit_is_told(folder, cli, monkeypatch):
    small = FakeVault(quota_bytes=10_000)
    memory = ColonyMemory(backend=small)
    for number in range(3):
        memory.backup({"a.md": f"{number}" + os.urandom(1_500).hex()})
    monkeypatch.setenv("COLONY_API_KEY", "col_test")
    (folder / "large.md").write_bytes(os.urandom(1_500).hex().encode())
    with VaultServer(small) as server:
        monkeypatch.setenv("COLONY_BASE_URL", server.url)
        files = dict(small.files)
        code, out, _ = cli("backup", "-n", folder)
        assert code == 1
        assert "a snapshot of label 'default' does not fit: it takes about " in out
        # A retention lets older ones go.
        assert cli("backup", "-n", folder, "--keep", "1")[0] == 0
        (folder / "large.md").write_bytes(os.urandom(9_000).hex().encode())
        answer = json.loads(cli("backup", "-n", folder, "--keep", "1", "--json")[1])
        assert (answer["would"]["fits"], answer["would"]["available_bytes"] < 3_000) == (False, True)
        assert small.files == files


def test_a_latest_that_cannot_be_read_is_told(folder, vault, cli):
    info = save(vault, {"a.md": "x"}, at=NOON)
    cli_runs.damage(vault, info)
    code, out, _ = cli("backup", "-n", folder)
    assert code == 0
    assert "the latest cannot be compared: " in out
