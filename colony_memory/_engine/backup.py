"""backup.

The order is what keeps memory safe: parts, then the manifest, then the pointer. Files are immutable and only the
pointer is overwritten, so wherever this stops, what is listed restores and the pointer names a whole snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from colony_memory._arguments import several
from colony_memory._engine import files as order
from colony_memory._engine import room
from colony_memory._engine.conflict import Job, conflict, differ, meet, race
from colony_memory._engine.keep import newest_good, plan_for, policy_of, withdraw
from colony_memory._engine.label import GRACE, LabelFiles
from colony_memory._engine.load import restores
from colony_memory._engine.observe import observed, saved
from colony_memory._engine.parent import keep, parent_of
from colony_memory._engine.publish import Move, Published, may_move, publish, touch
from colony_memory._engine.sealed import known_of, lock_for, remember
from colony_memory._engine.session import log, warn
from colony_memory._engine.state import State, list_files, look, tell
from colony_memory._engine.store import Unanswered
from colony_memory._format.catalog import Entry
from colony_memory._format.constants import FORMAT, FORMAT_2
from colony_memory._format.formats import is_readable
from colony_memory._format.names import new_id, require_label
from colony_memory._format.pointer import write_pointer
from colony_memory._format.tags import check_tags
from colony_memory._format.v2.build import build as build_chain
from colony_memory._format.v2.zstd import WANTED
from colony_memory.exceptions import (
    BackupUncertain,
    ColonyMemoryError,
    ConflictDetected,
    Hint,
    PruneIncomplete,
    QuotaExceeded,
    VaultError,
    message_of,
)
from colony_memory.retention import is_much_smaller
from colony_memory.snapshot import BuiltSnapshot, SnapshotInfo, check_documents
from colony_memory.snapshot import build as build_parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from colony_memory._engine.judge import Decision
    from colony_memory._engine.parent import Parent
    from colony_memory._engine.session import Session
    from colony_memory.retention import Retention
    from colony_memory.signing import Signer

_CONFLICT = ("raise", "continue", "merge")
_TRIES = 3
# Each catalogue has it again.
_NOTE_CHARS = 1000
# What a signature adds to a pointer, at most.
_SIGNATURE_CHARS = 300


@observed("backup", saved)
async def backup(
    session: Session,
    documents: dict[str, str],
    *,
    label: str,
    signer: Signer | None,
    prune_keep: int | None,
    retention: Retention | None,
    skip_unchanged: bool,
    on_conflict: str,
    note: str | None = None,
    incomplete: Iterable[str] | None = None,
    tags: str | Iterable[str] = (),
) -> SnapshotInfo:
    """See :meth:`colony_memory.ColonyMemory.backup`."""
    asked = check_arguments(
        label=label,
        prune_keep=prune_keep,
        retention=retention,
        on_conflict=on_conflict,
        note=note,
        incomplete=incomplete,
        tags=tags,
    )
    check_documents(documents)
    if session.recipients is not None and not session.vault.conditional:
        raise ColonyMemoryError(
            "what is encrypted is of format 2, which needs a vault that writes on condition, and this one does not: "
            "nothing was saved"
        )
    if session.format == FORMAT_2 and not session.vault.conditional:
        raise ColonyMemoryError(
            "format 2 needs a vault that writes on condition, which this one does not: save in format 1"
        )
    label, policy, signer = asked.label, asked.policy, signer or session.signer
    job = Job(session, label, dict(documents), signer, policy, on_conflict, asked.facts)
    session.trust.check_signer(job.issuer)
    if on_conflict == "merge":
        from colony_memory._engine.merge import require_merge3

        require_merge3()
    state = await look(session, label, everything=policy is not None, lenient=True, newer=False)
    if policy is None and state.decision.pointer.entries is None and not state.first:
        state = await look(session, label, everything=True, lenient=True)  # the pointer does not tell what is there
    _tell_doubt(job, state)
    _tell_unsigned(job, state.decision)
    _tell_clear(job, state.decision)
    state = await meet(job, state)
    if skip_unchanged and state.decision.doubt is None:
        state, same = await _unchanged(job, state)
        if same is not None:
            return same
    if session.lacks_zstd:
        warn(f"saving in format 1: this vault is for format 2, which needs {WANTED}")
    for _ in range(_TRIES):
        info = await _save(job, state)
        if info is not None:
            return info
        state = await look(session, label, everything=True, lenient=True)
        raced, job.theirs = job.theirs, None
        if raced is not None and state.decision.follow is not None:
            job.latest = state.decision.follow
            await differ(job, state, job.latest)
        else:
            state = await meet(job, state)
    msg = f"label {label!r} kept changing, or writing took too long, so nothing was saved"
    raise VaultError(msg, hint=Hint("backup", label=label))


@dataclass(frozen=True)
class Arguments:
    """What a backup was asked for beside its documents, checked.

    Attributes:
        label: The label, as files spell it.
        policy: What to keep, None to remove nothing.
        facts: What the manifest says beside the documents.
    """

    label: str
    policy: Retention | None
    facts: Mapping[str, Any]


def check_arguments(
    *,
    label: str = "default",
    prune_keep: int | None = None,
    retention: Retention | None = None,
    on_conflict: str = "raise",
    note: str | None = None,
    incomplete: Iterable[str] | None = None,
    tags: str | Iterable[str] = (),
) -> Arguments:
    """Check the arguments of a backup before anything is read or written for it.

    Raises:
        ValueError: One is wrong.
    """
    label = require_label(label)
    if on_conflict not in _CONFLICT:
        msg = f"on_conflict must be one of {', '.join(map(repr, _CONFLICT))}, not {on_conflict!r}"
        raise ValueError(msg)
    if note is not None and not isinstance(note, str):
        raise ValueError(f"note must be a string, not {type(note).__name__}")
    if note is not None and len(note) > _NOTE_CHARS:
        raise ValueError(f"note must have at most {_NOTE_CHARS} characters, not {len(note)}")
    if isinstance(incomplete, str):
        raise ValueError("incomplete must be lines, not one string")  # noqa: TRY004 - one type for bad arguments
    lines = tuple(several("incomplete", incomplete or ()))
    if not all(isinstance(line, str) for line in lines):
        raise ValueError("incomplete must be lines of text")
    facts = {"note": note, "incomplete": lines, "tags": check_tags(tags)}
    return Arguments(label, policy_of(prune_keep, retention), facts)


def _tell_doubt(job: Job, state: State) -> None:
    """Say what speaks against the label. The backup is made all the same, and then nothing is removed.

    Memory that is not saved is lost; a rollback that goes unnoticed for one backup more is not.
    """
    why = doubt(job, state)
    if why is not None:
        warn(f"{why}. The backup is made{', and nothing is removed' if job.policy else ''}")
        job.policy = None
    elif state.decision.proven:
        tell(state.decision)  # the new pointer hides it


def doubt(job: Job, state: State) -> str | None:
    """What speaks against removing anything from a label, None where nothing does."""
    if state.blind is not None:
        return state.blind
    if state.decision.doubt is not None:
        return message_of(state.decision.doubt)
    cut = job.policy is not None and not state.listed.complete
    return f"the vault's list of label {job.label!r} is cut" if cut else None


def _tell_unsigned(job: Job, decision: Decision) -> None:
    if job.signer is None and decision.signed:
        warn(
            f"label {job.label!r} was signed until now, and this snapshot and the pointer to it are not: clients that "
            "trust the signer refuse both",
            hint=Hint("backup", "signer", label=job.label),
        )


def _tell_clear(job: Job, decision: Decision) -> None:
    latest = decision.entry(decision.follow)
    if job.session.recipients is None and latest is not None and latest.info.encrypted:
        warn(
            f"label {job.label!r} was encrypted until now, and this snapshot is not: whoever holds the vault reads it",
            hint=Hint("open", "encrypt_to"),
        )


async def _unchanged(job: Job, state: State) -> tuple[State, SnapshotInfo | None]:
    """The latest snapshot if it holds just these documents under the same trust, and is whole; and the label, as it was
    looked at for that where something speaks against it.
    """
    session, decision = job.session, state.decision
    latest = decision.follow
    named = decision.written if session.trust.accept_legacy_pointer else decision.pointer.snapshot_id
    if latest is None or named != latest:
        return state, None  # the pointer has to be written anew
    entry = decision.entry(latest)
    if entry is None or not await job.holds(entry):
        return state, None
    listed = await list_files(session, state)
    if listed.decision.doubt is not None:
        # What a restore refuses is not saved.
        _tell_doubt(job, listed)
        return listed, None
    whole = next((info for info in listed.decision.listed if info.snapshot_id == latest), None)
    if whole is None:
        return state, None
    if not is_readable(whole.format):
        return state, None  # nobody here could say that it restores
    if not session.knows_good(job.label, latest):
        problem = await restores(session, job.label, latest)
        if problem is not None:
            warn(f"the memory is unchanged, and saved anew, since what was stored of it is damaged: {problem}")
            return state, None
    job.done(whole)
    whole = known_of(session, entry, whole)
    return state, replace(whole, reused=True, diverged_from=job.theirs if job.merged else None, merged=job.merged)


async def _save(job: Job, state: State) -> SnapshotInfo | None:
    """Write the snapshot and publish it; None where it has to be made anew."""
    session, label = job.session, job.label
    stream = state.decision.stream or session.stream(label)
    parent = await find_parent(job, state)
    built = await session.vault.compute(build, job, state, stream, parent)
    beside = [] if parent is None or not built.inherited else [*built.inherited, parent.manifest_file]
    what = f"snapshot of label {label!r}"
    room.check_files(built.files, what)
    state = await _make_room(job, state, built, what)
    began = session.now()
    await order.upload(session, built)
    if built.info.format == FORMAT_2 and not beside:
        try:
            await order.read_back(session, built)  # so much will stand on it
        except ColonyMemoryError:
            await _give_up(job, built)
            raise
    session.proved(label, built.info.snapshot_id)
    remember(session, built)
    late = abs(session.now() - began) > GRACE / 2
    if (beside or late) and not await order.prove(session, label, [*built.files, *beside], own=built.files):
        await _give_up(job, built)
        job.as_base = True
        return None
    done = await _publish(job, state, built, stream, beside)
    if done is None:
        await _give_up(job, built)
        job.as_base = True
        return None
    keep(session, built)
    head = done.pointer.head if done.pointer.snapshot_id == built.info.snapshot_id else ""
    info = replace(built.info, head=head, diverged_from=job.theirs, merged=job.merged)
    if job.stays:
        raise conflict(job, info.snapshot_id)
    if not head:
        return replace(info, diverged_from=done.pointer.snapshot_id)
    job.done(info)
    if job.planned is not None:
        await _retire(job, done)
    before = done.state.decision.entry(done.state.decision.follow)
    if before is not None and is_much_smaller(info, known_of(session, before)):
        info = replace(info, shrunk_from=before.snapshot_id)
    return info


async def _give_up(job: Job, built: BuiltSnapshot, why: ColonyMemoryError | None = None) -> None:
    """Take back a snapshot whose manifest was there for others to see.

    A chain that stood there for long may have been listed, or built on: it is deleted as any other, out of the
    catalogue first, and its pack once nobody needs it.
    """
    if built.info.format == FORMAT:
        await order.discard(job.session, built, why)
        return
    from colony_memory._engine.prune import delete_snapshot

    try:
        await delete_snapshot(job.session, label=job.label, snapshot_id=built.info.snapshot_id, sweeps=False)
    except ColonyMemoryError as error:
        log(f"snapshot {built.info.snapshot_id} came to nothing, and could not be taken back: {message_of(error)}")


async def find_parent(job: Job, state: State) -> Parent | None:
    """What to go on from, where the format knows that."""
    if job.session.format != FORMAT_2 or job.as_base:
        return None
    return await parent_of(job.session, state)


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
    write: Any = build_parts
    if session.format != FORMAT or session.recipients is not None:  # what is to be encrypted is never in the clear
        chain, lock = (None, None) if parent is None else (parent.chain, parent.lock)
        write = partial(build_chain, parent=chain, lock=lock_for(session, lock))
    built: BuiltSnapshot = write(
        job.documents,
        label=job.label,
        snapshot_id=new_id(session.now(), session.token(), seen),
        created_at=session.stamp(),
        signer=job.signer,
        previous=previous,
        stream=stream,
        max_bytes=session.max_bytes,
        **job.facts,
    )
    session.newest[job.label] = built.info.snapshot_id
    return built


async def _make_room(job: Job, state: State, built: BuiltSnapshot, what: str) -> State:
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


def needed_bytes(job: Job, state: State, built: BuiltSnapshot) -> int:
    """Bytes that a snapshot takes, with what the pointer grows by."""
    moved = state.decision.pointer.follow(
        built.info.snapshot_id, updated_at=job.session.stamp(), entries=_rows(job, state, built), stream="0" * 16
    )
    pages = sum(len(text) + len('"", ') for text in moved.catalog.texts())
    size = len(write_pointer(replace(moved, entries=()))) + pages + (_SIGNATURE_CHARS if job.signer else 0)
    grows = size - len(state.text or "")
    return built.info.stored_bytes + max(0, grows)


async def plan_retention(job: Job, state: State, built: BuiltSnapshot) -> None:
    """What the retention keeps and removes, where there is one and nothing speaks against the label."""
    job.planned = None
    if job.policy is not None and state.decision.doubt is None:
        if built.info.incomplete:
            # It does not count as good, so the newest that does has to be seen to restore.
            state, _ = await newest_good(job.session, state)
        job.planned = plan_for(job.session, state, job.policy, new=built.info)


def _rows(job: Job, state: State, built: BuiltSnapshot) -> Iterable[Entry]:
    """The catalogue with the new snapshot, and without what the retention gives up."""
    own = Entry(built.listed, built.manifest_sha256, packs=built.packs)
    if state.files is None:
        return state.decision.pointer.catalog.adding(own)
    rows = [*(entry for entry in state.decision.building if entry.snapshot_id != own.snapshot_id), own]
    return job.planned.rows(rows) if job.planned is not None else rows


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
            given_up = not _still_there(now, built, beside)
            if given_up:
                return None
            follow = decision.follow
            # An older one that was there before is what a deletion of the latest leaves.
            if follow is not None and follow not in (job.latest, mine) and state.decision.entry(follow) is None:
                await race(job, now, follow)
                if job.theirs is not None and job.on_conflict == "merge":
                    given_up = True
                    return None
            if decision.doubt is None and decision.pointer.stream not in (None, stream):
                given_up = True
                return None
            await plan_retention(job, now, built)
        follow = None if decision.doubt else decision.follow
        if follow is not None and (job.stays or not may_move(now, mine)):
            # The pointer never moves to an older snapshot.
            job.planned = None
            return Move(follow, _rows(job, now, built))
        removed = job.planned.removed if job.planned is not None else ()
        return Move(mine, _rows(job, now, built), removed)

    try:
        done = await publish(session, state, change, signer=job.signer, lenient=True)
    except Unanswered as error:
        msg = (
            f"snapshot {mine} of label {job.label!r} is stored, but it cannot be told whether it is the latest now: "
            f"{message_of(error)}; saving again is safe"
        )
        raise BackupUncertain(msg, snapshot_id=mine, hint=Hint("list_snapshots", label=job.label)) from error
    except ConflictDetected as error:
        msg = f"{error.message}: snapshot {mine} is stored, but it is not the latest"
        raise ConflictDetected(msg, theirs=error.theirs, snapshot_id=mine) from error
    except VaultError as error:
        msg = f"{error.message}; snapshot {mine} is stored, only the pointer of label {job.label!r} was not moved to it"
        raise type(error)(
            msg, status=error.status, code=error.code, retry_after=error.retry_after, hint=error.hint
        ) from error
    except QuotaExceeded as error:
        await _give_up(job, built, error)
        raise
    return None if given_up else done


def _still_there(now: State, built: BuiltSnapshot, beside: Sequence[str]) -> bool:
    """Whether a snapshot whose pointer was not moved yet is safe from those who delete leftovers.

    They leave alone what is younger than the grace period. Where the pointer to follow is that much younger than the
    manifest, whoever wrote it may be deleting it already.
    """
    files: LabelFiles = now.listed
    if any(name not in files.files for name in (*built.files, *beside)):
        return False
    pointer = now.decision.pointer
    if built.info.snapshot_id in pointer.removed:
        return False  # another client listed it, and a third one is deleting it as one of the old ones
    if pointer.entry(built.info.snapshot_id) is not None:
        return True
    written = files.written([built.manifest_file])
    return written is None or files.now is None or files.now - written[0] < GRACE


async def _retire(job: Job, done: Published) -> None:
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
