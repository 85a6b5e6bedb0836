"""A lock between threads and between processes, on a file of its own: ``with locked(directory / ".lock"): …``.

The lock is the operating system's (``flock``; ``msvcrt.locking`` on Windows) and goes with the process that held it,
so a crash leaves none behind. The file stays, and must not be the one that is being protected: whoever
replaces a file by renaming over it replaces what the others wait on.

Where a file system has no locks (NFS without its lock daemon, some of FUSE), a second file beside the first stands for
a lock that is only ever held for moments: only one can make it, and one that a waiter has seen unchanged for
``_LEFT_BEHIND`` seconds is what a crash left.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from typing import TYPE_CHECKING

from colony_memory._os.files import Files, new_temp_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

if sys.platform == "win32":  # pragma: no cover - chosen by the platform
    import msvcrt
else:
    import fcntl

_PAUSE = 0.002
"""Seconds between two tries."""
_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOTTY})
_LEFT_BEHIND = 20.0


def locked(path: Path, *, patience: float = 30.0, brief: bool = False) -> contextlib.AbstractContextManager[int]:
    """:func:`locked_in` by a path."""
    return locked_in(Files(path.parent), path.name, patience=patience, brief=brief)


@contextlib.contextmanager
def locked_in(directory: Files, name: str, *, patience: float = 30.0, brief: bool = False) -> Iterator[int]:
    """Hold the lock of a file in a directory, made for its owner alone where it is not there; gives its descriptor.

    Not reentrant: a thread that holds it and asks again waits in vain.

    Args:
        directory: Where the file is.
        name: The lock file.
        patience: Seconds to wait, then TimeoutError. What is held for milliseconds is held for longer only where its
            holder was stopped.
        brief: It is, so that where the file system has no locks a file can stand for one.
    """
    deadline = time.monotonic() + patience
    while True:
        lock = directory.open_or_make(name)
        try:
            try:
                held = _try(lock)
            except OSError as error:
                if not brief or error.errno not in _NO_LOCKS:
                    raise
                with _held_by_name(directory, f"{name}-held", deadline, patience):
                    yield lock
                return
            while not held:
                if time.monotonic() > deadline:
                    raise _timeout(directory, name, patience)
                time.sleep(_PAUSE)
                held = _try(lock)
            try:
                # Whoever comes now locks what has the name now, which may be another file than when this was opened.
                if _is_still(directory, name, lock):
                    yield lock
                    return
                if time.monotonic() > deadline:
                    raise _timeout(directory, name, patience)
            finally:
                # Closing alone would leave the lock with a child that was forked meanwhile.
                _release(lock)
        finally:
            os.close(lock)


@contextlib.contextmanager
def _held_by_name(directory: Files, name: str, deadline: float, patience: float) -> Iterator[None]:
    """Hold a lock by having made a file."""
    seen, since = None, time.monotonic()
    while True:
        with contextlib.suppress(FileExistsError):
            os.close(directory.make_file(name))
            break
        there, now = directory.look(name), time.monotonic()
        facts = there and (there.st_ino, there.st_mtime_ns)
        if facts != seen:
            seen, since = facts, now
        elif facts is not None and now - since > _LEFT_BEHIND:
            _take_away(directory, name, facts)
            continue
        if now > deadline:
            raise _timeout(directory, name, patience)
        time.sleep(_PAUSE)
    try:
        yield
    finally:
        directory.clear(name)


def _take_away(directory: Files, name: str, facts: tuple[int, int]) -> None:
    """Remove what a crash left, unless another waiter was faster and holds it by now."""
    aside = new_temp_name()
    try:
        directory.move(name, directory, aside)
    except FileNotFoundError:
        return
    taken = directory.look(aside)
    if taken is not None and (taken.st_ino, taken.st_mtime_ns) != facts:
        directory.move(aside, directory, name)
    directory.clear(aside)


def _timeout(directory: Files, name: str, patience: float) -> TimeoutError:
    place = str(directory.path / name)
    return TimeoutError(errno.ETIMEDOUT, f"locked by another process for {patience:.0f} s", place)


def _is_still(directory: Files, name: str, lock: int) -> bool:
    found = directory.look(name)
    return found is not None and os.path.samestat(found, os.fstat(lock))


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
