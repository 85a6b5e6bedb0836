"""A backup's writing: the snapshot is built, its files are uploaded and proven to stay, and the pointer follows.

How a snapshot's files come: parts before the manifest, and the proof that all of them are still there after it.

Wherever that stops, what is listed restores.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from colony_memory._engine.backup.conflict import race
from colony_memory._engine.backup.rotate import (
    doc_bytes,
    find_lost,
    make_room,
    plan_retention,
    retire,
    rows_with,
    ruined_in,
    tell_ruined,
)
from colony_memory._engine.files import discard, prove, read_back, require_sizes, still_there, took_long, upload
from colony_memory._engine.load import keep_parent, parent_of
from colony_memory._engine.publish import Move, Published, may_move, publish
from colony_memory._engine.sealed import known_of, lock_for, remember
from colony_memory._engine.session import log
from colony_memory._engine.store import Unanswered, to_public
from colony_memory._format.catalog import Entry
from colony_memory._format.constants import FORMAT, FORMAT_2
from colony_memory._format.names import new_id
from colony_memory._format.v2.build import build as build_chain
from colony_memory.exceptions import (
    BackupUncertain,
    ColonyMemoryError,
    ConflictDetected,
    Hint,
    QuotaExceeded,
    VaultError,
    message_of,
)
from colony_memory.snapshot import BuiltSnapshot, SnapshotInfo
from colony_memory.snapshot import build as build_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from colony_memory._engine.backup.job import Job
    from colony_memory._engine.load import Parent
    from colony_memory._engine.state import State


async def save_snapshot(job: Job, state: State) -> SnapshotInfo | None:
    """Write the snapshot and publish it; None where it has to be made anew."""
    session, label = job.session, job.label
    stream = state.decision.stream or session.stream(label)
    parent = None if job.as_base else await parent_of(session, state)
    built = await session.vault.compute(build, job, state, stream, parent)
    beside = [] if parent is None or not built.inherited else [*built.inherited, parent.manifest_file]
    what = f"snapshot of label {label!r}"
    require_sizes(built.files, what)
    state = await make_room(job, state, built, what)
    # Before its manifest is there: where a pointer is missing, that alone may make it the latest.
    job.note_pending(built.info.snapshot_id)
    written = await _write(job, built, beside)
    done = await _publish(job, state, built, stream, beside) if written else None
    if done is None:
        await _give_up(job, built)
        job.note_withdrawn(built.info.snapshot_id)
        job.as_base = True
        return None
    keep_parent(session, built)
    head = done.pointer.head if done.pointer.snapshot_id == built.info.snapshot_id else ""
    info = known_of(session, Entry(built.info, built.manifest_sha256))
    info = replace(info, head=head, diverged_from=job.theirs or job.passed_over, merged=job.merged)
    if not head:
        job.note_refused(info.snapshot_id)
        return replace(info, refused=True, diverged_from=done.pointer.snapshot_id)
    job.tree = job.tree or built.tree
    await job.note_saved(info.snapshot_id, done.state)
    if job.planned is not None:
        await retire(job, done)
    lost = find_lost(job, done.state, built)
    if lost is not None:
        tell_ruined(job, lost)
    return replace(info, shrunk_from=lost.before.snapshot_id) if lost is not None and lost.smaller else info


async def _write(job: Job, built: BuiltSnapshot, beside: Sequence[str]) -> bool:
    """Upload a snapshot; whether it is proven that all it needs is there and stays."""
    session, began = job.session, job.session.now()
    written = await upload(session, built)
    if built.info.format == FORMAT_2 and not beside:
        try:
            await read_back(session, built)  # so much will stand on it
        except ColonyMemoryError:
            await _give_up(job, built)
            raise
    session.proved(job.label, built.info.snapshot_id)
    remember(session, built, job.names)
    if not beside and not took_long(session, began, written):
        return True
    return await prove(session, job.label, [*built.files, *beside], own=built.files)


def build(job: Job, state: State, stream: str, parent: Parent | None) -> BuiltSnapshot:
    """The snapshot as files."""
    session, decision = job.session, state.decision
    seen = {each for each in (session.newest.get(job.label), decision.follow) if each}
    # Anyone can put an id of any time into a vault, and ours must not follow it.
    believed = not session.trust.pins or decision.proven
    if believed:
        seen |= {each for each in (decision.written, decision.pointer.went_back_from) if each}
        seen |= {entry.snapshot_id for entry in decision.pointer.catalog.front}
    if state.files is not None:
        seen |= {entry.snapshot_id for entry in decision.entries} if session.trust.pins else state.files.ids
    # What a believed pointer names, or nothing: else a pointer that was garbled once would look like one put back.
    latest = decision.pointer.snapshot_id if believed and decision.pointer.snapshot_id == decision.follow else None
    digest_of_latest = state.manifest_sha256(latest)
    previous = None
    if latest is not None and digest_of_latest is not None:
        previous = {"snapshot_id": latest, "manifest_sha256": digest_of_latest}
    job.ruined, job.ruined_since = ruined_in(job, state, parent), decision.follow
    write: Any = build_parts
    if session.format != FORMAT or session.recipients is not None:  # what is to be encrypted is never in the clear
        chain, lock = (None, None) if parent is None else (parent.chain, parent.lock)
        write = partial(build_chain, parent=chain, lock=lock_for(session, lock))
    mine = new_id(session.now(), session.token(), seen)
    built: BuiltSnapshot = write(
        job.memory if job.memory is not None and write is not build_parts else job.whole(),
        label=job.label,
        snapshot_id=mine,
        created_at=session.stamp(),
        signer=job.signer,
        previous=previous,
        stream=stream,
        ruined=len(job.ruined),
        lineage=job.lineage(state, mine),
        max_bytes=session.max_bytes,
        **job.facts,
    )
    session.newest[job.label] = built.info.snapshot_id
    return built


async def _publish(
    job: Job, state: State, built: BuiltSnapshot, stream: str, beside: Sequence[str]
) -> Published | None:
    """Commit the snapshot: a row in the catalogue, and the latest, unless another client's is that.

    None where other clients may have taken it for a leftover, or began the label at the same moment under another
    stream, so that it has to be made anew.
    """
    session, mine = job.session, built.info.snapshot_id
    before, given_up = state, False

    async def change(now: State) -> Move | None:
        nonlocal given_up
        decision = now.decision
        if now is not before:
            given_up = not still_there(now, mine, [*built.files, *beside])
            if given_up:
                return None
            follow = decision.follow
            # An older one that was there before is what a deletion of the latest leaves.
            if (
                follow is not None
                and follow not in (job.latest, mine, *job.basis.own, *session.home(job.label).read().own)
                and state.decision.entry(follow) is None
            ):
                await race(job, now, follow)
                if job.theirs is not None and job.on_conflict == "merge":
                    given_up = True
                    return None
            if decision.doubt is None and decision.pointer.stream not in (None, stream):
                given_up = True
                return None
            await plan_retention(job, now, built)
        follow = None if decision.doubt else decision.follow
        # The pointer never moves to an older snapshot.
        refused = follow is not None and (job.is_refused or not may_move(now, mine))
        removed = job.planned.removed if job.planned is not None else ()
        lost = None if refused else find_lost(job, now, built)
        rows = rows_with(job, now, built, lost=lost, refused=refused)
        unmerged = job.unmerged(now, mine, refused=refused)
        sizes = None if refused else doc_bytes(job, built)
        return Move(follow if refused else mine, rows, removed, doc_bytes=sizes, unmerged=unmerged)

    try:
        done = await publish(session, state, change, signer=job.signer, lenient=True, doubted=True)
    except QuotaExceeded as error:
        await _give_up(job, built, error)
        raise
    except (ConflictDetected, VaultError) as error:
        raise _with_snapshot(error, job.label, mine) from error
    return None if given_up else done


def _with_snapshot(error: ConflictDetected | VaultError, label: str, mine: str) -> ColonyMemoryError:
    """Why the pointer was not moved, with the snapshot that is stored all the same."""
    if isinstance(error, Unanswered):
        msg = (
            f"snapshot {mine} of label {label!r} is stored, but may or may not be the latest now: "
            f"{message_of(error)}; saving again is safe"
        )
        return BackupUncertain(msg, snapshot_id=mine, hint=Hint("list_snapshots", label=label))
    if isinstance(error, ConflictDetected):
        msg = f"{error.message}: snapshot {mine} is stored, but it is not the latest"
        return ConflictDetected(msg, theirs=error.theirs, snapshot_id=mine)
    return to_public(error, f"snapshot {mine} is stored, but the pointer of label {label!r} was not moved to it")


async def _give_up(job: Job, built: BuiltSnapshot, why: ColonyMemoryError | None = None) -> None:
    """Take back a snapshot whose manifest was there for others to see.

    A chain that stood there for long may have been listed, or built on: it is deleted as any other, out of the
    catalogue first, and its pack once nobody needs it.
    """
    if built.info.format == FORMAT:
        await discard(job.session, built, why)
        return
    from colony_memory._engine.prune import delete_snapshot

    try:
        await delete_snapshot(job.session, label=job.label, snapshot_id=built.info.snapshot_id, sweeps=False)
    except ColonyMemoryError as error:
        log(f"snapshot {built.info.snapshot_id} was given up, and could not be removed: {message_of(error)}")
