"""The writes of a backup: make room, upload the files and prove that they stay, move the pointer, delete old ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from colony_memory._engine import basis as events
from colony_memory._engine.files import (
    bytes_freed,
    discard,
    free_bytes,
    no_room,
    prove,
    read_back,
    remove_snapshots,
    require_sizes,
    still_there,
    took_long,
    upload,
)
from colony_memory._engine.keep import Planned, ages, newest_good, note_shrink, plan_for, shrank
from colony_memory._engine.label import GRACE, few
from colony_memory._engine.load import builder, load, open_manifest, remember
from colony_memory._engine.publish import Move, Published, publish, touch
from colony_memory._engine.session import Session, log, warn
from colony_memory._engine.state import State, list_files, look
from colony_memory._engine.store import Unanswered, to_public
from colony_memory._format import FORMAT, FORMAT_2
from colony_memory._format.catalog import Entry
from colony_memory._format.json import printable
from colony_memory._format.names import id_order, manifest_filename, new_id
from colony_memory._format.pointer import write_pointer
from colony_memory._format.v2.build import ChainManifest, read_chain
from colony_memory._values import Value, replace
from colony_memory.exceptions import (
    BackupUncertain,
    ColonyMemoryError,
    ConflictDetected,
    Hint,
    PruneIncomplete,
    QuotaExceeded,
    VaultDenied,
    VaultError,
    message_of,
)
from colony_memory.retention import Retention, Shrink, document_bytes, find_ruined, measure_texts
from colony_memory.snapshot import BuiltSnapshot, Manifest, SnapshotInfo, created
from colony_memory.snapshot import build as build_parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from colony_memory._engine.backup.job import Job
    from colony_memory._format.age import Lock
    from colony_memory._format.v2.chain import Chain
    from colony_memory._format.v2.state import State as Memory

# Documents whose sizes a pointer lists, at most: its file has a bounded size.
_MOST_SIZES = 5_000

# Characters that a signature adds to a pointer, at most.
_SIGNATURE_CHARS = 300


async def save_snapshot(job: Job, state: State) -> SnapshotInfo | None:
    """Write the snapshot and publish it; None if it was given up and has to be made anew."""
    session, label = job.session, job.label
    stream = state.stream or session.stream(label)
    parent = None if job.as_base else await parent_of(session, state)
    built = await session.vault.compute(build, job, state, stream, parent)
    inherited = [*built.inherited]
    if parent is not None and inherited:  # the parent's manifest is all that keeps its packs
        inherited.append(manifest_filename(label, parent.snapshot_id))
    require_sizes(built.files, f"a snapshot of label {label!r}")
    state = await _make_room(job, state, built)
    # Before the manifest is uploaded: without a pointer, that alone may make it the latest.
    job.note(events.pending, built.info.snapshot_id)
    names = job.documents if job.memory is None else job.memory.names
    written = await write_files(session, built, inherited, names)
    done = await _publish(job, state, built, stream, inherited) if written else None
    if done is None:
        await give_up(session, built)
        job.note(events.withdrawn, built.info.snapshot_id)
        job.as_base = True
        return None
    if built.chain is not None and (built.lock is None or session.identities is not None):
        session.parents[label] = Parent(built.info.snapshot_id, built.manifest_sha256, built.chain, built.lock)
    head = done.pointer.head if done.pointer.snapshot_id == built.info.snapshot_id else ""
    info = session.known_info(Entry(built.info, built.manifest_sha256))
    info = replace(info, head=head, diverged_from=job.theirs or job.passed_over, merged=job.merged)
    if not head:
        job.note(events.with_refused, info.snapshot_id)
        await _retire(job, done)  # unlisted snapshots would pile up unseen
        return replace(info, refused=True, diverged_from=done.pointer.snapshot_id)
    job.tree = job.tree or built.tree
    await job.note_saved(info.snapshot_id, done.state)
    await _retire(job, done)
    lost = _find_lost(job, done.state, built)
    if lost is None:
        return info
    previous = lost[0].snapshot_id
    if shrank(session, built.info, session.known_info(lost[0])):
        return replace(info, shrunk_from=previous)
    warn(
        f"label {job.label!r}: hardly anything is left of {few(job.ruined)}: empty, NUL bytes or less than a tenth. It "
        f"is saved as it is; snapshot {previous} has all of it, and backups keep that for 30 days",
        hint=Hint("restore", "snapshot_id", previous, label=job.label),
    )
    return info


async def write_files(session: Session, built: BuiltSnapshot, inherited: Sequence[str], names: Iterable[str]) -> bool:
    """Upload a snapshot that may need inherited files of others; False if any of all these may have been removed."""
    begin, label = session.now(), built.info.label
    written = await upload(session, built)
    if built.info.format == FORMAT_2 and not inherited:
        try:
            await read_back(session, built)  # later snapshots will build on this base
        except ColonyMemoryError:
            await give_up(session, built)
            raise
    session.proved(label, built.info.snapshot_id)
    remember(session, built, names)
    if not inherited and not took_long(session, begin, written):
        return True
    return await prove(session, label, [*built.files, *inherited], own=built.files)


class Parent(Value):
    snapshot_id: str
    manifest_sha256: str
    chain: Chain  # its contents, as this client read or wrote them
    lock: Lock | None  # its encryption, None where it is not encrypted


async def parent_of(session: Session, state: State) -> Parent | None:
    """The newest committed chain, read in full; None, so that a base is written, if it is damaged or not trusted."""
    encrypted = session.recipients is not None
    if session.format != FORMAT_2 or (encrypted and session.identities is None):
        return None  # a parent that this client cannot decrypt cannot be built on
    label = state.label
    known: Parent | None = session.parents.get(label)
    candidates = (row for row in state.rows if row.info.format == FORMAT_2 and row.info.encrypted == encrypted)
    entry = next(candidates, None) if state.doubt is None else None
    if entry is None:
        return None
    if known is not None and (known.snapshot_id, known.manifest_sha256) == (entry.snapshot_id, entry.manifest_sha256):
        return known
    chains: list[Chain] = []

    def read(manifest: Manifest, texts: dict[str, str | None], **bounds: Any) -> None:
        # No documents are made: besides the chain, they would take the whole memory a second time.
        if isinstance(manifest, ChainManifest):
            chains.append(read_chain(manifest, texts, by_tree=True, **bounds))

    try:
        manifest = (await load(session, label, entry.snapshot_id, unpack=read, state=state)).manifest
        if not chains or manifest.sha256 != entry.manifest_sha256:
            return None
        lock = (await open_manifest(session, manifest)).lock if encrypted else None
        if encrypted and lock is None:
            return None  # the recipients of the next snapshot could not read this parent
        session.proved(label, entry.snapshot_id)
    except VaultError:
        raise
    except ColonyMemoryError as error:
        log(f"{entry.snapshot_id} of {label!r} cannot be built on, so the next is stored whole: {message_of(error)}")
        return None
    return Parent(entry.snapshot_id, manifest.sha256, chains[0], lock)


def build(job: Job, state: State, stream: str, parent: Parent | None) -> BuiltSnapshot:
    session = job.session
    seen = {session.newest.get(job.label), state.follow}
    # Ids from untrusted sources do not count: anyone can put one of any time into a vault, and ours must not follow it.
    believed = not session.trust.pins or state.proven
    if believed:
        seen |= {state.written, state.pointer.went_back_from}
        seen |= {entry.snapshot_id for entry in state.pointer.catalog.front}
    if state.files is not None:
        seen |= {entry.snapshot_id for entry in state.entries} if session.trust.pins else state.files.ids
    # Only from a believed pointer: else one that was garbled once would look like an older one put back.
    previous = state.previous if believed else None
    chain, lock = (None, None) if parent is None else (parent.chain, parent.lock)
    write = builder(session, session.format, chain, lock)
    mine = new_id(session.now(), session.token(), filter(None, seen))
    _compare_sizes(job, state, parent, mine)
    built = write(
        job.memory if job.memory is not None and write is not build_parts else job.all_documents(),
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
    session.newest[job.label] = mine
    return built


async def _publish(
    job: Job, state: State, built: BuiltSnapshot, stream: str, inherited: Sequence[str]
) -> Published | None:
    """List the snapshot, and make it the latest unless another client's is; None if it has to be made anew."""
    session, mine = job.session, built.info.snapshot_id
    before, given_up = state, False

    async def change(now: State) -> Move | None:
        nonlocal given_up
        if now is not before:
            # Other clients may have removed it as a leftover, or have begun the label at the same moment.
            given_up = not still_there(now, mine, [*built.files, *inherited])
            if given_up:
                return None
            follow = now.follow
            # A snapshot that existed before became the latest by a deletion, which is no conflict.
            if (
                follow is not None
                and follow not in (job.latest, mine, *job.basis.own, *session.home(job.label).read().own)
                and state.entry(follow) is None
            ):
                if await job.is_equal(now.entry(follow)):
                    job.known.add(follow)
                else:
                    job.theirs = follow
                if job.merges:
                    given_up = True
                    return None
            given_up = now.doubt is None and now.pointer.stream not in (None, stream)
            if given_up:
                return None
            await plan_retention(job, now, built)
        follow = None if now.doubt else now.follow
        # The pointer never moves to an older snapshot.
        refused = follow is not None and (job.is_refused or id_order(mine) < id_order(follow))
        removed = job.planned.removed if job.planned is not None else ()
        lost = None if refused else _find_lost(job, now, built)
        rows = _rows_with(job, now, built, lost=lost, refused=refused)
        unmerged = job.unmerged(now, mine, refused=refused)
        sizes = None if refused else _doc_bytes(job, built)
        return Move(follow if refused else mine, rows, removed, doc_bytes=sizes, unmerged=unmerged)

    try:
        done = await publish(session, state, change, signer=job.signer, lenient=True, doubted=True)
    except QuotaExceeded as error:
        await give_up(session, built, error)
        raise
    except Unanswered as error:
        msg = f"snapshot {mine} of label {job.label!r} is stored, but may or may not be the latest now"
        hint = Hint("list_snapshots", label=job.label)
        raise BackupUncertain(f"{msg}: {error}; saving again is safe", snapshot_id=mine, hint=hint) from error
    except ConflictDetected as error:
        msg = f"{error.message}: snapshot {mine} is stored, but it is not the latest"
        raise ConflictDetected(msg, theirs=error.theirs, snapshot_id=mine) from error
    except VaultError as error:
        failure = f"snapshot {mine} is stored, but the pointer of label {job.label!r} was not moved to it"
        raise to_public(error, failure) from error
    return None if given_up else done


