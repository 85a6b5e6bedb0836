"""Open files and directories onto the disk, and to the right owner."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import sys
import warnings
from typing import TYPE_CHECKING

from colony_memory.exceptions import ColonyMemoryWarning

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_MANY = 64


def sync_bytes(descriptor: int) -> None:
    """Bring what was written to a file onto the disk."""
    if sys.platform == "darwin":  # there fsync() leaves it in the disk's own cache
        import fcntl

        with contextlib.suppress(OSError):  # not every file system can
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            return
    os.fsync(descriptor)


def sync_names(descriptor: int) -> None:
    """Make the names in a directory last, where its file system can."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.ENOTSUP}:  # it keeps directories its own way
            raise


def give(descriptor: int, owner: os.stat_result, place: Path) -> None:
    """Where this is root, give what is open to the owner of a directory, or warn that it could not be given."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return
    made = os.fstat(descriptor)
    if (made.st_uid, made.st_gid) == (owner.st_uid, owner.st_gid):
        return
    try:
        os.fchown(descriptor, owner.st_uid, owner.st_gid)
    except OSError as error:
        warnings.warn(
            f"files that root wrote in {place} could not be given to user {owner.st_uid}, who owns it and may be "
            f"unable to read them: {error.strerror}",
            ColonyMemoryWarning,
            stacklevel=2,
        )


def syncs_together(count: int) -> bool:
    """One :func:`sync_file_system` costs less than to make so many files or names last one by one.

    With few of them it does not: it also waits for what others are writing.
    """
    return count >= _MANY and _syncfs() is not None


def sync_file_system(descriptor: int) -> None:
    """Make all that was written to the file system of an open file or directory last, by whoever wrote it."""
    call = _syncfs()
    if call is None:
        raise NotImplementedError
    call(descriptor)


@functools.cache
def _syncfs() -> Callable[[int], None] | None:
    """The call of Linux, which Python does not have."""
    if sys.platform != "linux":
        return None
    import ctypes

    try:
        function = ctypes.CDLL(None, use_errno=True).syncfs
    except (OSError, AttributeError):
        return None

    def call(descriptor: int) -> None:
        if function(descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    return call
