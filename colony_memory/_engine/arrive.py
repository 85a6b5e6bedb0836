"""How the pointer of a label follows snapshots that came from elsewhere.

It never moves to an older snapshot than the one that it names, and what another client wrote in between stays.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from colony_memory._engine.label import survey
from colony_memory._engine.pointer import (
    check_rollback,
    find_pointer,
    head_of,
    may_write_pointer,
    next_pointer,
    put_pointer,
    require_same,
)
from colony_memory._engine.prune import in_flight
from colony_memory._engine.session import warn
from colony_memory._engine.store import Changed
from colony_memory._format.names import id_order, latest_filename, read_filename
from colony_memory._format.pointer import read_pointer
from colony_memory.exceptions import ConflictDetected, UntrustedSnapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from colony_memory._engine.pointer import PointerRead
    from colony_memory._engine.session import Session
    from colony_memory._format.pointer import Entry

_TRIES = 5


@dataclass(frozen=True)
class Arrived:
    """Snapshots of one label that are whole in the vault now.

    Attributes:
        label: The label.
        entries: Their rows in a catalogue, by id.
        newest: Id of the one that a restore is to give.
        above: Generation of the pointer where they came from; 0 where it had none.
        pointer: Text of that pointer, if it is signed and may stand here as it is; else None.
        signed: Whether that pointer is signed.
    """

    label: str
    entries: Mapping[str, Entry]
    newest: str
    above: int = 0
    pointer: str | None = None
    signed: bool = False


class Latest(NamedTuple):
    """What the pointer names: an id, None where it names nothing, and the head, empty where it is not known."""

    snapshot_id: str | None
    head: str


async def point(session: Session, arrived: Arrived) -> Latest:
    """Move the pointer to what has arrived, unless it names something newer; what it names then.

    Raises:
        RollbackDetected: The label was rolled back: nothing is built upon it.
        ConflictDetected: Other clients kept moving the pointer.
    """
    label = arrived.label
    seen = await session.seen(label)
    for _ in range(_TRIES):
        at = await find_pointer(session, label)
        if at.text is not None:
            check_rollback(session, label, at, seen=seen)
        if at.text is not None and at.distrust is not None:
            warn(f"the pointer of label {label!r} was left as it is, since it is not trusted: {at.distrust}")
            return _latest(at, arrived)
        target = arrived.newest
        if at.named is not None and id_order(at.named) >= id_order(target):
            if not _lacks_rows(session, at, arrived):
                return _latest(at, arrived)
            target = at.named
        try:
            if target == arrived.newest and await _may_stand(session, at, arrived):
                return await _copy_text(session, at, arrived)
            if may_write_pointer(session, at):
                return await _write(session, at, arrived, target, seen=seen)
        except Changed:
            continue
        warn(
            f"the pointer of label {label!r} was left as it is: it is to be signed, and this client has no signer; do "
            "it again with signer="
        )
        return _latest(at, arrived)
    msg = f"the pointer {latest_filename(label)} kept changing: the snapshots are stored and listed, do it again"
    raise ConflictDetected(msg, theirs=at.written)


def _latest(at: PointerRead, arrived: Arrived) -> Latest:
    entry = arrived.entries.get(at.named or "")
    digest = entry.manifest_sha256 if entry else at.digest
    return Latest(at.named, head_of(at.pointer, digest) if at.pointer and digest else "")


def _lacks_rows(session: Session, at: PointerRead, arrived: Arrived) -> bool:
    """Whether the catalogue lacks rows that can be added without harm.

    Where the pointer cannot be written on condition it might be set back over another client's, and without a signer
    it would lose its signature: a missing row is read from the manifest.
    """
    pointer = at.pointer
    if pointer is None or pointer.entries is None or not session.vault.conditional:
        return False
    return may_write_pointer(session, at) and any(pointer.entry(each) is None for each in arrived.entries)


async def _copy_text(session: Session, at: PointerRead, arrived: Arrived) -> Latest:
    text = arrived.pointer or ""
    await require_same(session, at, arrived.label)
    await session.vault.put(latest_filename(arrived.label), text, match=at.match)
    pointer = read_pointer(text, label=arrived.label)
    head = head_of(pointer, arrived.entries[arrived.newest].manifest_sha256)
    await session.note(arrived.label, head, proven=session.trust.pins)
    return Latest(arrived.newest, head)


async def _write(session: Session, at: PointerRead, arrived: Arrived, target: str, *, seen: Iterable[str]) -> Latest:
    label, first = arrived.label, False
    known: Iterable[Entry] | None = at.pointer.entries if at.pointer else None
    if known is None:
        found = await survey(session, label, at.pointer)
        young = in_flight(session, found, at.pointer)
        known = [entry for entry in found.whole_entries if entry.info.snapshot_id not in young]
        first = at.text is None and found.ids <= set(arrived.entries)
        if at.named is None:
            target = max([target, *(entry.info.snapshot_id for entry in known)], key=id_order)
    rows = {entry.info.snapshot_id: entry for entry in known}
    for snapshot_id, entry in arrived.entries.items():
        noted = rows.get(snapshot_id, entry).shrunk_at
        rows[snapshot_id] = replace(entry, shrunk_at=entry.shrunk_at or noted)
    above = [*seen, str(arrived.above)]
    moved = next_pointer(session, at, label, target, rows.values(), seen=above, first=first)
    await require_same(session, at, label)
    head = await put_pointer(session, at, moved)
    if session.signer is None and arrived.signed:
        warn(
            f"the pointer of label {label!r} is not signed as where it came from, since it does not say what is here, "
            "and this client has no signer: clients that pin issuers refuse it; do it again with signer="
        )
    return Latest(target, head)


async def _may_stand(session: Session, at: PointerRead, arrived: Arrived) -> bool:
    """Whether the pointer from elsewhere says just what is here, so that its signature can stand too."""
    if arrived.pointer is None or session.signer is not None:
        return False
    if at.pointer is not None and at.pointer.generation >= arrived.above:
        return False
    if session.trust.pins:
        try:
            session.trust.judge_pointer(read_pointer(arrived.pointer, label=arrived.label).raw)
        except UntrustedSnapshot:
            return False
    listing = await session.vault.list(f"cmem.{arrived.label}.")
    files = (read_filename(name) for name in listing.files)
    here = {file.snapshot_id for file in files if file and file.label == arrived.label and file.seq is None}
    return listing.complete and here - {None} <= set(arrived.entries)
