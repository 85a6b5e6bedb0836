"""The bytes of one file as they were at one moment."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from colony_memory.capture.sqlite import HEADER, DatabaseDamaged, DatabaseLocked, copy_database, is_database

_TRIES = 3
# A file that becomes a pipe must not hang the reading, nor one that becomes a link lead it elsewhere.
_OPEN_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
)
_DESCRIPTORS = Path("/dev/fd")
_SMALLEST_PAGE = 512  # of SQLite; a database has a whole number of pages


class NotSaved(Exception):
    """A file that cannot be read whole; the text is the reason.

    Attributes:
        is_database: Whether it is an SQLite database, so that the files beside it are a part of it.
    """

    def __init__(self, reason: str, *, is_database: bool = False) -> None:
        super().__init__(reason)
        self.is_database = is_database


@dataclass(frozen=True)
class Contents:
    """What a file held.

    Attributes:
        data: Its bytes; of an SQLite database those that all its committed transactions give.
        executable: Whether its owner may execute it.
        is_database: Whether it was read as an SQLite database.
        note: What is odd about it, or empty.
    """

    data: bytes
    executable: bool
    is_database: bool = False
    note: str = ""


def read_contents(path: Path) -> Contents:
    """Read a file that holds still meanwhile; if it does not, read it again.

    Raises:
        NotSaved: It never held still, or is locked, or is no file any more.
        OSError: It cannot be read.
    """
    status = path.lstat()
    descriptor = _own_descriptor(status)
    if descriptor is None:
        head, executable = _read_steadily(path, stop_at=HEADER)
        if not is_database(head):
            return Contents(head, executable)
    else:
        executable = bool(status.st_mode & stat.S_IXUSR)
    try:
        data = copy_database(path, descriptor=descriptor)
        if path.lstat().st_ino != status.st_ino:
            raise NotSaved("replaced by another file while it was read", is_database=True)
        return Contents(data, executable, is_database=True)
    except DatabaseLocked as locked:
        raise NotSaved(str(locked), is_database=True) from locked
    except DatabaseDamaged as damaged:
        data, executable = _read_steadily(path)
        return Contents(data, executable, note=f"looks like an SQLite database and is saved as it is: {damaged}")


def holds_database(path: Path) -> bool:
    """Whether a path is that of an SQLite database."""
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            return False
        return _own_descriptor(status) is not None or is_database(_read_steadily(path, stop_at=HEADER)[0])
    except (NotSaved, OSError):
        return False


def _read_steadily(path: Path, *, stop_at: bytes | None = None) -> tuple[bytes, bool]:
    """Return the bytes of a file, and whether its owner may execute it; no more than the start where it is this."""
    for _ in range(_TRIES):
        # Without a buffer, the bytes of a file are in memory once.
        with open(path, "rb", buffering=0, opener=_open_file) as file:
            before = os.fstat(file.fileno())
            if not stat.S_ISREG(before.st_mode):
                raise NotSaved("no longer a file when it was read")
            executable = bool(before.st_mode & stat.S_IXUSR)
            if stop_at and file.read(len(stop_at)) == stop_at:
                return stop_at, executable
            file.seek(0)
            data = file.read()
        after = path.lstat()
        if _version(before) == _version(after) and len(data) == before.st_size:
            return data, executable
    raise NotSaved(f"changed while it was read, {_TRIES} times in a row")


def _open_file(path: str, _flags: int) -> int:
    return os.open(path, _OPEN_FLAGS)


def _version(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns


def _own_descriptor(status: os.stat_result) -> int | None:
    """Find out whether this very process has the file open as an SQLite database, and return the descriptor.

    POSIX drops every lock that a process has on a file as soon as the process closes any descriptor of it
    (https://www.sqlite.org/howtocorrupt.html, section 2.2). So a database that the agent itself has open must not be
    opened and closed here but through SQLite, which knows about that.
    """
    if not status.st_size or status.st_size % _SMALLEST_PAGE or not hasattr(os, "pread"):
        return None
    try:
        names = os.listdir(_DESCRIPTORS)  # noqa: PTH208 - the names alone
    except OSError:
        return None
    for name in names:
        descriptor = int(name)
        try:
            found = os.fstat(descriptor)
            same = (found.st_dev, found.st_ino) == (status.st_dev, status.st_ino)
            if same and is_database(os.pread(descriptor, len(HEADER), 0)):
                return descriptor
        except OSError:
            continue  # closed meanwhile, or open for writing only
    return None


def reason_of(error: Exception) -> str:
    """Say in a few words why something could not be read."""
    if isinstance(error, FileNotFoundError):
        return "vanished before it was read"
    if isinstance(error, PermissionError):
        return "not readable: permission denied"
    return getattr(error, "strerror", None) or str(error)
