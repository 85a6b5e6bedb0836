"""diff: what two memories do not have alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from colony_memory._engine.observe import observed
from colony_memory._engine.restore import read
from colony_memory.reports import SnapshotDiff, compare
from colony_memory.snapshot import exact_documents

if TYPE_CHECKING:
    from colony_memory._engine.session import Session


@observed("diff")
async def diff(
    session: Session, a: str | Mapping[str, str], b: str | Mapping[str, str] | None, *, label: str
) -> SnapshotDiff:
    """See :meth:`colony_memory.ColonyMemory.diff`."""
    before, after = await _documents(session, a, label), await _documents(session, b, label)
    return await session.vault.compute(compare, before, after)


async def _documents(session: Session, side: str | Mapping[str, str] | None, label: str) -> Mapping[str, str]:
    if side is None or isinstance(side, str):
        return (await read(session, label=label, snapshot_id=side)).documents
    if not isinstance(side, Mapping):
        raise ValueError(f"a and b must each be an id or documents, not {type(side).__name__}")  # noqa: TRY004
    return exact_documents(side if isinstance(side, dict) else dict(side))
