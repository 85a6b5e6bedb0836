"""verify, inspect, diff, status: verbs that look and change nothing."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from colony_memory._engine.label import read_label, read_labels
from colony_memory._engine.observe import observed, verified
from colony_memory._engine.outlook import look_ahead, seconds_left
from colony_memory._engine.restore import restore
from colony_memory._engine.state import UNREADABLE, State, look, read_pointer_file, require_listed
from colony_memory._format.formats import format_of
from colony_memory._format.names import id_order, latest_filename, manifest_filename, require_id, require_label
from colony_memory._format.pointer import read_pointer
from colony_memory.exceptions import (
    ColonyMemoryError,
    DecryptionError,
    RollbackDetected,
    SnapshotCorrupt,
    SnapshotNotFound,
    UntrustedSnapshot,
    VaultError,
    message_of,
)
from colony_memory.reports import Fact, LabelMap, SnapshotCheck, SnapshotDiff, VaultMap, VerifyReport, compare
from colony_memory.snapshot import SnapshotInfo, check_documents, read_manifest
from colony_memory.trust import OPEN, check_newer, previous_of

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from colony_memory._engine.judge import Decision
    from colony_memory._engine.label import LabelFiles
    from colony_memory._engine.session import Session
    from colony_memory.snapshot import Manifest


_TRIES = 3


@observed("status")
async def status(session: Session, *, label: str | None = None) -> dict[str, Any]:
    """See :meth:`colony_memory.ColonyMemory.status`."""
    quota = await session.vault.status()
    if label is None:
        return quota
    label = require_label(label)
    files = read_label(await session.vault.list(f"cmem.{label}."), label)
    free = _room(session, quota)
    found = await _map_label(session, label, files, free=free)
    return {
        **quota,
        "label": label,
        "restore_points": found.snapshots,
        "next_bytes": found.next_bytes,
        "next_at_most": found.next_at_most,
        "fits": found.fits,
        "daily_bytes": found.daily_bytes,
        "room_lasts_seconds": seconds_left(free, [found.daily_bytes]),
    }


@observed("verify", verified)
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
        state = await look(session, label, everything=True)
        report = await _verify_label(session, state)
        # Where another client was at work, what the pointer said and what was there are of different moments.
        if report or (await read_pointer_file(session, label))[0] == state.text:
            break
    return report


async def _verify_label(session: Session, state: State) -> VerifyReport:
    label, decision = state.label, state.decision
    files = require_listed(state, "verifying every snapshot")
    found = [await check_snapshot(session, label, each, state=state) for each in files.manifests]
    checks = _link(session, label, tuple(check for check in found if check is not None))
    ids = {check.snapshot_id for check in checks}
    problem = decision.problem
    if not checks and state.text is None:
        problem = None  # nothing was ever saved
    pointer: Fact = "unchecked"
    if session.trust.pins and state.text is not None:
        bad = decision.signed or decision.written is None
        pointer = "ok" if decision.proven else "bad" if bad else "missing"
        if pointer == "missing" and session.trust.accept_legacy_pointer:
            problem = None
    removed = _gone(session, decision, ids)
    rollback: Fact = "bad" if decision.rollback else "ok" if decision.compared else "unchecked"
    problem = problem or (message_of(decision.rollback) if decision.rollback else None)
    if not decision.proven:
        problem = problem or (_newer_problem(session, state, checks) if checks or state.text is not None else None)
    problem = problem or _catalogue_problem(state)
    if removed and problem is None:
        problem = f"snapshot {removed[0]} is listed by the pointer, and is not there"
    return VerifyReport(
        label,
        checks,
        decision.written or None,
        problem,
        pointer=pointer,
        rollback=rollback,
        generation=decision.pointer.generation,
        removed=removed,
        forged=_forged(checks),
        gaps=tuple(check.snapshot_id for check in checks[:-1] if check.chain == "missing"),
    )


def _gone(session: Session, decision: Decision, there: Container[str]) -> tuple[str, ...]:
    """What the pointer lists and is not there."""
    # Where writers that do not sign cannot write on condition, one may bring back a row that another took out.
    rows = decision.pointer.entries if decision.proven or session.vault.conditional else ()
    return tuple(entry.snapshot_id for entry in rows or () if entry.snapshot_id not in there)


async def _gone_for_good(session: Session, state: State) -> tuple[str, ...]:
    """The same, of a label that was listed before its pointer was read: a backup in between is not in that list.

    It is looked at once more, in the other order, in which a deletion in between is the one that would show.
    """
    gone = _gone(session, state.decision, state.listed.manifests) if state.listed.complete else ()
    if not gone:
        return ()
    again = await look(session, state.label, everything=True)
    found = _gone(session, again.decision, again.listed.manifests) if again.listed.complete else ()
    return tuple(each for each in found if each in gone)


def _newer_problem(session: Session, state: State, checks: Iterable[SnapshotCheck]) -> str | None:
    """What snapshots that are newer than the one that an unproven pointer names say of that pointer."""
    try:
        pointer = read_pointer(state.text or "", label=state.label)
        for check in checks:
            intact = check.manifest == "ok" and check.trust != "bad"
            if intact and id_order(check.snapshot_id) > id_order(pointer.snapshot_id or ""):
                newer = _manifest(session, state.label, check.snapshot_id).raw
                check_newer(state.label, pointer.snapshot_id, newer, went_back_from=pointer.went_back_from)
    except (SnapshotCorrupt, RollbackDetected) as error:
        return message_of(error)
    return None


def _catalogue_problem(state: State) -> str | None:
    """What is wrong with the catalogue in a pointer that can be read: other verbs read manifests in its place."""
    try:
        if state.text is not None:
            read_pointer(state.text, label=state.label, strict=True)
    except SnapshotCorrupt as error:
        return message_of(error)
    return None


def _forged(checks: Iterable[SnapshotCheck]) -> tuple[str, ...]:
    return tuple(
        check.snapshot_id for check in checks if "bad" in (check.trust, check.catalog) or check.signature == "bad"
    )


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
            same = there.manifest == "ok" and digest in _digests(_manifest(session, label, previous))
            fact = "ok" if same else "bad"
            if not same:
                problem = problem or f"snapshot {previous} before it is not the one that its writer saw"
        out.append(replace(check, chain=fact, previous=previous, problem=problem))
    return tuple(out)


def _digests(manifest: Manifest) -> set[str | None]:
    """The digest of a manifest, and of those that it was made from in another format."""
    return {manifest.sha256, *(each["manifest_sha256"] for each in manifest.converted)}


def _manifest(session: Session, label: str, snapshot_id: str) -> Manifest:
    return session.manifests[manifest_filename(label, snapshot_id)]


async def check_snapshot(
    session: Session, label: str, snapshot_id: str, *, state: State | None = None
) -> SnapshotCheck | None:
    """Read every byte of one snapshot; None where it is not there. ``state`` is the label's, if that is verified."""
    file = manifest_filename(label, snapshot_id)
    stored = await session.vault.get(file)
    if stored is None:
        return None
    try:
        manifest = read_manifest(stored.content, label=label, snapshot_id=snapshot_id)
    except SnapshotCorrupt as error:
        return SnapshotCheck(snapshot_id, manifest="bad", problem=message_of(error))
    session.manifests[file] = manifest
    signature, problem = _check_signature(manifest)
    trust: Fact = "unchecked"
    if session.trust.pins:
        try:
            session.trust.judge(manifest.raw)
            trust = "ok"
        except UntrustedSnapshot as error:
            trust, problem = "bad", message_of(error)
        strange = state.decision.untrusted.get(snapshot_id) if state else None
        if trust == "ok" and strange is not None:
            trust, problem = "bad", message_of(strange)
    catalog: Fact = "unchecked"
    pointer = state.decision.pointer if state else None
    if pointer is not None and pointer.entries is not None:
        entry = pointer.entry(snapshot_id)
        catalog = "missing" if entry is None else "ok" if entry.manifest_sha256 == manifest.sha256 else "bad"
        if catalog == "bad":
            problem = problem or f"the manifest of snapshot {snapshot_id} is not the one that the pointer lists"
    found = (await session.vault.get_many(manifest.part_files)).items()
    texts = {name: file.content if file else None for name, file in found}
    del found  # so that a part's text is freed once it is read
    parts: Fact = "missing" if None in texts.values() else "ok"
    digest: Fact = "unchecked"
    closed: str | None = None
    try:
        if trust == "bad":
            # Anyone may have made it: what it costs to unpack is not spent on it, nor a passphrase tried.
            parts = "missing" if parts == "missing" else "unchecked"
        else:
            unpack = format_of(manifest.info.format).read
            at_most, identities = session.max_bytes, session.identities
            await session.vault.compute(unpack, manifest, texts, max_bytes=at_most, identities=identities)
            digest = "ok"
    except DecryptionError as error:
        closed = message_of(error)
    except SnapshotCorrupt as error:
        problem = problem or message_of(error)
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
        closed=closed,
    )


