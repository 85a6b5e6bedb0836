"""What became of a file, and of what was in one, over all snapshots.

Everything that there is to see of a vault, gathered for a report.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from colony_memory import _engine
from colony_memory._format.names import latest_filename, manifest_filename
from colony_memory._patch import File
from colony_memory.app.content import near
from colony_memory.app.place import require_synchronous
from colony_memory.app.protection import check_protection
from colony_memory.capture._metadata import METADATA_NAMES, split_documents
from colony_memory.capture._view import git_files
from colony_memory.exceptions import ColonyMemoryError, ColonyMemoryWarning, SnapshotCorrupt, VaultError, message_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from colony_memory._engine.history import Histories
    from colony_memory.app.protection import Checked
    from colony_memory.client import ColonyMemory
    from colony_memory.reports import Change, LabelMap, SearchReport, VerifyReport
    from colony_memory.retention import PrunePlan, Retention
    from colony_memory.snapshot import SnapshotInfo


@dataclass(frozen=True)
class FileHistory:
    """What became of one file."""

    name: str
    changes: tuple[Change, ...]  # its changes, newest first
    read: int  # how many snapshots were looked at
    passed_over: Mapping[str, str] = field(default_factory=dict)  # why each snapshot that could not be read


def file_history(memory: ColonyMemory, name: str, *, label: str = "default", patch: bool = False) -> FileHistory:
    """What became of one file of a folder, text or not, from snapshot to snapshot; of a link, of what it says.

    Reads every snapshot of the label once, as :meth:`ColonyMemory.history` does.
    """
    require_synchronous(memory)
    names: list[str] = []

    def view(documents: Mapping[str, str]) -> dict[str, File]:
        files = _files(documents)
        if not names:
            names.extend(files)  # of the newest
        files |= {each: File(documents[each]) for each in METADATA_NAMES if each in documents}
        return files

    found = memory._run(_engine.history.history, name, label=label, patch=patch, view=view)  # noqa: SLF001
    if name in found.changes:
        return FileHistory(name, found.changes[name], found.read, found.passed_over)
    more = near(name, names)
    if found.passed_over:
        raise SnapshotCorrupt(
            f"there is no {name!r} in what can be read of label {label!r}, and {len(found.passed_over)} of "
            f"{len(found.passed_over) + found.read} snapshots cannot be{more}"
        )
    where = "the one snapshot" if found.read == 1 else f"any of the {found.read} snapshots"
    raise ColonyMemoryError(f"there is no {name!r} in {where} of label {label!r}{more}")


def change_word(name: str, change: Change) -> str:
    """What happened, in a word or two."""
    if change.kind == "removed" and any(each.startswith(f"{name}: ") for each in change.snapshot.incomplete):
        return "left out"  # not by the wish of whoever keeps the files
    return "in the oldest" if change.before is None else change.kind


def every_history(memory: ColonyMemory, *, label: str = "default", patch: bool = False) -> Histories:
    """What became of every file of a folder, as :func:`file_history` tells it of one."""
    require_synchronous(memory)
    return memory._run(_engine.history.histories, label=label, patch=patch, view=_files)  # noqa: SLF001


def _files(documents: Mapping[str, str]) -> dict[str, File]:
    return git_files(documents, modes=False)


def search_files(
    memory: ColonyMemory,
    pattern: str,
    *,
    label: str = "default",
    fixed: bool = False,
    ignore_case: bool = False,
) -> SearchReport:
    """Every line of every file that has something in it; what is no text is looked at as a whole.

    Arguments and errors are those of :meth:`ColonyMemory.search`.
    """
    require_synchronous(memory)
    return memory._run(  # noqa: SLF001
        _engine.history.search, pattern, label=label, fixed=fixed, ignore_case=ignore_case, view=_contents
    )


def _contents(documents: Mapping[str, str]) -> dict[str, File]:
    return {name: File(content) for name, content in split_documents(documents)[0].items()}


@dataclass(frozen=True)
class LabelOverview:
    """One label."""

    label: str
    snapshots: tuple[SnapshotInfo, ...] = ()  # what a list shows, newest first
    plan: PrunePlan | None = None  # what the retention would keep and remove; None where the label cannot be believed
    verified: VerifyReport | None = None  # what reading every byte showed; None where that was not asked for
    changes: Mapping[str, tuple[Change, ...]] = field(default_factory=dict)  # the changes of each document
    passed_over: Mapping[str, str] = field(default_factory=dict)  # why each snapshot that was not read was not, by id
    problem: str | None = None  # why something is missing above, None where nothing is


@dataclass(frozen=True)
class Overview:
    """A vault: whether it protects, and each label."""

    checked: Checked
    labels: tuple[LabelOverview, ...]


def look_over(
    memory: ColonyMemory,
    *,
    url: str,
    retention: Retention,
    label: str | None = None,
    texts: bool = True,
    quick: bool = False,
    now: datetime | None = None,
) -> Overview:
    """Gather it. What is wrong with one label is said of it, and does not stop the others."""
    checked = check_protection(memory, url=url, label=label, now=now)
    with warnings.catch_warnings():
        # All that they say is in what comes back.
        warnings.simplefilter("ignore", ColonyMemoryWarning)
        return Overview(
            checked,
            tuple(
                LabelOverview(each.label, problem=next(iter(each.broken.values()), None))
                if _is_bare(each)
                else _look_over(memory, each.label, retention, texts, quick)
                for each in checked.found.labels
            ),
        )


def _is_bare(found: LabelMap) -> bool:
    """Whether there is a pointer to nothing and no snapshot: anyone can put thousands of them there."""
    at_most = {manifest_filename(found.label, found.latest or ""), latest_filename(found.label)}
    return found.dangling and not found.snapshots and not found.untrusted and at_most.issuperset(found.broken)


def _look_over(memory: ColonyMemory, label: str, retention: Retention, texts: bool, quick: bool) -> LabelOverview:
    snapshots: tuple[SnapshotInfo, ...] = ()
    plan = verified = None
    changes: Mapping[str, tuple[Change, ...]] = {}
    passed_over: Mapping[str, str] = {}
    try:
        if not quick:
            verified = memory.verify(label=label)
        snapshots = tuple(memory.list_snapshots(label=label))
        plan = memory.plan_prune(label=label, retention=retention)
        if not quick:
            found = every_history(memory, label=label, patch=texts)
            changes, passed_over = found.changes, found.passed_over
    except VaultError:
        raise
    except ColonyMemoryError as error:
        return LabelOverview(label, snapshots, plan, verified, changes, passed_over, message_of(error))
    return LabelOverview(label, snapshots, plan, verified, changes, passed_over)
