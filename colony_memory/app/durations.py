"""Pure: lengths of time as people write them, ``15m``, ``90s``, ``1h30m``, ``2d``."""

from __future__ import annotations

import re
from datetime import timedelta

_UNITS = (("w", 604_800), ("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))
_DURATION = re.compile("".join(rf"(?:([0-9]+){unit}\s*)?" for unit, _ in _UNITS), re.IGNORECASE | re.ASCII)
_NUMBER = re.compile(r"[0-9]+")
_LONGEST = timedelta(days=3650)
_KNOWN = "write it like 90s, 15m, 1h30m or 2d (weeks w, days d, hours h, minutes m, seconds s, the largest first)"
_SHOWN = 40


def parse_duration(text: str) -> timedelta:
    """The length of time that a text names: whole numbers, each with its unit, the largest first.

    Raises:
        ValueError: It is of another form, nothing, or longer than ten years. The message shows the form.
    """
    plain = text.strip()
    named = repr(plain if len(plain) <= _SHOWN else f"{plain[:_SHOWN]}…")
    if _NUMBER.fullmatch(plain):
        raise ValueError(f"{named} has no unit: {_KNOWN}")
    found = _DURATION.fullmatch(plain)
    if not plain or found is None:
        raise ValueError(f"{named} is not a length of time: {_KNOWN}")
    # Python refuses to read a number of more than 4,300 digits.
    if any(len(number) > 12 for number in found.groups("")):
        raise ValueError(_too_long(named))
    seconds = sum(int(number) * length for number, (_, length) in zip(found.groups("0"), _UNITS, strict=True))
    if not seconds:
        raise ValueError(f"{named} is too short: it must be above 0")
    if seconds > _LONGEST.total_seconds():
        raise ValueError(_too_long(named))
    return timedelta(seconds=seconds)


def read_seconds(option: str, text: str) -> float:
    """The seconds that the value of an option names.

    Raises:
        ValueError: As :func:`parse_duration`, with the option's name.
    """
    try:
        return parse_duration(text).total_seconds()
    except ValueError as error:
        raise ValueError(f"{option}: {error}") from error


def show_duration(seconds: float) -> str:
    """A length of time in at most two units, ``1h30m``; seconds are dropped beyond an hour, parts of one always.

    >>> show_duration(900), show_duration(5400), show_duration(93784), show_duration(0.2)
    ('15m', '1h30m', '1d2h', '0s')
    """
    left = max(0, round(seconds))
    parts: list[str] = []
    for unit, length in _UNITS[1:]:
        number, rest = divmod(left, length)
        if number:
            parts.append(f"{number}{unit}")
        elif parts:  # 1d0h5m would be more exact than it is short
            break
        left = rest
        if len(parts) == 2:
            break
    return "".join(parts) or "0s"


def _too_long(named: str) -> str:
    return f"{named} is longer than ten years"
