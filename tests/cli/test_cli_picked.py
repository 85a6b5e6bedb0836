"""Snapshots as people name them, with every verb that takes one."""

from __future__ import annotations

from datetime import timedelta

import pytest
from cli_runs import NOON, save


@pytest.mark.parametrize(
    "verb", [["show"], ["verify"], ["diff"], ["delete", "--yes"], ["restore", "out", "--force", "--snapshot"]]
)
def test_every_verb_takes_them(cli, refused, vault, verb):
    first = save(vault, {"a.md": "x"}, at=NOON)
    second = save(vault, {"a.md": "y"}, at=NOON + timedelta(days=1))
    assert "2 ids" in refused(2, *verb, first.snapshot_id[:6])
    assert "further back" in refused(3, *verb, "latest~2")
    if verb not in (["diff"], ["verify"]):  # to them it is a path
        assert "names no snapshot" in refused(2, *verb, "latest~")
    code, out, err = cli(*verb, "latest~1", "--json")
    assert (code, err) == (0, "")
    assert first.snapshot_id in out
    code, out, _ = cli(*verb, second.snapshot_id[:8], "--json")
    assert code == 0
    assert second.snapshot_id in out
