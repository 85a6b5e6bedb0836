"""The comparison of a snapshot with a folder, name by name: the plan of a restore, with nothing touched.

Only files that a backup would save, found by the same walk, are removed. Others have no copy and stay, as do links.
"""

from __future__ import annotations

import errno
import os
import stat
from functools import partial
from typing import TYPE_CHECKING, Any

from colony_memory._os.directory import Directory, Reach
from colony_memory._os.paths import PERMISSIONS, Identity, is_file, is_link
from colony_memory._values import Record, field
from colony_memory.capture._filenames import fold, link_problem, listed, parents_of, place_of_state, stem_of
from colony_memory.capture._journal import ModeChange
from colony_memory.capture._metadata import Metadata, encode_text
from colony_memory.capture._question import Displaced, Question, find_users
from colony_memory.capture._stage import mount_of, widened
from colony_memory.capture._steady import (
    Sparse,
    companions_of,
    holds_database,
    holds_own_data,
    is_database,
    read_sparse,
    read_start,
)
from colony_memory.capture._tree import Tree
from colony_memory.capture._walk import Walk
from colony_memory.capture.sqlite import holds_same
from colony_memory.exceptions import ColonyMemoryError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path


Statuses = dict[str, os.stat_result]
_IS_LINK = "is a symbolic link, and nothing is written through links"


class Plan(Record):
    """The changes to a folder, with the question and note of the caller who carries them out."""

    target: Path  # real path of the folder
    metadata: Metadata  # of the snapshot
    files: dict[str, str | bytes] = field(default_factory=dict)  # contents of files and targets of links to write
    replaced: Statuses = field(default_factory=dict)  # of these names, the files there when the plan was made
    logs: Statuses = field(default_factory=dict)  # of replaced databases: SQLite would merge them into the new ones
    removed: Statuses = field(default_factory=dict)  # files to remove, as the snapshot lacks them
    unchanged: list[str] = field(default_factory=list)  # files with the right content already
    directories: list[str] = field(default_factory=list)  # empty directories to make
    modes: list[ModeChange] = field(default_factory=list)  # unchanged files that get other permissions
    # Files to leave, as they have the real text of secrets that the snapshot has masked
    left: list[str] = field(default_factory=list)
    databases: set[str] = field(default_factory=set)  # those among the replaced and removed files
    # Names to change that were open when the plan was made, by themselves or as a part of a store, and the program
    in_use: dict[str, str] = field(default_factory=dict)
    dropped: Statuses = field(default_factory=dict)  # directories left empty by the removals, inner ones first
    found: Identity | None = None  # the folder when the plan was made, None if there was none
    force: bool = False  # allows masked text in place of the real one, and the replacement of files in use
    question: Question | None = None  # asked about the displaced files at the end; None if all of them may go
    # Written to the index once all is in place, for JSON; None for nothing
    note: Mapping[str, Any] | None = None
    on_progress: Callable[[int, int, str], None] | None = None  # called for each file that is written

    def parents(self) -> dict[str, str]:
        """Every directory that is needed, outer ones first, with the first name that needs it."""
        found: dict[str, str] = {}
        for name in [*self.files, *(f"{name}/" for name in self.directories)]:
            for parent in parents_of(name):
                found.setdefault(parent, name)
        return found

    def displaced_directories(self) -> list[str]:
        """The removed directories in whose place, or in that of a directory above them, a file is put."""
        return [name for name in self.dropped if not self.files.keys().isdisjoint((name, *parents_of(name)))]

    def users(self) -> dict[str, str]:
        """The files to change that are open, by themselves or as a part of a store, each with the program."""
        changing = {*self.files, *self.removed}
        if not changing or not self.target.exists():
            return {}
        with Directory.open(self.target) as folder, Reach(folder) as reach:
            return find_users(reach, changing, self.databases)

    def unsaved(self, question: Question) -> list[str]:
        """The files to replace or remove that are saved nowhere, as the folder is now."""
        displaced = {*self.replaced, *self.removed, *self.logs}
        if not displaced:
            return []
        with Directory.open(self.target) as folder, Reach(folder) as reach:
            statuses = [(name, reach.look(name)) for name in sorted(displaced)]
            return question.unsaved(Displaced(name, reach, name, status) for name, status in statuses if status)


