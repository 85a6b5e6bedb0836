"""Lengths of time as people write them, and as they are shown."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colony_memory.app.values import parse_duration, show_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("15m", 900),
        ("90s", 90),
        ("1h30m", 5400),
        ("1h 30m", 5400),
        (" 2d ", 172_800),
        ("26h", 93_600),
        ("1w2d3h4m5s", 604_800 + 2 * 86_400 + 3 * 3600 + 4 * 60 + 5),
        ("90m", 5400),
        ("0h5m", 300),
        ("15M", 900),
        ("007s", 7),
        ("3650d", 3650 * 86_400),
    ],
)
def test_durations(text, seconds):
    assert parse_duration(text) == timedelta(seconds=seconds)


FORM = "write it like 90s, 15m, 1h30m or 2d (weeks w, days d, hours h, minutes m, seconds s, the largest first)"


def test_what_else_is_refused():
    for text, message in {
        "900": f"'900' has no unit: {FORM}",
        "0s": "'0s' is too short: it must be above 0",
        "0h0m": "'0h0m' is too short: it must be above 0",
        "3650d1s": "'3650d1s' is longer than ten years",
        "9" * 39 + "d": f"'{'9' * 39}d' is longer than ten years",
        "9" * 5000 + "d": f"'{'9' * 40}…' is longer than ten years",
        "x" * 50: f"'{'x' * 40}…' is not a length of time: {FORM}",
    }.items():
        with pytest.raises(ValueError) as caught:
            parse_duration(text)
        assert str(caught.value) == message


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0s"),
        (-3, "0s"),
        (0.4, "0s"),
        (0.6, "1s"),
        (59.6, "1m"),
        (90, "1m30s"),
        (900, "15m"),
        (3600, "1h"),
        (3605, "1h"),
        (5400, "1h30m"),
        (93_784, "1d2h"),
        (86_700, "1d"),
        (14 * 86_400, "14d"),
    ],
)
def test_shown(seconds, shown):
    assert show_duration(seconds) == shown


@settings(max_examples=50)
@given(st.integers(1, 59), st.integers(1, 23))
def test_what_is_shown_can_be_read(minutes, hours):
    length = timedelta(hours=hours, minutes=minutes)
    assert parse_duration(show_duration(length.total_seconds())) == length
