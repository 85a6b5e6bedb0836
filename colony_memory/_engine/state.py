"""Looking at a label: what a decision wants is read until it can be made."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from colony_memory._engine.judge import Asked, Decision, Finding, judge
from colony_memory._engine.label import LabelFiles, pin_text, read_end, read_label
from colony_memory._engine.observe import most_held
from colony_memory._engine.session import log, warn
from colony_memory._engine.store import ABSENT, ANY, StoredFile
from colony_memory._format import FORMAT
from colony_memory._format.catalog import weight_of_file
from colony_memory._format.names import id_order, latest_filename, manifest_filename, pin_filename, require_label
from colony_memory._format.pointer import Pointer
from colony_memory._values import dataclass, field, replace
from colony_memory.exceptions import ColonyMemoryError, SnapshotCorrupt, UntrustedSnapshot, VaultError, message_of
from colony_memory.snapshot import Manifest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from colony_memory._engine.session import Session
    from colony_memory._format.catalog import Entry
    from colony_memory._format.lineage import Unmerged
    from colony_memory.snapshot import SnapshotInfo

# How often a label that other clients keep changing is looked at before what it shows then has to do.
_TRIES = 6
# Manifests that are read at once; of others only what they say is kept.
_AT_ONCE = 256
# Pins that are read: whoever can write to the vault can put as many there as they like, and of any size.
_MOST_PINS, _MOST_PIN_BYTES = 100, 10_000
# Bytes of the page files of a catalogue: as many as one may have, of the size that writers give them.
_MOST_PAGES = 16 * 2**20


#: Codes of a vault that has a file and cannot give it, though it can be asked for others.
UNREADABLE = frozenset({"UNFIT_FILE", "ELSEWHERE"})


@dataclass(frozen=True)
class State:
    decision: Decision  # what it is, and whom to follow
    text: str | None  # text of the pointer file, None where it is not there
    match: str  # the condition under which that is still so, for Vault.put
    asked: Asked  # what the decision was asked for
    blind: str | None = None  # why the witness could not be asked, None where it could
    files: LabelFiles | None = None  # its files, where they were listed
    manifests: Mapping[str, Finding] = field(default_factory=dict)  # what was read of manifests, by id
    # The manifest's file of the newest snapshot by name, where it was read for this, and not remembered
    newest: Mapping[str, StoredFile | None] = field(default_factory=dict)
    # Texts of the page files of the catalogue by name, where all of it was looked at, None for what cannot be read
    pages: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def label(self) -> str:
        return self.decision.label

    @property
    def listed(self) -> LabelFiles:
        if self.files is None:
            raise RuntimeError("the label was not listed")
        return self.files

    @property
    def first(self) -> bool:
        return self.text is None and self.files is not None and self.files.complete and not self.files.files

    @property
    def needs(self) -> dict[str, tuple[str, ...]]:
        """Packs that each committed snapshot needs, by id, as the believed pointer or its manifest says; none for one
        of format 1. What is not in it has to be read.
        """
        rows = self.decision.building
        known = {entry.snapshot_id: entry.packs for entry in rows if entry.packs or entry.info.format == FORMAT}
        return {} if self.decision.doubt is not None else known

    @property
    def rows(self) -> Sequence[Entry]:
        """All that is listed, newest first, as far as it was looked at."""
        return self.decision.building if self.files is not None else self.decision.pointer.entries or ()

    @property
    def infos(self) -> list[SnapshotInfo]:
        return [row.info for row in self.rows]

    @property
    def unmerged(self) -> tuple[Unmerged, ...]:
        """The unmerged snapshots by our pointer, else, where an old client wrote it, by our newest manifest."""
        pointer = self.decision.pointer
        if pointer.generation:
            known = {one.snapshot_id for one in pointer.unmerged}
            # What met a conflict and is not listed lost its row to a pointer that another client wrote over it.
            lost = [
                one
                for own, read in self.manifests.items()
                if isinstance(read, Manifest)
                for one in read.lineage.unmerged
                if one.snapshot_id == own and one.refused and own not in known
                if pointer.entry(own) is None and not pointer.took_out(own)
            ]
            return (*pointer.unmerged, *lost)
        ours = [
            read for read in self.manifests.values() if isinstance(read, Manifest) and read.lineage.based_on is not None
        ]
        newest = max(ours, key=lambda manifest: id_order(manifest.info.snapshot_id), default=None)
        return () if newest is None else newest.lineage.unmerged

    @property
    def shown(self) -> frozenset[str]:
        """Ids of the newest snapshots that are listed, as many as it takes no further read to tell."""
        rows = self.decision.building if self.files is not None else self.decision.pointer.catalog.front
        return frozenset((*(row.snapshot_id for row in rows), *filter(None, (self.decision.follow,))))

    def lists(self, snapshot_id: str | None) -> bool:
        """True if a snapshot is listed, as far as it was looked at."""
        if snapshot_id is None:
            return False
        if self.files is not None:
            return snapshot_id in self.files.manifests and not self.decision.pointer.took_out(snapshot_id)
        return self.decision.pointer.entry(snapshot_id) is not None

    @property
    def previous(self) -> dict[str, str] | None:
        """A new manifest's word on the one before: what the pointer names, or nothing where that is not followed."""
        named = self.decision.pointer.snapshot_id
        entry = self.decision.entry(named) if named == self.decision.follow else None
        return None if entry is None else {"snapshot_id": entry.snapshot_id, "manifest_sha256": entry.manifest_sha256}


