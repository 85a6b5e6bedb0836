"""When the next run is due: times in, waits out."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colony_memory.exceptions import RateLimited, VaultUnavailable
from colony_memory.schedule.timetable import LOOK, Reading, Timetable, asked_wait, passed, require_seconds

DAY, YEAR = 86_400.0, 365 * 86_400.0
TABLE = Timetable(every=900.0, due=1000.0, longest_retry=900.0)
DOWN = VaultUnavailable("down")
seconds = st.floats(-YEAR, YEAR)


@pytest.mark.parametrize(
    ("what", "wall", "steady", "counts"),
    [
        ("ordinary", 30, 30, 30),
        ("suspended, and the steady clock stood still", 8 * 3600, 1, 8 * 3600),
        ("suspended, and it went on", 8 * 3600, 8 * 3600, 8 * 3600),
        ("set back a day", 30 - DAY, 30, 30),
        ("set ahead a year", 30 + YEAR, 30, 30 + YEAR),
        ("both back, which cannot be", -5, -5, 0),
        ("nothing", 0, 0, 0),
    ],
)
def test_what_passed_between_two_looks(what, wall, steady, counts):
    assert passed(Reading(5e8, 100), Reading(5e8 + wall, 100 + steady)) == counts


@given(st.lists(st.tuples(seconds, st.floats(0, 60)), max_size=30))
def test_time_never_goes_slower_than_the_steady_clock_however_the_other_is_set(steps):
    total, now = 0.0, Reading(1.8e9, 0.0)
    for jump, worked in steps:
        later = Reading(now.wall + jump, now.steady + worked)
        total += passed(now, later)
        now = later
    assert total >= now.steady - 1e-6


@given(st.floats(-YEAR, YEAR), st.floats(allow_nan=False))
def test_no_sleep_is_longer_than_a_look_or_than_it_takes(now, due):
    wait = Timetable(900.0, due, 900.0).wait(now)
    assert 0 <= wait <= LOOK == 30
    assert (wait == 0) == (due - now <= 0)
    assert wait <= max(0.0, due - now)


def test_an_interval_counts_from_the_end_of_a_run():
    assert TABLE.after_success(1234.0).due == 2134.0
    assert TABLE.wait(999.0) == 1.0
    assert TABLE.wait(1000.0) == TABLE.wait(5000.0) == 0.0


def test_waits_double_after_errors_and_a_success_ends_that():
    table, waits = TABLE, []
    for _ in range(8):
        table = table.after_failure(0.0, DOWN)
        waits.append(table.due)
    assert waits == [30, 60, 120, 240, 480, 900, 900, 900]
    assert table.failures == 8
    assert table.after_success(0.0).failures == 0
    assert table.after_success(0.0).after_failure(0.0, DOWN).due == 30


@given(st.integers(0, 10**6), st.floats(0.001, 1.0))
def test_a_retry_is_never_later_than_the_longest_and_is_always_later_than_now(failures, share):
    table = Timetable(900.0, 0.0, 900.0, failures=failures).after_failure(7.0, DOWN, share=share)
    assert 7.0 < table.due <= 907.0


@pytest.mark.parametrize(
    ("asked", "next_at"), [(2000, 2000), (10, 30), (1e12, DAY), (math.nan, 30), (-5, 30), (None, 30)]
)
def test_what_the_vault_asks_for_is_kept_up_to_a_day(asked, next_at):
    table = TABLE.after_failure(0.0, RateLimited("wait", retry_after=asked), share=1.0)
    assert table.due == next_at
    assert table.barred(0.0) == asked_wait(RateLimited("wait", retry_after=asked))
    assert TABLE.after_failure(0.0, VaultUnavailable("down", retry_after=asked)).barred(0.0) == 0


def test_a_limit_holds_until_it_is_over_whatever_fails_meanwhile():
    table = TABLE.after_failure(0.0, RateLimited("wait", retry_after=600.0)).after_failure(10.0, DOWN)
    assert table.barred(590.0) == 10
    assert table.barred(600.0) == table.barred(1e9) == 0


@pytest.mark.parametrize("value", [0, -1, math.nan, True, None, "900", 86_401])
def test_what_is_no_number_of_seconds(value):
    with pytest.raises(ValueError, match="every must be a number of seconds above 0 and up to 86400"):
        require_seconds("every", value, most=DAY)
    assert require_seconds("every", 1, most=DAY) == 1.0
