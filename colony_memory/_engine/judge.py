"""Pure: the state of a label and the snapshot to follow. ``wants`` names whatever has to be read before that."""

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

#: Result of reading a manifest: the manifest, the error if it is damaged or not trusted, or None where there is none.
Finding = Manifest | SnapshotCorrupt | UntrustedSnapshot | None


class Wants(Value):
    listing: bool = False
    manifests: tuple[str, ...] = ()
    pages: tuple[str, ...] = ()


def judge(state: State) -> State:
    """Decide by what was read so far; ``state`` holds that, and concludes nothing yet."""
    base, asked = believe(state), state.asked
    if state.files is None:
        named = base.pointer.snapshot_id is not None and base.refusal is None
        if named and not asked.everything and not (asked.pins and asked.newer):
            return base
        return replace(base, wants=Wants(listing=True))
    if base.pointer.catalog.unread:  # judging all files, or writing a catalogue of them, takes all rows
        return replace(base, wants=Wants(pages=base.pointer.catalog.unread))
    unread = tuple(snapshot_id for snapshot_id in to_read(base) if snapshot_id not in base.manifests)
    if unread:
        return replace(base, wants=Wants(manifests=unread))
    found = find_snapshots(base)
    found = latest_by_pointer(found) if base.refusal is None else latest_without_pointer(found)
    if found.rollback is not None and found.listed.complete and not found.listed.manifests:
        msg = f"label {asked.label!r} was rolled back: none of its snapshots is there any more. Put back a copy of the "
        msg += "vault that has them, or else back up a folder that has the memory"
        return replace(found, rollback=RollbackDetected(msg))
    return found


def believe(state: State) -> State:
    """Decide by the pointer alone; ``refusal`` says why it is not followed."""
    label, asked = state.label, state.asked
    try:
        if state.text is None:
            raise SnapshotCorrupt(f"there is no pointer {latest_filename(label)}")
        pointer = read_pointer(state.text, label=label, files=state.pages)
    except SnapshotCorrupt as error:
        return _compare(replace(state, problem=message_of(error), refusal=error))
    pointer = replace(pointer, removed=tuple(key for key in pointer.removed if key not in asked.unremoved))
    named = pointer.snapshot_id
    found = replace(state, follow=named, pointer=pointer, written=named or "", signed=pointer.signed)
    if asked.pins:
        try:
            found = replace(found, issuer=asked.trust.judge_pointer(pointer.raw))
        except UntrustedSnapshot as error:
            found = replace(found, follow=None, pointer=state.pointer, problem=message_of(error), refusal=error)
    return _compare(found)


def _compare(state: State) -> State:
    """Compare the pointer with the heads seen before, whose stream takes precedence over the pointer's own."""
    asked, label, pointer, compared = state.asked, state.label, state.pointer, False
    streams = (*(read_head(seen).stream for seen in asked.seen), pointer.stream)
    state = replace(state, stream=next(filter(None, streams), None))
    head = pointer.head or (f"{pointer.generation}:{'0' * 16}" if pointer.generation else "")
    if asked.seen and not head and state.written and asked.trust.accept_legacy_pointer:
        # A pointer that names nothing is never the work of 0.1.1.
        msg = f"the pointer of label {label!r} has no generation, since 0.1.1 wrote it: no rollback would be noticed"
        return _warned(state, msg)
    for seen in asked.seen:
        # A pointer whose catalogue lacks its own snapshot is compared by generation alone.
        before = seen if pointer.head or not head else read_head(seen).generation
        listed = (entry.manifest_sha256 for entry in pointer.entries or ())  # lazy: few comparisons need it
        try:
            compared |= check_head(
                label, before, head=head, stream=pointer.stream, listed=listed, conditional=asked.conditional
            )
        except RollbackDetected as error:
            return replace(state, rollback=error, compared=True)
    return replace(state, compared=compared)


def rows_of(state: State) -> Mapping[str, Entry]:
    """The pointer's rows by id. A key that is trusted up to some snapshot has no say about later ones."""
    rows, issuer, accepts = state.pointer.rows, state.issuer, state.asked.trust.accepts
    return rows if issuer is None else {key: row for key, row in rows.items() if accepts(issuer, key)}