async def look(
    session: Session,
    label: str,
    *,
    everything: bool = False,
    listed: bool = False,
    verify: bool = True,
    at_least: str | int | None = None,
    lenient: bool = False,
    newer: bool = True,
    unremoved: frozenset[str] = frozenset(),
    files: LabelFiles | None = None,
) -> State:
    """Read the pointer, and what else it takes to judge a label.

    What speaks against the label counts only where the pointer is still the same afterwards: other clients may have
    saved, or deleted, between the reads.

    Args:
        everything: Look at every snapshot.
        listed: List the files in any case.
        verify: Look at signatures.
        at_least: A head that the label must have reached, beside those that were seen.
        lenient: Go on where the witness does not answer.
        newer: Where the pointer has to be proven, look for what is newer than the latest: it may have been put back.
        unremoved: Ids that count as not removed, see :class:`Asked`.
        files: The label in a listing that was made already; it stands only where nothing speaks against the label.
    """
    prefix = f"cmem.{label}."
    for turn in range(_TRIES):
        seen, blind = () if at_least is None else (at_least,), None
        try:  # before the pointer is read: others may move both
            seen = (*await session.seen(label), *seen)
        except ColonyMemoryError as error:
            if not lenient:
                raise
            blind = message_of(error)
        text, match = await read_pointer_file(session, label)
        how = (session.vault.conditional, verify, newer, unremoved)
        asked = Asked(label, session.trust, seen, session.now(), everything, *how)
        shown = files if turn == 0 else None
        if shown is None and (listed or everything):
            shown = read_label(await session.vault.list(prefix), label)
        state = await _decide(
            session, State(Decision(label, None, Pointer(label, None)), text, match, asked, blind), shown
        )
        against = state.decision.refusal or state.decision.rollback or state.decision.problem
        if None in state.pages.values():
            against = against or "a page file of the catalogue is not there"
        if turn == 0 and files is not None and (against or state.decision.broken):
            continue  # the listing is of an earlier moment than the pointer
        if not against or state.first or (await read_pointer_file(session, label))[0] == text:
            break
    decision = state.decision
    if not decision.rollback and not decision.refusal and decision.head:
        # Whoever proves a pointer notes its head.
        await session.note(label, decision.pointer, proven=decision.proven)
    return state


async def read_pointer_file(session: Session, label: str) -> tuple[str | None, str]:
    """The text of the pointer, None where it is not there, and the condition under which that is still so."""
    file = await session.vault.get(latest_filename(label))
    return (None, ABSENT) if file is None else (file.content, file.etag or ANY)


async def _decide(session: Session, state: State, files: LabelFiles | None) -> State:
    label, manifests, stored = state.asked.label, dict[str, Finding](), dict[str, StoredFile | None]()
    files = None if files is None else await _with_ends(session, files)
    pages = dict(state.pages)
    decision = judge(state.asked, state.text, files, manifests, pages)
    while decision.wants is not None:
        if decision.wants.listing:
            files = await _with_ends(session, read_label(await session.vault.list(f"cmem.{label}."), label))
        pages |= await _read_pages(session, decision.wants.pages)
        wanted = decision.wants.manifests
        read = await read_manifests(session, label, wanted, manifests, verify=state.asked.verify)
        stored |= read
        decision = judge(state.asked, state.text, files, manifests, pages)
    if files is not None and state.text is not None and decision.refusal is None and decision.rollback is None:
        files = replace(files, named=frozenset(decision.pointer.catalog.files))
    return replace(state, decision=decision, files=files, manifests=manifests, newest=stored, pages=pages)


async def _read_pages(session: Session, names: Sequence[str]) -> dict[str, str | None]:
    """Page files of a catalogue, None for one that is not there or too large: the catalogue ends before it then."""
    try:
        read = await session.vault.get_many(names, at_most=_MOST_PAGES)
    except SnapshotCorrupt:
        return dict.fromkeys(names)
    except VaultError as error:
        if error.code not in UNREADABLE:
            raise
        return dict.fromkeys(names)
    left, found = most_held(session) // 2, dict[str, str | None]()
    for name, file in read.items():
        left -= 0 if file is None else weight_of_file(file.content)
        found[name] = None if file is None or left < 0 else file.content
    return found


async def list_files(session: Session, state: State) -> State:
    """The same label with its files, listed now, judged by the pointer that was read."""
    if state.files is not None:
        return state
    return await _decide(session, state, read_label(await session.vault.list(f"cmem.{state.label}."), state.label))


