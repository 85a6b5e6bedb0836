"""Snapshots on their way from one place to another, read one after the other and checked in every byte."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from colony_memory._engine.load import Loaded, load
from colony_memory._engine.store import StoredFile
from colony_memory._format.catalog import Entry
from colony_memory._format.formats import is_readable
from colony_memory._format.names import manifest_filename
from colony_memory._format.payload import Spend, spend_freely
from colony_memory._format.v2.build import read_chain, read_packs
from colony_memory._format.v2.manifest import ChainManifest
from colony_memory.exceptions import DecryptionError, SnapshotCorrupt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from colony_memory._engine.session import Session
    from colony_memory._format.age import Identities
    from colony_memory._format.v2.chain import Chain
    from colony_memory._format.v2.pack import Pack
    from colony_memory.snapshot import Manifest


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
