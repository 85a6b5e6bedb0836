"""Names, sizes and times as people read them."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from colony_memory._format.names import id_time
from colony_memory.retention import created

if TYPE_CHECKING:
    from colony_memory.snapshot import SnapshotInfo

_SECOND = timedelta(seconds=1)
_KEY_CHARS = 10
_UNITS = ("kB", "MB", "GB", "TB")
_REST = re.compile("and ([0-9]+) more")
_NAMED = 3
_SPANS = ((365 * 86400, "y"), (86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def shown(text: str) -> str:
    """The text on one line, with everything that would move a cursor, hide or reorder spelled as an escape.

    Names come out of a vault, or off a disk where others may write.
    """
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def size(count: int) -> str:
    """Bytes with three digits at most, in powers of 1000 as the vault's quota is."""
    if count < 1000:
        return f"{count} B"
    value, unit = count / 1000, 0
    while value >= 999.5 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.1f} {_UNITS[unit]}" if value < 99.95 else f"{value:.0f} {_UNITS[unit]}"


def stored(info: SnapshotInfo) -> str:
    """Bytes that a snapshot takes in the vault, where that is known."""
    return size(info.stored_bytes) if info.stored_bytes else "-"


def count(number: int, thing: str) -> str:
    """``1 file``, ``2 files``."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def age(moment: datetime, now: datetime) -> str:
    """How long ago, in the largest unit that fits: ``5s ago``, ``3d ago``; ``in 2h`` for what is to come."""
    seconds = int((now - moment).total_seconds())
    length, unit = next((span for span in _SPANS if abs(seconds) >= span[0]), _SPANS[-1])
    number = abs(seconds) // length
    if seconds < 0:
        return f"in {number}{unit}"
    return f"{number}{unit} ago" if number else "just now"


def now_utc() -> datetime:
    """The time that ages are told against."""
    return datetime.now(timezone.utc)


def stamp(moment: datetime) -> str:
    """The minute, in UTC."""
    return f"{moment.isoformat(sep=' ', timespec='minutes').removesuffix('+00:00')} UTC"


def made_at(info: SnapshotInfo) -> datetime:
    """When a snapshot was made.

    The id has the microseconds. It runs ahead of the clock for as long as ids from a clock that was wrong are
    around; then it is ``created_at``, so that local files do not pass for older than they are.
    """
    written, exact = created(info), id_time(info.snapshot_id)
    return exact if exact is not None and exact - written < _SECOND else written


def count_left_out(info: SnapshotInfo) -> int:
    """How much a snapshot lacks; a catalogue tells of much by its number."""
    rest = _REST.fullmatch(info.incomplete[-1]) if info.incomplete else None
    return len(info.incomplete) - 1 + int(rest[1]) if rest else len(info.incomplete)


def left_out(info: SnapshotInfo) -> str:
    """What a snapshot lacks, in a few names: ``2 left out: a.sock: is a socket; b.md: Permission denied``."""
    named = [each for each in info.incomplete[:_NAMED] if not _REST.fullmatch(each)]
    total = count_left_out(info)
    more = [f"and {total - len(named)} more"] if total > len(named) else []
    return f"{total} left out: {'; '.join([*named, *more])}"


def signer(info: SnapshotInfo) -> str:
    """The beginning of the key that a snapshot names as its signer's, as long as it takes to tell keys apart."""
    if not info.signed:
        return "-"
    return shown((info.issuer or "?").removeprefix("did:key:")[:_KEY_CHARS])
