"""export, import, copy: snapshots from one place to another, file by file as they are, signatures included."""

from __future__ import annotations

import copy as copying
from typing import TYPE_CHECKING

from colony_memory._boundary import require_call, require_type, several
from colony_memory._engine.deliver import Delivery, look_whole, needs_conditions
from colony_memory._engine.files import require_room
from colony_memory._engine.label import LabelFiles, pin_text, read_labels, require_complete
from colony_memory._engine.load import Reader, nothing_saved
from colony_memory._engine.observe import observed, outside_verbs, saved
from colony_memory._engine.restore import latest
from colony_memory._engine.session import Session, log, warn
from colony_memory._engine.state import State, look
from colony_memory._engine.store import to_public
from colony_memory._format.names import latest_filename, manifest_filename, require_id, require_label
from colony_memory._values import Record, Value, field, replace
from colony_memory.exceptions import (
    ColonyMemoryError,
    ConflictDetected,
    QuotaExceeded,
    RollbackDetected,
    SnapshotCorrupt,
    SnapshotNotFound,
    UntrustedSnapshot,
    VaultError,
    message_of,
)
from colony_memory.export import Export
from colony_memory.vaults.memory import ExportVault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from colony_memory.snapshot import SnapshotInfo

__all__ = ["CopyReport", "copy", "export_snapshot", "import_snapshot"]


class CopyReport(Value):
    """The result of a copy or of its dry run; true where nothing had to be left out."""

    copied: tuple[SnapshotInfo, ...]  #: Snapshots that were written and read back equal, by label and oldest first.
    already: tuple[SnapshotInfo, ...]  #: Snapshots that were there with the same bytes.
    #: Why a snapshot was not copied, by the name of its manifest.
    left_out: Mapping[str, str] = field(default_factory=dict)
    #: For each label the id that a restore gives at the destination now.
    latest: Mapping[str, str] = field(default_factory=dict)
    dry_run: bool = False  #: Nothing was written.

    def __bool__(self) -> bool:
        return not self.left_out


@observed("export_snapshot")
async def export_snapshot(session: Session, *, label: str, snapshot_id: str | None) -> Export:
    label = require_label(label)
    if snapshot_id is None:
        newest = await latest(session, label=label)
        if newest is None:
            raise await nothing_saved(session, label=label)
        snapshot_id = newest.snapshot_id
    return Export(label, snapshot_id, (await Reader(session).read(label, require_id(snapshot_id))).files)


@observed("import_snapshot", saved)
async def import_snapshot(session: Session, exported: Export, *, label: str | None, dry_run: bool) -> SnapshotInfo:
    require_type("exported", exported, Export)
    if label is not None and require_label(label) != exported.label:
        raise ValueError(
            f"the export is of label {exported.label!r}, as its manifest says, and cannot be imported as {label!r}: "
            f"restore it, and back that up under {label!r}"
        )
    offline = copying.copy(session)  # judges the files as a restore by this client would
    offline.vault, offline.manifests, offline.good = type(session.vault)(ExportVault(exported)), {}, {}
    offline.on_event = None
    with outside_verbs():  # its files are not of this vault
        loaded = await Reader(offline).read(exported.label, exported.snapshot_id)
    for name in exported.files.keys() - loaded.files.keys():
        raise SnapshotCorrupt(f"{name} is not a file that {loaded.named} needs", file=name)
    try:
        delivery = Delivery(session, await look_whole(session, exported.label), None, dry_run=dry_run)
        wrote = await delivery.bring(loaded)
        pointer = (await look(session, exported.label)).pointer
    except VaultError as error:
        raise to_public(error, "importing again goes on where it stopped") from error
    head = pointer.head if pointer.snapshot_id == exported.snapshot_id else ""
    return replace(loaded.entry().info, reused=not wrote, head=head)


@observed("copy_to")
async def copy(
    source: Session,
    destination: Session,
    *,
    labels: str | Iterable[str] | None,
    progress: Callable[[int, int], object] | None,
    dry_run: bool,
) -> CopyReport:
    require_call("progress", progress)
    wanted = None if labels is None else [require_label(name) for name in several("labels", labels)]
    prefix = f"cmem.{wanted[0]}." if wanted is not None and len(wanted) == 1 else "cmem."
    listing = await source.vault.list(prefix)
    require_complete(listing, f"{prefix}*", "copying")
    todo = {label: files for label, files in read_labels(listing).items() if files.manifests}
    for name in wanted or []:
        if name not in todo:
            raise await nothing_saved(source, label=name)
    todo = {label: files for label, files in todo.items() if wanted is None or label in wanted}
    if not todo:
        raise SnapshotNotFound("there is no snapshot to copy")
    total = sum(len(files.manifests) for files in todo.values())
    job = _Copying(source, destination, total, progress, dry_run)
    try:
        present = read_labels(await destination.vault.list(prefix))
        need = sum(_missing_bytes(files, present.get(label)) for label, files in todo.items())
        await require_room(destination, need, "the copy")
        for label, files in todo.items():
            await job.copy_label(label, planned=len(files.manifests))
    except VaultError as error:
        raise to_public(error, job.so_far()) from error
    except QuotaExceeded as error:
        msg = f"{error.message}; {job.so_far()}"
        raise QuotaExceeded(msg, needed=error.needed, available=error.available, hint=error.hint) from error
    return CopyReport(tuple(job.copied), tuple(job.already), job.left_out, job.latest, dry_run)


