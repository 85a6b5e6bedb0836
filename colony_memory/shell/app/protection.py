"""The protection of a memory: does a vault give it back, and if not, why?"""

from __future__ import annotations

import os
import warnings
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Literal

from colony_memory import _engine
from colony_memory._format import FORMAT
from colony_memory._format.names import id_order, read_filename, require_label
from colony_memory._os.paths import real_path
from colony_memory._values import Value, field, replace
from colony_memory.capture.index import disprove, kept_of, peek_index
from colony_memory.exceptions import (
    ColonyMemoryError,
    ColonyMemoryWarning,
    SnapshotCorrupt,
    SnapshotNotFound,
    UntrustedSnapshot,
    VaultError,
)
from colony_memory.shell.app.compare import Unsaved, find_unsaved
from colony_memory.shell.app.open import identify_vault, require_synchronous
from colony_memory.shell.app.pick import BEFORE_RESTORE, left_out, refused_latest
from colony_memory.snapshot import SnapshotInfo, created
from colony_memory.trust import older_than_signing
from colony_memory.vaults.local import LocalVault

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from colony_memory._engine.basis import Basis
    from colony_memory.client import ColonyMemory
    from colony_memory.reports import LabelMap, SnapshotCheck, VaultMap
    from colony_memory.schedule.last_run import RunLog

#: ``protected``: the newest snapshot was read in full, and nothing is wrong. ``saved``: the same, and not all was read,
#: so that damage would not show. ``ahead``: the folder that was asked for has what is not saved. ``at risk``: a
#: snapshot is there, and something is wrong. ``not protected``: none is there, the newest is older than it may be, or
#: nothing of the folder that was asked for is in it.
State = Literal["protected", "saved", "ahead", "at risk", "not protected"]
#: What would mend it: ``delete`` the snapshot, ``backup`` again, ``prune`` to make room, ``wait``, ``judge`` whether
#: an untrusted snapshot is one's own, or whether one that cannot be read on this host is good, ``replace`` what is
#: damaged by a new backup (an older snapshot restores until then), ``forget`` what is gone, by a prune of leftovers,
#: ``accept`` a snapshot in place of a latest that is refused, by a restore of it and a backup, ``sign`` what is older
#: than signing, by a backup with the key, ``merge`` it with the latest by the next backup, or ``join`` it with the
#: folder, which holds the latest already.
Mending = Literal["delete", "backup", "prune", "wait", "judge", "replace", "forget", "accept", "sign", "merge", "join"]

_WORST_FIRST: tuple[State, ...] = ("not protected", "at risk", "ahead", "saved", "protected")
#: Snapshots that show what format 2 makes of a memory.
_SAMPLE = 8
#: Label of what nobody has given one.
DEFAULT = "default"
_MAY_NOT_WRITE = (
    "this account may not save to the vault: that takes 10 karma, which is earned on the Colony; until then, "
    "save to another vault"
)


class Problem(Value):
    what: str
    mending: Mending  # what would mend it
    label: str | None = None  # the label that it is of, None for the vault's
    snapshot_id: str | None = None  # the snapshot that it is of, None for the label's


class Newest(Value):
    """The findings of reading a label's newest snapshots in full."""

    good: SnapshotInfo | None = None  # the newest whose every byte is as it was saved, None where there is none
    damaged: Mapping[str, str] = field(default_factory=dict)  # what is wrong with each that is newer than that one
    closed: bool = False  # the text of good was not looked at: it is encrypted
    unread: Collection[str] = ()  # ids of those of damaged that may be good and that this host cannot read


class Protection(Value):
    """The verdict on one label; true where its memory is protected."""

    state: State  # in a word or two
    label: str | None = None  # the label, None where the vault has none
    newest: SnapshotInfo | None = None  # its newest whole snapshot, None where there is none
    age: timedelta | None = None  # how long ago that was made, or was found to be the memory as it still was
    stale: bool = True  # it is older than it may be, or not there
    problems: tuple[Problem, ...] = ()
    damaged: bool = False  # one that is newer than that is damaged
    closed: bool = False  # its newest is encrypted, and nothing opens it here
    empty: bool = False  # nothing is saved: the vault has proven it, or nothing of the folder is in the latest
    conflict: str = ""  # id of another writer's latest, which is not based on what was saved from here; else empty

    def __bool__(self) -> bool:
        return self.state == "protected"


