"""Two writers: what a save goes on from, and what to do where another client has saved what this memory never held."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colony_memory._engine.basis import MemoryHome, is_conflict, settled, stood_for, with_merged
from colony_memory._engine.load import load, restores
from colony_memory._engine.observe import observed
from colony_memory._engine.sealed import known_info, unsealed_info
from colony_memory._engine.session import warn
from colony_memory._engine.state import list_files, look
from colony_memory._format.json import exact_documents
from colony_memory._format.lineage import merge_base, stand_ins
from colony_memory._format.names import require_id, require_label
from colony_memory._format.record import lacks_text
from colony_memory.exceptions import (
    ConflictDetected,
    DecryptionError,
    Hint,
    SnapshotCorrupt,
    SnapshotNotFound,
    UntrustedSnapshot,
    message_of,
)
from colony_memory.snapshot import digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from colony_memory._engine.backup.job import Job
    from colony_memory._engine.session import Session
    from colony_memory._engine.state import State
    from colony_memory.reports import Merged
    from colony_memory.snapshot import SnapshotInfo

_UNREADABLE = (SnapshotCorrupt, UntrustedSnapshot, SnapshotNotFound, DecryptionError)


async def compare(job: Job, state: State) -> State:
    """Compare what the memory is based on with the latest there is, before anything is written."""
    known, decision = job.session.home(job.label).read(), state.decision
    basis = settled(known, decision.follow, stream=decision.stream, listed=state.shown)
    if basis and decision.follow not in basis.own:
        # Every page of the catalogue is opened for that, so not where the latest is the own one.
        newest = decision.entry(decision.follow)
        basis = stood_for(basis, stand_ins([*state.infos, *([newest.info] if newest is not None else [])]))
    if basis and decision.follow not in basis.own:
        # A pointer may name what is not there, which is nobody's memory.
        state = await list_files(job.session, state)
    job.begin(basis, state.decision.follow)
    latest = state.decision.follow
    if latest is None or state.decision.doubt:
        return state
    if await job.is_equal(state.decision.entry(latest)):
        job.known.add(latest)  # equal memory is no conflict
    elif job.without_basis:
        await _go_on_without_basis(job, state, latest)
    elif is_conflict(basis, latest, listed=state.lists(basis.snapshot_id)):
        job.theirs = latest
    elif latest not in basis.own and any(one.snapshot_id == latest for one in state.unmerged):
        # The newest was deleted, and what it did not go on from is the latest again.
        await _tell_lacking(job, latest)
    return state


async def race(job: Job, now: State, theirs: str) -> None:
    if await job.is_equal(now.decision.entry(theirs)):
        job.known.add(theirs)
    else:
        job.theirs = theirs


async def _go_on_without_basis(job: Job, state: State, latest: str) -> None:
    """Where nothing is known of what the memory held, the save becomes the latest.

    By value, all that is of this host is one writer's. What another has saved is read once: where the save has every
    line of it, it counts as based on it, else that is told.
    """
    by_value = isinstance(job.session.home(job.label), MemoryHome)
    origin, entry = job.session.origin(job.label), state.decision.entry(latest)
    if by_value:
        job.known |= set(_of_origin(state, origin))
        if entry is not None and entry.info.origin == origin:
            if job.on_conflict == "merge":
                await _find_refused(job, state, latest)
            return
    await _tell_lacking(job, latest)
    if job.passed_over is not None and job.on_conflict == "merge":
        job.theirs, job.passed_over = latest, None


def _of_origin(state: State, origin: str | None) -> Iterable[str]:
    """The newest of one origin, and what of it is unmerged."""
    rows = state.decision.building if state.files is not None else state.decision.pointer.entries or ()
    newest = next((row.snapshot_id for row in rows if row.info.origin == origin and not row.info.refused), None)
    if newest is not None:
        yield newest
    for one in state.unmerged:
        entry = state.decision.entry(one.snapshot_id)
        if entry is not None and entry.info.origin == origin:
            yield one.snapshot_id


async def _find_refused(job: Job, state: State, latest: str) -> None:
    for one in state.unmerged:
        entry = state.decision.entry(one.snapshot_id)
        own = entry is not None and entry.info.origin == job.session.origin(job.label)
        if one.refused and own and await job.is_equal(entry):
            job.theirs, job.stored = latest, one.snapshot_id
            job.known.clear()


async def _tell_lacking(job: Job, latest: str) -> None:
    """Go on from the latest where the save has all its text, else say that it takes the place of it."""
    label = job.label
    try:
        lacking = lacks_text(job.whole(), (await load(job.session, label, latest)).documents)
        why, hint = "has text that this memory lacks", Hint("merge", "snapshot_id", latest, label=label)
    except _UNREADABLE as error:
        # There is nothing to merge with.
        lacking, why, hint = True, f"cannot be read here ({message_of(error)})", None
    if not lacking:
        job.known.add(latest)
        return
    job.passed_over = latest
    if job.on_conflict == "raise":  # else it was asked for, and what is returned tells
        warn(
            f"this memory is not based on snapshot {latest} of label {label!r}, which {why}: this save is now the "
            "latest, and that snapshot stays listed for 30 days",
            hint=hint,
        )


async def find_stored(job: Job, state: State) -> SnapshotInfo | None:
    """The snapshot that holds just this memory already, where another's is the latest: nothing is to be saved then."""
    basis = job.basis
    if job.theirs is None or basis.reverted:
        return None
    for own in basis.own - {job.theirs}:
        entry = state.decision.entry(own) if state.lists(own) else None
        if entry is not None and not entry.info.refused and await job.is_equal(entry):
            if not job.session.knows_good(job.label, own) and (await restores(job.session, job.label, own)) is not None:
                continue  # it is damaged, so that this memory is saved nowhere
            return known_info(job.session, entry)
    if job.on_conflict == "raise":
        stored = await _stored_refused(job, state)
        if stored is not None:
            raise conflict(job, stored)
    return None


