"""What a label is, and looking at it: what a decision wants is read until it can be made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colony_memory._engine.judge import Finding, judge
from colony_memory._engine.label import LabelFiles, pin_text, read_end, read_label, require_complete
from colony_memory._engine.observe import most_held
from colony_memory._engine.session import log, warn
from colony_memory._engine.store import ABSENT, ANY, StoredFile, Unreadable
from colony_memory._format import FORMAT
from colony_memory._format.catalog import weight_of_file
from colony_memory._format.lineage import refused_only
from colony_memory._format.names import id_order, latest_filename, manifest_filename, pin_filename, require_label
from colony_memory._format.pointer import Pointer
from colony_memory._values import Value, cached_property, field, replace
from colony_memory.exceptions import ColonyMemoryError, SnapshotCorrupt, UntrustedSnapshot, VaultError, message_of
from colony_memory.snapshot import Manifest
from colony_memory.trust import lacks_signature

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from colony_memory._engine.judge import Wants
    from colony_memory._engine.session import Session
    from colony_memory._format.catalog import Entry
    from colony_memory._format.lineage import Unmerged
    from colony_memory.exceptions import ColonyMemoryWarning, RollbackDetected
    from colony_memory.snapshot import SnapshotInfo
    from colony_memory.trust import Trust

# How often a label that other clients keep changing is looked at before what it shows then has to do.
_TRIES = 6
# Manifests that are read at once; of others only what they say is kept.
_AT_ONCE = 256
# Pins that are read: whoever can write to the vault can put as many there as they like, and of any size.
_MOST_PINS, _MOST_PIN_BYTES = 100, 10_000
# Bytes of the page files of a catalogue: as many as one may have, of the size that writers give them.
_MOST_PAGES = 16 * 2**20


class Asked(Value):
    label: str
    trust: Trust  # whom the client accepts
    seen: tuple[str | int, ...]  # heads that were seen before the pointer was read, at_least of a restore included
    now: datetime  # time of the host, for vaults that tell no times
    everything: bool = False  # every snapshot has to be looked at, not only the latest
    conditional: bool = True  # the vault writes on condition
    verify: bool = True  # whether signatures are looked at
    newer: bool = True  # where the pointer has to be proven, look for what is newer than the latest too
    unremoved: frozenset[str] = frozenset()  # ids that are not removed, as this client's own pointer says in vain

    @property
    def pins(self) -> bool:
        return self.trust.pins and self.verify


class State(Value):
    """A label: what was read of it, and what :func:`judge` concludes from that."""

    asked: Asked
    text: str | None  # text of the pointer file, None where it is not there
    pointer: Pointer  # what is believed of the pointer; blank, with generation 0, where nothing is
    match: str = ABSENT  # the condition under which the text is still that, for Vault.put
    blind: str | None = None  # why the witness could not be asked, None where it could
    files: LabelFiles | None = None  # its files, where they were listed
    manifests: Mapping[str, Finding] = field(default_factory=dict)  # what was read of manifests, by id
    latest_files: Mapping[str, StoredFile] = field(default_factory=dict)  # of newest manifests that were read for this
    pages: Mapping[str, str | None] = field(default_factory=dict)  # texts of the catalogue's page files, as far as read

    follow: str | None = None  # id of the latest snapshot, None where there is none
    # Id that the pointer file names, believed or not; empty where it names nothing, None where none can be read
    written: str | None = None
    signed: bool = False  # the pointer file carries a signature, of whatever worth
    issuer: str | None = None  # the trusted issuer that signed the pointer, None where none is proven
    # Identity of the label's history: by what was seen before, else by the pointer where it is believed, else by most
    # snapshots
    stream: str | None = None
    problem: str | None = None  # what is wrong with the pointer, None where nothing is
    entries: tuple[Entry, ...] = ()  # every snapshot that is whole and not distrusted, newest first
    # Those of them that the pointer names or lists; only on these anything is built
    committed: frozenset[str] = frozenset()
    waiting: frozenset[str] = frozenset()  # the others of them that may be the work of a backup under way
    unproven: frozenset[str] = frozenset()  # and those that need what another client may be deleting
    signs: bool = False  # a trusted manifest says that the pointer was signed when it was made
    # What is wrong with each other manifest, by file name, those that are not trusted included
    broken: Mapping[str, str] = field(default_factory=dict)
    untrusted: Mapping[str, UntrustedSnapshot] = field(default_factory=dict)  # the errors of those, by id
    refusal: ColonyMemoryError | None = None  # why the latest cannot be given, None where it can
    rollback: RollbackDetected | None = None  # why the label is taken to have been set back, None where it is not
    compared: bool = False  # there was something to compare the pointer with, and it held
    warnings: tuple[ColonyMemoryWarning, ...] = ()  # what was worked around
    wants: Wants | None = None  # what has to be read first; everything else is provisional where there is anything

    @property
    def label(self) -> str:
        return self.asked.label

    @property
    def listed(self) -> LabelFiles:
        if self.files is None:
            raise RuntimeError("the label was not listed")
        return self.files

    @property
    def first(self) -> bool:
        return self.text is None and self.files is not None and self.files.complete and not self.files.files

    @property
    def proven(self) -> bool:
        return self.issuer is not None

    @property
    def doubt(self) -> UntrustedSnapshot | SnapshotCorrupt | ColonyMemoryError | None:
        """Why nothing may be built upon this state, None where something may."""
        return self.rollback or (None if isinstance(self.refusal, SnapshotCorrupt) else self.refusal)

    @property
    def head(self) -> str:
        return self.pointer.head if self.pointer.snapshot_id == self.follow else ""

    @property
    def summaries(self) -> tuple[SnapshotInfo, ...]:
        head = "" if self.doubt else self.head
        infos = [entry.info for entry in self.entries if entry.snapshot_id in self.counted]
        return tuple(replace(info, head=head) if info.snapshot_id == self.follow else info for info in infos)

    @cached_property
    def counted(self) -> frozenset[str]:
        """Ids of the restore points: what is committed, and what may be under way."""
        return self.committed | self.waiting

    @cached_property
    def building(self) -> tuple[Entry, ...]:
        """The rows of a catalogue: all that is committed, and nothing that may be under way or was removed."""
        return tuple(entry for entry in self.entries if entry.snapshot_id in self.committed)

    @property
    def rows(self) -> Sequence[Entry]:
        """All that is listed, newest first, as far as it was looked at."""
        return self.building if self.files is not None else self.pointer.entries or ()

    @property
    def infos(self) -> list[SnapshotInfo]:
        return [row.info for row in self.rows]

    @property
    def ranked(self) -> tuple[Entry, ...]:
        """Entries in the order in which they may become the latest: newest first, and last what was only refused."""
        refused = refused_only([entry.info for entry in self.entries])
        return tuple(sorted(self.entries, key=lambda entry: entry.snapshot_id in refused))

    @property
    def newest(self) -> Entry | None:
        """The restore point that is the latest where no pointer says which is."""
        return next((entry for entry in self.ranked if entry.snapshot_id in self.counted), None)

    @property
    def trusted(self) -> dict[str, Manifest]:
        read = ((each, self.manifests.get(each)) for each in self.listed.manifests if each not in self.untrusted)
        return {each: manifest for each, manifest in read if isinstance(manifest, Manifest)}

    @cached_property
    def unsigned(self) -> tuple[str, ...]:
        """Ids of what is older than signing, newest first: nobody signed it, and all that is trusted is newer."""
        oldest = min((id_order(entry.snapshot_id) for entry in self.entries), default=(True, "~"))
        found = [own for own, error in self.untrusted.items() if lacks_signature(error) and id_order(own) < oldest]
        return tuple(sorted(found, key=id_order, reverse=True))

    @property
    def needs(self) -> dict[str, tuple[str, ...]]:
        """Packs that each committed snapshot needs, none for one of format 1; what is not in it has to be read."""
        rows = () if self.doubt is not None else self.building
        return {entry.snapshot_id: entry.packs for entry in rows if entry.packs or entry.info.format == FORMAT}

    @property
    def unmerged(self) -> tuple[Unmerged, ...]:
        """The unmerged snapshots by our pointer, else, where an old client wrote it, by our newest manifest."""
        pointer, manifests = self.pointer, [m for m in self.manifests.values() if isinstance(m, Manifest)]
        if not pointer.generation:
            ours = [manifest for manifest in manifests if manifest.lineage.based_on is not None]
            newest = max(ours, key=lambda manifest: id_order(manifest.info.snapshot_id), default=None)
            return () if newest is None else newest.lineage.unmerged
        known = {one.snapshot_id for one in pointer.unmerged}
        # What met a conflict and is not listed lost its row to a pointer that another client wrote over it.
        lost = [
            one for manifest in manifests for one in manifest.lineage.unmerged
            if one.snapshot_id == manifest.info.snapshot_id and one.refused and one.snapshot_id not in known
            and pointer.entry(one.snapshot_id) is None and not pointer.took_out(one.snapshot_id)
        ]  # fmt: skip
        return (*pointer.unmerged, *lost)

    @property
    def shown(self) -> frozenset[str]:
        """Ids of the newest snapshots that are listed, as many as it takes no further read to tell."""
        rows = self.building if self.files is not None else self.pointer.catalog.front
        return frozenset((*(row.snapshot_id for row in rows), *filter(None, (self.follow,))))

    def lists(self, snapshot_id: str | None) -> bool:
        own = snapshot_id or ""
        if self.files is not None:
            return own in self.files.manifests and not self.pointer.took_out(own)
        return self.pointer.entry(own) is not None

    def entry(self, snapshot_id: str | None) -> Entry | None:
        """The entry of a whole snapshot, else what the pointer lists of it, else None."""
        own = next((entry for entry in self.entries if entry.snapshot_id == snapshot_id), None)
        return own or (None if snapshot_id is None else self.pointer.entry(snapshot_id))

    @property
    def previous(self) -> dict[str, str] | None:
        """A new manifest's word on the one before: what the pointer names, or nothing where that is not followed."""
        named = self.pointer.snapshot_id
        entry = self.entry(named) if named == self.follow else None
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
    """Read the pointer, and what else it takes to judge a label. What speaks against it counts only where the pointer
    is still the same afterwards: other clients may have saved, or deleted, between the reads.

    ``everything`` looks at every snapshot, ``lenient`` goes on where the witness does not answer, ``newer`` looks for
    what is newer than the latest where the pointer has to be proven: it may have been put back. ``files`` are of a
    listing of an earlier moment, which stands only where nothing speaks against the label.
    """
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
            shown = await list_label(session, label)
        state = await _decide(session, State(asked, text, Pointer(label, None), match, blind, shown))
        against = bool(state.refusal or state.rollback or state.problem) or None in state.pages.values()
        if turn == 0 and files is not None and (against or state.broken):
            continue
        if not against or state.first or (await read_pointer_file(session, label))[0] == text:
            break
    if not state.rollback and not state.refusal and state.head:
        # Whoever proves a pointer notes its head.
        await session.note(label, state.pointer, proven=state.proven)
    return state


