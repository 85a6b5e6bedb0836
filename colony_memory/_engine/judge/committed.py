"""Pure: what of a label is committed, and what may be under way, or on its way out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from colony_memory._engine.judge.pointer import rows_of
from colony_memory._engine.label import GRACE
from colony_memory._format.catalog import Catalog
from colony_memory._format.constants import FORMAT_2
from colony_memory._format.names import id_order, manifest_filename
from colony_memory.snapshot import Manifest

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from colony_memory._engine.judge.decision import Asked, Decision, Read
    from colony_memory._engine.label import LabelFiles


def mark_committed(asked: Asked, found: Decision, files: LabelFiles, manifests: Mapping[str, Read]) -> Decision:
    """Tell what is committed from what may be under way.

    Committed is what a believed pointer names or lists. What stands beside it, whole and a grace period old, was left
    by a pointer that lists nothing, as 0.1.1 writes it, or was never told to anybody: it is a restore point all the
    same, unless the pointer says that it was removed, or what it needs may be on its way out. Where 0.1.1 wrote the
    pointer, what is older than its latest is no backup under way of that client, and one of ours finds out that its
    snapshot went before it says that it is done.
    """
    pointer = found.pointer
    listed = {*rows_of(asked, found), pointer.snapshot_id, found.written}
    legacy, written = bool(found.written) and not pointer.generation, id_order(found.written or "")
    # Nor is what began elsewhere, which that pointer may have covered: not to list it would be to disown it.
    streams = {each: read.stream for each, read in manifests.items() if isinstance(read, Manifest)}
    elsewhere = {each for each, stream in streams.items() if stream not in (None, found.stream)}
    committed, waiting, unproven = set[str](), set[str](), _unproven(found, files, listed)
    for entry in found.entries:
        each = entry.snapshot_id
        if each in listed:
            committed.add(each)
        elif pointer.took_out(each):
            continue  # it was deleted, and its manifest is still there or was put back
        elif files.is_old(each, now=asked.now):
            if each not in unproven:  # else its writer died before it could tell that nobody was deleting what it needs
                committed.add(each)
        elif legacy and (each in elsewhere or id_order(each) < written):
            committed.add(each)
        else:
            waiting.add(each)
    return replace(found, committed=frozenset(committed), waiting=frozenset(waiting), unproven=frozenset(unproven))


def _unproven(found: Decision, files: LabelFiles, listed: Collection[str | None]) -> set[str]:
    """Chains beside a catalogue that need what may be on its way out.

    Who deletes a pack has listed the label, and seen that no manifest needs it and that it is a grace period old. So a
    chain is safe where its manifest came less than that after its own pack, and where all else that it needs is needed
    by what the catalogue lists, or by another chain that is safe, in a listing that shows the chain's manifest too:
    whoever deletes that lists after it, and sees the chain. So are all that stand on each other where a copy of an
    older pointer was put over the one that listed them.
    """
    rows = found.pointer.entries
    if rows is None or (not rows and found.pointer.snapshot_id is not None):
        return set()  # a pointer that was lost, or that 0.1.1 wrote, says nothing of what is there
    # What is older than every row may have been left out of a catalogue that grew too long, or that was written whole.
    nowhere = (False, "")
    lacks = not isinstance(rows, Catalog) or rows.may_lack
    oldest = min((id_order(row.snapshot_id) for row in rows), default=nowhere) if lacks else nowhere
    kept = {each for entry in found.entries if entry.snapshot_id in listed for each in entry.packs}
    out = set[str]()
    for entry in reversed(found.entries):  # what others stand on first
        each = entry.snapshot_id
        if entry.info.format != FORMAT_2 or each in listed or id_order(each) < oldest:
            continue
        own = files.written([manifest_filename(files.label, each), *files.pack(each)])
        if not kept.issuperset(entry.packs[:-1]) or (own is not None and max(own) - min(own) >= GRACE):
            out.add(each)
        elif not found.pointer.took_out(each):
            kept.update(entry.packs)
    return out