def make_plan(
    target: Path,
    contents: Mapping[str, str | bytes],
    metadata: Metadata,
    *,
    delete: bool | Collection[str],
    force: bool,
) -> Plan:
    """Compare a snapshot with a folder that may not exist, and raise ColonyMemoryError for obstacles.

    With ``delete``, files that the snapshot lacks are removed: all, or those of these names.
    """
    plan = Plan(target, metadata, force=force)
    wanted = {**contents, **metadata.links}
    try:
        folder = Directory.open(target)
    except FileNotFoundError:
        _check_links(metadata, None)
        plan.files.update(sorted(wanted.items()))
        plan.directories += sorted(metadata.empty_dirs)
        return plan
    except OSError as error:
        raise ColonyMemoryError(f"{str(target)!r} cannot be read ({error.strerror}); nothing was written") from error
    try:
        with folder, Reach(folder) as reach:
            plan.found = Identity.of(folder.status())
            _check_links(metadata, reach)
            comparison = _Comparison(plan, reach, wanted=wanted.keys(), replaces=delete is True)
            if delete:
                comparison.add_surplus(None if delete is True else {name.rstrip("/") for name in delete})
            for name, content in sorted(wanted.items()):
                comparison.add_file(name, content)
            for name in sorted(metadata.empty_dirs):
                comparison.add_directory(name)
        plan.in_use = plan.users()
    except OSError as error:
        raise ColonyMemoryError(f"{str(target)!r} cannot be looked at ({error}); nothing was written") from error
    return plan


def _check_links(metadata: Metadata, reach: Reach | None) -> None:
    """Refuse links that lead out of the folder, directly, through other links or on along them."""
    own = {fold(name): target for name, target in metadata.links.items()}

    def target_in_folder(name: str) -> str | None:
        if reach is None:
            return None
        try:
            directory, last = reach.parent(name)
            status = directory.look(last)
            return directory.read_link(last) if status is not None and is_link(status) else None
        except FileNotFoundError:
            return None
        except OSError:
            return ""  # something on the way is no directory

    def target_of(name: str) -> str | None:
        return own.get(fold(name)) or target_in_folder(name)

    found = {
        name: link_problem(name, target, target_of=target_of, exists=target_in_folder(name) == target)
        for name, target in sorted(metadata.links.items())
    }
    problems = [f"{name!r} {problem}" for name, problem in found.items() if problem]
    if problems:
        raise ColonyMemoryError(f"document {listed(problems, most=5, joint='; ')}; nothing was written")


