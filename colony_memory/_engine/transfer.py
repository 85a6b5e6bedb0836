"""export, import, copy: snapshots from one place to another, byte for byte, so that every signature stays as it was."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from colony_memory._engine.arrive import Arrived, point
from colony_memory._engine.deliver import check, fetch, need_bytes, store
from colony_memory._engine.pointer import check_rollback, find_pointer
from colony_memory._engine.restore import latest
from colony_memory._engine.session import log, warn
from colony_memory._format.names import (
    id_order,
    latest_filename,
    manifest_filename,
    read_filename,
    require_id,
    require_label,
)
from colony_memory.exceptions import (
    ConflictDetected,
    QuotaExceeded,
    SnapshotCorrupt,
    SnapshotNotFound,
    UntrustedSnapshot,
    VaultError,
    VaultUnavailable,
)
from colony_memory.export import Export

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from colony_memory._engine.pointer import PointerRead
    from colony_memory._engine.session import Session
    from colony_memory._engine.store import Listing
    from colony_memory._format.pointer import Entry
    from colony_memory.snapshot import SnapshotInfo


@dataclass(frozen=True)
class CopyReport:
    """What a copy did; true where nothing had to be left out.

    Attributes:
        copied: Snapshots that were written and read back equal, by label and oldest first.
        already: Snapshots that were there with the same bytes.
        left_out: Why a snapshot was not copied, by the name of its manifest: damaged or not trusted where it is, or
            another content is under its id where it was to go.
        heads: For each label the id that a restore gives at the destination now.
    """

    copied: tuple[SnapshotInfo, ...]
    already: tuple[SnapshotInfo, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)
    heads: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return not self.left_out


async def export_snapshot(session: Session, *, label: str, snapshot_id: str | None) -> Export:
    """See :func:`colony_memory.transfer.export_snapshot`."""
    label = require_label(label)
    if snapshot_id is None:
        newest = await latest(session, label=label)
        if newest is None:
            msg = f"no snapshot for label {label!r}"
            raise SnapshotNotFound(msg)
        snapshot_id = newest.snapshot_id
    whole = await fetch(session, label, require_id(snapshot_id))
    return Export(label, snapshot_id, whole.files)


async def import_snapshot(session: Session, exported: Export, *, label: str | None) -> SnapshotInfo:
    """See :func:`colony_memory.transfer.import_snapshot`."""
    if not isinstance(exported, Export):
        msg = f"exported must be an Export, not {type(exported).__name__}: load_export() and read_export() give one"
        raise ValueError(msg)  # noqa: TRY004 - one type for every bad argument
    if label is not None and require_label(label) != exported.label:
        msg = (
            f"the export is of label {exported.label!r}, as its manifest says, and cannot be imported as {label!r}: "
            f"restore it, and back that up under {label!r}"
        )
        raise ValueError(msg)
    label = exported.label
    whole = await check(session, label, exported.snapshot_id, exported.files)
    try:
        wrote = await store(session, whole, await session.vault.list(f"cmem.{label}."))
        entry = whole.entry
        now = await point(session, Arrived(label, {exported.snapshot_id: entry}, exported.snapshot_id))
    except VaultError as error:
        raise _again(error, "importing again goes on where it stopped") from error
    return replace(entry.info, reused=not wrote, head=now.head if now.snapshot_id == exported.snapshot_id else "")


async def copy(
    source: Session,
    destination: Session,
    *,
    labels: str | Iterable[str] | None,
    progress: Callable[[int, int], object] | None,
) -> CopyReport:
    """See :func:`colony_memory.transfer.copy`."""
    wanted = (
        None if labels is None else [require_label(each) for each in ([labels] if isinstance(labels, str) else labels)]
    )
    prefix = f"cmem.{wanted[0]}." if wanted is not None and len(wanted) == 1 else "cmem."
    listing = await source.vault.list(prefix)
    listing.need_complete("copying")
    todo = _snapshots(listing)
    for each in wanted or []:
        if each not in todo:
            msg = f"no snapshot for label {each!r} to copy"
            raise SnapshotNotFound(msg)
    todo = {label: ids for label, ids in todo.items() if wanted is None or label in wanted}
    if not todo:
        raise SnapshotNotFound("there is no snapshot to copy")
    job = _Copy(source, destination, sum(map(len, todo.values())), progress)
    try:
        there = await destination.vault.list(prefix)
        await _need_room(destination, todo, listing, there)
        for label, ids in todo.items():
            await job.copy_label(label, ids, there)
    except VaultError as error:
        raise _again(error, job.so_far()) from error
    except QuotaExceeded as error:
        msg = f"{error}; {job.so_far()}"
        raise QuotaExceeded(msg, needed=error.needed, available=error.available) from error
    return job.report()


class _Copy:
    """A copy under way."""

    def __init__(
        self, source: Session, destination: Session, total: int, progress: Callable[[int, int], object] | None
    ) -> None:
        self.source, self.destination = source, destination
        self.total, self.progress = total, progress
        self.done = 0
        self.copied: list[SnapshotInfo] = []
        self.already: list[SnapshotInfo] = []
        self.left_out: dict[str, str] = {}
        self.heads: dict[str, str] = {}

    async def copy_label(self, label: str, ids: list[str], there: Listing) -> None:
        """Copy the snapshots of a label, oldest first, and then let the pointer follow."""
        at = await find_pointer(self.source, label)
        check_rollback(self.source, label, at, seen=await self.source.seen(label))
        if at.distrust is not None:
            warn(f"label {label!r} is copied by its snapshots' own signatures: {at.distrust}")
        left_out = len(self.left_out)
        arrived: dict[str, Entry] = {}
        for snapshot_id in ids:
            entry = await self._copy_one(label, snapshot_id, at, there)
            if entry is not None:
                arrived[snapshot_id] = entry
            self.done += 1
            if self.progress is not None:
                self.progress(self.done, self.total)
        if arrived:
            complete = len(self.left_out) == left_out
            now = await point(self.destination, _arrived(label, arrived, at, complete=complete))
            if now.snapshot_id is not None:
                self.heads[label] = now.snapshot_id

    async def _copy_one(self, label: str, snapshot_id: str, at: PointerRead, there: Listing) -> Entry | None:
        try:
            whole = await fetch(self.source, label, snapshot_id)
            if _accepts(self.destination) != _accepts(self.source):
                await check(self.destination, label, snapshot_id, whole.files)
            wrote = await store(self.destination, whole, there)
        except SnapshotNotFound as error:
            log(f"a snapshot was deleted before it was copied: {error}")
            return None
        except (SnapshotCorrupt, UntrustedSnapshot, ConflictDetected) as error:
            self.left_out[manifest_filename(label, snapshot_id)] = str(error)
            return None
        entry = whole.entry
        (self.copied if wrote else self.already).append(entry.info)
        known = at.pointer.entry(snapshot_id) if at.pointer else None
        # The time of a shrink is known to the catalogue alone.
        return replace(entry, shrunk_at=known.shrunk_at) if known else entry

    def so_far(self) -> str:
        """What was done, for an error that ends the copy."""
        done = len(self.copied) + len(self.already)
        return f"{done} of {self.total} snapshots are copied, and copying again goes on from there"

    def report(self) -> CopyReport:
        """The result."""
        return CopyReport(tuple(self.copied), tuple(self.already), self.left_out, self.heads)


def _accepts(session: Session) -> tuple[object, int]:
    """What decides whether a client takes a snapshot."""
    return session.trust, session.max_bytes


def _arrived(label: str, entries: Mapping[str, Entry], at: PointerRead, *, complete: bool) -> Arrived:
    """What the pointer at the destination has to follow."""
    pointer = at.pointer
    named = at.named if at.named in entries else None
    newest = named or max(entries, key=id_order)
    if pointer is None or at.distrust is not None:
        return Arrived(label, entries, newest)
    rows = {entry.info.snapshot_id for entry in pointer.entries or ()}
    as_it_is = complete and pointer.signed and named is not None and rows <= set(entries)
    return Arrived(
        label,
        entries,
        newest,
        above=pointer.generation,
        pointer=at.text if as_it_is else None,
        signed=pointer.signed,
    )


def _snapshots(listing: Listing) -> dict[str, list[str]]:
    """Ids of the manifests that are listed, oldest first, by label."""
    found: dict[str, list[str]] = {}
    for name in sorted(listing.files):
        file = read_filename(name)
        if file is not None and file.snapshot_id is not None and file.seq is None:
            found.setdefault(file.label, []).append(file.snapshot_id)
    return {label: sorted(ids, key=id_order) for label, ids in found.items()}


async def _need_room(destination: Session, todo: Mapping[str, Iterable[str]], listing: Listing, there: Listing) -> None:
    """Refuse before the first write what cannot fit, as far as the lists tell."""
    wanted = {(label, snapshot_id) for label, ids in todo.items() for snapshot_id in ids}
    pointers = set(map(latest_filename, todo))
    need = 0
    for name, stored in listing.files.items():
        file = read_filename(name)
        if file is not None and (file[:2] in wanted or name in pointers) and name not in there.files:
            need += stored.size or 0
    await need_bytes(destination, need, "nothing was copied: that takes about")


def _again(error: VaultError, what: str) -> VaultError:
    """The same error, saying what was done so far."""
    kind = VaultUnavailable if isinstance(error, VaultUnavailable) else type(error)
    return kind(f"{error}; {what}", status=error.status, code=error.code, retry_after=error.retry_after)
