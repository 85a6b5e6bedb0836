"""Snapshots as people name them (an id, the beginning of one, ``latest~2``, a time), and facts of a summary."""

from __future__ import annotations

import re
import warnings
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from colony_memory._boundary import require_text
from colony_memory._format.lineage import refused_only
from colony_memory._format.names import id_order, id_time, manifest_filename
from colony_memory._format.v2.build import LEFT_OUT
from colony_memory._values import pattern, replace
from colony_memory.exceptions import ColonyMemoryError, ColonyMemoryWarning, SnapshotNotFound
from colony_memory.retention import newest_first
from colony_memory.shell.app.open import require_synchronous
from colony_memory.snapshot import SnapshotInfo, created

if TYPE_CHECKING:
    from collections.abc import Sequence

    from colony_memory.client import ColonyMemory
    from colony_memory.reports import Change, LabelMap


#: Units of an age in seconds, the largest first.
SPANS = {"y": 365 * 86400, "d": 86400, "h": 3600, "m": 60, "s": 1}
#: Suffix of the label for copies of a folder made before a restore into it.
BEFORE_RESTORE = "-before-restore"
_SECOND = timedelta(seconds=1)
_REST = pattern("and ([0-9]+) more")
_NAMED = 3


def made_at(info: SnapshotInfo) -> datetime:
    """The time of a snapshot, to the microsecond by its id, unless a wrong clock made that run ahead."""
    written, exact = created(info), id_time(info.snapshot_id)
    return exact if exact is not None and exact - written < _SECOND else written


def stamp(moment: datetime) -> str:
    return f"{moment.isoformat(sep=' ', timespec='minutes').removesuffix('+00:00')} UTC"


def count_texts(info: SnapshotInfo) -> int | None:
    """The number of text files in a snapshot, None if its format does not list names."""
    if not info.doc_names:
        return None
    from colony_memory.capture._metadata import METADATA_NAMES

    return len(info.doc_names) - sum(name in info.doc_names for name in METADATA_NAMES)


def count_left_out(info: SnapshotInfo) -> int:
    """The number of files that a snapshot lacks; a catalogue shortens a long list to "and 12 more"."""
    rest = _REST.fullmatch(info.incomplete[-1]) if info.incomplete else None
    return len(info.incomplete) - 1 + int(rest[1]) if rest else len(info.incomplete)


def completed(info: SnapshotInfo, read: SnapshotInfo) -> SnapshotInfo:
    """The summary with facts that are known only after reading the snapshot."""
    sealed = ("byte_size", "plaintext_sha256", "note", "incomplete") if info.encrypted else ()
    return replace(info, **{name: getattr(read, name) for name in ("doc_names", "doc_count", *sealed)})


def number_left_out(info: SnapshotInfo) -> str:
    """The number as a word: ``something`` for a sealed snapshot, which does not tell it."""
    return "something" if LEFT_OUT in info.incomplete else str(count_left_out(info))


def left_out(info: SnapshotInfo) -> str:
    """The first few names that a snapshot lacks: ``2 left out: a.sock: is a socket; b.md: Permission denied``."""
    if LEFT_OUT in info.incomplete:
        return LEFT_OUT
    named = [entry for entry in info.incomplete[:_NAMED] if not _REST.fullmatch(entry)]
    total = count_left_out(info)
    more = [f"and {total - len(named)} more"] if total > len(named) else []
    return f"{total} left out: {'; '.join([*named, *more])}"


def change_word(name: str, change: Change) -> str:
    if change.kind == "removed" and any(entry.startswith(f"{name}: ") for entry in change.snapshot.incomplete):
        return "left out"  # not removed by the user
    return "in the oldest" if change.before is None else change.kind


def refused_latest(label: LabelMap) -> str | None:
    """The entry of ``broken`` that is no damage: after a rollback the latest is refused although it is intact."""
    file = manifest_filename(label.label, label.latest or "")
    if label.newest is None or file not in label.broken or file in label.untrusted:
        return None
    return file if id_order(label.latest or "") <= id_order(label.newest.snapshot_id) else None


_LATEST = pattern(r"latest(?:~([0-9]{1,9}))?")
_BEGINNING = pattern(r"[A-Za-z0-9_-]{1,64}")
_SHOWN = 5
_FORM = pattern(
    r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(?:(:\d\d)(\.\d{1,6})?)?(Z| ?UTC|[+-]\d\d:?\d\d)?)?", re.IGNORECASE
)
_AGO = pattern(
    r"(\d{1,9}) ?(y|d|h|m|s|years?|days?|hours?|min(?:ute)?s?|sec(?:ond)?s?) ago|just now|now", re.IGNORECASE
)
_TICK = timedelta(microseconds=1)


def may_name_a_snapshot(text: str) -> bool:
    """True if the text may name a snapshot; a path with a dot or a separator does not."""
    return bool(_LATEST.fullmatch(text) or _BEGINNING.fullmatch(text))


def names_a_snapshot(text: str) -> bool:
    """True if the text can hardly be anything but a snapshot's name: ``latest~2``, or a whole id."""
    return bool(_LATEST.fullmatch(text)) or id_time(text) is not None