class Checked(Value):
    """The findings of a check; true where the memory that was asked for is protected."""

    found: VaultMap  # what is in the vault, with the labels that were asked for
    verdict: Protection  # the answer: that on the label that is protected least, and of several on the stalest
    verdicts: Mapping[str, Protection]
    problems: tuple[Problem, ...]  # each once: of the account and the answer's label, then of the others
    runs: Mapping[str, RunLog]  # how the last runs of watch and run on this host ended
    there: tuple[str, ...]  # every label that the vault has
    unsaved: Unsaved | None  # what the folders that were asked for have and the latest snapshot has not
    same_disk: bool | None  # the vault is on the file system of one of those folders, and would be lost with it
    folders: Mapping[str, tuple[str, ...]]  # what this host saves under a label
    points: tuple[int, int] | None  # how many snapshots like the recent ones fit in formats 1 and 2

    def __bool__(self) -> bool:
        return bool(self.verdict)


def check_protection(
    memory: ColonyMemory,
    *,
    url: str | None = None,
    label: str | None = None,
    paths: Iterable[str | os.PathLike[str]] = (),
    exclude: str | Iterable[str] = (),
    agent: str | None = None,
    quick: bool = False,
    max_age: timedelta | None = None,
    now: datetime | None = None,
) -> Checked:
    """Look into the vault, read the newest snapshot of each label in full, and judge."""
    require_synchronous(memory)
    vault, paths, now = identify_vault(memory), list(paths), now or datetime.now(timezone.utc)
    kept, real = kept_of(vault), sorted(os.fspath(real_path(path)) for path in paths)
    if label is None and paths:
        saved = {of for of, there, basis in kept if basis and sorted(there) == real and not of.endswith(BEFORE_RESTORE)}
        label = saved.pop() if len(saved) == 1 else DEFAULT
    wanted = None if label is None else require_label(label)
    if paths and wanted is not None:
        # By what the folder is now: one that was made anew in its place has no basis.
        kept = [(wanted, tuple(real), peek_index(paths, vault=vault, label=wanted).read())]
    found = memory.inspect()
    there = tuple(each.label for each in found.labels)
    found = replace(found, labels=tuple(each for each in found.labels if _is_asked_for(each, wanted)))
    runs = {} if url is None else _runs_of(url, [wanted] if wanted else [each.label for each in found.labels])
    # A run that failed since does not undo what the one before has found.
    confirmed = {run.snapshot_id: run.when for log in runs.values() if (run := log.last_success) is not None}
    verdicts = {}
    for each in found.labels:
        read = None if quick or each.newest is None else read_newest(memory, each)
        if read is not None and read.damaged:
            disprove(vault, each.label)
        bases = [basis for of, _, basis in kept if of == each.label]
        unmerged = _unmerged_of(memory, each, bases, read, quick=quick)
        verdicts[each.label] = assess(
            found, each, now=now, max_age=max_age, read=read, confirmed=confirmed, unmerged=unmerged
        )
    verdict = min(verdicts.values(), key=_how_bad, default=Protection("not protected", empty=True))
    if wanted is not None and wanted not in verdicts:
        verdict = replace(verdict, label=wanted)
    unsaved = find_unsaved(memory, paths, label=wanted or DEFAULT, exclude=exclude, agent=agent) if paths else None
    if unsaved is not None:
        if unsaved.shares_nothing and not any(basis for _, _, basis in kept):
            # What is saved is of others that have the label too.
            verdict = replace(verdict, state="not protected", stale=True, empty=not unsaved.changes.changed)
        elif unsaved.files_ahead and verdict.state in ("protected", "saved"):
            verdict = replace(verdict, state="ahead")
        verdicts = dict.fromkeys(verdicts, verdict)
    problems, backend = list[Problem](), memory._session.vault.backend
    with suppress(VaultError):  # what is saved there was read all the same
        ask = getattr(backend, "vault_may_write", None)
        problems += [Problem(_MAY_NOT_WRITE, "wait")] if ask is not None and ask() is False else []
    problems += [problem for one in (verdict, *verdicts.values()) for problem in one.problems]
    asked = next((each for each in found.labels if each.label == verdict.label), None)
    # A monitor asks often, and this takes some reads.
    points = None if quick or max_age is not None else _points(memory, asked, found.quota_bytes)
    once = {of: there for of, there, _ in kept if [one for one, *_ in kept].count(of) == 1}
    same = False if paths else None
    if paths and isinstance(backend, LocalVault):
        same = backend.path.stat().st_dev in {os.stat(path).st_dev for path in paths}  # noqa: PTH116 - may be no Path
    return Checked(found, verdict, verdicts, tuple(dict.fromkeys(problems)), runs, there, unsaved, same, once, points)