def suffices(state: State, entry: Entry) -> bool:
    """True if an entry suffices without its manifest: from a trusted signer if any is pinned, with packs if a chain."""
    asked, counted = state.asked, entry.info.doc_count is not None or entry.info.encrypted
    if asked.everything and entry.info.format == FORMAT_2 and not (entry.packs and counted):
        return False
    return not asked.pins or (state.proven and asked.trust.accepts(entry.info.issuer, entry.snapshot_id))


def mark_committed(state: State) -> State:
    """Separate committed snapshots from backups that may be under way.

    A snapshot is committed if a believed pointer names or lists it. Any other that is whole and a grace period old is
    a restore point too, unless the pointer says that it was removed, or files that it needs may be about to go.
    Where 0.1.1 wrote the pointer, a snapshot older than its latest is no backup under way of that client; a backup of
    ours finds out that its snapshot was removed before it reports success.
    """
    pointer, files = state.pointer, state.listed
    listed = {*rows_of(state), pointer.snapshot_id, state.written}
    legacy, written = bool(state.written) and not pointer.generation, id_order(state.written or "")
    # A snapshot of another stream counts too: 0.1.1 may have overwritten its pointer, and leaving it out disowns it.
    streams = {key: finding.stream for key, finding in state.manifests.items() if isinstance(finding, Manifest)}
    foreign = {key for key, stream in streams.items() if stream not in (None, state.stream)}
    committed, waiting, unproven = set[str](), set[str](), _unproven(state, listed)
    for entry in state.entries:
        key = entry.snapshot_id
        if key in listed:
            committed.add(key)
        elif pointer.took_out(key):
            continue  # deleted, with a manifest that is not gone yet or was put back
        elif not files.is_old(key, now=state.asked.now):
            (committed if legacy and (key in foreign or id_order(key) < written) else waiting).add(key)
        elif key not in unproven:  # else its writer died before it could prove that nobody was deleting its packs
            committed.add(key)
    return replace(state, committed=frozenset(committed), waiting=frozenset(waiting), unproven=frozenset(unproven))


def _unproven(state: State, listed: Collection[str | None]) -> set[str]:
    """Unlisted chains that need packs which another client may be deleting.

    A client deletes a pack only after a listing showed that no manifest needs it and that it is a grace period old.
    So a chain is safe if its manifest was written within a grace period of its own pack, and every other pack that it
    needs is needed by a listed snapshot or by another safe chain. So chains that build on each other remain safe
    where a copy of an older pointer replaced the one that listed them.
    """
    rows, files = state.pointer.entries, state.listed
    if rows is None or (not rows and state.pointer.snapshot_id is not None):
        return set()  # a lost pointer, or one by 0.1.1, says nothing of the snapshots in the vault
    # Snapshots older than every row may have been cut from a catalogue that grew too long, or was rewritten whole.
    oldest = (False, "")
    if not isinstance(rows, Catalog) or rows.may_lack:
        oldest = min((id_order(row.snapshot_id) for row in rows), default=oldest)
    safe = {key for entry in state.entries if entry.snapshot_id in listed for key in entry.packs}
    unproven = set[str]()
    for entry in reversed(state.entries):  # oldest first: later chains build on them
        key = entry.snapshot_id
        if entry.info.format != FORMAT_2 or key in listed or id_order(key) < oldest:
            continue
        own = [manifest_filename(files.label, key), *files.pack(key)]
        if not safe.issuperset(entry.packs[:-1]) or not files.is_of_one_time(own):
            unproven.add(key)
        elif not state.pointer.took_out(key):
            safe.update(entry.packs)
    return unproven


