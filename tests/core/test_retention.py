from dataclasses import replace
from datetime import datetime, timedelta, timezone
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from snapshot_files import unhurried
from timelines import DAY, NOW, RULES, TIMELINES, UTC, Agent, at

from colony_memory._format.names import id_order, read_stamp
from colony_memory.retention import SHRINK_GRACE, Retention, Shrink, before_shrink, by_texts, newest_first, plan
from colony_memory.snapshot import SnapshotInfo, created


def kept(infos, *, now=NOW, head=None, **rules):
    made = plan(infos, retention=Retention(**rules), now=now, head=head)
    return [f"{created(info):%m-%d %H:%M}" for info in made.keep]


def days(*texts):
    return [at(text) for text in texts]


# --- the policy ---


def test_a_retention_without_a_rule_is_refused():
    with pytest.raises(ValueError, match="would remove everything: give at least one"):
        Retention()


@pytest.mark.parametrize("rule", ["last", "hourly", "daily", "weekly", "monthly", "yearly"])
@pytest.mark.parametrize("value", [-1, 1.0, "3", True, DAY])
def test_a_rule_is_a_count(rule, value):
    with pytest.raises(ValueError, match=f"keep_{rule}=.* must not be negative, and a count"):
        Retention(**{f"keep_{rule}": value})


@pytest.mark.parametrize("value", [-timedelta(microseconds=1), 7, 7.0, "7d"])
def test_keep_within_is_a_span(value):
    with pytest.raises(ValueError, match=r"keep_within=.* must not be negative, and a timedelta"):
        Retention(keep_within=value)


# --- times ---


@pytest.mark.parametrize(
    ("stamp", "moment"),
    [
        ("2026-06-15T12:00:00Z", NOW),
        ("2024-02-29T23:59:59Z", datetime(2024, 2, 29, 23, 59, 59, tzinfo=UTC)),
        ("", None),
        ("2026-06-15", None),
        ("2026-06-15T12:00:00", None),
        ("2026-06-15T12:00:00+00:00", None),
        ("2026-06-15T12:00:00.5Z", None),
        ("2025-02-29T12:00:00Z", None),
        ("2026-06-15T25:00:00Z", None),
        ("2026-06-15T12:00:00Z\n", None),
        ("yesterday", None),
        ("\ud800", None),
    ],
)
def test_stamps_are_read(stamp, moment):
    assert read_stamp(stamp) == moment


def test_a_snapshot_without_a_readable_time_has_that_of_its_id():
    assert created(at(NOW, made="garbled")) == NOW
    bare = SnapshotInfo("no-time", "work", "", [], 1, 1, "sha256:")
    assert created(bare) == datetime.min.replace(tzinfo=UTC)


def test_order_is_that_of_ids_and_not_of_clocks():
    older, newer = at(NOW - DAY, made="2026-12-31T00:00:00Z"), at(NOW, made="2020-01-01T00:00:00Z")
    odd = SnapshotInfo("zzz-no-time", "work", "2026-12-31T00:00:00Z", [], 1, 1, "sha256:")
    assert newest_first([odd, older, newer]) == [newer, older, odd]


# --- each rule on a timeline ---


