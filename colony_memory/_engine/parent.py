"""What a snapshot of format 2 goes on from: the chain of the newest one that is committed, every byte of it read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colony_memory._engine.load import load
from colony_memory._engine.sealed import open_manifest
from colony_memory._engine.session import log
from colony_memory._format.constants import FORMAT_2
from colony_memory._format.names import manifest_filename
from colony_memory._format.payload import Spend, spend_freely
from colony_memory._format.v2.build import BuiltChain, read_parent
from colony_memory._format.v2.manifest import ChainManifest
from colony_memory._values import dataclass
from colony_memory.exceptions import ColonyMemoryError, VaultError, message_of

if TYPE_CHECKING:
    from colony_memory._engine.session import Session
    from colony_memory._engine.state import State
    from colony_memory._format.age import Identities, Lock
    from colony_memory._format.catalog import Entry
    from colony_memory._format.v2.chain import Chain
    from colony_memory.snapshot import BuiltSnapshot, Manifest, SnapshotInfo


@dataclass(frozen=True)
class Parent:
    """A snapshot to go on from.

    Attributes:
        label: Its label.
        snapshot_id: Its id.
        manifest_sha256: Digest of its manifest.
        chain: What it holds, as it was read or written by this client.
        lock: What it is encrypted with, None where it is not.
    """

    label: str
    snapshot_id: str
    manifest_sha256: str
    chain: Chain
    lock: Lock | None = None

    @property
    def manifest_file(self) -> str:
        """Its manifest, without which nothing keeps its packs."""
        return manifest_filename(self.label, self.snapshot_id)


async def parent_of(session: Session, state: State) -> Parent | None:
    """What the next snapshot goes on from, None where a base has to be written: what is damaged or not trusted is no
    parent.
    """
    if session.recipients is not None and session.identities is None:
        return None  # it cannot read what is below
    encrypted = session.recipients is not None
    entry, kept = _newest(state, encrypted=encrypted), session.parents.get(state.label)
    if entry is None:
        return None
    if kept is not None and (kept.snapshot_id, kept.manifest_sha256) == (entry.snapshot_id, entry.manifest_sha256):
        return kept
    label = state.label
    chains: list[Chain] = []

    def read(
        manifest: Manifest,
        texts: dict[str, str | None],
        *,
        max_bytes: int,
        identities: Identities | None = None,
        spend: Spend = spend_freely,
    ) -> None:
        # No documents are made: beside the chain they would be the whole memory once more.
        if isinstance(manifest, ChainManifest):
            chains.append(read_parent(manifest, texts, max_bytes=max_bytes, identities=identities, spend=spend))

    try:
        manifest = (await load(session, label, entry.snapshot_id, unpack=read, entry=entry)).manifest
        if not chains or manifest.sha256 != entry.manifest_sha256:
            return None
        lock = (await open_manifest(session, manifest)).lock if encrypted else None
        if encrypted and lock is None:
            return None  # whoever is to read the next one could not read what is below
        session.proved(label, entry.snapshot_id)
    except VaultError:
        raise
    except ColonyMemoryError as error:
        log(
            f"snapshot {entry.snapshot_id} of label {label!r} cannot be built on, so the next one is stored whole: "
            f"{message_of(error)}"
        )
        return None
    return Parent(label, entry.snapshot_id, manifest.sha256, chains[0], lock)


def _newest(state: State, *, encrypted: bool) -> Entry | None:
    decision = state.decision
    if decision.doubt is not None:
        return None
    rows = decision.building if state.files is not None else decision.pointer.entries or ()
    return next((entry for entry in rows if _is_like(entry.info, encrypted=encrypted)), None)


def _is_like(info: SnapshotInfo, *, encrypted: bool) -> bool:
    return info.format == FORMAT_2 and info.encrypted == encrypted


def keep(session: Session, built: BuiltSnapshot) -> None:
    """Remember what was just written, so that the next snapshot need not read it."""
    if not isinstance(built, BuiltChain) or built.chain is None:
        return
    if built.lock is None or session.identities is not None:
        label, snapshot_id = built.info.label, built.info.snapshot_id
        session.parents[label] = Parent(label, snapshot_id, built.manifest_sha256, built.chain, built.lock)
