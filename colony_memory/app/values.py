"""The kinds of value of settings, in variables and in the configuration file; each error tells what is allowed."""

from __future__ import annotations

import os
import re
import shlex
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from colony_memory._boundary import require_as_meant
from colony_memory._os.machine import expanded
from colony_memory._values import pattern
from colony_memory.vaults import VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable


_UNITS = (("w", 604_800), ("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))
_DURATION = pattern("".join(rf"(?:([0-9]+){unit}\s*)?" for unit, _ in _UNITS), re.IGNORECASE | re.ASCII)
_NUMBER = pattern(r"[0-9]+")
_LONGEST = timedelta(days=3650)
_KNOWN = "write it like 90s, 15m, 1h30m or 2d (weeks w, days d, hours h, minutes m, seconds s, the largest first)"
_SHOWN = 40


def parse_duration(text: str) -> timedelta:
    """The length of time that a text names: whole numbers, each with its unit, the largest first."""
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


_T = TypeVar("_T")


def at_key(key: str, check: Callable[[Any], _T], value: object) -> _T:
    try:
        return check(value)
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from error


def text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("must be a text, and not an empty one")
    return value


def texts(value: object) -> list[str]:
    """A list of texts, none of them empty; a text alone is a list of one."""
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not found or not all(isinstance(each, str) and each.strip() for each in found):
        raise ValueError("must be a list of texts, none of them empty")
    return found


def flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")  # noqa: TRY004 - one type of error
    return value


def number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError("must be a whole number from 1 up")
    return value


def format_number(value: object) -> str:
    return choice("1", "2")(str(value) if type(value) is int else value)


def choice(*allowed: str) -> Callable[[Any], str]:

    def check(value: object) -> str:
        if value not in allowed:
            *others, last = allowed
            shown = f", not {value!r}" if isinstance(value, (str, int)) else ""
            raise ValueError(f"must be {', '.join(others)} or {last}{shown}")
        return str(value)

    return check


def time(value: object) -> str:
    """A length of time such as ``15m``, as it stands."""
    parse_duration(text(value))
    return str(value)


def command(value: object) -> str:
    given = text(value)
    try:
        program = (shlex.split(given) or [""])[0]
    except ValueError as error:
        raise ValueError(f"is no command: {error}") from error
    if os.path.dirname(program) and not os.path.isabs(program):  # noqa: PTH117, PTH120 - a text
        raise ValueError("must name its program by an absolute path, or by a name that is on PATH")
    return given


def rules(value: object) -> list[str]:
    from colony_memory.capture._ignore import read_excluded

    found = texts(value)
    read_excluded(found)
    return found


def path_of(value: object) -> str:
    """An absolute path, with the home directory in the place of ``~``. It is not repeated: it may be a key instead."""
    given = expanded_path(require_as_meant("a path", text(value)))
    if not os.path.isabs(given) or "\0" in given:  # noqa: PTH117 - a text
        raise ValueError("must be an absolute path, or begin with ~/")
    if VARIABLE.search(given):
        raise ValueError("holds a variable, and none is expanded here; ~ is")
    return given


# A letter alone before the colon is a drive.
_URL = pattern(r"[A-Za-z][A-Za-z0-9+.-]+:|[A-Za-z]:[/\\]|[/~\\]")
#: What is taken without the blanks around it, such as the line end of a secret that was written by echo.
_STRIPPED = ("COLONY_API_KEY", "COLONY_BASE_URL")


def url_of(value: object) -> str:
    """A URL or an absolute path: a relative one would be another vault in every directory."""
    given = text(value)
    kind, colon, path = given.partition(":")
    if kind.lower() == "export":
        return f"{kind}{colon}{path_of(path)}"
    if not _URL.match(given):
        raise ValueError(f"must be a URL or an absolute path, not {given!r}")
    return expanded_path(given)


def read_setting(name: str) -> str | None:
    """The value of an environment variable, None where it is not set."""
    value = os.environ.get(name)
    if value is None:
        return None
    if not value.strip():
        raise ValueError(f"{name} is empty: give it a value, or unset it")
    require_as_meant(name, value.strip() if name in _STRIPPED else value)
    return value


def read_path_setting(name: str) -> str | None:
    value = read_setting(name)
    return None if value is None else settled_path(name, value)


def settled_path(name: str, value: str) -> str:
    """A path out of a variable, with the home directory in the place of ``~``."""
    return at_key(name, path_of, value)


def expanded_path(path: str) -> str:
    try:
        return expanded(path)
    except OSError as error:
        raise ValueError(str(error)) from error
