"""verify, inspect, status: the integrity of a vault, its contents, and how much more fits into it."""

from __future__ import annotations

from datetime import timedelta
from statistics import median_high
from typing import TYPE_CHECKING, Any

from colony_memory._engine.files import free_bytes
from colony_memory._engine.judge import set_back
from colony_memory._engine.keep import shrunk_in
from colony_memory._engine.label import LabelFiles, read_labels
from colony_memory._engine.load import not_found, room_for
from colony_memory._engine.observe import observed, spending
from colony_memory._engine.salvage import with_costs
from colony_memory._engine.state import State, list_label, look, read_pointer_file, require_listed
from colony_memory._engine.store import Shelf, Unreadable
from colony_memory._format import FORMAT_2
from colony_memory._format.names import latest_filename, manifest_filename, require_id, require_label
from colony_memory._format.pointer import read_pointer
from colony_memory._format.v2.build import read_documents
from colony_memory._format.v2.chain import MAX_ON_BASE
from colony_memory._values import replace
from colony_memory.exceptions import ColonyMemoryError, DecryptionError, SnapshotCorrupt, UntrustedSnapshot, message_of
from colony_memory.reports import Fact, LabelMap, LifecycleEvent, SnapshotCheck, VaultMap, VerifyReport
from colony_memory.snapshot import Manifest
from colony_memory.trust import OPEN, lacks_signature, previous_of

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from colony_memory._engine.session import Session
    from colony_memory._format.catalog import Entry

# Attempts at a consistent view: another client may be at work between the reads.
_TRIES = 3
# Recent snapshots by which the size of the next one is estimated. Averages take as many as stand on one base: few of
# these are large, those that fold what came before.
_RECENT = 10
# The size of the rest of a pointer, in rows.
_ROWS = 8


async def check_snapshot(
    session: Session,
    label: str,
    snapshot_id: str,
    manifests: dict[str, Manifest],
    *,
    state: State | None = None,
    shelf: Shelf | None = None,
) -> SnapshotCheck | None:
    """Read every byte of one snapshot; None where it is not there. Its manifest is put into ``manifests``."""
    file = manifest_filename(label, snapshot_id)
    stored = await session.vault.get(file)
    if stored is None:
        return None
    try:
        manifest = session.read_manifest(stored.content, label=label, snapshot_id=snapshot_id)
    except SnapshotCorrupt as error:
        fact: Fact = "bad" if type(error) is SnapshotCorrupt else "unchecked"  # of a newer format, perhaps
        return SnapshotCheck(snapshot_id, fact, problem=message_of(error))
    session.manifests[file] = manifests[snapshot_id] = manifest
    check = _check_origin(session, manifest, state)
    check = await _check_content(session, manifest, shelf if manifest.packs else None, check)
    if check.parts == "missing" and await session.vault.get(file) is None:
        return None  # it was deleted while it was read
    return check


def _check_origin(session: Session, manifest: Manifest, state: State | None) -> SnapshotCheck:
    """The checks of a manifest's signature, of this client's trust in it, and of its row in the pointer."""
    info, problem = manifest.info, None
    signature: Fact = "ok" if info.signed else "missing"
    trust: Fact = "ok" if session.trust.pins else "unchecked"
    catalog: Fact = "unchecked"
    try:
        OPEN.judge(manifest.raw)
    except ColonyMemoryError as error:
        signature, problem = "bad" if isinstance(error, UntrustedSnapshot) else "unchecked", message_of(error)
    try:
        session.trust.judge(manifest.raw, verify=session.trust.pins)
        distrust = state.untrusted.get(info.snapshot_id) if state and session.trust.pins else None
        if distrust is not None:
            raise distrust
    except UntrustedSnapshot as error:
        predates = state is not None and info.snapshot_id in state.unsigned
        trust, problem = "missing" if predates else "bad", message_of(error)
        problem = "older than signing: it is not signed, and so not trusted" if predates else problem
    if state is not None and state.pointer.entries is not None:
        row = state.pointer.entry(info.snapshot_id)
        catalog = "missing" if row is None else "ok" if row.manifest_sha256 == manifest.sha256 else "bad"
        if catalog == "bad":
            problem = problem or f"the manifest of snapshot {info.snapshot_id} is not the one that the pointer lists"
    check = SnapshotCheck(info.snapshot_id, "ok", issuer=info.issuer, problem=problem, previous=info.parent_id)
    return replace(check, signature=signature, trust=trust, catalog=catalog)