async def read_manifests(
    session: Session,
    label: str,
    ids: Iterable[str],
    into: dict[str, Finding],
    *,
    verify: bool = True,
    anew: bool = False,
) -> Mapping[str, StoredFile | None]:
    """Read manifests and judge their signatures; what is broken or not trusted is told in its place. The file of the
    newest is given by its name, if it was read for that.

    ``anew`` reads those too that this client has read before: one that was deleted may have come back as another, where
    a conversion brought it.
    """
    ids, trust = list(ids), session.trust
    if anew:
        for each in ids:
            session.manifests.pop(manifest_filename(label, each), None)
    names = [manifest_filename(label, each) for each in ids]
    # Another verb of this client, in another thread or task, may forget one meanwhile.
    known = {name: manifest for name in names if (manifest := session.manifests.get(name)) is not None}
    read, kept, most = dict[str, StoredFile | None](), dict[str, StoredFile | None](), most_held(session) // 4
    newest = manifest_filename(label, max(ids, key=id_order)) if ids else ""
    for number, (each, name) in enumerate(zip(ids, names, strict=True)):
        if number % _AT_ONCE == 0:
            batch = [own for own in names[number : number + _AT_ONCE] if own not in known]
            with suppress(SnapshotCorrupt):  # where all of them take too much, they are read one by one
                read = await session.vault.get_many(batch, at_most=most)
        manifest = known.get(name)
        try:
            if manifest is None and name not in read:
                read = await session.vault.get_many([name], at_most=most)
        except SnapshotCorrupt as error:
            into[each] = error
            continue
        file = read.get(name)
        if file is not None and name == newest:
            kept[name] = file
        try:
            if manifest is None:
                if file is None:
                    into[each] = None
                    continue
                manifest = session.read_manifest(file.content, label=label, snapshot_id=each)
                session.manifests[name] = manifest
        except SnapshotCorrupt as error:
            into[each] = error
            continue
        into[each] = manifest
        try:
            trust.judge(manifest.raw, verify=verify)
        except (SnapshotCorrupt, UntrustedSnapshot) as error:
            into[each] = error
        except ColonyMemoryError:
            # The extra that checks signatures is missing. Nobody is pinned, so nothing speaks against the snapshot.
            log(f"the signature of snapshot {each} was not checked")
    return kept


def tell(decision: Decision) -> None:
    for warning in decision.warnings:
        warn(warning)


def require_sound(state: State) -> Decision:
    """The decision, where nothing speaks against following it."""
    decision = state.decision
    if decision.rollback is not None:
        raise decision.rollback
    if decision.refusal is not None:
        raise decision.refusal
    return decision


def require_believed(state: State) -> Decision:
    """The decision, where something may be built upon it: damage alone is no hindrance."""
    if state.decision.doubt is not None:
        raise state.decision.doubt
    return state.decision


def require_listed(state: State, doing: str) -> LabelFiles:
    files = state.listed
    if not files.complete:
        raise VaultError(
            f"{doing} is refused: the vault's list of label {state.label!r} is cut short, so files that matter may be "
            "hidden"
        )
    return files


async def look_at_all(session: Session, label: str, doing: str) -> State:
    """A label with all of its snapshots, where it may be believed."""
    state = await look(session, require_label(label), everything=True)
    require_listed(state, doing)
    tell(require_believed(state))
    return state


def forget(state: State, problems: Mapping[str, str]) -> State:
    """The same with snapshots found broken: what is wrong with each, by id."""
    if not problems:
        return state
    decision = state.decision
    entries = tuple(entry for entry in decision.entries if entry.snapshot_id not in problems)
    broken = {**decision.broken, **{manifest_filename(state.label, own): why for own, why in problems.items()}}
    return replace(state, decision=replace(decision, entries=entries, broken=broken))


async def _with_ends(session: Session, files: LabelFiles) -> LabelFiles:
    """The label's files without the pins that have ended, and with the ends of those that have one.

    A listing shows that a snapshot is pinned. That it is no longer is in the pin's file alone, which is read where it
    is not of the size of a pin without an end. The vault's clock tells, and the host's, whichever is behind.
    """
    odd = [each for each in files.pins if _may_end(files, each)]
    names = {each: pin_filename(files.label, each) for each in sorted(odd, key=id_order)[-_MOST_PINS:]}
    if not names:
        return files
    try:
        read = await session.vault.get_many(names.values())
    except VaultError as error:
        log(f"whether pins of label {files.label!r} have ended is not known, so they count: {message_of(error)}")
        return files
    found = {each: read_end(stored.content) for each, name in names.items() if (stored := read[name]) is not None}
    ends = {each: end for each, end in found.items() if end is not None}
    reached = None if files.listing is None else files.listing.reached
    now = session.now() if reached is None else min(reached, session.now())
    lasting = {each: end for each, end in ends.items() if end > now}
    return replace(files, pins=files.pins - (ends.keys() - lasting.keys()), pin_ends=lasting)


def _may_end(files: LabelFiles, snapshot_id: str) -> bool:
    size = files.files[pin_filename(files.label, snapshot_id)].size
    fit = size is None or size <= _MOST_PIN_BYTES
    return fit and snapshot_id in files.manifests and size != len(pin_text(files.label, snapshot_id))
