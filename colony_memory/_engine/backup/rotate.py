"""What a backup with a retention gives up: to make room for the new snapshot, and once that is the latest.

What a memory lost since the latest snapshot: most of it, or documents that are ruined beside whole ones.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from colony_memory._engine.files import bytes_freed, free_bytes, no_room, remove_snapshots, sweep
from colony_memory._engine.keep import ages, newest_good, note_shrink, open_shrunk, plan_for, withdraw
from colony_memory._engine.publish import touch
from colony_memory._engine.sealed import known_of
from colony_memory._engine.session import warn
from colony_memory._engine.state import look
from colony_memory._format.catalog import Entry
from colony_memory._format.json import printable
from colony_memory._format.pointer import write_pointer
from colony_memory.exceptions import ColonyMemoryError, Hint, PruneIncomplete, VaultDenied, VaultError, message_of
from colony_memory.retention import Shrink, created, document_bytes, find_ruined, is_much_smaller

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from colony_memory._engine.backup.job import Job
    from colony_memory._engine.keep import Planned
    from colony_memory._engine.load import Parent
    from colony_memory._engine.publish import Published
    from colony_memory._engine.session import Session
    from colony_memory._engine.state import State
    from colony_memory.snapshot import BuiltSnapshot


# Documents whose sizes a pointer tells; it is a file of bounded size.
_MOST = 5_000
_SHOWN = 5


class Lost(NamedTuple):
    """What was lost.

    Attributes:
        before: The snapshot that has it.
        shrink: When, and whether a document was ruined.
        smaller: Less than half of its bytes or documents is left.
    """

    before: Entry
    shrink: Shrink
    smaller: bool


def ruined_in(job: Job, state: State, parent: Parent | None) -> tuple[str, ...]:
    """Names of documents of the latest snapshot that are ruined in the memory to save, as far as that can be told
    without reading it.
    """
    before = _sizes(job, state, parent)
    if before is None:
        return ()
    texts = job.documents if job.memory is None else job.memory.documents(set(job.names) - job.unchanged)
    documents = {printable(name): text for name, text in texts.items()}
    return find_ruined(before, documents, unchanged={printable(name) for name in job.unchanged})


def _sizes(job: Job, state: State, parent: Parent | None) -> Mapping[str, int] | None:
    """Bytes of each document of the latest snapshot by its printable name, 0 where there is nothing in it but NUL. Of
    what is unchanged, nothing is asked.
    """
    pointer, latest = state.decision.pointer, state.decision.follow
    if parent is not None and parent.snapshot_id == latest:
        memory, unchanged = parent.chain.state, job.unchanged
        return {
            printable(name): 0 if name not in unchanged and memory.is_empty(name) else size
            for name, size in memory.sizes.items()
        }
    entry = pointer.entry(latest) if latest is not None and latest == pointer.snapshot_id else None
    if entry is None or len(entry.info.doc_names) != len(pointer.doc_bytes):
        return None
    return dict(zip(entry.info.doc_names, pointer.doc_bytes, strict=True))


def doc_bytes(job: Job, built: BuiltSnapshot) -> tuple[int, ...] | None:
    """What the pointer tells of the sizes of documents, for whoever saves next and does not read this snapshot. Who
    goes on from a chain of packs reads it.
    """
    names = built.listed.doc_names
    if not names or len(names) > _MOST:
        return None
    sizes = {printable(name): document_bytes(text) for name, text in job.whole().items()}
    return tuple(sizes[name] for name in names)


def find_lost(job: Job, state: State, built: BuiltSnapshot) -> Lost | None:
    """What is lost where the snapshot becomes the latest in this state; None where nothing is."""
    before = state.decision.entry(state.decision.follow)
    if before is None or before.snapshot_id == built.info.snapshot_id:
        return None
    smaller = is_much_smaller(built.info, known_of(job.session, before))
    ruined = bool(job.ruined) and job.ruined_since == before.snapshot_id
    return Lost(before, Shrink(created(built.info), ruined), smaller) if smaller or ruined else None


def noted(entry: Entry, lost: Lost | None) -> Entry:
    """The row, with what followed it."""
    followed = lost is not None and entry.snapshot_id == lost.before.snapshot_id
    return note_shrink(entry, lost.shrink) if lost is not None and followed else entry


def tell_ruined(job: Job, lost: Lost) -> None:
    """Warn of documents that are ruined beside whole ones, and say which snapshot has them. That less than half is left
    of all, the summary says.
    """
    if lost.smaller:
        return
    rest = f" and {len(job.ruined) - _SHOWN} more" if len(job.ruined) > _SHOWN else ""
    whole = lost.before.snapshot_id
    warn(
        f"label {job.label!r}: hardly anything is left of {', '.join(job.ruined[:_SHOWN])}{rest}: empty, NUL bytes or "
        f"less than a tenth. It is saved as it is; snapshot {whole} has all of it, and backups keep that for 30 days",
        hint=Hint("restore", "snapshot_id", whole, label=job.label),
    )


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
    """
    session, label, policy = job.session, job.label, job.policy
    await plan_retention(job, state, built)
    need, free = needed_bytes(job, state, built), await free_bytes(session)
    if free is None or need <= free:
        return state
    if policy is None:
        raise no_room(need, free, what, label, gain=await _prunable(session, state))
    if ages(session, state) and await touch(session, state):
        state = await look(session, label, everything=True, lenient=True)
    free += await sweep(session, state.listed, told=state.needs)
    asked = 0
    if need > free:
        planned = plan_for(session, state, policy, new=built.info, spoils=bool(job.ruined))
        asked = len(planned.plan.keep)
        victims = await choose_victims(session, state, planned, need - free)
        if not victims:
            raise no_room(need, free, what, label, gain=0)
        for own in (own for own in planned.unmerged if own in victims):
            warn(
                f"the vault is full: snapshot {own} of label {label!r} is removed, though the latest is not based on it"
            )
        for own in (own for own in victims if own in planned.shrunk):
            warn(f"the vault is full: snapshot {own} of label {label!r} is removed, though a much smaller one followed")
        state = await withdraw(session, state, victims)
        await remove_snapshots(session, state.listed, victims, told=state.needs)
    left = await free_bytes(session)
    if left is not None and need > left:
        raise no_room(need, left, what, label, gain=0)
    state = await look(session, label, everything=True, lenient=True)
    await plan_retention(job, state, built)
    kept = len(job.planned.plan.keep) if job.planned is not None else asked
    if asked > kept:
        warn(
            f"the vault is full: of the {asked} snapshots of label {label!r} that the retention keeps, only {kept} fit",
            hint=Hint("status"),
        )
    return state


