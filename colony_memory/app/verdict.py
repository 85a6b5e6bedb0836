"""Pure: whether a label's memory is protected, judged by what was read of it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from colony_memory._format.names import id_order, read_filename
from colony_memory._values import dataclass, field, replace
from colony_memory.app.pick import BEFORE_RESTORE, left_out, refused_latest
from colony_memory.snapshot import created
from colony_memory.trust import older_than_signing

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from datetime import datetime

    from colony_memory.app.compare import Unsaved
    from colony_memory.reports import LabelMap, VaultMap
    from colony_memory.snapshot import SnapshotInfo


#: ``protected``: the newest snapshot was read in full, and nothing is wrong. ``saved``: the same, and not all was read,
#: so that damage would not show. ``ahead``: the folder that was asked for has what is not saved. ``at risk``: a
#: snapshot is there, and something is wrong. ``not protected``: none is there, the newest is older than it may be, or
#: nothing of the folder that was asked for is in it.
State = Literal["protected", "saved", "ahead", "at risk", "not protected"]
#: What would mend it: ``delete`` the snapshot, ``backup`` again, ``prune`` to make room, ``wait``, ``judge`` whether
#: an untrusted snapshot is one's own, or whether one that cannot be read on this host is good, ``replace`` what is
#: damaged by a new backup (an older snapshot restores until then), ``forget`` what is gone, which a prune of leftovers
#: takes off the list, ``accept`` a snapshot in place of a latest that is refused: restore it by its id and back it
#: up again, ``sign`` what is older than signing, by a backup with the key, ``merge`` it with the latest by the next
#: backup, or ``join`` it with the folder, which holds the latest already.
Mending = Literal["delete", "backup", "prune", "wait", "judge", "replace", "forget", "accept", "sign", "merge", "join"]

_WORST_FIRST: tuple[State, ...] = ("not protected", "at risk", "ahead", "saved", "protected")


@dataclass(frozen=True)
class Problem:
    what: str
    mending: Mending  # what would mend it
    label: str | None = None  # the label that it is of, None for the vault's
    snapshot_id: str | None = None  # the snapshot that it is of, None for the label's


@dataclass(frozen=True)
class Newest:
    """The findings of reading a label's newest snapshots in full."""

    good: SnapshotInfo | None  # the newest whose every byte is as it was saved, None where there is none
    damaged: Mapping[str, str] = field(default_factory=dict)  # what is wrong with each that is newer than that one
    closed: str | None = None  # why the text of good was not looked at, None where it was: it is encrypted
    unread: Collection[str] = ()  # ids of those of damaged that may be good and that this host cannot read


@dataclass(frozen=True)
class Protection:
    """The verdict on one label; true where its memory is protected."""

    state: State  # in a word or two
    label: str | None = None  # the label, None where the vault has none
    newest: SnapshotInfo | None = None  # its newest whole snapshot, None where there is none
    age: timedelta | None = None  # how long ago that was made, or was found to be the memory as it still was
    stale: bool = True  # it is older than it may be, or not there
    problems: tuple[Problem, ...] = ()
    closed: bool = False  # its newest is encrypted, and nothing opens it here
    empty: bool = False  # nothing is saved: the vault has proven it, or nothing of the folder is in the latest
    conflict: str = ""  # id of another writer's latest, which is not based on what was saved from here; else empty

    def __bool__(self) -> bool:
        return self.state == "protected"


def assess(
    found: VaultMap,
    label: LabelMap,
    *,
    now: datetime,
    max_age: timedelta | None = None,
    read: Newest | None = None,
    confirmed: Mapping[str, datetime] | None = None,
    own: Mapping[str, Mending] | None = None,
    lost: Mapping[str, str] | None = None,
) -> Protection:
    """Judge one label of what :meth:`colony_memory.ColonyMemory.inspect` found.

    >>> from datetime import datetime, timedelta, timezone
    >>> from colony_memory import ColonyMemory, open_vault
    >>> from colony_memory.app.protection import read_newest
    >>> mem = ColonyMemory(backend=open_vault("memory:"))
    >>> info = mem.backup({"MEMORY.md": "two years of notes"})
    >>> found, now = mem.inspect(), datetime.now(timezone.utc)
    >>> (label,) = found.labels
    >>> assess(found, label, now=now, max_age=timedelta(hours=26)).state
    'saved'
    >>> verdict = assess(found, label, now=now, read=read_newest(mem, label))
    >>> verdict.state, verdict.problems
    ('protected', ())
    """
    newest = label.newest if read is None else read.good
    age = None
    if newest is not None:
        seen = (confirmed or {}).get(newest.snapshot_id)
        made = created(newest)
        age = max(now - (made if seen is None or seen > now else max(made, seen)), timedelta(0))
    stale = age is None or (max_age is not None and age > max_age)
    lost = lost or {}
    gone = {name.snapshot_id for name in map(read_filename, label.broken) if name is not None}.union(
        lost, read.damaged if read else ()
    )
    conflict = [each for each in (own or {}).items() if each[0] not in gone][-1:]
    listed = _of_snapshots(label, read or Newest(None), newest, conflict, lost)
    problems = [Problem(what, mending, label.label, snapshot_id) for what, mending, snapshot_id in listed]
    problems += _problems(found, label, newest)
    # What is from before the client had whom to trust stays until somebody judges it.
    last = None if newest is None else id_order(newest.snapshot_id)
    risky = [
        each
        for each in problems
        if last is None or each.mending != "judge" or not each.snapshot_id or id_order(each.snapshot_id) >= last
    ]
    closed = read is not None and bool(read.closed)
    whole = read is not None and not closed
    state: State = "not protected" if stale else "at risk" if risky else "protected" if whole else "saved"
    # What puts it at risk comes first.
    problems = [*risky, *(each for each in problems if each not in risky)]
    theirs = (label.latest or "") if conflict else ""
    return Protection(state, label.label, newest, age, stale, tuple(problems), closed, is_empty(label), theirs)


