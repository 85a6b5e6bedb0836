"""The new files of a restore, written with owner, permissions and times to a staging directory on each volume."""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
import warnings
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colony_memory._os import directory as disk
from colony_memory._os.directory import Directory, Reach
from colony_memory._os.paths import PERMISSIONS, user_id
from colony_memory.capture._filenames import parents_of, quoted
from colony_memory.capture._journal import ModeChange, Version
from colony_memory.capture._metadata import encode_text
from colony_memory.capture._steady import Sparse
from colony_memory.exceptions import ColonyMemoryError, ColonyMemoryWarning

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from colony_memory.capture._plan import Plan

NEW, KEPT = "new", "kept"
_SURROGATE = re.compile("[\ud800-\udfff]")
# Answers of NFS with root_squash, SMB, FAT and FUSE, and of a container without the capability.
_REFUSED = {errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}
_SETS_MODES, _SETS_TIMES = os.chmod in os.supports_fd, os.utime in os.supports_fd


class blaming:  # noqa: N801 - it reads like the functions of contextlib, and is entered for every file
    """Turn an OSError into a ColonyMemoryError that names what could not be written; nothing was changed."""

    def __init__(self, what: str, target: Path) -> None:
        self._subject = what, target

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            what, target = self._subject
            raise ColonyMemoryError(
                f"{what} cannot be written ({error.strerror or error}); nothing was changed in {str(target)!r}"
            ) from error


# --- volumes


def find_volumes(reach: Reach, names: Iterable[str]) -> dict[str, str]:
    """For each existing directory above one of the names: the topmost directory of its file system in the folder."""
    found, mounts = {"": ""}, {"": mount_of(reach.directory(""))}
    for inner in sorted({parent for name in names for parent in parents_of(name)}):
        outer = inner.rpartition("/")[0]
        if outer in found:
            with suppress(FileNotFoundError, NotADirectoryError):  # a file that will be replaced by a directory
                mounts[inner] = mount_of(reach.directory(inner))
                found[inner] = found[outer] if mounts[inner] == mounts[outer] else inner
    return found


def nearest(name: str, volumes: Mapping[str, str]) -> str:
    """The directory of a name, or the nearest existing one above."""
    above = name.rpartition("/")[0]
    while above not in volumes:
        above = above.rpartition("/")[0]
    return above


def find_read_only(reach: Reach, names: Iterable[str], volumes: Mapping[str, str]) -> tuple[ModeChange, ...]:
    """Read-only directories of this user that get or lose names, with the change that makes them writable."""
    statuses = {above: reach.directory(above).status() for above in sorted({nearest(name, volumes) for name in names})}
    return tuple(
        ModeChange(f"{above}/", status.st_ino, mode := stat.S_IMODE(status.st_mode), mode | stat.S_IWUSR)
        for above, status in statuses.items()
        if not status.st_mode & stat.S_IWUSR and status.st_uid == user_id() != 0
    )


def mount_of(directory: Directory) -> object:
    """The id of a mount: no file can be moved to another, even of the same file system."""
    if sys.platform == "linux" and directory.descriptor is not None:
        with suppress(OSError, IndexError):
            info = Path(f"/proc/self/fdinfo/{directory.descriptor}").read_text("utf-8")
            return info.partition("mnt_id:")[2].split()[0]
    return directory.status().st_dev


# --- files


