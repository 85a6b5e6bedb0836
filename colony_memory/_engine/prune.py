"""prune, plan_prune, delete_snapshot, and how a full vault makes room.

The order is the reverse of a backup's: out of the catalogue, then the manifest, then the parts. Only names of the form
``cmem.<label>.<id>.*`` of the snapshot in question are ever deleted, whatever a manifest lists.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from colony_memory import retention as rules
from colony_memory._engine.label import ORPHAN_GRACE, Survey, believed_pointer, require_current, settle, survey
from colony_memory._engine.pointer import (
    PointerRead,
    find_pointer,
    may_write_pointer,
    next_pointer,
    put_pointer,
    require_same,
)
from colony_memory._engine.restore import load
from colony_memory._engine.session import warn
from colony_memory._engine.store import Changed
from colony_memory._format.names import (
    id_order,
    id_time,
    latest_filename,
    manifest_filename,
    require_id,
    require_label,
)
from colony_memory.exceptions import (
    ColonyMemoryError,
    ConflictDetected,
    PruneIncomplete,
    RateLimited,
    SnapshotCorrupt,
    SnapshotNotFound,
    UntrustedSnapshot,
    VaultDenied,
    VaultError,
    VaultUnavailable,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from colony_memory._engine.session import Session
    from colony_memory._format.pointer import Entry, Pointer
    from colony_memory.retention import PrunePlan, Retention
    from colony_memory.snapshot import SnapshotInfo

_TRIES = 5


@dataclass(frozen=True)
class Planned:
    """A plan, and when each snapshot that it keeps for having been followed by a small one was."""

    plan: PrunePlan
    shrunk: Mapping[str, datetime]

    def note(self, entries: Iterable[Entry]) -> list[Entry]:
        """The entries with that written down, since the follower may be gone the next time."""
        return [
            replace(entry, shrunk_at=f"{since.astimezone(timezone.utc):%Y-%m-%dT%H:%M:%SZ}")
            if (since := self.shrunk.get(entry.info.snapshot_id))
            else entry
            for entry in entries
        ]


def plan_for(
    session: Session,
    found: Survey,
    policy: Retention,
    at: PointerRead,
    *,
    new: SnapshotInfo | None = None,
) -> Planned:
    """Apply a retention to what is there, as a backup does where ``new`` is the snapshot that it is about to write."""
    now = session.now()
    infos = [*found.whole, *([new] if new else [])]
    entries = found.whole_entries
    stamps = {entry.info.snapshot_id: rules.read_stamp(entry.shrunk_at or "") for entry in entries}
    noted = {snapshot_id: since for snapshot_id, since in stamps.items() if since is not None}
    shrunk = rules.before_shrink(infos, now=now, noted=noted)
    plan = rules.plan(
        infos,
        retention=policy,
        now=now,
        head=new.snapshot_id if new else at.named,
        in_flight=in_flight(session, found, at.pointer),
        shrunk=shrunk,
        keep_shrunk=new is not None,
    )
    return Planned(plan, shrunk)


def in_flight(session: Session, found: Survey, pointer: Pointer | None) -> set[str]:
    """Young snapshots that the pointer does not know of: another client may be about to point to them.

    They are neither counted nor removed, nor put into a catalogue, from where they would be known.
    """

    def unknown(snapshot_id: str) -> bool:
        if pointer is None or id_order(snapshot_id) > id_order(pointer.snapshot_id):
            return True
        return pointer.entries is not None and pointer.entry(snapshot_id) is None

    strange = [info.snapshot_id for info in found.whole if unknown(info.snapshot_id)]
    return {each for each in strange if not _is_old(session, found, each, found.part_files(each))}


async def plan_prune(session: Session, *, label: str, policy: Retention) -> PrunePlan:
    """See :meth:`colony_memory.ColonyMemory.plan_prune`."""
    label = require_label(label)
    seen = await session.seen(label)
    at, judged = await believed_pointer(session, label)
    found = judged or await survey(session, label, at.pointer, prove=True)
    await require_current(session, at, found, seen=seen)
    found = await _prove(session, found)
    planned = plan_for(session, found, policy, at)
    aged = _aged_orphans(session, found) if found.listing.complete else {}
    orphans = tuple(name for names in aged.values() for name in names)
    return replace(planned.plan, unread=tuple(sorted(found.broken)), orphans=orphans)


async def prune(session: Session, *, label: str, policy: Retention) -> int:
    """See :meth:`colony_memory.ColonyMemory.prune`."""
    label = require_label(label)
    for _ in range(_TRIES):
        seen = await session.seen(label)
        at, judged = await believed_pointer(session, label)
        found = judged or await survey(session, label, at.pointer, prove=True)
        found.listing.need_complete("pruning")
        await require_current(session, at, found, seen=seen)
        found = await _prove(session, found)
        plan = plan_for(session, found, policy, at).plan
        try:
            await _write_catalogue(session, at, found, {info.snapshot_id for info in plan.remove})
        except Changed:
            continue  # another writer: look again
        victims = sorted((info.snapshot_id for info in plan.remove), key=id_order)
        targets = {i: [manifest_filename(label, i), *found.part_files(i)] for i in victims}
        deleted = await delete_files(session, label, targets)
        await sweep(session, found, deleted=deleted)
        return deleted
    msg = f"label {label!r} kept changing while it was to be pruned: nothing was deleted, try again"
    raise ConflictDetected(msg, theirs=None)


async def _prove(session: Session, found: Survey) -> Survey:
    """Read the newest snapshot in full, so that at least one that stays is known to restore; drop it if it does not."""
    while found.whole and found.whole[0].snapshot_id not in session.good:
        newest = found.whole[0].snapshot_id
        try:
            await load(session, found.label, newest, verify=True)
        except SnapshotNotFound:
            found = found.without(newest, f"snapshot {newest} was deleted in between")
        except (SnapshotCorrupt, UntrustedSnapshot) as error:
            found = found.without(newest, str(error))
        except (VaultUnavailable, VaultDenied, RateLimited):
            raise
        except ColonyMemoryError:
            break  # the extra that checks the signature is missing; nobody is pinned, so nothing speaks against it
    return found


async def _write_catalogue(session: Session, at: PointerRead, found: Survey, remove: set[str]) -> None:
    """Take snapshots out of the catalogue before their files go, and mend a pointer that names nothing."""
    ids = {info.snapshot_id for info in found.whole}
    dangling = bool(found.whole) and (
        at.named is None or manifest_filename(found.label, at.named) not in found.listing.files
    )
    if not dangling and not (remove and _keeps_catalogue(session) and at.named in ids):
        return
    if not may_write_pointer(session, at):
        return  # rows of what is gone do no harm, and a signature that is gone would
    head = found.whole[0].snapshot_id if dangling else at.named
    left_out = remove | in_flight(session, found, at.pointer)
    entries = [entry for entry in found.whole_entries if entry.info.snapshot_id not in left_out]
    seen = await session.seen(found.label)
    await require_same(session, at, found.label)
    await put_pointer(session, at, next_pointer(session, at, found.label, head or "", entries, seen=seen))
    if dangling:
        warn(f"the pointer of label {found.label!r} named no snapshot; it names {head} now")


def _keeps_catalogue(session: Session) -> bool:
    """Whether to take what goes out of the catalogue though the pointer stays where it is.

    Without conditional upload the pointer could be set back over one that another client just moved. That is risked
    for a signed catalogue alone, which must list nothing that its owner deleted: what it lists and is not there, an
    attacker removed.
    """
    return session.vault.conditional or session.signer is not None


async def delete_files(session: Session, label: str, targets: Mapping[str, Sequence[str]]) -> int:
    """Delete snapshots by their files, each manifest first; the number of snapshots that are gone.

    Raises:
        PruneIncomplete: Some files are still there.
    """
    deleted, failed, cause = await _delete_groups(session, targets.values())
    if failed:
        raise _incomplete(label, deleted, failed, cause) from cause
    return deleted


async def _delete_groups(
    session: Session, groups: Iterable[Sequence[str]]
) -> tuple[int, list[str], ColonyMemoryError | None]:
    """Delete groups of files, the first of each first and the rest only then; how many firsts are gone, what is not.

    The parts of a snapshot whose manifest is still there must stay, so that it is looked for before they go. It stops
    at the first sign that all others would fail too.
    """
    groups, deleted, failed, cause = list(groups), 0, list[str](), None
    done, total = 0, sum(map(len, groups))
    for files in groups:
        for place, name in enumerate(files):
            if cause is not None and _hopeless(cause):
                failed.append(name)
                continue
            try:
                await session.vault.delete(name)
                if place == 0 and len(files) > 1 and await session.vault.get(name) is not None:
                    msg = f"the vault said that it deleted {name}, and it is still there"
                    raise VaultError(msg)
            except ColonyMemoryError as error:
                cause = error
                failed.append(name)
                if place == 0:
                    failed += files[1:]
                    break
            else:
                deleted += place == 0
                done += 1
                session.tell("delete", name, done, total)
    return deleted, failed, cause


def _incomplete(label: str, deleted: int, failed: Sequence[str], cause: ColonyMemoryError | None) -> PruneIncomplete:
    wait = getattr(cause, "retry_after", None)
    when = f"try again in {wait:.0f} s" if wait else "prune again to finish"
    msg = f"label {label!r}: {deleted} snapshots were deleted, {len(failed)} files are still there; {when}: {cause}"
    return PruneIncomplete(msg, deleted=deleted, failed=failed)


def _hopeless(error: ColonyMemoryError) -> bool:
    """Whether the next call would fail too, perhaps after a long wait: refused, or no reply at all."""
    return isinstance(error, (RateLimited, VaultDenied)) or (
        isinstance(error, VaultUnavailable) and error.status is None
    )


def _aged_orphans(session: Session, found: Survey) -> dict[str, list[str]]:
    """Parts that no manifest stands beside and that no backup under way can still need, by id."""
    return {each: sorted(names) for each, names in found.orphans.items() if _is_old(session, found, each, names)}


def _is_old(session: Session, found: Survey, snapshot_id: str, names: Iterable[str]) -> bool:
    """Whether these files of a snapshot were written longer ago than the grace period.

    Age is measured against the newest time that the vault shows, and never beyond this host's clock: a clock that is
    ahead must not make an upload of this minute look old. Where the vault tells no times, ids do.
    """
    now, files = session.now(), found.listing.files
    written = [files[name].updated for name in names]
    known = [moment for moment in written if moment is not None]
    if known and len(known) == len(written):
        newest = max(file.updated for file in files.values() if file.updated is not None)
        return min(now, newest) - max(known) > ORPHAN_GRACE
    since = id_time(snapshot_id)
    times = [moment for moment in map(id_time, found.ids) if moment is not None]
    return since is not None and min(now, max(times)) - since > ORPHAN_GRACE


async def sweep(session: Session, found: Survey, *, deleted: int = 0, spare: int | None = None) -> None:
    """Delete the parts that interrupted backups left, once they are older than the grace period."""
    found.listing.need_complete("sweeping")
    names = [name for group in _aged_orphans(session, found).values() for name in group][:spare]
    _, failed, cause = await _delete_groups(session, [[name] for name in names])
    if failed:
        raise _incomplete(found.label, deleted, failed, cause) from cause


async def make_room(
    session: Session, at: PointerRead, found: Survey, new: SnapshotInfo, policy: Retention, *, missing: int
) -> set[str]:
    """Free at least ``missing`` bytes by what goes anyway: aged orphans, then what the retention will remove.

    Oldest first, no more than needed, and never the newest good snapshot nor the one that the pointer names. Gives
    the ids that are gone; where there are any, the pointer may be another one.
    """
    label = new.label
    freed = sum(
        found.listing.files[name].size or 0 for names in _aged_orphans(session, found).values() for name in names
    )
    await sweep(session, found)
    if freed >= missing:
        return set()
    found = await _prove(session, found)
    plan = plan_for(session, found, policy, at, new=new).plan
    safe = {at.named, found.whole[0].snapshot_id if found.whole else None}
    victims: list[str] = []
    for info in reversed(plan.remove):
        if freed < missing and info.snapshot_id not in safe:
            victims.append(info.snapshot_id)
            freed += info.stored_bytes
    if freed < missing:
        return set()
    try:
        await _write_catalogue(session, at, found, set(victims))
    except Changed as error:
        msg = f"another client wrote to label {label!r} in between: nothing was deleted, back up again"
        raise ConflictDetected(msg, theirs=None) from error
    targets = {i: [manifest_filename(label, i), *found.part_files(i)] for i in victims}
    await delete_files(session, label, targets)
    return set(victims)


async def delete_snapshot(session: Session, *, label: str, snapshot_id: str) -> None:
    """See :meth:`colony_memory.ColonyMemory.delete_snapshot`."""
    label, snapshot_id = require_label(label), require_id(snapshot_id)
    manifest_file = manifest_filename(label, snapshot_id)
    for _ in range(_TRIES):
        seen = await session.seen(label)
        at = await find_pointer(session, label)
        found = await survey(session, label, at.pointer)
        parts = found.part_files(snapshot_id)
        there = manifest_file in found.listing.files
        points = at.written == snapshot_id
        if not there and not parts and not points:
            found.listing.need_complete("deleting")
            msg = f"no snapshot {snapshot_id!r} for label {label!r}"
            raise SnapshotNotFound(msg)
        try:
            await _move_away(session, at, found, snapshot_id, seen=seen)
        except Changed:
            continue
        files = [manifest_file, *parts] if there else parts
        session.manifests.pop(manifest_file, None)
        await delete_files(session, label, {snapshot_id: files})
        return
    msg = f"label {label!r} kept changing while {snapshot_id} was to be deleted: nothing was deleted, try again"
    raise ConflictDetected(msg, theirs=None)


async def _require_believed(session: Session, at: PointerRead, found: Survey, *, seen: Sequence[str]) -> None:
    """Raise an UntrustedSnapshot where a pointer that takes the place of this one would hide what was done to it."""
    refusal = settle(session, at, found)[1]
    if refusal is not None:
        raise refusal
    await require_current(session, at, found, seen=seen)


async def _move_away(
    session: Session, at: PointerRead, found: Survey, snapshot_id: str, *, seen: Sequence[str]
) -> None:
    """Make the pointer and its catalogue forget a snapshot."""
    label = found.label
    if at.pointer is None:
        return
    if at.written != snapshot_id:
        if _keeps_catalogue(session) and at.pointer.entry(snapshot_id) and may_write_pointer(session, at):
            entries = [entry for entry in at.pointer.entries or () if entry.info.snapshot_id != snapshot_id]
            await require_current(session, at, found, seen=seen)
            moved = next_pointer(session, at, label, at.pointer.snapshot_id, entries, seen=seen)
            await require_same(session, at, label)
            await put_pointer(session, at, moved)
        return
    found.listing.need_complete("choosing the newest snapshot left")
    await _require_believed(session, at, found, seen=seen)
    left = await _prove(session, found.without(snapshot_id, "it is to be deleted"))
    if not left.whole and session.trust.pins:
        # What this client does not trust is still somebody's memory.
        session = session.open()
        others = await survey(session, label, None, listing=found.listing, prove=True)
        left = await _prove(session, others.without(snapshot_id, "it is to be deleted"))
    elif left.whole and not may_write_pointer(session, at):
        msg = (
            f"snapshot {snapshot_id} is the latest of label {label!r}, and the pointer to it is signed: deleting it "
            "moves the pointer, which needs signer="
        )
        raise ColonyMemoryError(msg)
    if not left.whole:
        await session.vault.delete(latest_filename(label))
        session.heads.pop(label, None)
        return
    moved = next_pointer(session, at, label, left.whole[0].snapshot_id, left.whole_entries, seen=seen)
    await put_pointer(session, at, moved)
