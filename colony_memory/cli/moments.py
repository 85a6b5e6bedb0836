"""Pure: a time as people write it, and the snapshot that was the newest then."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from colony_memory.cli.text import made_at, stamp
from colony_memory.exceptions import SnapshotNotFound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from colony_memory.snapshot import SnapshotInfo

_FORM = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[+-]\d\d:?\d\d)?)?", re.IGNORECASE)
_ZONE = re.compile(r"([+-]\d\d):?(\d\d)$")
_FRACTION = re.compile(r"\.(\d{1,6})")
_DAY = len("2026-11-01")


def parse_moment(text: str) -> datetime:
    """Read ``2026-11-01T12:00``, with a blank for the T or with seconds, or a day alone, which is the end of it.

    It is local time, unless ``Z`` or a zone such as ``+02:00`` follows.

    Raises:
        ValueError: It is of no such form, or there is no such time.
    """
    if not _FORM.fullmatch(text):
        raise ValueError(f"{text!r} is no time: write 2026-11-01T12:00, with Z at its end for UTC, or 2026-11-01")
    # What Python 3.10 reads of it.
    plain = _ZONE.sub(r"\1:\2", text[:_DAY] + text[_DAY:].upper().replace("Z", "+00:00"))
    plain = _FRACTION.sub(lambda found: "." + found[1].ljust(6, "0"), plain)
    try:
        moment = datetime.fromisoformat(plain)
        if len(text) == _DAY:
            moment += timedelta(days=1, microseconds=-1)
        return moment.astimezone()
    except (ValueError, OverflowError, OSError) as error:
        raise ValueError(f"{text!r} is no time: {error}") from error


def newest_at(infos: Sequence[SnapshotInfo], moment: datetime, *, label: str) -> SnapshotInfo:
    """The newest of these snapshots that was made at ``moment`` or before.

    Raises:
        SnapshotNotFound: There is none; the message gives the oldest that there is.
    """
    made = sorted(infos, key=lambda info: (made_at(info), info.snapshot_id))
    before = [info for info in made if made_at(info) <= moment]
    if before:
        return before[-1]
    if not made:
        raise SnapshotNotFound(f"nothing is saved yet under label {label!r}")
    raise SnapshotNotFound(
        f"label {label!r} has no snapshot from {moment.isoformat(sep=' ', timespec='seconds')} or before; "
        f"its oldest is {made[0].snapshot_id}, of {stamp(made_at(made[0]))}"
    )
