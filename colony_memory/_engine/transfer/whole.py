"""Snapshots on their way from one place to another, read one after the other and checked in every byte.

What has come to a label, whether it is still there to be listed, and its taking back where it came to nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from colony_memory._engine import deletion
from colony_memory._engine.label import GRACE
from colony_memory._engine.load import Loaded, load
from colony_memory._engine.prune import take_back_chains
from colony_memory._engine.store import StoredFile, Unanswered
from colony_memory._engine.transfer.destination import is_committed
from colony_memory._format.catalog import Entry
from colony_memory._format.formats import is_readable
from colony_memory._format.names import manifest_filename
from colony_memory._format.payload import Spend, spend_freely
from colony_memory._format.v2.build import read_chain, read_packs
from colony_memory._format.v2.manifest import ChainManifest
from colony_memory.exceptions import ColonyMemoryError, DecryptionError, SnapshotCorrupt, VaultError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from colony_memory._engine.session import Session
    from colony_memory._engine.state import State
    from colony_memory._format.age import Identities
    from colony_memory._format.pointer import Pointer
    from colony_memory._format.v2.chain import Chain
    from colony_memory._format.v2.pack import Pack
    from colony_memory.snapshot import Manifest, SnapshotInfo


@dataclass(frozen=True)
class Arrived:
    """A snapshot that is at its destination, committed or not.

    Attributes:
        entry: Its row in the catalogue.
        stream: The history that it was made in.
        names: The files that it needs.
        found: Whether it was there before, in part or as a whole.
        written: Those that were not there.
        own: Those of them that the vault said this client has made.
        beside: Manifests of others, without which nothing keeps the packs of theirs that it needs.
    """

    entry: Entry
    stream: str | None
    names: tuple[str, ...]
    found: bool
    written: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()

    @property
    def wrote(self) -> bool:
        """Whether anything of it was written."""
        return bool(self.written)

    @property
    def info(self) -> SnapshotInfo:
        """The summary."""
        return self.entry.info


class Arrivals:
    """What one client brings into one label, and what of it came to nothing.

    Attributes:
        there: What is there now, by id, and to be committed.
        lost: Why something that had arrived is not to be, by id.
    """

    def __init__(self, session: Session, label: str) -> None:
        self._session, self._label = session, label
        self.there: dict[str, Arrived] = {}
        self.lost: dict[str, str] = {}
        self._withdrawn: dict[str, Arrived] = {}

    def drop(self, now: State, *, before: State) -> None:
        """Leave out what other clients removed, or may have taken for a leftover, since the label was looked at."""
        for snapshot_id, arrived in list(self.there.items()):
            lost = {manifest_filename(self._label, each) for each in self._withdrawn}
            if not lost.isdisjoint(arrived.beside) or was_removed(now, arrived, before=before):
                self._withdraw(snapshot_id, "was removed by another client while it was being brought there: try again")

    def leave_chains(self) -> None:
        """Leave out the chains that no catalogue is going to list: what they need is nobody's to keep."""
        for snapshot_id, arrived in list(self.there.items()):
            if arrived.entry.packs and arrived.wrote:
                self._withdraw(
                    snapshot_id,
                    "is a chain, which is kept only if a pointer lists it, and the pointer there has to be signed",
                )

    def _withdraw(self, snapshot_id: str, why: str) -> None:
        self._withdrawn[snapshot_id] = self.there.pop(snapshot_id)
        self.lost[snapshot_id] = f"snapshot {snapshot_id} of label {self._label!r} {why}"

    async def take_back_lost(self, pointer: Pointer) -> None:
        """Remove what was written of those that were left out.

        Whoever removes a snapshot, as the pointer says, may not have seen what was written of it since.
        """
        removed = {*pointer.removed}
        left = {
            each: (arrived.written if arrived.entry.packs else arrived.names) if arrived.wrote and each in removed
            else arrived.own
            for each, arrived in self._withdrawn.items()
        }  # fmt: skip
        await self._take_back(self._withdrawn, left, VaultError("it was removed while it was brought there"))

    async def undo(self, error: ColonyMemoryError) -> None:
        """Remove what was written and could not be committed, as far as it is surely this client's and can be."""
        if isinstance(error, Unanswered):
            return  # it may be committed
        written = self._withdrawn | self.there
        await self._take_back(written, {each: arrived.own for each, arrived in written.items()}, error)

    async def _take_back(
        self, arrived: Mapping[str, Arrived], names: Mapping[str, Sequence[str]], error: ColonyMemoryError
    ) -> None:
        for chains in (True, False):
            own = {each: names[each] for each, one in arrived.items() if bool(one.entry.packs) is chains}
            await take_back(self._session, self._label, own, error, chains=chains)


async def take_back(
    session: Session, label: str, names: Mapping[str, Sequence[str]], error: ColonyMemoryError, *, chains: bool
) -> None:
    """Remove what was written of snapshots that came to nothing, by id, as far as that is possible."""
    if chains:
        await take_back_chains(session, label, names, error)
        return
    for snapshot_id, own in names.items():
        if own:
            await deletion.take_back(session, label, manifest_filename(label, snapshot_id), own, error)


def was_removed(now: State, arrived: Arrived, *, before: State) -> bool:
    """Whether others removed something of a snapshot, or may have taken it for a leftover, since the label was looked
    at.

    Args:
        now: The label, in a listing that was made after the snapshot's manifest was written.
        arrived: The snapshot.
        before: The label as it was looked at before.
    """
    files, pointer, snapshot_id = now.listed, now.decision.pointer, arrived.entry.snapshot_id
    if files.complete and any(name not in files.files for name in (*arrived.names, *arrived.beside)):
        return True
    if pointer.entry(snapshot_id) is not None:
        return False
    if arrived.entry.packs and not _is_proven(now, arrived):
        return True
    if now.text == before.text:
        return False
    if snapshot_id in pointer.gone or (arrived.found and not is_committed(now, snapshot_id)):
        return True
    written = files.written([manifest_filename(now.label, snapshot_id)])
    return arrived.wrote and written is not None and files.now is not None and files.now - written[0] >= GRACE