#: Times of snapshots, a rule, and what of them stays.
TIMES = [
    ("2026-06-14T22:59:59 2026-06-14T23:00 2026-06-14T23:59:59 2026-06-15T00:00 2026-06-15T00:30", {"keep_hourly": 3},
     ["06-15 00:30", "06-14 23:59", "06-14 22:59"]),
    ("2026-06-14T22:59:59 2026-06-14T23:00 2026-06-14T23:59:59 2026-06-15T00:00 2026-06-15T00:30", {"keep_hourly": 2},
     ["06-15 00:30", "06-14 23:59"]),
    # The same hour of another day, and the same week of another year.
    ("2026-06-13T07:00 2026-06-14T07:00", {"keep_hourly": 9}, ["06-14 07:00", "06-13 07:00"]),
    ("2025-06-11 2026-06-10", {"keep_weekly": 2}, ["06-10 00:00", "06-11 00:00"]),
    # Days that have one are counted.
    ("2026-05-01 2026-06-01T00:00 2026-06-01T23:59:59 2026-06-10T08:00 2026-06-10T09:00", {"keep_daily": 2},
     ["06-10 09:00", "06-01 23:59"]),
    ("2026-05-01 2026-06-01T00:00 2026-06-01T23:59:59 2026-06-10T08:00 2026-06-10T09:00", {"keep_daily": 3},
     ["06-10 09:00", "06-01 23:59", "05-01 00:00"]),
    # Monday 2024-12-30 begins the first week of 2025; Sunday 2027-01-03 ends week 53 of 2026.
    ("2024-12-29 2024-12-30 2024-12-31 2025-01-01 2025-01-05 2025-01-06", {"keep_weekly": 9},
     ["01-06 00:00", "01-05 00:00", "12-29 00:00"]),
    ("2026-12-27 2026-12-28 2026-12-31 2027-01-01 2027-01-03 2027-01-04",
     {"keep_weekly": 9, "now": datetime(2027, 2, 1, tzinfo=UTC)}, ["01-04 00:00", "01-03 00:00", "12-27 00:00"]),
    ("2024-01-31 2024-12-31T23:59 2025-01-01 2025-06-01 2026-05-31 2026-06-01 2026-06-02", {"keep_monthly": 3},
     ["06-02 00:00", "05-31 00:00", "06-01 00:00"]),
    ("2024-01-31 2024-12-31T23:59 2025-01-01 2025-06-01 2026-05-31 2026-06-01 2026-06-02", {"keep_yearly": 3},
     ["06-02 00:00", "06-01 00:00", "12-31 23:59"]),
    # In UTC wherever the clock is: there it is one evening.
    ("2026-06-14T23:30 2026-06-15T00:30", {"keep_daily": 7, "now": NOW.astimezone(timezone(timedelta(hours=-9)))},
     ["06-15 00:30", "06-14 23:30"]),
]  # fmt: skip


@pytest.mark.parametrize(("times", "rules", "expected"), TIMES)
def test_a_rule_keeps_the_newest_of_each_of_its_periods(times, rules, expected):
    assert kept(days(*times.split()), **rules) == expected


def test_keep_within_is_measured_from_now_and_includes_its_end():
    infos = [at(NOW - timedelta(hours=hours)) for hours in (0, 23, 24, 25, 48)]
    assert len(kept(infos, keep_within=DAY)) == 3
    assert len(kept(infos, keep_within=timedelta(0))) == 1
    assert len(kept(infos, keep_within=timedelta.max)) == 5


def test_a_snapshot_stays_if_any_rule_keeps_it():
    infos = [at(NOW - timedelta(hours=hours)) for hours in range(24 * 40)]
    made = plan(
        infos, retention=Retention(keep_last=3, keep_daily=4, keep_monthly=2, keep_within=timedelta(hours=2)), now=NOW
    )
    shown = {f"{created(info):%m-%d %H:%M}": made.reasons[info.snapshot_id] for info in made.keep}
    assert shown == {
        "06-15 12:00": ("last", "daily", "monthly", "within", "newest"),
        "06-15 11:00": ("last", "within"),
        "06-15 10:00": ("last", "within"),
        "06-14 23:00": ("daily",),
        "06-13 23:00": ("daily",),
        "06-12 23:00": ("daily",),
        "05-31 23:00": ("monthly",),
    }
    assert len(made.remove) == len(infos) - 7
    assert all(made.reasons[info.snapshot_id] == () for info in made.remove)


# --- what stays whatever the rules say ---


def test_a_snapshot_from_the_future_is_set_apart_and_takes_nobodys_place():
    real = days("2026-06-13", "2026-06-14")
    future = days("2026-06-16", "2030-01-01")
    for rules in ({"keep_last": 2}, {"keep_daily": 2}, {"keep_within": 3 * DAY}):
        made = plan([*real, *future], retention=Retention(**rules), now=NOW)
        assert made.remove == ()
        assert {made.reasons[info.snapshot_id][0] for info in future} == {"future"}
    assert kept([*real, *future], keep_last=1) == ["01-01 00:00", "06-16 00:00", "06-14 00:00"]


