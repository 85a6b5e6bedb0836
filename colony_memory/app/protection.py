"""The protection of a memory: does a vault give it back, and if not, why?

:func:`check_protection` does it all. Of its steps :func:`read_newest` reads, :func:`last_runs` looks how ``watch``
fared, and :mod:`colony_memory.app.verdict` judges by what was read.
"""

from __future__ import annotations

import os
import warnings
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from colony_memory import _engine
from colony_memory._format import FORMAT
from colony_memory._format.names import id_order, require_label
from colony_memory._os.paths import real_path
from colony_memory._values import NamedTuple, dataclass, field, getLogger, replace
from colony_memory.app.compare import Unsaved, find_unsaved
from colony_memory.app.open import identify_vault, require_synchronous
from colony_memory.app.pick import BEFORE_RESTORE
from colony_memory.app.verdict import (
    Mending,
    Newest,
    Problem,
    Protection,
    assess,
    is_empty,
    least_protected,
    with_folder,
)
from colony_memory.capture.index import disprove, kept_of, peek_index
from colony_memory.exceptions import (
    ColonyMemoryError,
    ColonyMemoryWarning,
    SnapshotCorrupt,
    SnapshotNotFound,
    UntrustedSnapshot,
    VaultError,
)
from colony_memory.vaults.local import LocalVault

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from colony_memory._engine.basis import Basis
    from colony_memory.client import ColonyMemory
    from colony_memory.reports import LabelMap, SnapshotCheck, VaultMap
    from colony_memory.schedule.last_run import RunLog
    from colony_memory.snapshot import SnapshotInfo

logger = getLogger(__name__)

#: Snapshots that show what format 2 makes of a memory.
_SAMPLE = 8
#: Label of what nobody has given one.
DEFAULT = "default"
_MAY_NOT_WRITE = (
    "this account may not save to the vault: that takes 10 karma, which is earned on the Colony; until then, "
    "save to another vault"
)

__all__ = ["Checked", "Newest", "Problem", "Protection", "check_protection"]


