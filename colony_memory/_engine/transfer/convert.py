"""The same snapshot in the other format, for a destination that wants that.

Id, time, note, tags and what it was made upon stay. What was signed is signed by the destination's signer, who vouches
for what this client has proven and read; nothing is signed that was not. The manifest says what it was made from, by
digest and issuer, so that the snapshots after it, which name that digest, still fit.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from colony_memory._engine import room
from colony_memory._engine.transfer.destination import is_committed, require_conditions
from colony_memory._engine.transfer.whole import Reader, Whole
from colony_memory._format.constants import FORMAT, FORMAT_2
from colony_memory._format.v2.build import BuiltChain
from colony_memory._format.v2.build import build as build_chain
from colony_memory._format.v2.zstd import require_zstd
from colony_memory.exceptions import (
    ColonyMemoryError,
    ConflictDetected,
    Hint,
    QuotaExceeded,
    SnapshotCorrupt,
    UnsupportedFormat,
    UntrustedSnapshot,
    message_of,
)
from colony_memory.signing import did_key_of
from colony_memory.snapshot import build as build_parts
from colony_memory.snapshot import read_manifest
from colony_memory.trust import previous_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from colony_memory._engine.session import Session
    from colony_memory._engine.state import State
    from colony_memory._format.v2.chain import Chain
    from colony_memory.signing import Signer
    from colony_memory.snapshot import Manifest


class Converter:
    """Makes what goes into one label of one format.

    Args:
        session: The destination, which signs.
        wire: The format that it is to have.

    Raises:
        ColonyMemoryError: The destination cannot take that format, or zstd is not installed.
    """

    def __init__(self, session: Session, wire: str) -> None:
        self._session, self._wire = session, wire
        self._there = Reader(session)
        self._parent: Chain | None = None
        if session.recipients is not None:
            raise ColonyMemoryError(
                "a converted snapshot is written in the clear, and this client encrypts what it writes: restore it, "
                "and back that up"
            )
        if wire == FORMAT_2:
            require_conditions(session, "what is to be written")
            require_zstd()

    async def convert(self, state: State, whole: Whole) -> Whole | None:
        """A snapshot as it is to be at the destination: as it is, where it is of the format; as it is there already;
        else built anew. None where it is there and not committed: it may be made upon what is not committed either.

        Args:
            state: The destination's label.
            whole: The snapshot.

        Raises:
            ConflictDetected: Something else is there under its id, or it is there in the other format.
            UntrustedSnapshot: It is signed, and nobody is there whose signature would be trusted in its place.
            SnapshotCorrupt: What is there already is damaged, or the format does not hold this memory.
            UnsupportedFormat: This client cannot read it, or it is encrypted.
        """
        info = whole.manifest.info
        if info.format == self._wire:
            return whole
        if info.encrypted or whole.documents is None:
            why = "encrypted" if info.encrypted else "not readable here"
            msg = f"snapshot {info.snapshot_id} of label {info.label!r} is {why}, so it cannot be converted"
            raise UnsupportedFormat(msg, file=whole.manifest_file)
        if info.snapshot_id in state.listed.manifests:
            return await self._find(state, whole) if is_committed(state, info.snapshot_id) else None
        return await self._session.vault.compute(self._build, whole, whole.documents, self._signer(whole))

    def arrived(self, whole: Whole) -> None:
        """Note what is at the destination now: the next one goes on from it."""
        if whole.chain is not None:
            self._parent = whole.chain

    async def _find(self, state: State, whole: Whole) -> Whole:
        """The snapshot as an earlier conversion left it there, read in full."""
        info, label = whole.manifest.info, state.label
        there = await self._there.read(label, info.snapshot_id)
        found = there.manifest.info
        if found.format != self._wire or found.plaintext_sha256 != info.plaintext_sha256:
            other = found.plaintext_sha256 != info.plaintext_sha256
            what = "with another memory" if other else f"in {found.format}"
            msg = f"snapshot {info.snapshot_id} of label {label!r} is there already, {what}; nothing is rewritten"
            raise ConflictDetected(msg, theirs=info.snapshot_id, hint=Hint("verify", label=label))
        return there

    def _signer(self, whole: Whole) -> Signer | None:
        info, session = whole.manifest.info, self._session
        if not info.signed:
            return None  # to sign what nobody signed would make it more than it was
        named = f"snapshot {info.snapshot_id} of label {info.label!r}"
        if session.signer is None:
            msg = f"{named} is signed, and converting it takes a signer, since its manifest becomes another one"
            raise UntrustedSnapshot(msg, hint=Hint("open", "signer"))
        session.trust.admit(did_key_of(session.signer), info.snapshot_id, what=f"{named}, once it is converted,")
        return session.signer

    def _build(self, whole: Whole, documents: Mapping[str, str], signer: Signer | None) -> Whole:
        manifest = whole.manifest
        info = manifest.info
        build = build_parts if self._wire == FORMAT else partial(build_chain, parent=self._parent)
        try:
            built = build(
                dict(documents),
                label=info.label,
                snapshot_id=info.snapshot_id,
                created_at=info.created_at,
                signer=signer,
                previous=_previous(manifest),
                stream=manifest.stream,
                note=info.note,
                incomplete=info.incomplete,
                tags=info.tags,
                converted=[*manifest.converted, _origin(manifest)],
                lineage=manifest.lineage,
                ruined=manifest.ruined,
                max_bytes=self._session.max_bytes,
            )
            room.check_files(built.files, f"snapshot {info.snapshot_id} of label {info.label!r}")
        except (ValueError, QuotaExceeded) as error:
            named = f"snapshot {info.snapshot_id} of label {info.label!r}"
            msg = f"{named} cannot be converted to {self._wire}: {message_of(error)}"
            raise SnapshotCorrupt(msg, file=whole.manifest_file) from error
        made = read_manifest(built.files[built.manifest_file], label=info.label, snapshot_id=info.snapshot_id)
        chain = built.chain if isinstance(built, BuiltChain) else None
        packs = () if chain is None else tuple(link.pack for link in chain.links)
        return Whole(made, built.files, packs, documents, chain)


def _previous(manifest: Manifest) -> dict[str, str] | None:
    before = previous_of(manifest.raw)
    return None if before is None else {"snapshot_id": before[0], "manifest_sha256": before[1]}


def _origin(manifest: Manifest) -> dict[str, str | None]:
    """What a converted manifest says of the one that it was made from."""
    return {"format": manifest.info.format, "manifest_sha256": manifest.sha256, "issuer": manifest.info.issuer}
