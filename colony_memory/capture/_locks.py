"""The locks that SQLite's connections take (https://www.sqlite.org/lockingv3.html): a reader's, and who holds any.

Where the system has locks that belong to an open file and not to the process (Linux), ours is one of these: it neither
touches nor is touched by the locks that this process has otherwise. Elsewhere it is one of the process, and is not
taken where this process has the file open besides.
"""

from __future__ import annotations

import contextlib
import errno
import os
import struct
import sys
from typing import TYPE_CHECKING

from colony_memory._os.held import is_open_elsewhere
from colony_memory._os.kinds import Identity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from colony_memory._os.directory import Directory

if sys.platform != "win32":
    import fcntl

_PENDING = 0x40000000
_SHARED, _SHARED_SIZE = _PENDING + 2, 510
# https://www.sqlite.org/src/file/src/os_unix.c: all bytes that connections lock, of the database and of its index.
DATABASE_LOCKS = (_PENDING, 2 + _SHARED_SIZE)
INDEX_LOCKS = (120, 9)
WHOLE_FILE = (0, 0)
_OF_OPEN_FILES = sys.platform == "linux"
_TAKEN = frozenset({errno.EACCES, errno.EAGAIN})


class Locked(Exception):
    """A writer has it."""


@contextlib.contextmanager
def shared_lock(descriptor: int) -> Iterator[None]:
    """Hold the lock that every reader takes, or go without where the file system knows no locks.

    Raises:
        Locked: A writer is about to change the file, or does.
    """
    if not _may_lock(descriptor):
        yield
        return
    try:
        _set(descriptor, _PENDING, 1)
        try:
            _set(descriptor, _SHARED, _SHARED_SIZE)
        finally:
            _unset(descriptor, _PENDING, 1)
    except OSError as error:
        if error.errno in _TAKEN:
            raise Locked from error
        yield
        return
    try:
        yield
    finally:
        # Somebody in this process may have opened the file meanwhile: their locks are one with this.
        if _may_lock(descriptor):
            _unset(descriptor, _SHARED, _SHARED_SIZE)


def lock_holder(directory: Directory, name: str, where: tuple[int, int]) -> int | None:
    """The process that holds a lock on a part of a file, None where no other does; -1 where it is of an open file."""
    if sys.platform == "win32" or struct.calcsize("P") != 8:
        return None
    try:
        with directory.file(name) as (descriptor, _):
            told = fcntl.fcntl(descriptor, fcntl.F_GETLK, _pack(fcntl.F_WRLCK, *where))
    except OSError:
        return None
    kind, by = _unpack(told)
    return None if kind == fcntl.F_UNLCK else by


def _may_lock(descriptor: int) -> bool:
    if sys.platform == "win32":
        return False
    return _OF_OPEN_FILES or not is_open_elsewhere(Identity.of(os.fstat(descriptor)))


# struct flock of 64-bit systems: Linux has type, whence, start, length, process; macOS and the BSDs have start, length,
# process, type, whence.
if sys.platform == "linux":

    def _pack(kind: int, start: int, length: int) -> bytes:
        return struct.pack("@hhqqi4x", kind, os.SEEK_SET, start, length, 0)

    def _unpack(told: bytes) -> tuple[int, int]:
        kind, _, _, _, process = struct.unpack("@hhqqi4x", told)
        return kind, process

else:  # pragma: no cover - chosen by the platform

    def _pack(kind: int, start: int, length: int) -> bytes:
        return struct.pack("@qqihh", start, length, 0, kind, os.SEEK_SET)

    def _unpack(told: bytes) -> tuple[int, int]:
        _, _, process, kind, _ = struct.unpack("@qqihh", told)
        return kind, process


if sys.platform != "win32":  # pragma: no branch - chosen by the platform

    def _set(descriptor: int, start: int, length: int) -> None:
        if _OF_OPEN_FILES:
            _call(descriptor, fcntl.F_RDLCK, start, length)
        else:
            fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB, length, start)

    def _unset(descriptor: int, start: int, length: int) -> None:
        if _OF_OPEN_FILES:
            _call(descriptor, fcntl.F_UNLCK, start, length)
        else:
            fcntl.lockf(descriptor, fcntl.LOCK_UN, length, start)


def _call(descriptor: int, kind: int, start: int, length: int) -> None:
    if sys.platform == "linux":  # pragma: no branch - chosen by the platform
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _pack(kind, start, length))
