"""verify, inspect, diff, status: verbs that look and change nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from colony_memory._engine.label import settle, survey
from colony_memory._engine.pointer import check_rollback, find_pointer
from colony_memory._engine.restore import restore
from colony_memory._format.constants import NO_DEFAULT
from colony_memory._format.names import id_order, manifest_filename, read_filename, require_id, require_label
from colony_memory.exceptions import (
    ColonyMemoryError,
    RollbackDetected,
    SnapshotCorrupt,
    SnapshotNotFound,
    UntrustedSnapshot,
)
from colony_memory.reports import Fact, LabelMap, SnapshotCheck, SnapshotDiff, VaultMap, VerifyReport, compare
from colony_memory.snapshot import SnapshotInfo, check_documents, read_documents, read_manifest
from colony_memory.trust import OPEN, check_newer, previous_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from colony_memory._engine.label import Survey
    from colony_memory._engine.pointer import PointerRead
    from colony_memory._engine.session import Session
    from colony_memory._engine.store import Listing
    from colony_memory._format.pointer import Pointer
    from colony_memory.snapshot import Manifest


_TRIES = 3


async def status(session: Session) -> dict[str, Any]:
    """See :meth:`colony_memory.ColonyMemory.status`."""
    return await session.vault.status()


async def verify(session: Session, *, label: str, snapshot_id: str | None) -> VerifyReport:
    """See :meth:`colony_memory.ColonyMemory.verify`."""
    label = require_label(label)
    if snapshot_id is not None:
        check = await check_snapshot(session, label, require_id(snapshot_id))
        if check is None:
            msg = f"no snapshot {snapshot_id!r} for label {label!r}"
            raise SnapshotNotFound(msg)
        return VerifyReport(label, (check,), forged=_forged((check,)))
    for _ in range(_TRIES):
        seen = await session.seen(label)
        at = await find_pointer(session, label)
        report = await _verify_label(session, label, at, seen=seen)
        # Where another client was at work, what the pointer said and what was there are of different moments.
        if report or (await find_pointer(session, label, verify=False)).text == at.text:
            break
    return report


async def _verify_label(session: Session, label: str, at: PointerRead, *, seen: Sequence[str]) -> VerifyReport:
    listing = await session.vault.list(f"cmem.{label}.")
    listing.need_complete("verifying every snapshot")
    found = [await check_snapshot(session, label, each, at=at) for each in _ids(listing, label)]
    checks = _link(session, label, tuple(check for check in found if check is not None))
    ids = {check.snapshot_id for check in checks}
    problem = at.problem
    if at.written is not None and at.written not in ids:
        problem = f"the pointer names snapshot {at.written}, which is not there"
    if not checks and at.text is None:
        problem = None  # nothing was ever saved
    pointer: Fact = "unchecked"
    if session.trust.pins and at.text is not None:
        signed = at.pointer is not None and at.pointer.signed
        pointer = "ok" if at.issuer else "bad" if signed or at.pointer is None else "missing"
        if pointer == "missing" and session.trust.accept_legacy_pointer:
            problem = None
    removed: tuple[str, ...] = ()
    # A vault without conditional upload keeps rows of what was pruned.
    if at.pointer is not None and (at.issuer or session.vault.conditional):
        removed = tuple(
            entry.info.snapshot_id for entry in at.pointer.entries or () if entry.info.snapshot_id not in ids
        )
        problem = problem or _newer_problem(session, label, at.pointer, checks)
        if removed and problem is None:
            problem = f"snapshot {removed[0]} is listed by the pointer, and is not there"
    rollback, told = _check_rollback(session, label, at, seen=seen)
    problem = problem or told
    return VerifyReport(
        label,
        checks,
        at.written,
        problem,
        pointer=pointer,
        rollback=rollback,
        generation=at.pointer.generation if at.pointer else 0,
        removed=removed,
        forged=_forged(checks),
        gaps=tuple(check.snapshot_id for check in checks[:-1] if check.chain == "missing"),
    )


def _ids(listing: Listing, label: str) -> list[str]:
    """Ids of a label's manifests, newest first."""
    files = (read_filename(name) for name in listing.files)
    ids = {file.snapshot_id for file in files if file and file.label == label and file.seq is None and file.snapshot_id}
    return sorted(ids, key=id_order, reverse=True)


def _forged(checks: Iterable[SnapshotCheck]) -> tuple[str, ...]:
    return tuple(
        check.snapshot_id for check in checks if "bad" in (check.trust, check.catalog) or check.signature == "bad"
    )


