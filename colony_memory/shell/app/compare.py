"""Comparisons of snapshots and folders: backup previews, unsaved changes, differences, the history of a file."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from colony_memory._diff import File, number_of_lines, patch, quoted
from colony_memory._format.names import require_label
from colony_memory._values import Value, field
from colony_memory.capture import read_folder
from colony_memory.capture._metadata import (
    METADATA_NAMES,
    compare_files,
    differ_in_times_only,
    git_files,
    split_documents,
    view_files,
)
from colony_memory.capture.index import kept_of, peek_index
from colony_memory.capture.secrets import mask_contents, masked_names
from colony_memory.exceptions import (
    ColonyMemoryError,
    DecryptionError,
    SnapshotCorrupt,
    SnapshotNotFound,
    UntrustedSnapshot,
    message_of,
)
from colony_memory.shell.app.content import near
from colony_memory.shell.app.open import identify_vault, require_synchronous
from colony_memory.shell.app.options import BackupOptions
from colony_memory.shell.app.pick import find_id, may_name_a_snapshot
from colony_memory.shell.app.save import listed_paths, read_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from colony_memory._engine.backup import Plan
    from colony_memory._engine.history import Histories
    from colony_memory._engine.load import Loaded
    from colony_memory.capture import Capture, LeftOut
    from colony_memory.client import ColonyMemory
    from colony_memory.reports import Change, SearchReport, SnapshotDiff
    from colony_memory.snapshot import SnapshotInfo


class Unsaved(Value):
    """The differences between a capture and the latest snapshot; true if anything is not saved."""

    latest: SnapshotInfo | None  # the latest snapshot, None if nothing can be restored
    changes: SnapshotDiff  # from that to the capture, file by file
    problem: str | None  # why the latest cannot be read, None if it can, or if there is none
    capture: Capture

    def __bool__(self) -> bool:
        return bool(self.changes)

    @property
    def files_ahead(self) -> int:
        """The number of files with unsaved changes; 0 if unknown."""
        return len(self._lines())

    @property
    def lines_ahead(self) -> int:
        return sum(ahead for _, ahead in self._lines().values())

    @property
    def shares_nothing(self) -> bool:
        """True if there is a latest snapshot with none of the capture's files and lines."""
        lines = self._lines().values()
        alone = self.latest is not None and bool(lines) and not self.changes.unchanged
        return alone and all(total == ahead for total, ahead in lines)

    def _lines(self) -> dict[str, tuple[int, int]]:
        """The number of lines in each new or changed file, and the number of unsaved ones among them."""
        if self.problem is not None:
            return {}
        view, files = view_files(self.capture.documents), split_documents(self.capture.documents)[0]
        found, changed = {}, self.changes.changed
        for name in (*self.changes.added, *changed):
            if not name.endswith("/"):
                total = number_of_lines(view[name]) if isinstance(files.get(name, ""), str) else 1
                found[name] = total, min(total, changed[name].added) if name in changed else total
        return found


class Preview(Value):
    """The forecast of a backup; true if nothing would be left out, and it fits."""

    plan: Plan  # the snapshot as it would be, if it fits, and the removals by a retention
    unsaved: Unsaved  # the changes since the latest that it would save

    def __bool__(self) -> bool:
        return bool(self.plan) and not self.unsaved.capture.left_out


def preview_capture(memory: ColonyMemory, capture: Capture, options: BackupOptions) -> Preview:
    """Plan the save of a capture; errors as :meth:`ColonyMemory.backup`, except for a lack of room."""
    from colony_memory._engine.backup import plan_backup

    latest, problem = _read_latest(memory, options.label)
    known = None if latest is None else latest.documents
    plan = memory._run(
        plan_backup,
        known if known is not None and differ_in_times_only(known, capture.documents) else capture.documents,
        incomplete=[str(entry) for entry in capture.left_out],
        damaged=problem is not None,
        **options.of_snapshot,
    )
    return Preview(plan, _compare(latest, problem, capture))


def find_unsaved(
    memory: ColonyMemory,
    paths: Iterable[str | os.PathLike[str]],
    *,
    label: str = "default",
    exclude: str | Iterable[str] = (),
    agent: str | None = None,
) -> Unsaved:
    """Compare files, read as by a backup, with the latest; those masked in the latest are masked again first."""
    latest, problem = _read_latest(memory, label)
    options = BackupOptions(label=label, exclude=exclude, secrets="allow", agent=agent)
    return _compare(latest, problem, read_for(memory, listed_paths(paths), options), masking=True)


def _read_latest(memory: ColonyMemory, label: str) -> tuple[Loaded | None, str | None]:
    """The latest snapshot, or why it cannot be read; leaves the basis of the client's memory alone."""
    from colony_memory._engine.restore import read

    require_synchronous(memory)
    try:
        latest = memory._run(lambda session: read(session.unnoticed(), label=require_label(label)))
        split_documents(latest.documents)
    except SnapshotNotFound:
        return None, None
    except (SnapshotCorrupt, UntrustedSnapshot, DecryptionError) as error:
        return None, message_of(error)
    return latest, None


