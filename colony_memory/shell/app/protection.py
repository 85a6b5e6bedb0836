"""The protection of a memory: can it be restored from a vault, and if not, why?"""

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

#: ``protected``: the newest snapshot was read in full, and nothing is wrong. ``saved``: nothing is wrong, but not all
#: was read, so damage would not show. ``ahead``: the folder in question has unsaved changes. ``at risk``: there is a
#: snapshot, and something is wrong. ``not protected``: there is none, or it is too old or has nothing of the folder.
State = Literal["protected", "saved", "ahead", "at risk", "not protected"]
#: The remedy: ``delete`` the snapshot; ``backup`` again; ``prune`` to make room; ``wait``; ``judge`` whether an
#: untrusted snapshot is one's own, or a broken one of use; ``replace`` damage by a new backup (an older snapshot
#: restores until then); ``forget`` lost files by a prune of leftovers; ``accept`` a snapshot in place of a
#: refused latest, by restoring it and backing up; ``sign`` what nobody signed by a backup with the key;
#: ``merge`` it with the latest by the next backup; ``join`` it with the folder, which has the latest already; or
#: ``exclude`` files where no prune makes room.
Mending = Literal[
    "delete", "backup", "prune", "wait", "judge", "replace", "forget", "accept", "sign", "merge", "join", "exclude"
]  # fmt: skip

_WORST_FIRST: tuple[State, ...] = ("not protected", "at risk", "ahead", "saved", "protected")
#: Number of recent snapshots to estimate the size in format 2 from.
_SAMPLE = 8
#: Label used where none is given.
DEFAULT = "default"
_MAY_NOT_WRITE = (
    "this account may not save to the vault: that takes 10 karma, which is earned on the Colony; until then, "
    "save to another vault"
)


class Problem(Value):
    what: str
    mending: Mending  # the remedy
    label: str | None = None  # the label concerned, None for the vault as a whole
    snapshot_id: str | None = None  # the snapshot concerned, None for the label as a whole
    keep: int = 0  # the number of snapshots to keep in a prune, 0 if that is not known


class Newest(Value):
    """The findings of reading a label's newest snapshots in full."""

    good: SnapshotInfo | None = None  # the newest intact snapshot, None if there is none
    damaged: Mapping[str, str] = field(default_factory=dict)  # newer snapshots, each with what is wrong with it
    closed: bool = False  # the text of ``good`` was not checked: it is encrypted
    unread: Collection[str] = ()  # ids in ``damaged`` of snapshots that may be good, but cannot be read on this host


class Protection(Value):
    """The verdict on one label; true where its memory is protected."""

    state: State  # in a word or two
    label: str | None = None  # the label, None if the vault has none
    newest: SnapshotInfo | None = None  # its newest intact snapshot, None if there is none
    age: timedelta | None = None  # time since that was made, or was last found to match the memory
    stale: bool = True  # it is older than allowed, or missing
    problems: tuple[Problem, ...] = ()
    damaged: bool = False  # a snapshot newer than that is damaged
    closed: bool = False  # its newest is encrypted, and cannot be opened here
    empty: bool = False  # nothing is saved: the vault has proven it, or nothing of the folder is in the latest
    conflict: str = ""  # id of another writer's latest that is not based on a save from here; else empty

    def __bool__(self) -> bool:
        return self.state == "protected"