class _Comparison:
    """The comparison of one name after another with an open folder."""

    def __init__(self, plan: Plan, reach: Reach, *, wanted: Collection[str], replaces: bool) -> None:
        self._plan = plan
        self._metadata = plan.metadata
        self._reach = reach
        self._wanted = wanted
        self._missing: set[str] = set()  # names at which there is nothing, or will be nothing after the removals
        self._replaces = replaces  # everything that the snapshot lacks is removed

    def add_file(self, name: str, content: str | bytes) -> None:
        """Plan a file, or a link with its target as content."""
        plan, data = self._plan, None if name in self._metadata.links else encode_text(content)
        status, logs = self._look(name, may_be_link=data is None), Statuses()
        if data is not None and is_database(data):
            # Companions of the old database, which SQLite would take for those of the new one.
            parts = ((part, self._look(part)) for part in companions_of(name) if part not in self._wanted)
            logs = {part: log for part, log in parts if log is not None and is_file(log)}
        if status is not None and stat.S_ISDIR(status.st_mode):
            more = ", with something in it that no backup saves" if self._replaces else ""
            raise self._refusal(name, name, f"is a directory{more}")
        if status is not None and not is_file(status) and not is_link(status):
            raise self._refusal(name, name, "is a device, pipe or socket")
        if status is not None and self._is_same(name, content, data, status, logs):
            self._add_unchanged(name, status)
        elif status is not None and name in self._metadata.masked and not plan.force:
            plan.left.append(name)
        else:
            plan.files[name] = content
            plan.logs.update(logs)
            if status is not None:
                plan.replaced[name] = status
                if (data is not None and is_database(data)) or holds_database(*self._reach.parent(name)):
                    plan.databases.add(name)

    def add_directory(self, name: str) -> None:
        status = self._look(name)
        if status is None:
            self._plan.directories.append(name)
        elif not stat.S_ISDIR(status.st_mode):
            raise self._refusal(name, name, "is not a directory")

    def add_surplus(self, only: set[str] | None) -> None:
        """Plan to remove what the snapshot lacks; of it ``only`` the files of these names or in these directories."""
        plan = self._plan
        try:
            self._find_surplus(only)
        except (OSError, ValueError) as error:
            raise ColonyMemoryError(
                f"the files to delete in {str(plan.target)!r} are not known ({error}); nothing was written"
            ) from error
        if self._replaces:
            self._missing |= plan.removed.keys() | plan.dropped.keys()

    def _find_surplus(self, only: set[str] | None) -> None:
        plan, tree = self._plan, Tree()
        Walk(plan.target, "").find(tree)
        # Names that the snapshot says it left out, with all that is in them, and this program's own state.
        protected = {name.rstrip("/") for name in self._metadata.left_out} | place_of_state(plan.target)
        for closed in [entry for entry in tree.left_out if entry.unread]:  # its kind or content is unknown
            name = closed.name.rstrip("/")
            relevant = only is None or _is_in(name, only) or any(name in parents_of(path) for path in only)
            if relevant and not _is_in(name, protected):
                raise ValueError(str(closed))
        names = {entry.name for entry in tree.files}
        surplus = {name for name in names if name not in self._wanted and not _is_in(name, protected)}
        if only is not None:
            surplus = {name for name in surplus if _is_in(name, only) or stem_of(name) in only}
        candidates = {*map(stem_of, names), *surplus} & names
        databases = {stem for stem in candidates if holds_database(*self._reach.parent(stem))}
        # A companion of a database goes or stays with it.
        surplus -= {name for name in surplus if (stem := stem_of(name)) in databases and stem not in surplus}
        for name in sorted(surplus):
            directory, last = self._reach.parent(name)  # raises if a directory on the way was replaced
            status = directory.look(last)
            if status is not None and is_file(status):
                plan.removed[name] = status
        plan.databases |= databases & plan.removed.keys()
        remaining = {*self._wanted, *(names - plan.removed.keys()), *tree.ignored, *tree.links}
        remaining.update(tree.repositories, (entry.name for entry in tree.left_out))
        needed = {*self._metadata.empty_dirs, *protected}
        needed.update([parent for name in (*remaining, *needed) for parent in parents_of(name)])
        emptied = {parent for name in plan.removed for parent in parents_of(name)}
        for name in sorted(tree.directories.keys() - needed, reverse=True):
            if name in needed or _is_in(name, protected) or not (only is None or name in emptied):
                continue
            above = mount_of(self._reach.directory(name.rpartition("/")[0]))
            if mount_of(self._reach.directory(name)) != above:  # it stays, and so do those above it
                needed.update(parents_of(name))
            else:
                plan.dropped[name] = tree.directories[name]

    def _add_unchanged(self, name: str, status: os.stat_result) -> None:
        """Plan a file with the right content: only its permissions may have to be set. Times don't count."""
        self._plan.unchanged.append(name)
        if os.name == "nt" or name in self._metadata.masked or is_link(status):
            return
        mode = self._metadata.modes.get(name)
        if mode is None:
            mode = widened(status, executable=name in self._metadata.executable and not status.st_mode & stat.S_IXUSR)
        if mode != status.st_mode & PERMISSIONS:
            old = stat.S_IMODE(status.st_mode)
            self._plan.modes.append(ModeChange(name, status.st_ino, old, mode | old & 0o7000))

    def _is_same(
        self, name: str, content: str | bytes, data: bytes | None, status: os.stat_result, logs: Statuses
    ) -> bool:
        if data is None:
            return is_link(status) and bool(self._read(name, Directory.read_link) == content)
        if not any(holds_own_data(log, log_status) for log, log_status in logs.items()):
            size = data.size if isinstance(data, Sparse) else len(data)
            if status.st_size == size and self._read(name, partial(_holds, data)):
                return True
        # A database together with its log may equal that of the snapshot.
        return is_database(data) and holds_same(*self._reach.parent(name), data)

    def _look(self, name: str, *, may_be_link: bool = False) -> os.stat_result | None:
        """The status of a name, or None; refuses links on the way, and at the name unless ``may_be_link``."""
        if not self._missing.isdisjoint((name, *parents_of(name))):
            return None
        try:
            directory, last = self._reach.parent(name)
            status = directory.look(last)
        except FileNotFoundError:
            self._missing.add(name.rpartition("/")[0])
            return None
        except OSError as error:
            problems = {errno.ENOTDIR: "is not a directory", errno.ELOOP: _IS_LINK}
            target, path = self._plan.target, str(error.filename or "")
            where = os.path.relpath(path, target) if path.startswith(str(target)) else name
            problem = problems.get(error.errno or 0, f"cannot be looked at ({error.strerror})")
            raise self._refusal(name, where, problem) from error
        if status is not None and is_link(status) and not may_be_link:
            raise self._refusal(name, name, _IS_LINK)
        return status

    def _read(self, name: str, read: Callable[[Directory, str], Any]) -> Any:
        try:
            return read(*self._reach.parent(name))
        except OSError as error:
            raise self._refusal(name, name, f"cannot be read ({error.strerror})") from error

    def _refusal(self, name: str, at: str, problem: str) -> ColonyMemoryError:
        return ColonyMemoryError(f"document {name!r}: {str(self._plan.target / at)!r} {problem}; nothing was written")


def _holds(data: bytes, directory: Directory, name: str) -> bool:
    with directory.file(name) as (descriptor, _):
        return (read_sparse(descriptor) if isinstance(data, Sparse) else read_start(descriptor, len(data) + 1)) == data


def _is_in(name: str, directories: set[str]) -> bool:
    return name in directories or any(parent in directories for parent in parents_of(name))