async def give_up(session: Session, built: BuiltSnapshot, why: ColonyMemoryError | None = None) -> None:
    """Take back a snapshot that others may have seen; others may have built on a chain, so it is properly deleted."""
    if built.info.format == FORMAT:
        await discard(session, built, why)
        return
    from colony_memory._engine.prune import delete_snapshot

    try:
        await delete_snapshot(session, label=built.info.label, snapshot_id=built.info.snapshot_id, sweeps=False)
    except ColonyMemoryError as error:
        log(f"snapshot {built.info.snapshot_id} was given up, and could not be removed: {message_of(error)}")


def _compare_sizes(job: Job, state: State, parent: Parent | None, mine: str) -> None:
    """Find what is ruined of the latest, and measure both memories, as far as known without reading the latest."""
    pointer, latest, before = state.pointer, state.follow, dict[str, int]()
    entry = pointer.entry(latest) if latest is not None and latest == pointer.snapshot_id else None
    if parent is not None and parent.snapshot_id == latest:
        before = _bytes_in(parent.chain.state)
    elif entry is not None and len(entry.info.doc_names) == len(pointer.doc_bytes):
        before = dict(zip(entry.info.doc_names, pointer.doc_bytes, strict=True))
    memory, texts = job.memory, job.documents
    job.sizes = {printable(key): document_bytes(texts[key]) for key in texts} if memory is None else _bytes_in(memory)
    contents: Mapping[str, str | bytes] = texts if memory is None else memory.contents
    hollow = [name for name in map(printable, filter(contents.get, contents)) if job.sizes.get(name) == 0]
    job.ruined, job.ruined_since = find_ruined(before, job.sizes, hollow), latest
    known = {mine: job.sizes} if len(job.sizes) == len(contents) else {}  # two names may be printed alike
    known |= {latest: before} if latest and before and entry and entry.info.doc_count in (None, len(before)) else {}
    job.session.texts[job.label] = {snapshot_id: measure_texts(sizes) for snapshot_id, sizes in known.items()}