async def _stored_refused(job: Job, state: State) -> str | None:
    for own in (*job.basis.refused, *job.basis.pending):
        entry = state.decision.entry(own) if state.lists(own) else None
        if entry is not None and await job.is_equal(entry):
            return own
    return None


def conflict(job: Job, mine: str) -> ConflictDetected:
    msg = (
        f"another client saved snapshot {job.theirs} of label {job.label!r}, which this memory is not based on: yours "
        f"is stored and listed as {mine}, and the latest is theirs"
    )
    hint = Hint("backup", "on_conflict", "merge", label=job.label)
    return ConflictDetected(msg, theirs=job.theirs, snapshot_id=mine, hint=hint)


async def merge_theirs(job: Job, state: State) -> tuple[Merged | None, bool]:
    """The memory and the latest as one, None where the latest cannot be read, which is told; and whether the
    latest is just that.
    """
    from colony_memory._engine.merge import merge

    theirs = str(job.theirs)
    try:
        other = (await load(job.session, job.label, theirs)).documents
    except DecryptionError as error:
        # Theirs may hold what is nowhere else: it stays the latest, and ours is stored without being it.
        warn(f"snapshot {theirs} of label {job.label!r} is not merged, and stays the latest: {message_of(error)}")
        job.on_conflict = "raise"
        return None, False
    except _UNREADABLE as error:
        warn(f"snapshot {theirs} of label {job.label!r} could not be merged, and is passed over: {message_of(error)}")
        job.on_conflict = "continue"
        return None, False
    job.stored = job.stored or await _stored_refused(job, state)
    own = {*job.basis.known, *filter(None, (job.stored,))}
    before = await _common(job.session, state, own, theirs)
    merged = await job.session.vault.compute(merge, before, job.whole(), other, theirs_name=theirs)
    return merged, merged.documents == other


async def _common(session: Session, state: State, own: Iterable[str], theirs: str) -> Mapping[str, str] | None:
    """The common ancestor of both sides, None where there is none, or it is not there any more."""
    instead = stand_ins(state.infos)
    over = merge_base(state.infos, state.unmerged, {instead.get(each, each) for each in own}, theirs)
    if over is None:
        return None
    try:
        return (await load(session, state.label, over)).documents
    except _UNREADABLE:
        return None


@observed("merge")
async def merge_snapshot(session: Session, documents: dict[str, str], *, label: str, snapshot_id: str) -> Merged:
    from colony_memory._engine.merge import merge

    label, snapshot_id = require_label(label), require_id(snapshot_id)
    documents = exact_documents(documents)
    async with session.writing(label) as home:
        other = (await load(session, label, snapshot_id)).documents
        state = await look(session, label, lenient=True, newer=False)
        if state.decision.pointer.entries is None:
            state = await look(session, label, everything=True, lenient=True)
        follow = state.decision.follow
        own = set(settled(home.read(), follow).known)
        latest = await unsealed_info(session, label, state.decision.entry(follow))
        if latest is not None and latest.plaintext_sha256 == await session.vault.compute(digest, documents):
            own.add(latest.snapshot_id)
        before = await _common(session, state, own, snapshot_id)
        merged: Merged = await session.vault.compute(merge, before, documents, other, theirs_name=snapshot_id)
        home.write(with_merged(home.read(), snapshot_id))
        return merged
