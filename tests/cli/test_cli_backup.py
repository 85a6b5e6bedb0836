"""backup: what it saves, says and leaves out, and how its options have it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from datetime import timedelta

import cli_runs
import pytest
from cli_runs import tree

from colony_memory import Retention
from colony_memory.app.options import BackupOptions
from colony_memory.cli.options import SavingOptions

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
    assert (len(err), err[-1]) == (11, "and 2 more; --verbose tells all")
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
        assert all(line.startswith(KNOWN) for line in (out + err).splitlines()), out + err


KNOWN = (
    "1 name excluded: ",
    "3 files",
    "4 files",
    "+ ",
    "error: ",
    "fits: ",
    "latest is ",
    "left out: ",
    "likely secret: ",
    "masked: ",
    "nothing ",
    "saved ",
    "since ",
    "warning: ",
    "would ",
    "~ ",
)


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


def test_options_are_parsed_into_those_of_every_face():
    given = SavingOptions(
        label="Notes",
        exclude=["*.log"],
        keep=3,
        secrets="mask",
        git=True,
        note="why",
        tag=["b", "a"],
        on_conflict="merge",
    )
    assert given.parsed() == BackupOptions(
        label="notes", exclude=("*.log",), prune_keep=3, secrets="mask", git=True, note="why", tags=("a", "b"),
        on_conflict="merge",
    )  # fmt: skip
    assert SavingOptions().parsed() == BackupOptions()
    several = SavingOptions(keep=2, keep_daily=7, keep_within="12h").parsed()
    assert several == BackupOptions(retention=Retention(keep_last=2, keep_daily=7, keep_within=timedelta(hours=12)))
    assert SavingOptions(keep_yearly=1).parsed() == BackupOptions(retention=Retention(keep_yearly=1))
    allowed = SavingOptions(allow_secret=["a.md:github-token"]).parsed()
    assert allowed.allow_secrets == ("a.md:github-token",)


POSIX = cli_runs.POSIX