def latest_by_pointer(state: State) -> State:
    label, named, files = state.label, state.pointer.snapshot_id, state.listed
    state = mark_committed(state)
    remaining = [key for key in files.manifests if key not in state.pointer.gone]
    if state.proven:
        state = _check_unlisted(state)
    if named is None and not state.asked.conditional and state.counted:
        problem = "the pointer names nothing: a save since ended before it wrote its own, or lost it to a deletion"
        return _follow_newest(replace(state, problem=problem))
    if not state.proven and named is None and remaining:
        # A snapshot deleted on purpose is either gone or named by the pointer as removed.
        state = _warned(state, f"the pointer of label {label!r} names nothing, and snapshot {remaining[0]} is there")
    if named is None or named in files.manifests or not files.complete:
        return replace(state, refusal=state.untrusted.get(named or ""))
    problem = f"the pointer names snapshot {named}, which is not there"
    if state.compared and state.rollback is None:
        msg = (
            f"label {label!r}: {problem}, so the newest memory was removed. To accept what is left, restore a snapshot "
            "by its id and back it up again"
        )
        state = replace(state, rollback=RollbackDetected(msg, hint=Hint("list_snapshots", label=label)))
    return _follow_newest(replace(state, problem=problem))


def _check_unlisted(state: State) -> State:
    """Check a proven pointer against the trusted snapshots that it does not list."""
    label, pointer, rows = state.label, state.pointer, rows_of(state)
    named = pointer.snapshot_id or ""
    unlisted = {key: manifest for key, manifest in state.trusted.items() if key not in rows and key != named}
    error = set_back(pointer, unlisted.values())
    if error is not None:
        return replace(state, rollback=state.rollback or error)
    newer = {key for key in unlisted if id_order(key) > id_order(named)}
    older = state.committed - newer if pointer.entries is not None else ()
    extra = [key for key in unlisted if (key not in pointer.gone if key in newer else key in older)]
    if not extra:
        return state
    return _warned(
        state,
        f"label {label!r} has {', '.join(extra)[:100]}, which its signed pointer does not list: a backup, an import or "
        "a copy that did not finish, one by 0.1.1, one that was removed and put back, or a pointer that was put back",
    )


def set_back(pointer: Pointer, manifests: Iterable[Manifest]) -> RollbackDetected | None:
    """The error if snapshots newer than the pointer's own show that an older pointer was put back, else None."""
    for manifest in manifests:
        if id_order(manifest.info.snapshot_id) > id_order(pointer.snapshot_id or ""):
            try:
                check_newer(pointer.label, pointer.snapshot_id, manifest.raw, went_back_from=pointer.went_back_from)
            except RollbackDetected as error:
                return error
    return None


def latest_without_pointer(state: State) -> State:
    label, trust = state.label, state.asked.trust
    distrusted = trust.require_signature or isinstance(state.refusal, UntrustedSnapshot)
    problem, state = state.problem, replace(state, refusal=None)
    state = mark_committed(state)
    # A snapshot that names the previous one was saved with a signed pointer: if that is gone, so may be newer ones.
    linked = [key for key, manifest in state.trusted.items() if follows_signed_pointer(manifest.raw)]
    state = _follow_newest(replace(state, signs=bool(linked)))
    if state.asked.pins and distrusted and linked and not trust.accept_legacy_pointer:
        newest = state.follow or linked[0]
        msg = (
            f"{problem}, and it was signed when snapshot {linked[0]} was made: newer memory may have been removed or "
            f"replaced. The newest trusted snapshot of label {label!r} is {newest}: restore it by its id, and back it "
            "up again. Where 0.1.1 writes to this label too, its pointers have to be accepted"
        )
        hint = Hint("restore", "snapshot_id", newest, label=label)
        state = replace(state, refusal=UntrustedSnapshot(msg, hint=hint), warnings=())
    if isinstance(state.refusal, UntrustedSnapshot):
        # An unproven pointer is compared with nothing.
        state = replace(state, rollback=None, compared=False)
    return state


