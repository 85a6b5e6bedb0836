"""When the next run is due: times in, waits out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from colony_memory.exceptions import VaultUnavailable
from colony_memory.schedule.loop import LOOK, Reading, Timetable, passed

DAY, YEAR = 86_400.0, 365 * 86_400.0
DOWN = VaultUnavailable("down")
seconds = st.floats(-YEAR, YEAR)


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


@given(st.integers(0, 10**6), st.floats(0.001, 1.0))
def test_a_retry_is_never_later_than_the_longest_and_is_always_later_than_now(failures, share):
    table = Timetable(900.0, 0.0, 900.0, failures=failures).after_failure(7.0, DOWN, share=share)
    assert 7.0 < table.due <= 907.0