def _is_proven(now: State, arrived: Arrived) -> bool:
    """Whether nobody can have taken the new files of a chain for leftovers before its manifest was there."""
    files = now.listed
    written = files.written(arrived.written)
    return files.complete and (written is None or max(written) - min(written) < GRACE)


def require_no_rollback(state: State) -> None:
    """Raise a RollbackDetected where the label was set back, and is not gone as a whole."""
    if state.decision.rollback is not None and state.text is not None:
        raise state.decision.rollback


@dataclass(frozen=True)
class Whole:
    """A snapshot whose every byte was checked.

    Attributes:
        manifest: Its manifest.
        files: Texts by name in the order in which they are written, the manifest last: all that it needs, or what of
            that its destination lacks.
        packs: The packs of a chain, base first; empty in format 1.
        documents: Its documents, None where this client cannot read them: then its stored bytes alone were checked.
        chain: What those packs lead to, where they were read.
    """

    manifest: Manifest
    files: Mapping[str, str]
    packs: tuple[Pack, ...] = ()
    documents: Mapping[str, str] | None = None
    chain: Chain | None = None

    @property
    def snapshot_id(self) -> str:
        """Id of the snapshot."""
        return self.manifest.info.snapshot_id

    @property
    def manifest_file(self) -> str:
        """Name of its manifest."""
        return manifest_filename(self.manifest.info.label, self.snapshot_id)

    @property
    def needed(self) -> tuple[str, ...]:
        """Names of all files that it needs, the manifest last."""
        return (*self.manifest.part_files, self.manifest_file)

    @property
    def entry(self) -> Entry:
        """What a catalogue says of it. The bytes are those of its own files, without the packs of others."""
        own = self.needed[-1 - len(self.packs[-1].sizes) :] if self.packs else self.needed
        stored = sum(len(self.files[name].encode("utf-8")) for name in own)
        return Entry(replace(self.manifest.info, stored_bytes=stored), self.manifest.sha256, packs=self.manifest.packs)


class Reader:
    """Reads snapshots of one label. What the one before needed is neither read nor unpacked again.

    Args:
        session: Whose snapshots they are, and by whose trust they are judged.
        max_bytes: Bytes of plain text to accept at most.
        blindly: Take chains by the digests of their stored bytes where zstd is not installed, as encrypted ones are.
    """

    def __init__(self, session: Session, *, max_bytes: int | None = None, blindly: bool = False) -> None:
        self._session, self._blindly = session, blindly
        self._max_bytes = session.max_bytes if max_bytes is None else min(max_bytes, session.max_bytes)
        self._files: Mapping[str, str] = {}
        self._packs: tuple[Pack, ...] = ()
        self._chain: Chain | None = None

    async def read(self, label: str, snapshot_id: str) -> Whole:
        """One snapshot.

        Raises:
            SnapshotNotFound: It is not there.
            SnapshotCorrupt: It is damaged, or no vault file could hold what is in it.
            UntrustedSnapshot: The client does not trust it.
        """
        given: dict[str, StoredFile | None] = {name: StoredFile(text, None) for name, text in self._files.items()}
        given.pop(manifest_filename(label, snapshot_id), None)
        loaded = await load(
            self._session, label, snapshot_id, keep_files=True, given=given, unpack=self._unpack,
            max_bytes=self._max_bytes,
        )  # fmt: skip
        _require_text(loaded)
        if not isinstance(loaded.manifest, ChainManifest):
            return Whole(loaded.manifest, loaded.files, documents=loaded.documents)
        self._files = loaded.files
        documents = loaded.documents or None
        return Whole(loaded.manifest, loaded.files, self._packs, documents, self._chain)

    def _unpack(
        self,
        manifest: Manifest,
        texts: dict[str, str | None],
        *,
        max_bytes: int,
        identities: Identities | None = None,
        spend: Spend = spend_freely,
    ) -> dict[str, str] | None:
        if not isinstance(manifest, ChainManifest):
            raise TypeError("the manifest was not read as one of format 2")
        if manifest.info.encrypted:
            return self._unseal(manifest, texts, max_bytes, identities, spend)
        if self._blindly and not is_readable(manifest.info.format):
            self._packs, self._chain = read_packs(manifest, texts, known=self._packs), None
            return None
        self._chain, documents = read_chain(manifest, texts, max_bytes=max_bytes, known=self._chain, spend=spend)
        self._packs = tuple(link.pack for link in self._chain.links)
        return documents

    def _unseal(
        self,
        manifest: ChainManifest,
        texts: dict[str, str | None],
        max_bytes: int,
        identities: Identities | None,
        spend: Spend,
    ) -> dict[str, str] | None:
        """An encrypted one, opened where this client can, so that it is no bomb; what is below is never kept open."""
        sealed, before = dict(texts), self._packs
        self._packs, self._chain = read_packs(manifest, texts, known=before), None
        if identities is None or not is_readable(manifest.info.format):
            return None
        try:
            return read_chain(manifest, sealed, max_bytes=max_bytes, identities=identities, spend=spend)[1]
        except DecryptionError:
            return None


def _require_text(loaded: Loaded) -> None:
    for name, text in loaded.files.items():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            msg = f"{name} holds half of a surrogate pair, which no vault file can"
            raise SnapshotCorrupt(msg, file=name) from error
