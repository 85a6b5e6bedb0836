"""What ``backup`` says of a folder beside its files."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

pytest.importorskip("typer")

import cli_runs
from cli_runs import tree

from colony_memory.cli import progress
from colony_memory.cli.output import Output

environment, folder, vault, cli, refused = (
    cli_runs.environment,
    cli_runs.folder,
    cli_runs.vault,
    cli_runs.cli,
    cli_runs.refused,
)
TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5"


def test_secrets_stop_a_backup_until_they_are_allowed(folder, vault, cli, refused):
    (folder / "keys.md").write_text(f"x\n{TOKEN}\n")
    line = refused(1, "backup", folder)
    assert "nothing was saved: keys.md:2: GitHub token; " in line
    assert line.endswith(" --secrets mask")
    assert TOKEN not in line
    assert set(tree(vault.path)) == {".cmem-vault.json", ".lock"}
    code, _, err = cli("backup", folder, "--secrets", "warn")
    assert code == 0
    assert err.startswith("warning: likely secrets are saved: keys.md:2: GitHub token; try: colony-memory backup ")
    assert cli("backup", folder, "--secrets", "allow")[::2] == (0, "")
    assert "secrets must be one of" in refused(2, "backup", folder, "--secrets", "no")


def test_masked_secrets_are_told(folder, vault, cli, tmp_path):
    (folder / "keys.md").write_text(f"x\n{TOKEN}\n")
    code, _, err = cli("backup", folder, "--secrets=mask")
    assert (code, err) == (0, "1 likely secret masked: keys.md:2: GitHub token\n")
    answer = json.loads(cli("backup", folder, "--secrets=mask", "--json")[1])
    assert answer["masked"] == ["keys.md"]
    assert answer["secrets"] == [{"name": "keys.md", "line": 2, "kind": "GitHub token"}]
    assert cli("restore", tmp_path / "dst")[0] == 0
    assert (tmp_path / "dst/keys.md").read_text() == "x\nghp_[masked: GitHub token]\n"


def test_what_is_excluded_is_counted(folder, vault, cli):
    (folder / ".cmemignore").write_text("*.log\nlogs/\n")
    (folder / "a.log").write_text("x")
    code, out, err = cli("backup", folder)
    assert (code, err) == (0, "2 names excluded by .cmemignore\n")
    assert out.startswith("saved ")
    assert cli("backup", folder, "--quiet") == (0, "", "")
    assert json.loads(cli("backup", folder, "--json")[1])["ignored"] == ["a.log", "logs/"]


@pytest.mark.skipif(not shutil.which("git"), reason="needs git")
def test_a_repository_is_noted_or_taken(folder, vault, cli, tmp_path):
    subprocess.run(["git", "init", "-q", folder], check=True)
    commit = ["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q"]
    subprocess.run([*commit, "--allow-empty", "-m", "first"], check=True)
    code, _, err = cli("backup", folder)
    assert (code, err) == (0, ".git: git repository, not saved unless git is asked for\n")
    assert json.loads(cli("backup", folder, "--json")[1])["notes"][0]["name"] == ".git"
    assert cli("backup", folder, "--git")[::2] == (0, "")
    assert "unchanged" in cli("backup", folder, "--git")[1]
    assert cli("restore", tmp_path / "dst")[0] == 0
    assert (tmp_path / "dst/.git.bundle").read_bytes().startswith(b"# v")


def test_several_paths_keep_apart_what_has_the_same_name(folder, vault, cli, tmp_path):
    (tmp_path / "other/notes").mkdir(parents=True)
    (tmp_path / "other/notes/a.md").write_text("a")
    assert cli("backup", folder / "notes", tmp_path / "other/notes", folder / "MEMORY.md")[0] == 0
    assert cli("restore", tmp_path / "dst")[0] == 0
    assert set(tree(tmp_path / "dst")) == {"MEMORY.md", "memory/notes/caf\u00e9.md", "other/notes/a.md"}


def test_an_open_database_is_saved_once_where_nothing_changes(folder, vault, cli):
    with closing(sqlite3.connect(folder / "memory.db", isolation_level=None)) as database:
        for statement in ("PRAGMA journal_mode=WAL", "CREATE TABLE t(x)", "INSERT INTO t VALUES (1)"):
            database.execute(statement).fetchall()
        assert cli("backup", folder)[1].startswith("saved ")
        assert cli("backup", folder)[1].startswith("unchanged ")
        database.execute("INSERT INTO t VALUES (2)")
        assert cli("backup", folder)[1].startswith("saved ")
    assert cli("backup", folder)[1].startswith("unchanged ")


def test_a_loop_of_links_is_named(folder, vault, refused, tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    assert "'loop' cannot be read: " in refused(2, "backup", "loop")


def test_a_terminal_shows_how_much_was_read(monkeypatch, capsys):
    pytest.importorskip("rich")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    shown = []
    with progress.show_reading(Output()) as on_progress:
        import rich.status

        monkeypatch.setattr(rich.status.Status, "update", lambda _, text: shown.append(text.plain))
        on_progress(1, 2_000, "a.md")
        on_progress(2, 3_000, "b.md")
    assert shown == ["Reading: 1 file, 2.0 kB", "Reading: 2 files, 3.0 kB"]
    with progress.show_reading(Output(quiet=True)) as on_progress:
        assert on_progress is None
