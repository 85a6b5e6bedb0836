"""What a backup had to leave out goes into the snapshot, and whoever looks at it is told."""

from __future__ import annotations

import json
import os

import pytest
from cli_runs import POSIX


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
