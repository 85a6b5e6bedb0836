"""One backup: its arguments, the snapshots that it is based on, and its conflicts with other clients' saves."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from colony_memory._boundary import require_text, texts
from colony_memory._engine import basis as events
from colony_memory._engine.basis import Basis, MemoryHome, is_conflict, settled, substituted, with_merged
from colony_memory._engine.keep import Planned, policy_of
from colony_memory._engine.load import UNREADABLE, load, restores, unsealed_info, would_do
from colony_memory._engine.observe import observed
from colony_memory._engine.session import Session, warn
from colony_memory._engine.state import State, list_files, look
from colony_memory._format import FORMAT_2
from colony_memory._format.catalog import Entry, few_lines
from colony_memory._format.json import exact_documents, printable
from colony_memory._format.lineage import Lineage, Unmerged, ancestors, merge_base, stand_ins, still_unmerged
from colony_memory._format.manifest import MAX_NOTE, check_tags
from colony_memory._format.names import id_order, require_id, require_label
from colony_memory._format.payload import tree_of
from colony_memory._format.record import lacks_text
from colony_memory._values import Record, Value, field
from colony_memory.exceptions import ConflictDetected, DecryptionError, Hint, message_of
from colony_memory.signing import Signer, did_key_of
from colony_memory.snapshot import SnapshotInfo, digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from colony_memory._format.v2.state import State as Memory
    from colony_memory.reports import Merged
    from colony_memory.retention import Retention

_CONFLICT = ("raise", "continue", "merge")


def check_arguments(
    *,
    label: str = "default",
    prune_keep: int | None = None,
    retention: Retention | None = None,
    on_conflict: str = "raise",
    note: str | None = None,
    incomplete: Iterable[str] | None = None,
    tags: str | Iterable[str] = (),
) -> tuple[str, Retention | None, dict[str, Any]]:
    """Check arguments; returns the label, the retention, None to remove nothing, and other facts for the manifest."""
    label = require_label(label)
    if on_conflict not in _CONFLICT:
        raise ValueError(f"on_conflict must be one of {', '.join(map(repr, _CONFLICT))}, not {on_conflict!r}")
    if note is not None and len(require_text("note", note)) > MAX_NOTE:
        raise ValueError(f"note must have at most {MAX_NOTE} characters, not {len(note)}")
    if isinstance(incomplete, str):
        raise ValueError("incomplete must be lines, not one string")  # noqa: TRY004 - one type for bad arguments
    lines = tuple(texts("incomplete", incomplete or ()))
    return label, policy_of(prune_keep, retention), {"note": note, "incomplete": lines, "tags": check_tags(tags)}


class Unread(Value):
    """A memory whose text is not read as long as its tree suffices."""

    tree: str  # digest of its names and their contents
    read: Callable[[], tuple[dict[str, str], Iterable[str]]]  # returns its documents, and lines on omitted files
    digests: Mapping[str, str] = field(default_factory=dict)  # digests of contents, by name, as far as they are known
    fresh: Mapping[str, str | bytes] = field(default_factory=dict)  # contents that were read all the same


class Job(Record):
    session: Session
    label: str
    documents: dict[str, str]  # the memory to save; empty while memory has it, see all_documents
    signer: Signer | None  # signs the snapshot
    policy: Retention | None  # snapshots to keep, None to remove nothing
    on_conflict: str  # raise, continue or merge
    facts: Mapping[str, Any]  # note, tags and incomplete lines for the manifest
    basis: Basis = field(default_factory=Basis)  # the memory's basis, as it was when compared with the latest
    latest: str | None = None  # the latest snapshot at that time
    theirs: str | None = None  # another writer's latest, which makes a conflict; None where there is none
    passed_over: str | None = None  # a latest that is overtaken without a basis, and has text missing here
    known: set[str] = field(default_factory=set)  # snapshots, besides the basis, that the memory is based on
    stored: str | None = None  # an own snapshot, equal to this memory, that met a conflict
    merged: tuple[str, ...] = ()  # names under which the other writer's text is kept next to our own
    combined: bool = False  # saves this memory merged with the other writer's, a text that no memory is based on
    planned: Planned | None = None  # the retention's decision
    as_base: bool = False  # saved whole, as the parent is gone
    ruined: tuple[str, ...] = ()  # documents of the latest snapshot that are ruined in this memory
    ruined_since: str | None = None  # id of that snapshot
    sizes: Mapping[str, int] = field(default_factory=dict)  # bytes of each document of this memory, 0 if all NUL
    tree: str = ""  # digest of the caller's memory, empty until it is needed
    unread: Unread | None = None  # the caller's memory while it is not read, None once it is
    memory: Memory | None = None  # the memory in bytes, None where it was given as documents
    _digest: str = field(default="", init=False)

    def all_documents(self) -> dict[str, str]:
        if self.memory is not None and not self.documents:
            self.documents = self.memory.documents()
        return self.documents

    async def read(self, below: Memory) -> None:
        """Read the memory, unless that is done; texts that the parent's memory, ``below``, has are taken from there."""
        if self.unread is not None and self.unread.digests and self.session.format == FORMAT_2:
            unread = self.unread
            self.memory = await self.session.vault.compute(below.with_contents, unread.digests, unread.fresh)
            self.unread = self.unread if self.memory is None else None
        if self.unread is not None:
            documents, lines = await self.session.vault.compute(self.unread.read)
            self.documents = exact_documents(documents)
            # Files may have changed meanwhile, so the tree and the lines found before no longer hold.
            self.facts, self.unread, self.tree = {**self.facts, "incomplete": tuple(lines)}, None, ""

    @property
    def issuer(self) -> str | None:
        return None if self.signer is None else did_key_of(self.signer)

    @property
    def without_basis(self) -> bool:
        """True if the memory has no basis, or only a noted one that it did not hold and that is still the latest."""
        return not self.basis or (self.basis.not_held and self.latest in self.basis.own)

    def based_on(self, state: State) -> tuple[str, ...]:
        basis = self.basis
        own = () if self.combined else (*basis.known, *basis.merged)
        listed = {key for key in own if key == basis.snapshot_id or state.lists(key)}
        return tuple(sorted(self.known | listed, key=id_order))

    def unmerged(self, state: State, snapshot_id: str, *, refused: bool) -> tuple[Unmerged, ...]:
        based_on, stamp = self.based_on(state), self.session.stamp()
        overtaken = self.theirs or self.passed_over
        new = [Unmerged(snapshot_id, stamp, refused=True)] if refused else []
        if not refused and overtaken is not None and overtaken not in based_on:
            new.append(Unmerged(overtaken, stamp, without_basis=self.without_basis))
        return still_unmerged(state.unmerged, now=self.session.now(), new=new, based_on=based_on)

    def lineage(self, state: State, snapshot_id: str) -> Lineage:
        return Lineage(
            self.based_on(state),
            self.session.origin(self.label),
            refused=self.is_refused,
            unmerged=self.unmerged(state, snapshot_id, refused=self.is_refused),
        )

    @property
    def is_refused(self) -> bool:
        """True if another writer's snapshot is the latest and stays so."""
        return self.theirs is not None and self.on_conflict == "raise"

    @property
    def merges(self) -> bool:
        """True if the memory is to be merged with another writer's."""
        return self.theirs is not None and self.on_conflict == "merge"

    async def holds(self, entry: Entry) -> bool:
        """True if a snapshot holds exactly these documents, by the same issuer, and is as complete."""
        info = await unsealed_info(self.session, self.label, entry)
        if info is None or info.issuer != self.issuer or not would_do(self.session, entry):
            return False
        # Compared as a catalogue abridges them; a folder's documents tell the rest.
        if few_lines(info.incomplete) != few_lines(tuple(map(printable, self.facts["incomplete"]))):
            return False
        if self.facts["note"] not in (None, info.note) or not set(self.facts["tags"]).issubset(info.tags):
            return False
        if self.unread is not None:
            return self.session.home(self.label).read().snapshot_id == info.snapshot_id
        return bool(info.plaintext_sha256) and await self.is_equal(entry)  # without a digest, equality is unknown

    async def is_equal(self, entry: Entry | None) -> bool:
        """True if a snapshot is known to hold equal memory, whoever wrote it."""
        info = await unsealed_info(self.session, self.label, entry)
        if info is not None and self.tree and self.basis.tree and info.snapshot_id == self.basis.snapshot_id:
            return self.tree == self.basis.tree
        if info is None or not info.plaintext_sha256:
            return False
        if not self._digest:
            self._digest = await self.session.vault.compute(digest, self.all_documents())
        return self._digest == info.plaintext_sha256

    async def note_saved(self, snapshot_id: str, state: State) -> None:
        self.tree = self.tree or await self.session.vault.compute(tree_of, self.all_documents())
        shown = {*state.shown, snapshot_id}
        self.note(events.saved, snapshot_id, stream=state.stream, tree=self.tree, listed=shown)

    def note(self, event: Callable[..., Basis], *facts: Any, **more: Any) -> None:
        """Apply an event to the basis and keep the result. A merged save is no event: no memory holds its text."""
        if self.combined:
            return
        home = self.session.home(self.label)
        before = home.read()
        after = event(before, *facts, **more)
        if after != before:
            home.write(after)