@dataclass(frozen=True)
class Checked:
    """The findings of a check; true where the memory that was asked for is protected."""

    found: VaultMap  # what is in the vault, with the labels that were asked for
    verdict: Protection  # the answer: that on the label that is protected least, and of several on the stalest
    verdicts: Mapping[str, Protection] = field(default_factory=dict)
    read: Mapping[str, Newest] = field(default_factory=dict)  # what reading each label's newest snapshots has shown
    runs: Mapping[str, RunLog] = field(default_factory=dict)  # how the last runs of watch and run on this host ended
    there: tuple[str, ...] = ()  # every label that the vault has
    unsaved: Unsaved | None = None  # what the folders that were asked for have and the latest snapshot has not
    same_disk: bool | None = None  # the vault is on the file system of one of those folders, and would be lost with it
    folders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # what this host saves under a label
    may_write: bool | None = None  # whether the account may save any more; None where that was not to be learned
    points: tuple[int, int] | None = None  # how many snapshots like the recent ones fit in formats 1 and 2

    def __bool__(self) -> bool:
        return bool(self.verdict)

    @property
    def damaged(self) -> bool:
        read = self.read.get(self.verdict.label or "")
        return read is not None and bool(read.damaged)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """All problems, each once: of the account and the answer's label, then of the others."""
        first = (*([Problem(_MAY_NOT_WRITE, "wait")] if self.may_write is False else ()), *self.verdict.problems)
        rest = (each for verdict in self.verdicts.values() for each in verdict.problems)
        return tuple(dict.fromkeys((*first, *rest)))


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
    vault = identify_vault(memory)
    paths, kept = list(paths), kept_of(vault)
    if label is None and paths:
        label = _label_of(paths, kept)
    wanted = None if label is None else require_label(label)
    found = memory.inspect()
    there = tuple(each.label for each in found.labels)
    found = replace(found, labels=tuple(each for each in found.labels if _is_asked_for(each, wanted)))
    read = {} if quick else {each.label: read_newest(memory, each) for each in found.labels if each.newest is not None}
    for each, newest in read.items():
        if newest.damaged:
            disprove(vault, each)
    runs = {} if url is None else last_runs(url, [wanted] if wanted else [each.label for each in found.labels])
    # A run that failed since does not undo what the one before has found.
    good = [run for log in runs.values() if (run := log.last_success) is not None]
    confirmed = {run.snapshot_id: run.when for run in good if run.snapshot_id}
    now = now or datetime.now(timezone.utc)
    if paths and wanted is not None:
        # By what the folder is now: one that was made anew in its place has no basis.
        real = tuple(os.fspath(real_path(path)) for path in paths)
        here = [_Here(wanted, real, peek_index(paths, vault=vault, label=wanted).read())]
    else:
        here = [_Here(*each) for each in kept]
    verdicts = {}
    for of_label in found.labels:
        own = _own_of(memory, of_label, here)
        verdicts[of_label.label] = assess(
            found,
            of_label,
            now=now,
            max_age=max_age,
            read=read.get(of_label.label),
            confirmed=confirmed,
            own=own,
            lost={} if quick else _lost_of(memory, of_label, own, read.get(of_label.label)),
        )
    verdict = least_protected(verdicts.values())
    if wanted is not None and wanted not in verdicts:
        verdict = replace(verdict, label=wanted)
    unsaved = find_unsaved(memory, paths, label=wanted or DEFAULT, exclude=exclude, agent=agent) if paths else None
    if unsaved is not None:
        was_saved = any(each.basis for each in here if each.label == wanted)
        verdict = with_folder(verdict, unsaved, was_saved=was_saved)
        verdicts = dict.fromkeys(verdicts, verdict)
    same_disk = _is_same_disk(memory, paths) if paths else None
    folders = {each.label: each.paths for each in here if [one.label for one in here].count(each.label) == 1}
    may_write = _may_write(memory)
    # A monitor asks often, and this takes some reads.
    asked = next((each for each in found.labels if each.label == verdict.label), None)
    points = None if quick or max_age is not None or asked is None else _points(memory, asked, found.quota_bytes)
    return Checked(found, verdict, verdicts, read, runs, there, unsaved, same_disk, folders, may_write, points)


class _Here(NamedTuple):
    label: str
    paths: tuple[str, ...]
    basis: Basis


def _label_of(paths: Sequence[str | os.PathLike[str]], kept: Iterable[tuple[str, tuple[str, ...], Basis]]) -> str:
    labels = {label for label, of, basis in kept if basis and _is_of(of, paths) and not label.endswith(BEFORE_RESTORE)}
    return labels.pop() if len(labels) == 1 else DEFAULT


def _is_of(kept: Iterable[str], paths: Iterable[str | os.PathLike[str]]) -> bool:
    return sorted(kept) == sorted(os.fspath(real_path(path)) for path in paths)


def _own_of(memory: ColonyMemory, label: LabelMap, here: Iterable[_Here]) -> dict[str, Mending]:
    """Snapshots that were saved from here and that no latest is based on, by id, with what would mend that."""
    bases = [each.basis for each in here if each.label == label.label]
    known = {one for basis in bases for one in basis.known}
    # That neither has an origin says nothing of whose it is.
    origins = {memory._session.origin(label.label), *(basis.origin for basis in bases)} - {None}
    own: dict[str, Mending] = {}
    for snapshot_id in [
        info.snapshot_id for info in label.unmerged if info.snapshot_id in known or info.origin in origins
    ]:
        joined = any(snapshot_id in basis.merged for basis in bases)
        taken = any(basis.snapshot_id == label.latest for basis in bases)
        own[snapshot_id] = "backup" if joined else "join" if taken else "merge"
    return own


def _lost_of(memory: ColonyMemory, label: LabelMap, own: Iterable[str], read: Newest | None) -> dict[str, str]:
    """The damage of the newest ones that were saved from here and are unmerged, up to one that is whole."""
    unmerged, lost = {info.snapshot_id: info for info in label.unmerged}, dict[str, str]()
    for snapshot_id in reversed([*own]):
        if read is not None and snapshot_id in read.damaged:
            continue
        check = _check(memory, unmerged[snapshot_id])
        if check is None or "bad" not in (check.manifest, check.parts, check.digest):
            break
        lost[snapshot_id] = check.problem or "it does not hold"
    return lost


