"""verify: read every snapshot of a label in full, and say of each, and of the pointer, what holds and what does not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from colony_memory._engine.judge import set_back
from colony_memory._engine.load import not_found, room_for
from colony_memory._engine.observe import observed, spending
from colony_memory._engine.salvage import with_costs
from colony_memory._engine.state import State, look, read_pointer_file, require_listed
from colony_memory._engine.store import Shelf
from colony_memory._format.names import manifest_filename, require_id, require_label
from colony_memory._format.pointer import read_pointer
from colony_memory._format.v2.build import read_documents
from colony_memory.exceptions import (
    ColonyMemoryError,
    DecryptionError,
    SnapshotCorrupt,
    UnsupportedFormat,
    UntrustedSnapshot,
    message_of,
)
from colony_memory.reports import Fact, SnapshotCheck, VerifyReport
from colony_memory.trust import OPEN, previous_of

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from colony_memory._engine.judge import Decision
    from colony_memory._engine.session import Session
    from colony_memory.reports import LifecycleEvent
    from colony_memory.snapshot import Manifest


async def check_snapshot(
    session: Session,
    label: str,
    snapshot_id: str,
    *,
    state: State | None = None,
    manifests: dict[str, Manifest] | None = None,
    shelf: Shelf | None = None,
) -> SnapshotCheck | None:
    """Read every byte of one snapshot; None where it is not there."""
    file = manifest_filename(label, snapshot_id)
    stored = await session.vault.get(file)
    if stored is None:
        return None
    try:
        manifest = session.read_manifest(stored.content, label=label, snapshot_id=snapshot_id)
    except SnapshotCorrupt as error:
        return SnapshotCheck(snapshot_id, manifest="bad", problem=message_of(error))
    session.manifests[file] = manifest
    if manifests is not None:
        manifests[snapshot_id] = manifest
    signature, unproven = _check_signature(manifest)
    trust, distrusted = _check_trust(session, manifest, state)
    catalog, replaced = _check_row(manifest, state)
    shelf = shelf if manifest.packs else None
    content = await _check_content(session, manifest, shelf, unpacks=trust in ("ok", "unchecked"))
    if content.parts == "missing" and await session.vault.get(file) is None:
        return None  # it was deleted while it was read
    return SnapshotCheck(
        snapshot_id,
        "ok",
        content.parts,
        content.digest,
        signature,
        manifest.info.issuer,
        distrusted or unproven or replaced or content.problem,
        trust=trust,
        catalog=catalog,
        previous=manifest.info.parent_id,
        closed=content.closed,
    )


def _check_signature(manifest: Manifest) -> tuple[Fact, str | None]:
    """The signature as a fact, whoever made it."""
    if not manifest.info.signed:
        return "missing", None
    try:
        OPEN.judge(manifest.raw)
    except UntrustedSnapshot as error:
        return "bad", message_of(error)
    except ColonyMemoryError as error:
        return "unchecked", message_of(error)
    return "ok", None


def _check_trust(session: Session, manifest: Manifest, state: State | None) -> tuple[Fact, str | None]:
    """Trust as a fact, where this client pins issuers."""
    if not session.trust.pins:
        return "unchecked", None
    try:
        session.trust.judge(manifest.raw)
    except UntrustedSnapshot as error:
        if state is not None and manifest.info.snapshot_id in state.decision.unsigned:
            return "missing", "older than signing: it is not signed, and so not trusted"
        return "bad", message_of(error)
    strange = state.decision.untrusted.get(manifest.info.snapshot_id) if state else None
    return ("ok", None) if strange is None else ("bad", message_of(strange))


def _check_row(manifest: Manifest, state: State | None) -> tuple[Fact, str | None]:
    """The pointer's row for this manifest as a fact."""
    pointer, snapshot_id = state.decision.pointer if state else None, manifest.info.snapshot_id
    if pointer is None or pointer.entries is None:
        return "unchecked", None
    entry = pointer.entry(snapshot_id)
    if entry is None:
        return "missing", None
    if entry.manifest_sha256 == manifest.sha256:
        return "ok", None
    return "bad", f"the manifest of snapshot {snapshot_id} is not the one that the pointer lists"


