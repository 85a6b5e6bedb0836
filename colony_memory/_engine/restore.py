"""restore, latest, list_snapshots."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from colony_memory._engine.label import believed_pointer, read_newer, settle, survey
from colony_memory._engine.pointer import check_rollback, find_pointer, head_of
from colony_memory._engine.session import warn
from colony_memory._format.constants import NO_DEFAULT
from colony_memory._format.head import read_head
from colony_memory._format.names import (
    id_order,
    manifest_filename,
    part_filename,
    read_filename,
    require_id,
    require_label,
)
from colony_memory.exceptions import (
    RollbackDetected,
    SnapshotCorrupt,
    SnapshotNotFound,
    UnsupportedFormat,
    UntrustedSnapshot,
)
from colony_memory.snapshot import Manifest, SnapshotInfo, read_documents, read_manifest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from colony_memory._engine.pointer import PointerRead
    from colony_memory._engine.session import Session
    from colony_memory._format.pointer import Pointer

# Another writer may move the pointer between reading it and reading what it names.
_TRIES = 3
# Parts to ask for before the manifest is there: what a vault of 10 MB holds at most.
_AHEAD = 15


async def restore(
    session: Session,
    *,
    label: str,
    snapshot_id: str | None,
    verify: bool,
    names: str | Iterable[str] | None,
    fallback: bool,
    at_least: str | int | None,
    default: Any,
) -> Any:
    """See :meth:`colony_memory.ColonyMemory.restore`."""
    label = require_label(label)
    if snapshot_id is not None:
        require_id(snapshot_id)
    if at_least is not None:
        if not (isinstance(at_least, str) and at_least.startswith("0:")):
            read_head(at_least)
        if snapshot_id is not None:
            raise ValueError("at_least= is for the latest snapshot: leave it out where snapshot_id= names one")
    try:
        if snapshot_id is None:
            documents = await _restore_latest(session, label, verify=verify, fallback=fallback, at_least=at_least)
        else:
            documents = await _restore_one(session, label, snapshot_id, verify=verify, fallback=fallback)
    except SnapshotNotFound:
        if default is not NO_DEFAULT:
            return default
        raise
    if names is None:
        return documents
    patterns = (names,) if isinstance(names, str) else tuple(names)
    return {name: text for name, text in documents.items() if any(fnmatchcase(name, p) for p in patterns)}


async def load(
    session: Session, label: str, snapshot_id: str, *, verify: bool, parts: int = 0
) -> tuple[Manifest, dict[str, str]]:
    """One snapshot's manifest and documents, checked in every byte.

    ``parts`` is how many there are by the catalogue: they are asked for together with the manifest, which then decides.
    """
    file = manifest_filename(label, snapshot_id)
    ahead = [part_filename(label, snapshot_id, seq) for seq in range(min(parts, _AHEAD))]
    read = await session.vault.get_many([file, *ahead], session.tell)
    stored = read[file]
    if stored is None:
        msg = f"no snapshot {snapshot_id!r} for label {label!r}"
        raise SnapshotNotFound(msg)
    manifest = read_manifest(stored.content, label=label, snapshot_id=snapshot_id)
    session.trust.judge(manifest.raw, verify=verify)
    read |= await session.vault.get_many([name for name in manifest.part_files if name not in read], session.tell)
    texts = {name: part.content if (part := read[name]) else None for name in manifest.part_files}
    if None in texts.values() and await session.vault.get(file) is None:
        msg = f"snapshot {snapshot_id!r} for label {label!r} was deleted while it was read"
        raise SnapshotNotFound(msg)
    del read, stored  # so that a part's text is freed once it is read
    documents = await session.vault.compute(read_documents, manifest, texts, max_bytes=session.max_bytes)
    session.manifests[file] = manifest
    if verify:
        session.good.add(snapshot_id)
    return manifest, documents


async def _restore_one(
    session: Session, label: str, snapshot_id: str, *, verify: bool, fallback: bool, at: PointerRead | None = None
) -> dict[str, str]:
    """One snapshot; ``at`` is the pointer that names it."""
    entry = at.pointer.entry(snapshot_id) if at and at.pointer else None
    try:
        parts = entry.info.part_count if entry else 0
        manifest, documents = await load(session, label, snapshot_id, verify=verify, parts=parts)
        if entry and at and at.issuer and manifest.sha256 != entry.manifest_sha256:
            msg = (
                f"snapshot {snapshot_id} of label {label!r} is another one than the signed pointer names: its manifest "
                "was replaced; restore an older one by its id"
            )
            raise UntrustedSnapshot(msg)
    except (SnapshotCorrupt, UntrustedSnapshot) as error:
        if not fallback:
            raise
        return await _restore_newest(session, label, verify=verify, skip={snapshot_id: str(error)}, first=error)
    if at is not None and at.pointer is not None:
        if at.issuer:
            await _look_for_newer(session, label, at.pointer)
        head = head_of(at.pointer, manifest.sha256)
        await session.note(label, head, proven=at.issuer is not None)
    return documents


async def _restore_latest(
    session: Session, label: str, *, verify: bool, fallback: bool, at_least: str | int | None
) -> dict[str, str]:
    tried: str | None = None
    for _ in range(_TRIES):
        seen = await session.seen(label)
        at, found = await believed_pointer(session, label, verify=verify)
        if found is not None and at.pointer is None and found.untrusted:
            raise next(iter(found.untrusted.values()))
        watched = check_rollback(session, label, at, seen=seen, at_least=at_least)
        if at.pointer is None or at.pointer.snapshot_id == tried:
            break
        tried = at.pointer.snapshot_id
        try:
            return await _restore_one(session, label, tried, verify=verify, fallback=fallback, at=at)
        except SnapshotNotFound:
            continue
    if watched and at.pointer is not None:
        msg = (
            f"label {label!r}: {_problem(at)}, so the newest memory was removed; to accept what is left, restore a "
            "snapshot by its id and back it up again"
        )
        raise RollbackDetected(msg)
    return await _restore_newest(session, label, verify=verify, at=at, skip_errors=fallback)


async def _look_for_newer(session: Session, label: str, pointer: Pointer) -> None:
    """Look for trusted snapshots that are newer than what a proven pointer names: it may be an older one."""
    listing = await session.vault.list(f"cmem.{label}.")
    found = (read_filename(name) for name in listing.files)
    ids = [f.snapshot_id for f in found if f and f.label == label and f.snapshot_id and f.seq is None]
    read = await read_newer(session, label, pointer, ids)
    if read:
        warn(
            f"label {label!r} has {max(read, key=id_order)}, newer than {pointer.snapshot_id}, which its pointer "
            "names: a backup that did not finish or met another client's, or a pointer that was put back"
        )


async def _restore_newest(
    session: Session,
    label: str,
    *,
    verify: bool,
    skip: dict[str, str] | None = None,
    first: Exception | None = None,
    at: PointerRead | None = None,
    skip_errors: bool = True,
) -> dict[str, str]:
    """The newest intact snapshot by listing, where the pointer or what it names cannot be used."""
    listing = await session.vault.list(f"cmem.{label}.")
    listing.need_complete("choosing the newest snapshot")
    found = (read_filename(name) for name in listing.files)
    ids = [f.snapshot_id for f in found if f and f.label == label and f.snapshot_id and f.seq is None]
    problems = dict(skip or {})
    # What a client that pins issuers refuses may be anyone's, and must not keep it from its own.
    pins = session.trust.pins
    for snapshot_id in sorted(ids, key=id_order, reverse=True):
        if snapshot_id in problems:
            continue
        try:
            _, documents = await load(session, label, snapshot_id, verify=verify)
        except SnapshotNotFound:
            continue
        except (SnapshotCorrupt, UntrustedSnapshot) as error:
            # A newer format or a foreign signature is not damage: going back silently would lose newer memory.
            foreign = isinstance(error, UntrustedSnapshot) and not pins
            if (isinstance(error, UnsupportedFormat) or foreign) and not skip_errors:
                raise
            problems[snapshot_id], first = str(error), first or error
            continue
        why = "; ".join([_problem(at), *problems.values()] if at else problems.values())
        warn(f"restored the newest intact snapshot {snapshot_id} of label {label!r}: {why}")
        return documents
    if first is not None:
        raise first
    if at is not None and at.text is not None:
        msg = f"{_problem(at)}, and no other snapshot of label {label!r} is left: there was one, and it is gone"
        raise SnapshotCorrupt(msg)
    msg = f"no snapshot for label {label!r}"
    raise SnapshotNotFound(msg)


def _problem(at: PointerRead) -> str:
    if at.pointer is None:
        return at.problem or ""
    return f"the pointer names snapshot {at.pointer.snapshot_id}, which is not there"


async def latest(session: Session, *, label: str) -> SnapshotInfo | None:
    """See :meth:`colony_memory.ColonyMemory.latest`."""
    label = require_label(label)
    seen = await session.seen(label)
    at, found = await believed_pointer(session, label)
    watched = check_rollback(session, label, at, seen=seen)
    if at.pointer is not None:
        file = await session.vault.get(at.pointer.manifest_file)
        if file is not None:
            manifest = read_manifest(file.content, label=label, snapshot_id=at.pointer.snapshot_id)
            if session.trust.pins:
                session.trust.judge(manifest.raw)
            entry = at.pointer.entry(manifest.info.snapshot_id)
            if entry and at.issuer and entry.manifest_sha256 != manifest.sha256:
                msg = (
                    f"the manifest of snapshot {manifest.info.snapshot_id} of label {label!r} is not the one that the "
                    "signed pointer names: it was replaced; restore an older one by its id"
                )
                raise UntrustedSnapshot(msg)
            if at.issuer:
                await _look_for_newer(session, label, at.pointer)
            stored = entry.info.stored_bytes if entry and entry.manifest_sha256 == manifest.sha256 else 0
            return replace(manifest.info, stored_bytes=stored, head=head_of(at.pointer, manifest.sha256))
        if watched:
            raise RollbackDetected(f"label {label!r}: {_problem(at)}, so the newest memory was removed")
    found = found or await survey(session, label, None)
    found.listing.need_complete("choosing the newest snapshot")
    if found.whole:
        warn(f"the newest whole snapshot of label {label!r} is {found.whole[0].snapshot_id}: {_problem(at)}")
        return found.whole[0]
    if found.untrusted:
        raise next(iter(found.untrusted.values()))
    if found.broken or at.text is not None:
        problem = "; ".join([_problem(at), *found.broken.values()])
        msg = f"label {label!r} has no snapshot that can be restored: {problem}"
        raise SnapshotCorrupt(msg)
    return None


async def list_snapshots(session: Session, *, label: str | None) -> list[SnapshotInfo]:
    """See :meth:`colony_memory.ColonyMemory.list_snapshots`."""
    wanted = None if label is None else require_label(label)
    listing = await session.vault.list("cmem." if wanted is None else f"cmem.{wanted}.")
    if not listing.complete:
        warn(f"the vault's list of {listing.prefix}* is cut: there may be more snapshots")
    files = (read_filename(name) for name in listing.files)
    labels = sorted({file.label for file in files if file and file.snapshot_id and file.seq is None})
    out: list[SnapshotInfo] = []
    for each in labels:
        at = await find_pointer(session, each)
        found = await survey(session, each, at.pointer, listing=listing)
        if not found.entries and not found.broken:
            # All that was listed is gone by now, as after a backup of another client that keeps one snapshot.
            at = await find_pointer(session, each)
            found = await survey(session, each, at.pointer)
        for problem in found.broken.values():
            warn(f"a snapshot of label {each!r} is left out of the list: {problem}")
        out += found.marked(settle(session, at, found)[0])
    return sorted(out, key=lambda info: id_order(info.snapshot_id), reverse=True)
