"""A snapshot compared with a folder, name by name: what a restore would do there, with nothing touched.

Only what a backup of the folder would save is taken away, found by the same walk. What it would not save has no copy
anywhere and stays, and so do links.
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
from colony_memory.capture._filenames import fold, link_problem, listed, parents_of, place_of_state, whole_of
from colony_memory.capture._journal import ModeChange
from colony_memory.capture._metadata import Metadata, encode_text
from colony_memory.capture._question import Displaced, Question, find_users
from colony_memory.capture._stage import mount_of, widened
from colony_memory.capture._steady import (
    Sparse,
    companions_of,
    holds_database,
    holds_text,
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
    """The changes to a folder, with the questions and notes of whoever carries them out."""

    target: Path  # real path of the folder
    metadata: Metadata  # what the snapshot tells beside the contents
    files: dict[str, str | bytes] = field(default_factory=dict)  # what is put in place, of links what they say
    replaced: Statuses = field(default_factory=dict)  # of these, what stood there when the plan was made
    logs: Statuses = field(default_factory=dict)  # of replaced databases: they would be merged into the new ones
    removed: Statuses = field(default_factory=dict)  # files that the snapshot lacks and that are taken away
    unchanged: list[str] = field(default_factory=list)  # files that are there as they are to be
    directories: list[str] = field(default_factory=list)  # empty directories that are made
    modes: list[ModeChange] = field(default_factory=list)  # files that only get other permissions
    # Files with secrets here, of which the snapshot has only the masked text
    left: list[str] = field(default_factory=list)
    databases: set[str] = field(default_factory=set)  # of what is replaced or taken away, the databases
    # What somebody had open when the plan was made, or the store that it would be put in, and who
    in_use: dict[str, str] = field(default_factory=dict)
    dropped: Statuses = field(default_factory=dict)  # directories that hold nothing else, inner ones first
    found: Identity | None = None  # the folder when the plan was made, None where it was not there
    force: bool = False  # masked text may replace the real one, and a program may have open what is replaced
    question: Question | None = None  # about what was displaced, when all is in place; None where all may go
    # What is to be remembered together with the moves, for JSON; None for nothing
    note: Mapping[str, Any] | None = None
    on_progress: Callable[[int, int, str], None] | None = None  # is told of each file that is written

    def parents(self) -> dict[str, str]:
        """Every directory that is needed, those above first, with the name that needs it first."""
        found: dict[str, str] = {}
        for name in [*self.files, *(f"{name}/" for name in self.directories)]:
            for parent in parents_of(name):
                found.setdefault(parent, name)
        return found

    def makes_way(self) -> list[str]:
        """The directories that go where a file comes to be."""
        return [name for name in self.dropped if not self.files.keys().isdisjoint((name, *parents_of(name)))]

    def users(self) -> dict[str, str]:
        """Files that would change although somebody has them, or the store that they are of, open; and who."""
        changing = {*self.files, *self.removed}
        if not changing or not self.target.exists():
            return {}
        with Directory.open(self.target) as folder, Reach(folder) as reach:
            return find_users(reach, changing, self.databases)

    def unsaved(self, question: Question) -> list[str]:
        """Files that are to be replaced or taken away and are saved nowhere, as the folder is now."""
        going = {*self.replaced, *self.removed, *self.logs}
        if not going:
            return []
        with Directory.open(self.target) as folder, Reach(folder) as reach:
            there = [(name, reach.look(name)) for name in sorted(going)]
            return question.unsaved(Displaced(name, reach, name, status) for name, status in there if status)


def make_plan(
    target: Path,
    contents: Mapping[str, str | bytes],
    metadata: Metadata,
    *,
    delete: bool | Collection[str],
    force: bool,
) -> Plan:
    """Compare the contents of a snapshot with a folder, there or not, and refuse what stands in the way.

    With ``delete``, what the snapshot lacks is to be taken away, or of that the files of these names.
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
    """Refuse links that lead out of the folder, by themselves, through others or on by others."""
    own = {fold(name): says for name, says in metadata.links.items()}

    def there(name: str) -> str | None:
        if reach is None:
            return None
        try:
            directory, last = reach.parent(name)
            status = directory.look(last)
            return directory.read_link(last) if status is not None and is_link(status) else None
        except FileNotFoundError:
            return None
        except OSError:
            return ""  # something other than a directory is on the way

    def said_by(name: str) -> str | None:
        return own.get(fold(name)) or there(name)

    found = {
        name: link_problem(name, says, said_by=said_by, is_there=there(name) == says)
        for name, says in sorted(metadata.links.items())
    }
    problems = [f"{name!r} {problem}" for name, problem in found.items() if problem]
    if problems:
        raise ColonyMemoryError(f"document {listed(problems, most=5, joint='; ')}; nothing was written")


