"""Reading one snapshot in full, for any verb, and the facts that this client knows of encrypted ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from colony_memory._engine.label import labels_there, read_labels
from colony_memory._engine.observe import spending
from colony_memory._engine.session import Session, log, warn
from colony_memory._engine.state import State, read_manifests
from colony_memory._engine.store import Shelf, Unreadable
from colony_memory._format import FORMAT, age
from colony_memory._format.catalog import Entry
from colony_memory._format.names import manifest_filename, pack_filename, part_filename, read_stamp
from colony_memory._format.v2.build import ChainManifest, Facts, lock_of, read_chain, read_documents, read_packs, unseal
from colony_memory._format.v2.build import build as build_chain
from colony_memory._format.v2.chain import PACK_CHARS, Chain, Pack
from colony_memory._format.v2.zstd import is_readable
from colony_memory._values import Value, field, replace
from colony_memory.exceptions import (
    ColonyMemoryError,
    DecryptionError,
    Hint,
    RateLimited,
    SnapshotCorrupt,
    SnapshotNotFound,
    UntrustedSnapshot,
    VaultDenied,
    VaultError,
    VaultUnavailable,
    message_of,
)
from colony_memory.snapshot import BuiltSnapshot, Manifest, SnapshotInfo
from colony_memory.snapshot import build as build_parts

if TYPE_CHECKING:
    from colony_memory._engine.basis import Basis
    from colony_memory._format.age import Identities, Lock

# Parts to ask for before the manifest is read: the most that a vault of 10 MB holds.
_AHEAD = 15
# Bytes of files allowed on top of twice max_bytes, and bytes around the base64 in each of them.
_EXTRA, _AROUND = 2**26, 4096

#: The errors of a snapshot that cannot be read.
UNREADABLE = (SnapshotCorrupt, UntrustedSnapshot, SnapshotNotFound, DecryptionError)
#: Reads the documents of a manifest, as :func:`read_documents` does.
Unpack: TypeAlias = Callable[..., "dict[str, str] | None"]


class Loaded(Value):
    """A snapshot whose every byte was checked."""

    manifest: Manifest
    info: SnapshotInfo  # its summary, with the encrypted facts if they were read
    documents: dict[str, str]  # empty where this client cannot read them, and only its stored bytes were checked
    files: Mapping[str, str] = field(default_factory=dict)  # in the order of writing; empty unless asked for
    tree: str = ""  # digest of its names and their contents by its manifest, empty where that has none
    basis: Basis | None = None  # of a memory that holds all of this; None for a part of it, or a mere look
    state: State | None = None  # in which it is the latest, or stands in for the latest

    @property
    def is_latest(self) -> bool:
        return self.state is not None and self.state.follow == self.snapshot_id

    @property
    def snapshot_id(self) -> str:
        return self.manifest.info.snapshot_id

    @property
    def manifest_file(self) -> str:
        return manifest_filename(self.manifest.info.label, self.snapshot_id)

    @property
    def named(self) -> str:
        return f"snapshot {self.snapshot_id} of label {self.manifest.info.label!r}"

    def entry(self, known: Entry | None = None) -> Entry:
        """Its row in a catalogue; only ``known``, its row in another catalogue, tells of a shrink that followed."""
        info, manifest = self.manifest.info, self.manifest
        info = replace(info, stored_bytes=self.info.stored_bytes, tags=(info if known is None else known.info).tags)
        shrink = (known.shrunk_at, known.spoiled) if known and read_stamp(known.shrunk_at) else (None, False)
        return Entry(info, manifest.sha256, shrink[0], manifest.packs, shrink[1], manifest.ruined, manifest.base_files)


async def load(
    session: Session,
    label: str,
    snapshot_id: str,
    *,
    verify: bool = True,
    state: State | None = None,  # a proven pointer in it says which manifest this has to be
    keep_files: bool = False,
    shelf: Shelf | None = None,
    unpack: Unpack = read_documents,  # for chains; returns None where this client cannot read the stored bytes
    max_bytes: int | None = None,  # of plain text, in place of the client's
    closed: bool = False,  # accept one that this client cannot decrypt; every byte is checked all the same
) -> Loaded:
    """Read one snapshot and check every byte. Its signature is judged before its parts are unpacked."""
    file, ahead = manifest_filename(label, snapshot_id), list[str]()
    at_most = session.max_bytes if max_bytes is None else max_bytes
    entry = None if state is None else state.entry(snapshot_id)
    if entry is not None:  # bounded, since an entry may be made up
        ahead = [part_filename(label, snapshot_id, seq) for seq in range(min(entry.info.part_count, _AHEAD))]
        ahead += [pack_filename(label, pack_id, 0) for pack_id in entry.packs]
        count = min(entry.base_files, most_stored(at_most) // PACK_CHARS)
        ahead += [pack_filename(label, entry.packs[0], seq) for seq in range(1, count if entry.packs else 0)]
    get_many = partial(session.vault.get_many, tell=session.tell, shelf=shelf)
    read = await get_many([file, *ahead], at_most=most_stored(at_most))
    stored = read[file]
    if stored is None:
        raise not_found(label, snapshot_id)
    manifest = session.read_manifest(stored.content, label=label, snapshot_id=snapshot_id)
    session.trust.judge(manifest.raw, verify=verify)
    if state is not None and state.proven:
        require_listed_one(manifest, entry)
    rest = [name for name in manifest.part_files if name not in read]
    read |= await get_many(rest, at_most=room_for(manifest, at_most))
    texts = {name: part.content if (part := read[name]) else None for name in manifest.part_files}
    if None in texts.values() and await session.vault.get(file) is None:
        raise SnapshotNotFound(f"snapshot {snapshot_id!r} for label {label!r} was deleted while it was read")
    kept = {name: text for name, text in {**texts, file: stored.content}.items() if text is not None}
    own = (text for name, text in kept.items() if f".{snapshot_id}." in name)
    info = replace(manifest.info, stored_bytes=sum(len(text.encode("utf-8", "surrogatepass")) for text in own))
    files = kept if keep_files else {}
    del read, stored, kept  # so that a part's text is freed once it is read
    spend = spending(session, file)
    read_all = unpack if manifest.packs else read_documents
    session.manifests[file] = manifest
    documents, tree = None, manifest.tree
    try:
        documents = await session.vault.compute(
            read_all, manifest, texts, max_bytes=at_most, identities=session.identities, spend=spend
        )
        if info.encrypted and documents is not None:
            facts = (await open_manifest(session, manifest)).facts
            info, tree = facts.told_of(info), facts.tree
    except DecryptionError:
        if not closed:
            raise
    except SnapshotCorrupt:
        session.parents.pop(label, None)  # no backup builds on what was read before the damage
        session.good.pop(file, None)
        raise
    if documents:
        session.learn(manifest.sha256, documents)
        info = session.known_info(Entry(info, manifest.sha256), info)
    if verify and (documents is not None or info.encrypted):
        session.proved(label, snapshot_id)
    return Loaded(manifest, info, documents or {}, files, tree)


def require_listed_one(manifest: Manifest, entry: Entry | None) -> None:
    info = manifest.info
    if entry is not None and entry.manifest_sha256 != manifest.sha256:
        raise UntrustedSnapshot(
            f"snapshot {info.snapshot_id} of label {info.label!r} is not the one that the signed pointer lists: its "
            "manifest was replaced; restore an older one by its id"
        )


def most_stored(max_bytes: int) -> int:
    """The most bytes of a snapshot's files: base64 of text that hardly compresses, and packs of one file each."""
    return 2 * max_bytes + _EXTRA