def _check_signature(manifest: Manifest) -> tuple[Fact, str | None]:
    if not manifest.info.signed:
        return "missing", None
    try:
        OPEN.judge(manifest.raw)
    except UntrustedSnapshot as error:
        return "bad", message_of(error)
    except ColonyMemoryError as error:
        return "unchecked", message_of(error)
    return "ok", None


@observed("diff")
async def diff(
    session: Session, a: str | Mapping[str, str], b: str | Mapping[str, str] | None, *, label: str
) -> SnapshotDiff:
    """See :meth:`colony_memory.ColonyMemory.diff`."""
    before, after = await _documents(session, a, label), await _documents(session, b, label)
    return await session.vault.compute(compare, before, after)


async def _documents(session: Session, side: str | Mapping[str, str] | None, label: str) -> Mapping[str, str]:
    if side is None or isinstance(side, str):
        looking = copy.copy(session)
        looking.bases = {}  # a look is no restore: the memory is based on what it was before
        return (await restore(looking, label=label, snapshot_id=side)).documents
    if not isinstance(side, Mapping):
        raise ValueError(f"a and b must each be an id or documents, not {type(side).__name__}")  # noqa: TRY004
    check_documents(dict(side))
    return side


@observed("inspect")
async def inspect(session: Session) -> VaultMap:
    """See :meth:`colony_memory.ColonyMemory.inspect`."""
    quota = await session.vault.status()
    listing = await session.vault.list("")
    labels = read_labels(listing)
    total, free = _number(quota.get("quota_bytes")), quota.get("available_bytes")
    room = _room(session, quota)
    maps = tuple([await _map_label(session, label, files, free=room) for label, files in labels.items()])
    return VaultMap(
        labels=maps,
        files=len(listing.files),
        foreign_files=len(listing.files) - sum(len(files.files) for files in labels.values()),
        complete=listing.complete,
        quota_bytes=total,
        used_bytes=_number(quota.get("used_bytes")),
        available_bytes=free if total and isinstance(free, int) else None,
        operations_left=await session.vault.operations_left(),
        room_lasts_seconds=seconds_left(room, [each.daily_bytes for each in maps]),
    )


