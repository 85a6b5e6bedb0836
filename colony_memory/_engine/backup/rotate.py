"""What a backup with a retention gives up: to make room for the new snapshot, and once that is the latest."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from colony_memory._engine import files as order
from colony_memory._engine import room
from colony_memory._engine.keep import newest_good, plan_for, withdraw
from colony_memory._engine.publish import touch
from colony_memory._engine.session import warn
from colony_memory._format.catalog import Entry
from colony_memory._format.pointer import write_pointer
from colony_memory.exceptions import ColonyMemoryError, PruneIncomplete, VaultError, message_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from colony_memory._engine.backup.job import Job
    from colony_memory._engine.publish import Published
    from colony_memory._engine.state import State
    from colony_memory.snapshot import BuiltSnapshot

# What a signature adds to a pointer, at most.
_SIGNATURE_CHARS = 300


async def plan_retention(job: Job, state: State, built: BuiltSnapshot) -> None:
    """What the retention keeps and removes, where there is one and nothing speaks against the label."""
    job.planned = None
    if job.policy is not None and state.decision.doubt is None:
        if built.info.incomplete:
            # It does not count as good, so the newest that does has to be seen to restore.
            state, _ = await newest_good(job.session, state)
        job.planned = plan_for(job.session, state, job.policy, new=built.info)


def rows_with(job: Job, state: State, built: BuiltSnapshot) -> Iterable[Entry]:
    """The catalogue with the new snapshot, and without what the retention gives up."""
    own = Entry(built.listed, built.manifest_sha256, packs=built.packs)
    if state.files is None:
        return state.decision.pointer.catalog.adding(own)
    rows = [*(entry for entry in state.decision.building if entry.snapshot_id != own.snapshot_id), own]
    return job.planned.rows(rows) if job.planned is not None else rows


def needed_bytes(job: Job, state: State, built: BuiltSnapshot) -> int:
    """Bytes that a snapshot takes, with what the pointer grows by."""
    moved = state.decision.pointer.follow(
        built.info.snapshot_id, updated_at=job.session.stamp(), entries=rows_with(job, state, built), stream="0" * 16
    )
    pages = sum(len(text) + len('"", ') for text in moved.catalog.texts())
    size = len(write_pointer(replace(moved, entries=()))) + pages + (_SIGNATURE_CHARS if job.signer else 0)
    grows = size - len(state.text or "")
    return built.info.stored_bytes + max(0, grows)


async def make_room(job: Job, state: State, built: BuiltSnapshot, what: str) -> State:
    """Refuse before the first write what cannot fit; with a retention, let what it removes anyway go first."""
    session = job.session
    await plan_retention(job, state, built)
    need = needed_bytes(job, state, built)
    if job.policy is None:
        await room.require(session, need, what, label=job.label)
        return state
    policy, asked = job.policy, 0

    async def candidates(now: State) -> Sequence[str]:
        nonlocal asked
        planned = plan_for(session, now, policy, new=built.info)
        asked = len(planned.plan.keep)
        return await planned.may_go(session, now)

    made = await room.make(
        session,
        state,
        need,
        what,
        candidates=candidates,
        withdraw=lambda now, victims: withdraw(session, now, victims),
        touch=lambda now: touch(session, now),
    )
    if made is not state:
        await plan_retention(job, made, built)
        kept = len(job.planned.plan.keep) if job.planned is not None else asked
        if asked > kept:
            room.tell_fewer(job.label, kept, asked)
    return made


async def retire(job: Job, done: Published) -> None:
    """Delete what the retention gave up, as far as the hour's operations allow; the backup itself is done."""
    planned = job.planned
    if planned is None:
        return
    left = await job.session.vault.operations_left()
    # What the next backup needs is not spent on deleting.
    spare = None if left is None else max(0, left - 3)
    try:
        await order.remove(job.session, done.state.listed, planned.removed, told=done.state.needs, spare=spare)
    except (PruneIncomplete, VaultError) as error:
        warn(
            "the backup is done, but older snapshots could not be removed; the next one tries again: "
            f"{message_of(error)}"
        )
    except ColonyMemoryError as error:
        warn(f"the backup is done, but older snapshots could not be removed: {message_of(error)}")
