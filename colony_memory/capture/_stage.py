"""New files written out of sight and on the disk, ready to be moved.

Where a restore keeps what is not in place yet, or not any more: a directory in each volume that it writes to.
"""

from __future__ import annotations

import logging
import os
import re
import stat
import sys
import warnings
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colony_memory._os import disk
from colony_memory._os.kinds import PERMISSIONS
from colony_memory._os.reach import Reach
from colony_memory.capture._attributes import Attributes, Attribution, is_root
from colony_memory.capture._filenames import parents_of
from colony_memory.capture._journal import ModeChange, Version
from colony_memory.capture._sparse import Sparse
from colony_memory.exceptions import ColonyMemoryWarning

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from colony_memory._os.directory import Directory


logger = logging.getLogger(__name__)

NEW, KEPT = "new", "kept"


@dataclass(frozen=True)
class Staging:
    """An open staging directory: what is going to be put in place, and what was replaced."""

    new: Directory
    kept: Directory


def find_volumes(reach: Reach, names: Iterable[str]) -> dict[str, str]:
    """For each directory that is there and that one of the names is in: the topmost one of its file system.

    Args:
        reach: The folder.
        names: Of files, missing directories above them or not.

    Raises:
        OSError: One of the directories cannot be looked at.
    """
    found = {"": ""}
    mounts = {"": _mount(reach.directory(""))}
    for name in sorted(names):
        above = ""
        for part in name.split("/")[:-1]:
            inner = f"{above}/{part}".lstrip("/")
            if inner not in found:
                try:
                    mounts[inner] = _mount(reach.directory(inner))
                except (FileNotFoundError, NotADirectoryError):  # a file that makes way
                    break
                found[inner] = found[above] if mounts[inner] == mounts[above] else inner
            above = inner
    return found


def volume_of(name: str, volumes: dict[str, str]) -> str:
    """The volume that a name of the folder is, or comes to be, in."""
    above = name.rpartition("/")[0]
    while above not in volumes:
        above = above.rpartition("/")[0]
    return volumes[above]


def find_closed(reach: Reach, names: Iterable[str]) -> tuple[ModeChange, ...]:
    """The directories of this user that names come to be in or go from, and that nobody may write to.

    Raises:
        OSError: One of them cannot be looked at.
    """
    closed = {}
    for above in sorted({name.rpartition("/")[0] for name in names}):
        nearest = above
        while (directory := _directory(reach, nearest)) is None:
            nearest = nearest.rpartition("/")[0]
        there = directory.status()
        mode = stat.S_IMODE(there.st_mode)
        if directory.descriptor is not None and not mode & stat.S_IWUSR and there.st_uid == os.geteuid() != 0:
            closed[nearest] = ModeChange(nearest, there.st_ino, mode, mode | stat.S_IWUSR)
    return tuple(closed.values())


def _directory(reach: Reach, name: str) -> Directory | None:
    try:
        return reach.directory(name)
    except (FileNotFoundError, NotADirectoryError):
        return None


@contextmanager
def opened(
    folder: Directory, volumes: Iterable[str], staging: str, *, making: bool = False
) -> Iterator[dict[str, Staging]]:
    """Open the staging directory of each volume; one that is not there is left out, unless it is to be made."""
    with ExitStack() as stack:
        found = {}
        for volume in volumes:
            # Each by a way of its own: they all stay open.
            reach = stack.enter_context(Reach(folder))
            try:
                place = reach.directory(volume)
                if making:
                    place.make(staging)
                top = stack.enter_context(place.enter(staging))
                if making:
                    top.make(NEW)
                    top.make(KEPT)
                found[volume] = Staging(stack.enter_context(top.enter(NEW)), stack.enter_context(top.enter(KEPT)))
            except (FileNotFoundError, NotADirectoryError) as error:
                if making:
                    raise
                logger.debug("%s has no staging directory any more: %s", volume or folder.path, error)
        yield found


