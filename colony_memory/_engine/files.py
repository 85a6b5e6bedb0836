"""Uploading a snapshot's files, the manifest last; deleting them, the manifest first; and the limits of a vault."""

from __future__ import annotations

import math
from bisect import bisect_right
from datetime import timedelta
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from colony_memory._engine.label import GRACE, LabelFiles, require_complete
from colony_memory._engine.observe import tally
from colony_memory._engine.session import Session, log
from colony_memory._engine.state import State, list_label, read_manifests
from colony_memory._engine.store import Unanswered
from colony_memory._format.names import id_order, manifest_filename
from colony_memory._values import Record, field, replace
from colony_memory.exceptions import (
    BackupUncertain,
    ColonyMemoryError,
    Hint,
    PruneIncomplete,
    QuotaExceeded,
    RateLimited,
    VaultDenied,
    VaultError,
    VaultUnavailable,
)
from colony_memory.snapshot import MAX_FILE_BYTES, BuiltSnapshot

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import datetime


async def free_bytes(session: Session, status: Mapping[str, Any] | None = None) -> int | None:
    """Free bytes, None where the vault does not tell, or has no quota."""
    if session.vault.unlimited:
        return None
    known = await session.vault.number("free_bytes")
    return free_in(await session.vault.status() if status is None else status) if known is None else known


def free_in(status: Mapping[str, Any]) -> int | None:
    quota, free = status.get("quota_bytes"), status.get("available_bytes")
    if quota == 0 and not status.get("used_bytes") and not status.get("file_count"):
        return 10_000_000  # the quota that a hosted vault gets with its first write; it reports zeros until then
    return free if isinstance(quota, int) and quota > 0 and isinstance(free, int) else None


def require_sizes(files: Mapping[str, str], what: str) -> None:
    for name, text in files.items():
        size = len(text.encode("utf-8", "surrogatepass"))
        if size > MAX_FILE_BYTES:
            why = "its list of document names is too long" if name.endswith(".manifest.json") else "a part is too long"
            msg = (
                f"{what} was not written: {name} would be {size} bytes and a vault file holds {MAX_FILE_BYTES}; {why}: "
                "save fewer documents, or spread them over several labels"
            )
            raise QuotaExceeded(msg, needed=size, available=MAX_FILE_BYTES)


async def require_room(session: Session, need: int, what: str, *, label: str | None = None) -> None:
    free = await free_bytes(session)
    if free is not None and need > free:
        raise no_room(need, free, what, label)


def no_room(need: int, free: int, what: str, label: str | None, *, keep: int | None = None) -> QuotaExceeded:
    """The error where ``what`` does not fit unless a prune keeps only so many, 0 if none helps, None if not known."""
    msg = f"{what} does not fit: it takes about {need} bytes, and {free} are free in the vault"
    hint = None if keep == 0 else Hint("prune", "keep", keep, label=label)
    return QuotaExceeded(msg, needed=need, available=free, hint=hint)


async def require_operations(session: Session, need: int, what: str) -> None:
    remaining = await session.vault.number("operations_left")
    if remaining is not None and remaining < need:
        # The vault's hour starts with the first operation in it, so a full hour is the longest wait.
        wait = await session.vault.number("operations_reset") or 3600
        msg = f"the vault takes {remaining} more uploads and deletes this hour, and {what} needs {need}"
        raise RateLimited(f"{msg}; try again in {math.ceil(wait / 60)} min", retry_after=float(wait))


async def upload(session: Session, built: BuiltSnapshot) -> list[datetime | None]:
    """Write a new snapshot and return the vault's times of the writes; an upload that fails is removed if possible."""
    label, snapshot_id = built.info.label, built.info.snapshot_id
    written: list[datetime | None] = []
    for done, (name, text) in enumerate(built.files.items(), 1):
        try:
            written.append(await session.vault.put(name, text))
        except ColonyMemoryError as error:
            if isinstance(error, Unanswered) and name == built.manifest_file:
                msg = (
                    f"snapshot {snapshot_id} of label {label!r} may or may not be stored: {error}; saving again is safe"
                )
                hint = Hint("list_snapshots", label=label)
                raise BackupUncertain(msg, snapshot_id=snapshot_id, hint=hint) from error
            await discard(session, built, error)
            raise
        session.tell("upload", name, done, len(built.files))
    return written


def took_long(session: Session, began: datetime, written: Sequence[datetime | None]) -> bool:
    """True if others may have taken the upload for a leftover; a host that was frozen learns it from the vault."""
    times = [moment for moment in written if moment is not None]
    span = max(times) - min(times) if times else timedelta()
    return 0 < len(times) < len(written) or max(abs(session.now() - began), span) > GRACE / 2


