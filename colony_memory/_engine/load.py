"""Reading one snapshot in full, whoever asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from colony_memory._engine.label import labels_there, read_labels
from colony_memory._engine.observe import spending
from colony_memory._engine.sealed import known_of, open_manifest
from colony_memory._engine.session import log
from colony_memory._format.catalog import Entry
from colony_memory._format.formats import format_of
from colony_memory._format.names import manifest_filename, pack_filename, part_filename
from colony_memory._format.payload import Spend, spend_freely
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

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from colony_memory._engine.session import Session
    from colony_memory._engine.store import Shelf, StoredFile
    from colony_memory._format.age import Identities
    from colony_memory.snapshot import Manifest, SnapshotInfo

# Parts to ask for before the manifest is there: what a vault of 10 MB holds at most.
_AHEAD = 15
# Bytes of files beside twice max_bytes; and what stands around the base64 in each of them.
_BESIDE, _AROUND = 2**26, 4096


class Unpack(Protocol):
    """Reads the documents of a manifest, as :meth:`colony_memory._format.formats.Format.read` does."""

    def __call__(
        self,
        manifest: Manifest,
        texts: dict[str, str | None],
        *,
        max_bytes: int,
        identities: Identities | None = None,
        spend: Spend = spend_freely,
    ) -> dict[str, str] | None: ...


class Loaded(NamedTuple):
    """A snapshot whose every byte was checked.

    Attributes:
        manifest: Its manifest.
        info: Its summary, with what of it is encrypted.
        documents: Its documents; empty where it is encrypted and was taken as it is.
        files: The texts of its files by name, the manifest last; empty unless they were asked for.
        tree: Digest of its names and their contents, as its manifest tells; empty where it tells none.
    """

    manifest: Manifest
    info: SnapshotInfo
    documents: dict[str, str]
    files: Mapping[str, str]
    tree: str = ""


async def load(
    session: Session,
    label: str,
    snapshot_id: str,
    *,
    verify: bool = True,
    entry: Entry | None = None,
    proven: bool = False,
    keep_files: bool = False,
    given: dict[str, StoredFile | None] | None = None,
    shelf: Shelf | None = None,
    unpack: Unpack | None = None,
    max_bytes: int | None = None,
    closed: bool = False,
) -> Loaded:
    """Read one snapshot and check every byte. Its signature is judged before its parts are unpacked.

    Args:
        session: The client.
        label: The label.
        snapshot_id: The snapshot.
        verify: Look at the signature.
        entry: What the pointer lists of it: its parts, or the first file of each of its packs, are asked for together
            with the manifest, which then decides.
        proven: A trusted issuer signed that pointer, so it has to be this very manifest.
        keep_files: Give the files too.
        given: Files that were read already, by name; they are used up.
        shelf: Has packs that were read already, and takes those that are read.
        unpack: Reads a chain, in place of its format; None from it where the stored bytes are right, and this client
            cannot read them, so that there are no documents.
        max_bytes: Bytes of plain text to accept at most, in place of the client's.
        closed: Take it as it is where it is encrypted and this client cannot open it, every byte checked all the same.
    """
    file = manifest_filename(label, snapshot_id)
    parts = min(entry.info.part_count, _AHEAD) if entry else 0
    ahead = [part_filename(label, snapshot_id, seq) for seq in range(parts)]
    ahead += [pack_filename(label, pack_id, 0) for pack_id in (entry.packs if entry else ())]
    at_most = session.max_bytes if max_bytes is None else max_bytes
    read = await _read(session, [file, *ahead], given, most_stored(at_most), shelf)
    stored = read[file]
    if stored is None:
        raise not_found(label, snapshot_id)
    manifest = session.read_manifest(stored.content, label=label, snapshot_id=snapshot_id)
    session.trust.judge(manifest.raw, verify=verify)
    if proven:
        require_listed_one(manifest, entry)
    left = [name for name in manifest.part_files if name not in read]
    read |= await _read(session, left, given, room_for(manifest, at_most), shelf if manifest.packs else None)
    texts = {name: part.content if (part := read[name]) else None for name in manifest.part_files}
    if None in texts.values() and await session.vault.get(file) is None:
        msg = f"snapshot {snapshot_id!r} for label {label!r} was deleted while it was read"
        raise SnapshotNotFound(msg)
    files = {name: text for name, text in {**texts, file: stored.content}.items() if text is not None}
    if not keep_files:
        files = {}
    del read, stored  # so that a part's text is freed once it is read
    spend = spending(session, file)
    read_all: Unpack = unpack if unpack is not None and manifest.packs else format_of(manifest.info.format).read
    session.manifests[file] = manifest
    info, documents, tree = manifest.info, None, manifest.tree
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
    if documents:
        session.learn(manifest.sha256, documents)
        info = known_of(session, Entry(info, manifest.sha256), info)
    if verify and (documents is not None or info.encrypted):
        session.proved(label, snapshot_id)
    return Loaded(manifest, info, documents or {}, files, tree)


def require_listed_one(manifest: Manifest, entry: Entry | None) -> None:
    """Raise an UntrustedSnapshot where a pointer that a trusted issuer signed lists another manifest under this id."""
    info = manifest.info
    if entry is not None and entry.manifest_sha256 != manifest.sha256:
        raise UntrustedSnapshot(
            f"snapshot {info.snapshot_id} of label {info.label!r} is not the one that the signed pointer lists: its "
            "manifest was replaced; restore an older one by its id"
        )


def most_stored(max_bytes: int) -> int:
    """Bytes that the files of a snapshot may take: base64 of what hardly compresses, and packs of one file each."""
    return 2 * max_bytes + _BESIDE


def room_for(manifest: Manifest, max_bytes: int) -> int:
    """The same of a manifest, which says how much there is."""
    if manifest.blob_chars > most_stored(max_bytes):
        file = manifest_filename(manifest.info.label, manifest.info.snapshot_id)
        msg = f"{file} has {manifest.blob_chars} bytes, more than the {most_stored(max_bytes)} that this client takes"
        raise SnapshotCorrupt(msg, file=file, hint=Hint("open", "max_bytes"))
    return manifest.blob_chars + _AROUND * len(manifest.part_files)


async def _read(
    session: Session,
    names: Iterable[str],
    given: dict[str, StoredFile | None] | None,
    at_most: int,
    shelf: Shelf | None = None,
) -> dict[str, StoredFile | None]:
    names, there = list(names), given or {}
    read = {name: there.pop(name) for name in names if name in there}
    return read | await session.vault.get_many(
        [name for name in names if name not in read], session.tell, at_most=at_most, shelf=shelf
    )


async def restores(
    session: Session, label: str, snapshot_id: str, *, given: Mapping[str, StoredFile | None] | None = None
) -> str | None:
    """What is wrong with a snapshot, read in full, or None; files that were ``given`` are not read again."""
    try:
        await load(session, label, snapshot_id, closed=True, given=dict(given or {}))
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


async def nothing_saved(session: Session, *, label: str, others: bool = True) -> SnapshotNotFound:
    """The error of a label that nothing is saved under, which names the ``others`` that are there.

    All of the vault is listed for these, so not for an answer that nobody reads.
    """
    try:
        there = read_labels(await session.vault.list("cmem.")) if others else {}
    except VaultError as error:  # the answer is no other one for that
        log(f"the labels of the vault are not known: {message_of(error)}")
        there = {}
    return SnapshotNotFound(f"nothing is saved yet under label {label!r}{labels_there(there, label)}")


def not_found(label: str, snapshot_id: str) -> SnapshotNotFound:
    """The error of an id that nothing is saved under."""
    return SnapshotNotFound(f"no snapshot {snapshot_id!r} for label {label!r}")
