"""Pure: what the next backup of a label costs, and how long the room lasts, by what the ones before it stored."""

from __future__ import annotations

from datetime import timedelta
from statistics import median_high
from typing import TYPE_CHECKING, NamedTuple

from colony_memory._format.constants import FORMAT_2
from colony_memory._format.v2.chain import MAX_ON_BASE
from colony_memory.retention import created

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from colony_memory._format.catalog import Entry

# Snapshots that show what the next one takes, and how often there is one. What many take together shows in as many as
# stand on one base: few of them are large, those that fold what came before.
_LIKE, _PACE = 10, 32
# A pointer has something in it besides its rows, about as much as so many of them.
_ROWS = 8
_DAY = timedelta(days=1)


class Outlook(NamedTuple):
    """What is to be expected of a label.

    Attributes:
        next_bytes: What the next backup stores.
        at_most: It stores no more than that, and nothing shows yet how much less.
        fits: How many more fit into the room, None where that is not known.
        daily_bytes: What a day of backups stores, None where there were too few to tell.
    """

    next_bytes: int = 0
    at_most: bool = False
    fits: int | None = None
    daily_bytes: int | None = None


def look_ahead(entries: Sequence[Entry], *, pointer_bytes: int, free: int | None) -> Outlook:
    """Expect what recent backups did.

    Args:
        entries: The restore points of a label, newest first.
        pointer_bytes: Bytes of the pointer, which has a row of each.
        free: Bytes of room, None where there is no end to it, or it is not known.
    """
    if not entries or not entries[0].info.stored_bytes:
        return Outlook()  # nor where the vault tells no sizes
    newest = entries[0].info
    costs, share = [newest.stored_bytes], 0.0
    if newest.format == FORMAT_2:
        chains = [entry for entry in entries if entry.info.format == FORMAT_2]
        patches = [entry for entry in chains[:MAX_ON_BASE] if len(entry.packs) > 1]
        if not patches and len(chains) == 1:
            return Outlook(newest.stored_bytes, at_most=True)  # what is put on a base takes no more than it did
        costs = [entry.info.stored_bytes for entry in patches or chains[:1]]
        base = next((entry.info.stored_bytes for entry in chains if len(entry.packs) == 1), 0)
        share = base / MAX_ON_BASE if patches else 0.0
    each = sum(costs) / len(costs) + share + pointer_bytes / max(_ROWS, len(entries))
    daily = _per_day(entries[:_PACE])
    return Outlook(
        next_bytes=median_high(costs[:_LIKE]),
        fits=None if free is None or not each else max(0, int(free // each)),
        daily_bytes=None if daily is None else round(daily * each),
    )


def seconds_left(free: int | None, daily: Iterable[int | None]) -> int | None:
    """How long the room lasts at this pace, None where that is not known."""
    rate = sum(each or 0 for each in daily)
    return None if free is None or not rate else int(free / rate * _DAY.total_seconds())


def _per_day(entries: Sequence[Entry]) -> float | None:
    """Backups in a day, None where there were fewer than three, or all of them within one."""
    made = [created(entry.info) for entry in entries]
    if len(made) < 3:
        return None
    span = max(made) - min(made)
    return (len(made) - 1) / (span / _DAY) if span >= _DAY else None