def _mount(directory: Directory) -> object:
    """What tells one mount from another: nothing is moved between two, of one file system or not."""
    if sys.platform == "linux" and directory.descriptor is not None:
        try:
            lines = Path(f"/proc/self/fdinfo/{directory.descriptor}").read_text("ascii").splitlines()
        except OSError:
            lines = []
        for line in lines:
            if line.startswith("mnt_id:"):
                return int(line.split()[1])
    return directory.status().st_dev


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from colony_memory._os.directory import Directory
    from colony_memory.capture._question import Displaced

    Progress = Callable[[int, int, str], None]

_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class NewFile:
    """A file to be put in place.

    Attributes:
        content: Text or bytes; of a link what it says.
        replaces: What stood in its place when the plan was made, or None.
        link: Whether it is a symbolic link.
        executable: Whether its owner may execute it, where ``mode`` does not say so.
        mode: Permission bits, or None where the snapshot does not tell.
        changed: Time of change in nanoseconds, or None where the snapshot does not tell.
        drops: Files that go with what it replaces: the logs of a database, which would be merged into the new one.
    """

    content: str | bytes
    replaces: os.stat_result | None = None
    link: bool = False
    executable: bool = False
    mode: int | None = None
    changed: int | None = None
    drops: Mapping[str, os.stat_result] = field(default_factory=dict)

    def attributes(self, owner: tuple[int, int] | None) -> Attributes:
        """What it is to have; what it replaces keeps its owner, and its permissions where nothing is known of them."""
        mode = self.mode
        if self.replaces is not None:
            owner = (self.replaces.st_uid, self.replaces.st_gid)
            if mode is None and not stat.S_ISLNK(self.replaces.st_mode):
                mode = widened(self.replaces, executable=self.executable)
            if not is_root():
                # Others than root can give a file of theirs to another group, and to nobody else.
                own = hasattr(os, "geteuid") and os.geteuid() == owner[0] and os.getegid() != owner[1]
                owner = (-1, owner[1]) if own else None
        return Attributes(owner, mode, self.changed)


@dataclass(frozen=True)
class Job:
    """What is to be done in ``target``: the same for every way of doing it.

    Attributes:
        target: Real path of the folder.
        files: What is put in place, sorted by name.
        directories: Empty directories that are made.
        removed: Files that are taken away.
        dropped: Directories that are removed then, inner ones first, with their permissions.
        modes: Permissions of files that stay, with what they are.
        attributes: Permissions and times of directories, for those that are made.
        confirm: Is called right before the first move, and raises where it must not come to that.
        ask: Is given what was displaced when all is in place, and raises where that must not be discarded.
        note: What is to be remembered together with the moves, for JSON; None for nothing.
        on_progress: Is told of each file that is written.
    """

    target: Path
    files: Mapping[str, NewFile]
    directories: Sequence[str] = ()
    removed: Mapping[str, os.stat_result] = field(default_factory=dict)
    dropped: Sequence[tuple[str, int]] = ()
    modes: Mapping[str, tuple[os.stat_result, int]] = field(default_factory=dict)
    attributes: Mapping[str, Attributes] = field(default_factory=dict)
    confirm: Callable[[], None] | None = None
    ask: Callable[[Iterable[Displaced]], None] | None = None
    note: Mapping[str, Any] | None = None
    on_progress: Progress | None = None

    def parents(self) -> Iterator[tuple[str, str]]:
        """Yield every directory that is needed, those above first, with the name that needs it first."""
        seen: set[str] = set()
        for name in [*self.files, *(f"{name}/" for name in self.directories)]:
            for parent in parents_of(name):
                if parent not in seen:
                    seen.add(parent)
                    yield parent, name


class Failed(Exception):
    """The system refused a step that was for ``what``."""

    def __init__(self, what: str, error: OSError) -> None:
        super().__init__(what, error)
        self.what = what
        self.error = error


class blaming:  # noqa: N801 - it reads like the functions of contextlib, and is entered for every file
    """Turn an OSError into one that says what it was about."""

    __slots__ = ("_what",)

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            raise Failed(self._what, error) from error


