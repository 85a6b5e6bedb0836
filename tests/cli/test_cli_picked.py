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


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("verb", [["show"], ["verify"], ["delete", "--yes"], ["diff"]])
def test_a_snapshot_of_another_label_is_pointed_to(refused, vault, verb, whole):
    save(vault, {"a.md": "x"})
    info = save(vault, {"a.md": "y"}, label="other")
    text = info.snapshot_id if whole else info.snapshot_id[:-2]
    assert "there is one under 'other': give that label" in refused(3, *verb, text)
    assert "; there is one" not in refused(3, *verb, "2020")
