"""verify, inspect, diff, status: verbs that look and change nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from colony_memory._constants import NO_DEFAULT
from colony_memory._flows.label import find_pointer, survey
from colony_memory._flows.read import restore
from colony_memory._names import id_order, manifest_filename, read_filename, require_id, require_label
from colony_memory.exceptions import ColonyMemoryError, SnapshotCorrupt, SnapshotNotFound, UntrustedSnapshot
from colony_memory.reports import Fact, LabelMap, SnapshotCheck, SnapshotDiff, VaultMap, VerifyReport, compare
from colony_memory.snapshot import SnapshotInfo, check_documents, read_documents, read_manifest
from colony_memory.trust import judge

if TYPE_CHECKING:
    from collections.abc import Mapping

    from colony_memory._flows.label import Survey
    from colony_memory._flows.session import Session
    from colony_memory._vault import Listing
    from colony_memory.snapshot import Manifest


async def status(session: Session) -> dict[str, Any]:
    """See :meth:`colony_memory.ColonyMemory.status`."""
    return await session.vault.status()


async def verify(session: Session, *, label: str, snapshot_id: str | None) -> VerifyReport:
    """See :meth:`colony_memory.ColonyMemory.verify`."""
    label = require_label(label)
    if snapshot_id is not None:
        check = await _check(session, label, require_id(snapshot_id))
        if check is None:
            msg = f"no snapshot {snapshot_id!r} for label {label!r}"
            raise SnapshotNotFound(msg)
        return VerifyReport(label, (check,))
    at = await find_pointer(session, label)
    listing = await session.vault.list(f"cmem.{label}.")
    listing.need_complete("verifying every snapshot")
    found = [await _check(session, label, each) for each in _ids(listing, label)]
    checks = tuple(check for check in found if check is not None)
    head = at.pointer.snapshot_id if at.pointer else None
    problem = at.problem
    if head is not None and head not in {check.snapshot_id for check in checks}:
        problem = f"the pointer names snapshot {head}, which is not there"
    if not checks and at.text is None:
        problem = None  # nothing was ever saved
    return VerifyReport(label, checks, head, problem)


def _ids(listing: Listing, label: str) -> list[str]:
    """Ids of a label's manifests, newest first."""
    files = (read_filename(name) for name in listing.files)
    ids = {file.snapshot_id for file in files if file and file.label == label and file.seq is None and file.snapshot_id}
    return sorted(ids, key=id_order, reverse=True)


async def _check(session: Session, label: str, snapshot_id: str) -> SnapshotCheck | None:
    """Read every byte of one snapshot; None where it is not there."""
    stored = await session.vault.get(manifest_filename(label, snapshot_id))
    if stored is None:
        return None
    try:
        manifest = read_manifest(stored.content, label=label, snapshot_id=snapshot_id)
    except SnapshotCorrupt as error:
        return SnapshotCheck(snapshot_id, manifest="bad", problem=str(error))
    signature, problem = _check_signature(manifest)
    read = await session.vault.get_many(manifest.part_files)
    texts = {name: file.content if file else None for name, file in read.items()}
    parts: Fact = "missing" if None in texts.values() else "ok"
    digest: Fact = "unchecked"
    try:
        await session.vault.compute(read_documents, manifest, texts, max_bytes=session.max_bytes)
        digest = "ok"
    except SnapshotCorrupt as error:
        problem = problem or str(error)
        if parts == "ok" and error.file in manifest.part_files:
            parts = "bad"
        elif parts == "ok" and manifest.info.byte_size <= session.max_bytes:
            digest = "bad"
    return SnapshotCheck(snapshot_id, "ok", parts, digest, signature, manifest.info.issuer, problem)


def _check_signature(manifest: Manifest) -> tuple[Fact, str | None]:
    if not manifest.info.signed:
        return "missing", None
    try:
        judge(manifest.raw, verify=True)
    except UntrustedSnapshot as error:
        return "bad", str(error)
    except ColonyMemoryError as error:
        return "unchecked", str(error)
    return "ok", None


async def diff(
    session: Session, a: str | Mapping[str, str], b: str | Mapping[str, str] | None, *, label: str
) -> SnapshotDiff:
    """See :meth:`colony_memory.ColonyMemory.diff`."""
    before, after = await _documents(session, a, label), await _documents(session, b, label)
    return await session.vault.compute(compare, before, after)


async def _documents(session: Session, side: str | Mapping[str, str] | None, label: str) -> Mapping[str, str]:
    if side is None or isinstance(side, str):
        documents: dict[str, str] = await restore(
            session, label=label, snapshot_id=side, verify=True, names=None, fallback=False, default=NO_DEFAULT
        )
        return documents
    check_documents(dict(side))
    return side


async def inspect(session: Session) -> VaultMap:
    """See :meth:`colony_memory.ColonyMemory.inspect`."""
    quota = await session.vault.status()
    listing = await session.vault.list("")
    files = {name: read_filename(name) for name in listing.files}
    labels = [
        await _map_label(session, label, listing) for label in sorted({file.label for file in files.values() if file})
    ]
    total, free = _number(quota.get("quota_bytes")), quota.get("available_bytes")
    return VaultMap(
        labels=tuple(labels),
        files=len(files),
        foreign_files=sum(file is None for file in files.values()),
        complete=listing.complete,
        quota_bytes=total,
        used_bytes=_number(quota.get("used_bytes")),
        available_bytes=free if total and isinstance(free, int) else None,
        operations_left=await session.vault.operations_left(),
    )


async def _map_label(session: Session, label: str, listing: Listing) -> LabelMap:
    at = await find_pointer(session, label)
    found: Survey = await survey(session, label, at.pointer, listing=listing)
    newest: SnapshotInfo | None = found.whole[0] if found.whole else None
    head = at.pointer.snapshot_id if at.pointer else None
    return LabelMap(
        label=label,
        snapshots=len(found.whole),
        oldest=found.whole[-1] if found.whole else None,
        newest=newest,
        plain_bytes=sum(info.byte_size for info in found.whole),
        stored_bytes=sum(info.stored_bytes for info in found.whole),
        head=head,
        dangling=head is None or manifest_filename(label, head) not in listing.files,
        broken=found.broken,
        orphans=tuple(sorted(name for names in found.orphans.values() for name in names)),
        next_operations=(newest.part_count if newest else 1) + 2,
        next_bytes=newest.stored_bytes if newest else 0,
    )


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