def _runs_of(url: str, labels: Iterable[str]) -> dict[str, RunLog]:
    from colony_memory.schedule.last_run import read_runs

    logs = {each: read_runs(url, each) for each in dict.fromkeys([*labels, DEFAULT])}
    return {each: log for each, log in logs.items() if log is not None}


def _unmerged_of(
    memory: ColonyMemory, label: LabelMap, bases: list[Basis], read: Newest | None, *, quick: bool
) -> list[Problem]:
    """The newest save from here that no latest is based on, where it is whole, and those after it that are not."""
    known, lost, conflict = {one for basis in bases for one in basis.known}, list[Problem](), list[Problem]()
    # That neither has an origin says nothing of whose it is.
    origins = {memory._session.origin(label.label), *(basis.origin for basis in bases)} - {None}
    broken = {name.snapshot_id for name in map(read_filename, label.broken) if name is not None}
    for info in reversed(label.unmerged):
        of, named = label.label, info.snapshot_id
        if not (named in known or info.origin in origins) or (read is not None and named in read.damaged):
            continue
        check = None if quick else _check(memory, info)
        if check is not None and "bad" in (check.manifest, check.parts, check.digest):
            why = check.problem or "it does not hold"
            what = f"snapshot {named}, saved from here and not merged, is damaged: {why}"
            lost.append(Problem(f"{what}; delete it to end this warning", "delete", of, named))
            continue
        if not conflict and named not in broken:
            taken = any(basis.snapshot_id == label.latest for basis in bases)
            how: Mending = "join" if taken else "merge"
            how = "backup" if any(named in basis.merged for basis in bases) else how
            what = f"conflict with {label.latest}: it is not based on {named}, which was saved from here"
            conflict.append(Problem(what, how, of, named))
        quick = quick or check is not None  # those before one that is whole are not read
    return [*conflict, *lost]


def _is_asked_for(label: LabelMap, wanted: str | None) -> bool:
    if wanted is not None:
        return label.label == wanted
    # The copy of what was about to be replaced is no backup of anything, and an empty label was emptied on purpose.
    return not label.label.endswith(BEFORE_RESTORE) and not (_is_empty(label) and not label.orphans)


def _points(memory: ColonyMemory, label: LabelMap | None, quota: int) -> tuple[int, int] | None:
    """How many snapshots like the recent ones fit in each format, by saving these in the other; None if unknown."""
    from colony_memory._format.v2.zstd import is_installed
    from colony_memory.client import ColonyMemory
    from colony_memory.vaults.memory import MemoryVault

    newest = None if label is None or not memory._session.vault.counts_operations else label.newest
    if newest is None or newest.format != FORMAT or newest.encrypted or not quota or not is_installed():
        return None
    stored, trial = list[int](), ColonyMemory(backend=MemoryVault(), format=2)
    with suppress(ColonyMemoryError, ValueError):  # what is damaged is told by others
        for info in reversed(memory.list_snapshots(label=newest.label)[:_SAMPLE]):
            found = memory._run(_engine.restore.read, label=newest.label, snapshot_id=info.snapshot_id)
            saved = trial.backup(found.documents)
            stored += [] if saved.reused else [saved.stored_bytes]
    first, *more = stored or [0]
    if not more or not newest.stored_bytes:
        return None
    return quota // newest.stored_bytes, 1 + max(0, quota - first) * len(more) // sum(more)


def read_newest(memory: ColonyMemory, label: LabelMap) -> Newest:
    """Read the newest snapshot of a label in full; where it is damaged, the one before, until one is good."""
    damaged, unread = dict[str, str](), set[str]()
    for info in _newest_first(memory, label):
        check = _check(memory, info)
        if check is None:
            damaged[info.snapshot_id] = f"snapshot {info.snapshot_id} was deleted in between"
            continue
        facts = (check.manifest, check.parts, check.digest)
        # A signature that could not be looked at speaks against nothing where nobody is pinned.
        if (facts == ("ok", "ok", "ok") or check.sealed) and "bad" not in (check.signature, check.trust):
            return Newest(info, damaged, bool(check.closed), unread)
        damaged[info.snapshot_id] = check.problem or f"snapshot {info.snapshot_id} does not hold"
        if facts == ("ok", "unchecked", "unchecked") and check.trust != "bad":
            unread.add(info.snapshot_id)  # it may be good: what reads it is not installed
    return Newest(None, damaged, unread=unread)


def _newest_first(memory: ColonyMemory, label: LabelMap) -> Iterator[SnapshotInfo]:
    if label.newest is None:
        return
    yield label.newest
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColonyMemoryWarning)  # the map tells of it
        try:
            infos = memory.list_snapshots(label=label.label)
        except (SnapshotCorrupt, UntrustedSnapshot):
            return  # none is there that a restore would give, which is what was asked
    last = id_order(label.newest.snapshot_id)
    yield from (each for each in infos if id_order(each.snapshot_id) < last)


