from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from timelines import DAY, NOW, TIMELINES, Agent, at, unhurried

from colony_memory._format.names import id_order
from colony_memory.retention import (
    SHRINK_GRACE,
    Retention,
    Shrink,
    before_shrink,
    created,
    newest_first,
    plan,
)

if TYPE_CHECKING:
    from colony_memory.snapshot import SnapshotInfo

SMALL = {
    "steady": lambda n: 200 + n % 7,
    "growing": lambda n: 200 + 10 * n,
    "up and down": lambda n: 400 if n % 2 else 1000,
    "far up and down": lambda n: (30_000, 1000, 20)[n % 3],
    "shrinking": lambda n: max(1, 40_000 >> n % 16),
    "empty": lambda n: 0,
}


@pytest.mark.parametrize("small", SMALL.values(), ids=SMALL)
@pytest.mark.parametrize(
    "rules",
    [{"keep_last": 2}, {"keep_last": 1}, {"keep_last": 0}, {"keep_within": timedelta(minutes=1)}, {"keep_daily": 1}],
    ids=str,
)
def test_a_memory_that_a_small_one_followed_stays_for_thirty_days(rules: dict[str, Any], small: Any) -> None:
    agent = Agent(**rules)
    start = NOW.replace(microsecond=123_456)
    agent.save(start - DAY, 99_000)
    big = agent.save(start, 100_000)
    step = 29 * DAY / 200
    for n in range(200):
        agent.save(start + (n + 1) * step, small(n))
        assert agent.holds(big), n
        assert len(agent.held) <= 8
    agent.save(start + step + SHRINK_GRACE - timedelta(seconds=2), 300)
    assert agent.holds(big)
    agent.save(start + step + SHRINK_GRACE, 301)
    assert not agent.holds(big)


def test_a_memory_that_comes_back_is_kept_by_the_rules_again() -> None:
    agent = Agent(keep_last=2)
    big = agent.save(NOW, 100_000)
    for n in range(1, 10):
        agent.save(NOW + n * DAY, 200 + n)
    again = agent.save(NOW + 10 * DAY, 100_000)
    more = agent.save(NOW + 11 * DAY, 101_000)
    assert agent.holds(again)
    assert agent.holds(more)
    assert agent.holds(big)  # until its thirty days are over
    last = [agent.save(NOW + n * DAY, 101_000 + n) for n in range(32, 34)]
    assert newest_first(agent.held) == newest_first(last)


def test_a_note_outlives_the_snapshot_that_it_came_from() -> None:
    big, small, later = at(NOW - 20 * DAY, size=1000), at(NOW - 19 * DAY, size=10), at(NOW, size=900)
    assert before_shrink([big, small, later], now=NOW) == {big.snapshot_id: Shrink(NOW - 19 * DAY)}
    noted = {big.snapshot_id: Shrink(NOW - 19 * DAY), "gone": Shrink(NOW)}
    assert before_shrink([big, later], now=NOW, noted=noted) == {big.snapshot_id: Shrink(NOW - 19 * DAY)}
    assert before_shrink([big, later], now=NOW) == {}
    assert before_shrink([big, later], now=NOW + 11 * DAY, noted=noted) == {}