def _compare(latest: Loaded | None, problem: str | None, capture: Capture, *, masking: bool = False) -> Unsaved:
    saved = latest.documents if latest else {}
    masked: dict[str, str] = {}
    if masking and (names := masked_names(saved)):
        # Files masked in the last save are compared as they would be saved again.
        before, after = view_files(saved), view_files(capture.documents)
        changed = [name for name in names if name in after and after[name] != before.get(name)]
        contents: dict[str, str | bytes] = {name: after[name] for name in changed}
        mask_contents(contents)
        masked = {name: str(content) for name, content in contents.items()}
    changes = compare_files(saved, capture.documents, instead=masked)
    return Unsaved(None if latest is None else latest.info, changes, problem, capture)


class Side(Value):
    name: str  # the snapshot's id, or the folder
    title: str  # the same for use in a sentence
    documents: Mapping[str, str]  # of the snapshot, or those that a save of the folder would have
    left_out: tuple[LeftOut, ...] = ()  # files of a folder that could not be read


def read_own_folder(memory: ColonyMemory, label: str) -> Side:
    """The folder that this host saves under a label, read with the options of its last save."""
    vault = identify_vault(memory)
    sources = {paths for name, paths, basis in kept_of(vault) if name == label and basis}
    folders: list[str | os.PathLike[str]] = [
        paths[0] for paths in sources if len(paths) == 1 and Path(paths[0]).is_dir()
    ]
    if len(folders) != 1:
        raise ColonyMemoryError(
            f"this host saves {len(folders) or 'no'} folders under label {label!r}: say what to compare"
        )
    options = BackupOptions.of_known(peek_index(folders, vault=vault, label=label).options, label=label)
    return side_of_folder(os.fspath(folders[0]), read_for(memory, folders, options.for_a_look()))


def read_side(memory: ColonyMemory, text: str, *, label: str) -> Side:
    """The snapshot or the folder named by a text: a folder by a path, or by a name that cannot begin an id."""
    if not may_name_a_snapshot(text) or (
        not text[0].isdigit() and not text.startswith("latest") and Path(text).is_dir()
    ):
        return side_of_folder(text, read_folder(os.path.expanduser(text), secrets="allow"))  # noqa: PTH111 - '' is not '.'
    return read_snapshot(memory, find_id(memory, text, label=label), label=label)


def side_of_folder(path: str, capture: Capture) -> Side:
    return Side(path, f"the folder {path}", capture.documents, capture.left_out)


def read_snapshot(memory: ColonyMemory, snapshot_id: str, *, label: str) -> Side:
    return Side(snapshot_id, f"snapshot {snapshot_id}", memory.restore(label=label, snapshot_id=snapshot_id))


def patch_of(before: Side, after: Side, *, only: str | None = None) -> str:
    """The differences as a patch for git and patch, with lines that both ignore for what a patch cannot express."""
    files = [git_files(side.documents) for side in (before, after)]
    dirs = [{*split_documents(side.documents)[1].empty_dirs} for side in (before, after)]
    if only is not None:
        files = [{name: file for name, file in tree.items() if name == only} for tree in files]
        dirs = [names & {only} for names in dirs]
    missing = [(name, side) for side, own, other in zip("ab", dirs, dirs[::-1], strict=True) for name in own - other]
    lines = [f"Only in {side}: {quoted(f'{name}/')}\n" for name, side in sorted(missing)]
    return patch(*files) + "".join(lines)


class FileHistory(Value):
    """The history of one file."""

    name: str
    changes: tuple[Change, ...]  # newest first
    read: int  # number of snapshots that were read
    passed_over: Mapping[str, str] = field(default_factory=dict)  # reasons for skipping unreadable snapshots, by id


def file_history(memory: ColonyMemory, name: str, *, label: str = "default", patch: bool = False) -> FileHistory:
    """The history of one file of a folder, text or not, across snapshots; for a link, of its target."""
    from colony_memory._engine.history import histories

    require_synchronous(memory)
    names: list[str] = []

    def view(documents: Mapping[str, str]) -> dict[str, File]:
        files = _files(documents)
        if not names:
            names.extend(files)  # of the newest snapshot
        files |= {key: File(documents[key]) for key in METADATA_NAMES if key in documents}
        return files

    found = memory._run(histories, name, label=label, patch=patch, view=view)
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


def every_history(memory: ColonyMemory, *, label: str) -> Histories:
    from colony_memory._engine.history import histories

    require_synchronous(memory)
    return memory._run(histories, label=label, patch=True, view=_files)


_files = partial(git_files, modes=False)


def search_files(
    memory: ColonyMemory, pattern: str, *, label: str = "default", fixed: bool = False, ignore_case: bool = False
) -> SearchReport:
    """As :meth:`ColonyMemory.search`, in all files; one that is not text is matched as a whole."""
    from colony_memory._engine.history import search

    require_synchronous(memory)

    def view(documents: Mapping[str, str]) -> dict[str, File]:
        return {name: File(content) for name, content in split_documents(documents)[0].items()}

    return memory._run(search, pattern, label=label, fixed=fixed, ignore_case=ignore_case, view=view)
