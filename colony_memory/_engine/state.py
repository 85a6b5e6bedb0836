"""The state of a label, and the look that finds it by reading whatever :func:`judge` wants until it can decide."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colony_memory._engine.judge import Finding, judge
from colony_memory._engine.label import LabelFiles, pin_text, read_end, read_label, require_complete
from colony_memory._engine.observe import manifest_budget
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

# Looks at a label that other clients keep changing; the last one counts, whatever it shows.
_TRIES = 6
# Manifests read at once: only their parsed contents outlive the batch.
_AT_ONCE = 256
# Pins that are read: whoever can write to the vault can put any number there, of any size.
_MOST_PINS, _MOST_PIN_BYTES = 100, 10_000
# Bytes of a catalogue's page files: the greatest number of them, at the size that writers give each.
_MOST_PAGES = 16 * 2**20


class Asked(Value):
    label: str
    trust: Trust  # issuers that the client accepts
    seen: tuple[str | int, ...]  # heads seen before the pointer was read, a restore's at_least included
    now: datetime  # the host's time, for vaults that tell none
    everything: bool = False  # look at every snapshot, not only the latest
    conditional: bool = True  # the vault offers conditional writes
    verify: bool = True  # check signatures
    newer: bool = True  # where the pointer has to be proven, look for snapshots newer than the latest too
    unremoved: frozenset[str] = frozenset()  # ids still there, though this client's own pointer calls them removed

    @property
    def pins(self) -> bool:
        return self.trust.pins and self.verify


class State(Value):
    """A label: its files as far as they were read, and the conclusions of :func:`judge`."""

    asked: Asked
    text: str | None  # text of the pointer file, None where there is none
    pointer: Pointer  # the pointer as far as it is believed; blank, with generation 0, where it is not
    match: str = ABSENT  # condition for Vault.put under which the pointer file still has that text
    witness_error: str | None = None  # why the witness could not be asked, None where it could
    files: LabelFiles | None = None  # the label's files, None where they were not listed
    manifests: Mapping[str, Finding] = field(default_factory=dict)  # results of reading manifests, by id
    latest_files: Mapping[str, StoredFile] = field(default_factory=dict)  # files of the newest manifests read for this
    pages: Mapping[str, str | None] = field(default_factory=dict)  # texts of the catalogue's page files, as far as read

    follow: str | None = None  # id of the latest snapshot, None where there is none
    # Id that the pointer file names, believed or not; empty where it names nothing, None where it is not readable
    written: str | None = None
    signed: bool = False  # the pointer file carries a signature, valid or not
    issuer: str | None = None  # the trusted issuer that signed the pointer, None where none is proven
    # Identity of the label's history: from the heads seen before, else from a believed pointer, else most snapshots
    stream: str | None = None
    problem: str | None = None  # the fault of the pointer, None where it has none
    entries: tuple[Entry, ...] = ()  # every whole snapshot that is not distrusted, newest first
    # Ids of the entries that the pointer names or lists; only on these is anything built
    committed: frozenset[str] = frozenset()
    waiting: frozenset[str] = frozenset()  # ids of entries that may belong to a backup under way
    unproven: frozenset[str] = frozenset()  # ids of entries that need files which another client may be deleting
    signs: bool = False  # a trusted manifest shows that the pointer was signed when that was made
    # Problems of all other manifests, untrusted ones included, by file name
    broken: Mapping[str, str] = field(default_factory=dict)
    untrusted: Mapping[str, UntrustedSnapshot] = field(default_factory=dict)  # errors of the untrusted ones, by id
    refusal: ColonyMemoryError | None = None  # why the latest cannot be given, None where it can
    rollback: RollbackDetected | None = None  # why the label counts as rolled back, None where it does not
    compared: bool = False  # the pointer was compared with a head seen before, and passed
    warnings: tuple[ColonyMemoryWarning, ...] = ()  # faults that were worked around
    wants: Wants | None = None  # what to read first, None where the state is final: else all the rest is provisional

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
        """The error that forbids building on this state, else None."""
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
        """Ids of the restore points: committed snapshots, and those that may be under way."""
        return self.committed | self.waiting

    @cached_property
    def building(self) -> tuple[Entry, ...]:
        """The rows of a new catalogue: everything committed, nothing that may be under way or was removed."""
        return tuple(entry for entry in self.entries if entry.snapshot_id in self.committed)

    @property
    def rows(self) -> Sequence[Entry]:
        """Listed snapshots, newest first: the committed ones if files were listed, else those of the pointer."""
        return self.building if self.files is not None else self.pointer.entries or ()

    @property
    def infos(self) -> list[SnapshotInfo]:
        return [row.info for row in self.rows]

    @property
    def ranked(self) -> tuple[Entry, ...]:
        """Entries in the order in which they may become the latest: newest first, then those that were only refused."""
        refused = refused_only([entry.info for entry in self.entries])
        return tuple(sorted(self.entries, key=lambda entry: entry.snapshot_id in refused))

    @property
    def newest(self) -> Entry | None:
        """The restore point that is the latest where no pointer names one."""
        return next((entry for entry in self.ranked if entry.snapshot_id in self.counted), None)

    @property
    def trusted(self) -> dict[str, Manifest]:
        findings = ((key, self.manifests.get(key)) for key in self.listed.manifests if key not in self.untrusted)
        return {key: manifest for key, manifest in findings if isinstance(manifest, Manifest)}

    @cached_property
    def unsigned(self) -> tuple[str, ...]:
        """Ids of unsigned snapshots older than any trusted one, newest first: they predate signing."""
        oldest = min((id_order(entry.snapshot_id) for entry in self.entries), default=(True, "~"))
        found = [key for key, error in self.untrusted.items() if lacks_signature(error) and id_order(key) < oldest]
        return tuple(sorted(found, key=id_order, reverse=True))

    @property
    def needs(self) -> dict[str, tuple[str, ...]]:
        """Packs that each committed snapshot needs, none for one of format 1; others' manifests have to be read."""
        rows = () if self.doubt is not None else self.building
        return {entry.snapshot_id: entry.packs for entry in rows if entry.packs or entry.info.format == FORMAT}

    @property
    def unmerged(self) -> tuple[Unmerged, ...]:
        """Unmerged snapshots by the pointer or, where an old client wrote that, by our newest manifest."""
        pointer, manifests = self.pointer, [m for m in self.manifests.values() if isinstance(m, Manifest)]
        if not pointer.generation:
            ours = [manifest for manifest in manifests if manifest.lineage.based_on is not None]
            newest = max(ours, key=lambda manifest: id_order(manifest.info.snapshot_id), default=None)
            return () if newest is None else newest.lineage.unmerged
        known = {item.snapshot_id for item in pointer.unmerged}
        # A refused snapshot without a row lost it when another client overwrote the pointer.
        lost = [
            item for manifest in manifests for item in manifest.lineage.unmerged
            if item.snapshot_id == manifest.info.snapshot_id and item.refused and item.snapshot_id not in known
            and pointer.entry(item.snapshot_id) is None and not pointer.took_out(item.snapshot_id)
        ]  # fmt: skip
        return (*pointer.unmerged, *lost)

    @property
    def shown(self) -> frozenset[str]:
        """Ids of the newest listed snapshots, as many as are known without a further read."""
        rows = self.building if self.files is not None else self.pointer.catalog.front
        return frozenset((*(row.snapshot_id for row in rows), *filter(None, (self.follow,))))

    def lists(self, snapshot_id: str | None) -> bool:
        key = snapshot_id or ""
        if self.files is not None:
            return key in self.files.manifests and not self.pointer.took_out(key)
        return self.pointer.entry(key) is not None

    def entry(self, snapshot_id: str | None) -> Entry | None:
        """The entry of a whole snapshot, else its row in the pointer, else None."""
        found = next((entry for entry in self.entries if entry.snapshot_id == snapshot_id), None)
        return found or (None if snapshot_id is None else self.pointer.entry(snapshot_id))

    @property
    def previous(self) -> dict[str, str] | None:
        """A new manifest's ``previous``: the snapshot that the pointer names, None where that is not followed."""
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
    """Read the pointer, and all else it takes to judge a label. Objections count only if the pointer has not changed
    since: other clients may have saved, or deleted, between the reads.

    ``everything`` looks at every snapshot, ``lenient`` goes on where the witness does not answer, ``newer`` looks for
    snapshots newer than the latest where the pointer has to be proven: it may have been put back. ``files`` are of an
    earlier listing, which is used only if it raises no objection.
    """
    for attempt in range(_TRIES):
        seen, witness_error = () if at_least is None else (at_least,), None
        try:  # before the pointer is read, as other clients may move both
            seen = (*await session.seen(label), *seen)
        except ColonyMemoryError as error:
            if not lenient:
                raise
            witness_error = message_of(error)
        text, match = await read_pointer_file(session, label)
        options = (session.vault.conditional, verify, newer, unremoved)
        asked = Asked(label, session.trust, seen, session.now(), everything, *options)
        label_files = files if attempt == 0 else None
        if label_files is None and (listed or everything):
            label_files = await list_label(session, label)
        state = await _decide(session, State(asked, text, Pointer(label, None), match, witness_error, label_files))
        disputed = bool(state.refusal or state.rollback or state.problem) or None in state.pages.values()
        if attempt == 0 and files is not None and (disputed or state.broken):
            continue
        if not disputed or state.first or (await read_pointer_file(session, label))[0] == text:
            break
    if not state.rollback and not state.refusal and state.head:
        # Readers note a proven head too.
        await session.note(label, state.pointer, proven=state.proven)
    return state


