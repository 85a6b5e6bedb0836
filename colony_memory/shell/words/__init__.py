"""Names, sizes and times formatted for people, and the width of a terminal. Needs no extra."""

from __future__ import annotations

import os
import unicodedata
from contextlib import suppress
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TextIO

    from colony_memory.capture import Written
    from colony_memory.snapshot import SnapshotInfo


def draws(stream: TextIO | None) -> bool:
    """True if the stream is a terminal that can colour and clear lines."""
    return (
        stream is not None
        and stream.isatty()
        and os.environ.get("TERM") not in ("dumb", "unknown")
        and (os.name != "nt" or "WT_SESSION" in os.environ)
    )


def columns_of(text: str) -> int:
    """The columns that a text takes on a terminal."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def width_of(stream: TextIO | None) -> int:
    """The columns of the terminal behind a stream, 80 if unknown."""
    with suppress(ValueError):  # the variable overrides the terminal, as is usual
        columns = int(os.environ.get("COLUMNS", ""))
        if columns > 0:
            return columns
    with suppress(OSError, ValueError):  # no descriptor, or not a terminal
        return os.get_terminal_size(stream.fileno() if stream else -1).columns or 80
    return 80


#: Most lines of a list shown without --verbose.
FEW = 10

_clock = partial(datetime.now, timezone.utc)
_KEY_CHARS = 10
_LONGEST = 4096  # characters, the limit of a path on Linux
_UNITS = ("kB", "MB", "GB", "TB")


def shown(text: str) -> str:
    """The text on one line, cut to the length of a path, with characters that could move the cursor escaped."""
    if len(text) > _LONGEST:
        return f"{_escaped(text[:_LONGEST])}… and {len(text) - _LONGEST} more characters"
    return _escaped(text)


def _escaped(text: str) -> str:
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def shortened(text: str, most: int) -> str:
    """A text cut to a number of characters."""
    return text if len(text) <= most else f"{text[:most]}…"


def shown_with_tabs(line: str) -> str:
    """A line of a text with such characters escaped, except tabs."""
    return "\t".join(map(_escaped, line.split("\t")))


def size(count: int) -> str:
    """Bytes in up to three digits, in powers of 1000 like the vault's quota."""
    if count < 1000:
        return f"{count} B"
    value, unit = count / 1000, 0
    while value >= 999.5 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.1f} {_UNITS[unit]}" if value < 99.95 else f"{value:.0f} {_UNITS[unit]}"


def stored(info: SnapshotInfo) -> str:
    """Bytes that a snapshot takes in the vault, ``-`` if unknown."""
    return size(info.stored_bytes) if info.stored_bytes else "-"


def few(lines: Sequence[str], *, verbose: bool) -> list[str]:
    """All lines if they are few or ``verbose`` is set; else the first ones and the number of the rest."""
    if verbose or len(lines) <= FEW:
        return list(lines)
    return [*lines[:FEW], f"and {len(lines) - FEW} more; --verbose shows all"]


def count(number: int, thing: str) -> str:
    """``1 file``, ``2 files``."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def age(moment: datetime, now: datetime) -> str:
    """The age in the largest unit that fits: ``5s ago``, ``3d ago``; ``in 2h`` for a time in the future."""
    from colony_memory.shell.app.pick import SPANS

    seconds = int((now - moment).total_seconds())
    unit, length = next((span for span in SPANS.items() if abs(seconds) >= span[1]), ("s", 1))
    number = abs(seconds) // length
    if seconds < 0:
        return f"in {number}{unit}"
    return f"{number}{unit} ago" if number else "just now"


def now_utc() -> datetime:
    """The current time, from which ages are counted."""
    return _clock()


def signer(info: SnapshotInfo) -> str:
    """The beginning of the signer's key that a snapshot names, long enough to tell keys apart."""
    return shown((info.issuer or "?").removeprefix("did:key:")[:_KEY_CHARS]) if info.signed else "-"


def users_line(written: Written) -> str:
    """The programs that have files open that a restore would change."""
    from colony_memory.capture._filenames import listed

    return listed(list(dict.fromkeys(written.why[name] for name in written.in_use)), most=3)
