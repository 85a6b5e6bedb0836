"""backup.

The order is what keeps memory safe: parts, then the manifest, then the pointer. Files are immutable and only the
pointer is overwritten, so wherever this stops, what is listed restores and the pointer names a whole snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from colony_memory._flows.delete import delete_files, in_flight, make_room, plan_for, sweep
from colony_memory._flows.label import ORPHAN_GRACE, PointerRead, Survey, find_pointer, survey
from colony_memory._flows.read import load
from colony_memory._flows.session import log, warn
from colony_memory._json import printable
from colony_memory._names import id_order, latest_filename, manifest_filename, new_id, require_label
from colony_memory._vault import ANY, Changed, Unanswered
from colony_memory.catalog import Entry, Pointer, write_pointer
from colony_memory.exceptions import (
    BackupUncertain,
    ColonyMemoryError,
    ConflictDetected,
    PruneIncomplete,
    QuotaExceeded,
    RateLimited,
    VaultError,
)
from colony_memory.retention import Retention
from colony_memory.snapshot import (
    MAX_FILE_BYTES,
    BuiltSnapshot,
    SnapshotInfo,
    build,
    check_documents,
    digest,
)

if TYPE_CHECKING:
    from colony_memory._flows.session import Session
    from colony_memory.signing import Signer

_TRIES = 5


@dataclass
class _Known:
    """What the vault shows before a backup writes."""

    at: PointerRead
    entries: tuple[Entry, ...]
    survey: Survey | None
    ids: set[str] = field(default_factory=set)

    @property
    def head(self) -> Entry | None:
        """The snapshot that the pointer names, else the newest there is."""
        named = self.at.pointer.snapshot_id if self.at.pointer else None
        entries = self.survey.whole_entries if self.survey else self.entries
        newest = entries[0] if entries else None
        return next((entry for entry in entries if entry.info.snapshot_id == named), newest)


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
    known = await _look(session, label, survey_all=policy is not None)
    if policy is not None and known.survey is not None and not known.survey.listing.complete:
        warn(f"the vault's list of label {label!r} is cut: the backup is made, and nothing is removed")
        policy = None
    if skip_unchanged:
        same = await _unchanged(session, known, documents, label, signer)
        if same is not None:
            return same

    built = await session.vault.compute(_build, session, known, documents, label, signer)
    entries = [*known.entries, Entry(built.info, built.manifest_sha256)]
    remove: set[str] = set()
    if policy is not None and known.survey is not None:
        planned = plan_for(session, known.survey, policy, known.at, new=built.info)
        remove = {info.snapshot_id for info in planned.plan.remove}
        entries = planned.note(entry for entry in entries if entry.info.snapshot_id not in remove)
    moved = _moved(session, known.at, built, entries)
    grows = len(write_pointer(moved)) - len(known.at.text or "")
    at, gone = await _ensure_fits(session, known, built, policy, need=built.info.stored_bytes + max(0, grows))
    await _write_files(session, label, built)
    if at is not known.at:
        moved = _moved(session, at, built, entries)
    first = known.survey is not None and not known.survey.listing.files
    info = await _advance(session, at, moved, built, on_conflict, first=first)
    session.good.add(info.snapshot_id)
    if known.survey is not None and policy is not None and info.head:
        await _apply_retention(session, known.survey, remove - gone, cost=len(built.files) + 1)
    return info


def _moved(session: Session, at: PointerRead, built: BuiltSnapshot, entries: list[Entry]) -> Pointer:
    pointer = at.pointer or Pointer(built.info.label, built.info.snapshot_id, "")
    return pointer.moved(built.info.snapshot_id, updated_at=session.stamp(), entries=entries)


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
    at = await find_pointer(session, label)
    entries = (at.pointer.entries if at.pointer else None) or ()
    ids = {entry.info.snapshot_id for entry in entries}
    if label in session.newest:
        ids.add(session.newest[label])
    if at.pointer is not None:
        ids.add(at.pointer.snapshot_id)
        if at.pointer.entry(at.pointer.snapshot_id) and not survey_all:
            return _Known(at, entries, None, ids)
    found = await survey(session, label, at.pointer)
    left_out = in_flight(session, found, at.pointer)
    known = tuple(entry for entry in found.whole_entries if entry.info.snapshot_id not in left_out)
    return _Known(at, known, found, ids | found.ids)


async def _unchanged(
    session: Session, known: _Known, documents: dict[str, str], label: str, signer: Signer | None
) -> SnapshotInfo | None:
    """The snapshot that the pointer names if it holds just these documents under the same trust, and is whole."""
    head, at = known.head, known.at
    if head is None or at.pointer is None or at.pointer.snapshot_id != head.info.snapshot_id:
        return None
    info, issuer = head.info, getattr(signer, "did_key", None)
    if info.doc_names != [printable(name) for name in sorted(documents)] or info.issuer != issuer:
        return None
    if await session.vault.compute(digest, documents) != info.plaintext_sha256:
        return None
    found = known.survey or await survey(session, label, at.pointer)
    whole = next((each for each in found.whole if each.snapshot_id == info.snapshot_id), None)
    if whole is None:
        return None
    if signer is not None and info.snapshot_id not in session.good:
        # The catalogue is not signed: what it says of a signature is looked up.
        try:
            await load(session, label, info.snapshot_id, verify=True)
        except (ValueError, ColonyMemoryError) as error:
            if isinstance(error, VaultError):
                raise
            return None
    return replace(whole, reused=True, head=True)


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
) -> tuple[PointerRead, set[str]]:
    """Refuse before the first write what cannot fit; with a retention, let what it removes anyway go first.

    Gives the pointer as it is then, and the ids that are gone.
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
        return known.at, set()
    if policy is not None and known.survey is not None:
        room = await make_room(session, known.at, known.survey, built.info, policy, missing=need - available)
        available = await _available(session)
        if available is None or need <= available:
            return room
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
        if abs(session.now() - started) > ORPHAN_GRACE / 2:
            await _still_there(session, label, parts)
    except ColonyMemoryError as error:
        await _remove_leftovers(session, label, tried, error)
        raise
    try:
        await session.vault.put(built.manifest_file, built.files[built.manifest_file])
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
    session: Session, at: PointerRead, moved: Pointer, built: BuiltSnapshot, on_conflict: str, *, first: bool
) -> SnapshotInfo:
    """Move the pointer to the new snapshot, unless another writer was there first.

    Without conditional upload it is read once more just before, but not for the ``first`` snapshot of a label, which
    nobody else has seen.
    """
    mine, file = built.info.snapshot_id, latest_filename(moved.label)
    diverged: str | None = None
    for _ in range(_TRIES):
        try:
            if not first and (not session.vault.conditional or at.match == ANY):
                now = await find_pointer(session, moved.label)
                if now.text != at.text:
                    raise Changed("the pointer is another one now")
            await session.vault.put(file, write_pointer(moved), match=at.match)
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
            return replace(built.info, head=True, diverged_from=diverged)
        theirs = at.pointer.snapshot_id if at.pointer else None
        if theirs != (before.pointer.snapshot_id if before.pointer else None):
            if on_conflict == "raise":
                msg = (
                    f"another client saved snapshot {theirs} of label {moved.label!r} in between: yours is stored and "
                    f"listed as {mine}, and the latest is theirs; restore both, merge, and back up again, or pass "
                    "on_conflict='continue'"
                )
                raise ConflictDetected(msg, theirs=theirs, snapshot_id=mine)
            diverged = theirs or diverged
        if theirs is not None and id_order(theirs) > id_order(mine):
            # The pointer never moves to an older snapshot.
            return replace(built.info, diverged_from=theirs)
        moved = _merge(at, moved)
    msg = f"the pointer {file} kept changing: snapshot {mine} is stored and listed, but it is not the latest"
    raise ConflictDetected(msg, theirs=at.pointer.snapshot_id if at.pointer else None, snapshot_id=mine)


def _merge(at: PointerRead, moved: Pointer) -> Pointer:
    """The pointer to write over another writer's: its generation and catalogue, and our snapshot."""
    theirs = at.pointer
    if theirs is None:
        return moved
    own = moved.entry(moved.snapshot_id)
    entries = {entry.info.snapshot_id: entry for entry in theirs.entries or moved.entries or ()}
    if own is not None:
        entries[moved.snapshot_id] = own
    return theirs.moved(moved.snapshot_id, updated_at=moved.updated_at, entries=entries.values())


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