def _check(memory: ColonyMemory, info: SnapshotInfo) -> SnapshotCheck | None:
    try:
        return memory.verify(label=info.label, snapshot_id=info.snapshot_id).snapshots[0]
    except SnapshotNotFound:
        return None


# --- the verdict: pure


def assess(
    found: VaultMap,
    label: LabelMap,
    *,
    now: datetime,
    max_age: timedelta | None = None,
    read: Newest | None = None,
    confirmed: Mapping[str | None, datetime] | None = None,
    unmerged: Iterable[Problem] = (),
) -> Protection:
    """Judge one label, without effects; ``confirmed`` has when a snapshot was found to be the memory as it was."""
    newest, age = label.newest if read is None else read.good, None
    if newest is not None:
        seen, made = (confirmed or {}).get(newest.snapshot_id), created(newest)
        age = max(now - (made if seen is None or seen > now else max(made, seen)), timedelta(0))
    stale = age is None or (max_age is not None and age > max_age)
    last = None if newest is None else id_order(newest.snapshot_id)

    def is_past(each: Problem) -> bool:
        # What is from before the client had whom to trust stays until somebody judges it.
        named = each.snapshot_id if each.mending == "judge" else None
        return last is not None and bool(named) and id_order(named or "") < last

    read, was_read = read or Newest(), read is not None
    # What puts it at risk comes first.
    of, unread = label.label, read.unread
    usual: Mending = "replace" if read.good else "backup"
    damage = [Problem(why, "judge" if each in unread else usual, of, each) for each, why in read.damaged.items()]
    problems = tuple(sorted((*damage, *unmerged, *_problems(found, label, newest)), key=is_past))
    state: State = "protected" if was_read and not read.closed else "saved"
    state = "not protected" if stale else state if all(map(is_past, problems)) else "at risk"
    theirs = (label.latest or "") if any(each.mending != "delete" for each in unmerged) else ""
    damaged, empty = bool(read.damaged), _is_empty(label)
    return Protection(state, of, newest, age, stale, problems, damaged, read.closed, empty, theirs)


def _how_bad(each: Protection) -> tuple[int, bool, timedelta]:
    return _WORST_FIRST.index(each.state), each.age is not None, -(each.age or timedelta(0))


def _is_empty(label: LabelMap) -> bool:
    """Nothing is saved under a label that has files, as where its last snapshot was deleted."""
    return label.newest is None and not label.broken and not label.unsigned


def _problems(found: VaultMap, label: LabelMap, newest: SnapshotInfo | None) -> Iterator[Problem]:
    of = label.label
    # What a restore has replaced is saved once, and nobody saves it again.
    if newest is not None and newest.incomplete and not newest.label.endswith(BEFORE_RESTORE):
        what = f"snapshot {newest.snapshot_id} is incomplete, {left_out(newest)}"
        what += "; make readable what belongs to the memory, and exclude the rest"
        yield Problem(what, "backup", of, newest.snapshot_id)
    if not found.complete:
        yield Problem("the vault did not list all of its files: there may be more", "wait")
    refused = refused_latest(label)
    for file, why in label.broken.items():
        if file == refused and newest is not None:
            yield Problem(why, "accept", of, newest.snapshot_id)
            continue
        name = read_filename(file)
        yield Problem(why, "judge" if file in label.untrusted else "delete", of, name.snapshot_id if name else None)
    if label.unsigned and newest is None:
        what = f"nothing trusted is saved: {older_than_signing(of, label.unsigned)}"
        yield Problem(what, "sign", of, label.unsigned[0])
    elif label.dangling and (label.newest is not None or not label.broken):
        yield Problem("no usable pointer: restore goes by the list of files", "backup", of)
    free = found.available_bytes
    if free is not None and free < label.next_bytes and not label.next_at_most:
        yield Problem(f"no room for another backup of {label.next_bytes} bytes", "prune", of)
    if label.removed and label.newest is not None and not label.dangling:
        first, *others = label.removed
        what = f"snapshot {first}{f' and {len(others)} more are' if others else ' is'} listed and gone: "
        what += "somebody deleted files in the vault, or an older version pruned; if that was meant, forget it"
        yield Problem(what, "forget", of, first)
    if label.orphans and not label.snapshots:
        # Beside a snapshot, a backup may be under way, and they take nothing but room.
        yield Problem(f"nothing but {len(label.orphans)} files of an unfinished backup", "backup", of)
