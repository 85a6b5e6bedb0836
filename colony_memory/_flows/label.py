"""One label as the vault shows it: its pointer, and every snapshot that is there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from colony_memory._flows.session import log
from colony_memory._names import id_order, latest_filename, manifest_filename, read_filename
from colony_memory._vault import ABSENT, ANY, Listing
from colony_memory.catalog import Entry, Pointer, read_pointer
from colony_memory.exceptions import ColonyMemoryError, SnapshotCorrupt, UntrustedSnapshot
from colony_memory.snapshot import Manifest, SnapshotInfo, read_manifest
from colony_memory.trust import judge

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from colony_memory._flows.session import Session

#: Parts without a manifest that are younger may be a backup under way.
ORPHAN_GRACE = timedelta(hours=1)


@dataclass(frozen=True)
class PointerRead:
    """A pointer as it was read.

    Attributes:
        text: The file's text, None where it is not there.
        match: The condition under which it is still the same, for :meth:`Vault.put`.
        pointer: What it says, None where it is not there or not readable.
        problem: What is wrong with it.
    """

    text: str | None
    match: str
    pointer: Pointer | None
    problem: str | None = None


async def find_pointer(session: Session, label: str) -> PointerRead:
    """Read the pointer of a label."""
    file = await session.vault.get(latest_filename(label))
    if file is None:
        return PointerRead(None, ABSENT, None, f"there is no pointer {latest_filename(label)}")
    match = file.etag or ANY
    try:
        return PointerRead(file.content, match, read_pointer(file.content, label=label))
    except SnapshotCorrupt as error:
        return PointerRead(file.content, match, None, str(error))


@dataclass(frozen=True)
class Survey:
    """One label as the vault shows it.

    Attributes:
        label: The label.
        listing: Its files.
        entries: Every snapshot whose manifest is readable, newest first, with its digest.
        whole: Those with all their parts, newest first.
        broken: What is wrong with each other manifest, by file name.
        orphans: Files of parts by id, where no manifest stands beside them.
    """

    label: str
    listing: Listing
    entries: tuple[Entry, ...]
    whole: tuple[SnapshotInfo, ...]
    broken: Mapping[str, str]
    orphans: Mapping[str, tuple[str, ...]]

    @property
    def ids(self) -> set[str]:
        """Every id that any file is of."""
        found = (read_filename(name) for name in self.listing.files)
        return {file.snapshot_id for file in found if file is not None and file.snapshot_id is not None}

    @property
    def whole_entries(self) -> tuple[Entry, ...]:
        """The catalogue of what is whole."""
        whole = {info.snapshot_id for info in self.whole}
        return tuple(entry for entry in self.entries if entry.info.snapshot_id in whole)

    def part_files(self, snapshot_id: str) -> list[str]:
        """Part files of a snapshot that are there, by name, whatever its manifest says."""
        return _part_files(self.listing, self.label, snapshot_id)

    def without(self, snapshot_id: str, problem: str) -> Survey:
        """The same with a snapshot found broken."""
        return replace(
            self,
            entries=tuple(entry for entry in self.entries if entry.info.snapshot_id != snapshot_id),
            whole=tuple(info for info in self.whole if info.snapshot_id != snapshot_id),
            broken={**self.broken, manifest_filename(self.label, snapshot_id): problem},
        )


def _part_files(listing: Listing, label: str, snapshot_id: str) -> list[str]:
    found = [(read_filename(name), name) for name in listing.files]
    return [
        name for file, name in found if file is not None and file[:2] == (label, snapshot_id) and file.seq is not None
    ]


async def survey(
    session: Session, label: str, pointer: Pointer | None, *, listing: Listing | None = None, prove: bool = False
) -> Survey:
    """Look at every snapshot of a label.

    Args:
        session: The client.
        label: The label.
        pointer: Its pointer; the catalogue spares reading the manifests.
        listing: Its files, where they are known already.
        prove: Read every manifest that this client has not read yet, and check signatures.
    """
    if listing is None:
        listing = await session.vault.list(f"cmem.{label}.")
    parts: dict[str, dict[int, str]] = {}
    manifests: list[str] = []
    for name in listing.files:
        file = read_filename(name)
        if file is None or file.label != label or file.snapshot_id is None:
            continue
        if file.seq is None:
            manifests.append(file.snapshot_id)
        else:
            parts.setdefault(file.snapshot_id, {})[file.seq] = name
    manifests.sort(key=id_order, reverse=True)

    known = {entry.info.snapshot_id: entry for entry in (pointer.entries if pointer else None) or ()}
    broken: dict[str, str] = {}
    unread = [i for i in manifests if prove or i not in known]
    read = await read_manifests(session, label, unread, broken=broken, check=prove)
    entries, whole = [], []
    for snapshot_id in manifests:
        manifest = read.get(snapshot_id)
        if manifest is None and (snapshot_id in unread or snapshot_id not in known):
            continue
        shrunk_at = known[snapshot_id].shrunk_at if snapshot_id in known else None
        entry = Entry(manifest.info, manifest.sha256, shrunk_at) if manifest else known[snapshot_id]
        own = parts.get(snapshot_id, {})
        sizes = [listing.files[name].size for name in (manifest_filename(label, snapshot_id), *own.values())]
        stored = sum(size or 0 for size in sizes) if None not in sizes else 0
        if manifest:
            cut = stored > 0 and stored - (sizes[0] or 0) < manifest.blob_chars
        else:
            cut = 0 < stored < entry.info.stored_bytes
        missing = [seq for seq in range(entry.info.part_count) if seq not in own]
        head = pointer is not None and pointer.snapshot_id == snapshot_id
        told = stored or entry.info.stored_bytes or (manifest.blob_chars if manifest else 0)
        info = replace(entry.info, stored_bytes=told, head=head)
        entries.append(replace(entry, info=info))
        if missing:
            broken[manifest_filename(label, snapshot_id)] = f"part {missing[0]} of snapshot {snapshot_id} is missing"
        elif cut:
            broken[manifest_filename(label, snapshot_id)] = f"a part of snapshot {snapshot_id} is cut short"
        else:
            whole.append(info)
    orphans = {i: tuple(own.values()) for i, own in parts.items() if i not in manifests}
    return Survey(label, listing, tuple(entries), tuple(whole), broken, orphans)


async def read_manifests(
    session: Session, label: str, ids: Iterable[str], *, broken: dict[str, str], check: bool = False
) -> dict[str, Manifest]:
    """Read manifests, at once; what is wrong with one goes into ``broken``, one that has gone is passed over."""
    out: dict[str, Manifest] = {}
    files = {manifest_filename(label, snapshot_id): snapshot_id for snapshot_id in ids}
    fetched = await session.vault.get_many(name for name in files if name not in session.manifests)
    for name, snapshot_id in files.items():
        try:
            if name not in session.manifests:
                file = fetched[name]
                if file is None:
                    continue
                session.manifests[name] = read_manifest(file.content, label=label, snapshot_id=snapshot_id)
            manifest = session.manifests[name]
            if check:
                judge(manifest.raw, verify=True)
        except (SnapshotCorrupt, UntrustedSnapshot) as error:
            broken[name] = str(error)
            continue
        except ColonyMemoryError:
            # The extra that checks signatures is missing. Nobody is pinned, so nothing speaks against the snapshot.
            log(f"the signature of snapshot {snapshot_id} was not checked")
        out[snapshot_id] = manifest
    return out
