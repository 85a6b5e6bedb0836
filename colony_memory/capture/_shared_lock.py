"""The lock that every reader of an SQLite database takes (https://www.sqlite.org/lockingv3.html).

Where the system has locks that belong to an open file and not to the process (Linux), it is one of these: it neither
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

from colony_memory.capture._held import is_open_elsewhere

if TYPE_CHECKING:
    from collections.abc import Iterator

if sys.platform != "win32":
    import fcntl

_PENDING = 0x40000000
_SHARED, _SHARED_SIZE = _PENDING + 2, 510
_OF_OPEN_FILES = sys.platform == "linux"
_TAKEN = frozenset({errno.EACCES, errno.EAGAIN})


class Locked(Exception):
    """A writer has it."""


@contextlib.contextmanager
def shared_lock(descriptor: int) -> Iterator[None]:
    """Hold it, or go without where the file system knows no locks.

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


def _may_lock(descriptor: int) -> bool:
    if sys.platform == "win32":
        return False
    status = os.fstat(descriptor)
    return _OF_OPEN_FILES or not is_open_elsewhere((status.st_dev, status.st_ino))


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
        # struct flock: type, whence, start, length, process (none).
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, struct.pack("@hhqqi4x", kind, os.SEEK_SET, start, length, 0))