class _Content(NamedTuple):
    """Facts about a snapshot's files: that they are whole, and that they are the memory which was saved."""

    parts: Fact
    digest: Fact
    problem: str | None = None
    closed: str | None = None


async def _check_content(session: Session, manifest: Manifest, shelf: Shelf | None, *, unpacks: bool) -> _Content:
    try:
        at_most = room_for(manifest, session.max_bytes)
        found = (await session.vault.get_many(manifest.part_files, at_most=at_most, shelf=shelf)).items()
    except SnapshotCorrupt as error:
        return _Content("bad" if error.file in manifest.part_files else "unchecked", "unchecked", message_of(error))
    texts = {name: file.content if file else None for name, file in found}
    del found  # so that a part's text is freed once it is read
    parts: Fact = "missing" if None in texts.values() else "ok"
    if not unpacks:
        # Anyone may have made it: what it costs to unpack is not spent on it, nor a passphrase tried.
        return _Content("missing" if parts == "missing" else "unchecked", "unchecked")
    file = manifest_filename(manifest.info.label, manifest.info.snapshot_id)
    try:
        spend = spending(session, file)
    except ColonyMemoryError as error:
        return _Content("unchecked" if parts == "ok" else parts, "unchecked", message_of(error))
    try:
        await session.vault.compute(
            read_documents, manifest, texts, max_bytes=session.max_bytes, identities=session.identities, spend=spend
        )
    except DecryptionError as error:
        return _Content(parts, "unchecked", closed=message_of(error))
    except UnsupportedFormat as error:  # nothing was looked into, which is not to have found damage
        return _Content("unchecked" if parts == "ok" else parts, "unchecked", message_of(error))
    except SnapshotCorrupt as error:
        if parts == "ok" and error.file in manifest.part_files:
            return _Content("bad", "unchecked", message_of(error))
        too_large = manifest.info.byte_size > session.max_bytes
        return _Content(parts, "unchecked" if parts != "ok" or too_large else "bad", message_of(error))
    return _Content(parts, "ok")


# Another client may be at work between the reads.
_TRIES = 3


def _outcome(report: VerifyReport, event: LifecycleEvent, _: object) -> LifecycleEvent:
    return replace(event, action="verified", label=report.label, count=len(report.snapshots), ok=bool(report))


