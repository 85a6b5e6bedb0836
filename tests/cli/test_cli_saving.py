"""The options that say how folders are saved, of every verb that saves."""

from __future__ import annotations

from datetime import timedelta

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