class Checked(Value):
    """The findings of a check; true if the memory in question is protected."""

    found: VaultMap  # the content of the vault, for the requested labels only
    verdict: Protection  # the answer: the verdict on the least protected label, the stalest of several
    verdicts: Mapping[str, Protection]
    problems: tuple[Problem, ...]  # without repeats: of the account and the answer's label, then of the others
    runs: Mapping[str, RunLog]  # outcomes of the last runs of watch and run on this host
    there: tuple[str, ...]  # every label in the vault that is not empty
    unsaved: Unsaved | None  # changes of the requested folders since the latest snapshot
    same_disk: bool | None  # the vault is on the file system of one of those folders, and would be lost with it
    folders: Mapping[str, tuple[str, ...]]  # paths that this host saves, by label
    points: tuple[int, int] | None  # number of snapshots like the recent ones that fit, in formats 1 and 2

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
    """Inspect the vault, read the newest snapshot of each label in full, and judge."""
    require_synchronous(memory)
    vault, paths, now = identify_vault(memory), list(paths), now or datetime.now(timezone.utc)
    kept, real = kept_of(vault), sorted(os.fspath(real_path(path)) for path in paths)
    wanted = None if label is None else require_label(label)
    if paths:
        own = {
            (key, tuple(sorted(roots))) for key, roots, basis in kept
            if basis and {*real} <= {*roots} and wanted in (None, key) and not key.endswith(BEFORE_RESTORE)
        }  # fmt: skip
        own = {entry for entry in own if entry[1] == tuple(real)} or own
        wanted, saved = own.pop() if len(own) == 1 else (wanted or DEFAULT, real)
        # Names in a snapshot depend on what it was saved with.
        paths += [path for path in saved if path not in real and os.path.lexists(path)]
        real = list(saved)
        # Go by the folder's identity: a new folder in the same place has no basis.
        kept = [(wanted, tuple(real), peek_index(real, vault=vault, label=wanted).read())]
    found = memory.inspect()
    labels = tuple(entry.label for entry in found.labels if not _is_empty(entry))
    found = replace(found, labels=tuple(entry for entry in found.labels if _is_wanted(entry, wanted)))
    runs = {} if url is None else _runs_of(url, [wanted] if wanted else [entry.label for entry in found.labels])
    # A later failed run does not undo what an earlier one has found.
    confirmed = {run.snapshot_id: run.when for log in runs.values() if (run := log.last_success) is not None}
    verdicts = {}
    for entry in found.labels:
        read = None if quick or entry.newest is None else read_newest(memory, entry)
        if read is not None and read.damaged:
            disprove(vault, entry.label)
        bases = [basis for name, _, basis in kept if name == entry.label]
        unmerged = _unmerged_of(memory, entry, bases, read, quick=quick)
        verdicts[entry.label] = assess(
            found, entry, now=now, max_age=max_age, read=read, confirmed=confirmed, unmerged=unmerged
        )
    verdict = min(verdicts.values(), key=_severity, default=Protection("not protected", empty=True))
    if wanted is not None and wanted not in verdicts:
        verdict = replace(verdict, label=wanted)
    unsaved = find_unsaved(memory, paths, label=wanted or DEFAULT, exclude=exclude, agent=agent) if paths else None
    if unsaved is not None:
        if unsaved.shares_nothing and not any(basis for _, _, basis in kept):
            # Others use the same label, and only their memory is saved under it.
            verdict = replace(verdict, state="not protected", stale=True, empty=not unsaved.changes.changed)
        elif unsaved.files_ahead and verdict.state in ("protected", "saved"):
            verdict = replace(verdict, state="ahead")
        verdicts = dict.fromkeys(verdicts, verdict)
    problems, backend = list[Problem](), memory._session.vault.backend
    with suppress(VaultError):  # the snapshots were read all the same
        ask = getattr(backend, "vault_may_write", None)
        problems += [Problem(_MAY_NOT_WRITE, "wait")] if ask is not None and ask() is False else []
    problems += [problem for item in (verdict, *verdicts.values()) for problem in item.problems]
    judged = next((entry for entry in found.labels if entry.label == verdict.label), None)
    # A monitor checks often, and this costs several reads.
    points = None if quick or max_age is not None else _points(memory, judged, found.quota_bytes)
    latest, names = {entry.latest for entry in found.labels}, [name for name, *_ in kept]
    # Of several folders under a label, the one that the latest is of.
    saves = {name: roots for name, roots, basis in kept if names.count(name) == 1 or basis.snapshot_id in latest}
    same = False if paths else None
    if paths and isinstance(backend, LocalVault):
        same = backend.path.stat().st_dev in {os.stat(path).st_dev for path in paths}  # noqa: PTH116 - may be no Path
    return Checked(found, verdict, verdicts, tuple(dict.fromkeys(problems)), runs, labels, unsaved, same, saves, points)


def _runs_of(url: str, labels: Iterable[str]) -> dict[str, RunLog]:
    from colony_memory.schedule.last_run import read_runs

    logs = {label: read_runs(url, label) for label in dict.fromkeys([*labels, DEFAULT])}
    return {label: log for label, log in logs.items() if log is not None}


