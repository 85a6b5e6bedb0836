"""export, import, copy: snapshots from one place to another, byte for byte, so that every signature stays as it was.

The order is that of a backup: parts, then the manifest, and the pointer last of all. A file that is there already is
relied upon only where a committed snapshot needs it: what is there and is not committed may be on its way out.
"""

from __future__ import annotations

import copy as copying
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from colony_memory._engine import room
from colony_memory._engine.files import sweep
from colony_memory._engine.label import GRACE, LabelFiles, read_label, read_labels
from colony_memory._engine.load import Loaded, load
from colony_memory._engine.publish import Move, may_move, may_write, publish
from colony_memory._engine.restore import latest
from colony_memory._engine.session import log, warn
from colony_memory._engine.state import State, look
from colony_memory._engine.store import ABSENT, Changed, StoredFile, Vault
from colony_memory._format.head import read_head
from colony_memory._format.names import id_order, latest_filename, manifest_filename, require_id, require_label
from colony_memory._format.pointer import Entry, Pointer, read_pointer
from colony_memory.exceptions import (
    ColonyMemoryError,
    ConflictDetected,
    Hint,
    QuotaExceeded,
    RollbackDetected,
    SnapshotCorrupt,
    SnapshotNotFound,
    UntrustedSnapshot,
    VaultError,
    VaultUnavailable,
)
from colony_memory.export import Export

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from colony_memory._engine.session import Session
    from colony_memory._engine.store import Tell
    from colony_memory.snapshot import Manifest, SnapshotInfo

_T = TypeVar("_T")


@dataclass(frozen=True)
class CopyReport:
    """What a copy did; true where nothing had to be left out.

    Attributes:
        copied: Snapshots that were written and read back equal, by label and oldest first.
        already: Snapshots that were there with the same bytes.
        left_out: Why a snapshot was not copied, by the name of its manifest: damaged or not trusted where it is, or
            something else is under its id where it was to go.
        latest: For each label the id that a restore gives at the destination now.
    """

    copied: tuple[SnapshotInfo, ...]
    already: tuple[SnapshotInfo, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)
    latest: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return not self.left_out


@dataclass(frozen=True)
class _Whole:
    """A snapshot whose every byte was checked: its manifest, and its files in the order in which they are written."""

    manifest: Manifest
    files: Mapping[str, str]

    @property
    def entry(self) -> Entry:
        """What a catalogue says of it."""
        stored = sum(len(text.encode("utf-8")) for text in self.files.values())
        return Entry(replace(self.manifest.info, stored_bytes=stored), self.manifest.sha256)


