"""Pure: what a label's state is and whom to follow. What was read goes in, a decision comes out.

Every verb that says "latest" asks here, so that no way of naming a snapshot leads to one that a restore would refuse.
Signatures are judged before what they cover is looked at. What is lacking for a decision is named in ``wants``; whoever
asks reads it and asks again.

Each step has a module: what the pointer says (``pointer``), which snapshots are there (``snapshots``), which of them
are committed (``committed``), and which is the latest (``latest``).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from colony_memory._engine.judge.decision import Asked, Decision, Read, Wants
from colony_memory._engine.judge.latest import believe, latest_by_pointer, latest_without_pointer
from colony_memory._engine.judge.snapshots import find_snapshots, to_read

if TYPE_CHECKING:
    from collections.abc import Mapping

    from colony_memory._engine.label import LabelFiles

__all__ = ["Asked", "Decision", "Read", "Wants", "judge"]


def judge(asked: Asked, text: str | None, files: LabelFiles | None, manifests: Mapping[str, Read]) -> Decision:
    """Decide."""
    base = believe(asked, text)
    if files is None:
        named = base.pointer.snapshot_id is not None and base.refusal is None
        if named and not asked.everything and not (asked.pins and asked.newer):
            return base
        return replace(base, wants=Wants(listing=True))
    unread = tuple(each for each in to_read(asked, base, files, manifests) if each not in manifests)
    if unread:
        return replace(base, wants=Wants(manifests=unread))
    found = find_snapshots(asked, base, files, manifests)
    if base.refusal is not None:
        return latest_without_pointer(asked, found, files, manifests)
    return latest_by_pointer(asked, found, files, manifests)