async def misread(session: Session, files: Mapping[str, str]) -> str | None:
    """The first difference between files and their stored text, None where there is none."""
    for name, stored in (await session.vault.get_many(files)).items():
        if stored is None or stored.content != files[name]:
            state = "is not there" if stored is None else "holds another text"
            return f"{name} was written, but when it was read back, it {state}"
    return None


async def read_back(session: Session, built: BuiltSnapshot) -> None:
    wrong = await misread(session, built.files)
    if wrong is not None:
        raise VaultError(f"{wrong}: do it again")


async def prove(session: Session, label: str, files: Iterable[str], *, own: Iterable[str]) -> bool:
    """True if every file that a new snapshot needs is still there once its manifest is, the last of its ``own`` files:
    another client may have taken the parts of a long upload for leftovers, which no earlier look can rule out.
    """
    needed = list(files)
    listing = await session.vault.look_up(needed)
    require_complete(listing, f"label {label!r}", "going on after an upload that took long")
    # The manifest is the newest file; one that is a grace period older may be about to be deleted.
    return all(name in listing.files for name in needed) and LabelFiles(label, listing.files).is_of_one_time(own)


def still_there(now: State, snapshot_id: str, files: Iterable[str]) -> bool:
    """True if a snapshot of these files that no pointer names yet is safe from clients that delete leftovers, which are
    a grace period old. A client that wrote a pointer that much younger than the snapshot may be deleting it already.
    """
    listed, pointer = now.listed, now.pointer
    # Another client listed it, and a third took it out of the catalogue as one of the old ones, and is deleting it.
    if snapshot_id in pointer.gone or any(name not in listed.files for name in files):
        return False
    written = listed.files[manifest_filename(now.label, snapshot_id)].updated
    newest = None if listed.listing is None else listed.listing.now
    young = written is None or newest is None or newest - written < GRACE
    return young or pointer.entry(snapshot_id) is not None


async def discard(session: Session, built: BuiltSnapshot, error: ColonyMemoryError | None = None) -> None:
    if isinstance(error, RateLimited):
        return  # deletes count against the same limit; a later prune sweeps
    job = _Deletion(session, built.info.label, total=len(built.files))
    await job.delete([built.manifest_file])
    try:
        if not job.failed and await session.vault.get(built.manifest_file) is None:
            await job.delete(name for name in built.files if name != built.manifest_file)
    except VaultError as unread:
        job.cause = unread
    if job.cause:
        log(f"the leftovers of a failed backup stay in the vault until the next prune: {job.cause}")


async def remove_snapshots(
    session: Session,
    files: LabelFiles,
    victims: Iterable[str],
    *,
    needs: Mapping[str, Sequence[str]],
    spare: int | None = None,
    sweeps: bool = True,
) -> int:
    """Delete snapshots that no catalogue lists any more; returns how many are gone. PruneIncomplete if files remain.

    ``files`` is an earlier listing of the label, ``needs`` is :attr:`State.needs`. ``spare`` limits the deletions: the
    oldest snapshots go first, each whole or not at all. ``sweeps`` also deletes leftovers of others' backups.
    """
    label, manifests = files.label, set(files.manifests)
    chosen = sorted(victims, key=id_order)
    if spare is not None:
        totals = list(accumulate(len(files.owned(victim)) for victim in chosen))
        chosen = chosen[: bisect_right(totals, spare)]
    job = _Deletion(session, label, total=sum(len(files.owned(victim)) for victim in chosen))
    await job.delete([manifest_filename(label, victim) for victim in chosen if victim in manifests])
    if chosen:
        # A client that builds on these from now on learns it from its own listing; what was built before shows here.
        try:
            files = replace(await list_label(session, label), named=files.named)
        except ColonyMemoryError as error:
            raise job.incomplete(error, [name for victim in chosen for name in files.owned(victim)]) from error
    remaining = [victim for victim in chosen if victim in files.manifests]
    gone = [victim for victim in chosen if victim not in files.manifests]
    for victim in remaining:
        if (name := manifest_filename(label, victim)) not in job.failed:
            job.failed.append(name)
            job.cause = VaultError(f"the vault said that it deleted {name}, but it is still there")
    job.deleted = len(manifests.intersection(gone))
    counts = tally()
    if counts is not None:
        counts.pruned += job.deleted
    if not files.complete:
        unseen = [name for victim in gone for name in files.owned(victim)]
        raise job.incomplete(VaultError("the vault's list is cut short"), unseen)
    free = await deletable(session, files, gone, needs=needs, only=None if sweeps else gone)
    await job.delete(free[: None if spare is None else max(0, spare - job.done)])
    job.failed += [name for victim in remaining for name in files.owned(victim) if name not in job.failed]
    if job.failed:
        raise job.incomplete()
    return job.deleted


