"""Every byte of one snapshot is read, and what holds of it is told fact by fact, whatever does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from colony_memory._engine.load import room_for
from colony_memory._engine.observe import spending
from colony_memory._format.formats import format_of
from colony_memory._format.names import manifest_filename
from colony_memory.exceptions import (
    ColonyMemoryError,
    DecryptionError,
    SnapshotCorrupt,
    UnsupportedFormat,
    UntrustedSnapshot,
    message_of,
)
from colony_memory.reports import Fact, SnapshotCheck
from colony_memory.trust import OPEN

if TYPE_CHECKING:
    from colony_memory._engine.session import Session
    from colony_memory._engine.state import State
    from colony_memory._engine.store import Shelf
    from colony_memory.snapshot import Manifest


async def check_snapshot(
    session: Session,
    label: str,
    snapshot_id: str,
    *,
    state: State | None = None,
    manifests: dict[str, Manifest] | None = None,
    shelf: Shelf | None = None,
) -> SnapshotCheck | None:
    """Read every byte of one snapshot; None where it is not there."""
    file = manifest_filename(label, snapshot_id)
    stored = await session.vault.get(file)
    if stored is None:
        return None
    try:
        manifest = session.read_manifest(stored.content, label=label, snapshot_id=snapshot_id)
    except SnapshotCorrupt as error:
        return SnapshotCheck(snapshot_id, manifest="bad", problem=message_of(error))
    session.manifests[file] = manifest
    if manifests is not None:
        manifests[snapshot_id] = manifest
    signature, unproven = _check_signature(manifest)
    trust, distrusted = _check_trust(session, manifest, state)
    catalog, replaced = _check_row(manifest, state)
    shelf = shelf if manifest.packs else None
    content = await _check_content(session, manifest, shelf, unpacks=trust in ("ok", "unchecked"))
    if content.parts == "missing" and await session.vault.get(file) is None:
        return None  # it was deleted while it was read
    return SnapshotCheck(
        snapshot_id,
        "ok",
        content.parts,
        content.digest,
        signature,
        manifest.info.issuer,
        distrusted or unproven or replaced or content.problem,
        trust=trust,
        catalog=catalog,
        previous=manifest.info.parent_id,
        closed=content.closed,
    )


def _check_signature(manifest: Manifest) -> tuple[Fact, str | None]:
    """Whether the signature holds, whoever made it."""
    if not manifest.info.signed:
        return "missing", None
    try:
        OPEN.judge(manifest.raw)
    except UntrustedSnapshot as error:
        return "bad", message_of(error)
    except ColonyMemoryError as error:
        return "unchecked", message_of(error)
    return "ok", None


def _check_trust(session: Session, manifest: Manifest, state: State | None) -> tuple[Fact, str | None]:
    """Whether this client, where it pins issuers, takes it."""
    if not session.trust.pins:
        return "unchecked", None
    try:
        session.trust.judge(manifest.raw)
    except UntrustedSnapshot as error:
        if state is not None and manifest.info.snapshot_id in state.decision.unsigned:
            return "missing", "older than signing: it is not signed, and so not trusted"
        return "bad", message_of(error)
    strange = state.decision.untrusted.get(manifest.info.snapshot_id) if state else None
    return ("ok", None) if strange is None else ("bad", message_of(strange))


def _check_row(manifest: Manifest, state: State | None) -> tuple[Fact, str | None]:
    """Whether the pointer lists just this manifest."""
    pointer, snapshot_id = state.decision.pointer if state else None, manifest.info.snapshot_id
    if pointer is None or pointer.entries is None:
        return "unchecked", None
    entry = pointer.entry(snapshot_id)
    if entry is None:
        return "missing", None
    if entry.manifest_sha256 == manifest.sha256:
        return "ok", None
    return "bad", f"the manifest of snapshot {snapshot_id} is not the one that the pointer lists"


class _Content(NamedTuple):
    """What holds of a snapshot's files: that they are whole, and that they are the memory which was saved."""

    parts: Fact
    digest: Fact
    problem: str | None = None
    closed: str | None = None


async def _check_content(session: Session, manifest: Manifest, shelf: Shelf | None, *, unpacks: bool) -> _Content:
    try:
        at_most = room_for(manifest, session.max_bytes)
        found = (await session.vault.get_many(manifest.part_files, at_most=at_most, shelf=shelf)).items()
    except SnapshotCorrupt as error:
        return _Content("bad" if error.file in manifest.part_files else "unchecked", "unchecked", message_of(error))
    texts = {name: file.content if file else None for name, file in found}
    del found  # so that a part's text is freed once it is read
    parts: Fact = "missing" if None in texts.values() else "ok"
    if not unpacks:
        # Anyone may have made it: what it costs to unpack is not spent on it, nor a passphrase tried.
        return _Content("missing" if parts == "missing" else "unchecked", "unchecked")
    file = manifest_filename(manifest.info.label, manifest.info.snapshot_id)
    try:
        spend = spending(session, file)
    except ColonyMemoryError as error:
        return _Content("unchecked" if parts == "ok" else parts, "unchecked", message_of(error))
    try:
        unpack = format_of(manifest.info.format).read
        await session.vault.compute(
            unpack, manifest, texts, max_bytes=session.max_bytes, identities=session.identities, spend=spend
        )
    except DecryptionError as error:
        return _Content(parts, "unchecked", closed=message_of(error))
    except UnsupportedFormat as error:  # nothing was looked into, which is not to have found damage
        return _Content("unchecked" if parts == "ok" else parts, "unchecked", message_of(error))
    except SnapshotCorrupt as error:
        if parts == "ok" and error.file in manifest.part_files:
            return _Content("bad", "unchecked", message_of(error))
        too_large = manifest.info.byte_size > session.max_bytes
        return _Content(parts, "unchecked" if parts != "ok" or too_large else "bad", message_of(error))
    return _Content(parts, "ok")
