"""Where a restore prepares: a hidden directory beside the folder or inside of it, and the lock that goes with it.

Both have fixed names, so that whoever comes next finds what a restore that was cut off has left, and meets the lock
of one that is under way. The lock is the operating system's and goes with the process that held it.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import re
import shutil
import stat
import sys
import unicodedata
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from colony_memory.capture._filenames import STAGING_PREFIX
from colony_memory.exceptions import ColonyMemoryError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

if sys.platform == "win32":  # pragma: no cover - chosen by the platform
    import msvcrt
else:
    import fcntl

logger = logging.getLogger(__name__)

JOURNAL_NAME = "journal.json"
_PLACE = re.compile(re.escape(STAGING_PREFIX) + "(?:[0-9a-f]{12}|here)")
_LOCK_SUFFIX = ".lock"
_LOCK_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
# What systems and file systems answer that know no syncing of a directory.
_NO_DIRECTORY_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES}


def beside(target: Path) -> Path:
    """The place next to ``target``: the same for spellings of its name that a file system may take as one."""
    composed = unicodedata.normalize("NFC", unicodedata.normalize("NFC", target.name).casefold())
    tag = hashlib.sha256(composed.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return target.parent / f"{STAGING_PREFIX}{tag}"


def inside(target: Path) -> Path:
    """The place in ``target``, for where nothing can be written next to it."""
    return target / f"{STAGING_PREFIX}here"


def place_of(path: Path) -> Path | None:
    """The place that ``path`` is or is the lock of. None for what is no place, or one that was put aside."""
    name = path.name.removesuffix(_LOCK_SUFFIX)
    return path.with_name(name) if _PLACE.fullmatch(name) else None


def is_used(place: Path) -> bool:
    """Whether there is a restore, under way or cut off."""
    return os.path.lexists(place) or os.path.lexists(_lock_of(place))


def is_ours(place: Path, folder: Path) -> bool:
    """Whether this user is the one who restored there.

    What a stranger put there, who may write to a directory above, is none of our business.

    Raises:
        ColonyMemoryError: It was root, or the one whose folder it is.
    """
    if sys.platform == "win32":  # pragma: no cover - chosen by the platform
        return True
    owners = {status.st_uid for status in (look(place), look(_lock_of(place))) if status}
    theirs = owners - {os.geteuid()}
    if not theirs:
        return True
    there = look(folder)
    if theirs & {0, there.st_uid if there else 0}:
        raise ColonyMemoryError(
            f"another user's restore into {str(folder)!r} is under way or was cut off ({str(place)!r}): "
            "only the same user can end it, by the same restore or a backup"
        )
    logger.debug("%s is passed over: it belongs to another user", place)
    return False


@contextmanager
def held(place: Path, *, folder: Path) -> Iterator[None]:
    """Keep every other restore away from ``place``.

    Raises:
        ColonyMemoryError: One is there.
        OSError: The lock cannot be made.
    """
    path = _lock_of(place)
    lock = _take(path)
    if lock is None:
        raise ColonyMemoryError(f"a restore into {str(folder)!r} is under way: try again when it has ended")
    with lock:
        try:
            yield
        finally:
            _give_up(path, lock)


def discard(place: Path) -> None:
    """Remove the place, unless a journal says that it is still needed."""
    if os.path.lexists(place / JOURNAL_NAME):
        return
    try:
        shutil.rmtree(place)
    except FileNotFoundError:
        return
    except OSError as error:
        logger.warning("%s could not be removed and is of no use any more: %s", place, error)


def look(path: Path) -> os.stat_result | None:
    """What stands at ``path`` itself, or None. Raises OSError where that cannot be told."""
    try:
        return path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def sync_directory(path: Path) -> None:
    """Make the names in a directory last, where the system can."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in _NO_DIRECTORY_SYNC:
            raise
        logger.debug("%s cannot be synced: %s", path, error)


def _lock_of(place: Path) -> Path:
    return place.with_name(place.name + _LOCK_SUFFIX)


def _take(path: Path) -> IO[bytes] | None:
    while True:
        lock = open(path, "r+b", buffering=0, opener=_open_lock)  # noqa: SIM115 - it outlives this function
        try:
            if not _is_free(lock):
                lock.close()
                return None
            there = look(path)
            # Its last holder may have removed the file after it was opened here: then it locks nothing.
            if there and os.path.samestat(there, os.fstat(lock.fileno())) and stat.S_ISREG(there.st_mode):
                return lock
        except BaseException:
            lock.close()
            raise
        lock.close()


def _open_lock(path: str, _flags: int) -> int:
    return os.open(path, _LOCK_FLAGS, 0o600)


if sys.platform == "win32":  # pragma: no cover - chosen by the platform

    def _is_free(lock: IO[bytes]) -> bool:
        try:
            msvcrt.locking(lock.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError as error:
            if error.errno in {errno.EACCES, errno.EDEADLK}:
                return False
            raise
        return True

    def _give_up(path: Path, lock: IO[bytes]) -> None:
        msvcrt.locking(lock.fileno(), msvcrt.LK_UNLCK, 1)
        lock.close()
        try:
            path.unlink(missing_ok=True)
        except PermissionError as error:
            logger.debug("%s is in the hands of the next one: %s", path, error)

else:

    def _is_free(lock: IO[bytes]) -> bool:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _give_up(path: Path, lock: IO[bytes]) -> None:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            logger.warning("%s could not be removed and is of no use any more: %s", path, error)
        # Closing alone would leave the lock with a child that was forked meanwhile.
        fcntl.flock(lock, fcntl.LOCK_UN)
