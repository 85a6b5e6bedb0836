"""Whether a vault would give the memory back, and what stands in the way.

:func:`check_protection` does it all. Of its steps :func:`read_newest` reads, :func:`last_runs` looks how ``watch``
fared, and :func:`assess` judges by what was read: map and time in, verdict out.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Literal

from colony_memory._format.names import id_order, read_filename, require_label
from colony_memory.app.facts import left_out, refused_latest
from colony_memory.app.place import require_synchronous
from colony_memory.app.save import BEFORE_RESTORE
from colony_memory.exceptions import ColonyMemoryWarning, SnapshotCorrupt, SnapshotNotFound, UntrustedSnapshot
from colony_memory.retention import created

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from colony_memory.client import ColonyMemory
    from colony_memory.reports import LabelMap, SnapshotCheck, VaultMap
    from colony_memory.schedule.last_run import RunLog
    from colony_memory.snapshot import SnapshotInfo

#: ``protected``: the newest snapshot of each label was read in full, and nothing is wrong. ``saved``: the same, and not
#: all was read, so that damage would not show. ``at risk``: a snapshot is there, and something is wrong. ``not
#: protected``: none is there, or the newest is older than it may be.
State = Literal["protected", "saved", "at risk", "not protected"]
#: What would mend it: ``delete`` the snapshot, ``backup`` again, ``prune`` to make room, ``wait``, ``judge`` whether
#: an untrusted snapshot is one's own, or whether one that cannot be read on this host is good, ``replace`` what is
#: damaged by a new backup (an older snapshot restores until then), ``forget`` what is gone, which a prune of leftovers
#: takes off the list, or ``accept`` a snapshot in place of a latest that is refused: restore it by its id and back it
#: up again.
Mending = Literal["delete", "backup", "prune", "wait", "judge", "replace", "forget", "accept"]


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
class Newest:
    """What reading a label's newest snapshots in full has shown.

    Attributes:
        good: The newest whose every byte is as it was saved, None where there is none.
        damaged: What is wrong with each that is newer than that one, by id.
        closed: Why the text of ``good`` was not looked at, None where it was: it is encrypted.
        unread: Ids of those of ``damaged`` that may be good and that this host cannot read.
    """

    good: SnapshotInfo | None
    damaged: Mapping[str, str] = field(default_factory=dict)
    closed: str | None = None
    unread: Collection[str] = ()


@dataclass(frozen=True)
class Protection:
    """The verdict; true where the memory is protected.

    Attributes:
        state: In a word or two.
        newest: The newest whole snapshot, None where there is none.
        age: How long ago it was made, or was found to be the memory as it still was; None where there is none.
        stale: It is older than it may be, or not there.
        problems: What is wrong, label by label.
        closed: Some of it is encrypted, and nothing opens it here.
    """

    state: State
    newest: SnapshotInfo | None
    age: timedelta | None
    stale: bool
    problems: tuple[Problem, ...] = ()
    closed: bool = False

    def __bool__(self) -> bool:
        return self.state == "protected"


@dataclass(frozen=True)
class Checked:
    """What a check of the protection has found; true where the memory is protected.

    Attributes:
        found: What is in the vault.
        verdict: Whether that would give the memory back.
        read: What reading each label's newest snapshots has shown; empty where nothing was read.
        runs: How the last runs of ``watch`` and ``run`` on this host ended, for each label that there was one of.
    """

    found: VaultMap
    verdict: Protection
    read: Mapping[str, Newest] = field(default_factory=dict)
    runs: Mapping[str, RunLog] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.verdict)

    @property
    def damaged(self) -> bool:
        """Whether a snapshot that was read is damaged."""
        return any(each.damaged for each in self.read.values())


def check_protection(
    memory: ColonyMemory,
    *,
    url: str | None = None,
    label: str | None = None,
    quick: bool = False,
    max_age: timedelta | None = None,
    now: datetime | None = None,
) -> Checked:
    """Look into the vault, read the newest snapshot of each label in full, and judge.

    Args:
        memory: The client.
        url: What names the vault, as ``watch`` was told it, so that its last runs count; None to leave them out.
        label: Only this one, by default all.
        quick: Read no snapshot. Damage does not show then, and the verdict is at best ``saved``.
        max_age: How old the newest good backup may be.
        now: The time, with a zone; by default that of the clock.

    Raises:
        ValueError: The label cannot be one.
        VaultError: The vault could not be reached or refused.
    """
    require_synchronous(memory)
    wanted = None if label is None else require_label(label)
    found = memory.inspect()
    found = replace(found, labels=tuple(each for each in found.labels if wanted in (None, each.label)))
    read = {} if quick else read_newest(memory, found)
    asked = [wanted] if wanted else [each.label for each in found.labels]
    runs = {} if url is None else last_runs(url, asked)
    # A run that failed since does not undo what the one before has found.
    good = [run for log in runs.values() if (run := log.last_success) is not None]
    confirmed = {run.snapshot_id: run.when for run in good if run.snapshot_id}
    now = now or datetime.now(timezone.utc)
    return Checked(found, assess(found, now=now, max_age=max_age, read=read, confirmed=confirmed), read, runs)


def last_runs(url: str, labels: Sequence[str]) -> dict[str, RunLog]:
    """How the last runs of ``watch`` and ``run`` on this host ended, for each label that there was one of."""
    from colony_memory.schedule.watch import read_runs

    logs = {label: read_runs(url, label) for label in dict.fromkeys([*labels, "default"])}
    return {label: log for label, log in logs.items() if log is not None}


def read_newest(memory: ColonyMemory, found: VaultMap) -> dict[str, Newest]:
    """Read the newest snapshot of each label in full; where it is damaged, the one before, until one is good.

    What the client's memory is based on stays what it was.

    Args:
        memory: The client.
        found: What its ``inspect`` gave, or as many of the labels as matter.

    Raises:
        VaultError: The vault could not be reached or refused.
    """
    return {each.label: _read_newest(memory, each) for each in found.labels if each.newest is not None}


def _read_newest(memory: ColonyMemory, label: LabelMap) -> Newest:
    infos, damaged, unread = [label.newest] if label.newest else [], dict[str, str](), set[str]()
    listed = False
    while infos:
        info = infos.pop(0)
        check = _check(memory, info)
        why = _damage(check, info)
        if why is None:
            return Newest(info, damaged, None if check is None else check.closed, unread)
        damaged[info.snapshot_id] = why
        if check is not None and _is_unread(check):
            unread.add(info.snapshot_id)
        if not listed:
            listed = True
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ColonyMemoryWarning)  # the map tells of it
                try:
                    infos = memory.list_snapshots(label=label.label)
                except (SnapshotCorrupt, UntrustedSnapshot):
                    infos = []  # none is there that a restore would give, which is what was asked
            infos = [each for each in infos if id_order(each.snapshot_id) < id_order(info.snapshot_id)]
    return Newest(None, damaged, None, unread)


def _check(memory: ColonyMemory, info: SnapshotInfo) -> SnapshotCheck | None:
    """What reading it showed, None where it is not there any more."""
    try:
        (check,) = memory.verify(label=info.label, snapshot_id=info.snapshot_id).snapshots
    except SnapshotNotFound:
        return None
    return check


def _is_unread(check: SnapshotCheck) -> bool:
    """Whether it may be good, and nobody could tell here: what reads it is not installed."""
    return (check.manifest, check.parts, check.digest) == ("ok", "unchecked", "unchecked") and check.trust != "bad"


def _damage(check: SnapshotCheck | None, info: SnapshotInfo) -> str | None:
    """What is wrong with a snapshot."""
    if check is None:
        return f"snapshot {info.snapshot_id} was deleted in between"
    whole = (check.manifest, check.parts, check.digest) == ("ok", "ok", "ok")
    # A signature that could not be looked at speaks against nothing where nobody is pinned.
    if (whole or check.sealed) and "bad" not in (check.signature, check.trust):
        return None
    return check.problem or f"snapshot {info.snapshot_id} does not hold"


def assess(
    found: VaultMap,
    *,
    now: datetime,
    max_age: timedelta | None = None,
    read: Mapping[str, Newest] | None = None,
    confirmed: Mapping[str, datetime] | None = None,
) -> Protection:
    """Judge what :meth:`colony_memory.ColonyMemory.inspect` found.

    >>> from datetime import datetime, timedelta, timezone
    >>> from colony_memory import ColonyMemory, open_vault
    >>> mem = ColonyMemory(backend=open_vault("memory:"))
    >>> info = mem.backup({"MEMORY.md": "two years of notes"})
    >>> found, now = mem.inspect(), datetime.now(timezone.utc)
    >>> assess(found, now=now, max_age=timedelta(hours=26)).state
    'saved'
    >>> verdict = assess(found, now=now, read=read_newest(mem, found))
    >>> verdict.state, verdict.problems
    ('protected', ())

    Args:
        found: The vault, or as many of its labels as matter.
        now: The time, with a zone.
        max_age: How old the newest snapshot may be.
        read: What :func:`read_newest` gave of each label that was read.
        confirmed: When a backup last found a snapshot to be the memory as it still was, by id.
    """
    read = read or {}
    newest_of = {each.label: read[each.label].good if each.label in read else each.newest for each in found.labels}
    infos = [info for info in newest_of.values() if info is not None]
    seen = {each: when for each, when in (confirmed or {}).items() if when <= now}

    def good_at(info: SnapshotInfo) -> datetime:
        return max(created(info), seen.get(info.snapshot_id, created(info)))

    newest = max(infos, key=lambda info: (good_at(info), id_order(info.snapshot_id)), default=None)
    age = None if newest is None else max(now - good_at(newest), timedelta(0))
    stale = age is None if max_age is None else age is None or age > max_age
    problems = (*_damaged(read), *_incomplete(infos), *_problems(found, newest_of))
    risky = [each for each in problems if newest is None or not _is_behind(each, newest)]
    whole = all(label in read and not read[label].closed for label, info in newest_of.items() if info is not None)
    closed = any(each.closed for each in read.values())
    state: State = "not protected" if stale else "at risk" if risky else "protected" if whole else "saved"
    # What puts it at risk comes first.
    return Protection(state, newest, age, stale, (*risky, *(each for each in problems if each not in risky)), closed)


def _damaged(read: Mapping[str, Newest]) -> Iterator[Problem]:
    for label, newest in read.items():
        for snapshot_id, why in newest.damaged.items():
            mending: Mending = "judge" if snapshot_id in newest.unread else "replace" if newest.good else "backup"
            yield Problem(why, mending, label, snapshot_id)


def _incomplete(infos: list[SnapshotInfo]) -> Iterator[Problem]:
    for info in infos:
        # What a restore has replaced is saved once, and nobody saves it again.
        if info.incomplete and not info.label.endswith(BEFORE_RESTORE):
            yield Problem(
                f"snapshot {info.snapshot_id} is incomplete, {left_out(info)}; make readable what belongs to the "
                "memory, and exclude the rest",
                "backup",
                info.label,
                info.snapshot_id,
            )


def _is_behind(problem: Problem, newest: SnapshotInfo) -> bool:
    """Whether it is of a snapshot from before the client had whom to trust: those stay until somebody judges them."""
    snapshot_id = problem.snapshot_id
    if problem.mending != "judge" or problem.label != newest.label or snapshot_id is None:
        return False
    return id_order(snapshot_id) < id_order(newest.snapshot_id)


def _problems(found: VaultMap, newest_of: Mapping[str, SnapshotInfo | None]) -> Iterator[Problem]:
    if not found.complete:
        yield Problem("the vault did not list all of its files: there may be more", "wait")
    for label in found.labels:
        refused = refused_latest(label)
        for file, why in label.broken.items():
            newest = newest_of[label.label]
            if file == refused and newest is not None:
                yield Problem(why, "accept", label.label, newest.snapshot_id)
                continue
            name = read_filename(file)
            mending: Mending = "judge" if file in label.untrusted else "delete"
            yield Problem(why, mending, label.label, name.snapshot_id if name else None)
        if label.dangling and (label.newest is not None or not label.broken):
            yield Problem("no usable pointer: restore goes by the list of files", "backup", label.label)
        free = found.available_bytes
        if free is not None and free < label.next_bytes and not label.next_at_most:
            yield Problem(f"no room for another backup of {label.next_bytes} bytes", "prune", label.label)
        if label.removed and label.newest is not None and not label.dangling:
            more = f" and {len(label.removed) - 1} more are" if label.removed[1:] else " is"
            yield Problem(
                f"snapshot {label.removed[0]}{more} listed and gone: something has deleted what it should not, or an "
                "older version has pruned; if you know of it, forget it",
                "forget",
                label.label,
                label.removed[0],
            )
        yield from _left_over(label)


def _left_over(label: LabelMap) -> Iterator[Problem]:
    # Beside them a backup may be under way, and they take nothing but room.
    if label.orphans and not label.snapshots:
        yield Problem(
            f"nothing but {len(label.orphans)} files of a backup that was not completed", "backup", label.label
        )