def _follow_newest(state: State) -> State:
    """Follow the newest whole snapshot and warn; refuse to skip a newer one that is only of an unsupported format."""
    asked, files, label, problem = state.asked, state.listed, state.label, state.problem or ""
    if not files.complete:
        msg = f"{problem}, and the vault's list of label {label!r} is cut short, so the newest snapshot is not known"
        return replace(state, follow=None, refusal=VaultError(msg))
    newest = None if state.newest is None else state.newest.snapshot_id
    state = replace(state, follow=newest)
    if newest is not None and not (asked.trust.accept_legacy_pointer and state.written == newest):
        state = _warned(state, f"taking the newest whole snapshot {newest} of label {label!r}: {problem}")
    for snapshot_id in files.manifests[: files.manifests.index(newest) if newest else None]:
        finding = state.manifests.get(snapshot_id)
        if isinstance(finding, UnsupportedFormat) or (isinstance(finding, UntrustedSnapshot) and not asked.trust.pins):
            return replace(state, refusal=finding)
    if newest is not None:
        return state
    if state.untrusted:
        newest_untrusted = max(state.untrusted, key=id_order)
        if newest_untrusted not in state.unsigned:
            return replace(state, refusal=state.untrusted[newest_untrusted])
        be, them = ("it is", "it") if len(state.unsigned) == 1 else ("they are", "them")
        msg = f"{older_than_signing(label, state.unsigned)}; if {be} yours, accept {them} once, and back up again"
        return replace(state, refusal=UntrustedSnapshot(msg, hint=ACCEPT_UNSIGNED))
    if state.broken or state.written or (state.written is None and has_pointer(files)):
        what = "; ".join((problem, *state.broken.values()))
        msg = f"label {label!r} has no snapshot that can be restored, though it had one: {what}"
        return replace(state, refusal=SnapshotCorrupt(msg, hint=Hint("verify", label=label)))
    return state


def _warned(state: State, message: str) -> State:
    return replace(state, warnings=(*state.warnings, ColonyMemoryWarning(message)))


def to_read(state: State) -> tuple[str, ...]:
    asked, files = state.asked, state.listed
    listed = {key for key, entry in rows_of(state).items() if suffices(state, entry)}
    unlisted = tuple(key for key in files.manifests if key not in listed)
    named = state.pointer.snapshot_id
    lost = state.refusal is not None or (named is not None and named not in files.manifests)
    lost = lost or (named is None and not asked.conditional)
    if asked.everything or (lost and asked.pins):
        return unlisted
    if not asked.pins:
        return _newest_to_read(unlisted, files, state.manifests) if lost else ()
    # An unlisted snapshot newer than the latest may show that an older pointer was put back; the latest itself, where a
    # proven pointer does not list it, that it belongs to another history.
    latest = named if state.proven else None
    return tuple(key for key in unlisted if key == latest or id_order(key) > id_order(named or ""))


def _newest_to_read(unlisted: tuple[str, ...], files: LabelFiles, manifests: Mapping[str, Finding]) -> tuple[str, ...]:
    """The newest unread manifest, unless a newer one belongs to a whole snapshot."""
    for snapshot_id in unlisted:
        if snapshot_id not in manifests:
            return (snapshot_id,)
        read = manifests[snapshot_id]
        whole = isinstance(read, Manifest) and _check_files(Entry(read.info, ""), read, files, exact=False)[0] is None
        if whole and isinstance(read, Manifest) and not read.info.refused:
            break
    return ()


