"""The options that say how folders are saved, of every verb that saves."""

from __future__ import annotations

import json
from datetime import timedelta

import cli_runs
import pytest

from colony_memory import Retention
from colony_memory.app.options import BackupOptions
from colony_memory.cli.options import SavingOptions


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
    # As the configuration file gives it.
    rules = Retention(keep_last=2)
    assert SavingOptions(keep=rules).parsed() == BackupOptions(retention=rules)
    several = SavingOptions(keep=2, keep_daily=7, keep_within="12h").parsed()
    assert several == BackupOptions(retention=Retention(keep_last=2, keep_daily=7, keep_within=timedelta(hours=12)))
    assert SavingOptions(keep_yearly=1).parsed() == BackupOptions(retention=Retention(keep_yearly=1))
    allowed = SavingOptions(allow_secret=["a.md:github-token"]).parsed()
    assert allowed.allow_secrets == ("a.md:github-token",)


@pytest.mark.parametrize("given", [("backup",), ("watch", "--once"), ("guard",)], ids=lambda given: given[0])
@pytest.mark.parametrize("policy", ["raise", "continue", "merge"])
def test_whose_save_a_verb_takes_the_place_of_or_joins_is_told_by_its_id(cli, vault, folder, given, policy):
    theirs = cli_runs.save(vault, {"theirs.md": "theirs\n"}).snapshot_id
    command = ["--", "true"] if given[0] == "guard" else []
    code, _, err = cli(*given, "--on-conflict", policy, "--quiet", folder, *command)
    assert (code, f"snapshot {theirs}" in err) == (0, True)


@pytest.mark.parametrize("given", [("backup",), ("watch", "--once"), ("guard",)], ids=lambda given: given[0])
def test_what_saves_deletes_by_rules_what_they_do_not_keep(cli, vault, folder, given):
    for text in ("one", "two two"):
        (folder / "MEMORY.md").write_text(text)
        assert cli("backup", "--quiet", folder)[0] == 0
    (folder / "MEMORY.md").write_text("three three")
    command = ["--", "true"] if given[0] == "guard" else []
    assert cli(*given, "--quiet", "--keep-daily", "1", folder, *command)[0] == 0
    assert len(json.loads(cli("list", "--json")[1])) == 1