async def _check_content(
    session: Session, manifest: Manifest, shelf: Shelf | None, check: SnapshotCheck
) -> SnapshotCheck:
    """The ``check`` with its facts on the files: that they are complete, and hold the memory that was saved."""

    def result(parts: Fact, digest: Fact, error: Exception | None = None) -> SnapshotCheck:
        problem = check.problem or (None if error is None else message_of(error))
        return replace(check, parts=parts, digest=digest, problem=problem)

    try:
        at_most = room_for(manifest, session.max_bytes)
        files = (await session.vault.get_many(manifest.part_files, at_most=at_most, shelf=shelf)).items()
    except SnapshotCorrupt as error:
        return result("bad" if error.file in manifest.part_files else "unchecked", "unchecked", error)
    texts = {name: file.content if file else None for name, file in files}
    del files  # so that a part's text is freed once it is read
    parts: Fact = "missing" if None in texts.values() else "ok"
    unseen: Fact = "missing" if parts == "missing" else "unchecked"
    if check.trust not in ("ok", "unchecked"):
        # Anyone may have made it: no work is spent on unpacking it, and no passphrase is tried.
        return result(unseen, "unchecked")
    try:
        spend = spending(session, manifest_filename(manifest.info.label, manifest.info.snapshot_id))
        how: dict[str, Any] = {"max_bytes": session.max_bytes, "identities": session.identities, "spend": spend}
        await session.vault.compute(read_documents, manifest, texts, keep=False, **how)
    except DecryptionError as error:
        return replace(result(parts, "unchecked"), closed=message_of(error))
    except ColonyMemoryError as error:
        if type(error) is not SnapshotCorrupt:  # of a newer format, perhaps
            return result(unseen, "unchecked", error)  # nothing was read, so no damage was found
        if parts == "ok" and error.file in manifest.part_files:
            return result("bad", "unchecked", error)
        too_large = manifest.info.byte_size > session.max_bytes
        return result(parts, "unchecked" if parts != "ok" or too_large else "bad", error)
    return result(parts, "ok")


def _outcome(report: VerifyReport, event: LifecycleEvent, _: object) -> LifecycleEvent:
    return replace(event, action="verified", label=report.label, count=len(report.snapshots), ok=bool(report))


@observed("verify", _outcome)
async def verify(session: Session, *, label: str, snapshot_id: str | None) -> VerifyReport:
    label = require_label(label)
    if snapshot_id is not None:
        manifests: dict[str, Manifest] = {}
        check = await check_snapshot(session, label, require_id(snapshot_id), manifests)
        if check is None:
            raise not_found(label, snapshot_id)
        if not check:
            (check,) = await with_costs(session, await look(session, label, everything=True), (check,), manifests)
        return VerifyReport(label, (check,), forged=_forged((check,)))
    for _ in range(_TRIES):
        state = await look(session, label, everything=True)
        report = await _verify_label(session, state)
        # If another client was at work, the pointer and the files were read at different moments.
        if report or (await read_pointer_file(session, label))[0] == state.text:
            break
    return report