def test_clocks_of_two_hosts_may_differ_a_little():
    near, far = at(NOW + timedelta(minutes=10)), at(NOW + timedelta(minutes=10, seconds=1))
    made = plan([near, far], retention=Retention(keep_last=1), now=NOW)
    assert made.reasons[near.snapshot_id] == ("last", "newest")
    assert made.reasons[far.snapshot_id] == ("future",)


def test_a_snapshot_in_flight_is_set_apart_and_takes_nobodys_place():
    infos = days("2026-06-13", "2026-06-14", "2026-06-15")
    flying = infos[2].snapshot_id
    made = plan(infos, retention=Retention(keep_last=1), now=NOW, in_flight={flying, "other"})
    assert made.keep == (infos[2], infos[1])
    assert made.reasons[flying] == ("in-flight",)
    assert made.reasons[infos[1].snapshot_id] == ("last", "newest")
    assert made.remove == (infos[0],)


def test_a_snapshot_with_an_id_from_the_future_and_a_time_that_is_right_counts():
    """After a clock that was ahead, ids go on from where it was."""
    infos = [at("2030-01-01", made="2026-06-14T00:00:00Z"), at("2026-06-13")]
    made = plan(infos, retention=Retention(keep_last=1), now=NOW)
    assert made.keep == (infos[0],)
    assert made.reasons[infos[0].snapshot_id] == ("last", "newest")


def test_equal_neighbours_are_counted_once():
    infos = [at(NOW - n * DAY, text=text) for n, text in enumerate("aabbbac")]
    made = plan(infos, retention=Retention(keep_last=3), now=NOW)
    assert made.keep == (infos[0], infos[2], infos[5])
    assert plan(infos, retention=Retention(keep_last=9), now=NOW).keep == (infos[0], infos[2], infos[5], infos[6])


def test_the_same_text_of_another_issuer_is_not_equal():
    infos = [at(NOW, text="a", issuer="me"), at(NOW - DAY, text="a"), at(NOW - 2 * DAY, text="a")]
    assert plan(infos, retention=Retention(keep_last=2), now=NOW).keep == tuple(infos[:2])


def test_an_equal_neighbour_that_the_pointer_names_stays():
    infos = [at(NOW - n * DAY, text="a") for n in range(3)]
    made = plan(infos, retention=Retention(keep_last=3), now=NOW, head=infos[1].snapshot_id)
    assert made.keep == tuple(infos[:2])


# --- for any timeline ---


@unhurried
@given(TIMELINES, RULES, st.integers(0, 30), st.booleans())
def test_a_plan_parts_what_is_there_and_never_keeps_nothing(infos, retention, pointed, keep_shrunk):
    head = infos[pointed].snapshot_id if pointed < len(infos) else None
    shrunk = before_shrink(infos, now=NOW)
    made = plan(infos, retention=retention, now=NOW, head=head, shrunk=shrunk, keep_shrunk=keep_shrunk)
    keep, remove = {info.snapshot_id for info in made.keep}, {info.snapshot_id for info in made.remove}
    assert keep | remove == {info.snapshot_id for info in infos} == set(made.reasons)
    assert not keep & remove
    assert bool(keep) == bool(infos)
    assert list(made.keep) == newest_first(made.keep)
    assert list(made.remove) == newest_first(made.remove)
    if head is not None:
        assert head in keep
    if infos:
        assert newest_first(infos)[0] == made.keep[0]
    assert all(made.reasons[snapshot_id] for snapshot_id in keep)
    assert all(made.reasons[snapshot_id] in ((), ("before-shrink",)) for snapshot_id in remove)
    if keep_shrunk:
        assert set(shrunk) <= keep
    if retention.keep_last and retention.keep_last > 0:
        past = [info for info in made.keep if "last" in made.reasons[info.snapshot_id]]
        assert len(past) <= retention.keep_last