async def compare(job: Job, state: State) -> State:
    """Compare the memory's basis with the latest snapshot, before anything is written."""
    home_basis = job.session.home(job.label).read()
    basis = settled(home_basis, state.follow, stream=state.stream, listed=state.shown)
    if basis and state.follow not in basis.own:
        # This opens every page of the catalogue, so only where the latest is not our own.
        newest = state.entry(state.follow)
        basis = substituted(basis, stand_ins([*state.infos, *([] if newest is None else [newest.info])]))
    if basis and state.follow not in basis.own:
        # A pointer may name a snapshot that does not exist, which is no conflict.
        state = await list_files(job.session, state)
    job.basis, job.latest, job.known = basis, state.follow, set()
    job.theirs = job.passed_over = job.stored = None
    latest = state.follow
    if latest is None or state.doubt:
        return state
    if await job.is_equal(state.entry(latest)):
        job.known.add(latest)  # equal memory is no conflict
    elif job.without_basis:
        await _go_on_without_basis(job, state, latest)
    elif is_conflict(basis, latest, listed=state.lists(basis.snapshot_id)):
        job.theirs = latest
    elif latest not in basis.own and any(item.snapshot_id == latest for item in state.unmerged):
        # The newest was deleted, and a snapshot that it was not based on is the latest again.
        await _warn_if_lacking(job, latest)
    return state


