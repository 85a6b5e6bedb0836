"""A directory by its descriptor: what is in it is reached by one name at a time, and no link is followed.

Whoever may write into a folder can put a link in the place of a directory between a look and a write. A descriptor
stays with the directory that was looked at. Where the system has no such calls (Windows), names are joined to paths,
each directory is looked at when it is entered, and that window stays.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

_BY_DESCRIPTOR = (
    {os.open, os.stat, os.mkdir, os.link, os.rename, os.unlink, os.rmdir, os.symlink, os.readlink, os.utime}
    <= os.supports_dir_fd
) and os.scandir in os.supports_fd
_LINK_ITSELF: dict[str, Any] = {"follow_symlinks": False} if os.link in os.supports_follow_symlinks else {}
_JUNCTION = 0xA0000003  # reparse tag of a directory junction on Windows
_CLOSED = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
_ENTER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _CLOSED
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | _CLOSED
# A file that has become a pipe must not hang whoever opens it.
_READ = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0) | _CLOSED


def is_link(status: os.stat_result) -> bool:
    """Whether it is a symbolic link, or what Windows has in its place."""
    return stat.S_ISLNK(status.st_mode) or getattr(status, "st_reparse_tag", 0) == _JUNCTION


class Directory:
    """An open directory. Every name is one component; errors are those of the operating system.

    Attributes:
        path: Where it was when it was opened: for messages, and for systems without descriptors.
        descriptor: Its descriptor, -1 where there is none.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor

    @classmethod
    def open(cls, path: Path) -> Directory:
        """Open the directory at a path in which links have been resolved."""
        if not _BY_DESCRIPTOR:
            _require_directory(os.lstat(path), path)
            return cls(path, -1)
        return cls(path, os.open(path, _ENTER))

    def enter(self, name: str) -> Directory:
        """Open a directory in it.

        Raises:
            OSError: ELOOP where a link is there, ENOTDIR where something else is.
        """
        path = self.path / name
        if not _BY_DESCRIPTOR:
            _require_directory(os.lstat(path), path)
            return Directory(path, -1)
        try:
            return Directory(path, os.open(_encode(name), _ENTER, dir_fd=self.descriptor))
        except NotADirectoryError:
            there = self.look(name)
            if there is not None:
                _require_directory(there, path)
            raise

    def close(self) -> None:
        """Let go of it. A second time does nothing."""
        if self.descriptor != -1:
            os.close(self.descriptor)
            self.descriptor = -1

    def __enter__(self) -> Directory:  # noqa: PYI034 - typing.Self is of 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def status(self) -> os.stat_result:
        """Of the directory itself."""
        return os.fstat(self.descriptor) if self.descriptor != -1 else os.lstat(self.path)

    def look(self, name: str) -> os.stat_result | None:
        """What stands there itself, or None."""
        at, where = self.address(name)
        try:
            return os.stat(at, follow_symlinks=False, **where)
        except FileNotFoundError:
            return None

    def names(self) -> list[str]:
        """What is in it, sorted. Bytes that are not UTF-8 stand as surrogates, whatever the locale."""
        with os.scandir(self.descriptor if self.descriptor != -1 else self.path) as entries:
            return sorted(_decode(entry.name) for entry in entries)

    def make(self, name: str) -> None:
        """Make a directory for its owner alone."""
        at, where = self.address(name)
        os.mkdir(at, 0o700, **where)

    def create(self, name: str, mode: int = 0o600) -> int:
        """Create a file and return its descriptor; nothing of that name may be there."""
        at, where = self.address(name)
        return os.open(at, _CREATE, mode, **where)

    def open_file(self, name: str) -> int:
        """Open a file for reading and return its descriptor."""
        at, where = self.address(name)
        return os.open(at, _READ, **where)

    def read(self, name: str, most: int) -> bytes:
        """The bytes of a plain file, ``most`` and one at the most.

        Raises:
            OSError: EINVAL where it is not a plain file; as from the system otherwise.
        """
        with os.fdopen(self.open_file(name), "rb", buffering=0) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(errno.EINVAL, "not a plain file", str(self.path / name))
            data = file.read(most + 1) or b""
            while len(data) <= most and (more := file.read(most + 1 - len(data))):
                data += more
            return data

    def read_link(self, name: str) -> str:
        """What a symbolic link says."""
        at, where = self.address(name)
        return _decode(os.fsdecode(os.readlink(os.fsencode(at), **where)))

    def make_link(self, name: str, target: str) -> None:
        """Make a symbolic link."""
        at, where = self.address(name)
        os.symlink(_encode(target) if _BY_DESCRIPTOR else target, at, **where)

    def share(self, name: str, other: Directory, other_name: str) -> None:
        """Give a file a second name, which must be free."""
        at, _ = self.address(name)
        to, _ = other.address(other_name)
        more = _pair(self, other)
        os.link(at, to, **more, **_LINK_ITSELF)

    def move(self, name: str, other: Directory, other_name: str) -> None:
        """Move a file or directory in one step, over a file that is there."""
        at, _ = self.address(name)
        to, _ = other.address(other_name)
        os.replace(at, to, **_pair(self, other))

    def remove(self, name: str) -> None:
        """Remove a file."""
        at, where = self.address(name)
        os.unlink(at, **where)

    def remove_directory(self, name: str) -> None:
        """Remove an empty directory."""
        at, where = self.address(name)
        os.rmdir(at, **where)

    def remove_tree(self, name: str) -> None:
        """Remove a directory with all that is in it; one that is not there is no error."""
        try:
            inner = self.enter(name)
        except FileNotFoundError:
            return
        with inner:
            for each in inner.names():
                try:
                    inner.remove(each)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    # A directory, by whatever name systems refuse to unlink one.
                    if error.errno not in (errno.EISDIR, errno.EPERM, errno.EACCES):
                        raise
                    inner.remove_tree(each)
        self.remove_directory(name)

    def address(self, name: str) -> tuple[str | bytes, dict[str, Any]]:
        """What to call ``os`` with for a name that no method here is for: the path, and its ``dir_fd``."""
        if self.descriptor == -1:
            return os.fspath(self.path / name), {}
        return _encode(name), {"dir_fd": self.descriptor}