async def read_pointer_file(session: Session, label: str) -> tuple[str | None, str]:
    """The pointer's text, None if there is none, and the condition for a write under which it has not changed."""
    file = await session.vault.get(latest_filename(label))
    return (None, ABSENT) if file is None else (file.content, file.etag or ANY)


async def list_label(session: Session, label: str) -> LabelFiles:
    return read_label(await session.vault.list(f"cmem.{label}."), label)


async def _decide(session: Session, state: State) -> State:
    """Judge a label, reading whatever :func:`judge` wants until it decides."""
    label, manifests, newest, pages = state.label, dict[str, Finding](), dict[str, StoredFile](), dict(state.pages)
    files = None if state.files is None else await _without_expired_pins(session, state.files)
    while True:
        judged = judge(replace(state, files=files, manifests=manifests, latest_files=newest, pages=pages))
        if judged.wants is None:
            break
        if judged.wants.listing:
            files = await _without_expired_pins(session, await list_label(session, label))
        pages |= await _read_pages(session, judged.wants.pages)
        manifests |= await read_manifests(
            session, label, judged.wants.manifests, verify=state.asked.verify, newest=newest
        )
    if judged.files is None or judged.text is None or judged.refusal is not None or judged.rollback is not None:
        return judged
    return replace(judged, files=replace(judged.files, named=frozenset(judged.pointer.catalog.files)))