def _missing_bytes(files: LabelFiles, present: LabelFiles | None) -> int:
    wanted = [name for id_ in files.manifests for name in (*files.owned(id_), *files.pack(id_))]
    wanted += [latest_filename(files.label)] if latest_filename(files.label) in files.files else []
    return files.size(name for name in wanted if present is None or name not in present.files) or 0


class _Copying(Record):
    source: Session
    destination: Session
    total: int
    progress: Callable[[int, int], object] | None
    dry_run: bool
    done: int = 0
    copied: list[SnapshotInfo] = field(default_factory=list)
    already: list[SnapshotInfo] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    latest: dict[str, str] = field(default_factory=dict)

    async def copy_label(self, label: str, *, planned: int) -> None:
        state = await look(self.source, label, everything=True)
        if state.rollback is not None:
            raise state.rollback
        if state.refusal is not None:
            warn(f"label {label!r} is copied by its snapshots' own signatures, without its pointer: {state.refusal}")
        ids = [id_ for id_ in reversed(state.listed.manifests) if _is_restore_point(state, id_)]
        self.total += len(ids) - planned  # others save and delete meanwhile
        delivery = Delivery(self.destination, await look_whole(self.destination, label), state, dry_run=self.dry_run)
        if any(delivery.here.pointer.entry(id_) is None for id_ in ids):
            delivery.require_key()
        reader = Reader(self.source, max_bytes=self.destination.max_bytes, blindly=True)
        try:
            for id_ in ids:
                delivery.outdated |= not await self._bring(state, delivery, reader, id_)
            await delivery.finish()
        except ColonyMemoryError as error:
            if delivery.brought and not state.pointer.signed:
                try:
                    await delivery.finish()
                except ColonyMemoryError as again:
                    log(f"what was copied of label {label!r} is not listed: {message_of(again)}, after {error}")
            raise
        now = await look(self.destination, label)
        if now.follow is not None and now.doubt is None:
            self.latest[label] = now.follow

    async def _bring(self, state: State, delivery: Delivery, reader: Reader, snapshot_id: str) -> bool:
        """Copy one snapshot, or note why not; false where it was deleted meanwhile."""
        label, exists, file = state.label, True, manifest_filename(state.label, snapshot_id)
        row, files = state.entry(snapshot_id), state.listed
        pin = pin_text(label, snapshot_id, files.pin_ends.get(snapshot_id)) if snapshot_id in files.pins else None
        try:
            if row is not None and row.packs and not self.destination.vault.conditional:
                self.left_out[file] = str(needs_conditions(f"snapshot {snapshot_id} of label {label!r}"))
            else:
                loaded = await reader.read(label, snapshot_id)
                wrote = await delivery.bring(loaded, pin=pin, known=row)
                (self.copied if wrote else self.already).append(loaded.entry(row).info)
        except SnapshotNotFound as error:
            log(f"a snapshot was deleted before it was copied: {error}")
            exists = False
        except RollbackDetected:
            raise
        except (SnapshotCorrupt, UntrustedSnapshot, ConflictDetected) as error:
            self.left_out[file] = str(error)
        self.done += 1
        if self.progress is not None:
            self.progress(self.done, self.total)
        return exists

    def so_far(self) -> str:
        done = len(self.copied) + len(self.already)
        if not done or self.dry_run:
            return "nothing was copied"
        return f"{done} of {self.total} snapshots are copied, and copying again goes on from there"


def _is_restore_point(state: State, snapshot_id: str) -> bool:
    """True if a snapshot is to be copied: none that was removed or is under way; a damaged one is, to be reported."""
    if snapshot_id in state.waiting:
        return not state.pointer.generation or snapshot_id == state.follow
    intact = any(entry.snapshot_id == snapshot_id for entry in state.entries)
    return snapshot_id in state.committed or not (intact or snapshot_id in state.pointer.gone)