def is_empty(label: LabelMap) -> bool:
    """Nothing is saved under a label that has files, as where its last snapshot was deleted."""
    return label.newest is None and not label.broken and not label.unsigned


def least_protected(verdicts: Iterable[Protection]) -> Protection:
    """The verdict on several labels: that on the one with the worst, and of those on the stalest."""

    def rank(each: Protection) -> tuple[int, bool, timedelta]:
        return _WORST_FIRST.index(each.state), each.age is not None, -(each.age or timedelta(0))

    return min(verdicts, key=rank, default=Protection("not protected", empty=True))


def with_folder(verdict: Protection, unsaved: Unsaved, *, was_saved: bool = False) -> Protection:
    """The same for a folder: what is saved of it, and not of others that have the label too; ``was_saved`` says that
    this host has saved it.
    """
    if unsaved.shares_nothing and not was_saved:
        return replace(verdict, state="not protected", stale=True, empty=not unsaved.changes.changed)
    if unsaved.files_ahead and verdict.state in ("protected", "saved"):
        return replace(verdict, state="ahead")
    return verdict


def _of_snapshots(
    label: LabelMap,
    read: Newest,
    newest: SnapshotInfo | None,
    conflict: Iterable[tuple[str, Mending]],
    lost: Mapping[str, str],
) -> Iterator[tuple[str, Mending, str]]:
    for snapshot_id, why in read.damaged.items():
        yield why, "judge" if snapshot_id in read.unread else "replace" if read.good else "backup", snapshot_id
    for snapshot_id, mending in conflict:
        what = f"conflict with {label.latest}: it is not based on {snapshot_id}, which was saved from here"
        yield what, mending, snapshot_id
    for snapshot_id, why in lost.items():
        what = f"snapshot {snapshot_id}, saved from here and not merged, is damaged: {why}"
        yield f"{what}; delete it to end this warning", "delete", snapshot_id
    # What a restore has replaced is saved once, and nobody saves it again.
    if newest is not None and newest.incomplete and not newest.label.endswith(BEFORE_RESTORE):
        what = f"snapshot {newest.snapshot_id} is incomplete, {left_out(newest)}"
        what += "; make readable what belongs to the memory, and exclude the rest"
        yield what, "backup", newest.snapshot_id


def _problems(found: VaultMap, label: LabelMap, newest: SnapshotInfo | None) -> Iterator[Problem]:
    if not found.complete:
        yield Problem("the vault did not list all of its files: there may be more", "wait")
    refused = refused_latest(label)
    for file, why in label.broken.items():
        if file == refused and newest is not None:
            yield Problem(why, "accept", label.label, newest.snapshot_id)
            continue
        name = read_filename(file)
        mending: Mending = "judge" if file in label.untrusted else "delete"
        yield Problem(why, mending, label.label, name.snapshot_id if name else None)
    if label.unsigned and newest is None:
        yield Problem(
            f"nothing trusted is saved: {older_than_signing(label.label, label.unsigned)}",
            "sign",
            label.label,
            label.unsigned[0],
        )
    elif label.dangling and (label.newest is not None or not label.broken):
        yield Problem("no usable pointer: restore goes by the list of files", "backup", label.label)
    free = found.available_bytes
    if free is not None and free < label.next_bytes and not label.next_at_most:
        yield Problem(f"no room for another backup of {label.next_bytes} bytes", "prune", label.label)
    if label.removed and label.newest is not None and not label.dangling:
        more = f" and {len(label.removed) - 1} more are" if label.removed[1:] else " is"
        yield Problem(
            f"snapshot {label.removed[0]}{more} listed and gone: somebody deleted files in the vault, or an older "
            "version pruned; if that was meant, forget it",
            "forget",
            label.label,
            label.removed[0],
        )
    if label.orphans and not label.snapshots:
        # Beside a snapshot, a backup may be under way, and they take nothing but room.
        yield Problem(f"nothing but {len(label.orphans)} files of an unfinished backup", "backup", label.label)
