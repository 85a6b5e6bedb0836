"""Two writers: what to do where another client has saved since the memory was read or saved here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colony_memory._engine.basis import is_conflict, settled
from colony_memory._engine.load import load
from colony_memory._engine.session import warn
from colony_memory._engine.state import list_files
from colony_memory._format.names import id_order
from colony_memory.exceptions import (
    ConflictDetected,
    DecryptionError,
    Hint,
    SnapshotCorrupt,
    SnapshotNotFound,
    UntrustedSnapshot,
    message_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from colony_memory._engine.backup.job import Job
    from colony_memory._engine.state import State


async def compare(job: Job, state: State) -> State:
    """Compare what the memory is based on with the latest there is, before anything is written.

    Where it is based on nothing, whatever is there is what it goes on from.

    Raises:
        ConflictDetected: Another client has saved, and this memory is stored already.
    """
    home = job.session.home(job.label)
    job.basis = basis = settled(home.read(), state.decision.follow, listed=state.shown)
    if basis and state.decision.follow not in basis.own:
        # A pointer may name what is not there, which is nobody's memory.
        state = await list_files(job.session, state)
    job.latest = latest = state.decision.follow
    if not state.decision.doubt and is_conflict(basis, latest, listed=state.lists(basis.snapshot_id)):
        await note_theirs(job, state, str(latest))
    return state


async def note_theirs(job: Job, state: State, theirs: str) -> None:
    """Another client has saved. Equal memory is no conflict; else it is merged, or told in the end."""
    entry = state.decision.entry(theirs)
    if await job.is_equal(entry):
        return
    job.theirs = theirs
    if job.on_conflict == "raise":
        await _tell_at_once(job, state)
    if job.on_conflict == "merge":
        await _merge(job, theirs)


async def _tell_at_once(job: Job, state: State) -> None:
    """Raise where this very memory is stored already: told once more, it need not be written once more."""
    known = {*job.basis.own, *job.basis.refused}
    for info in state.decision.listed:
        entry = state.decision.entry(info.snapshot_id) if info.snapshot_id in known else None
        if entry is not None and await job.holds(entry):
            raise conflict(job, info.snapshot_id)


def conflict(job: Job, mine: str) -> ConflictDetected:
    """The error that names both snapshots."""
    msg = (
        f"another client saved snapshot {job.theirs} of label {job.label!r}, which this memory is not based on: yours "
        f"is stored and listed as {mine}, and the latest is theirs"
    )
    hint = Hint("backup", "on_conflict", "merge", label=job.label)
    return ConflictDetected(msg, theirs=job.theirs, snapshot_id=mine, hint=hint)


async def _merge(job: Job, theirs: str) -> None:
    from colony_memory._engine.merge import merge

    try:
        other = (await load(job.session, job.label, theirs)).documents
    except (SnapshotCorrupt, UntrustedSnapshot, SnapshotNotFound) as error:
        warn(f"snapshot {theirs} of label {job.label!r} could not be merged, and is passed over: {message_of(error)}")
        return
    except DecryptionError as error:
        # Theirs may hold what is nowhere else: it stays the latest, and ours is stored beside it.
        warn(f"snapshot {theirs} of label {job.label!r} is not merged, and stays the latest: {message_of(error)}")
        job.on_conflict = "raise"
        return
    before = await _common(job)
    joined = await job.session.vault.compute(merge, before, job.given, other, theirs_name=theirs)
    job.documents, job.merged = joined.documents, tuple(joined.beside.values())
    job.combined = job.documents != job.given


async def _common(job: Job) -> Mapping[str, str] | None:
    """The text that both sides started from, None where it is not there any more."""
    if not job.basis or job.basis.not_held:
        return None
    for own in sorted({*job.basis.own, *job.basis.refused}, key=id_order, reverse=True):
        try:
            return (await load(job.session, job.label, own)).documents
        except (SnapshotCorrupt, UntrustedSnapshot, SnapshotNotFound, DecryptionError):
            continue
    return None


async def race(job: Job, now: State, theirs: str) -> None:
    """Another client has saved between the look and the write."""
    entry = now.decision.entry(theirs)
    if not await job.is_equal(entry):
        job.theirs = theirs
