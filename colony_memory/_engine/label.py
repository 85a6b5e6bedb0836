"""One label as the vault shows it: every snapshot that is there, and the one that restore gives."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from colony_memory._engine.pointer import check_rollback, find_pointer, head_of
from colony_memory._engine.session import log, warn
from colony_memory._format.names import id_order, manifest_filename, read_filename
from colony_memory._format.pointer import Entry, Pointer
from colony_memory.exceptions import ColonyMemoryError, RollbackDetected, SnapshotCorrupt, UntrustedSnapshot
from colony_memory.snapshot import Manifest, SnapshotInfo, read_manifest
from colony_memory.trust import check_newer, follows_signed_pointer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from colony_memory._engine.pointer import PointerRead
    from colony_memory._engine.session import Session
    from colony_memory._engine.store import Listing

#: Parts without a manifest that are younger may be a backup under way.
ORPHAN_GRACE = timedelta(hours=1)


@dataclass(frozen=True)
class Survey:
    """One label as the vault shows it.

    Attributes:
        label: The label.
        listing: Its files.
        entries: Every snapshot whose manifest is readable, newest first, with its digest.
        whole: Those with all their parts, newest first.
        broken: What is wrong with each other manifest, by file name; those that are not trusted are among them.
        untrusted: The errors of those, by id, newest first.
        orphans: Files of parts by id, where no manifest stands beside them.
    """

    label: str
    listing: Listing
    entries: tuple[Entry, ...]
    whole: tuple[SnapshotInfo, ...]
    broken: Mapping[str, str]
    orphans: Mapping[str, tuple[str, ...]]
    untrusted: Mapping[str, UntrustedSnapshot]

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

    def marked(self, at: PointerRead) -> list[SnapshotInfo]:
        """Those that are whole, the one that the pointer names with its head."""
        if at.pointer is None:
            return list(self.whole)
        digests = {entry.info.snapshot_id: entry.manifest_sha256 for entry in self.entries}
        return [
            replace(info, head=head_of(at.pointer, digests[info.snapshot_id]) if info.snapshot_id == at.named else "")
            for info in self.whole
        ]

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
        prove: Read every manifest that this client has not read yet, and check signatures. Where the client pins
            issuers, those that a proven catalogue does not have are always read and judged.
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
    untrusted: dict[str, UntrustedSnapshot] = {}
    unread = [i for i in manifests if prove or i not in known]
    check = prove or session.trust.pins
    read = await read_manifests(session, label, unread, broken=broken, untrusted=untrusted, check=check)
    entries, whole = [], []
    exact = session.trust.pins and pointer is not None and pointer.signed
    for snapshot_id in manifests:
        manifest = read.get(snapshot_id)
        if manifest is None and (snapshot_id in unread or snapshot_id not in known):
            continue
        shrunk_at = known[snapshot_id].shrunk_at if snapshot_id in known else None
        entry = Entry(manifest.info, manifest.sha256, shrunk_at) if manifest else known[snapshot_id]
        own = parts.get(snapshot_id, {})
        sizes = [listing.files[name].size for name in (manifest_filename(label, snapshot_id), *own.values())]
        stored = sum(size or 0 for size in sizes) if None not in sizes else 0
        changed = False
        if manifest:
            cut = stored > 0 and stored - (sizes[0] or 0) < manifest.blob_chars
        else:
            # A list that tells no sizes says nothing; a proven catalogue has the exact one.
            cut = 0 < stored < entry.info.stored_bytes
            changed = exact and 0 < entry.info.stored_bytes < stored
        missing = [seq for seq in range(entry.info.part_count) if seq not in own]
        told = stored or entry.info.stored_bytes or (manifest.blob_chars if manifest else 0)
        info = replace(entry.info, stored_bytes=told)
        entries.append(replace(entry, info=info))
        if missing:
            broken[manifest_filename(label, snapshot_id)] = f"part {missing[0]} of snapshot {snapshot_id} is missing"
        elif cut or changed:
            what = "is cut short" if cut else "was replaced by a longer one"
            broken[manifest_filename(label, snapshot_id)] = f"a file of snapshot {snapshot_id} {what}"
        else:
            whole.append(info)
    orphans = {i: tuple(own.values()) for i, own in parts.items() if i not in manifests}
    return Survey(label, listing, tuple(entries), tuple(whole), broken, orphans, untrusted)


async def read_manifests(
    session: Session,
    label: str,
    ids: Iterable[str],
    *,
    broken: dict[str, str],
    untrusted: dict[str, UntrustedSnapshot],
    check: bool,
) -> dict[str, Manifest]:
    """Read manifests, at once.

    What is wrong with one goes into ``broken``, and into ``untrusted`` where it is that. One that has gone is passed
    over.
    """
    trust = session.trust
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
                trust.judge(manifest.raw)
        except SnapshotCorrupt as error:
            broken[name] = str(error)
            continue
        except UntrustedSnapshot as error:
            broken[name], untrusted[snapshot_id] = str(error), error
            continue
        except ColonyMemoryError:
            # The extra that checks signatures is missing. Nobody is pinned, so nothing speaks against the snapshot.
            log(f"the signature of snapshot {snapshot_id} was not checked")
        out[snapshot_id] = manifest
    return out


def settle(session: Session, at: PointerRead, found: Survey) -> tuple[PointerRead, UntrustedSnapshot | None]:
    """Decide what restore gives where the client does not believe the pointer: the newest trusted whole snapshot.

    Where a trusted manifest names the one before it, its writer also signed the pointer. That signature is gone, and
    with it the proof that nothing newer was removed: the error that says so comes second, unless the client accepts
    such pointers for good.
    """
    if at.distrust is None:
        return at, None
    newest = found.whole[0].snapshot_id if found.whole else None
    settled = replace(at, pointer=None)
    if newest is not None:
        settled = replace(at, pointer=Pointer(found.label, newest, at.pointer.updated_at if at.pointer else ""))
    manifests = (session.manifests[manifest_filename(found.label, entry.info.snapshot_id)] for entry in found.entries)
    signed = [each.info.snapshot_id for each in manifests if follows_signed_pointer(each.raw)]
    if not signed or session.trust.accept_legacy_pointer:
        return settled, None
    msg = (
        f"{at.problem}, and it was signed when snapshot {signed[0]} was made: newer memory may have been removed or "
        f"replaced. The newest trusted snapshot of label {found.label!r} is {newest or signed[0]}: restore it by its "
        "id, and back it up again; where 0.1.1 writes to this label too, open it with accept_legacy_pointer=True"
    )
    return settled, UntrustedSnapshot(msg)


async def believed_pointer(session: Session, label: str, *, verify: bool = True) -> tuple[PointerRead, Survey | None]:
    """The pointer to follow, and the label where it had to be looked at for that.

    Raises:
        UntrustedSnapshot: The client does not believe the pointer, nor anything in its place.
    """
    at = await find_pointer(session, label, verify=verify)
    if at.distrust is None:
        return at, None
    found = await survey(session, label, at.pointer)
    found.listing.need_complete("choosing the newest trusted snapshot")
    settled, refusal = settle(session, at, found)
    if refusal is not None:
        raise refusal from at.distrust
    if settled.named is not None and not (session.trust.accept_legacy_pointer and settled.named == at.named):
        warn(f"taking the newest trusted snapshot {settled.named} of label {label!r}: {at.problem}")
    return settled, found


async def read_newer(session: Session, label: str, pointer: Pointer, ids: Iterable[str]) -> dict[str, Manifest]:
    """Those of these snapshots that are trusted, and newer than the one that a proven pointer names.

    That the pointer lists them proves nothing: a key that is trusted for older snapshots only may have signed it.

    Raises:
        RollbackDetected: The pointer is an older one that was put back.
    """
    newer = [each for each in ids if id_order(each) > id_order(pointer.snapshot_id)]
    read = await read_manifests(session, label, newer, broken={}, untrusted={}, check=True)
    try:
        _check_newer(pointer, read)
    except RollbackDetected:
        # Others may have saved since the pointer was read, and one of these on top of what it names by now.
        now = await find_pointer(session, label)
        if now.pointer is None or (now.issuer is None and not session.trust.accept_legacy_pointer):
            raise
        if now.issuer is not None:
            _check_newer(now.pointer, read)
    return read


def _check_newer(pointer: Pointer, manifests: Mapping[str, Manifest]) -> None:
    for manifest in manifests.values():
        check_newer(pointer.label, pointer.snapshot_id, manifest.raw, went_back_from=pointer.went_back_from)


async def require_current(session: Session, at: PointerRead, found: Survey, *, seen: Sequence[str]) -> None:
    """Raise a RollbackDetected where the pointer is an older one that was put back.

    To be called before it is signed anew, which would hide that for ever. ``seen`` are the heads that were known
    before the pointer was read.
    """
    check_rollback(session, found.label, at, seen=seen)
    if at.pointer is not None and at.issuer is not None:
        await read_newer(session, found.label, at.pointer, (entry.info.snapshot_id for entry in found.entries))