def find_snapshots(state: State) -> State:
    asked, files, manifests = state.asked, state.listed, state.manifests
    rows, entries, broken = rows_of(state), list[Entry](), dict[str, str]()
    untrusted: dict[str, UntrustedSnapshot] = {}
    # A snapshot may have been refused in a race, after its manifest was written.
    lists = (read.lineage.unmerged for read in manifests.values() if isinstance(read, Manifest))
    refused = {item.snapshot_id for unmerged in (state.pointer.unmerged, *lists) for item in unmerged if item.refused}
    for key in files.manifests:
        finding, row, file = manifests.get(key), rows.get(key), manifest_filename(asked.label, key)
        error = _why_unusable(state, finding, row)
        if error is not None:
            broken[file] = message_of(error)
            if isinstance(error, UntrustedSnapshot):
                untrusted[key] = error
            continue
        manifest = finding if isinstance(finding, Manifest) else None
        if manifest is not None:
            info, since, spoiled = manifest.info, row.shrunk_at if row else None, row is not None and row.spoiled
            if not info.refused and (key in refused or (row is not None and row.info.refused)):
                info = replace(info, refused=True)
            if row is not None and (state.proven or not asked.pins):
                info = replace(info, tags=row.info.tags)  # tags change after the manifest is written
            entry = Entry(info, manifest.sha256, since, manifest.packs, spoiled, manifest.ruined, manifest.base_files)
        elif row is not None and suffices(state, row):
            entry = row
        else:
            continue  # gone since it was listed, or not asked for
        problem, stored = _check_files(entry, manifest, files, exact=state.proven)
        pinned = files.pinned(key)
        if (stored, *pinned.values()) != (entry.info.stored_bytes, entry.info.pinned, entry.info.pinned_until):
            entry = replace(entry, info=replace(entry.info, stored_bytes=stored, **pinned))
        if problem is None:
            entries.append(entry)
        else:
            broken[file] = problem
    found = replace(state, entries=tuple(entries), broken=broken, untrusted=untrusted)
    streams = [manifest.stream for manifest in reversed(found.trusted.values()) if manifest.stream]
    return replace(found, stream=state.stream or next((stream for stream, _ in Counter(streams).most_common(1)), None))


def _why_unusable(state: State, finding: Finding, row: Entry | None) -> SnapshotCorrupt | UntrustedSnapshot | None:
    """The error if a manifest is damaged, not trusted, replaced, or of another history; else None."""
    if not isinstance(finding, Manifest):
        return finding
    label, snapshot_id = state.label, finding.info.snapshot_id
    named = f"snapshot {snapshot_id} of label {label!r}"
    if row is not None and state.proven and finding.sha256 != row.manifest_sha256:
        msg = f"{named} is not the one that the signed pointer lists: its manifest was replaced"
        return UntrustedSnapshot(msg, hint=Hint("verify", label=label))
    if state.asked.pins and row is None and finding.stream is not None and state.stream not in (None, finding.stream):
        msg = (
            f"{named} belongs to another history than the label, although a trusted key signed it: if it is yours, "
            "restore it by its id, or export and import it to have it listed again"
        )
        return UntrustedSnapshot(msg, hint=Hint("restore", "snapshot_id", snapshot_id, label=label))
    return None


def _check_files(entry: Entry, manifest: Manifest | None, files: LabelFiles, *, exact: bool) -> tuple[str | None, int]:
    """The problem with a snapshot's files, by their names and sizes, or None; and the bytes of its own files."""
    info, key, needed = entry.info, entry.snapshot_id, dict[str, int | None]()
    chain, parts, file = info.format == FORMAT_2, files.parts.get(key, {}), manifest_filename(files.label, key)
    size = files.size((file, *(files.pack(key) if chain else parts.values()))) or 0
    stored = size or info.stored_bytes or (manifest.blob_chars if manifest and not chain else 0)
    if isinstance(manifest, ChainManifest):
        needed |= zip(manifest.part_files, (size for pack in manifest.pack_bytes for size in pack), strict=True)
    elif chain:
        missing = [pack_id for pack_id in (key, *entry.packs) if 0 not in files.packs.get(pack_id, ())]
        needed |= {pack_filename(files.label, pack_id, 0): None for pack_id in missing}
    elif absent := [seq for seq in range(info.part_count) if seq not in parts]:
        return f"part {absent[0]} of snapshot {key} is missing", stored
    for name, length in needed.items():
        listed = files.files.get(name)
        if listed is None or (None not in (length, listed.size) and length != listed.size):
            what = "is missing" if listed is None else "has another size than its manifest says"
            return f"{name}, which snapshot {key} needs, {what}", stored
    least = info.stored_bytes if manifest is None else (files.files[file].size or 0) + manifest.blob_chars
    if not (chain and manifest) and 0 < size < least:
        return f"a file of snapshot {key} is cut short", stored
    if manifest is None and exact and 0 < info.stored_bytes < size:
        return f"a file of snapshot {key} was replaced by a longer one", stored
    return None, stored
