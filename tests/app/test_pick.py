"""Which snapshot is meant."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from colony_memory import SnapshotInfo, SnapshotNotFound
from colony_memory.app import pick

NOON = datetime(2026, 11, 1, 12, 0, 0, 300_000, tzinfo=timezone.utc)


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
    assert pick.resolve([*INFOS, LATER], text).snapshot_id == found


def test_an_id_that_is_the_beginning_of_another_names_itself():
    infos = [snapshot("a"), snapshot("ab")]
    assert pick.resolve(infos, "a").snapshot_id == "a"


def test_without_a_pointer_the_newest_is_the_latest():
    infos = [snapshot(each) for each in IDS]
    assert pick.resolve(infos, "latest").snapshot_id == IDS[-1]


def test_what_names_several_is_refused_with_the_candidates():
    with pytest.raises(ValueError, match=f"'2026' is the beginning of 7 ids: {', '.join(IDS[:5])} and 2 more"):
        pick.resolve(INFOS, "2026")
    with pytest.raises(ValueError, match=f"2 ids: {IDS[0]}, {IDS[1]}$"):
        pick.resolve(INFOS[:2], "2026")


@pytest.mark.parametrize("text", ["", "../x", "latest~", "latest~-1", "late st", "a" * 65, "é"])
def test_what_is_no_name_is_refused(text):
    with pytest.raises(ValueError, match="names no snapshot"):
        pick.resolve(INFOS, text)
    assert not pick.may_name_a_snapshot(text)


@pytest.mark.parametrize(
    ("infos", "text", "says"),
    [
        (INFOS, "2027", "no snapshot has an id that begins with '2027'"),
        (INFOS, "latest~6", "latest~6 is further back than the oldest snapshot"),
        ([], "latest", "nothing is saved yet"),
    ],
)
def test_what_is_not_there_is_not_found(infos, text, says):
    with pytest.raises(SnapshotNotFound, match=says):
        pick.resolve(infos, text)


def test_a_whole_id_needs_no_list():
    assert pick.find_id(None, IDS[0], label="default") == IDS[0]