@unhurried
@given(TIMELINES, RULES, st.integers(1, 400), st.booleans())
def test_a_snapshot_that_is_set_apart_costs_no_other_one(infos, retention, days, future):
    apart = at(NOW + days * DAY if future else NOW)
    in_flight = [] if future else [apart.snapshot_id]
    alone = plan(infos, retention=retention, now=NOW)
    beside = plan([*infos, apart], retention=retention, now=NOW, in_flight=in_flight)
    assert apart in beside.keep
    assert {info.snapshot_id for info in alone.keep} <= {info.snapshot_id for info in beside.keep}


@unhurried
@given(TIMELINES, st.integers(0, 5))
def test_keeping_more_removes_less(infos, keep):
    less = plan(infos, retention=Retention(keep_last=keep, keep_daily=keep), now=NOW)
    more = plan(infos, retention=Retention(keep_last=keep + 1, keep_daily=keep + 1), now=NOW)
    assert set(less.reasons) == set(more.reasons)
    assert {info.snapshot_id for info in less.keep} <= {info.snapshot_id for info in more.keep}


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
def test_a_memory_that_a_small_one_followed_stays_for_thirty_days(rules, small):
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


def test_a_memory_that_comes_back_is_kept_by_the_rules_again():
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


def test_a_note_outlives_the_snapshot_that_it_came_from():
    big, small, later = at(NOW - 20 * DAY, size=1000), at(NOW - 19 * DAY, size=10), at(NOW, size=900)
    assert before_shrink([big, small, later], now=NOW) == {big.snapshot_id: Shrink(NOW - 19 * DAY)}
    noted = {big.snapshot_id: Shrink(NOW - 19 * DAY), "gone": Shrink(NOW)}
    assert before_shrink([big, later], now=NOW, noted=noted) == {big.snapshot_id: Shrink(NOW - 19 * DAY)}
    assert before_shrink([big, later], now=NOW) == {}
    assert before_shrink([big, later], now=NOW + 11 * DAY, noted=noted) == {}


def test_fewer_than_half_of_the_documents_are_a_shrink_too():
    def of(days, documents, size=1000, **more):
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


def test_what_a_folders_records_add_is_estimated_where_only_the_row_is_known():
    whole, emptied, few = (
        replace(at(NOW - days * DAY, size=size), doc_names=[], doc_count=count)
        for days, size, count in ((3, 22_800, 201), (2, 12_800, 201), (1, 300, 5))
    )
    measured = by_texts([whole, emptied, few], {emptied.snapshot_id: (0, 200), few.snapshot_id: (40, 4)})
    assert [(info.byte_size, info.doc_count) for info in measured] == [(10_000, 200), (1, 200), (40, 4)]
    assert by_texts([whole, few], {few.snapshot_id: (40, 5)}) == [whole, few]  # no folder
    hidden = replace(few, doc_count=None, byte_size=0, encrypted=True)
    assert by_texts([whole, hidden], {few.snapshot_id: (40, 5)}) == [whole, hidden]


def test_an_explicit_prune_shows_what_a_backup_would_keep_and_removes_it():
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
def test_what_is_found_before_a_shrink_was_followed_by_less_than_half(infos):
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
def test_a_follower_whose_clock_was_reset_is_a_follower(made):
    """An agent that wakes without its clock and without its memory: ids go on, created_at does not."""
    big = at(NOW, size=100_000)
    small = at(NOW + timedelta(microseconds=1), size=200, made=made)
    later = NOW + timedelta(hours=1)
    assert before_shrink([big, small], now=later) == {big.snapshot_id: Shrink(later)}


def test_a_memory_that_was_made_smaller_on_purpose_is_not_what_is_kept_instead():
    """300 kB tidied up to 100 kB; a week later the agent starts empty, and its small memory goes up and down."""
    agent = Agent(keep_last=2)
    agent.save(NOW, 300_000)
    real = agent.save(NOW + DAY, 100_000)
    for n in range(28):
        agent.save(NOW + (8 + n / 2) * DAY, 400 if n % 2 else 1000)
        assert agent.holds(real), n