async def _prunable(session: Session, state: State) -> int | None:
    """Bytes that a prune of the label frees at most, None where that is not known."""
    if state.decision.follow is None:
        return 0
    used = (await session.vault.status()).get("used_bytes")
    return used if isinstance(used, int) else None


async def choose_victims(session: Session, state: State, planned: Planned, need: int) -> list[str]:
    """The snapshots to let go for so many bytes, the first of those that may; none where all of them are not enough."""
    candidates = await planned.may_go(session, state)
    for number in range(1, len(candidates) + 1):
        if await bytes_freed(session, state.listed, candidates[:number], told=state.needs) >= need:
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
        await remove_snapshots(job.session, done.state.listed, planned.removed, told=done.state.needs, spare=spare)
    except (PruneIncomplete, VaultError) as error:
        if isinstance(error.__cause__ if isinstance(error, PruneIncomplete) else error, VaultDenied):
            gone = ", ".join(sorted(planned.removed))
            warn(
                f"the backup is done, but these credentials may not delete: {gone} of label {job.label!r} is off the "
                "list, and its files stay until prune is run with the right to delete"
            )
            return
        warn(
            "the backup is done, but older snapshots could not be removed; the next one tries again: "
            f"{message_of(error)}"
        )
    except ColonyMemoryError as error:
        warn(f"the backup is done, but older snapshots could not be removed: {message_of(error)}")