class Stage:
    """The writer of a plan's files. Those made by root get the owner of the directory ``above``."""

    def __init__(self, plan: Plan, above: os.stat_result) -> None:
        self.plan = plan
        self.owner = (above.st_uid, above.st_gid) if is_root() else None
        self._syncs_each = not disk.syncs_together(len(plan.files))
        self._done = 0
        self._refused: dict[tuple[str, str], list[str]] = {}

    def write_tree(self, top: Directory) -> None:
        """Write all files under their final names, and directories with their attributes."""
        parents = self.plan.parents()
        with Reach(top) as reach:
            for parent, name in parents.items():
                with self.blaming(name):
                    reach.make(parent)
            for name in self.plan.files:
                self.write(reach, name, name)
            for name in reversed(parents):
                with self.blaming(f"{name}/"):
                    self.finish_directory(reach.directory(name), name)

    def write(self, reach: Reach, at: str, name: str) -> Version:
        """Write one file to its staged place ``at``."""
        with self.blaming(name):
            directory, last = reach.parent(at)
            if name in self.plan.metadata.links:
                directory.make_link(last, str(self.plan.files[name]))
                path, where = directory.address(last)
                status = self._give(path, name, **where, follow_symlinks=False)
            else:
                status = self._fill(directory, last, name)
        self._done += 1
        if self.plan.on_progress:
            self.plan.on_progress(self._done, len(self.plan.files), name)
        return Version.of(status)

    def finish_directory(self, directory: Directory, name: str) -> None:
        """Set the attributes of a new directory that has all its entries, and sync their names."""
        if directory.descriptor is not None:
            self._give(directory.descriptor, f"{name}/")
            if self._syncs_each:
                disk.sync_names(directory.descriptor)

    def sync_directories(self, reach: Reach, names: Iterable[str]) -> None:
        """Sync what was written: with few files these directories, else the whole file system."""
        for name in names:
            descriptor = reach.directory(name).descriptor
            if descriptor is not None and not self._syncs_each:
                disk.sync_file_system(descriptor)
                return
            if descriptor is not None:
                disk.sync_names(descriptor)

    def blaming(self, name: str) -> blaming:
        return blaming(f"document {name!r}", self.plan.target)

    def _fill(self, directory: Directory, at: str, name: str) -> os.stat_result:
        text = self.plan.files[name]
        if isinstance(text, str) and _SURROGATE.search(text):
            _warn(f"document {name!r} has half of a surrogate pair in its text: the file is not valid UTF-8")
        content = encode_text(text)
        descriptor = directory.make_file(at, 0o700 if name in self.plan.metadata.executable else 0o600)
        try:
            if isinstance(content, Sparse):
                os.ftruncate(descriptor, content.size)
            for start, data in content.pieces() if isinstance(content, Sparse) else [(0, memoryview(content))]:
                os.lseek(descriptor, start, os.SEEK_SET)
                while data:
                    data = data[os.write(descriptor, data) :]  # noqa: PLW2901 - the unwritten rest
            status = self._give(descriptor, name)
            if self._syncs_each:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        return status

    # --- attributes

    def _give(self, at: Any, name: str, *, dir_fd: int | None = None, **link: Any) -> os.stat_result:
        """Set the attributes of a link or open file as in the snapshot or the replaced file; return its status."""
        metadata, old = self.plan.metadata, self.plan.replaced.get(name)
        owner, mode, changed = self.owner, None, metadata.times.get(name)
        if old is not None and is_root():
            owner = old.st_uid, old.st_gid
        elif old is not None and hasattr(os, "chown") and user_id() == old.st_uid and os.getegid() != old.st_gid:
            owner = (-1, old.st_gid)  # users other than root can only set a group of theirs
        if _SETS_MODES and not link:
            mode = metadata.modes.get(name)
            if mode is None and old is not None and not stat.S_ISLNK(old.st_mode):
                mode = widened(old, executable=name in metadata.executable)
        status = os.stat(at, dir_fd=dir_fd, **link)
        if owner is not None and owner != (status.st_uid, status.st_gid):
            with self.attempt("owner", name):
                os.chown(at, *owner, dir_fd=dir_fd, **link)
        if mode is not None and mode != stat.S_IMODE(status.st_mode):
            with self.attempt("permissions", name):
                os.chmod(at, mode & PERMISSIONS, dir_fd=dir_fd)
        if changed is not None and _SETS_TIMES:
            with self.attempt("time of change", name):
                os.utime(at, ns=(status.st_atime_ns, changed), dir_fd=dir_fd, **link)
        return os.stat(at, dir_fd=dir_fd, **link)

    @contextmanager
    def attempt(self, what: str, name: str) -> Iterator[None]:
        """Set one attribute in a block: refusals are kept for :meth:`warn`, and other errors raised."""
        try:
            yield
        except OSError as error:
            if error.errno not in _REFUSED:
                raise
            self._refused.setdefault((what, error.strerror or str(error)), []).append(name)

    def warn(self) -> None:
        """Warn of refused attributes, and of what replacing costs: hard links, and an owner that is somebody else."""
        for (what, why), names in self._refused.items():
            _warn(f"the {what} could not be kept of {quoted(names, most=3)} ({why}); the content is restored")
        replaced = self.plan.replaced.items()
        linked = [name for name, status in replaced if status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode)]
        if linked:
            _warn(f"{quoted(linked, most=3)} had other names (hard links), under which the old text stays")
        owned = [name for name, status in replaced if user_id() not in (0, status.st_uid)]
        if owned:
            _warn(f"{quoted(owned, most=3)} belonged to another user, and now belongs to the one who restored")


def is_root() -> bool:
    """True for root, who restores for others: their files stay theirs."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


def widened(status: os.stat_result, *, executable: bool) -> int:
    """The permissions of a file, with ``executable`` set for everybody who may read it."""
    mode = status.st_mode & PERMISSIONS
    return mode | 0o100 | (mode & 0o444) >> 2 if executable else mode


def _warn(text: str) -> None:
    warnings.warn(text, ColonyMemoryWarning, stacklevel=3)