async def _go_on_without_basis(job: Job, state: State, latest: str) -> None:
    """The save becomes the latest. By value, a host is one writer; text that only another's has is warned of."""
    origin, entry = job.session.origin(job.label), state.entry(latest)
    if isinstance(job.session.home(job.label), MemoryHome):
        rows = ((item, state.entry(item.snapshot_id)) for item in state.unmerged)
        own = [(item, row) for item, row in rows if row is not None and row.info.origin == origin]
        same = (row.snapshot_id for row in state.rows if row.info.origin == origin and not row.info.refused)
        job.known |= {*islice(same, 1), *(item.snapshot_id for item, _ in own)}
        if entry is not None and entry.info.origin == origin:
            for item, row in own if job.on_conflict == "merge" else ():
                # An earlier process of this host met that conflict, and stored equal memory.
                if item.refused and await job.is_equal(row):
                    job.theirs, job.stored, job.known = latest, item.snapshot_id, set()
            return
    await _warn_if_lacking(job, latest)
    if job.passed_over is not None and job.on_conflict == "merge":
        job.theirs, job.passed_over = latest, None


async def _warn_if_lacking(job: Job, latest: str) -> None:
    """Count the save as based on the latest if it has all text of that; else warn that it takes its place."""
    label = job.label
    try:
        lacking = lacks_text(job.all_documents(), (await load(job.session, label, latest)).documents)
        why, hint = "has text that this memory lacks", Hint("merge", "snapshot_id", latest, label=label)
    except UNREADABLE as error:
        # There is nothing to merge with.
        lacking, why, hint = True, f"cannot be read here ({message_of(error)})", None
    if not lacking:
        job.known.add(latest)
        return
    job.passed_over = latest
    if job.on_conflict == "raise":  # else the caller asked for it, and diverged_from of the result tells
        warn(
            f"this memory is not based on snapshot {latest} of label {label!r}, which {why}: this save is now the "
            "latest, and that snapshot stays listed for 30 days",
            hint=hint,
        )


