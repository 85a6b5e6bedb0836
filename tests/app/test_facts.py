"""What a summary of a snapshot tells beyond its fields."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from colony_memory import SnapshotInfo
from colony_memory.app.pick import count_left_out, left_out, made_at

NOON = datetime(2026, 11, 1, 12, 0, 0, 300_000, tzinfo=timezone.utc)


def snapshot(**changes):
    given = {"snapshot_id": "20261101T120000300000Z-abcdef", "created_at": "2026-11-01T12:00:00Z", **changes}
    return SnapshotInfo(
        label="default", doc_names=["a.md"], part_count=1, byte_size=10, plaintext_sha256="sha256:" + "0" * 64, **given
    )


@pytest.mark.parametrize(
    ("changes", "moment"),
    [
        ({}, NOON),
        ({"snapshot_id": "handmade"}, NOON.replace(microsecond=0)),
        ({"created_at": "2026-11-01T11:59:00Z"}, datetime(2026, 11, 1, 11, 59, tzinfo=timezone.utc)),
        ({"created_at": "9999-12-31T23:59:59Z"}, NOON),
        ({"created_at": "?"}, NOON),
        ({"created_at": "?", "snapshot_id": "x"}, datetime.min.replace(tzinfo=timezone.utc)),
    ],
)
def test_when_a_snapshot_was_made(changes, moment):
    assert made_at(snapshot(**changes)) == moment


def test_what_is_lacking_is_told_by_a_few_names_and_the_number():
    lines = tuple(f"{number}.md: gone" for number in range(5))
    assert left_out(snapshot(incomplete=lines[:1])) == "1 left out: 0.md: gone"
    assert left_out(snapshot(incomplete=lines)) == "5 left out: 0.md: gone; 1.md: gone; 2.md: gone; and 2 more"
    # As a catalogue has it, which is cut.
    assert (
        left_out(snapshot(incomplete=(*lines[:2], "and 9 more"))) == "11 left out: 0.md: gone; 1.md: gone; and 9 more"
    )
    assert [count_left_out(snapshot(incomplete=each)) for each in ((), lines, (*lines, "and 7 more"))] == [0, 5, 12]