class Reach:
    """The directories of a folder by their names with ``/``, the way to the last one asked for staying open."""

    def __init__(self, top: Directory) -> None:
        self._stack: list[tuple[str, Directory]] = [("", top)]

    def directory(self, name: str) -> Directory:
        """Open a directory of the folder, empty for the folder itself. It stays open until another is asked for."""
        parts = name.split("/") if name else []
        known = 1
        while known < len(self._stack) and known <= len(parts) and self._stack[known][0] == parts[known - 1]:
            known += 1
        self._leave(known)
        for part in parts[known - 1 :]:
            self._stack.append((part, self._stack[-1][1].enter(part)))
        return self._stack[-1][1]

    def parent(self, name: str) -> tuple[Directory, str]:
        """The directory that a name is in, and its last component."""
        above, _, last = name.rpartition("/")
        return self.directory(above), last

    def look(self, name: str) -> os.stat_result | None:
        """What stands at a name; None where nothing does, or no directory above."""
        try:
            directory, last = self.parent(name)
        except FileNotFoundError:
            return None
        return directory.look(last)

    def close(self) -> None:
        """Let go of all but the folder itself."""
        self._leave(1)

    def __enter__(self) -> Reach:  # noqa: PYI034 - as above
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _leave(self, depth: int) -> None:
        while len(self._stack) > depth:
            self._stack.pop()[1].close()


def _pair(one: Directory, other: Directory) -> dict[str, Any]:
    if one.descriptor == -1:
        return {}
    return {"src_dir_fd": one.descriptor, "dst_dir_fd": other.descriptor}


def _require_directory(status: os.stat_result, path: Path) -> None:
    if is_link(status):
        raise OSError(errno.ELOOP, "is a symbolic link", str(path))
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))


def _encode(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _decode(name: str) -> str:
    return name if os.name == "nt" else os.fsencode(name).decode("utf-8", "surrogateescape")