async def _read_pages(session: Session, names: Sequence[str]) -> dict[str, str | None]:
    """Page files of a catalogue, None for a missing or too large one: the catalogue then ends before it."""
    try:
        files = await session.vault.get_many(names, at_most=_MOST_PAGES)
    except (SnapshotCorrupt, Unreadable):
        return dict.fromkeys(names)
    budget, texts = manifest_budget(session) // 2, dict[str, str | None]()
    for name, file in files.items():
        budget -= 0 if file is None else weight_of_file(file.content)
        texts[name] = None if file is None or budget < 0 else file.content
    return texts


async def list_files(session: Session, state: State) -> State:
    """The state with the label's files, listed now and judged by the same pointer."""
    if state.files is not None:
        return state
    files = await list_label(session, state.label)
    blank = State(state.asked, state.text, Pointer(state.label, None), state.match, state.witness_error, files)
    return await _decide(session, replace(blank, pages=state.pages))


async def read_manifests(
    session: Session,
    label: str,
    ids: Iterable[str],
    *,
    verify: bool = True,
    newest: dict[str, StoredFile] | None = None,
) -> dict[str, Finding]:
    """Manifests by id: each one, or its error, or None if it is missing. The newest one's file goes into ``newest``."""
    names, found = {key: manifest_filename(label, key) for key in ids}, dict[str, Finding]()
    last = max(names, key=id_order, default="")
    # A verb of this client in another thread or task may clear the cache meanwhile.
    manifests = {key: cached for key, name in names.items() if (cached := session.manifests.get(name)) is not None}
    unread = [key for key in names if key not in manifests]
    for start in range(0, len(unread), _AT_ONCE):
        batch = unread[start : start + _AT_ONCE]
        try:
            files = await session.vault.get_many((names[key] for key in batch), at_most=manifest_budget(session) // 4)
        except SnapshotCorrupt as error:  # together they are too large
            for snapshot_id in batch if len(batch) > 1 else ():
                found |= await read_manifests(session, label, [snapshot_id], verify=verify)
            found.setdefault(batch[0], error)
            continue
        for snapshot_id, file in zip(batch, files.values(), strict=True):
            found[snapshot_id] = None
            if file is None:
                continue
            if snapshot_id == last and newest is not None:
                newest[names[snapshot_id]] = file
            try:
                manifests[snapshot_id] = session.read_manifest(file.content, label=label, snapshot_id=snapshot_id)
                session.manifests[names[snapshot_id]] = manifests[snapshot_id]
            except SnapshotCorrupt as error:
                found[snapshot_id] = error
    for snapshot_id, manifest in manifests.items():
        found[snapshot_id] = manifest
        try:
            session.trust.judge(manifest.raw, verify=verify)
        except (SnapshotCorrupt, UntrustedSnapshot) as error:
            found[snapshot_id] = error
        except ColonyMemoryError:
            # The extra that checks signatures is not installed. No issuer is pinned, so this is no objection.
            log(f"the signature of snapshot {snapshot_id} was not checked")
    return found


def tell(state: State) -> None:
    for warning in state.warnings:
        warn(warning)


def require_sound(state: State) -> State:
    """The state, if its latest may be followed; raises its rollback or refusal otherwise."""
    objection = state.rollback or state.refusal
    if objection is not None:
        raise objection
    return state


def require_believed(state: State) -> State:
    """The state, if snapshots may be built on it; raises its doubt otherwise. Damage alone is none."""
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
    """The state with snapshots moved from its entries to the broken ones; ``problems`` are by id."""
    if not problems:
        return state
    entries = tuple(entry for entry in state.entries if entry.snapshot_id not in problems)
    broken = {manifest_filename(state.label, key): problem for key, problem in problems.items()}
    return replace(state, entries=entries, broken={**state.broken, **broken})


async def _without_expired_pins(session: Session, files: LabelFiles) -> LabelFiles:
    """The label's files without expired pins, by the vault's clock or the host's, whichever is behind."""
    names = {key: pin_filename(files.label, key) for key in sorted(files.pins & {*files.manifests}, key=id_order)}
    sizes = ((key, files.files[name].size, len(pin_text(files.label, key))) for key, name in names.items())
    ending = [key for key, size, endless in sizes if size is None or endless != size <= _MOST_PIN_BYTES]
    if not ending:
        return files
    try:
        found = await session.vault.get_many(names[key] for key in ending[-_MOST_PINS:])
    except VaultError as error:
        log(f"whether pins of label {files.label!r} have ended is not known, so they count: {message_of(error)}")
        return files
    now = min(session.now(), (files.listing and files.listing.reached) or session.now())
    ends = {key: end for key in ending if (file := found.get(names[key])) and (end := read_end(file.content))}
    lasting = {key: end for key, end in ends.items() if end > now}
    return replace(files, pins=files.pins - (ends.keys() - lasting.keys()), pin_ends=lasting)
