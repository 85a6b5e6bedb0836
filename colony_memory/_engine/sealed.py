"""Knowledge of snapshots beyond what is in the clear: of those that this client opened, saved or read itself."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from colony_memory._engine.session import log, warn
from colony_memory._engine.state import read_manifests
from colony_memory._format import FORMAT, age
from colony_memory._format.v2.build import BuiltChain
from colony_memory._format.v2.build import build as build_chain
from colony_memory._format.v2.manifest import ChainManifest, Facts, lock_of, unseal
from colony_memory._values import NamedTuple
from colony_memory.exceptions import ConflictDetected, DecryptionError, SnapshotCorrupt, message_of
from colony_memory.snapshot import build as build_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from colony_memory._engine.session import Session
    from colony_memory._format.age import Lock
    from colony_memory._format.catalog import Entry
    from colony_memory._format.v2.chain import Chain
    from colony_memory.snapshot import BuiltSnapshot, Manifest, SnapshotInfo


class Unsealed(NamedTuple):
    facts: Facts  # what it says to those who hold a key
    lock: Lock | None  # what it was encrypted with, None where that is not to the recipients of this client


async def open_manifest(session: Session, manifest: Manifest) -> Unsealed:
    known = session.opened.get(manifest.sha256)
    if known is None:
        known = await session.vault.compute(_open, session, manifest)
        session.opened[manifest.sha256] = known
    return known


def _open(session: Session, manifest: Manifest) -> Unsealed:
    if not isinstance(manifest, ChainManifest):
        raise TypeError("the manifest was not read as one of format 2")
    identities, recipients = session.identities, session.recipients
    facts = unseal(manifest, identities)
    lock = None if identities is None or recipients is None else lock_of(manifest, facts, identities, recipients)
    return Unsealed(facts, lock)


async def unsealed_info(session: Session, label: str, entry: Entry | None) -> SnapshotInfo | None:
    """The summary of a snapshot with what this client can open of it, and with what is in the clear alone where it can
    open nothing.
    """
    if entry is None:
        return None
    if not entry.info.encrypted:
        return session.known_info(entry)
    if entry.manifest_sha256 not in session.opened and session.identities is not None:
        read: dict[str, object] = {}
        await read_manifests(session, label, [entry.snapshot_id], read)  # type: ignore[arg-type]
        manifest = read.get(entry.snapshot_id)
        if isinstance(manifest, ChainManifest) and manifest.sha256 == entry.manifest_sha256:
            try:
                await open_manifest(session, manifest)
            except (DecryptionError, SnapshotCorrupt) as error:
                log(f"snapshot {entry.snapshot_id} of label {label!r} does not open: {message_of(error)}")
    return session.known_info(entry)


def would_do(session: Session, entry: Entry) -> bool:
    """True if a snapshot of the same memory would do in place of one that this client is to write: whoever encrypts
    wants it encrypted, and to the same recipients.
    """
    if session.recipients is None:
        return True
    opened = session.opened.get(entry.manifest_sha256)
    return entry.info.encrypted and opened is not None and opened.lock is not None


def require_closed(session: Session, info: SnapshotInfo) -> None:
    """Take nothing to a vault in the clear where this client encrypts."""
    if session.recipients is None or info.encrypted:
        return
    msg = (
        f"snapshot {info.snapshot_id} of label {info.label!r} is not encrypted, and this client writes nothing in the "
        "clear: restore it and back it up, or copy it with a client that does not encrypt"
    )
    raise ConflictDetected(msg, theirs=None)


def lock_for(session: Session, lock: Lock | None) -> Lock | None:
    if session.recipients is None or lock is not None:
        return lock
    made = session.recipients.lock()
    if session.identities is not None:
        session.identities.learn(made.key)
    return made


def builder(session: Session, wire: str, chain: Chain | None, lock: Lock | None) -> Callable[..., BuiltSnapshot]:
    """Builds a snapshot in this format, on a chain and its lock; what is to be encrypted is never in the clear."""
    if wire == FORMAT and session.recipients is None:
        return build_parts
    return partial(build_chain, parent=chain, lock=lock_for(session, lock))


def remember(session: Session, built: BuiltSnapshot, documents: Iterable[str]) -> None:
    """Keep what was just written, and say so where it is encrypted and this client could not open it again."""
    session.learn(built.manifest_sha256, documents)
    lock = built.lock if isinstance(built, BuiltChain) else None
    if not isinstance(built, BuiltChain) or built.facts is None or lock is None:
        return
    session.opened[built.manifest_sha256] = Unsealed(built.facts, lock)
    if session.identities is None or session.told_of_lock:
        return
    session.told_of_lock = True
    try:
        session.identities.open(lock.seal(b""), "" if lock.key is None else lock.key.blob)
    except age.NoFit:
        warn(
            "none of the identities of this client opens what it writes: it is encrypted to others only, so each "
            "backup is stored whole"
        )