async def find_stored(job: Job, state: State) -> SnapshotInfo | None:
    """An own snapshot equal to this memory, below another's; ConflictDetected if it is refused and not merged."""
    basis = job.basis
    if job.theirs is None or basis.reverted:
        return None
    for key in ancestors(state.infos, job.theirs)[0].intersection(basis.refused) if job.on_conflict == "raise" else ():
        entry = state.entry(key) if state.lists(key) else None
        if entry is not None and await job.holds(entry) and await restores(job.session, job.label, job.theirs) is None:
            return job.session.known_info(entry)
    for key in basis.own - {job.theirs}:
        entry = state.entry(key) if state.lists(key) else None
        if entry is None or entry.info.refused or not await job.is_equal(entry):
            continue
        # If it is damaged, this memory is saved nowhere.
        if job.session.knows_good(job.label, key) or await restores(job.session, job.label, key) is None:
            return job.session.known_info(entry)
    stored = await _stored_refused(job, state) if job.on_conflict == "raise" else None
    if stored is not None:
        raise conflict(job, stored)
    return None


async def _stored_refused(job: Job, state: State) -> str | None:
    for key in (*job.basis.refused, *job.basis.pending):
        entry = state.entry(key) if state.lists(key) else None
        if entry is not None and await job.is_equal(entry):
            return key
    return None


def conflict(job: Job, mine: str) -> ConflictDetected:
    return ConflictDetected(
        f"another client saved snapshot {job.theirs} of label {job.label!r}, which this memory is not based on: yours "
        f"is stored and listed as {mine}, and the latest is theirs",
        theirs=job.theirs,
        snapshot_id=mine,
        hint=Hint("backup", "on_conflict", "merge", label=job.label),
    )


async def merge_theirs(job: Job, state: State) -> tuple[Merged | None, bool]:
    """The memory merged with the latest, None with a warning if that is unreadable; and if the two are equal."""
    theirs = str(job.theirs)
    try:
        documents = (await load(job.session, job.label, theirs)).documents
    except UNREADABLE as error:
        # If it only cannot be decrypted, its text may exist nowhere else: it stays the latest, and ours is refused.
        closed = isinstance(error, DecryptionError)
        what = "is not merged, and stays the latest" if closed else "could not be merged, and is passed over"
        warn(f"snapshot {theirs} of label {job.label!r} {what}: {message_of(error)}")
        job.on_conflict = "raise" if closed else "continue"
        return None, False
    job.stored = job.stored or await _stored_refused(job, state)
    own = {*job.basis.known, *filter(None, (job.stored,))}
    merged = await _merge(job.session, state, own, job.all_documents(), documents, name=theirs)
    return merged, merged.documents == documents


async def _merge(
    session: Session, state: State, own: Iterable[str], ours: dict[str, str], theirs: dict[str, str], *, name: str
) -> Merged:
    """Merge over the common ancestor of both sides; over nothing if there is none, or it can no longer be read."""
    from colony_memory._engine.merge import merge

    stand_in = stand_ins(state.infos)
    ancestor, base = merge_base(state.infos, state.unmerged, {stand_in.get(key, key) for key in own}, name), None
    if ancestor is not None:
        with suppress(*UNREADABLE):
            base = (await load(session, state.label, ancestor)).documents
    return await session.vault.compute(merge, base, ours, theirs, theirs_name=name)


@observed("merge")
async def merge_snapshot(session: Session, documents: dict[str, str], *, label: str, snapshot_id: str) -> Merged:
    label, snapshot_id = require_label(label), require_id(snapshot_id)
    documents = exact_documents(documents)
    async with session.writing(label) as home:
        theirs = (await load(session, label, snapshot_id)).documents
        state = await look(session, label, lenient=True, newer=False)
        if state.pointer.entries is None:
            state = await look(session, label, everything=True, lenient=True)
        follow = state.follow
        own = set(settled(home.read(), follow).known)
        latest = await unsealed_info(session, label, state.entry(follow))
        if latest is not None and latest.plaintext_sha256 == await session.vault.compute(digest, documents):
            own.add(latest.snapshot_id)
        merged = await _merge(session, state, own, documents, theirs, name=snapshot_id)
        home.write(with_merged(home.read(), snapshot_id))
        return merged
