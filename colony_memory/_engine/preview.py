"""What a backup would do, found out without a trace."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from colony_memory._engine.backup import doubt
from colony_memory._engine.backup.job import Job, check_arguments
from colony_memory._engine.backup.rotate import choose_victims, needed_bytes, plan_retention
from colony_memory._engine.backup.save import build
from colony_memory._engine.files import bytes_freed, free_bytes, no_room, require_sizes
from colony_memory._engine.load import parent_of
from colony_memory._engine.restore import read
from colony_memory._engine.state import look
from colony_memory.exceptions import (
    DecryptionError,
    QuotaExceeded,
    SnapshotCorrupt,
    SnapshotNotFound,
    UntrustedSnapshot,
    message_of,
)
from colony_memory.snapshot import exact_documents

if TYPE_CHECKING:
    from colony_memory._engine.session import Session
    from colony_memory._engine.state import State
    from colony_memory.snapshot import BuiltSnapshot, SnapshotInfo


@dataclass(frozen=True)
class Latest:
    """The latest snapshot of a label.

    Attributes:
        info: It, None where nothing is saved yet, or nothing can be restored.
        documents: Its documents.
        problem: Why it cannot be read, None where it can, or there is none.
    """

    info: SnapshotInfo | None = None
    documents: dict[str, str] | None = None
    problem: str | None = None


@dataclass(frozen=True)
class Plan:
    """What a backup would do; true where it would do it.

    Attributes:
        info: The snapshot as it would be; its id is made up.
        unchanged: The latest holds the same, so that nothing would be written.
        needed_bytes: Bytes that it would take in the vault.
        available_bytes: Bytes that are free there, None where the vault does not tell.
        problem: Why it would not fit, None where it would.
        removed: Ids of the snapshots that the retention would give up then.
    """

    info: SnapshotInfo
    unchanged: bool
    needed_bytes: int
    available_bytes: int | None
    problem: str | None = None
    removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.problem is None


async def read_latest(session: Session, *, label: str) -> Latest:
    """The latest snapshot, with its documents; what the client's memory is based on stays what it was."""
    try:
        restored = await read(session.unnoticed(), label=label)
    except SnapshotNotFound:
        return Latest()
    except (SnapshotCorrupt, UntrustedSnapshot, DecryptionError) as error:
        return Latest(problem=message_of(error))
    return Latest(restored.info, restored.documents)


async def plan_backup(
    session: Session, /, documents: dict[str, str], *, damaged: bool = False, **asked_for: Any
) -> Plan:
    """Do all of a backup but the writing. Arguments and errors are those of a backup, but for a want of room.

    ``damaged`` says that the latest cannot be read: what holds the same is saved anew then.
    """
    session = session.unnoticed()
    asked = check_arguments(**asked_for)
    documents = exact_documents(documents)
    job = Job(session, asked.label, documents, session.signer, asked.policy, "raise", asked.facts)
    session.trust.check_signer(job.issuer)
    state = await look(session, asked.label, everything=True, lenient=True)
    if doubt(job, state) is not None:
        job.policy = None
    parent = await parent_of(session, state)
    built = await session.vault.compute(build, job, state, session.stream(asked.label), parent)
    entry = state.decision.entry(state.decision.follow)
    sound = state.decision.doubt is None and not damaged
    unchanged = sound and entry is not None and await job.holds(entry)
    # What the pointer's next write shows of its age.
    state = replace(state, files=state.listed.as_of(session.now()))
    await plan_retention(job, state, built)
    needed, free = needed_bytes(job, state, built), await free_bytes(session)
    if unchanged:
        return Plan(built.info, unchanged, 0, free)
    problem, victims = await _make_room(job, state, built, needed, free)
    removed = job.planned.removed if job.planned is not None else ()
    return Plan(built.info, unchanged, needed, free, problem, tuple(dict.fromkeys((*victims, *removed))))


async def _make_room(
    job: Job, state: State, built: BuiltSnapshot, needed: int, free: int | None
) -> tuple[str | None, list[str]]:
    """Why the snapshot does not fit, None where it does, and what has to go for it beforehand."""
    what = f"a snapshot of label {job.label!r}"
    try:
        require_sizes(built.files, what)
    except QuotaExceeded as error:
        return message_of(error), []
    if free is None or needed <= free:
        return None, []
    if job.planned is None:
        return message_of(no_room(needed, free, what, job.label)), []
    free += await bytes_freed(job.session, state.listed, (), told=state.needs)
    victims = [] if needed <= free else await choose_victims(job.session, state, job.planned, needed - free)
    fits = needed <= free or victims
    return None if fits else message_of(no_room(needed, free, what, job.label)), victims