class _Comparison:
    """Compares one name after another with an open folder."""

    def __init__(self, plan: Plan, reach: Reach, *, wanted: Collection[str], replaces: bool) -> None:
        self._plan = plan
        self._metadata = plan.metadata
        self._reach = reach
        self._wanted = wanted
        self._missing: set[str] = set()  # where there is nothing, or where what is of another kind makes way
        self._replaces = replaces  # whatever the snapshot lacks is taken away

    def add_file(self, name: str, content: str | bytes) -> None:
        """A file, or a link with what it says."""
        plan, data = self._plan, None if name in self._metadata.links else encode_text(content)
        there, logs = self._look(name, may_be_link=data is None), Statuses()
        if data is not None and is_database(data):
            # Files beside a database that would be taken for a part of the new one.
            parts = ((part, self._look(part)) for part in companions_of(name) if part not in self._wanted)
            logs = {part: log for part, log in parts if log is not None and is_file(log)}
        if there is not None and stat.S_ISDIR(there.st_mode):
            more = ", with something in it that no backup saves" if self._replaces else ""
            raise self._refusal(name, name, f"is a directory{more}")
        if there is not None and not is_file(there) and not is_link(there):
            raise self._refusal(name, name, "is a device, pipe or socket")
        if there is not None and self._is_same(name, content, data, there, logs):
            self._keep(name, there)
        elif there is not None and name in self._metadata.masked and not plan.force:
            plan.left.append(name)
        else:
            plan.files[name] = content
            plan.logs.update(logs)
            if there is not None:
                plan.replaced[name] = there
                if (data is not None and is_database(data)) or holds_database(*self._reach.parent(name)):
                    plan.databases.add(name)

    def add_directory(self, name: str) -> None:
        there = self._look(name)
        if there is None:
            self._plan.directories.append(name)
        elif not stat.S_ISDIR(there.st_mode):
            raise self._refusal(name, name, "is not a directory")

    def add_surplus(self, only: set[str] | None) -> None:
        """Take away what the snapshot lacks, or of that the files ``only`` of these names or in these directories."""
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
        # What the snapshot says it lacks, with all that is in it.
        stays = {name.rstrip("/") for name in self._metadata.left_out} | place_of_state(plan.target)
        for closed in [each for each in tree.left_out if each.unread]:  # nobody can tell what it is, or what is in it
            name = closed.name.rstrip("/")
            concerns = only is None or _is_in(name, only) or any(name in parents_of(each) for each in only)
            if concerns and not _is_in(name, stays):
                raise ValueError(str(closed))
        names = {entry.name for entry in tree.files}
        going = {name for name in names if name not in self._wanted and not _is_in(name, stays)}
        if only is not None:
            going = {name for name in going if _is_in(name, only) or whole_of(name) in only}
        wholes = {*map(whole_of, names), *going} & names
        databases = {whole for whole in wholes if holds_database(*self._reach.parent(whole))}
        # What is a part of a database goes or stays with it.
        going -= {name for name in going if (whole := whole_of(name)) in databases and whole not in going}
        for name in sorted(going):
            directory, last = self._reach.parent(name)  # an error where the way there is another meanwhile
            there = directory.look(last)
            if there is not None and is_file(there):
                plan.removed[name] = there
        plan.databases |= databases & plan.removed.keys()
        left = {*self._wanted, *(names - plan.removed.keys()), *tree.ignored, *tree.links}
        left.update(tree.repositories, (entry.name for entry in tree.left_out))
        needed = {*self._metadata.empty_dirs, *stays}
        needed.update([parent for name in (*left, *needed) for parent in parents_of(name)])
        emptied = {parent for name in plan.removed for parent in parents_of(name)}
        for name in sorted(tree.directories.keys() - needed, reverse=True):
            if name in needed or _is_in(name, stays) or not (only is None or name in emptied):
                continue
            above = mount_of(self._reach.directory(name.rpartition("/")[0]))
            if mount_of(self._reach.directory(name)) != above:  # it stays, and so do those that it is in
                needed.update(parents_of(name))
            else:
                plan.dropped[name] = tree.directories[name]

    def _keep(self, name: str, there: os.stat_result) -> None:
        """A file with the right content: only its permissions may have to be set. Another time is no change."""
        self._plan.unchanged.append(name)
        if os.name == "nt" or name in self._metadata.masked or is_link(there):
            return
        mode = self._metadata.modes.get(name)
        if mode is None:
            mode = widened(there, executable=name in self._metadata.executable and not there.st_mode & stat.S_IXUSR)
        if mode != there.st_mode & PERMISSIONS:
            old = stat.S_IMODE(there.st_mode)
            self._plan.modes.append(ModeChange(name, there.st_ino, old, mode | old & 0o7000))

    def _is_same(
        self, name: str, content: str | bytes, data: bytes | None, there: os.stat_result, logs: Statuses
    ) -> bool:
        if data is None:
            return is_link(there) and bool(self._read(name, Directory.read_link) == content)
        if not any(holds_text(log, status) for log, status in logs.items()):
            size = data.size if isinstance(data, Sparse) else len(data)
            if there.st_size == size and self._read(name, partial(_holds, data)):
                return True
        # The database and its log together may be what the snapshot has.
        return is_database(data) and holds_same(*self._reach.parent(name), data)

    def _look(self, name: str, *, may_be_link: bool = False) -> os.stat_result | None:
        """The status of a name, or None, having made sure that no link is on the way."""
        if not self._missing.isdisjoint((name, *parents_of(name))):
            return None
        try:
            directory, last = self._reach.parent(name)
            there = directory.look(last)
        except FileNotFoundError:
            self._missing.add(name.rpartition("/")[0])
            return None
        except OSError as error:
            problems = {errno.ENOTDIR: "is not a directory", errno.ELOOP: _IS_LINK}
            target, about = self._plan.target, str(error.filename or "")
            where = os.path.relpath(about, target) if about.startswith(str(target)) else name
            problem = problems.get(error.errno or 0, f"cannot be looked at ({error.strerror})")
            raise self._refusal(name, where, problem) from error
        if there is not None and is_link(there) and not may_be_link:
            raise self._refusal(name, name, _IS_LINK)
        return there

    def _read(self, name: str, read: Callable[[Directory, str], Any]) -> Any:
        try:
            return read(*self._reach.parent(name))
        except OSError as error:
            raise self._refusal(name, name, f"cannot be read ({error.strerror})") from error

    def _refusal(self, name: str, at: str, what: str) -> ColonyMemoryError:
        return ColonyMemoryError(f"document {name!r}: {str(self._plan.target / at)!r} {what}; nothing was written")


def _holds(data: bytes, directory: Directory, name: str) -> bool:
    with directory.file(name) as (descriptor, _):
        return (read_sparse(descriptor) if isinstance(data, Sparse) else read_start(descriptor, len(data) + 1)) == data


def _is_in(name: str, directories: set[str]) -> bool:
    return name in directories or any(parent in directories for parent in parents_of(name))
