"""copy: every snapshot of some labels from one vault to another."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from colony_memory._arguments import require_call, several
from colony_memory._engine import room
from colony_memory._engine.label import LabelFiles, pin_text, read_labels
from colony_memory._engine.load import nothing_saved
from colony_memory._engine.observe import observed
from colony_memory._engine.session import log, warn
from colony_memory._engine.state import State, look
from colony_memory._engine.store import to_public
from colony_memory._engine.transfer.convert import Converter
from colony_memory._engine.transfer.deliver import Delivery
from colony_memory._engine.transfer.destination import require_conditions
from colony_memory._engine.transfer.pointer import Origin
from colony_memory._engine.transfer.whole import Reader, Whole
from colony_memory._format.names import latest_filename, manifest_filename, read_stamp, require_label
from colony_memory.exceptions import (
    ColonyMemoryError,
    ConflictDetected,
    QuotaExceeded,
    SnapshotCorrupt,
    SnapshotNotFound,
    UntrustedSnapshot,
    VaultError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from colony_memory._engine.session import Session
    from colony_memory.snapshot import SnapshotInfo


@dataclass(frozen=True)
class CopyReport:
    """What a copy did; true where nothing had to be left out.

    Attributes:
        copied: Snapshots that were written and read back equal, by label and oldest first.
        already: Snapshots that were there with the same bytes.
        left_out: Why a snapshot was not copied, by the name of its manifest: damaged or not trusted where it is, or
            something is in its way where it was to go.
        latest: For each label the id that a restore gives at the destination now.
    """

    copied: tuple[SnapshotInfo, ...]
    already: tuple[SnapshotInfo, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)
    latest: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return not self.left_out


@observed("copy_to")
async def copy(
    source: Session,
    destination: Session,
    *,
    labels: str | Iterable[str] | None,
    progress: Callable[[int, int], object] | None,
    wire: str | None = None,
) -> CopyReport:
    """See :meth:`colony_memory.ColonyMemory.copy_to`."""
    require_call("progress", progress)
    wanted = None if labels is None else [require_label(each) for each in several("labels", labels)]
    prefix = f"cmem.{wanted[0]}." if wanted is not None and len(wanted) == 1 else "cmem."
    listing = await source.vault.list(prefix)
    listing.need_complete("copying")
    todo = {label: files for label, files in read_labels(listing).items() if files.manifests}
    for each in wanted or []:
        if each not in todo:
            raise await nothing_saved(source, label=each)
    todo = {label: files for label, files in todo.items() if wanted is None or label in wanted}
    if not todo:
        raise SnapshotNotFound("there is no snapshot to copy")
    if wire is not None:
        Converter(destination, wire)  # so that what cannot be is said before anything is written
    job = _Copying(source, destination, {label: len(files.manifests) for label, files in todo.items()}, progress, wire)
    try:
        if wire is None:
            there = read_labels(await destination.vault.list(prefix))
            await _need_room(destination, todo, there)
        for label in todo:
            await job.copy_label(label)
    except VaultError as error:
        raise to_public(error, job.so_far()) from error
    except QuotaExceeded as error:
        msg = f"{error.message}; {job.so_far()}"
        raise QuotaExceeded(msg, needed=error.needed, available=error.available, hint=error.hint) from error
    return job.report()


async def _need_room(destination: Session, todo: Mapping[str, LabelFiles], there: Mapping[str, LabelFiles]) -> None:
    """Refuse before the first write what cannot fit, as far as the lists tell."""
    need = 0
    for label, files in todo.items():
        present = there[label].files if label in there else {}
        wanted = [name for each in files.manifests for name in files.owned(each)]
        wanted += [name for each in files.manifests for name in files.pack(each)]
        wanted += [latest_filename(label)] if latest_filename(label) in files.files else []
        need += files.size(name for name in wanted if name not in present) or 0
    await room.require(destination, need, "the copy")


@dataclass(frozen=True)
class _Way:
    """How the snapshots of one label go."""

    state: State
    delivery: Delivery
    reader: Reader
    converter: Converter | None


class _Copying:
    """A copy under way."""

    def __init__(
        self,
        source: Session,
        destination: Session,
        planned: Mapping[str, int],
        progress: Callable[[int, int], object] | None,
        wire: str | None,
    ) -> None:
        self.source, self.destination, self.wire = source, destination, wire
        self.planned, self.progress = planned, progress
        self.total, self.done = sum(planned.values()), 0
        self.copied: list[SnapshotInfo] = []
        self.already: list[SnapshotInfo] = []
        self.left_out: dict[str, str] = {}
        self.latest: dict[str, str] = {}

    async def copy_label(self, label: str) -> None:
        """Copy the snapshots of a label, oldest first, and then let the pointer follow, as far as it came."""
        state = await look(self.source, label, everything=True)
        decision = state.decision
        if decision.rollback is not None:
            raise decision.rollback
        if decision.refusal is not None:
            warn(f"label {label!r} is copied by its snapshots' own signatures, without its pointer: {decision.refusal}")
        ids = [each for each in reversed(state.listed.manifests) if not _was_deleted(state, each)]
        self.total += len(ids) - self.planned[label]  # others save and delete meanwhile
        origin = Origin(decision.pointer, decision.proven, state.text)
        way = _Way(
            state,
            await Delivery.to(self.destination, label, ids, origin),
            Reader(self.source, max_bytes=self.destination.max_bytes, blindly=True),
            None if self.wire is None else Converter(self.destination, self.wire),
        )
        try:
            later = [each for each in ids if not await self._bring(way, each)]
            if later:
                await way.delivery.look_again()
            for each in later:
                await self._bring(way, each, again=True)
            await self._commit(way.delivery, state)
        except ColonyMemoryError as error:
            await self._rescue(way.delivery, state, error)
            raise

    async def _bring(self, way: _Way, snapshot_id: str, *, again: bool = False) -> bool:
        """Copy one snapshot, or note why not; false where its files are in the way, to be looked at once more."""
        try:
            if not await self._store(way, snapshot_id, again=again):
                return False
        except SnapshotNotFound as error:
            log(f"a snapshot was deleted before it was copied: {error}")
        except (SnapshotCorrupt, UntrustedSnapshot, ConflictDetected) as error:
            self.left_out[manifest_filename(way.state.label, snapshot_id)] = str(error)
        self.done += 1
        if self.progress is not None:
            self.progress(self.done, self.total)
        return True

    async def _store(self, way: _Way, snapshot_id: str, *, again: bool) -> bool:
        state, delivery, label = way.state, way.delivery, way.state.label
        if self._is_too_early(state, snapshot_id):
            msg = (
                f"snapshot {snapshot_id} of label {label!r} is not listed by the signed pointer: a backup under way, "
                "or one that did not finish; copy again once it is listed"
            )
            raise ConflictDetected(msg, theirs=None)
        whole = await way.reader.read(label, snapshot_id)
        if self.destination.trust != self.source.trust:
            self.destination.trust.judge(whole.manifest.raw)
        brought = whole if way.converter is None else await way.converter.convert(delivery.here, whole)
        if brought is not None and brought.packs and not self.destination.vault.conditional:
            self._leave(brought)
            return True
        row, files = state.decision.entry(snapshot_id), state.listed
        pin = pin_text(label, snapshot_id, files.pin_ends.get(snapshot_id)) if snapshot_id in files.pins else None
        # What followed is known to the catalogue alone.
        known = row if row is not None and read_stamp(row.shrunk_at) else None
        if brought is None or await delivery.store(brought, pin=pin, known=known) is None:
            if again:
                raise delivery.in_the_way(whole)
            return False
        if way.converter is not None:
            way.converter.arrived(brought)
        return True

    def _leave(self, whole: Whole) -> None:
        try:
            require_conditions(self.destination, f"snapshot {whole.snapshot_id}")
        except ColonyMemoryError as error:
            self.left_out[whole.manifest_file] = str(error)

    def _is_too_early(self, state: State, snapshot_id: str) -> bool:
        """Whether a snapshot would keep the signed pointer from being copied as it is, which does not list it yet."""
        decision = state.decision
        return decision.pointer.signed and self.destination.signer is None and snapshot_id in decision.waiting

    async def _commit(self, delivery: Delivery, state: State) -> None:
        """Commit what has arrived of a label, and count it as copied."""
        label, arrivals = state.label, delivery.arrivals
        if not arrivals.there and not arrivals.lost:
            return
        now = await delivery.commit()
        for snapshot_id, why in arrivals.lost.items():
            self.left_out[manifest_filename(label, snapshot_id)] = why
        self.copied += [arrived.info for arrived in arrivals.there.values() if arrived.wrote]
        self.already += [arrived.info for arrived in arrivals.there.values() if not arrived.wrote]
        if now.snapshot_id is not None:
            self.latest[label] = now.snapshot_id

    async def _rescue(self, delivery: Delivery, state: State, error: ColonyMemoryError) -> None:
        """Commit what has arrived before the copy failed, else remove it: it would be in the way of the next one."""
        try:
            await self._commit(delivery, state)
        except ColonyMemoryError as again:
            log(f"what was copied of label {state.label!r} is not in its catalogue: {again}, after {error}")
            await delivery.undo(again)

    def so_far(self) -> str:
        """What was done, for an error that ends the copy."""
        done = len(self.copied) + len(self.already)
        if not done:
            return "nothing was copied"
        return f"{done} of {self.total} snapshots are copied, and copying again goes on from there"

    def report(self) -> CopyReport:
        """The result."""
        return CopyReport(tuple(self.copied), tuple(self.already), self.left_out, self.latest)


def _was_deleted(state: State, snapshot_id: str) -> bool:
    """Whether the pointer says that a snapshot was removed, though its files are still there or were put back."""
    decision = state.decision
    if snapshot_id in decision.counted:
        return False
    whole = any(entry.snapshot_id == snapshot_id for entry in decision.entries)
    return whole or snapshot_id in decision.pointer.gone
