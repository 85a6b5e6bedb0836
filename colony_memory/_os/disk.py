"""What a file that must not be lost needs of the operating system: replaced whole, and synced.

Errors are those of the operating system; whoever calls names the place and says what they mean.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_NEW_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def make_directory(place: Path) -> None:
    """Make a directory for its owner alone, and those above it that are missing; they last when this returns."""
    if place.is_dir():
        return
    above = place.parents
    known = next((depth for depth, directory in enumerate(above) if directory.is_dir()), 0)
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Each new directory is an entry of the one above, and lasts only when that one is synced.
    for directory in above[: known + 1]:
        sync_directory(directory)


def write_new(target: Path, data: bytes) -> None:
    """Create a file, for its owner alone from the first byte on, and sync it; removed again if that fails.

    Raises:
        FileExistsError: Something of that name is there.
    """
    descriptor = os.open(target, _NEW_FLAGS, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(descriptor)
    except BaseException:
        with contextlib.suppress(OSError):  # the first error is the one to tell
            target.unlink()
        raise


def replace_file(target: Path, data: bytes, *, temp: Path) -> None:
    """Put bytes in the place of a file, whole or not at all; on disk when this returns.

    Args:
        target: The file, there or not.
        data: What it is to hold.
        temp: A name in the same directory that is free.
    """
    write_new(temp, data)
    try:
        temp.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):  # the first error is the one to tell
            temp.unlink()
        raise
    sync_directory(target.parent)


def sync_directory(place: Path) -> None:
    """Make the names in a directory last, where the platform and its file system can."""
    if sys.platform != "win32":  # pragma: no branch - there a directory cannot be opened
        descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
        try:
            sync_descriptor(descriptor)
        finally:
            os.close(descriptor)


def sync_descriptor(descriptor: int) -> None:
    """Make the names in an open directory last, where its file system can."""
    try:
        os.fsync(descriptor)
    except OSError as exc:
        if exc.errno not in {errno.EINVAL, errno.ENOTSUP}:  # the file system keeps directories its own way
            raise


def syncs_file_systems() -> bool:
    """Whether :func:`sync_file_system` is there."""
    return _syncfs() is not None


def sync_file_system(descriptor: int) -> None:
    """Make all that was written to the file system of an open file or directory last, in one call.

    Raises:
        OSError: It could not be written, by whoever did it.
        NotImplementedError: The system has no such call.
    """
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