def _bytes_in(memory: Memory) -> dict[str, int]:
    """Bytes of each document by printable name, 0 if it holds only NUL."""
    return {printable(name): 0 if memory.is_empty(name) else size for name, size in memory.sizes.items()}


def _doc_bytes(job: Job, built: BuiltSnapshot) -> tuple[int, ...] | None:
    """Document sizes for the pointer, so that the next save need not read this snapshot; None if there are too many."""
    names = built.listed.doc_names
    return tuple(job.sizes[name] for name in names) if 0 < len(names) <= _MOST_SIZES else None


def _find_lost(job: Job, state: State, built: BuiltSnapshot) -> tuple[Entry, Shrink] | None:
    """The latest, if this snapshot lost most of it, or documents of it are ruined while others are whole; else None."""
    latest = state.entry(state.follow)
    if latest is None or latest.snapshot_id == built.info.snapshot_id:
        return None
    ruined = bool(job.ruined) and job.ruined_since == latest.snapshot_id
    if not ruined and not shrank(job.session, built.info, job.session.known_info(latest)):
        return None
    return latest, Shrink(created(built.info), ruined)


async def plan_retention(job: Job, state: State, built: BuiltSnapshot) -> None:
    job.planned = None
    if job.policy is None or state.doubt is not None:
        return
    if built.info.incomplete:
        # An incomplete snapshot does not count as good, so the newest that does must be proven to restore.
        state, _ = await newest_good(job.session, state)
    job.planned = await plan_for(
        job.session,
        state,
        job.policy,
        new=built.info,
        spoils=bool(job.ruined),
        refused=job.is_refused,
        unmerged=job.unmerged(state, built.info.snapshot_id, refused=job.is_refused),
    )