class _Given(Vault):
    """Files that were read already, as a vault: whoever judges a snapshot in one judges these."""

    def __init__(self, files: Mapping[str, str], vault: Vault) -> None:
        super().__init__(None)
        self._files, self._vault = files, vault

    async def get(self, name: str) -> StoredFile | None:
        return StoredFile(self._files[name], None) if name in self._files else None

    async def get_many(self, names: Iterable[str], tell: Tell | None = None) -> dict[str, StoredFile | None]:  # noqa: ARG002
        return {name: await self.get(name) for name in names}

    async def compute(self, function: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
        return await self._vault.compute(function, *args, **kwargs)


async def export_snapshot(session: Session, *, label: str, snapshot_id: str | None) -> Export:
    """See :meth:`colony_memory.ColonyMemory.export_snapshot`."""
    label = require_label(label)
    if snapshot_id is None:
        newest = await latest(session, label=label)
        if newest is None:
            raise SnapshotNotFound(f"no snapshot for label {label!r}")
        snapshot_id = newest.snapshot_id
    whole = _whole(await load(session, label, require_id(snapshot_id), keep_files=True))
    return Export(label, snapshot_id, whole.files)


async def import_snapshot(session: Session, exported: Export, *, label: str | None) -> SnapshotInfo:
    """See :meth:`colony_memory.ColonyMemory.import_snapshot`."""
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
    whole = await _check(session, label, exported.snapshot_id, exported.files)
    try:
        state = await look(session, label, everything=True)
        wrote = await _store(session, whole, state)
        pointer = await _point(session, state, {exported.snapshot_id: whole.entry}, exported.snapshot_id)
    except VaultError as error:
        raise _again(error, "importing again goes on where it stopped") from error
    is_latest = pointer.snapshot_id == exported.snapshot_id
    return replace(whole.entry.info, reused=not wrote, head=pointer.head if is_latest else "")


async def copy(
    source: Session,
    destination: Session,
    *,
    labels: str | Iterable[str] | None,
    progress: Callable[[int, int], object] | None,
) -> CopyReport:
    """See :meth:`colony_memory.ColonyMemory.copy_to`."""
    wanted = (
        None if labels is None else [require_label(each) for each in ([labels] if isinstance(labels, str) else labels)]
    )
    prefix = f"cmem.{wanted[0]}." if wanted is not None and len(wanted) == 1 else "cmem."
    listing = await source.vault.list(prefix)
    listing.need_complete("copying")
    todo = {label: files for label, files in read_labels(listing).items() if files.manifests}
    for each in wanted or []:
        if each not in todo:
            raise SnapshotNotFound(f"no snapshot for label {each!r} to copy")
    todo = {label: files for label, files in todo.items() if wanted is None or label in wanted}
    if not todo:
        raise SnapshotNotFound("there is no snapshot to copy")
    job = _Copy(source, destination, sum(len(files.manifests) for files in todo.values()), progress)
    try:
        there = read_labels(await destination.vault.list(prefix))
        await _need_room(destination, todo, there)
        for label in todo:
            await job.copy_label(label)
    except VaultError as error:
        raise _again(error, job.so_far()) from error
    except QuotaExceeded as error:
        msg = f"{error.message}; {job.so_far()}"
        raise QuotaExceeded(msg, needed=error.needed, available=error.available, hint=error.hint) from error
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
        self.latest: dict[str, str] = {}

    async def copy_label(self, label: str) -> None:
        """Copy the snapshots of a label, oldest first, and then let the pointer follow, as far as it came."""
        state = await look(self.source, label, everything=True)
        if state.decision.rollback is not None:
            raise state.decision.rollback
        if state.decision.refusal is not None:
            warn(f"label {label!r} is copied by its snapshots' own signatures: {state.decision.refusal}")
        there = await look(self.destination, label, everything=True)
        left_out, arrived = len(self.left_out), dict[str, Entry]()
        try:
            for snapshot_id in reversed(state.listed.manifests):
                if snapshot_id not in state.decision.pointer.removed:
                    entry = await self._copy_one(label, snapshot_id, state, there)
                    if entry is not None:
                        arrived[snapshot_id] = entry
                self.done += 1
                if self.progress is not None:
                    self.progress(self.done, self.total)
        except ColonyMemoryError:
            if arrived:
                # What is not committed is not relied upon when the copy is made again.
                await self._follow(label, there, arrived, state, complete=False, best_effort=True)
            raise
        if arrived:
            await self._follow(label, there, arrived, state, complete=len(self.left_out) == left_out)

    async def _follow(
        self,
        label: str,
        there: State,
        arrived: Mapping[str, Entry],
        state: State,
        *,
        complete: bool,
        best_effort: bool = False,
    ) -> None:
        pointer = state.decision.pointer
        named = pointer.snapshot_id
        newest = named if named is not None and named in arrived else max(arrived, key=id_order)
        listed = {entry.snapshot_id for entry in pointer.entries or ()}
        as_it_is = complete and pointer.signed and pointer.snapshot_id == newest and listed <= set(arrived)
        try:
            now = await _point(
                self.destination,
                there,
                arrived,
                newest,
                above=pointer.generation,
                stream=state.decision.stream,
                text=state.text if as_it_is else None,
                signed=pointer.signed,
            )
        except ColonyMemoryError as error:
            if not best_effort:
                raise
            log(f"what was copied of label {label!r} is not in its catalogue yet: {error}")
            return
        if now.snapshot_id is not None:
            self.latest[label] = now.snapshot_id

    async def _copy_one(self, label: str, snapshot_id: str, state: State, there: State) -> Entry | None:
        try:
            whole = _whole(await load(self.source, label, snapshot_id, keep_files=True))
            if _accepts(self.destination) != _accepts(self.source):
                await _check(self.destination, label, snapshot_id, whole.files)
            wrote = await _store(self.destination, whole, there)
        except SnapshotNotFound as error:
            log(f"a snapshot was deleted before it was copied: {error}")
            return None
        except (SnapshotCorrupt, UntrustedSnapshot, ConflictDetected) as error:
            self.left_out[manifest_filename(label, snapshot_id)] = str(error)
            return None
        entry = whole.entry
        (self.copied if wrote else self.already).append(entry.info)
        known = state.decision.entry(snapshot_id)
        # The time of a shrink is known to the catalogue alone.
        return replace(entry, shrunk_at=known.shrunk_at) if known else entry

    def so_far(self) -> str:
        """What was done, for an error that ends the copy."""
        done = len(self.copied) + len(self.already)
        return f"{done} of {self.total} snapshots are copied, and copying again goes on from there"

    def report(self) -> CopyReport:
        """The result."""
        return CopyReport(tuple(self.copied), tuple(self.already), self.left_out, self.latest)


def _accepts(session: Session) -> tuple[object, int]:
    """What decides whether a client takes a snapshot."""
    return session.trust, session.max_bytes


async def _check(session: Session, label: str, snapshot_id: str, files: Mapping[str, str]) -> _Whole:
    """Decide on a snapshot's files as a restore by this client would, and that nothing else is among them.

    Raises:
        SnapshotCorrupt: It is damaged, or a file is not its own.
        UntrustedSnapshot: The client does not trust it.
    """
    given = copying.copy(session)
    given.vault, given.manifests, given.good = _Given(files, session.vault), {}, {}
    loaded = await load(given, label, snapshot_id, keep_files=True)
    for name in files:
        if name not in loaded.files:
            msg = f"{name} is no file that snapshot {snapshot_id} of label {label!r} needs"
            raise SnapshotCorrupt(msg, file=name)
    return _whole(loaded)


def _whole(loaded: Loaded) -> _Whole:
    for name, text in loaded.files.items():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            msg = f"{name} holds half of a surrogate pair, which no vault file can"
            raise SnapshotCorrupt(msg, file=name) from error
    return _Whole(loaded.manifest, loaded.files)


async def _store(session: Session, whole: _Whole, there: State) -> bool:
    """Write a snapshot that is not there yet, and read it back; whether anything was written.

    Raises:
        ConflictDetected: Another content is there under this id, or what is there is not committed.
        QuotaExceeded: It does not fit; nothing of it was written.
        VaultError: The vault failed or refused.
    """
    info, files = whole.manifest.info, whole.files
    label, snapshot_id = info.label, info.snapshot_id
    listed = there.listed
    found: dict[str, StoredFile | None] = {}
    if _is_committed(there, snapshot_id) or not listed.complete:
        found = await session.vault.get_many([n for n in files if n in listed.files or not listed.complete])
        if any(stored is not None and stored.content != files[name] for name, stored in found.items()):
            raise _other(label, snapshot_id)
    elif any(name in listed.files for name in files):
        await _make_way(session, listed, snapshot_id, files)
    missing = {name: text for name, text in files.items() if found.get(name) is None}
    if missing:
        await _write(session, whole, missing, f"snapshot {snapshot_id} of label {label!r}")
    session.manifests[manifest_filename(label, snapshot_id)] = whole.manifest
    session.proved(label, snapshot_id)
    return bool(missing)


def _is_committed(there: State, snapshot_id: str) -> bool:
    """Whether the catalogue lists a snapshot, damaged or not, or it counts as if it did."""
    decision = there.decision
    listed = snapshot_id == decision.written or decision.pointer.entry(snapshot_id) is not None
    return listed or snapshot_id in decision.committed


async def _write(session: Session, whole: _Whole, missing: Mapping[str, str], what: str) -> None:
    label, snapshot_id = whole.manifest.info.label, whole.manifest.info.snapshot_id
    room.check_files(missing, what)
    await room.require(session, sum(len(text.encode("utf-8")) for text in missing.values()), what, label=label)
    began = session.now()
    for done, (name, text) in enumerate(missing.items(), 1):
        try:
            await session.vault.put(name, text, match=ABSENT)
        except Changed as error:
            raise _other(label, snapshot_id) from error
        session.tell("upload", name, done, len(missing))
    for name, stored in (await session.vault.get_many(missing)).items():
        if stored is None or stored.content != missing[name]:
            state = "is not there" if stored is None else "holds another text"
            raise VaultError(f"{name} was written, and read back it {state}: do it again")
    if abs(session.now() - began) > GRACE / 2:
        now = read_label(await session.vault.list(f"cmem.{label}."), label)
        if any(name not in now.files for name in whole.files):
            raise VaultError(f"{what} was taken for a leftover before it was whole: do it again")


async def _make_way(session: Session, files: LabelFiles, snapshot_id: str, wanted: Mapping[str, str]) -> None:
    """Sweep what an interrupted transfer left of this snapshot, where it is old; refuse what may be on its way out."""
    label = files.label
    if snapshot_id in files.old_orphans(now=session.now()):
        await sweep(session, files)
        return
    found = await session.vault.get_many(wanted)
    if not any(found.values()):
        return
    if any(stored is not None and stored.content != wanted[name] for name, stored in found.items()):
        raise _other(label, snapshot_id)
    msg = (
        f"files of snapshot {snapshot_id} of label {label!r} are there, and no catalogue lists it: they are being removed, "
        "or another transfer is writing them; once they are an hour old a prune sweeps them"
    )
    raise ConflictDetected(msg, theirs=snapshot_id, hint=Hint("prune", label=label))


def _other(label: str, snapshot_id: str) -> ConflictDetected:
    msg = (
        f"another content is under the id of snapshot {snapshot_id} of label {label!r}, so it is not written; a "
        "verification tells whether the one that is there is damaged, and deleting that makes way"
    )
    return ConflictDetected(msg, theirs=snapshot_id, hint=Hint("verify", label=label))


async def _point(
    session: Session,
    state: State,
    arrived: Mapping[str, Entry],
    newest: str,
    *,
    above: int = 0,
    stream: str | None = None,
    text: str | None = None,
    signed: bool = False,
) -> Pointer:
    """Commit what has arrived, and move the pointer to ``newest`` unless it names something newer.

    Args:
        session: The client of the vault where it arrived.
        state: The label there, as it was before.
        arrived: Rows of a catalogue by id.
        newest: The one that a restore is to give.
        above: Generation of the pointer where they came from.
        stream: Identity of the history there, which goes on where the label has none.
        text: Text of that pointer, where it is signed and says just this.
        signed: Whether it is signed.
    """
    label = state.label

    async def change(now: State) -> Move | None:
        decision = now.decision
        if decision.rollback is not None and now.text is not None:
            raise decision.rollback
        if isinstance(decision.refusal, UntrustedSnapshot) and not isinstance(decision.refusal, RollbackDetected):
            warn(f"the pointer of label {label!r} was left as it is, since it is not trusted: {decision.refusal}")
            return None
        rows = {entry.snapshot_id: entry for entry in decision.building}
        lacking = [each for each in arrived if decision.pointer.entry(each) is None]
        for snapshot_id, entry in arrived.items():
            noted = rows[snapshot_id].shrunk_at if snapshot_id in rows else None
            rows[snapshot_id] = replace(entry, shrunk_at=entry.shrunk_at or noted)
        target = newest if may_move(now, newest) else decision.follow
        if not lacking and decision.written == target:
            return None
        if target == newest and text is not None and _may_stand(session, now, arrived, above, text):
            return Move(target, (), text=text)
        if may_write(session, now):
            if session.signer is None and signed:
                warn(
                    f"the pointer of label {label!r} is not signed as where it came from, since it does not say what is "
                    "here: clients that pin issuers refuse it",
                    hint=Hint("open", "signer"),
                )
            return Move(target, rows.values(), above=above, stream=stream)
        warn(f"the pointer of label {label!r} was left as it is: it is to be signed", hint=Hint("open", "signer"))
        return None

    try:
        return (await publish(session, state, change)).pointer
    except ConflictDetected as error:
        msg = f"the pointer {latest_filename(label)} kept changing: the snapshots are stored and listed, do it again"
        raise ConflictDetected(msg, theirs=error.theirs) from error


def _may_stand(session: Session, now: State, arrived: Mapping[str, Entry], above: int, text: str) -> bool:
    """Whether a pointer from elsewhere says just what is here, so that its signature can stand too."""
    if session.signer is not None or now.decision.pointer.generation >= above:
        return False
    theirs = read_pointer(text, label=now.label)
    known = {now.decision.pointer.stream, *(read_head(seen).stream for seen in now.asked.seen)}
    if not known <= {None, theirs.stream}:
        return False  # to those who know the label it would be another history
    if session.trust.pins:
        try:
            session.trust.judge_pointer(theirs.raw)
        except UntrustedSnapshot:
            return False
    return now.listed.complete and set(now.listed.manifests) <= set(arrived)


async def _need_room(destination: Session, todo: Mapping[str, LabelFiles], there: Mapping[str, LabelFiles]) -> None:
    """Refuse before the first write what cannot fit, as far as the lists tell."""
    need = 0
    for label, files in todo.items():
        present = there[label].files if label in there else {}
        need += sum(stored.size or 0 for name, stored in files.files.items() if name not in present)
    await room.require(destination, need, "the copy was")


def _again(error: VaultError, what: str) -> VaultError:
    """The same error, saying what was done so far."""
    kind = VaultUnavailable if isinstance(error, VaultUnavailable) else type(error)
    msg = f"{error.message}; {what}"
    return kind(msg, status=error.status, code=error.code, retry_after=error.retry_after, hint=error.hint)
