"""How one whole snapshot goes from one place into a vault, byte for byte.

The order is that of a backup: parts, then the manifest, and the pointer last of all. What is there already with the
same bytes is not written again, so that a transfer that was stopped anywhere goes on where it stopped.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from colony_memory._engine.backup import _available
from colony_memory._engine.label import ORPHAN_GRACE
from colony_memory._engine.restore import load
from colony_memory._engine.store import ABSENT, Changed, StoredFile, Vault
from colony_memory._format.names import manifest_filename
from colony_memory._format.pointer import Entry
from colony_memory.exceptions import (
    ConflictDetected,
    QuotaExceeded,
    SnapshotCorrupt,
    SnapshotNotFound,
    VaultError,
)
from colony_memory.snapshot import MAX_FILE_BYTES, Manifest, read_manifest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from colony_memory._engine.session import Session
    from colony_memory._engine.store import Listing, Tell

_T = TypeVar("_T")


@dataclass(frozen=True)
class Whole:
    """A snapshot whose every byte was checked.

    Attributes:
        manifest: Its manifest.
        files: Texts of its vault files by name: the parts in order, then the manifest.
    """

    manifest: Manifest
    files: Mapping[str, str]

    @property
    def entry(self) -> Entry:
        """What a catalogue says of it."""
        stored = sum(len(text.encode("utf-8")) for text in self.files.values())
        return Entry(replace(self.manifest.info, stored_bytes=stored), self.manifest.sha256)


class _Held(Vault):
    """Files that were read already, as a vault: the verbs that judge a snapshot judge these."""

    def __init__(self, files: Mapping[str, str], vault: Vault) -> None:
        super().__init__(None)
        self._files, self._vault = files, vault

    async def get(self, name: str) -> StoredFile | None:
        return StoredFile(self._files[name], None) if name in self._files else None

    async def get_many(self, names: Iterable[str], tell: Tell | None = None) -> dict[str, StoredFile | None]:  # noqa: ARG002
        return {name: await self.get(name) for name in names}

    async def compute(self, function: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
        return await self._vault.compute(function, *args, **kwargs)


async def fetch(session: Session, label: str, snapshot_id: str) -> Whole:
    """Read a snapshot's files and check them as a restore of it would.

    Raises:
        SnapshotNotFound: It is not there.
        SnapshotCorrupt: It is damaged.
        UntrustedSnapshot: The client does not trust it.
    """
    file = manifest_filename(label, snapshot_id)
    stored = await session.vault.get(file)
    if stored is None:
        msg = f"no snapshot {snapshot_id!r} for label {label!r}"
        raise SnapshotNotFound(msg)
    manifest = read_manifest(stored.content, label=label, snapshot_id=snapshot_id)
    parts = await session.vault.get_many(manifest.part_files, session.tell)
    if None in parts.values() and await session.vault.get(file) is None:
        msg = f"snapshot {snapshot_id!r} for label {label!r} was deleted while it was read"
        raise SnapshotNotFound(msg)
    files = {name: part.content for name, part in parts.items() if part is not None}
    return await check(session, label, snapshot_id, {**files, file: stored.content})


async def check(session: Session, label: str, snapshot_id: str, files: Mapping[str, str]) -> Whole:
    """Decide on a snapshot's files as a restore by this client would, and that nothing else is among them.

    Raises:
        SnapshotCorrupt: It is damaged, or a file is not its own.
        UntrustedSnapshot: The client does not trust it.
    """
    held = copy.copy(session)
    held.vault, held.manifests, held.good = _Held(files, session.vault), {}, set()
    manifest, _ = await load(held, label, snapshot_id, verify=True)
    own = {name: files[name] for name in (*manifest.part_files, manifest_filename(label, snapshot_id))}
    for name in files:
        if name not in own:
            msg = f"{name} is no file that snapshot {snapshot_id} of label {label!r} needs"
            raise SnapshotCorrupt(msg, file=name)
    for name, text in own.items():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            msg = f"{name} holds half of a surrogate pair, which no vault file can"
            raise SnapshotCorrupt(msg, file=name) from error
    return Whole(manifest, own)


async def store(session: Session, whole: Whole, there: Listing) -> bool:
    """Write what is not there yet of a snapshot, and read it back; whether anything was written.

    Args:
        session: The client whose vault it goes into.
        whole: The snapshot.
        there: What that vault holds of the label.

    Raises:
        ConflictDetected: Another content is there under this id.
        QuotaExceeded: It does not fit; nothing of it was written.
        VaultError: The vault failed or refused. Doing it again goes on where it stopped.
    """
    info, files = whole.manifest.info, whole.files
    file = manifest_filename(info.label, info.snapshot_id)
    listed = [name for name in files if name in there.files or not there.complete]
    found = await session.vault.get_many(listed)
    for name, stored in found.items():
        if stored is not None and stored.content != files[name]:
            raise _other(whole, name)
    missing = [name for name in files if found.get(name) is None]
    if missing:
        await _need_room(session, whole, missing)
        await _write(session, whole, missing)
        await _read_back(session, whole, missing)
    session.manifests[file] = whole.manifest
    session.good.add(info.snapshot_id)
    return bool(missing)


async def _need_room(session: Session, whole: Whole, missing: list[str]) -> None:
    info, need = whole.manifest.info, 0
    for name in missing:
        size = len(whole.files[name].encode("utf-8"))
        need += size
        if size > MAX_FILE_BYTES:
            msg = (
                f"snapshot {info.snapshot_id} of label {info.label!r} not written: {name} is {size} bytes and a vault "
                f"file holds {MAX_FILE_BYTES}"
            )
            raise QuotaExceeded(msg, needed=size, available=MAX_FILE_BYTES)
    await need_bytes(session, need, f"snapshot {info.snapshot_id} of label {info.label!r} not written: it takes")


async def need_bytes(session: Session, need: int, what: str) -> None:
    """Raise a QuotaExceeded unless so many bytes are free."""
    available = await _available(session)
    if available is not None and need > available:
        msg = f"{what} {need} bytes and {available} are free in the vault; prune() makes room"
        raise QuotaExceeded(msg, needed=need, available=available)


async def _write(session: Session, whole: Whole, missing: list[str]) -> None:
    info, started = whole.manifest.info, session.now()
    *parts, file = whole.files
    writes = [name for name in parts if name in missing]
    resumed = file in missing and len(writes) < len(parts)
    if resumed and not writes:
        # Parts without a manifest are swept once the newest of them is an hour old: that hour begins again.
        await session.vault.put(parts[-1], whole.files[parts[-1]])
    for done, name in enumerate(writes, 1):
        await _create(session, whole, name)
        session.tell("upload", name, done, len(missing))
    if file not in missing:
        return
    if resumed or abs(session.now() - started) > ORPHAN_GRACE / 2:
        listing = await session.vault.list(f"cmem.{info.label}.")
        gone = [name for name in parts if name not in listing.files]
        if gone and listing.complete:
            msg = f"{gone[0]} was removed as a leftover before its snapshot was whole: do it again"
            raise VaultError(msg)
    await _create(session, whole, file)
    session.tell("upload", file, len(missing), len(missing))


async def _create(session: Session, whole: Whole, name: str) -> None:
    try:
        await session.vault.put(name, whole.files[name], match=ABSENT)
    except Changed as error:
        raise _other(whole, name) from error


async def _read_back(session: Session, whole: Whole, names: Iterable[str]) -> None:
    for name, stored in (await session.vault.get_many(names)).items():
        if stored is None or stored.content != whole.files[name]:
            what = "is not there" if stored is None else "holds another text"
            msg = f"{name} was written, and read back it {what}: do it again"
            raise VaultError(msg)


def _other(whole: Whole, name: str) -> ConflictDetected:
    info = whole.manifest.info
    msg = (
        f"{name} is there with another content, so snapshot {info.snapshot_id} of label {info.label!r} is not written; "
        "verify() tells whether the one that is there is damaged, and delete_snapshot() makes way"
    )
    return ConflictDetected(msg, theirs=info.snapshot_id, snapshot_id=None)