def _rows_with(
    job: Job, state: State, built: BuiltSnapshot, *, lost: tuple[Entry, Shrink] | None = None, refused: bool = False
) -> Iterable[Entry]:
    """The catalogue with the new snapshot and a note of what it lost, without those that the retention removes."""
    info = replace(built.listed, refused=True) if refused else built.listed
    row = Entry(info, built.manifest_sha256, packs=built.packs, base_files=built.base_files)
    if state.files is None:
        grown = state.pointer.catalog.adding(row)
        return grown if lost is None else grown.adding(note_shrink(*lost))
    shrinks = {} if lost is None else {lost[0].snapshot_id: lost[1]}
    others = (entry for entry in state.building if entry.snapshot_id != row.snapshot_id)
    rows = [*(note_shrink(entry, shrinks.get(entry.snapshot_id)) for entry in others), row]
    return job.planned.rows(rows) if job.planned is not None else rows


def needed_bytes(job: Job, state: State, built: BuiltSnapshot) -> int:
    pointer = state.pointer.follow(
        built.info.snapshot_id,
        updated_at=job.session.stamp(),
        entries=_rows_with(job, state, built),
        stream="0" * 16,
        doc_bytes=_doc_bytes(job, built),
    )
    size = len(write_pointer(pointer)) + (_SIGNATURE_CHARS if job.signer else 0)
    return built.info.stored_bytes + max(0, size - len(state.text or ""))


