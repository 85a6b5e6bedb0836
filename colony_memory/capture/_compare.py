"""One name of a snapshot after another compared with what is in a folder.

What is in a folder and not in a snapshot: the files that a restore with ``delete`` takes away.

Only what a backup of the folder would save is taken away: it is found by the same walk. What a backup would not save
(ignored files, repositories, vaults, pipes, files that a sync service keeps elsewhere) has no copy anywhere and stays,
and so do links.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from colony_memory._os.kinds import PERMISSIONS, is_file, is_link
from colony_memory.capture._filenames import parents_of
from colony_memory.capture._patience import patience
from colony_memory.capture._sparse import Sparse, read_sparse
from colony_memory.capture._stage import NewFile, encode_text, widened
from colony_memory.capture._state import place_of_state
from colony_memory.capture._steady import companions_of, holds_database, holds_text, is_database, read_start, whole_of
from colony_memory.capture._tree import Tree
from colony_memory.capture._walk import walk
from colony_memory.capture.sqlite import holds_same
from colony_memory.exceptions import ColonyMemoryError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path

    from colony_memory._os.reach import Reach
    from colony_memory.capture._metadata import Metadata
    from colony_memory.capture._plan import Plan


@dataclass
class Surplus:
    """What a restore takes away.

    Attributes:
        files: Name to what is there.
        directories: Those that hold nothing else, inner ones first, with their permissions.
        databases: Of the files, those that are databases.
    """

    files: dict[str, os.stat_result] = field(default_factory=dict)
    directories: list[tuple[str, int]] = field(default_factory=list)
    databases: dict[str, os.stat_result] = field(default_factory=dict)


def find_surplus(
    reach: Reach,
    folder: Path,
    wanted: Collection[str],
    *,
    spared: Iterable[str] = (),
    only: Collection[str] | None = None,
) -> Surplus:
    """Look for it.

    Args:
        reach: The folder.
        folder: Its path.
        wanted: Names of all files and directories that the snapshot has.
        only: Names of the files that go, a directory standing for all in it, with directories that are empty then; None
            for all.
        spared: Names that stay, with all that is in them, such as those that the snapshot says it lacks.

    Raises:
        ValueError: Something cannot be looked at, so that nobody can tell what it is and what is in it.
        ColonyMemoryError: Rules that exclude files cannot be read.
    """
    tree = Tree()
    with patience() as patient:
        walk(folder, "", tree, patient)
    stays = {name.rstrip("/") for name in spared}
    chosen = None if only is None else {name.rstrip("/") for name in only}
    for closed in tree.closed:
        name = closed.name.rstrip("/")
        if not _is_in(name, stays) and (chosen is None or _meets(name, chosen)):
            raise ValueError(str(closed))
    names = {entry.name for entry in tree.files}
    going = {name for name in names if name not in wanted and not _is_in(name, stays)}
    if chosen is not None:
        going = {name for name in going if _is_in(name, chosen) or whole_of(name) in chosen}
    databases = {whole for whole in {*map(whole_of, names), *going} & names if holds_database(*reach.parent(whole))}
    # What is a part of a database goes or stays with it.
    going -= {name for name in going if (whole := whole_of(name)) in databases and whole not in going}
    found = Surplus()
    for name in sorted(going):
        there = reach.look(name)
        if there is not None and is_file(there):
            found.files[name] = there
            if name in databases:
                found.databases[name] = there
    left = [*wanted, *(names - found.files.keys()), *tree.ignored, *tree.links, *stays]
    left += [each.name for each in tree.left_out]
    left += [each.name for each in tree.repositories]
    needed = {parent for name in left for parent in parents_of(name)} | {*wanted, *stays}
    emptied = {parent for name in found.files for parent in parents_of(name)}
    for name in sorted(tree.directories.keys() - needed, reverse=True):
        if not _is_in(name, stays) and (only is None or name in emptied):
            found.directories.append((name, stat.S_IMODE(tree.directories[name].st_mode)))
    return found


def _meets(directory: str, names: set[str]) -> bool:
    """Whether a directory is one of these or in it, or one of these is in the directory."""
    return _is_in(directory, names) or any(directory in parents_of(name) for name in names)


def _is_in(name: str, directories: set[str]) -> bool:
    return name in directories or any(parent in directories for parent in parents_of(name))


_LINK = "is a symbolic link, and nothing is written through links"


def new_file(
    metadata: Metadata,
    name: str,
    content: str | bytes,
    there: os.stat_result | None = None,
    drops: Mapping[str, os.stat_result] | None = None,
) -> NewFile:
    """A file of the snapshot, with what it tells of it and what it replaces."""
    return NewFile(
        content,
        there,
        link=name in metadata.links,
        executable=name in metadata.executable,
        mode=metadata.modes.get(name) if os.name != "nt" else None,
        changed=metadata.times.get(name),
        drops=drops or {},
    )


class Comparison:
    """Compares one name after another with an open folder."""

    def __init__(self, plan: Plan, reach: Reach, *, wanted: Collection[str], force: bool, replaces: bool) -> None:
        self._plan = plan
        self._metadata = plan.metadata
        self._reach = reach
        self._wanted = wanted
        self._force = force
        self._missing: set[str] = set()
        # What makes way for what is of another kind, where what the snapshot lacks is taken away: with the document
        # that it makes way for, and what it is.
        self._replaces = replaces
        self._giving_way: dict[str, tuple[str, str]] = {}

    def add_link(self, name: str, target: str) -> None:
        """Compare a link with what has its name."""
        there = self._look(name, may_be_link=True)
        file = new_file(self._metadata, name, target, there)
        if there is None or self._gives_way(name, there):
            self._plan.files[name] = file
            return
        if not is_link(there) and not is_file(there):
            raise self._refusal(name, name, _kind(there))
        if is_link(there) and self._read_link(name) == target:
            self._plan.unchanged.append(name)
            return
        self._plan.files[name] = file
        self._plan.differing[name] = [there]

    def add_file(self, name: str, content: str | bytes) -> None:
        """Compare a document with the file of its name."""
        there = self._look(name)
        data = encode_text(content)
        drops = self._logs_of(name) if is_database(data) else {}
        if there is None or self._gives_way(name, there):
            self._plan.files[name] = new_file(self._metadata, name, content, None, drops)
            return
        if not is_file(there):
            raise self._refusal(name, name, _kind(there))
        if self._is_same(name, data, there, drops):
            self._keep(name, there)
        elif name in self._metadata.masked and not self._force:
            self._plan.left.append(name)
        else:
            self._plan.files[name] = new_file(self._metadata, name, content, there, drops)
            self._plan.differing[name] = [there, *(log for name, log in drops.items() if holds_text(name, log))]
            if is_database(data) or holds_database(*self._reach.parent(name)):
                self._plan.databases[name] = there

    def add_directory(self, name: str) -> None:
        """Make an empty directory unless it is there."""
        there = self._look(name)
        if there is None:
            self._plan.directories.append(name)
        elif self._replaces and is_file(there):
            self._giving_way[name] = name, "is not a directory"
            self._plan.directories.append(name)
        elif not stat.S_ISDIR(there.st_mode):
            raise self._refusal(name, name, "is not a directory")

    def add_surplus(self, only: Collection[str] | None = None) -> None:
        """Take away what the snapshot lacks, or ``only`` what of it has one of these names."""
        wanted = {*self._wanted, *self._metadata.empty_dirs} - self._giving_way.keys()
        try:
            spared = [*self._metadata.left_out, *place_of_state(self._plan.target)]
            surplus = find_surplus(self._reach, self._plan.target, wanted, spared=spared, only=only)
        except (OSError, ValueError) as error:
            raise ColonyMemoryError(
                f"the files to delete in {str(self._plan.target)!r} are not known ({error}); nothing was written"
            ) from error
        gone = {*surplus.files, *(name for name, _ in surplus.directories)}
        for name, (document, what) in self._giving_way.items():
            if name not in gone:
                raise self._refusal(document, name, f"{what}, with something in it that no backup saves")
        self._plan.surplus = surplus
        self._plan.databases |= surplus.databases
        dropped = {log for file in self._plan.files.values() for log in file.drops}
        for name in dropped & surplus.files.keys():
            del surplus.files[name]
        self._plan.differing.update({name: [there] for name, there in surplus.files.items() if holds_text(name, there)})

    def _gives_way(self, name: str, there: os.stat_result) -> bool:
        """Note a directory that is to make way for a file; whether it is one."""
        if not (self._replaces and stat.S_ISDIR(there.st_mode)):
            return False
        self._giving_way[name] = name, _kind(there)
        return True

    def _keep(self, name: str, there: os.stat_result) -> None:
        """A file with the right content: only its permissions may have to be set. Another time is no change."""
        self._plan.unchanged.append(name)
        if os.name == "nt" or name in self._metadata.masked:
            return
        mode = self._metadata.modes.get(name)
        if mode is None:
            mode = widened(there, executable=name in self._metadata.executable and not there.st_mode & stat.S_IXUSR)
        if mode != there.st_mode & PERMISSIONS:
            self._plan.modes[name] = (there, mode | stat.S_IMODE(there.st_mode) & 0o7000)

    def _logs_of(self, name: str) -> dict[str, os.stat_result]:
        """What lies beside the database of that name and would be taken for a part of the new one."""
        found = {}
        for part in companions_of(name):
            there = self._look(part)
            if there is not None and is_file(there) and part not in self._wanted:
                found[part] = there
        return found

    def _is_same(self, name: str, data: bytes, there: os.stat_result, drops: Mapping[str, os.stat_result]) -> bool:
        logged = any(holds_text(each, log) for each, log in drops.items())
        if not logged and self._has(name, data, there):
            return True
        # The database and its log together may be what the snapshot has.
        return is_database(data) and holds_same(*self._reach.parent(name), data)

    def _look(self, name: str, *, may_be_link: bool = False) -> os.stat_result | None:
        """Return what stands where ``name`` goes, or None, having made sure that no link is on the way."""
        above = name
        while "/" in above:
            above = above.rpartition("/")[0]
            if above in self._missing:
                return None
        try:
            directory, last = self._reach.parent(name)
            there = directory.look(last)
        except FileNotFoundError:
            self._missing.add(name.rpartition("/")[0])
            return None
        except OSError as error:
            at = self._file_above(name) if self._replaces and error.errno == errno.ENOTDIR else None
            if at is None:
                raise self._refusal(name, _relative(error, self._plan.target) or name, _said(error)) from error
            self._giving_way[at] = name, _said(error)
            self._missing.add(at)
            return None
        if there is not None and is_link(there) and not may_be_link:
            raise self._refusal(name, name, _LINK)
        return there

    def _file_above(self, name: str) -> str | None:
        """The file that stands where a directory of this name would be."""
        for parent in parents_of(name):
            there = self._reach.look(parent)
            if there is None or not stat.S_ISDIR(there.st_mode):
                return parent if there is not None and is_file(there) else None
        return None

    def _has(self, name: str, data: bytes, there: os.stat_result) -> bool:
        if there.st_size != (data.size if isinstance(data, Sparse) else len(data)):
            return False
        try:
            directory, last = self._reach.parent(name)
            with directory.file(last) as (descriptor, _):
                if isinstance(data, Sparse):
                    return read_sparse(descriptor) == data
                return read_start(descriptor, len(data) + 1) == data
        except OSError as error:
            raise self._refusal(name, name, f"cannot be read ({error.strerror})") from error

    def _read_link(self, name: str) -> str:
        try:
            directory, last = self._reach.parent(name)
            return directory.read_link(last)
        except OSError as error:
            raise self._refusal(name, name, f"cannot be read ({error.strerror})") from error

    def _refusal(self, name: str, at: str, what: str) -> ColonyMemoryError:
        return ColonyMemoryError(f"document {name!r}: {str(self._plan.target / at)!r} {what}; nothing was written")


def _kind(there: os.stat_result) -> str:
    return "is a directory" if stat.S_ISDIR(there.st_mode) else "is a device, pipe or socket"


def _said(error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return _LINK
    if error.errno == errno.ENOTDIR:
        return "is not a directory"
    return f"cannot be looked at ({error.strerror})"


def _relative(error: OSError, target: Path) -> str:
    """The name of what an error is about, where it tells."""
    about = str(error.filename or "")
    return os.path.relpath(about, target) if about.startswith(str(target)) else ""