def room_for(manifest: Manifest, max_bytes: int) -> int:
    if manifest.blob_chars > most_stored(max_bytes):
        file = manifest_filename(manifest.info.label, manifest.info.snapshot_id)
        msg = f"{file} has {manifest.blob_chars} bytes, more than the {most_stored(max_bytes)} that this client takes"
        raise SnapshotCorrupt(msg, file=file, hint=Hint("open", "max_bytes"))
    return manifest.blob_chars + _AROUND * len(manifest.part_files)


async def restores(session: Session, label: str, snapshot_id: str, *, shelf: Shelf | None = None) -> str | None:
    """The problem with a snapshot, read in full, or None. Raises if the vault does not answer."""
    try:
        await load(session, label, snapshot_id, closed=True, shelf=shelf)
    except SnapshotNotFound:
        return f"snapshot {snapshot_id} was deleted in between"
    except (SnapshotCorrupt, UntrustedSnapshot) as error:
        return message_of(error)
    except (VaultUnavailable, VaultDenied, RateLimited):
        raise
    except ColonyMemoryError:
        # The extra that checks the signature is missing. Nobody is pinned, so nothing speaks against the snapshot.
        await load(session, label, snapshot_id, verify=False, closed=True)
    return None


class Walk:
    """Reads snapshots of a label one after the other, each pack once."""

    def __init__(self, session: Session, state: State) -> None:
        self.session, self.state = session, state
        self.skipped = dict[str, str]()  # the problem of each snapshot that cannot be read, by id
        self.shelf = Shelf(session.max_bytes // 2)

    async def load(self, snapshot_id: str) -> Loaded:
        """Load a snapshot, which has to be the one that a proven pointer lists."""
        return await load(self.session, self.state.label, snapshot_id, state=self.state, shelf=self.shelf)

    async def try_load(self, snapshot_id: str) -> Loaded | None:
        """The same, None if it is damaged, not trusted or gone; raises for an encrypted one, which may be intact."""
        if snapshot_id in self.skipped:
            return None
        try:
            return await self.load(snapshot_id)
        except (SnapshotCorrupt, UntrustedSnapshot, SnapshotNotFound, Unreadable) as error:
            self.skipped[snapshot_id] = message_of(error)
            return None


class Reader:
    """Reads snapshots of one label, each pack once; ``blindly``, chains by their stored bytes where zstd is missing."""

    def __init__(self, session: Session, *, max_bytes: int | None = None, blindly: bool = False) -> None:
        self._session, self._blindly = session, blindly
        self._max_bytes = session.max_bytes if max_bytes is None else min(max_bytes, session.max_bytes)
        self._shelf = Shelf(self._max_bytes // 2)
        self._packs: tuple[Pack, ...] = ()
        self._chain: Chain | None = None

    async def read(self, label: str, snapshot_id: str) -> Loaded:
        loaded = await load(
            self._session, label, snapshot_id, keep_files=True, shelf=self._shelf, unpack=self._unpack,
            max_bytes=self._max_bytes,
        )  # fmt: skip
        for name, text in loaded.files.items():
            try:
                text.encode("utf-8")
            except UnicodeEncodeError as error:
                msg = f"{name} holds half of a surrogate pair, which no vault file can hold"
                raise SnapshotCorrupt(msg, file=name) from error
        return loaded

    def _unpack(
        self, manifest: ChainManifest, texts: dict[str, str | None], *, identities: Identities | None, **bounds: Any
    ) -> dict[str, str] | None:
        readable, sealed = is_readable(manifest.info.format), manifest.info.encrypted
        if not sealed and (readable or not self._blindly):
            self._chain = read_chain(manifest, texts, known=self._chain, **bounds)
            self._packs = tuple(link.pack for link in self._chain.links)
            return self._chain.state.documents()
        again = dict(texts)
        self._packs, self._chain = read_packs(manifest, texts, known=self._packs), None
        if sealed and readable and identities is not None:
            try:  # rules out a bomb; the text that it builds on is never kept decrypted
                return read_chain(manifest, again, identities=identities, **bounds).state.documents()
            except DecryptionError:
                pass
        return None


async def nothing_saved(session: Session, *, label: str, others: bool = True) -> SnapshotNotFound:
    """The error for a label without snapshots; with ``others`` it names other labels, which lists the whole vault."""
    try:
        labels = read_labels(await session.vault.list("cmem.")) if others else {}
    except VaultError as error:  # the error is the same without them
        log(f"the labels of the vault are not known: {message_of(error)}")
        labels = {}
    return SnapshotNotFound(f"nothing is saved yet under label {label!r}{labels_there(labels, label)}")


def not_found(label: str, snapshot_id: str) -> SnapshotNotFound:
    return SnapshotNotFound(f"no snapshot {snapshot_id!r} for label {label!r}")


class Unsealed(Value):
    facts: Facts  # the encrypted facts of its manifest
    lock: Lock | None  # it is encrypted with this; None if that is not to the recipients of this client


async def open_manifest(session: Session, manifest: Manifest) -> Unsealed:
    known = session.opened.get(manifest.sha256)
    if known is None:
        known = session.opened[manifest.sha256] = await session.vault.compute(_open, session, manifest)
    return known


def _open(session: Session, manifest: ChainManifest) -> Unsealed:
    identities, recipients = session.identities, session.recipients
    facts = unseal(manifest, identities)
    lock = None if identities is None or recipients is None else lock_of(manifest, facts, identities, recipients)
    return Unsealed(facts, lock)


async def unsealed_info(session: Session, label: str, entry: Entry | None) -> SnapshotInfo | None:
    if entry is None:
        return None
    if not entry.info.encrypted:
        return session.known_info(entry)
    if entry.manifest_sha256 not in session.opened and session.identities is not None:
        manifest = (await read_manifests(session, label, [entry.snapshot_id]))[entry.snapshot_id]
        if isinstance(manifest, ChainManifest) and manifest.sha256 == entry.manifest_sha256:
            try:
                await open_manifest(session, manifest)
            except (DecryptionError, SnapshotCorrupt) as error:
                log(f"snapshot {entry.snapshot_id} of label {label!r} does not open: {message_of(error)}")
    return session.known_info(entry)


def would_do(session: Session, entry: Entry) -> bool:
    """True if an equal snapshot would do: a client that encrypts wants it encrypted to the same recipients."""
    if session.recipients is None:
        return True
    opened = session.opened.get(entry.manifest_sha256)
    return entry.info.encrypted and opened is not None and opened.lock is not None


def builder(session: Session, wire: str, chain: Chain | None, lock: Lock | None) -> Callable[..., BuiltSnapshot]:
    """A function that builds a snapshot in this format, on a chain and its lock; encrypted if there are recipients."""
    if wire == FORMAT and session.recipients is None:
        return build_parts
    if lock is None and session.recipients is not None:
        lock = session.recipients.lock()
        if session.identities is not None:
            session.identities.learn(lock.key)
    return partial(build_chain, parent=chain, lock=lock)


def remember(session: Session, built: BuiltSnapshot, documents: Iterable[str]) -> None:
    """Remember what was just written, and warn once if it is encrypted so that this client cannot open it again."""
    session.learn(built.manifest_sha256, documents)
    if built.facts is None or (lock := built.lock) is None:
        return
    session.opened[built.manifest_sha256] = Unsealed(built.facts, lock)
    if session.identities is None or session.told_of_lock:
        return
    session.told_of_lock = True
    if not opens(session.identities, lock):
        warn(
            "none of the identities of this client opens what it writes: it is encrypted to others only, so each "
            "backup is stored whole"
        )


def opens(identities: Identities | None, lock: Lock) -> bool:
    """True if one of these identities opens what is encrypted with a lock."""
    try:
        return identities is not None and not identities.open(lock.seal(b""), "" if lock.key is None else lock.key.blob)
    except age.NoFit:
        return False