def encode_text(content: str | bytes) -> bytes:
    """Return the bytes of a file. A lone surrogate, which UTF-8 has no bytes for, becomes three of its own."""
    return content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")


def widened(status: os.stat_result, *, executable: bool) -> int:
    """The permissions of a file, executable for whoever may read it where that is asked for."""
    mode = status.st_mode & PERMISSIONS
    return mode | 0o100 | (mode & 0o444) >> 2 if executable else mode


class Stage:
    """Writes the files of a job; :meth:`settle` makes them last."""

    def __init__(self, job: Job, *, owner: tuple[int, int] | None, attribution: Attribution) -> None:
        self._job = job
        self.owner = owner if is_root() else None
        self.attribution = attribution
        self._each = not disk.syncs_together(len(job.files))
        self._done = 0

    def write_flat(self, places: Mapping[str, tuple[Directory, str]]) -> dict[str, Version]:
        """Write each file where it is to wait."""
        return {name: self._write(*places[name], name, file) for name, file in self._job.files.items()}

    def write_tree(self, new: Directory) -> None:
        """Write everything under the names that it is to have, directories with their attributes."""
        made = []
        with Reach(new) as reach:
            for parent, name in self._job.parents():
                with blaming(f"document {name!r}"):
                    directory, last = reach.parent(parent)
                    directory.make(last)
                    made.append(parent)
            for name, file in self._job.files.items():
                with blaming(f"document {name!r}"):
                    directory, last = reach.parent(name)
                self._write(directory, last, name, file)
            for name in reversed(made):
                with blaming(f"directory {name!r}"):
                    self.finish_directory(reach.directory(name), name)

    def finish_directory(self, directory: Directory, name: str) -> None:
        """Give a directory that was made its attributes, when all is in it, and make its names last."""
        if directory.descriptor is not None:
            given = self._job.attributes.get(name, Attributes())
            self.attribution.give(directory.descriptor, Attributes(self.owner, given.mode, given.changed), f"{name}/")
            if self._each:
                disk.sync_names(directory.descriptor)

    def settle(self, *directories: Directory) -> None:
        """Make what was written last; with few files, these directories and not the whole file system."""
        for directory in directories:
            if directory.descriptor is None:
                continue
            if not self._each:
                disk.sync_file_system(directory.descriptor)
                return
            disk.sync_names(directory.descriptor)

    def _write(self, directory: Directory, at: str, name: str, file: NewFile) -> Version:
        with blaming(f"document {name!r}"):
            status = self._write_link(directory, at, name, file) if file.link else self._fill(directory, at, name, file)
        self._done += 1
        if self._job.on_progress:
            self._job.on_progress(self._done, len(self._job.files), name)
        return Version.of(status)

    def _fill(self, directory: Directory, at: str, name: str, file: NewFile) -> os.stat_result:
        if isinstance(file.content, str) and _SURROGATE.search(file.content):
            warnings.warn(
                f"document {name!r} has half of a surrogate pair in its text: the file is not valid UTF-8",
                ColonyMemoryWarning,
                stacklevel=2,
            )
        descriptor = directory.make_file(at, 0o700 if file.executable else 0o600)
        try:
            self._write_content(descriptor, encode_text(file.content))
            status = self.attribution.give(descriptor, file.attributes(self.owner), name)
            if self._each:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        return status

    @staticmethod
    def _write_content(descriptor: int, content: bytes) -> None:
        if isinstance(content, Sparse):
            os.ftruncate(descriptor, content.size)
        pieces = content.pieces() if isinstance(content, Sparse) else [(0, memoryview(content))]
        for at, data in pieces:
            os.lseek(descriptor, at, os.SEEK_SET)
            while data:
                data = data[os.write(descriptor, data) :]  # noqa: PLW2901 - what is left of it

    def _write_link(self, directory: Directory, at: str, name: str, file: NewFile) -> os.stat_result:
        directory.make_link(at, str(file.content))
        self.attribution.give_link(directory, at, file.attributes(self.owner), name)
        status = directory.look(at)
        if status is None:
            raise FileNotFoundError(str(directory.path / at))
        return status