async def _make_room(job: Job, state: State, built: BuiltSnapshot) -> State:
    """Refuse before the first write what cannot fit; with a retention, first delete to make room. Returns the state."""
    session, label = job.session, job.label
    await plan_retention(job, state, built)
    # Old leftovers go first, then snapshots that the retention removes, then the oldest that it keeps, no more than
    # needed. Age is told by the vault's clock: where no newer file shows it, the pointer is rewritten, which fits.
    free = await free_bytes(session)
    if free is None or (need := needed_bytes(job, state, built)) <= free:
        return state
    if job.policy is not None and ages(session, state) and await touch(session, state):
        state = await look(session, label, everything=True, lenient=True)
    planned, victims = await choose_victims(job, state, built, need, free)
    reasons = {key: "the latest is not based on it" for key in planned.unmerged if key in victims}
    reasons |= {key: "a much smaller one followed" for key in victims if key in planned.shrunk}
    for key, why in reasons.items():
        warn(f"the vault is full: snapshot {key} of label {label!r} is removed, though {why}")

    async def withdraw(now: State) -> Move:
        return Move(now.follow, [row for row in now.building if row.snapshot_id not in victims], victims)

    if victims:
        state = (await publish(session, state, withdraw, lenient=True)).state
    await remove_snapshots(session, state.listed, victims, needs=state.needs)
    free_now = await free_bytes(session)
    if free_now is not None and need > free_now:
        raise no_room(need, free_now, f"a snapshot of label {label!r}", label, keep=0)
    state = await look(session, label, everything=True, lenient=True)
    await plan_retention(job, state, built)
    wanted, kept = len(planned.plan.keep), 0 if job.planned is None else len(job.planned.plan.keep)
    if victims and wanted > kept > 0:
        what = f"of the {wanted} snapshots of label {label!r} that the retention keeps, only {kept} fit"
        warn(f"the vault is full: {what}", hint=Hint("status"))
    return state


async def choose_victims(
    job: Job, state: State, built: BuiltSnapshot, need: int, free: int
) -> tuple[Planned, list[str]]:
    """The plan, and the snapshots to delete for room besides old leftovers. Raises QuotaExceeded if all are too few."""
    session, what = job.session, f"a snapshot of label {job.label!r}"
    if job.policy is None:
        state = await list_files(session, state)
        later = state.listed.as_of(session.now() + 2 * GRACE)  # what a prune may not delete yet goes with the next one
        for keep in range(min(5, len(state.counted)), 0, -1):
            removed = (await plan_for(session, state, Retention(keep_last=keep))).removed
            if need <= free + await bytes_freed(session, later, removed, needs=state.needs):
                raise no_room(need, free, what, job.label, keep=keep)
        raise no_room(need, free, what, job.label, keep=0)
    planned = await plan_for(session, state, job.policy, new=built.info, spoils=bool(job.ruined))
    candidates = await planned.may_go(session, state)
    for number in range(len(candidates) + 1):
        if need <= free + await bytes_freed(session, state.listed, candidates[:number], needs=state.needs):
            return planned, candidates[:number]
    raise no_room(need, free, what, job.label, keep=0)


async def _retire(job: Job, done: Published) -> None:
    """Delete snapshots that the retention removed, as far as the hour's operations allow; the backup itself is done."""
    if job.planned is None:
        return
    removed, operations = job.planned.removed, await job.session.vault.number("operations_left")
    # Operations that the next backup needs are not spent on deleting.
    spare = None if operations is None else max(0, operations - 3)
    try:
        await remove_snapshots(job.session, done.state.listed, removed, needs=done.state.needs, spare=spare)
    except ColonyMemoryError as error:
        why = f"older snapshots could not be removed; the next one tries again: {message_of(error)}"
        if isinstance(error.__cause__ if isinstance(error, PruneIncomplete) else error, VaultDenied):
            why = (
                f"these credentials may not delete: {', '.join(sorted(removed))} of label {job.label!r} left the "
                "list, but the files stay until prune is run with the right to delete"
            )
        warn(f"the backup is done, but {why}")