def _room(session: Session, quota: Mapping[str, Any]) -> int | None:
    """Free bytes, None where the vault does not tell, or there is no end to them."""
    free = quota.get("available_bytes")
    return free if _number(quota.get("quota_bytes")) and isinstance(free, int) and not session.vault.unlimited else None


async def _map_label(session: Session, label: str, there: LabelFiles, *, free: int | None) -> LabelMap:
    try:
        state = await look(session, label, everything=True, files=there)
    except VaultError as error:
        if error.code not in UNREADABLE:
            raise
        return LabelMap(label, 0, None, None, 0, 0, None, dangling=True, broken={latest_filename(label): error.message})
    decision, files = state.decision, state.listed
    whole = decision.listed
    newest: SnapshotInfo | None = whole[0] if whole else None
    named = decision.written or None
    broken = dict(decision.broken)
    if decision.doubt is not None and not broken:
        broken[manifest_filename(label, named or "")] = message_of(decision.doubt)
    counted = [entry for entry in decision.entries if entry.snapshot_id in decision.counted]
    ahead = look_ahead(counted, pointer_bytes=len(state.text or ""), free=free)
    return LabelMap(
        label=label,
        snapshots=len(whole),
        oldest=whole[-1] if whole else None,
        newest=newest,
        plain_bytes=sum(info.byte_size for info in whole),
        stored_bytes=sum(info.stored_bytes for info in whole),
        latest=named,
        dangling=decision.written is None or (named is not None and named not in files.manifests),
        broken=broken,
        orphans=tuple(sorted(name for names in files.orphans.values() for name in names)),
        next_operations=(newest.part_count if newest else 1) + 2,
        next_bytes=ahead.next_bytes,
        next_at_most=ahead.at_most,
        fits=ahead.fits,
        daily_bytes=ahead.daily_bytes,
        untrusted=tuple(manifest_filename(label, each) for each in decision.untrusted),
        removed=await _gone_for_good(session, state),
    )


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
