"""backup.

The order is what keeps memory safe: parts, then the manifest, then the pointer. Files are immutable and only the
pointer is overwritten, so wherever this stops, what is listed restores and the pointer names a whole snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from colony_memory._engine.label import ORPHAN_GRACE, Survey, require_current, settle, survey
from colony_memory._engine.pointer import (
    PointerRead,
    check_rollback,
    find_pointer,
    head_of,
    next_pointer,
    put_pointer,
    require_same,
)
from colony_memory._engine.prune import delete_files, in_flight, make_room, plan_for, sweep
from colony_memory._engine.restore import load
from colony_memory._engine.session import log, warn
from colony_memory._engine.store import Changed, Unanswered
from colony_memory._format.json import printable
from colony_memory._format.names import id_order, latest_filename, manifest_filename, new_id, require_label
from colony_memory._format.pointer import Entry, write_pointer
from colony_memory.exceptions import (
    BackupUncertain,
    ColonyMemoryError,
    ConflictDetected,
    PruneIncomplete,
    QuotaExceeded,
    RateLimited,
    RollbackDetected,
    VaultError,
)
from colony_memory.retention import Retention
from colony_memory.signing import did_key_of
from colony_memory.snapshot import (
    MAX_FILE_BYTES,
    BuiltSnapshot,
    SnapshotInfo,
    build,
    check_documents,
    digest,
)

if TYPE_CHECKING:
    from colony_memory._engine.session import Session
    from colony_memory._format.pointer import Pointer
    from colony_memory.signing import Signer

_TRIES = 5
# What a signature adds to a pointer, at most.
_SIGNATURE_CHARS = 300


@dataclass
class _Known:
    """What the vault shows before a backup writes."""

    at: PointerRead
    entries: tuple[Entry, ...]
    survey: Survey | None
    ids: set[str] = field(default_factory=set)
    seen: list[str] = field(default_factory=list)
    rolled_back: bool = False
    unsigned: bool = False
    doubt: str | None = None

    @property
    def first(self) -> bool:
        """Whether the label has no files yet."""
        return self.survey is not None and not self.survey.listing.files

    @property
    def head(self) -> Entry | None:
        """The snapshot that the pointer names, else the newest there is."""
        entries = self.survey.whole_entries if self.survey else self.entries
        newest = entries[0] if entries else None
        return next((entry for entry in entries if entry.info.snapshot_id == self.at.named), newest)


async def backup(
    session: Session,
    documents: dict[str, str],
    *,
    label: str,
    signer: Signer | None,
    prune_keep: int | None,
    retention: Retention | None,
    skip_unchanged: bool,
    on_conflict: str,
) -> SnapshotInfo:
    """See :meth:`colony_memory.ColonyMemory.backup`."""
    label = require_label(label)
    check_documents(documents)
    if on_conflict not in ("raise", "continue"):
        msg = f"on_conflict must be 'raise' or 'continue', not {on_conflict!r}"
        raise ValueError(msg)
    policy = policy_of(prune_keep, retention)
    documents, signer = dict(documents), signer or session.signer
    issuer = None if signer is None else did_key_of(signer)
    session.trust.check_signer(issuer)
    known = await _look(session, label, survey_all=policy is not None)
    if policy is not None and known.doubt:
        warn(f"{known.doubt}: the backup is made, and nothing is removed")
        policy = None
    if signer is None and known.at.pointer is not None and known.at.pointer.signed:
        warn(
            f"label {label!r} was signed until now, and this snapshot and the pointer to it are not: clients that "
            "trust the signer refuse both; give signer= to go on signing"
        )
    if skip_unchanged and not known.rolled_back:
        same = await _unchanged(session, known, documents, label, issuer)
        if same is not None:
            return same

    built = await session.vault.compute(_build, session, known, documents, label, signer)
    entries = [*known.entries, Entry(built.info, built.manifest_sha256)]
    remove: set[str] = set()
    if policy is not None and known.survey is not None:
        planned = plan_for(session, known.survey, policy, known.at, new=built.info)
        remove = {info.snapshot_id for info in planned.plan.remove}
        entries = planned.note(entry for entry in entries if entry.info.snapshot_id not in remove)
    moved = _moved(session, known, known.at, built, entries)
    grows = len(write_pointer(moved)) + (_SIGNATURE_CHARS if signer else 0) - len(known.at.text or "")
    need = built.info.stored_bytes + max(0, grows)
    gone = await _ensure_fits(session, known, built, policy, need=need)
    at = await find_pointer(session, label) if gone else known.at
    if signer is not None and known.unsigned:
        at = await _sign_first(session, known, at, signer)
    await _write_files(session, label, built)
    moved = _moved(session, known, at, built, entries)
    info = await _advance(session, known, at, moved, built, on_conflict=on_conflict, signer=signer)
    session.good.add(info.snapshot_id)
    if known.survey is not None and policy is not None and info.head:
        await _apply_retention(session, known.survey, remove - gone, cost=len(built.files) + 1)
    return info


def _moved(session: Session, known: _Known, at: PointerRead, built: BuiltSnapshot, entries: list[Entry]) -> Pointer:
    info = built.info
    return next_pointer(session, at, info.label, info.snapshot_id, entries, seen=known.seen, first=known.first)


def policy_of(keep: int | None, retention: Retention | None) -> Retention | None:
    """The retention that the arguments ask for."""
    if retention is not None:
        if keep is not None:
            raise ValueError("give a number of snapshots to keep or retention=, not both")
        if not isinstance(retention, Retention):
            msg = f"retention must be a Retention, not {type(retention).__name__}"
            raise ValueError(msg)
        return retention
    if keep is None:
        return None
    if type(keep) is not int or keep < 0:
        msg = f"the number of snapshots to keep must be a count, not {keep!r}"
        raise ValueError(msg)
    return Retention(keep_last=keep)


async def _look(session: Session, label: str, *, survey_all: bool) -> _Known:
    """Read the pointer, and list only where it does not tell what is there."""
    blind = None
    try:
        seen = await session.seen(label)
    except ColonyMemoryError as error:
        # Memory that is not saved is lost; a rollback that goes unnoticed for one backup more is not.
        seen, blind = [], str(error)
        if not survey_all:
            warn(f"{error}; the backup is made")
    raw = at = await find_pointer(session, label)
    entries = (at.pointer.entries if at.pointer else None) or ()
    known = _Known(at, entries, None, {entry.info.snapshot_id for entry in entries}, seen, doubt=blind)
    # Anyone can put an id of any time there, and ours must not follow it.
    written = None if at.distrust is not None else at.written
    known.ids |= {each for each in (session.newest.get(label), written) if each is not None}
    if at.pointer is None or not at.pointer.entry(at.pointer.snapshot_id) or survey_all:
        found = await survey(session, label, at.pointer)
        at, refusal = settle(session, at, found)
        left_out = in_flight(session, found, at.pointer)
        known.entries = tuple(entry for entry in found.whole_entries if entry.info.snapshot_id not in left_out)
        known.at, known.survey = at, found
        known.ids |= {entry.info.snapshot_id for entry in found.entries} if session.trust.pins else found.ids
        known.unsigned = raw.distrust is not None and refusal is None and not session.trust.accept_legacy_pointer
        if refusal is not None:
            known.doubt = str(refusal)
        elif not found.listing.complete and blind is None:
            known.doubt = f"the vault's list of label {label!r} is cut"
        if refusal is not None and not survey_all:
            warn(f"{refusal}; the backup is made")
    try:
        if known.survey is not None:
            await require_current(session, at, known.survey, seen=seen)
        else:
            check_rollback(session, label, at, seen=seen)
    except RollbackDetected as error:
        known.rolled_back, known.doubt = True, known.doubt or str(error)
        if not survey_all:
            warn(f"{error}. The backup is made")
    return known


async def _unchanged(
    session: Session, known: _Known, documents: dict[str, str], label: str, issuer: str | None
) -> SnapshotInfo | None:
    """The snapshot that the pointer names if it holds just these documents under the same trust, and is whole."""
    head, at = known.head, known.at
    if head is None or at.pointer is None or at.named != head.info.snapshot_id:
        return None
    if at.distrust is not None and not session.trust.accept_legacy_pointer:
        return None  # the pointer has to be signed
    info = head.info
    if info.doc_names != [printable(name) for name in sorted(documents)] or info.issuer != issuer:
        return None
    if await session.vault.compute(digest, documents) != info.plaintext_sha256:
        return None
    found = known.survey or await survey(session, label, at.pointer)
    whole = next((each for each in found.whole if each.snapshot_id == info.snapshot_id), None)
    if whole is None:
        return None
    try:
        await require_current(session, at, found, seen=known.seen)
    except RollbackDetected as error:
        warn(f"{error}. The backup is made")
        return None
    if issuer is not None and at.issuer is None and info.snapshot_id not in session.good:
        # What a catalogue says of a signature is looked up, unless the catalogue itself is signed.
        try:
            await load(session, label, info.snapshot_id, verify=True)
        except (ValueError, ColonyMemoryError) as error:
            if isinstance(error, VaultError):
                raise
            return None
    return replace(whole, reused=True, head=head_of(at.pointer, head.manifest_sha256))


async def _sign_first(session: Session, known: _Known, at: PointerRead, signer: Signer) -> PointerRead:
    """Sign the pointer to the snapshot that it names, before the first snapshot that says that pointers are signed.

    A crash between that snapshot and its pointer would otherwise look like a signature that was taken away.
    """
    if known.head is None or at.distrust is None:
        return at
    label = at.pointer.label if at.pointer else known.head.info.label
    try:
        await require_same(session, at, label)
        signed = next_pointer(session, at, label, known.head.info.snapshot_id, known.entries, seen=known.seen)
        await put_pointer(session, at, signed, signer=signer)
    except Changed:
        pass  # another writer; the pointer is looked at again when it is moved
    return await find_pointer(session, label)


def _build(
    session: Session, known: _Known, documents: dict[str, str], label: str, signer: Signer | None
) -> BuiltSnapshot:
    head = known.head
    previous = {"snapshot_id": head.info.snapshot_id, "manifest_sha256": head.manifest_sha256} if head else None
    built = build(
        documents,
        label=label,
        snapshot_id=new_id(session.now(), session.token(), known.ids),
        created_at=session.stamp(),
        signer=signer,
        previous=previous,
        max_bytes=session.max_bytes,
    )
    session.newest[label] = built.info.snapshot_id
    return built


async def _ensure_fits(
    session: Session, known: _Known, built: BuiltSnapshot, policy: Retention | None, *, need: int
) -> set[str]:
    """Refuse before the first write what cannot fit; with a retention, let what it removes anyway go first.

    Gives the ids that are gone.
    """
    for name, text in built.files.items():
        if len(text) > MAX_FILE_BYTES:
            what = "its list of document names is too long" if name == built.manifest_file else "a part is too long"
            msg = (
                f"snapshot not written: {name} would be {len(text)} bytes and a vault file holds {MAX_FILE_BYTES}; "
                f"{what}: save fewer documents, or spread them over several labels"
            )
            raise QuotaExceeded(msg, needed=len(text), available=MAX_FILE_BYTES)
    available = await _available(session)
    if available is None or need <= available:
        return set()
    if policy is not None and known.survey is not None:
        gone = await make_room(session, known.at, known.survey, built.info, policy, missing=need - available)
        available = await _available(session)
        if available is None or need <= available:
            return gone
    msg = (
        f"snapshot not written: it takes about {need} bytes and {available} are free in the vault; prune() old "
        "snapshots, give backup() a retention, or save less"
    )
    raise QuotaExceeded(msg, needed=need, available=available)


async def _available(session: Session) -> int | None:
    """Free bytes, or None where the vault does not tell or was never written to (it reports zeros then)."""
    status = await session.vault.status()
    quota, available = status.get("quota_bytes"), status.get("available_bytes")
    return available if isinstance(quota, int) and quota > 0 and isinstance(available, int) else None


async def _write_files(session: Session, label: str, built: BuiltSnapshot) -> None:
    """Parts, then the manifest. What fails half way is removed again where that is possible."""
    started = session.now()
    parts = [name for name in built.files if name != built.manifest_file]
    tried: dict[str, list[str]] = {}
    try:
        for name in parts:
            tried[name] = [name]
            await session.vault.put(name, built.files[name])
            session.tell("upload", name, len(tried), len(built.files))
        if abs(session.now() - started) > ORPHAN_GRACE / 2:
            await _still_there(session, label, parts)
    except ColonyMemoryError as error:
        await _remove_leftovers(session, label, tried, error)
        raise
    try:
        await session.vault.put(built.manifest_file, built.files[built.manifest_file])
        session.tell("upload", built.manifest_file, len(built.files), len(built.files))
    except Unanswered as error:
        msg = (
            f"snapshot {built.info.snapshot_id} of label {label!r} may or may not be stored: {error}; "
            "list_snapshots() tells once the vault answers, and backing up again is safe"
        )
        raise BackupUncertain(msg, snapshot_id=built.info.snapshot_id) from error
    except ColonyMemoryError as error:
        await _remove_leftovers(session, label, {built.info.snapshot_id: [built.manifest_file, *parts]}, error)
        raise


async def _still_there(session: Session, label: str, parts: list[str]) -> None:
    """After a long upload another client may have taken the parts for leftovers."""
    listing = await session.vault.list(f"cmem.{label}.")
    gone = [name for name in parts if name not in listing.files]
    if gone:
        msg = f"writing took so long that {gone[0]} was removed as a leftover: back up again"
        raise VaultError(msg)


async def _remove_leftovers(
    session: Session, label: str, targets: dict[str, list[str]], error: ColonyMemoryError
) -> None:
    """Delete what a failed backup wrote, a manifest before its parts."""
    if isinstance(error, RateLimited):
        return  # deletes come out of the same bucket; a later prune sweeps
    try:
        await delete_files(session, label, targets)
    except PruneIncomplete as failed:
        log(f"what a failed backup wrote stays in the vault until a prune: {failed}")


async def _advance(
    session: Session,
    known: _Known,
    at: PointerRead,
    moved: Pointer,
    built: BuiltSnapshot,
    *,
    on_conflict: str,
    signer: Signer | None,
) -> SnapshotInfo:
    """Move the pointer to the new snapshot, unless another writer was there first.

    Without conditional upload it is read once more just before, but not for the first snapshot of a label, which
    nobody else has seen.
    """
    mine, file = built.info.snapshot_id, latest_filename(moved.label)
    diverged: str | None = None
    first = known.first
    for _ in range(_TRIES):
        try:
            if not first:
                await require_same(session, at, moved.label)
            head = await put_pointer(session, at, moved, signer=signer)
        except Changed:
            first = False
            before, at = at, await find_pointer(session, moved.label)
        except Unanswered as error:
            msg = (
                f"snapshot {mine} of label {moved.label!r} is stored, but it cannot be told whether it is the latest "
                f"now: {error}; list_snapshots() tells once the vault answers, and backing up again is safe"
            )
            raise BackupUncertain(msg, snapshot_id=mine) from error
        except VaultError as error:
            msg = f"{error}; snapshot {mine} is stored and listed, only the pointer {file} was not moved to it"
            raise type(error)(msg, status=error.status, code=error.code, retry_after=error.retry_after) from error
        except QuotaExceeded as error:
            parts = [name for name in built.files if name != built.manifest_file]
            await _remove_leftovers(session, moved.label, {mine: [built.manifest_file, *parts]}, error)
            raise
        else:
            return replace(built.info, head=head, diverged_from=diverged)
        theirs = at.written
        if theirs != before.written:
            if on_conflict == "raise":
                msg = (
                    f"another client saved snapshot {theirs} of label {moved.label!r} in between: yours is stored and "
                    f"listed as {mine}, and the latest is theirs; restore both, merge, and back up again, or pass "
                    "on_conflict='continue'"
                )
                raise ConflictDetected(msg, theirs=theirs, snapshot_id=mine)
            diverged = theirs or diverged
        believed = at.distrust is None or session.trust.accept_legacy_pointer
        if theirs is not None and believed and id_order(theirs) > id_order(mine):
            # The pointer never moves to an older snapshot.
            return replace(built.info, diverged_from=theirs)
        moved = _moved(session, known, at, built, _merge(at, moved))
    msg = f"the pointer {file} kept changing: snapshot {mine} is stored and listed, but it is not the latest"
    raise ConflictDetected(msg, theirs=at.written, snapshot_id=mine)


def _merge(at: PointerRead, moved: Pointer) -> list[Entry]:
    """The catalogue to write over another writer's: theirs, and our snapshot."""
    theirs = at.pointer.entries if at.pointer else None
    entries = {entry.info.snapshot_id: entry for entry in (moved.entries if theirs is None else theirs) or ()}
    own = moved.entry(moved.snapshot_id)
    if own is not None:
        entries[moved.snapshot_id] = own
    return list(entries.values())


async def _apply_retention(session: Session, found: Survey, remove: set[str], *, cost: int) -> None:
    """Delete what the retention gave up, as far as the hour's operations allow; the backup itself is done."""
    left = await session.vault.operations_left()
    # What the next backup needs is not spent on deleting.
    spare = None if left is None else max(0, left - cost)
    try:
        for snapshot_id in sorted(remove, key=id_order):
            files = [manifest_filename(found.label, snapshot_id), *found.part_files(snapshot_id)]
            if spare is not None:
                if len(files) > spare:
                    return
                spare -= len(files)
            await delete_files(session, found.label, {snapshot_id: files})
        await sweep(session, found, spare=spare)
    except (PruneIncomplete, VaultError) as error:
        warn(f"the backup is done, but older snapshots could not be removed; the next one tries again: {error}")
