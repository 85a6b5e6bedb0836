"""Sizes, times, lines and tables of the command line."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from cli_runs import NOON, snapshot

from colony_memory.app.save import Saved
from colony_memory.capture import Capture, Written
from colony_memory.cli import summary, tables
from colony_memory.words import text


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (99_949, "99.9 kB"),
        (99_950, "100 kB"),
        (999_499, "999 kB"),
        (999_500, "1.0 MB"),
        (10_000_000, "10.0 MB"),
        (84 * 10**9, "84.0 GB"),
        (5 * 10**12, "5.0 TB"),
        (5 * 10**15, "5000 TB"),
    ],
)
def test_sizes(count, said):
    assert text.size(count) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "just now"),
        (0.9, "just now"),
        (1, "1s ago"),
        (59, "59s ago"),
        (61, "1m ago"),
        (7200, "2h ago"),
        (3 * 86400, "3d ago"),
        (800 * 86400, "2y ago"),
        (-7300, "in 2h"),
    ],
)
def test_ages(seconds, said):
    assert text.age(NOON, NOON + timedelta(seconds=seconds)) == said


def test_ages_of_the_first_and_the_last_moment():
    assert text.age(datetime.min.replace(tzinfo=timezone.utc), NOON).endswith("y ago")
    assert text.age(datetime.max.replace(tzinfo=timezone.utc), NOON).startswith("in ")


def test_signers_are_told_apart_by_the_beginning_of_their_key():
    key = "did:key:z6MkehRgf7yJbgaGfYsdoAsKdBPE3dj2CYhowQdcjqSJgvVd"
    assert text.signer(snapshot()) == "-"
    assert text.signer(snapshot(signed=True, issuer=key)) == "z6MkehRgf7"
    assert text.signer(snapshot(signed=True)) == "?"
    assert text.signer(snapshot(signed=True, issuer="\x1b[31m")) == r"\x1b[31m"


def test_a_table_in_a_file_is_never_cut():
    label = "l" * 150
    row = tables.snapshot_table([snapshot(label=label)], latest=(), now=NOON).splitlines()[1]
    assert label in row
    assert row.endswith(" -")


def test_a_summary_counts_what_there_is():
    written = Written(created=(), replaced=("a",), unchanged=("b", "c"), directories=("x", "y"))
    lines = summary.restore_lines(snapshot(), written, directory="out", dry_run=False, now=NOON)
    assert lines[-1] == "out: 0 created, 2 empty folders, 1 replaced, 2 unchanged"
    saved = Saved(snapshot(stored_bytes=0), Capture({"a.md": "ten  bytes"}, ()))
    assert summary.backup_lines(saved, now=NOON)[1] == "1 file, 10 B, stored as -"


def test_the_record_of_a_folder_is_no_part_of_its_size(cli, vault, tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.md").write_text("7 bytes")
    assert cli("backup", "--dry-run", folder)[1].startswith("would save 1 file, 7 B to label default\n")
    for _ in range(2):
        assert "1 file, 7 B, stored as " in cli("backup", folder)[1]


def test_a_name_is_cut_where_no_path_is_so_long_and_a_line_of_a_text_never():
    name = "n" * 4096
    assert text.shown(name) == name
    assert text.shown(name + "\n" * 5) == f"{name}… and 5 characters more"
    assert text.shown_with_tabs("\x1b" + name * 3) == "\\x1b" + name * 3