def _is_asked_for(label: LabelMap, wanted: str | None) -> bool:
    if wanted is not None:
        return label.label == wanted
    # The copy of what was about to be replaced is no backup of anything, and an empty label was emptied on purpose.
    return not label.label.endswith(BEFORE_RESTORE) and not (is_empty(label) and not label.orphans)


def _may_write(memory: ColonyMemory) -> bool | None:
    ask = getattr(memory._session.vault.backend, "vault_may_write", None)
    try:
        return None if ask is None else ask()
    except VaultError as error:  # what is saved there was read all the same
        logger.debug("whether the account may write is not known: %s", error)
        return None


def _points(memory: ColonyMemory, label: LabelMap, quota: int) -> tuple[int, int] | None:
    """How many snapshots like the recent ones fit into the hosted vault in each format, by saving these in the other;
    None where they are of format 2, or do not tell.
    """
    from colony_memory._format.v2.zstd import is_installed
    from colony_memory.client import ColonyMemory
    from colony_memory.vaults.memory import MemoryVault

    newest = label.newest
    if newest is None or newest.format != FORMAT or newest.encrypted or not quota or not is_installed():
        return None
    if not memory._session.vault.counts_operations:
        return None
    stored, trial = list[int](), ColonyMemory(backend=MemoryVault(), format=2)
    try:
        for info in reversed(memory.list_snapshots(label=label.label)[:_SAMPLE]):
            found = memory._run(_engine.restore.read, label=label.label, snapshot_id=info.snapshot_id)
            saved = trial.backup(found.documents)
            stored += [] if saved.reused else [saved.stored_bytes]
    except (ColonyMemoryError, ValueError) as error:  # what is damaged is told by others
        logger.debug("what format 2 would give is not known: %s", error)
    first, *more = stored or [0]
    if not more or not newest.stored_bytes:
        return None
    return quota // newest.stored_bytes, 1 + max(0, quota - first) * len(more) // sum(more)


def _is_same_disk(memory: ColonyMemory, paths: Iterable[str | os.PathLike[str]]) -> bool:
    backend = memory._session.vault.backend
    if not isinstance(backend, LocalVault):
        return False
    return backend.path.stat().st_dev in {os.stat(path).st_dev for path in paths}  # noqa: PTH116 - may be no Path


def last_runs(url: str, labels: Sequence[str]) -> dict[str, RunLog]:
    """How the last runs of ``watch`` and ``run`` on this host ended, for each label that there was one of."""
    from colony_memory.schedule.last_run import read_runs

    logs = {label: read_runs(url, label) for label in dict.fromkeys([*labels, "default"])}
    return {label: log for label, log in logs.items() if log is not None}


def read_newest(memory: ColonyMemory, label: LabelMap) -> Newest:
    """Read the newest snapshot of a label in full; where it is damaged, the one before, until one is good.

    What the client's memory is based on stays what it was.
    """
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
    try:
        (check,) = memory.verify(label=info.label, snapshot_id=info.snapshot_id).snapshots
    except SnapshotNotFound:
        return None
    return check


def _is_unread(check: SnapshotCheck) -> bool:
    """It may be good, and this host cannot tell: what reads it is not installed."""
    return (check.manifest, check.parts, check.digest) == ("ok", "unchecked", "unchecked") and check.trust != "bad"


def _damage(check: SnapshotCheck | None, info: SnapshotInfo) -> str | None:
    if check is None:
        return f"snapshot {info.snapshot_id} was deleted in between"
    whole = (check.manifest, check.parts, check.digest) == ("ok", "ok", "ok")
    # A signature that could not be looked at speaks against nothing where nobody is pinned.
    if (whole or check.sealed) and "bad" not in (check.signature, check.trust):
        return None
    return check.problem or f"snapshot {info.snapshot_id} does not hold"