def _unmerged_of(
    memory: ColonyMemory, label: LabelMap, bases: list[Basis], read: Newest | None, *, quick: bool
) -> list[Problem]:
    """Saves from here that no latest is based on: the newest intact one, and the damaged ones after it."""
    known, lost, conflict = {key for basis in bases for key in basis.known}, list[Problem](), list[Problem]()
    # Two missing origins don't make a match.
    origins = {memory._session.origin(label.label), *(basis.origin for basis in bases)} - {None}
    broken = {name.snapshot_id for name in map(read_filename, label.broken) if name is not None}
    for info in reversed(label.unmerged):
        name, snapshot_id = label.label, info.snapshot_id
        if not (snapshot_id in known or info.origin in origins) or (read is not None and snapshot_id in read.damaged):
            continue
        check = None if quick else _check(memory, info)
        if check is not None and "bad" in (check.manifest, check.parts, check.digest):
            why = check.problem or "it failed verification"
            what = f"snapshot {snapshot_id}, saved from here and not merged, is damaged: {why}"
            lost.append(Problem(f"{what}; delete it to end this warning", "delete", name, snapshot_id))
            continue
        if not conflict and snapshot_id not in broken:
            has_latest = any(basis.snapshot_id == label.latest for basis in bases)
            mending: Mending = "merge" if info.refused and not has_latest else "join"
            mending = "backup" if any(snapshot_id in basis.merged for basis in bases) else mending
            # What was overtaken is nothing new to a backup: its folder lacks the latest.
            other = snapshot_id if info.refused or has_latest else label.latest
            what = f"conflict with {label.latest}: it is not based on {snapshot_id}, which was saved from here"
            conflict.append(Problem(what, mending, name, other))
        quick = quick or check is not None  # snapshots before an intact one are not read
    return [*conflict, *lost]


def _is_wanted(label: LabelMap, wanted: str | None) -> bool:
    if wanted is not None:
        return label.label == wanted
    # A copy made before a restore is no backup of anything, and an empty label was emptied on purpose.
    return not label.label.endswith(BEFORE_RESTORE) and not (_is_empty(label) and not label.orphans)


def _points(memory: ColonyMemory, label: LabelMap | None, quota: int) -> tuple[int, int] | None:
    """Number of snapshots that fit in formats 1 and 2, by saving the recent ones in format 2; None if unknown."""
    from colony_memory._format.v2.zstd import is_installed
    from colony_memory.client import ColonyMemory
    from colony_memory.vaults.memory import MemoryVault

    newest = None if label is None or not memory._session.vault.counts_operations else label.newest
    if newest is None or newest.format != FORMAT or newest.encrypted or not quota or not is_installed():
        return None
    stored, trial = list[int](), ColonyMemory(backend=MemoryVault(), format=2)
    with suppress(ColonyMemoryError, ValueError):  # damage is reported elsewhere
        for info in reversed(memory.list_snapshots(label=newest.label)[:_SAMPLE]):
            found = memory._run(_engine.restore.read, label=newest.label, snapshot_id=info.snapshot_id)
            saved = trial.backup(found.documents)
            stored += [] if saved.reused else [saved.stored_bytes]
    first, *more = stored or [0]
    if not more or not newest.stored_bytes:
        return None
    return quota // newest.stored_bytes, 1 + max(0, quota - first) * len(more) // sum(more)


def read_newest(memory: ColonyMemory, label: LabelMap) -> Newest:
    """Read the newest snapshot of a label in full; if it is damaged, the one before, until one is good."""
    damaged, unread = dict[str, str](), set[str]()
    for info in _newest_first(memory, label):
        check = _check(memory, info)
        if check is None:
            damaged[info.snapshot_id] = f"snapshot {info.snapshot_id} was deleted in between"
            continue
        facts = (check.manifest, check.parts, check.digest)
        # A signature that could not be checked is no objection if no signer is pinned.
        if (facts == ("ok", "ok", "ok") or check.sealed) and "bad" not in (check.signature, check.trust):
            return Newest(info, damaged, bool(check.closed), unread)
        damaged[info.snapshot_id] = check.problem or f"snapshot {info.snapshot_id} failed verification"
        if "bad" not in facts and facts[1:] == ("unchecked", "unchecked") and check.trust != "bad":
            unread.add(info.snapshot_id)  # it may be good: the extra that reads it is not installed
    return Newest(None, damaged, unread=unread)