@observed("verify", _outcome)
async def verify(session: Session, *, label: str, snapshot_id: str | None) -> VerifyReport:
    """See :meth:`colony_memory.ColonyMemory.verify`."""
    label = require_label(label)
    if snapshot_id is not None:
        own: dict[str, Manifest] = {}
        check = await check_snapshot(session, label, require_id(snapshot_id), manifests=own)
        if check is None:
            raise not_found(label, snapshot_id)
        checks: tuple[SnapshotCheck, ...] = (check,)
        if not check:
            checks = await with_costs(session, await look(session, label, everything=True), checks, own)
        return VerifyReport(label, checks, forged=_forged(checks))
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
    manifests: dict[str, Manifest] = {}  # what the client remembers, others of its verbs may forget meanwhile
    shelf = Shelf(session.max_bytes // 2)
    found = [
        await check_snapshot(session, label, each, state=state, manifests=manifests, shelf=shelf)
        for each in files.manifests
    ]
    there = [check for check in found if check is not None]
    checks = _link(manifests, await with_costs(session, state, there, manifests))
    pointer, removed = _pointer_fact(session, state), await _removed(session, state, checks)
    return VerifyReport(
        label,
        checks,
        decision.written or None,
        _pointer_problem(session, state, manifests, checks, pointer=pointer, removed=removed),
        pointer=pointer,
        rollback="bad" if decision.rollback else "ok" if decision.compared else "unchecked",
        generation=decision.pointer.generation,
        removed=removed,
        forged=_forged(checks),
        gaps=tuple(check.snapshot_id for check in checks[:-1] if check.chain == "missing"),
    )


def _pointer_fact(session: Session, state: State) -> Fact:
    """The pointer's signature as a fact, where this client pins issuers."""
    decision = state.decision
    if not session.trust.pins or state.text is None:
        return "unchecked"
    if decision.proven:
        return "ok"
    return "bad" if decision.signed or decision.written is None else "missing"


def _pointer_problem(
    session: Session,
    state: State,
    manifests: Mapping[str, Manifest],
    checks: tuple[SnapshotCheck, ...],
    *,
    pointer: Fact,
    removed: tuple[str, ...],
) -> str | None:
    """The first of what is wrong with the pointer, None where nothing is."""
    decision = state.decision
    saved = bool(checks) or state.text is not None
    accepted = pointer == "missing" and session.trust.accept_legacy_pointer
    trusted = [each for each in checks if each.manifest == "ok" and each.trust in ("ok", "unchecked")]
    intact = [manifests[each.snapshot_id] for each in trusted]
    return (
        (decision.problem if saved and not accepted else None)
        or (message_of(decision.rollback) if decision.rollback else None)
        or (older_pointer(state, intact) if saved and not decision.proven else None)
        or _catalogue_problem(state)
        or (f"snapshot {removed[0]} is listed by the pointer, and is not there" if removed else None)
    )


async def _removed(session: Session, state: State, checks: Iterable[SnapshotCheck]) -> tuple[str, ...]:
    """Ids that the pointer lists, not there and not taken out by another client while the snapshots were read."""
    there = {check.snapshot_id for check in checks}
    removed = listed_and_gone(session, state.decision, there)
    now = (await look(session, state.label)).decision if removed else state.decision
    if now.doubt is not None or (state.decision.proven and not now.proven):
        return removed
    still = listed_and_gone(session, now, there)
    return tuple(each for each in removed if each in still)


def listed_and_gone(session: Session, decision: Decision, there: Container[str]) -> tuple[str, ...]:
    """Ids that the pointer lists and that are not there."""
    # Where writers that do not sign cannot write on condition, one may bring back a row that another took out.
    rows = decision.pointer.entries if decision.proven or session.vault.conditional else ()
    return tuple(entry.snapshot_id for entry in rows or () if entry.snapshot_id not in there)


def older_pointer(state: State, manifests: Iterable[Manifest]) -> str | None:
    """The objection of newer snapshots to an unproven pointer, None where there is none."""
    try:
        error = set_back(read_pointer(state.text or "", label=state.label), manifests)
    except SnapshotCorrupt as damage:
        return message_of(damage)
    return None if error is None else message_of(error)


def _catalogue_problem(state: State) -> str | None:
    """The problem with the catalogue in a pointer that can be read: other verbs read manifests in its place."""
    try:
        if state.text is not None:
            read_pointer(state.text, label=state.label, strict=True, files=state.pages)
    except SnapshotCorrupt as error:
        return message_of(error)
    return None


def _forged(checks: Iterable[SnapshotCheck]) -> tuple[str, ...]:
    return tuple(
        check.snapshot_id for check in checks if "bad" in (check.trust, check.catalog) or check.signature == "bad"
    )


def _link(manifests: Mapping[str, Manifest], checks: tuple[SnapshotCheck, ...]) -> tuple[SnapshotCheck, ...]:
    """Follow ``previous`` from each snapshot to the one before it."""
    by_id = {check.snapshot_id: check for check in checks}
    out = []
    for check in checks:
        before = previous_of(manifests[check.snapshot_id].raw) if check.manifest == "ok" else None
        if before is None:
            out.append(check)
            continue
        previous, digest = before
        there = by_id.get(previous)
        fact: Fact = "missing"
        problem = check.problem
        if there is not None:
            same = there.manifest == "ok" and digest == manifests[previous].sha256
            fact = "ok" if same else "bad"
            if not same:
                problem = problem or f"the snapshot before it, {previous}, was replaced: its writer saw another"
        out.append(replace(check, chain=fact, previous=previous, problem=problem))
    return tuple(out)
