"""backup: what it saves, says and leaves out, how its options have it, and what a dry run tells of it."""

import json
import os
import shlex
import shutil
import sqlite3
import subprocess
from contextlib import closing
from datetime import timedelta

import cli_runs
import pytest
from cli_runs import NOON, save, tree

from colony_memory import ColonyMemory, Retention
from colony_memory.shell.app.options import BackupOptions
from colony_memory.shell.cli import output
from colony_memory.shell.cli.app import SavingOptions
from colony_memory.testing import FakeVault, VaultServer

TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5"


def test_secrets_stop_a_backup_until_they_are_allowed(folder, vault, cli, refused):
    (folder / "keys.md").write_text(f"x\n{TOKEN}\n")
    code, out, err = cli("backup", folder)
    assert (code, out) == (1, "")
    found, line = err.splitlines()
    assert found.startswith("likely secret: keys.md:2: GitHub token; try: colony-memory backup ")
    assert line.startswith("error: nothing was saved: 1 likely secret; ")
    assert line.endswith(" --secrets mask")
    assert TOKEN not in err
    assert set(tree(vault.path)) == {".cmem-vault.json", ".lock"}
    code, _, err = cli("backup", folder, "--secrets", "warn")
    assert code == 0
    assert err.startswith("warning: a likely secret is saved: keys.md:2: GitHub token; have secrets masked, or allow ")
    assert cli("backup", folder, "--secrets", "allow")[::2] == (0, "")
    assert "invalid value for '--secrets': 'no' is not one of" in refused(2, "backup", folder, "--secrets", "no")


def test_many_secrets_are_ten_lines_and_a_count(folder, vault, cli):
    for number in range(12):
        (folder / f"{number:02}.md").write_text(TOKEN)
    err = cli("backup", folder)[2].splitlines()
    assert len(err) == 12
    assert err[10] == "and 2 more likely secrets"
    objects = [json.loads(line) for line in cli("backup", folder, "--json")[2].splitlines()]
    assert objects[0]["hint"].startswith("colony-memory backup ")
    assert objects[-1]["kind"] == "SecretsFound"
    err = cli("backup", folder, "--secrets", "mask")[2].splitlines()
    assert (len(err), err[-1]) == (11, "and 2 more; --verbose shows all")
    assert len(cli("backup", folder, "--secrets", "mask", "--verbose")[2].splitlines()) == 12


def test_a_memory_that_shrank_is_told_with_the_way_back(folder, vault, cli, tmp_path):
    for number in range(9):
        (folder / f"{number}.md").write_text("x" * 100)
    cli("backup", folder)
    before = tree(folder)
    for number in range(9):
        (folder / f"{number}.md").unlink()
    code, out, err = cli("backup", folder, "--quiet")
    assert (code, out) == (0, "")
    assert err.startswith("warning: this backup holds less than half of the one before: 2 files, 1 empty folder, ")
    words = shlex.split(err.partition("; try: ")[2].replace(" DIR", f" {tmp_path / 'back'}"))
    assert cli(*words[1:])[0] == 0
    assert tree(tmp_path / "back") == before
    assert cli("backup", folder, "--quiet") == (0, "", "")
    (folder / "more.md").write_text("x" * 5000)
    cli("backup", folder)
    (folder / "more.md").unlink()
    answer = json.loads(cli("backup", folder, "--json")[1])
    assert answer["snapshot"]["shrunk_from"] == answer["snapshot"]["parent_id"]


def test_names_off_the_disk_cannot_command_a_terminal(folder, vault, cli):
    evil = "a\x1b[2J\nb"
    (folder / f"{evil}.log").write_text("x")
    (folder / f"{evil}.md").write_text(TOKEN)
    os.mkfifo(folder / f"{evil}.pipe")
    for options in ([], ["-n"], ["--secrets", "mask"], ["--secrets", "warn", "-n"], ["--secrets", "allow"]):
        _, out, err = cli("backup", folder, "--exclude", "*.log", "--verbose", *options)
        assert "\x1b" not in out + err
        assert not any(line.startswith("b.") for line in (out + err).splitlines()), out + err


def test_masked_secrets_are_told(folder, vault, cli, tmp_path):
    (folder / "keys.md").write_text(f"x\n{TOKEN}\n")
    code, _, err = cli("backup", folder, "--secrets=mask")
    assert (code, err) == (0, "masked: keys.md:2: GitHub token\n")
    answer = json.loads(cli("backup", folder, "--secrets=mask", "--json")[1])
    assert answer["masked"] == ["keys.md"]
    (found,) = answer["secrets"]
    assert (found.pop("id")[:21], found) == (
        "keys.md:github-token:",
        {"name": "keys.md", "line": 2, "kind": "GitHub token"},
    )
    assert cli("restore", tmp_path / "dst")[0] == 0
    assert (tmp_path / "dst/keys.md").read_text() == "x\nghp_[masked: GitHub token]\n"


@pytest.mark.skipif(not shutil.which("git"), reason="needs git")
def test_a_repository_is_noted_and_taken_as_a_bundle(folder, vault, cli, tmp_path):
    subprocess.run(["git", "init", "-q", folder], check=True)
    commit = ["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q"]
    subprocess.run([*commit, "--allow-empty", "-m", "first"], check=True)
    code, _, err = cli("backup", folder)
    assert (code, err) == (0, ".git: git repository, not saved\n")
    assert json.loads(cli("backup", folder, "--json")[1])["notes"][0]["name"] == ".git"
    bundle = "--before", "git -c pack.threads=1 bundle create -q memory.bundle --all"
    assert "unchanged" not in cli("backup", folder, *bundle)[1]
    assert "unchanged" in cli("backup", folder, *bundle)[1]
    assert cli("restore", tmp_path / "dst")[0] == 0
    assert (tmp_path / "dst/memory.bundle").read_bytes().startswith(b"# v")


def test_options_are_parsed_into_those_of_every_face():
    given = SavingOptions(
        label="Notes", exclude=["*.log"], keep=3, secrets="mask", note="why", tag=["b", "a"], on_conflict="merge"
    )
    assert given.parsed() == BackupOptions(
        label="notes", exclude=("*.log",), prune_keep=3, secrets="mask", note="why", tags=("a", "b"),
        on_conflict="merge",
    )  # fmt: skip
    assert SavingOptions().parsed() == BackupOptions()
    several = SavingOptions(keep=2, keep_daily=7, keep_within="12h").parsed()
    assert several == BackupOptions(retention=Retention(keep_last=2, keep_daily=7, keep_within=timedelta(hours=12)))
    assert SavingOptions(keep_yearly=1).parsed() == BackupOptions(retention=Retention(keep_yearly=1))
    allowed = SavingOptions(allow_secret=["a.md:github-token"]).parsed()
    assert allowed.allow_secrets == ("a.md:github-token",)


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