async def read_pointer_file(session: Session, label: str) -> tuple[str | None, str]:
    """The text of the pointer, None where it is not there, and the condition under which that is still so."""
    file = await session.vault.get(latest_filename(label))
    return (None, ABSENT) if file is None else (file.content, file.etag or ANY)


async def list_label(session: Session, label: str) -> LabelFiles:
    return read_label(await session.vault.list(f"cmem.{label}."), label)


async def _decide(session: Session, state: State) -> State:
    """Read what a decision on a label wants, until it is made."""
    label, manifests, newest, pages = state.label, dict[str, Finding](), dict[str, StoredFile](), dict(state.pages)
    files = None if state.files is None else await _with_ends(session, state.files)
    while True:
        found = judge(replace(state, files=files, manifests=manifests, latest_files=newest, pages=pages))
        if found.wants is None:
            break
        if found.wants.listing:
            files = await _with_ends(session, await list_label(session, label))
        pages |= await _read_pages(session, found.wants.pages)
        manifests |= await read_manifests(
            session, label, found.wants.manifests, verify=state.asked.verify, newest=newest
        )
    if found.files is None or found.text is None or found.refusal is not None or found.rollback is not None:
        return found
    return replace(found, files=replace(found.files, named=frozenset(found.pointer.catalog.files)))


