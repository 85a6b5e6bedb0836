"""Pure: what a label's state is and whom to follow. What is still to be read for that is named in ``wants``."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from colony_memory._engine.label import LabelFiles, has_pointer
from colony_memory._format import FORMAT_2
from colony_memory._format.catalog import Catalog, Entry
from colony_memory._format.names import id_order, latest_filename, manifest_filename, pack_filename, read_head
from colony_memory._format.pointer import Pointer, read_pointer
from colony_memory._format.v2.build import ChainManifest
from colony_memory._values import Value, replace
from colony_memory.exceptions import (
    ColonyMemoryWarning,
    Hint,
    RollbackDetected,
    SnapshotCorrupt,
    UnsupportedFormat,
    UntrustedSnapshot,
    VaultError,
    message_of,
)
from colony_memory.snapshot import Manifest
from colony_memory.trust import ACCEPT_UNSIGNED, check_head, check_newer, follows_signed_pointer, older_than_signing

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from colony_memory._engine.state import State

#: What reading a manifest gave: the manifest, why it is none or is not trusted, or None where it is not there.
Finding = Manifest | SnapshotCorrupt | UntrustedSnapshot | None


class Wants(Value):
    listing: bool = False
    manifests: tuple[str, ...] = ()
    pages: tuple[str, ...] = ()


def judge(seen: State) -> State:
    """Decide: what was read goes in, in a state that concludes nothing yet."""
    base, asked = believe(seen), seen.asked
    if seen.files is None:
        named = base.pointer.snapshot_id is not None and base.refusal is None
        if named and not asked.everything and not (asked.pins and asked.newer):
            return base
        return replace(base, wants=Wants(listing=True))
    if base.pointer.catalog.unread:  # who looks at all files, or writes what they are, needs all rows
        return replace(base, wants=Wants(pages=base.pointer.catalog.unread))
    unread = tuple(each for each in to_read(base) if each not in base.manifests)
    if unread:
        return replace(base, wants=Wants(manifests=unread))
    found = find_snapshots(base)
    return latest_by_pointer(found) if base.refusal is None else latest_without_pointer(found)


def believe(seen: State) -> State:
    """The decision by the pointer alone. ``refusal`` is why it is not followed."""
    label, asked = seen.label, seen.asked
    try:
        if seen.text is None:
            raise SnapshotCorrupt(f"there is no pointer {latest_filename(label)}")
        pointer = read_pointer(seen.text, label=label, files=seen.pages)
    except SnapshotCorrupt as error:
        return _compare(replace(seen, problem=message_of(error), refusal=error))
    pointer = replace(pointer, removed=tuple(each for each in pointer.removed if each not in asked.unremoved))
    named = pointer.snapshot_id
    found = replace(seen, follow=named, pointer=pointer, written=named or "", signed=pointer.signed)
    if asked.pins:
        try:
            found = replace(found, issuer=asked.trust.judge_pointer(pointer.raw))
        except UntrustedSnapshot as error:
            found = replace(found, follow=None, pointer=seen.pointer, problem=message_of(error), refusal=error)
    return _compare(found)


def _compare(found: State) -> State:
    """Compare the pointer with the heads that were seen before, which also tell the stream, and better than it does."""
    asked, label, pointer, compared = found.asked, found.label, found.pointer, False
    known = (*(read_head(seen).stream for seen in asked.seen), pointer.stream)
    found = replace(found, stream=next(filter(None, known), None))
    head = pointer.head or (f"{pointer.generation}:{'0' * 16}" if pointer.generation else "")
    if asked.seen and not head and found.written and asked.trust.accept_legacy_pointer:
        # A pointer that names nothing is never the work of 0.1.1.
        why = f"the pointer of label {label!r} has no generation, since 0.1.1 wrote it: no rollback would be noticed"
        return _warned(found, why)
    for seen in asked.seen:
        # A pointer that does not list what it names is compared by its generation alone.
        before = seen if pointer.head or not head else read_head(seen).generation
        listed = (entry.manifest_sha256 for entry in pointer.entries or ())  # looked at where it is needed only
        try:
            compared |= check_head(
                label, before, head=head, stream=pointer.stream, listed=listed, conditional=asked.conditional
            )
        except RollbackDetected as error:
            return replace(found, rollback=error, compared=True)
    return replace(found, compared=compared)


def rows_of(base: State) -> Mapping[str, Entry]:
    """The rows of the pointer by id. A key that is trusted up to a snapshot has no say about later ones."""
    rows, issuer, accepts = base.pointer.rows, base.issuer, base.asked.trust.accepts
    return rows if issuer is None else {each: row for each, row in rows.items() if accepts(issuer, each)}


def suffices(base: State, entry: Entry) -> bool:
    """True if a row is enough without its manifest: a trusted signer's for who pins, a chain's with its packs."""
    asked, counted = base.asked, entry.info.doc_count is not None or entry.info.encrypted
    if asked.everything and entry.info.format == FORMAT_2 and not (entry.packs and counted):
        return False
    return not asked.pins or (base.proven and asked.trust.accepts(entry.info.issuer, entry.snapshot_id))


def mark_committed(found: State) -> State:
    """Tell what is committed from what may be under way.

    Committed is what a believed pointer names or lists. What stands beside it, whole and a grace period old, is a
    restore point all the same, unless the pointer says that it was removed, or what it needs may be on its way out.
    Where 0.1.1 wrote the pointer, what is older than its latest is no backup under way of that client, and one of ours
    finds out that its snapshot went before it says that it is done.
    """
    pointer, files = found.pointer, found.listed
    listed = {*rows_of(found), pointer.snapshot_id, found.written}
    legacy, written = bool(found.written) and not pointer.generation, id_order(found.written or "")
    # Nor is what began elsewhere, which that pointer may have covered: not to list it would be to disown it.
    streams = {each: read.stream for each, read in found.manifests.items() if isinstance(read, Manifest)}
    elsewhere = {each for each, stream in streams.items() if stream not in (None, found.stream)}
    committed, waiting, unproven = set[str](), set[str](), _unproven(found, listed)
    for entry in found.entries:
        each = entry.snapshot_id
        if each in listed:
            committed.add(each)
        elif pointer.took_out(each):
            continue  # it was deleted, and its manifest is still there or was put back
        elif not files.is_old(each, now=found.asked.now):
            (committed if legacy and (each in elsewhere or id_order(each) < written) else waiting).add(each)
        elif each not in unproven:  # else its writer died before it could tell that nobody was deleting what it needs
            committed.add(each)
    return replace(found, committed=frozenset(committed), waiting=frozenset(waiting), unproven=frozenset(unproven))


def _unproven(found: State, listed: Collection[str | None]) -> set[str]:
    """Chains beside a catalogue that need what may be on its way out.

    Who deletes a pack has seen in a listing that no manifest needs it and that it is a grace period old. So a chain is
    safe where its manifest came less than that after its own pack, and all else that it needs is needed by what the
    catalogue lists, or by another chain that is safe. So are all that stand on each other where a copy of an older
    pointer was put over the one that listed them.
    """
    rows, files = found.pointer.entries, found.listed
    if rows is None or (not rows and found.pointer.snapshot_id is not None):
        return set()  # a pointer that was lost, or that 0.1.1 wrote, says nothing of what is there
    # What is older than every row may have been left out of a catalogue that grew too long, or that was written whole.
    oldest = (False, "")
    if not isinstance(rows, Catalog) or rows.may_lack:
        oldest = min((id_order(row.snapshot_id) for row in rows), default=oldest)
    kept = {each for entry in found.entries if entry.snapshot_id in listed for each in entry.packs}
    out = set[str]()
    for entry in reversed(found.entries):  # what others stand on first
        each = entry.snapshot_id
        if entry.info.format != FORMAT_2 or each in listed or id_order(each) < oldest:
            continue
        own = [manifest_filename(files.label, each), *files.pack(each)]
        if not kept.issuperset(entry.packs[:-1]) or not files.is_of_one_time(own):
            out.add(each)
        elif not found.pointer.took_out(each):
            kept.update(entry.packs)
    return out


def latest_by_pointer(found: State) -> State:
    label, named, files = found.label, found.pointer.snapshot_id, found.listed
    found = mark_committed(found)
    left = [each for each in files.manifests if each not in found.pointer.gone]
    if found.proven:
        found = _check_unlisted(found)
    if named is None and not found.asked.conditional and found.counted:
        problem = "the pointer names nothing, and may have replaced the pointer of a save at the same moment"
        return _follow_newest(replace(found, problem=problem))
    if not found.proven and named is None and left:
        # What was deleted on purpose is either gone or named by the pointer.
        found = _warned(found, f"the pointer of label {label!r} names nothing, and snapshot {left[0]} is there")
    if named is None or named in files.manifests or not files.complete:
        return replace(found, refusal=found.untrusted.get(named or ""))
    problem = f"the pointer names snapshot {named}, which is not there"
    if found.compared and found.rollback is None:
        msg = (
            f"label {label!r}: {problem}, so the newest memory was removed. To accept what is left, restore a snapshot "
            "by its id and back it up again"
        )
        found = replace(found, rollback=RollbackDetected(msg, hint=Hint("list_snapshots", label=label)))
    return _follow_newest(replace(found, problem=problem))


def _check_unlisted(found: State) -> State:
    """Hear the trusted snapshots that a proven pointer does not list."""
    label, pointer, rows = found.label, found.pointer, rows_of(found)
    named = pointer.snapshot_id or ""
    strange = {each: read for each, read in found.trusted.items() if each not in rows and each != named}
    error = set_back(pointer, strange.values())
    if error is not None:
        return replace(found, rollback=found.rollback or error)
    newer = {each for each in strange if id_order(each) > id_order(named)}
    older = found.committed - newer if pointer.entries is not None else ()
    told = [each for each in strange if (each not in pointer.gone if each in newer else each in older)]
    if not told:
        return found
    return _warned(
        found,
        f"label {label!r} has {', '.join(told)[:100]}, which its signed pointer does not list: a backup, an import or "
        "a copy that did not finish, one by 0.1.1, one that was removed and put back, or a pointer that was put back",
    )


def set_back(pointer: Pointer, manifests: Iterable[Manifest]) -> RollbackDetected | None:
    """Why a pointer looks put back, by what snapshots say that are newer than it names; None where it does not."""
    for newer in manifests:
        if id_order(newer.info.snapshot_id) > id_order(pointer.snapshot_id or ""):
            try:
                check_newer(pointer.label, pointer.snapshot_id, newer.raw, went_back_from=pointer.went_back_from)
            except RollbackDetected as error:
                return error
    return None


def latest_without_pointer(found: State) -> State:
    label, trust = found.label, found.asked.trust
    distrusted = trust.require_signature or isinstance(found.refusal, UntrustedSnapshot)
    why, found = found.problem, replace(found, refusal=None)
    found = mark_committed(found)
    # Who names the one before it signed the pointer too: without that, nothing proves that no newer one was removed.
    signs = [each for each, read in found.trusted.items() if follows_signed_pointer(read.raw)]
    found = _follow_newest(replace(found, signs=bool(signs)))
    if found.asked.pins and distrusted and signs and not trust.accept_legacy_pointer:
        newest = found.follow or signs[0]
        msg = (
            f"{why}, and it was signed when snapshot {signs[0]} was made: newer memory may have been removed or "
            f"replaced. The newest trusted snapshot of label {label!r} is {newest}: restore it by its id, and back it "
            "up again. Where 0.1.1 writes to this label too, its pointers have to be accepted"
        )
        hint = Hint("restore", "snapshot_id", newest, label=label)
        found = replace(found, refusal=UntrustedSnapshot(msg, hint=hint), warnings=())
    if isinstance(found.refusal, UntrustedSnapshot):
        # What is not proven is compared with nothing.
        found = replace(found, rollback=None, compared=False)
    return found


def _follow_newest(found: State) -> State:
    """Follow the newest whole snapshot, and say why. A newer one that only is of a newer format is not passed over."""
    asked, files, label, problem = found.asked, found.listed, found.label, found.problem or ""
    if not files.complete:
        msg = f"{problem}, and the vault's list of label {label!r} is cut short, so the newest snapshot is not known"
        return replace(found, follow=None, refusal=VaultError(msg))
    newest = None if found.newest is None else found.newest.snapshot_id
    found = replace(found, follow=newest)
    if newest is not None and not (asked.trust.accept_legacy_pointer and found.written == newest):
        found = _warned(found, f"taking the newest whole snapshot {newest} of label {label!r}: {problem}")
    for each in files.manifests[: files.manifests.index(newest) if newest else None]:
        read = found.manifests.get(each)
        if isinstance(read, UnsupportedFormat) or (isinstance(read, UntrustedSnapshot) and not asked.trust.pins):
            return replace(found, refusal=read)
    if newest is not None:
        return found
    if found.untrusted:
        last = max(found.untrusted, key=id_order)
        if last not in found.unsigned:
            return replace(found, refusal=found.untrusted[last])
        be, them = ("it is", "it") if len(found.unsigned) == 1 else ("they are", "them")
        msg = f"{older_than_signing(label, found.unsigned)}; if {be} yours, accept {them} once, and back up again"
        return replace(found, refusal=UntrustedSnapshot(msg, hint=ACCEPT_UNSIGNED))
    if found.broken or found.written or (found.written is None and has_pointer(files)):
        what = "; ".join((problem, *found.broken.values()))
        msg = f"label {label!r} has no snapshot that can be restored, though it had one: {what}"
        return replace(found, refusal=SnapshotCorrupt(msg, hint=Hint("verify", label=label)))
    return found


def _warned(found: State, message: str) -> State:
    return replace(found, warnings=(*found.warnings, ColonyMemoryWarning(message)))


def to_read(base: State) -> tuple[str, ...]:
    asked, files = base.asked, base.listed
    listed = {each for each, entry in rows_of(base).items() if suffices(base, entry)}
    unlisted = tuple(each for each in files.manifests if each not in listed)
    named = base.pointer.snapshot_id
    lost = base.refusal is not None or (named is not None and named not in files.manifests)
    lost = lost or (named is None and not asked.conditional)
    if asked.everything or (lost and asked.pins):
        return unlisted
    if not asked.pins:
        return _newest_to_read(unlisted, files, base.manifests) if lost else ()
    # What is newer than the latest, and not listed, may show that the pointer is an older one; and the latest, where a
    # proven pointer does not list it, that it is of another history.
    own = named if base.proven else None
    return tuple(each for each in unlisted if each == own or id_order(each) > id_order(named or ""))


def _newest_to_read(unlisted: tuple[str, ...], files: LabelFiles, manifests: Mapping[str, Finding]) -> tuple[str, ...]:
    """The newest manifest that was not read yet, unless one that is newer belongs to a whole snapshot."""
    for each in unlisted:
        if each not in manifests:
            return (each,)
        read = manifests[each]
        whole = isinstance(read, Manifest) and _check_files(Entry(read.info, ""), read, files, exact=False)[0] is None
        if whole and isinstance(read, Manifest) and not read.info.refused:
            break
    return ()


def find_snapshots(base: State) -> State:
    asked, files, manifests = base.asked, base.listed, base.manifests
    rows, entries, broken = rows_of(base), list[Entry](), dict[str, str]()
    untrusted: dict[str, UntrustedSnapshot] = {}
    # A race may refuse what its manifest could not say yet.
    told = (read.lineage.unmerged for read in manifests.values() if isinstance(read, Manifest))
    refused = {one.snapshot_id for unmerged in (base.pointer.unmerged, *told) for one in unmerged if one.refused}
    for each in files.manifests:
        read, row, file = manifests.get(each), rows.get(each), manifest_filename(asked.label, each)
        error = _why_unusable(base, read, row)
        if error is not None:
            broken[file] = message_of(error)
            if isinstance(error, UntrustedSnapshot):
                untrusted[each] = error
            continue
        manifest = read if isinstance(read, Manifest) else None
        if manifest is not None:
            info, since, spoiled = manifest.info, row.shrunk_at if row else None, row is not None and row.spoiled
            if not info.refused and (each in refused or (row is not None and row.info.refused)):
                info = replace(info, refused=True)
            if row is not None and (base.proven or not asked.pins):
                info = replace(info, tags=row.info.tags)  # which may be given and taken afterwards
            entry = Entry(info, manifest.sha256, since, manifest.packs, spoiled, manifest.ruined, manifest.base_files)
        elif row is not None and suffices(base, row):
            entry = row
        else:
            continue  # gone since it was listed, or not asked for
        problem, stored = _check_files(entry, manifest, files, exact=base.proven)
        pinned = files.pinned(each)
        if (stored, *pinned.values()) != (entry.info.stored_bytes, entry.info.pinned, entry.info.pinned_until):
            entry = replace(entry, info=replace(entry.info, stored_bytes=stored, **pinned))
        if problem is None:
            entries.append(entry)
        else:
            broken[file] = problem
    found = replace(base, entries=tuple(entries), broken=broken, untrusted=untrusted)
    streams = [read.stream for read in reversed(found.trusted.values()) if read.stream]
    return replace(found, stream=base.stream or next((each for each, _ in Counter(streams).most_common(1)), None))


def _why_unusable(base: State, read: Finding, row: Entry | None) -> SnapshotCorrupt | UntrustedSnapshot | None:
    """The objection to a manifest: it is damaged or not trusted, or not the one that belongs there."""
    if not isinstance(read, Manifest):
        return read
    label, snapshot_id = base.label, read.info.snapshot_id
    named = f"snapshot {snapshot_id} of label {label!r}"
    if row is not None and base.proven and read.sha256 != row.manifest_sha256:
        msg = f"{named} is not the one that the signed pointer lists: its manifest was replaced"
        return UntrustedSnapshot(msg, hint=Hint("verify", label=label))
    if base.asked.pins and row is None and read.stream is not None and base.stream not in (None, read.stream):
        msg = (
            f"{named} belongs to another history than the label, although a trusted key signed it: if it is yours, "
            "restore it by its id, or export and import it to have it listed again"
        )
        return UntrustedSnapshot(msg, hint=Hint("delete_snapshot", "snapshot_id", snapshot_id, label=label))
    return None


def _check_files(entry: Entry, manifest: Manifest | None, files: LabelFiles, *, exact: bool) -> tuple[str | None, int]:
    """The problem with the files of a snapshot by their names and sizes, and how many bytes its own take."""
    info, own, needed = entry.info, entry.snapshot_id, dict[str, int | None]()
    chain, parts, file = info.format == FORMAT_2, files.parts.get(own, {}), manifest_filename(files.label, own)
    size = files.size((file, *(files.pack(own) if chain else parts.values()))) or 0
    told = size or info.stored_bytes or (manifest.blob_chars if manifest and not chain else 0)
    if isinstance(manifest, ChainManifest):
        needed |= zip(manifest.part_files, (size for pack in manifest.pack_bytes for size in pack), strict=True)
    elif chain:
        missing = [each for each in (own, *entry.packs) if 0 not in files.packs.get(each, ())]
        needed |= {pack_filename(files.label, each, 0): None for each in missing}
    elif lacks := [seq for seq in range(info.part_count) if seq not in parts]:
        return f"part {lacks[0]} of snapshot {own} is missing", told
    for name, length in needed.items():
        there = files.files.get(name)
        if there is None or (None not in (length, there.size) and length != there.size):
            what = "is missing" if there is None else "has another size than its manifest says"
            return f"{name}, which snapshot {own} needs, {what}", told
    least = info.stored_bytes if manifest is None else (files.files[file].size or 0) + manifest.blob_chars
    if not (chain and manifest) and 0 < size < least:
        return f"a file of snapshot {own} is cut short", told
    if manifest is None and exact and 0 < info.stored_bytes < size:
        return f"a file of snapshot {own} was replaced by a longer one", told
    return None, told
