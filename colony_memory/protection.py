"""Pure: whether a vault would give the memory back, and what stands in the way. Map and time in, verdict out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from colony_memory._format.names import id_order, read_filename
from colony_memory.retention import created

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from colony_memory.reports import LabelMap, VaultMap
    from colony_memory.snapshot import SnapshotInfo

#: ``protected``: a whole snapshot is there, and nothing is wrong that stands in its way. ``at risk``: one is there, and
#: something is wrong. ``not protected``: none is there, or the newest is older than it may be.
State = Literal["protected", "at risk", "not protected"]
#: What would mend it: ``delete`` the snapshot, ``backup`` again, ``prune`` to make room, ``wait``, or ``judge`` whether
#: a snapshot that is not trusted is one's own.
Mending = Literal["delete", "backup", "prune", "wait", "judge"]


@dataclass(frozen=True)
class Problem:
    """Something that is wrong.

    Attributes:
        what: In words.
        mending: What would mend it.
        label: The label that it is of, None for the vault's.
        snapshot_id: The snapshot that it is of, None for the label's.
    """

    what: str
    mending: Mending
    label: str | None = None
    snapshot_id: str | None = None


@dataclass(frozen=True)
class Protection:
    """The verdict; true where the memory is protected.

    Attributes:
        state: In a word or two.
        newest: The newest whole snapshot, None where there is none.
        age: How long ago it was made, None where there is none.
        stale: It is older than it may be, or not there.
        problems: What is wrong, label by label.
    """

    state: State
    newest: SnapshotInfo | None
    age: timedelta | None
    stale: bool
    problems: tuple[Problem, ...] = ()

    def __bool__(self) -> bool:
        return self.state == "protected"


def assess(found: VaultMap, *, now: datetime, max_age: timedelta | None = None) -> Protection:
    """Judge what :meth:`colony_memory.ColonyMemory.inspect` found.

    >>> from datetime import datetime, timedelta, timezone
    >>> from colony_memory import ColonyMemory, open_vault
    >>> mem = ColonyMemory(backend=open_vault("memory:"))
    >>> info = mem.backup({"MEMORY.md": "two years of notes"})
    >>> verdict = assess(mem.inspect(), now=datetime.now(timezone.utc), max_age=timedelta(hours=26))
    >>> verdict.state, verdict.problems
    ('protected', ())

    Args:
        found: The vault, or as many of its labels as matter.
        now: The time, with a zone.
        max_age: How old the newest snapshot may be.
    """
    infos = [each.newest for each in found.labels if each.newest is not None]
    newest = max(infos, key=lambda info: (created(info), id_order(info.snapshot_id)), default=None)
    age = None if newest is None else max(now - created(newest), timedelta(0))
    stale = age is None if max_age is None else age is None or age > max_age
    problems = tuple(_problems(found))
    risky = [each for each in problems if newest is None or not _is_behind(each, newest)]
    state: State = "not protected" if stale else "at risk" if risky else "protected"
    return Protection(state, newest, age, stale, problems)


def _is_behind(problem: Problem, newest: SnapshotInfo) -> bool:
    """Whether it is of a snapshot from before the client had whom to trust: those stay until somebody judges them."""
    snapshot_id = problem.snapshot_id
    if problem.mending != "judge" or problem.label != newest.label or snapshot_id is None:
        return False
    return id_order(snapshot_id) < id_order(newest.snapshot_id)


def _problems(found: VaultMap) -> Iterator[Problem]:
    if not found.complete:
        yield Problem("the vault did not list all of its files: there may be more", "wait")
    for label in found.labels:
        for file, why in label.broken.items():
            name = read_filename(file)
            mending: Mending = "judge" if file in label.untrusted else "delete"
            yield Problem(why, mending, label.label, name.snapshot_id if name else None)
        if label.dangling and (label.newest is not None or not label.broken):
            yield Problem("no usable pointer: restore goes by the list of files", "backup", label.label)
        free = found.available_bytes
        if free is not None and free < label.next_bytes:
            yield Problem(f"no room for another backup of {label.next_bytes} bytes", "prune", label.label)
        yield from _left_over(label)


def _left_over(label: LabelMap) -> Iterator[Problem]:
    # Beside them a backup may be under way, and they take nothing but room.
    if label.orphans and not label.snapshots:
        yield Problem(
            f"nothing but {len(label.orphans)} files of a backup that was not completed", "backup", label.label
        )
