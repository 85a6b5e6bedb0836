"""A lock between threads and between processes, on a file of its own.

::

    with locked(directory / ".lock"):
        ...  # nobody else who takes the same lock is here

The lock is the operating system's (``flock``; ``msvcrt.locking`` on Windows) and goes with the process that held it,
so a crash leaves none behind. The file is empty, stays, and must not be the one that is being protected: whoever
replaces a file by renaming over it replaces what the others wait on.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

if sys.platform == "win32":  # pragma: no cover - chosen by the platform
    import msvcrt
else:
    import fcntl

_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
_PAUSE = 0.002
"""Seconds between two tries."""


@contextlib.contextmanager
def locked(path: Path, *, patience: float = 30.0) -> Iterator[None]:
    """Hold the lock of the file at ``path``, made for its owner alone where it is not there.

    Not reentrant: a thread that holds it and asks again waits in vain.

    Args:
        path: The lock file. Its directory must exist.
        patience: Seconds to wait. What is held for milliseconds is held for longer only where its holder was stopped.

    Raises:
        TimeoutError: Held by somebody else for all that time.
        OSError: The file cannot be opened or locked.
    """
    lock = os.open(path, _FLAGS, 0o600)
    try:
        deadline = time.monotonic() + patience
        while not _try(lock):
            if time.monotonic() > deadline:
                raise TimeoutError(errno.ETIMEDOUT, f"locked by another process for {patience:.0f} s", str(path))
            time.sleep(_PAUSE)
        try:
            yield
        finally:
            # Closing alone would leave the lock with a child that was forked meanwhile.
            _release(lock)
    finally:
        os.close(lock)


if sys.platform == "win32":  # pragma: no cover - chosen by the platform

    def _try(lock: int) -> bool:
        try:
            msvcrt.locking(lock, msvcrt.LK_NBLCK, 1)
        except OSError as exc:
            if exc.errno in {errno.EACCES, errno.EDEADLK}:
                return False
            raise
        return True

    def _release(lock: int) -> None:
        msvcrt.locking(lock, msvcrt.LK_UNLCK, 1)

else:

    def _try(lock: int) -> bool:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _release(lock: int) -> None:
        fcntl.flock(lock, fcntl.LOCK_UN)
