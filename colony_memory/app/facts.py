"""Pure: what a summary of a snapshot, or of a label, tells beyond its fields."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from colony_memory._format.names import id_order, id_time, manifest_filename
from colony_memory._format.v2.sealed import LEFT_OUT
from colony_memory.retention import created

if TYPE_CHECKING:
    from colony_memory.reports import LabelMap
    from colony_memory.snapshot import SnapshotInfo

#: Units of an age in seconds, the largest first.
SPANS = {"y": 365 * 86400, "d": 86400, "h": 3600, "m": 60, "s": 1}
_SECOND = timedelta(seconds=1)
_REST = re.compile("and ([0-9]+) more")
_NAMED = 3


def made_at(info: SnapshotInfo) -> datetime:
    """When a snapshot was made.

    The id has the microseconds. It runs ahead of the clock for as long as ids from a clock that was wrong are around;
    then it is ``created_at``, so that local files do not pass for older than they are.
    """
    written, exact = created(info), id_time(info.snapshot_id)
    return exact if exact is not None and exact - written < _SECOND else written


def stamp(moment: datetime) -> str:
    """The minute, in UTC."""
    return f"{moment.isoformat(sep=' ', timespec='minutes').removesuffix('+00:00')} UTC"


def count_texts(info: SnapshotInfo) -> int | None:
    """How many files of a snapshot are text, None where its format names none. How many others there are, no summary
    tells: they have to be read.
    """
    if not info.doc_names:
        return None
    from colony_memory.capture._metadata import METADATA_NAMES

    return len(info.doc_names) - sum(name in info.doc_names for name in METADATA_NAMES)


def count_left_out(info: SnapshotInfo) -> int:
    """How much a snapshot lacks; a catalogue tells of much by its number."""
    rest = _REST.fullmatch(info.incomplete[-1]) if info.incomplete else None
    return len(info.incomplete) - 1 + int(rest[1]) if rest else len(info.incomplete)


def number_left_out(info: SnapshotInfo) -> str:
    """The same in a word: of what is encrypted, it is not told how much."""
    return "something" if LEFT_OUT in info.incomplete else str(count_left_out(info))


def told_by(info: SnapshotInfo, read: SnapshotInfo) -> SnapshotInfo:
    """The summary with what alone a reading tells: the names, and all of an encrypted snapshot."""
    info = replace(info, doc_names=read.doc_names, doc_count=read.doc_count)
    if not info.encrypted:
        return info
    return replace(
        info,
        byte_size=read.byte_size,
        plaintext_sha256=read.plaintext_sha256,
        note=read.note,
        incomplete=read.incomplete,
    )


def left_out(info: SnapshotInfo) -> str:
    """What a snapshot lacks, in a few names: ``2 left out: a.sock: is a socket; b.md: Permission denied``."""
    if LEFT_OUT in info.incomplete:
        return LEFT_OUT
    named = [each for each in info.incomplete[:_NAMED] if not _REST.fullmatch(each)]
    total = count_left_out(info)
    more = [f"and {total - len(named)} more"] if total > len(named) else []
    return f"{total} left out: {'; '.join([*named, *more])}"


def refused_latest(label: LabelMap) -> str | None:
    """The entry of ``broken`` that damages no snapshot: a restore refuses the latest though it is whole.

    So it is after a rollback.
    """
    file = manifest_filename(label.label, label.latest or "")
    if label.newest is None or file not in label.broken or file in label.untrusted:
        return None
    return file if id_order(label.latest or "") <= id_order(label.newest.snapshot_id) else None