async def deletable(
    session: Session,
    files: LabelFiles,
    victims: Collection[str],
    *,
    needs: Mapping[str, Sequence[str]],
    only: Collection[str] | None = None,
    reread: bool = True,
) -> list[str]:
    """Names of the files that go with snapshots, and of old leftovers, unless a remaining manifest needs them.

    A plan calls this as if the snapshots were gone, the deletion once they are. ``only`` are the ids whose leftovers
    are meant, None for all; ``reread`` reads manifests again that were read before.
    """
    now = session.now()
    old = {orphan: names for orphan, names in files.orphans.items() if files.is_old(orphan, now=now)}
    packs = {pack: files.pack(pack) for pack in files.packs if files.is_aged(pack, files.pack(pack), now=now)}
    if only is not None:
        old, packs = ({id_: names for id_, names in group.items() if id_ in only} for group in (old, packs))
    names = [name for victim in victims for name in files.owned(victim)]
    names += [name for orphan in sorted(old, key=id_order) if orphan not in victims for name in old[orphan]]
    # Page files that no pointer names any more, and that no writer is about to name
    unnamed = [name for name in files.pages if name not in files.named] if files.named is not None else []
    names += [name for name in unnamed if only is None and files.is_aged(name.split(".")[2], [name], now=now)]
    if not packs or not files.complete:
        return names
    # The packs in a believed catalogue's row of a committed snapshot count, since a client that wrote or read the
    # manifest put them there. All other manifests are read: those whose row has no packs, and those without a row.
    remaining = [id_ for id_ in files.manifests if id_ not in victims]
    needed = {pack for id_ in remaining for pack in needs.get(id_, ())}
    unread = [id_ for id_ in remaining if id_ not in needs]
    for id_ in unread if reread else ():  # a deleted one may have come back with other content
        session.manifests.pop(manifest_filename(files.label, id_), None)
    await read_manifests(session, files.label, unread)
    for id_ in unread:
        # A manifest that is not trusted, or badly signed, still keeps what it needs.
        manifest = session.manifests.get(manifest_filename(files.label, id_))
        if manifest is None:
            log(f"no pack of label {files.label!r} is deleted, since the manifest of snapshot {id_} cannot be read")
            return names
        needed.update(manifest.packs)
    return names + [name for pack in sorted(packs, key=id_order) if pack not in needed for name in packs[pack]]


async def bytes_freed(
    session: Session, files: LabelFiles, victims: Collection[str], *, needs: Mapping[str, Sequence[str]]
) -> int:
    return files.size(await deletable(session, files, victims, needs=needs, reread=False)) or 0


class _Deletion(Record):
    session: Session
    label: str
    total: int
    done: int = 0
    deleted: int = 0
    failed: list[str] = field(default_factory=list)
    cause: ColonyMemoryError | None = None

    async def delete(self, names: Iterable[str]) -> None:
        """Delete files, and stop at the first sign that the rest would fail too: a refusal, or no reply at all."""
        names = list(names)
        at_once = await self.session.vault.delete_all(names)
        for name in names:
            no_reply = isinstance(self.cause, VaultUnavailable) and self.cause.status is None
            if no_reply or isinstance(self.cause, (RateLimited, VaultDenied)):
                self.failed.append(name)
                continue
            try:
                if not at_once:
                    await self.session.vault.delete(name)
            except ColonyMemoryError as error:
                self.failed.append(name)
                self.cause = error
            else:
                self.done += 1
                self.session.tell("delete", name, self.done, self.total)

    def incomplete(self, cause: ColonyMemoryError | None = None, unseen: Sequence[str] = ()) -> PruneIncomplete:
        cause = cause or self.cause
        failed = list(dict.fromkeys((*self.failed, *unseen)))
        wait = getattr(cause, "retry_after", None)
        when = f"; try again in {wait:.0f} s" if wait else ""
        msg = f"label {self.label!r}: {self.deleted} snapshots were deleted, {len(failed)} files are still there"
        msg = f"{msg}: {getattr(cause, 'message', cause)}{when}"
        error = PruneIncomplete(msg, deleted=self.deleted, failed=failed, hint=Hint("prune", label=self.label))
        error.__cause__ = cause
        return error