async def _read_pages(session: Session, names: Sequence[str]) -> dict[str, str | None]:
    """Page files of a catalogue, None for one that is not there or too large: the catalogue ends before it then."""
    try:
        read = await session.vault.get_many(names, at_most=_MOST_PAGES)
    except (SnapshotCorrupt, Unreadable):
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
    files = await list_label(session, state.label)
    blank = State(state.asked, state.text, Pointer(state.label, None), state.match, state.blind, files)
    return await _decide(session, replace(blank, pages=state.pages))


async def read_manifests(
    session: Session,
    label: str,
    ids: Iterable[str],
    *,
    verify: bool = True,
    newest: dict[str, StoredFile] | None = None,
) -> dict[str, Finding]:
    """Manifests by id, or what is wrong with each, None where it lacks; ``newest`` gets the newest one's file."""
    names, found = {each: manifest_filename(label, each) for each in ids}, dict[str, Finding]()
    last = max(names, key=id_order, default="")
    # Another verb of this client, in another thread or task, may forget one meanwhile.
    known = {each: own for each, name in names.items() if (own := session.manifests.get(name)) is not None}
    unread = [each for each in names if each not in known]
    for start in range(0, len(unread), _AT_ONCE):
        batch = unread[start : start + _AT_ONCE]
        try:
            files = await session.vault.get_many((names[each] for each in batch), at_most=most_held(session) // 4)
        except SnapshotCorrupt as error:  # all of them take too much
            for each in batch if len(batch) > 1 else ():
                found |= await read_manifests(session, label, [each], verify=verify)
            found.setdefault(batch[0], error)
            continue
        for each, file in zip(batch, files.values(), strict=True):
            found[each] = None
            if file is None:
                continue
            if each == last and newest is not None:
                newest[names[each]] = file
            try:
                known[each] = session.read_manifest(file.content, label=label, snapshot_id=each)
                session.manifests[names[each]] = known[each]
            except SnapshotCorrupt as error:
                found[each] = error
    for each, manifest in known.items():
        found[each] = manifest
        try:
            session.trust.judge(manifest.raw, verify=verify)
        except (SnapshotCorrupt, UntrustedSnapshot) as error:
            found[each] = error
        except ColonyMemoryError:
            # The extra that checks signatures is missing. Nobody is pinned, so nothing speaks against the snapshot.
            log(f"the signature of snapshot {each} was not checked")
    return found


def tell(state: State) -> None:
    for warning in state.warnings:
        warn(warning)


def require_sound(state: State) -> State:
    """The state, where nothing speaks against following it."""
    against = state.rollback or state.refusal
    if against is not None:
        raise against
    return state


def require_believed(state: State) -> State:
    """The state, where something may be built upon it: damage alone is no hindrance."""
    if state.doubt is not None:
        raise state.doubt
    return state


def require_listed(state: State, doing: str) -> LabelFiles:
    require_complete(state.listed, f"label {state.label!r}", doing)
    return state.listed


async def look_at_all(session: Session, label: str, doing: str) -> State:
    state = await look(session, require_label(label), everything=True)
    require_listed(state, doing)
    tell(require_believed(state))
    return state


def forget(state: State, problems: Mapping[str, str]) -> State:
    """The same with snapshots found broken: what is wrong with each, by id."""
    if not problems:
        return state
    entries = tuple(entry for entry in state.entries if entry.snapshot_id not in problems)
    broken = {manifest_filename(state.label, own): why for own, why in problems.items()}
    return replace(state, entries=entries, broken={**state.broken, **broken})


async def _with_ends(session: Session, files: LabelFiles) -> LabelFiles:
    """The label's files without the pins that have ended, by the clock of the vault or the host that is behind."""
    names = {each: pin_filename(files.label, each) for each in sorted(files.pins & {*files.manifests}, key=id_order)}
    sizes = ((each, files.files[name].size, len(pin_text(files.label, each))) for each, name in names.items())
    ending = [each for each, size, lasting in sizes if size is None or lasting != size <= _MOST_PIN_BYTES]
    if not ending:
        return files
    try:
        read = await session.vault.get_many(names[each] for each in ending[-_MOST_PINS:])
    except VaultError as error:
        log(f"whether pins of label {files.label!r} have ended is not known, so they count: {message_of(error)}")
        return files
    now = min(session.now(), (files.listing and files.listing.reached) or session.now())
    ends = {each: end for each in ending if (file := read.get(names[each])) and (end := read_end(file.content))}
    lasting = {each: end for each, end in ends.items() if end > now}
    return replace(files, pins=files.pins - (ends.keys() - lasting.keys()), pin_ends=lasting)