def _newest_first(memory: ColonyMemory, label: LabelMap) -> Iterator[SnapshotInfo]:
    if label.newest is None:
        return
    yield label.newest
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColonyMemoryWarning)  # the map has these facts too
        try:
            infos = memory.list_snapshots(label=label.label)
        except (SnapshotCorrupt, UntrustedSnapshot):
            return  # a restore would return none of them either
    last = id_order(label.newest.snapshot_id)
    yield from (info for info in infos if id_order(info.snapshot_id) < last)


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
    """Judge one label, without effects; ``confirmed`` has the times at which a snapshot last matched the memory."""
    newest, age = label.newest if read is None else read.good, None
    if newest is not None:
        seen, made = (confirmed or {}).get(newest.snapshot_id), created(newest)
        age = max(now - (made if seen is None or seen > now else max(made, seen)), timedelta(0))
    stale = age is None or (max_age is not None and age > max_age)
    last = None if newest is None else id_order(newest.snapshot_id)

    def is_past(problem: Problem) -> bool:
        # An untrusted snapshot from before signers were pinned is no risk, and stays until somebody judges it.
        snapshot_id = problem.snapshot_id if problem.mending == "judge" else None
        return last is not None and bool(snapshot_id) and id_order(snapshot_id or "") < last

    read, was_read = read or Newest(), read is not None
    # Problems that put the memory at risk come first.
    name, unread = label.label, read.unread
    remedy: Mending = "replace" if newest else "backup"
    damage = [Problem(why, "judge" if key in unread else remedy, name, key) for key, why in read.damaged.items()]
    problems = tuple(sorted((*damage, *unmerged, *_problems(found, label, newest, remedy)), key=is_past))
    state: State = "protected" if was_read and not read.closed else "saved"
    state = "not protected" if stale else state if all(map(is_past, problems)) else "at risk"
    theirs = (label.latest or "") if any(problem.mending != "delete" for problem in unmerged) else ""
    damaged, empty = bool(read.damaged), _is_empty(label)
    return Protection(state, name, newest, age, stale, problems, damaged, read.closed, empty, theirs)


def _severity(verdict: Protection) -> tuple[int, bool, timedelta]:
    return _WORST_FIRST.index(verdict.state), verdict.age is not None, -(verdict.age or timedelta(0))


def _is_empty(label: LabelMap) -> bool:
    """True for a label that has files but no snapshot, as after its last one was deleted."""
    return label.newest is None and not label.broken and not label.unsigned


def _problems(found: VaultMap, label: LabelMap, newest: SnapshotInfo | None, remedy: Mending) -> Iterator[Problem]:
    name = label.label
    # A copy made before a restore can't be completed: the folder's earlier state is gone.
    if newest is not None and newest.incomplete and not newest.label.endswith(BEFORE_RESTORE):
        what = f"snapshot {newest.snapshot_id} is incomplete, {left_out(newest)}"
        what += "; make readable what belongs to the memory, and exclude the rest"
        yield Problem(what, "backup", name, newest.snapshot_id)
    if not found.complete:
        yield Problem("the vault did not list all of its files: there may be more", "wait")
    refused = refused_latest(label)
    for file, why in label.broken.items():
        if file == refused and newest is not None:
            yield Problem(why, "accept", name, newest.snapshot_id)
            continue
        snapshot_id = ref.snapshot_id if (ref := read_filename(file)) else None
        # Beside a good latest, a backup mends nothing. What is missing may come back, so nothing is to be deleted.
        doubtful = file in label.untrusted or (newest and (newest.snapshot_id == label.latest or not snapshot_id))
        may_sign = snapshot_id == label.latest and file in label.not_signed
        yield Problem(why, "sign" if may_sign else "judge" if doubtful else remedy, name, snapshot_id)
    if label.unsigned and newest is None:
        what = f"nothing trusted is saved: {older_than_signing(name, label.unsigned)}"
        yield Problem(what, "sign", name, label.unsigned[0])
    elif label.dangling and (label.newest is not None or not label.broken):
        yield Problem("no usable pointer: restore goes by the list of files", "backup", name)
    free = found.available_bytes
    if free is not None and free < label.next_bytes and not label.next_at_most:
        what, keep = f"no room for another backup of {label.next_bytes} bytes", min(5, label.snapshots - 1)
        yield Problem(what, "prune" if keep > 0 else "exclude", name, keep=keep)
    if label.removed and label.newest is not None and not label.dangling:
        first, *others = label.removed
        what = f"snapshot {first}{f' and {len(others)} more are' if others else ' is'} listed and gone: "
        what += "files were deleted in the vault, or an older version pruned; if that was meant, drop it from the list"
        yield Problem(what, "forget", name, first)
    if label.orphans and not label.snapshots:
        # Next to a snapshot they cost nothing but room, and a backup may be under way.
        yield Problem(f"nothing but {len(label.orphans)} files of an unfinished backup", "backup", name)
