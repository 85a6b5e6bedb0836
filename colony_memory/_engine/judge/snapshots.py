"""Pure: which snapshots of a label are there: whole, broken or not trusted."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from colony_memory._engine.judge.latest import rows_of, stands
from colony_memory._format.catalog import Entry
from colony_memory._format.constants import FORMAT_2
from colony_memory._format.formats import format_of
from colony_memory._format.names import id_order, manifest_filename, pack_filename
from colony_memory.exceptions import Hint, SnapshotCorrupt, UntrustedSnapshot, message_of
from colony_memory.snapshot import Manifest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from colony_memory._engine.judge.decision import Asked, Decision, Read
    from colony_memory._engine.label import LabelFiles


def to_read(asked: Asked, base: Decision, files: LabelFiles, manifests: Mapping[str, Read]) -> tuple[str, ...]:
    """Ids of the manifests that the decision rests on."""
    listed = {each for each, entry in rows_of(asked, base).items() if stands(asked, base, entry)}
    unlisted = tuple(each for each in files.manifests if each not in listed)
    named = base.pointer.snapshot_id
    lost = base.refusal is not None or (named is not None and named not in files.manifests)
    lost = lost or (named is None and not asked.conditional)
    if asked.everything or (lost and asked.pins):
        return unlisted
    if not asked.pins:
        return _newest_to_read(unlisted, files, manifests) if lost else ()
    # What is newer than the latest, and not listed, may show that the pointer is an older one.
    return tuple(each for each in unlisted if id_order(each) > id_order(named or ""))


def _newest_to_read(unlisted: tuple[str, ...], files: LabelFiles, manifests: Mapping[str, Read]) -> tuple[str, ...]:
    """The newest manifest that was not read yet, unless one that is newer belongs to a whole snapshot."""
    for each in unlisted:
        if each not in manifests:
            return (each,)
        read = manifests[each]
        whole = isinstance(read, Manifest) and _check_files(Entry(read.info, ""), read, files, exact=False)[0] is None
        if whole and isinstance(read, Manifest) and not read.info.refused:
            break
    return ()


def find_snapshots(asked: Asked, base: Decision, files: LabelFiles, manifests: Mapping[str, Read]) -> Decision:
    """Every snapshot whose manifest is listed: whole, broken or not trusted."""
    rows, entries, broken = rows_of(asked, base), list[Entry](), dict[str, str]()
    untrusted: dict[str, UntrustedSnapshot] = {}
    # A race may refuse what its manifest could not say yet.
    unmerged = [
        base.pointer.unmerged,
        *(read.lineage.unmerged for read in manifests.values() if isinstance(read, Manifest)),
    ]
    refused = {one.snapshot_id for rows_of_one in unmerged for one in rows_of_one if one.refused}
    for each in files.manifests:
        read, row, file = manifests.get(each), rows.get(each), manifest_filename(asked.label, each)
        error = _why_unusable(asked, base, read, row)
        if error is not None:
            broken[file] = message_of(error)
            if isinstance(error, UntrustedSnapshot):
                untrusted[each] = error
            continue
        manifest = read if isinstance(read, Manifest) else None
        if manifest is not None:
            info, shrink = manifest.info, (row.shrunk_at, row.spoiled) if row else (None, False)
            if not info.refused and (each in refused or (row is not None and row.info.refused)):
                info = replace(info, refused=True)
            entry = Entry(info, manifest.sha256, shrink[0], manifest.packs, shrink[1], manifest.ruined)
        elif row is not None and stands(asked, base, row):
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
    told = [
        read.stream for each in reversed(files.manifests)
        if each not in untrusted and isinstance(read := manifests.get(each), Manifest) and read.stream
    ]  # fmt: skip
    stream = base.stream or next((each for each, _ in Counter(told).most_common(1)), None)
    return replace(base, entries=tuple(entries), broken=broken, untrusted=untrusted, stream=stream)


def _why_unusable(
    asked: Asked, base: Decision, read: Read, row: Entry | None
) -> SnapshotCorrupt | UntrustedSnapshot | None:
    """What speaks against a manifest: it is damaged or not trusted, or it is not the one that belongs there."""
    if not isinstance(read, Manifest):
        return read
    label, snapshot_id = asked.label, read.info.snapshot_id
    if row is not None and base.proven and read.sha256 != row.manifest_sha256:
        msg = (
            f"snapshot {snapshot_id} of label {label!r} is not the one that the signed pointer lists: its manifest was "
            "replaced"
        )
        return UntrustedSnapshot(msg, hint=Hint("verify", label=label))
    if asked.pins and row is None and read.stream is not None and base.stream not in (None, read.stream):
        msg = (
            f"snapshot {snapshot_id} of label {label!r} belongs to another history than the label, although a trusted "
            "key signed it: if it is yours, restore it by its id, or export and import it to have it listed again"
        )
        return UntrustedSnapshot(msg, hint=Hint("delete_snapshot", "snapshot_id", snapshot_id, label=label))
    return None


def _check_files(entry: Entry, manifest: Manifest | None, files: LabelFiles, *, exact: bool) -> tuple[str | None, int]:
    """What is wrong with the files of a snapshot by their names and sizes, and how many bytes they take."""
    info = entry.info
    if info.format == FORMAT_2:
        return _check_packs(entry, manifest, files, exact=exact)
    parts = files.parts.get(entry.snapshot_id, {})
    missing = [seq for seq in range(info.part_count) if seq not in parts]
    file = manifest_filename(files.label, entry.snapshot_id)
    size = files.size((file, *parts.values())) or 0
    told = size or info.stored_bytes or (manifest.blob_chars if manifest else 0)
    if missing:
        return f"part {missing[0]} of snapshot {entry.snapshot_id} is missing", told
    short = longer = False
    if size and manifest:
        short = size - (files.files[file].size or 0) < manifest.blob_chars
    elif size:
        short, longer = size < info.stored_bytes, exact and 0 < info.stored_bytes < size
    if short or longer:
        what = "is cut short" if short else "was replaced by a longer one"
        return f"a file of snapshot {entry.snapshot_id} {what}", told
    return None, told


def _check_packs(entry: Entry, manifest: Manifest | None, files: LabelFiles, *, exact: bool) -> tuple[str | None, int]:
    """The same for a snapshot that needs packs of others; the bytes are those of its own files.

    A row tells of how many bytes its own files have, and which packs it needs; the manifest, of every file.
    """
    info = entry.info
    own = [manifest_filename(files.label, entry.snapshot_id), *files.pack(entry.snapshot_id)]
    told = files.size(own) or info.stored_bytes
    needed = dict(format_of(info.format).needed(info, manifest))
    missing = [each for each in entry.packs if 0 not in files.packs.get(each, ())] if manifest is None else []
    needed |= {pack_filename(files.label, each, 0): None for each in missing}
    for name, size in needed.items():
        there = files.files.get(name)
        if there is None:
            return f"{name}, which snapshot {entry.snapshot_id} needs, is missing", told
        if None not in (size, there.size) and size != there.size:
            return f"{name}, which snapshot {entry.snapshot_id} needs, has another size than its manifest says", told
    if manifest is None and (told < info.stored_bytes or (exact and 0 < info.stored_bytes < told)):
        return f"a file that snapshot {entry.snapshot_id} needs has another size than the pointer says", told
    return None, told
