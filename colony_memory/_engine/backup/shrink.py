"""What a memory lost since the latest snapshot: most of it, or documents that are ruined beside whole ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from colony_memory._engine.keep import note_shrink
from colony_memory._engine.sealed import known_of
from colony_memory._engine.session import warn
from colony_memory._format.json import printable
from colony_memory.exceptions import Hint
from colony_memory.retention import Shrink, created, document_bytes, find_ruined, is_much_smaller

if TYPE_CHECKING:
    from collections.abc import Mapping

    from colony_memory._engine.backup.job import Job
    from colony_memory._engine.parent import Parent
    from colony_memory._engine.state import State
    from colony_memory._format.catalog import Entry
    from colony_memory.snapshot import BuiltSnapshot

# Documents whose sizes a pointer tells; it is a file of bounded size.
_MOST = 5_000
_SHOWN = 5


class Lost(NamedTuple):
    """What was lost.

    Attributes:
        before: The snapshot that has it.
        shrink: When, and whether a document was ruined.
        smaller: Less than half of its bytes or documents is left.
    """

    before: Entry
    shrink: Shrink
    smaller: bool


def ruined_in(job: Job, state: State, parent: Parent | None) -> tuple[str, ...]:
    """Names of documents of the latest snapshot that are ruined in the memory to save, as far as that can be told
    without reading it.
    """
    before = _sizes(job, state, parent)
    if before is None:
        return ()
    texts = job.documents if job.memory is None else job.memory.documents(set(job.names) - job.unchanged)
    documents = {printable(name): text for name, text in texts.items()}
    return find_ruined(before, documents, unchanged={printable(name) for name in job.unchanged})


def _sizes(job: Job, state: State, parent: Parent | None) -> Mapping[str, int] | None:
    """Bytes of each document of the latest snapshot by its printable name, 0 where there is nothing in it but NUL. Of
    what is unchanged, nothing is asked.
    """
    pointer, latest = state.decision.pointer, state.decision.follow
    if parent is not None and parent.snapshot_id == latest:
        memory, unchanged = parent.chain.state, job.unchanged
        return {
            printable(name): 0 if name not in unchanged and memory.is_empty(name) else end - start
            for name, (start, end) in memory.spans.items()
        }
    entry = pointer.entry(latest) if latest is not None and latest == pointer.snapshot_id else None
    if entry is None or len(entry.info.doc_names) != len(pointer.doc_bytes):
        return None
    return dict(zip(entry.info.doc_names, pointer.doc_bytes, strict=True))


def doc_bytes(job: Job, built: BuiltSnapshot) -> tuple[int, ...] | None:
    """What the pointer tells of the sizes of documents, for whoever saves next and does not read this snapshot. Who
    goes on from a chain of packs reads it.
    """
    names = built.listed.doc_names
    if not names or len(names) > _MOST:
        return None
    sizes = {printable(name): document_bytes(text) for name, text in job.whole().items()}
    return tuple(sizes[name] for name in names)


def find_lost(job: Job, state: State, built: BuiltSnapshot) -> Lost | None:
    """What is lost where the snapshot becomes the latest in this state; None where nothing is."""
    before = state.decision.entry(state.decision.follow)
    if before is None or before.snapshot_id == built.info.snapshot_id:
        return None
    smaller = is_much_smaller(built.info, known_of(job.session, before))
    ruined = bool(job.ruined) and job.ruined_since == before.snapshot_id
    return Lost(before, Shrink(created(built.info), ruined), smaller) if smaller or ruined else None


def noted(entry: Entry, lost: Lost | None) -> Entry:
    """The row, with what followed it."""
    followed = lost is not None and entry.snapshot_id == lost.before.snapshot_id
    return note_shrink(entry, lost.shrink) if lost is not None and followed else entry


def tell_ruined(job: Job, lost: Lost) -> None:
    """Warn of documents that are ruined beside whole ones, and say which snapshot has them. That less than half is left
    of all, the summary says.
    """
    if lost.smaller:
        return
    rest = f" and {len(job.ruined) - _SHOWN} more" if len(job.ruined) > _SHOWN else ""
    whole = lost.before.snapshot_id
    warn(
        f"label {job.label!r}: hardly anything is left of {', '.join(job.ruined[:_SHOWN])}{rest}: empty, NUL bytes or "
        f"less than a tenth. It is saved as it is; snapshot {whole} has all of it, and backups keep that for 30 days",
        hint=Hint("restore", "snapshot_id", whole, label=job.label),
    )
