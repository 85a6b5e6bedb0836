"""Which snapshot is meant."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from snapshots import NOON

from colony_memory import SnapshotInfo, SnapshotNotFound
from colony_memory.shell.app import pick
from colony_memory.shell.app.pick import made_at, stamp


def snapshot(snapshot_id, *, head="", created_at="2026-11-01T12:00:00Z"):
    return SnapshotInfo(snapshot_id, "default", created_at, ["a.md"], 1, 10, "sha256:" + "0" * 64, head=head)


IDS = [f"2026110{day}T120000000000Z-aaaaa{day}" for day in range(1, 8)]
INFOS = [snapshot(each, head="head" if each == IDS[5] else "") for each in IDS]
LATER = snapshot("handmade")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (IDS[2], IDS[2]),
        (IDS[2][:8], IDS[2]),
        ("hand", "handmade"),
        ("latest", IDS[5]),
        ("latest~0", IDS[5]),
        ("latest~1", IDS[4]),
        ("latest~5", IDS[0]),
        ("latest~6", "handmade"),
    ],
)
def test_what_a_text_names(text, found):
    assert pick.resolve([*INFOS, LATER], text, label="default").snapshot_id == found


def test_without_a_pointer_the_newest_is_the_latest():
    infos = [snapshot(each) for each in IDS]
    assert pick.resolve(infos, "latest", label="default").snapshot_id == IDS[-1]


def test_what_is_found_is_of_the_label(memory):
    first, second = memory.backup({"a.md": "1"}), memory.backup({"a.md": "2"})
    other = memory.backup({"a.md": "3"}, label="other")
    assert pick.find(memory, "latest", label="default").snapshot_id == second.snapshot_id
    assert pick.find(memory, "latest~1", label="default").snapshot_id == first.snapshot_id
    assert pick.find_id(memory, other.snapshot_id[:-1], label="other") == other.snapshot_id
    with pytest.raises(SnapshotNotFound, match=r"under label 'default'$"):
        pick.find(memory, other.snapshot_id, label="default")
    nothing = r"nothing is saved yet under label 'none'; there are 'default', 'other'$"
    for text in ("latest", "latest~3", "2026"):
        with pytest.raises(SnapshotNotFound, match=nothing):
            pick.find(memory, text, label="none")
    assert pick.latest_ids(memory, memory.list_snapshots()) == {second.snapshot_id, other.snapshot_id}
    # As 0.1.1 leaves it, whose pointers have no head; what cannot be restored is no latest.
    headless = [replace(each, head="") for each in memory.list_snapshots()]
    assert pick.latest_ids(memory, headless) == {second.snapshot_id, other.snapshot_id}
    assert pick.latest_ids(memory, [replace(other, label="gone", head="")]) == set()
    memory.pin(snapshot_id=first.snapshot_id)
    assert [pick.with_pin(memory, each).pinned for each in (first, second)] == [True, False]


def test_of_a_time_the_newest_that_is_not_after_it(memory):
    infos = []
    for hours in range(3):
        memory._session.now = lambda hours=hours: NOON + timedelta(hours=hours)
        infos.append(memory.backup({"a.md": str(hours)}))
    for moment in (infos[1].created_at, NOON + timedelta(hours=1, minutes=59), "2026-11-01T14:59:59+01:00"):
        assert pick.find_at(memory, moment, label="default").snapshot_id == infos[1].snapshot_id


def test_what_a_list_shows_of_a_snapshot_names_it(memory):
    infos = []
    for minutes in range(3):
        memory._session.now = lambda minutes=minutes: NOON + timedelta(minutes=minutes)
        infos.append(memory.backup({"a.md": str(minutes)}))
    for info in infos:
        for shown in (stamp(made_at(info)), info.created_at, info.snapshot_id, f" {stamp(made_at(info))} "):
            assert pick.find_at(memory, shown, label="default").snapshot_id == info.snapshot_id


@pytest.mark.parametrize(
    ("text", "back"),
    [
        ("just now", timedelta()),
        ("30 minutes ago", timedelta(minutes=30)),
        ("3h ago", timedelta(hours=3)),
        ("1 Day ago", timedelta(days=1)),
        ("2y ago", timedelta(days=730)),
    ],
)
def test_an_age_is_counted_from_now(text, back):
    assert pick.parse_moment(text, now=NOON) == NOON - back
    assert pick.parse_moment(text) > NOON - timedelta(days=3000)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-01T12:00Z", "12:00:59.999999"),
        ("2026-11-01 12:00 UTC", "12:00:59.999999"),
        ("2026-11-01T12:00:07Z", "12:00:07.999999"),
        ("2026-11-01T12:00:07.0Z", "12:00:07"),
        ("20261101T120000300000Z-abcdef", "12:00:00.300000"),
    ],
)
def test_a_time_goes_to_the_end_of_its_last_unit(text, moment):
    assert pick.parse_moment(text) == datetime.fromisoformat(f"2026-11-01T{moment}+00:00")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "noon",
        "2026-11",
        "2026-13-01",
        "2026-11-01T25:00",
        "9999-12-31T23:59-23:59x",
        "3h",
        "ago",
        "99999y ago",
        "1e9d ago",
        "2026-11-01UTC",
    ],
)
def test_what_is_no_time(text):
    with pytest.raises(ValueError, match="is not a time"):
        pick.parse_moment(text)
