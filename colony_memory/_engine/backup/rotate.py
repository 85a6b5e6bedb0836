"""What a backup with a retention gives up: to make room for the new snapshot, and once that is the latest."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from colony_memory._engine import deletion, room
from colony_memory._engine.backup.shrink import Lost, doc_bytes, noted
from colony_memory._engine.keep import ages, newest_good, open_shrunk, plan_for, withdraw
from colony_memory._engine.publish import touch
from colony_memory._engine.session import warn
from colony_memory._engine.state import look
from colony_memory._format.catalog import Entry
from colony_memory._format.pointer import write_pointer
from colony_memory.exceptions import ColonyMemoryError, Hint, PruneIncomplete, VaultError, message_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from colony_memory._engine.backup.job import Job
    from colony_memory._engine.keep import Planned
    from colony_memory._engine.publish import Published
    from colony_memory._engine.session import Session
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
        await open_shrunk(job.session, state)
        job.planned = plan_for(
            job.session,
            state,
            job.policy,
            new=built.info,
            spoils=bool(job.ruined),
            refused=job.is_refused,
            unmerged=job.unmerged(state, built.info.snapshot_id, refused=job.is_refused),
        )


def rows_with(
    job: Job, state: State, built: BuiltSnapshot, *, lost: Lost | None = None, refused: bool = False
) -> Iterable[Entry]:
    """The catalogue with the new snapshot, and without what the retention gives up; what was lost since the one before
    is noted with that.
    """
    info = replace(built.listed, refused=True) if refused else built.listed
    own = Entry(info, built.manifest_sha256, packs=built.packs)
    if state.files is None:
        grown = state.decision.pointer.catalog.adding(own)
        return grown if lost is None else grown.adding(noted(lost.before, lost))
    others = (entry for entry in state.decision.building if entry.snapshot_id != own.snapshot_id)
    rows = [*(noted(entry, lost) for entry in others), own]
    return job.planned.rows(rows) if job.planned is not None else rows


def needed_bytes(job: Job, state: State, built: BuiltSnapshot) -> int:
    """Bytes that a snapshot takes, with what the pointer grows by."""
    moved = state.decision.pointer.follow(
        built.info.snapshot_id,
        updated_at=job.session.stamp(),
        entries=rows_with(job, state, built),
        stream="0" * 16,
        doc_bytes=doc_bytes(job, built),
    )
    pages = sum(len(text) + len('"", ') for text in moved.catalog.texts())
    size = len(write_pointer(replace(moved, entries=()))) + pages + (_SIGNATURE_CHARS if job.signer else 0)
    grows = size - len(state.text or "")
    return built.info.stored_bytes + max(0, grows)


async def make_room(job: Job, state: State, built: BuiltSnapshot, what: str) -> State:
    """Refuse before the first write what cannot fit; with a retention, let go what has to, and give the label as it is
    then.

    Leftovers go first, where they are old. Age is told by the vault's clock, which a full vault may not show, as
    nothing newer fits into it: the pointer is written anew then, and takes no room. After that goes what the retention
    gives up, and then the oldest of what it would keep, no more than needed.

    Args:
        job: The backup.
        state: The label; all of it, where there is a retention.
        built: The snapshot that is to be written.
        what: It, for messages.

    Raises:
        QuotaExceeded: It does not fit, whatever goes.
        PruneIncomplete: Something could not be deleted.
    """
    session, label, policy = job.session, job.label, job.policy
    await plan_retention(job, state, built)
    need, free = needed_bytes(job, state, built), await room.available(session)
    if free is None or need <= free:
        return state
    if policy is None:
        raise room.full(need, free, what, label)
    if ages(session, state) and await touch(session, state):
        state = await look(session, label, everything=True, lenient=True)
    free += await deletion.sweep(session, state.listed, told=state.needs)
    asked = 0
    if need > free:
        planned = plan_for(session, state, policy, new=built.info, spoils=bool(job.ruined))
        asked = len(planned.plan.keep)
        victims = await choose_victims(session, state, planned, need - free)
        if not victims:
            raise room.full(need, free, what, label)
        for own in (own for own in planned.unmerged if own in victims):
            warn(f"the vault is full: snapshot {own} of label {label!r} is removed, though no latest is based on it")
        for own in (own for own in victims if own in planned.shrunk):
            warn(f"the vault is full: snapshot {own} of label {label!r} is removed, though a much smaller one followed")
        state = await withdraw(session, state, victims)
        await deletion.remove(session, state.listed, victims, told=state.needs)
    left = await room.available(session)
    if left is not None and need > left:
        raise room.full(need, left, what, label)
    state = await look(session, label, everything=True, lenient=True)
    await plan_retention(job, state, built)
    kept = len(job.planned.plan.keep) if job.planned is not None else asked
    if asked > kept:
        warn(
            f"the vault is full: only {kept} snapshots of label {label!r} fit, of {asked} that the retention keeps",
            hint=Hint("status"),
        )
    return state


async def choose_victims(session: Session, state: State, planned: Planned, need: int) -> list[str]:
    """The snapshots to let go for so many bytes, the first of those that may; none where all of them are not enough."""
    candidates = await planned.may_go(session, state)
    for number in range(1, len(candidates) + 1):
        if await deletion.gain(session, state.listed, candidates[:number], told=state.needs) >= need:
            return candidates[:number]
    return []


async def retire(job: Job, done: Published) -> None:
    """Delete what the retention gave up, as far as the hour's operations allow; the backup itself is done."""
    planned = job.planned
    if planned is None:
        return
    left = await job.session.vault.operations_left()
    # What the next backup needs is not spent on deleting.
    spare = None if left is None else max(0, left - 3)
    try:
        await deletion.remove(job.session, done.state.listed, planned.removed, told=done.state.needs, spare=spare)
    except (PruneIncomplete, VaultError) as error:
        warn(
            "the backup is done, but older snapshots could not be removed; the next one tries again: "
            f"{message_of(error)}"
        )
    except ColonyMemoryError as error:
        warn(f"the backup is done, but older snapshots could not be removed: {message_of(error)}")