def resolve(infos: Sequence[SnapshotInfo], text: str, *, label: str, latest: str | None = None) -> SnapshotInfo:
    counted = _LATEST.fullmatch(text)
    if counted:
        # Refused snapshots are not counted: a restore returns one by default only if there is no other.
        back, refused = int(counted[1] or 0), refused_only(infos)
        ordered = newest_first([info for info in infos if info.snapshot_id not in refused] or infos)
        index = next((i for i, info in enumerate(ordered) if info.snapshot_id == latest or info.head), 0) + back
        if index >= len(ordered):
            raise SnapshotNotFound(f"latest~{back} is further back than the oldest snapshot under label {label!r}")
        return ordered[index]
    if not _BEGINNING.fullmatch(text):
        raise ValueError(
            f"{text!r} names no snapshot: give an id from 'list', the beginning of one, latest, or latest~2"
        )
    found = [info for info in infos if info.snapshot_id.startswith(text)]
    exact = [info for info in found if info.snapshot_id == text] or found
    if not found:
        raise SnapshotNotFound(f"no snapshot has an id that begins with {text!r} under label {label!r}")
    if len(exact) > 1:
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        ids = ", ".join(info.snapshot_id for info in found[:_SHOWN])
        raise ValueError(f"{text!r} is the beginning of {len(found)} ids: {ids}{more}")
    return exact[0]


def nothing_saved(memory: ColonyMemory, label: str) -> SnapshotNotFound:
    from colony_memory._engine.load import nothing_saved

    return memory._run(nothing_saved, label=label)


def find(memory: ColonyMemory, text: str, *, label: str) -> SnapshotInfo:
    """The summary of a snapshot of this label, by its name."""
    require_text("text", text)
    require_synchronous(memory)
    latest = None
    if _LATEST.fullmatch(text):
        # A latest that a restore would refuse raises the same errors here.
        latest = memory.latest(label=label)
        if latest is None:
            raise nothing_saved(memory, label)
        if text == "latest":
            return latest
    infos = _listed(memory, label)
    return resolve(infos, text, label=label, latest=None if latest is None else latest.snapshot_id)


def _listed(memory: ColonyMemory, label: str) -> list[SnapshotInfo]:
    infos = memory.list_snapshots(label=label)
    if not infos:
        raise nothing_saved(memory, label)
    return infos


def with_pin(memory: ColonyMemory, info: SnapshotInfo) -> SnapshotInfo:
    """The same summary with its pin and the time that ends it, which only a list has."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColonyMemoryWarning)  # they concern other snapshots
        listed = {entry.snapshot_id: entry for entry in memory.list_snapshots(label=info.label)}
    found = listed.get(info.snapshot_id, info)
    return replace(info, pinned=found.pinned, pinned_until=found.pinned_until)


def latest_ids(memory: ColonyMemory, infos: Sequence[SnapshotInfo]) -> set[str]:
    """Ids of the latest snapshot of each label in a list."""
    marked = {info.label: info.snapshot_id for info in infos if info.head}
    for label in {info.label for info in infos} - set(marked):
        # 0.1.1 writes pointers without a head. A latest that cannot be restored is none, and the list has warned of it.
        with warnings.catch_warnings(), suppress(ColonyMemoryError):
            warnings.simplefilter("ignore", ColonyMemoryWarning)
            found = memory.latest(label=label)
            if found is not None:
                marked[label] = found.snapshot_id
    return set(marked.values())


def find_id(memory: ColonyMemory, text: str, *, label: str) -> str:
    """The id of the snapshot named by a text. A whole id is returned as it is, even if no list shows it."""
    return text if id_time(require_text("text", text)) else find(memory, text, label=label).snapshot_id


def find_at(memory: ColonyMemory, moment: datetime | str, *, label: str) -> SnapshotInfo:
    """The newest snapshot of this label not after a time, which may be text for :func:`parse_moment`."""
    require_synchronous(memory)
    if isinstance(moment, str):
        if id_time(moment):
            return find(memory, moment, label=label)
        moment = parse_moment(moment)
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise ValueError("a time is text, or a datetime with a time zone")
    infos = _listed(memory, label)
    ordered = sorted(infos, key=lambda info: (made_at(info), info.snapshot_id))
    before = [info for info in ordered if made_at(info) <= moment]
    if before:
        refused = refused_only(infos)
        return next((info for info in reversed(before) if info.snapshot_id not in refused), before[-1])
    raise SnapshotNotFound(
        f"label {label!r} has no snapshot from {stamp(moment.astimezone(timezone.utc))} or before; "
        f"its oldest is {ordered[0].snapshot_id}, of {stamp(made_at(ordered[0]))}"
    )


def parse_moment(text: str, *, now: datetime | None = None) -> datetime:
    """Parse ``2026-11-01T12:00``, also with a blank for the T or with seconds, a day, ``3h ago``, or a whole id.

    The result is the end of the last unit given, so that the time of a snapshot in a list, cut to the minute, finds it.
    It is local time, unless ``Z``, ``UTC`` or a zone such as ``+02:00`` follows.
    """
    text = require_text("text", text).strip()
    exact, age, form = id_time(text), _AGO.fullmatch(text), _FORM.fullmatch(text)
    if exact is not None:
        return exact
    try:
        if age:
            now = now or datetime.now(timezone.utc)
            return now - timedelta(seconds=int(age[1]) * SPANS[age[2][0].lower()]) if age[1] else now
        if form:
            # The form that Python 3.10 can parse.
            day, clock, second, part, zone = form.groups()
            plain = f"{clock or '00:00'}{second or ':00'}{(part or '.').ljust(7, '0')}"
            plain += "" if zone is None else "+00:00" if zone[0] not in "+-" else f"{zone[:3]}:{zone[-2:]}"
            unit = timedelta(days=1) if clock is None else timedelta(seconds=1 if second else 60)
            moment = datetime.fromisoformat(f"{day}T{plain}")
            return (moment if part else moment + unit - _TICK).astimezone()
    except (ValueError, OverflowError, OSError) as error:
        raise ValueError(f"{text!r} is not a time: {error}") from error
    raise ValueError(
        f"{text!r} is not a time: write 2026-11-01T12:00, with Z at its end for UTC, 2026-11-01, or 3h ago"
    )
