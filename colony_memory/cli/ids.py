"""Snapshots as people name them: an id, the beginning of one, ``latest``, ``latest~2``."""

from __future__ import annotations

import re
import warnings
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from colony_memory._format.names import id_time
from colony_memory.cli.errors import USAGE, Failure
from colony_memory.exceptions import ColonyMemoryError, ColonyMemoryWarning, SnapshotNotFound
from colony_memory.retention import newest_first

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from colony_memory.client import ColonyMemory
    from colony_memory.snapshot import SnapshotInfo

_LATEST = re.compile(r"latest(?:~([0-9]{1,9}))?")
_BEGINNING = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SHOWN = 5


def may_name_a_snapshot(text: str) -> bool:
    """Whether the text may name a snapshot; a path with a dot or a separator in it does not."""
    return bool(_LATEST.fullmatch(text) or _BEGINNING.fullmatch(text))


def names_a_snapshot(text: str) -> bool:
    """Whether the text is what is said of snapshots and hardly of anything else: ``latest~2``, or a whole id."""
    return bool(_LATEST.fullmatch(text)) or id_time(text) is not None


def resolve(infos: Sequence[SnapshotInfo], text: str, *, latest: str | None = None) -> SnapshotInfo:
    """Pure: the one snapshot of these that the text names.

    Args:
        infos: Snapshots of one label.
        text: An id, the beginning of one, ``latest``, which is what a restore gives, or ``latest~2``, the second before
            it.
        latest: Id of the latest; by default that of the one with a head.

    Raises:
        SnapshotNotFound: None is named so.
        Failure: The text is of no such form, or the beginning of several ids, which the message gives.
    """
    counted = _LATEST.fullmatch(text)
    if counted:
        return _count_back(infos, int(counted[1] or 0), latest)
    if not _BEGINNING.fullmatch(text):
        raise Failure(
            f"{text!r} names no snapshot: give an id from 'list', the beginning of one, latest, or latest~2", code=USAGE
        )
    found = [info for info in infos if info.snapshot_id.startswith(text)]
    exact = [info for info in found if info.snapshot_id == text]
    if len(found) > 1 and not exact:
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        ids = ", ".join(info.snapshot_id for info in found[:_SHOWN])
        raise Failure(f"{text!r} is the beginning of {len(found)} ids: {ids}{more}", code=USAGE)
    if not found:
        raise SnapshotNotFound(f"no snapshot has an id that begins with {text!r}")
    return (exact or found)[0]


def _count_back(infos: Sequence[SnapshotInfo], back: int, latest: str | None) -> SnapshotInfo:
    ordered = newest_first(infos)
    at = next((place for place, info in enumerate(ordered) if info.snapshot_id == latest or info.head), 0) + back
    if at >= len(ordered):
        raise SnapshotNotFound(
            f"latest~{back} is further back than the oldest snapshot" if ordered else "nothing is saved yet"
        )
    return ordered[at]


def find(memory: ColonyMemory, text: str, *, label: str) -> SnapshotInfo:
    """The summary of the snapshot of this label that the text names.

    Raises:
        SnapshotNotFound: There is none, and where one of another label is named so, the message says which.
        Failure: As :func:`resolve`.
    """
    with naming_the_label(memory, text):
        try:
            latest = None
            if _LATEST.fullmatch(text):
                # What a restore would refuse has no other name either: this raises what that would.
                found = memory.latest(label=label)
                if found is None:
                    raise SnapshotNotFound("nothing is saved yet")
                if text == "latest":
                    return found
                latest = found.snapshot_id
            return resolve(memory.list_snapshots(label=label), text, latest=latest)
        except SnapshotNotFound as error:
            raise SnapshotNotFound(f"{error.message}, under label {label!r}", hint=error.hint) from error


def with_pin(memory: ColonyMemory, info: SnapshotInfo) -> SnapshotInfo:
    """The same summary with what only a list knows: whether it is pinned."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColonyMemoryWarning)  # they are of others
        listed = {each.snapshot_id: each.pinned for each in memory.list_snapshots(label=info.label)}
    return replace(info, pinned=listed.get(info.snapshot_id, info.pinned))


def latest_ids(memory: ColonyMemory, infos: Sequence[SnapshotInfo]) -> set[str]:
    """Ids of the latest of each label, of those that a list has given."""
    marked = {info.label: info.snapshot_id for info in infos if info.head}
    for label in {info.label for info in infos} - set(marked):
        # 0.1.1 writes pointers that have no head. What cannot be restored is no latest, and the list has said why.
        with warnings.catch_warnings(), suppress(ColonyMemoryError):
            warnings.simplefilter("ignore", ColonyMemoryWarning)
            found = memory.latest(label=label)
            if found is not None:
                marked[label] = found.snapshot_id
    return set(marked.values())


def find_id(memory: ColonyMemory, text: str, *, label: str) -> str:
    """The id that the text names. A whole id is taken as it is, so it may be one that a list leaves out."""
    return text if id_time(text) else find(memory, text, label=label).snapshot_id


@contextmanager
def naming_the_label(memory: ColonyMemory, text: str) -> Iterator[None]:
    """Where a snapshot is not found and another label has one of that name, say so."""
    try:
        yield
    except SnapshotNotFound as error:
        more = "" if "add --label" in error.message else _elsewhere(memory, text)
        raise SnapshotNotFound(f"{error.message}{more}", hint=error.hint) from error


def _elsewhere(memory: ColonyMemory, text: str) -> str:
    if _LATEST.fullmatch(text):
        return ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColonyMemoryWarning)  # they are of labels that nobody asked for
        labels = sorted({info.label for info in memory.list_snapshots() if info.snapshot_id.startswith(text)})
    return f"; there is one under {', '.join(map(repr, labels))}: add --label" if labels else ""
