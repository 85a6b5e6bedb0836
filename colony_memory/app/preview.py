"""What a backup of folders and files would do, and what of them is not saved yet; nothing is changed by either."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from colony_memory import _engine
from colony_memory._format.names import require_label
from colony_memory._lines import number_of_lines
from colony_memory._values import dataclass
from colony_memory.app.options import BackupOptions
from colony_memory.app.place import require_synchronous
from colony_memory.app.save import listed_paths, read_for
from colony_memory.capture._metadata import split_documents
from colony_memory.capture._view import compare_files, differ_in_times_only, view_files
from colony_memory.capture.git import BUNDLE_NAME
from colony_memory.capture.secrets import mask_contents, masked_names
from colony_memory.exceptions import SnapshotCorrupt, message_of

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from colony_memory._engine.preview import Latest, Plan
    from colony_memory.capture.folder import Capture
    from colony_memory.client import ColonyMemory
    from colony_memory.reports import SnapshotDiff
    from colony_memory.snapshot import SnapshotInfo

__all__ = ["Preview", "Unsaved", "find_unsaved", "preview_capture"]


@dataclass(frozen=True)
class Unsaved:
    """How what was read differs from the latest snapshot; true where anything is not saved."""

    latest: SnapshotInfo | None  # the latest snapshot, None where nothing can be restored
    changes: SnapshotDiff  # from that to what was read, file by file
    problem: str | None  # why the latest cannot be read, None where it can, or there is none
    capture: Capture

    def __bool__(self) -> bool:
        return bool(self.changes)

    @property
    def files_ahead(self) -> int:
        """How many files have something that is not saved; what was only removed is no such thing.

        0 where that cannot be told, and all of them where nothing is saved.
        """
        return len(self._lines())

    @property
    def lines_ahead(self) -> int:
        """How many lines of theirs are not saved; a binary file is one."""
        lines = self._lines()
        changed = self.changes.changed
        return sum(min(lines[name], changed[name].added) if name in changed else lines[name] for name in lines)

    @property
    def shares_nothing(self) -> bool:
        """Whether there is a latest, and not one file or line of what was read is in it."""
        lines, changed = self._lines(), self.changes.changed
        alone = self.latest is not None and bool(lines) and not self.changes.unchanged
        return alone and all(lines[name] <= changed[name].added for name in changed)

    def _lines(self) -> dict[str, int]:
        """How many lines each file that came or changed has."""
        if self.problem is not None:
            return {}
        view, files = view_files(self.capture.documents), split_documents(self.capture.documents)[0]
        names = (name for name in (*self.changes.added, *self.changes.changed) if not name.endswith("/"))
        return {name: number_of_lines(view[name]) if isinstance(files.get(name, ""), str) else 1 for name in names}


@dataclass(frozen=True)
class Preview:
    """What a backup would do; true where it would leave nothing out, and fits."""

    plan: Plan  # the snapshot as it would be, whether it fits, and what a retention would give up
    unsaved: Unsaved  # what it would save that the latest does not have

    @property
    def capture(self) -> Capture:
        """What was read."""
        return self.unsaved.capture

    def __bool__(self) -> bool:
        return bool(self.plan) and not self.capture.left_out


def preview_capture(memory: ColonyMemory, capture: Capture, options: BackupOptions) -> Preview:
    """Find out what saving this would do.

    Errors are those of :meth:`ColonyMemory.backup`, but for a want of room.
    """
    latest = _read_latest(memory, options.label)
    known = latest.documents
    plan = memory._run(  # noqa: SLF001
        _engine.preview.plan_backup,
        known if known is not None and differ_in_times_only(known, capture.documents) else capture.documents,
        incomplete=[str(each) for each in capture.left_out],
        damaged=latest.problem is not None,
        **options.of_snapshot,
    )
    return Preview(plan, _compare(latest, capture))


def find_unsaved(
    memory: ColonyMemory,
    paths: Iterable[str | os.PathLike[str]],
    *,
    label: str = "default",
    exclude: str | Iterable[str] = (),
) -> Unsaved:
    """Compare files and directories, as a backup would read them, with the latest snapshot of a label.

    Git repositories are read where the snapshot has their bundles, and a file whose secrets were masked counts as saved
    where it is the same once they are.
    """
    latest = _read_latest(memory, label)
    saved = split_documents(latest.documents or {})[0]
    git = any(name.rpartition("/")[2] == BUNDLE_NAME for name in saved)
    capture = read_for(
        memory, listed_paths(paths), BackupOptions(label=label, git=git, exclude=exclude, secrets="allow")
    )
    return _compare(latest, capture, masking=True)


def _read_latest(memory: ColonyMemory, label: str) -> Latest:
    require_synchronous(memory)
    latest = memory._run(_engine.preview.read_latest, label=require_label(label))  # noqa: SLF001
    try:
        split_documents(latest.documents or {})
    except SnapshotCorrupt as error:
        return replace(latest, documents=None, problem=message_of(error))
    return latest


def _compare(latest: Latest, capture: Capture, *, masking: bool = False) -> Unsaved:
    if latest.documents is None:
        return Unsaved(latest.info, compare_files({}, capture.documents), latest.problem, capture)
    before, after = view_files(latest.documents), view_files(capture.documents)
    instead: dict[str, str] = {}
    for name in masked_names(latest.documents) if masking else ():
        # What was masked when it was saved is compared as it would be saved again.
        content = after.get(name)
        if content is not None and content != before.get(name):
            contents: dict[str, str | bytes] = {name: content}
            mask_contents(contents)
            instead[name] = str(contents[name])
    return Unsaved(latest.info, compare_files(latest.documents, capture.documents, instead=instead), None, capture)
