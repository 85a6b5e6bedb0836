"""A directory that is open, and what is in it: reached by descriptors, so that no link is followed on the way.

Names are those under which things are saved: bytes that are not UTF-8 stand as surrogates, whatever the locale.
Where a platform has no directory descriptors (Windows), names are looked up by path and looked at before they are
opened.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from colony_memory.capture import _held

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_BY_DESCRIPTOR = {os.open, os.stat, os.readlink} <= os.supports_dir_fd and os.scandir in os.supports_fd
_NEVER_WAIT = (
    getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _NEVER_WAIT
_JUNCTION = 0xA0000003  # reparse tag of a directory junction on Windows


class NotAFile(OSError):
    """What was a file is something else by now."""


@dataclass(frozen=True)
class Place:
    """An open directory.

    Attributes:
        path: Where it was found, for messages and for platforms without directory descriptors.
        descriptor: It, or None there.
    """

    path: Path
    descriptor: int | None = None

    def names(self) -> list[str]:
        """All names in it, sorted."""
        with os.scandir(self.path if self.descriptor is None else self.descriptor) as entries:
            return sorted(decode_name(entry.name) for entry in entries)

    def own_status(self) -> os.stat_result:
        """Of the directory itself."""
        return self.path.lstat() if self.descriptor is None else os.fstat(self.descriptor)

    def status(self, name: str) -> os.stat_result:
        """What is there: a link itself, not what it leads to."""
        if self.descriptor is None:
            return os.lstat(self.path / name)
        return os.stat(_encode(name), dir_fd=self.descriptor, follow_symlinks=False)

    def read_link(self, name: str) -> str:
        """What a link says."""
        if self.descriptor is None:
            return str((self.path / name).readlink())
        return decode_name(os.fsdecode(os.readlink(_encode(name), dir_fd=self.descriptor)))

    @contextlib.contextmanager
    def file(self, name: str) -> Iterator[tuple[int, os.stat_result]]:
        """A plain file, open for reading at given positions, and its status then.

        Raises:
            NotAFile: It is none.
        """
        seen = self.status(name)
        if not stat.S_ISREG(seen.st_mode):
            raise NotAFile(errno.EINVAL, "no longer a file when it was read")
        with _held.held((seen.st_dev, seen.st_ino), lambda: self._open_file(name)) as descriptor:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise NotAFile(errno.EINVAL, "no longer a file when it was read")
            yield descriptor, status

    def _open_file(self, name: str) -> int:
        if self.descriptor is None:
            return os.open(self.path / name, os.O_RDONLY | _NEVER_WAIT | _NO_LINK)
        return os.open(_encode(name), os.O_RDONLY | _NEVER_WAIT | _NO_LINK, dir_fd=self.descriptor)

    def below(self, name: str) -> Place:
        """A directory in it, opened; a link to one is refused. Whoever calls closes it."""
        if self.descriptor is None:
            status = self.status(name)
            if not stat.S_ISDIR(status.st_mode) or is_link(status):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            return Place(self.path / name)
        return Place(
            self.path / local_name(name), os.open(_encode(name), _DIRECTORY | _NO_LINK, dir_fd=self.descriptor)
        )

    def close(self) -> None:
        """Close it."""
        if self.descriptor is not None:
            os.close(self.descriptor)


def is_link(status: os.stat_result) -> bool:
    """Whether it leads elsewhere."""
    return stat.S_ISLNK(status.st_mode) or getattr(status, "st_reparse_tag", 0) == _JUNCTION


@contextlib.contextmanager
def open_place(root: Path, inside: Iterable[str] = ()) -> Iterator[Place]:
    """A directory for the length of a ``with``.

    Args:
        root: Where to begin; it may be reached by links, since somebody chose it.
        inside: The names that lead on from there, none of which may be a link.

    Raises:
        OSError: One of them is none, or cannot be opened.
    """
    place = _open_root(root)
    try:
        for name in inside:
            above, place = place, place.below(name)
            above.close()
        yield place
    finally:
        place.close()


def _open_root(root: Path) -> Place:
    if not _BY_DESCRIPTOR:
        if not root.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(root))
        return Place(root)
    return Place(root, os.open(root, _DIRECTORY))


def decode_name(name: str) -> str:
    """A name as the system gives it, as it is saved: its bytes as UTF-8, whatever the locale says they are."""
    return name if os.name == "nt" else os.fsencode(name).decode("utf-8", "surrogateescape")


def local_name(name: str) -> str:
    """The other way round, for what takes paths."""
    return name if os.name == "nt" else os.fsdecode(_encode(name))


def _encode(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")