def _newer_problem(session: Session, label: str, pointer: Pointer, checks: Iterable[SnapshotCheck]) -> str | None:
    """What a trusted snapshot that the proven pointer does not know says of that pointer."""
    for check in checks:
        trusted = check.manifest == "ok" and check.trust != "bad"
        if trusted and id_order(check.snapshot_id) > id_order(pointer.snapshot_id):
            try:
                newer = _manifest(session, label, check.snapshot_id).raw
                check_newer(label, pointer.snapshot_id, newer, went_back_from=pointer.went_back_from)
            except RollbackDetected as error:
                return str(error)
    return None


def _check_rollback(session: Session, label: str, at: PointerRead, *, seen: Sequence[str]) -> tuple[Fact, str | None]:
    try:
        compared = check_rollback(session, label, at, seen=seen)
    except RollbackDetected as error:
        return "bad", str(error)
    return "ok" if compared else "unchecked", None


def _link(session: Session, label: str, checks: tuple[SnapshotCheck, ...]) -> tuple[SnapshotCheck, ...]:
    """Follow ``previous`` from each snapshot to the one before it."""
    by_id = {check.snapshot_id: check for check in checks}
    out = []
    for check in checks:
        before = previous_of(_manifest(session, label, check.snapshot_id).raw) if check.manifest == "ok" else None
        if before is None:
            out.append(check)
            continue
        previous, digest = before
        there = by_id.get(previous)
        fact: Fact = "missing"
        problem = check.problem
        if there is not None:
            same = there.manifest == "ok" and _manifest(session, label, previous).sha256 == digest
            fact = "ok" if same else "bad"
            if not same:
                problem = problem or f"snapshot {previous} before it is not the one that its writer saw"
        out.append(replace(check, chain=fact, previous=previous, problem=problem))
    return tuple(out)


def _manifest(session: Session, label: str, snapshot_id: str) -> Manifest:
    return session.manifests[manifest_filename(label, snapshot_id)]


async def check_snapshot(
    session: Session, label: str, snapshot_id: str, *, at: PointerRead | None = None
) -> SnapshotCheck | None:
    """Read every byte of one snapshot; None where it is not there. ``at`` is the label's pointer."""
    file = manifest_filename(label, snapshot_id)
    stored = await session.vault.get(file)
    if stored is None:
        return None
    try:
        manifest = read_manifest(stored.content, label=label, snapshot_id=snapshot_id)
    except SnapshotCorrupt as error:
        return SnapshotCheck(snapshot_id, manifest="bad", problem=str(error))
    session.manifests[file] = manifest
    signature, problem = _check_signature(manifest)
    trust: Fact = "unchecked"
    if session.trust.pins:
        try:
            session.trust.judge(manifest.raw)
            trust = "ok"
        except UntrustedSnapshot as error:
            trust, problem = "bad", str(error)
    catalog: Fact = "unchecked"
    if at is not None and at.pointer is not None and at.pointer.entries is not None:
        entry = at.pointer.entry(snapshot_id)
        catalog = "missing" if entry is None else "ok" if entry.manifest_sha256 == manifest.sha256 else "bad"
        if catalog == "bad":
            problem = problem or f"the manifest of snapshot {snapshot_id} is not the one that the pointer lists"
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
    return SnapshotCheck(
        snapshot_id,
        "ok",
        parts,
        digest,
        signature,
        manifest.info.issuer,
        problem,
        trust=trust,
        catalog=catalog,
        previous=manifest.info.parent_id,
    )


def _check_signature(manifest: Manifest) -> tuple[Fact, str | None]:
    if not manifest.info.signed:
        return "missing", None
    try:
        OPEN.judge(manifest.raw)
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
            session,
            label=label,
            snapshot_id=side,
            verify=True,
            names=None,
            fallback=False,
            at_least=None,
            default=NO_DEFAULT,
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
    whole = found.marked(settle(session, at, found)[0])
    newest: SnapshotInfo | None = whole[0] if whole else None
    head = at.written
    return LabelMap(
        label=label,
        snapshots=len(whole),
        oldest=whole[-1] if whole else None,
        newest=newest,
        plain_bytes=sum(info.byte_size for info in whole),
        stored_bytes=sum(info.stored_bytes for info in whole),
        head=head,
        dangling=head is None or manifest_filename(label, head) not in listing.files,
        broken=found.broken,
        orphans=tuple(sorted(name for names in found.orphans.values() for name in names)),
        next_operations=(newest.part_count if newest else 1) + 2,
        next_bytes=newest.stored_bytes if newest else 0,
        untrusted=tuple(manifest_filename(label, each) for each in found.untrusted),
    )


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
