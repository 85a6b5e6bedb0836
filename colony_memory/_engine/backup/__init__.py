"""backup: save a memory as a new snapshot, parts, manifest, then pointer, unless the latest is equal to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from colony_memory._engine.backup.job import Job, Unread, check_arguments, compare, conflict, find_stored, merge_theirs
from colony_memory._engine.backup.save import (
    build,
    choose_victims,
    needed_bytes,
    parent_of,
    plan_retention,
    save_snapshot,
)
from colony_memory._engine.basis import is_conflict
from colony_memory._engine.files import free_bytes, require_sizes
from colony_memory._engine.load import restores
from colony_memory._engine.observe import observed, saved
from colony_memory._engine.session import Session, warn
from colony_memory._engine.state import State, list_files, look, tell
from colony_memory._format import FORMAT_2
from colony_memory._format.json import exact_documents
from colony_memory._format.v2.state import EMPTY
from colony_memory._format.v2.zstd import WANTED, is_readable
from colony_memory._values import Value, replace
from colony_memory.exceptions import ColonyMemoryError, Hint, QuotaExceeded, VaultError, message_of

if TYPE_CHECKING:
    from colony_memory.signing import Signer
    from colony_memory.snapshot import SnapshotInfo

_TRIES = 3


@observed("backup", saved)
async def backup(
    session: Session,
    /,
    documents: dict[str, str] | Unread,
    *,
    signer: Signer | None = None,
    skip_unchanged: bool = True,
    tree: str = "",
    **options: Any,
) -> SnapshotInfo:
    """See :meth:`colony_memory.ColonyMemory.backup`; ``tree`` is the digest of the documents, if known."""
    label, policy, facts = check_arguments(**options)
    unread = documents if isinstance(documents, Unread) else None
    exact = {} if isinstance(documents, Unread) else exact_documents(documents)
    encrypts = session.recipients is not None
    if not session.vault.conditional and (encrypts or session.format == FORMAT_2):
        what = "an encrypted snapshot is of format 2, and that" if encrypts else "format 2"
        raise ColonyMemoryError(f"{what} needs a vault with conditional writes, and this one has none")
    signer, on_conflict = signer or session.signer, options.get("on_conflict", "raise")
    tree = tree if unread is None else unread.tree
    job = Job(session, label, exact, signer, policy, on_conflict, facts, tree=tree, unread=unread)
    session.trust.check_signer(job.issuer)
    async with session.writing(label):
        return await _backup(job, skip_unchanged=skip_unchanged)


async def _backup(job: Job, *, skip_unchanged: bool) -> SnapshotInfo:
    session, label, policy = job.session, job.label, job.policy
    state = await look(session, label, everything=policy is not None, lenient=True, newer=False)
    if policy is None and state.pointer.entries is None and not state.first:
        state = await look(session, label, everything=True, lenient=True)  # the pointer has no catalogue
    _warn_of_doubt(job, state)
    _warn_if_weaker(job, state)
    if job.unread is not None:
        state, same = await _unchanged_tree(job, state) if skip_unchanged else (state, None)
        if same is not None:
            return replace(same, reused=True)
        parent = await parent_of(session, state) if job.unread.digests else None
        await job.read(EMPTY if parent is None else parent.chain.state)
        if parent is not None:
            session.parents[label] = parent
    for attempt in range(_TRIES):
        state = await compare(job, state)
        if skip_unchanged and state.doubt is None:
            state, same = await _unchanged(job, state)
            stored = same or await find_stored(job, state)
            if stored is not None:
                return replace(stored, reused=True, diverged_from=job.theirs)
        if session.lacks_zstd and not attempt:
            warn(f"saving in format 1: this vault is for format 2, which needs {WANTED}")
        info = await (_save_merged(job, state) if job.merges else save_snapshot(job, state))
        if info is not None and job.is_refused:
            raise conflict(job, info.snapshot_id)
        if info is not None:
            return info
        state = await look(session, label, everything=True, lenient=True)
    msg = f"label {label!r} kept changing, or writing took too long, so nothing was saved"
    raise VaultError(msg, hint=Hint("backup", label=label))


async def _unchanged_tree(job: Job, state: State) -> tuple[State, SnapshotInfo | None]:
    """The basis, if an unread memory still has its tree, so that nothing is to be saved; and the state looked at."""
    basis, latest = job.session.home(job.label).read(), state.follow
    if not job.tree or job.tree != basis.tree or basis.reverted or state.doubt or latest is None:
        return state, None
    if latest == basis.snapshot_id:
        return await _unchanged(job, state)
    state = await list_files(job.session, state)
    listed, latest = state.lists(basis.snapshot_id), state.follow
    own, theirs = state.entry(basis.snapshot_id), state.entry(latest)
    if own is None or theirs is None or not listed or not is_conflict(basis, latest, listed=listed):
        return state, None
    if theirs.info.plaintext_sha256 in ("", own.info.plaintext_sha256):
        return state, None  # the latest may turn out equal
    return state, replace(job.session.known_info(own), diverged_from=latest)


async def _save_merged(job: Job, state: State) -> SnapshotInfo | None:
    """Save this memory, as the ancestor for the next merge, then both merged into one; None to start over."""
    merged, equal = await merge_theirs(job, state)
    latest = state.entry(job.theirs)
    if merged is None:
        return await save_snapshot(job, state)
    if latest is not None and equal:
        return replace(job.session.known_info(latest), reused=True, diverged_from=job.theirs)
    known = {*job.known, str(job.theirs)}
    if merged.documents == job.all_documents():
        job.known = known
        return await save_snapshot(job, state)
    if job.stored is None:
        info = await save_snapshot(replace(job, on_conflict="raise"), state)
        if info is None:
            return None
        job.stored = info.snapshot_id
        state = await look(job.session, job.label, everything=job.policy is not None, lenient=True, newer=False)
        if state.follow != job.theirs:
            return None
    both = replace(job, documents=merged.documents, memory=None, merged=tuple(merged.copies.values()), tree="")
    return await save_snapshot(replace(both, combined=True, known={*known, job.stored}), state)


def _warn_of_doubt(job: Job, state: State) -> None:
    """Warn of a doubt about the label; unsaved memory would be lost, so the backup goes on."""
    why = _doubt(job, state)
    if why is not None:  # one more backup onto a rollback loses nothing, as nothing is removed
        warn(f"{why}. The backup is made{', and nothing is removed' if job.policy else ''}")
        job.policy = None
    elif state.proven:
        tell(state)  # now, as the new pointer hides the cause


def _doubt(job: Job, state: State) -> str | None:
    doubt = state.doubt
    if state.witness_error is not None or doubt is not None:
        return state.witness_error or message_of(doubt)  # type: ignore[arg-type] # one of them is set
    cut = job.policy is not None and not state.listed.complete
    return f"the vault's list of label {job.label!r} is cut short" if cut else None


def _warn_if_weaker(job: Job, state: State) -> None:
    latest, until = state.entry(state.follow), f"label {job.label!r} was {{}} until now, and this snapshot is not: "
    if job.signer is None and state.signed:
        hint = Hint("backup", "signer", label=job.label)
        warn(until.format("signed") + "clients that trust the signer refuse it, and the pointer to it", hint=hint)
    if job.session.recipients is None and latest is not None and latest.info.encrypted:
        warn(until.format("encrypted") + "whoever has access to the vault can read it", hint=Hint("open", "encrypt_to"))


async def _unchanged(job: Job, state: State) -> tuple[State, SnapshotInfo | None]:
    """The latest, if it is whole and equal to this memory under the same trust; and the state looked at for that."""
    session, latest = job.session, state.follow
    named = state.written if session.trust.accept_legacy_pointer else state.pointer.snapshot_id
    entry = state.entry(latest) if named == latest else None  # else the pointer has to be written anew
    if latest is None or entry is None or not await job.holds(entry):
        return state, None
    listed = await list_files(session, state)
    if listed.doubt is not None:
        # A copy that a restore refuses does not count as saved.
        _warn_of_doubt(job, listed)
        return listed, None
    summary = next((info for info in listed.summaries if info.snapshot_id == latest), None)
    if summary is None or not is_readable(summary.format):  # this client cannot prove that it restores
        return state, None
    if not session.knows_good(job.label, latest):
        problem = await restores(session, job.label, latest)
        if problem is not None:
            warn(f"the memory is unchanged, but its stored copy is damaged, so it is saved anew: {problem}")
            return state, None
    await job.note_saved(summary.snapshot_id, state)
    return state, session.known_info(entry, summary)


class Plan(Value):
    info: SnapshotInfo  # the snapshot as it would be; its id is made up
    unchanged: bool  # the latest is equal, so that nothing would be written
    needed_bytes: int  # bytes that it would take in the vault
    available_bytes: int | None  # free bytes in the vault, None where it does not tell
    problem: str | None = None  # why it would not fit, None where it would
    removed: tuple[str, ...] = ()  # ids of the snapshots that the retention would remove

    def __bool__(self) -> bool:
        return self.problem is None


async def plan_backup(session: Session, /, documents: dict[str, str], *, damaged: bool = False, **options: Any) -> Plan:
    """Do all of a backup but the writing; ``damaged``: the latest cannot be read, so equal memory is saved anew."""
    session = session.unnoticed()
    label, policy, facts = check_arguments(**options)
    job = Job(session, label, exact_documents(documents), session.signer, policy, "raise", facts)
    session.trust.check_signer(job.issuer)
    state = await look(session, label, everything=True, lenient=True)
    if _doubt(job, state) is not None:
        job.policy = None
    parent = await parent_of(session, state)
    built = await session.vault.compute(build, job, state, session.stream(label), parent)
    entry, free = state.entry(state.follow), await free_bytes(session)
    if entry is not None and state.doubt is None and not damaged and await job.holds(entry):
        return Plan(built.info, True, 0, free)
    # Judge ages as the pointer's next write will make the vault show them.
    state = replace(state, files=state.listed.as_of(session.now()))
    await plan_retention(job, state, built)
    needed, victims, problem = needed_bytes(job, state, built), list[str](), None
    try:
        require_sizes(built.files, f"a snapshot of label {label!r}")
        if free is not None and needed > free:
            _, victims = await choose_victims(job, state, built, needed, free)
    except QuotaExceeded as error:
        problem = message_of(error)
    removed = job.planned.removed if job.planned is not None else ()
    return Plan(built.info, False, needed, free, problem, tuple(dict.fromkeys((*victims, *removed))))