async def _verify_label(session: Session, state: State) -> VerifyReport:
    label, files = state.label, require_listed(state, "verifying every snapshot")
    manifests: dict[str, Manifest] = {}  # kept here, since other verbs may clear what the client remembers
    shelf = Shelf(session.max_bytes // 2)
    results = [
        await check_snapshot(session, label, id_, manifests, state=state, shelf=shelf) for id_ in files.manifests
    ]
    present = [check for check in results if check is not None]
    checks = _link(manifests, await with_costs(session, state, present, manifests))
    removed = await _removed(session, state, (check.snapshot_id for check in checks))
    pointer: Fact = "unchecked"
    if session.trust.pins and state.text is not None:
        pointer = "ok" if state.proven else "bad" if state.signed or state.written is None else "missing"
    saved = bool(checks) or state.text is not None
    accepted = pointer == "missing" and session.trust.accept_legacy_pointer
    sound = [check for check in checks if check.manifest == "ok" and check.trust in ("ok", "unchecked")]
    problem = (
        (state.problem if saved and not accepted else None)
        or (message_of(state.rollback) if state.rollback else None)
        or (_pointer_problem(state, [manifests[check.snapshot_id] for check in sound], strict=True) if saved else None)
        or (f"snapshot {removed[0]} is listed by the pointer, and is not there" if removed else None)
    )
    return VerifyReport(
        label,
        checks,
        state.written or None,
        problem,
        pointer=pointer,
        rollback="bad" if state.rollback else "ok" if state.compared else "unchecked",
        generation=state.pointer.generation,
        removed=removed,
        forged=_forged(checks),
        gaps=tuple(check.snapshot_id for check in checks[:-1] if check.chain == "missing"),
    )


async def _removed(session: Session, state: State, present: Iterable[str]) -> tuple[str, ...]:
    """Ids that the pointer lists and that are not there, unless another client saved or removed them meanwhile."""
    present = {*present}
    gone = _listed_and_gone(session, state, present) if state.listed.complete else ()
    if not gone:
        return ()
    again = await look(session, state.label, everything=True)
    if again.doubt is not None or (state.proven and not again.proven):
        return gone
    still = _listed_and_gone(session, again, {*again.listed.manifests} - ({*state.listed.manifests} - present))
    return tuple(snapshot_id for snapshot_id in gone if snapshot_id in still and again.listed.complete)


def _listed_and_gone(session: Session, state: State, present: Container[str]) -> tuple[str, ...]:
    # Without signatures and conditional writes, one writer may bring back a row that another took out.
    rows = state.pointer.entries if state.proven or session.vault.conditional else ()
    return tuple(entry.snapshot_id for entry in rows or () if entry.snapshot_id not in present)


def _pointer_problem(state: State, manifests: Iterable[Manifest], *, strict: bool) -> str | None:
    """The objection of newer snapshots to an unproven pointer; with ``strict``, also damage that others pass over."""
    try:
        strict &= state.text is not None
        pointer = read_pointer(state.text or "", label=state.label, strict=strict, files=state.pages)
        # What it lists was there before it, unless it is forged.
        others = [found for found in manifests if state.asked.pins or found.info.snapshot_id not in pointer.rows]
        error: Exception | None = None if state.proven else set_back(pointer, others)
    except SnapshotCorrupt as damage:
        error = damage
    return None if error is None else message_of(error)


def _forged(checks: Iterable[SnapshotCheck]) -> tuple[str, ...]:
    return tuple(check.snapshot_id for check in checks if "bad" in (check.trust, check.catalog, check.signature))


def _link(manifests: Mapping[str, Manifest], checks: Sequence[SnapshotCheck]) -> tuple[SnapshotCheck, ...]:
    by_id, out = {check.snapshot_id: check for check in checks}, list[SnapshotCheck]()
    for check in checks:
        before = previous_of(manifests[check.snapshot_id].raw) if check.manifest == "ok" else None
        if before is None:
            out.append(check)
            continue
        previous, digest = before
        older, fact, problem = by_id.get(previous), "missing", check.problem
        if older is not None:
            fact = "ok" if older.manifest == "ok" and digest == manifests[previous].sha256 else "bad"
        if fact == "bad":
            problem = problem or f"the snapshot before it, {previous}, was replaced: its writer saw another"
        out.append(replace(check, chain=fact, previous=previous, problem=problem))  # type: ignore[arg-type]
    return tuple(out)


def _look_ahead(entries: Sequence[Entry], *, pointer_bytes: int, free: int | None) -> dict[str, Any]:
    """Estimates by recent backups: the bytes that the next one stores, and how many more fit."""
    if not entries or not entries[0].info.stored_bytes:
        return {}  # there is no snapshot, or the vault tells no sizes
    newest = entries[0].info
    costs, share = [newest.stored_bytes], 0.0
    if newest.format == FORMAT_2:
        chains = [entry for entry in entries if entry.info.format == FORMAT_2]
        patches = [entry.info.stored_bytes for entry in chains[:MAX_ON_BASE] if len(entry.packs) > 1]
        if not patches and len(chains) == 1:
            # A patch on a base takes no more than the base.
            return {"next_bytes": newest.stored_bytes, "next_at_most": True}
        base = next((entry.info.stored_bytes for entry in chains if len(entry.packs) == 1), 0)
        costs, share = patches or costs, base / MAX_ON_BASE if patches else 0.0
    cost = sum(costs) / len(costs) + share + pointer_bytes / max(_ROWS, len(entries))
    fits = None if free is None or not cost else max(0, int(free // cost))
    return {"next_bytes": median_high(costs[:_RECENT]), "fits": fits}


@observed("inspect")
async def inspect(session: Session) -> VaultMap:
    quota = await session.vault.status()
    listing = await session.vault.list("")
    labels = read_labels(listing, await session.labels_seen())
    total, available = _number(quota.get("quota_bytes")), quota.get("available_bytes")
    free = await free_bytes(session, quota)
    maps = tuple([await _map_label(session, label, files, free=free) for label, files in labels.items()])
    left, spent = await session.vault.number("operations_left"), None
    if left is None and session.vault.counts_operations:  # the vault tells it only in its reply to an operation
        since = (listing.clock or session.now()) - timedelta(hours=1)
        spent = sum(1 for file in listing.files.values() if file.updated is not None and file.updated > since)
    return VaultMap(
        labels=maps,
        files=len(listing.files),
        foreign_files=len(listing.files) - sum(len(files.files) for files in labels.values()),
        complete=listing.complete,
        quota_bytes=total,
        used_bytes=_number(quota.get("used_bytes")),
        available_bytes=available if total and isinstance(available, int) and not session.vault.unlimited else None,
        operations_left=left,
        operations_spent=spent,
        operations_reset_seconds=await session.vault.number("operations_reset"),
    )


@observed("status")
async def status(session: Session, *, label: str | None = None) -> dict[str, Any]:
    quota = await session.vault.status()
    if label is None:
        return quota
    label = require_label(label)
    found = await _map_label(session, label, await list_label(session, label), free=await free_bytes(session, quota))
    return {
        **quota,
        "label": label,
        "restore_points": found.snapshots,
        "newest": found.newest and found.newest.snapshot_id,
        "encrypted": found.newest and found.newest.encrypted,
        "before_loss": found.shrunk and found.shrunk.snapshot_id,
        "unmerged": [info.snapshot_id for info in found.unmerged],
        "unsigned": list(found.unsigned),
        "next_bytes": found.next_bytes,
        "next_at_most": found.next_at_most,
        "fits": found.fits,
    }


async def _map_label(session: Session, label: str, listed: LabelFiles, *, free: int | None) -> LabelMap:
    try:
        state = await look(session, label, everything=True, files=listed)
    except Unreadable as error:
        return LabelMap(label, 0, None, None, 0, 0, None, dangling=True, broken={latest_filename(label): error.message})
    files, summaries = state.listed, state.summaries
    best = state.newest
    newest = None if best is None else next(info for info in summaries if info.snapshot_id == best.snapshot_id)
    named = state.written or None
    unsigned = {manifest_filename(label, snapshot_id) for snapshot_id in state.unsigned}
    broken = {file: why for file, why in state.broken.items() if file not in unsigned}
    if state.doubt is not None and not broken and not lacks_signature(state.doubt):
        broken[manifest_filename(label, named or "")] = message_of(state.doubt)
    if isinstance(state.refusal, SnapshotCorrupt) and newest is None and not broken:
        broken[latest_filename(label)] = message_of(state.refusal)
    manifests = [manifest for manifest in state.manifests.values() if isinstance(manifest, Manifest)]
    older = _pointer_problem(state, manifests, strict=False) if state.written else None
    if older is not None:
        # A restore gives the snapshot that the pointer names, and not the newest.
        broken[latest_filename(label)] = f"{older}. If a copy or an import did not finish, do that again instead"
    kept = shrunk_in(session, state)
    corrupt = {key: why for key, why in state.manifests.items() if isinstance(why, SnapshotCorrupt)}
    newer = [key for key, why in corrupt.items() if type(why) is not SnapshotCorrupt]  # of a newer format, perhaps
    doubtful = [key for key in (*state.untrusted, *newer) if key not in state.unsigned]
    counted = [entry for entry in state.entries if entry.snapshot_id in state.counted]
    return LabelMap(
        label=label,
        snapshots=len(summaries),
        oldest=summaries[-1] if summaries else None,
        newest=newest,
        plain_bytes=sum(info.byte_size for info in summaries),
        stored_bytes=sum(info.stored_bytes for info in summaries),
        latest=named,
        dangling=state.written is None or (named is not None and named not in files.manifests),
        broken=broken,
        orphans=tuple(sorted(name for names in files.orphans.values() for name in names)),
        next_operations=(newest.part_count if newest else 1) + 2,
        untrusted=tuple(manifest_filename(label, snapshot_id) for snapshot_id in doubtful),
        removed=await _removed(session, state, files.manifests),
        unsigned=state.unsigned,
        shrunk=next((entry.info for entry in state.entries if entry.snapshot_id in kept), None),
        not_signed=tuple(manifest_filename(label, key) for key, why in state.untrusted.items() if lacks_signature(why)),
        rolled_back=state.rollback is not None,
        unmerged=tuple(row.info for save in state.unmerged if (row := state.entry(save.snapshot_id)) is not None),
        **_look_ahead(counted, pointer_bytes=len(state.text or ""), free=free),
    )


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