def test_fewer_than_half_of_the_documents_are_a_shrink_too() -> None:
    def of(days: int, documents: int, size: int = 1000, **more: Any) -> SnapshotInfo:
        count = None if more.get("encrypted") else documents
        return replace(at(NOW - days * DAY, size=size), doc_names=[], doc_count=count, **more)

    many, few = of(3, 40), of(2, 19)
    assert before_shrink([many, few], now=NOW) == {many.snapshot_id: Shrink(created(few))}
    assert before_shrink([many, of(2, 20)], now=NOW) == {}
    # Many small documents are not what a few large ones take the place of, and the other way round.
    large, small = of(5, 2, 90_000), of(4, 2, 100)
    found = before_shrink([large, small, many, few], now=NOW)
    assert set(found) == {large.snapshot_id, many.snapshot_id}
    # What is encrypted and was not opened tells neither: what is stored of both is compared.
    hidden = of(2, 0, 0, encrypted=True)
    assert before_shrink([many, hidden], now=NOW) == {}
    large, small = (replace(hidden, snapshot_id=name, stored_bytes=stored) for name, stored in (("a", 900), ("b", 400)))
    assert before_shrink([large, small], now=NOW).keys() == {"a"}
    assert before_shrink([large, replace(small, stored_bytes=450)], now=NOW) == {}
    assert before_shrink([large, replace(small, stored_bytes=0)], now=NOW) == {}
    opened = replace(hidden, doc_count=40, byte_size=400)
    assert before_shrink([many, opened], now=NOW) == {many.snapshot_id: Shrink(created(hidden))}


def test_an_explicit_prune_shows_what_a_backup_would_keep_and_removes_it() -> None:
    infos = [at(NOW - 3 * DAY, size=1000), at(NOW - 2 * DAY, size=10), at(NOW - DAY, size=11)]
    shrunk = before_shrink(infos, now=NOW)
    big = infos[0].snapshot_id
    told = plan(infos, retention=Retention(keep_last=1), now=NOW, shrunk=shrunk)
    assert told.reasons[big] == ("before-shrink",)
    assert infos[0] in told.remove
    spared = plan(infos, retention=Retention(keep_last=1), now=NOW, shrunk=shrunk, keep_shrunk=True)
    assert infos[0] in spared.keep
    assert infos[1] in spared.remove
    gone = plan(infos[1:], retention=Retention(keep_last=1), now=NOW, shrunk=shrunk, keep_shrunk=True)
    assert big not in gone.reasons


@unhurried
@given(TIMELINES)
def test_what_is_found_before_a_shrink_was_followed_by_less_than_half(infos: list[SnapshotInfo]) -> None:
    ordered = newest_first(infos)
    found = before_shrink(infos, now=NOW)
    # Since when, at the latest: a follower of before is from a clock that was reset.
    followed = {
        info.snapshot_id: created(follower) if created(follower) >= created(info) else NOW
        for follower, info in pairwise(ordered)
        if follower.byte_size * 2 < info.byte_size
    }
    live = {snapshot_id: since for snapshot_id, since in followed.items() if NOW - since < SHRINK_GRACE}
    assert {snapshot_id: shrink.since for snapshot_id, shrink in found.items()}.items() <= live.items()
    assert bool(found) == bool(live)
    if live:
        assert max(live, key=id_order) in found
        sizes = {info.snapshot_id: info.byte_size for info in infos}
        largest = max(sizes[snapshot_id] for snapshot_id in live)
        assert 2 * max(sizes[snapshot_id] for snapshot_id in found) > largest
        assert len(found) <= 2 + largest.bit_length()


@pytest.mark.parametrize("made", ["1970-01-01T00:00:00Z", "2000-01-01T00:00:00Z"])
def test_a_follower_whose_clock_was_reset_is_a_follower(made: str) -> None:
    """An agent that wakes without its clock and without its memory: ids go on, created_at does not."""
    big = at(NOW, size=100_000)
    small = at(NOW + timedelta(microseconds=1), size=200, made=made)
    later = NOW + timedelta(hours=1)
    assert before_shrink([big, small], now=later) == {big.snapshot_id: Shrink(later)}


def test_a_memory_that_was_made_smaller_on_purpose_is_not_what_is_kept_instead() -> None:
    """300 kB tidied up to 100 kB; a week later the agent starts empty, and its small memory goes up and down."""
    agent = Agent(keep_last=2)
    agent.save(NOW, 300_000)
    real = agent.save(NOW + DAY, 100_000)
    for n in range(28):
        agent.save(NOW + (8 + n / 2) * DAY, 400 if n % 2 else 1000)
        assert agent.holds(real), n
