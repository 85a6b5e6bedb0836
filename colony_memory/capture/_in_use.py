"""Whether somebody has a database open: replaced under its user, it would go on with a file that nobody reads.

What tells are SQLite's locks (a connection to a database in WAL mode keeps one for as long as it is there), and on
Linux the open files of all processes that this user may look at. Files are asked about without being opened where this
process has them open itself: to close them again would drop its own locks.
"""

from __future__ import annotations

import os
import stat
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from colony_memory.capture._held import settle

if TYPE_CHECKING:
    from collections.abc import Iterator

    from colony_memory.capture._directory import Directory

if sys.platform != "win32":
    import fcntl

_DESCRIPTORS = Path("/dev/fd")
_PROCESSES = Path("/proc")
_HEADER = b"SQLite format 3\0"
# https://www.sqlite.org/src/file/src/os_unix.c: bytes that connections lock, of the database and of its index.
_DATABASE_LOCKS = (0x40000000, 512)
_INDEX_LOCKS = (120, 9)
# struct flock of 64-bit systems: Linux, and macOS with the BSDs.
_LINUX, _BSD = "hhqqi", "qqihh"


def own_databases() -> dict[tuple[int, int], int]:
    """Databases that this very process has open, as device and inode, with a descriptor of each."""
    found = {}
    settle()  # what is still open of a reading is nobody's connection
    try:
        names = os.listdir(_DESCRIPTORS)  # noqa: PTH208 - the names alone
    except OSError:
        return {}
    for name in names:
        try:
            descriptor = int(name)
            status = os.fstat(descriptor)
            if stat.S_ISREG(status.st_mode) and os.pread(descriptor, len(_HEADER), 0) == _HEADER:
                found[status.st_dev, status.st_ino] = descriptor
        except (OSError, ValueError, AttributeError):
            continue  # closed meanwhile, open for writing only, or no pread() on this system
    return found


def is_in_use(directory: Directory, name: str, there: os.stat_result) -> bool:
    """Whether somebody has the database ``name`` open, in this process or in another."""
    key = (there.st_dev, there.st_ino)
    if key in own_databases() or key in _open_elsewhere(key):
        return True
    # The index first: in WAL mode, nothing else is locked by whoever only waits.
    return _is_locked(directory, f"{name}-shm", _INDEX_LOCKS) or _is_locked(directory, name, _DATABASE_LOCKS)


def _open_elsewhere(key: tuple[int, int]) -> set[tuple[int, int]]:
    if sys.platform != "linux":
        return set()
    return {each for each in _open_for_writing() if each == key}


def _open_for_writing() -> Iterator[tuple[int, int]]:
    for process in _PROCESSES.iterdir():
        if not process.name.isdigit():
            continue
        try:
            links = [*os.scandir(process / "fd")]
        except OSError:  # it has ended, or is another user's
            continue
        for link in links:
            try:
                # The link's own permissions tell how the file was opened.
                if link.stat(follow_symlinks=False).st_mode & stat.S_IWUSR:
                    status = link.stat()
                    if stat.S_ISREG(status.st_mode):
                        yield status.st_dev, status.st_ino
            except OSError:
                continue


def _is_locked(directory: Directory, name: str, where: tuple[int, int]) -> bool:
    """Whether another process holds a lock on a part of a file."""
    if sys.platform == "win32" or struct.calcsize("P") != 8:
        return False
    start, length = where
    layout = _LINUX if sys.platform == "linux" else _BSD
    asked = (
        (fcntl.F_WRLCK, os.SEEK_SET, start, length, 0)
        if layout is _LINUX
        else (start, length, 0, fcntl.F_WRLCK, os.SEEK_SET)
    )
    try:
        descriptor = directory.open_file(name)
    except OSError:
        return False
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return False
        told = struct.unpack(layout, fcntl.fcntl(descriptor, fcntl.F_GETLK, struct.pack(layout, *asked)))
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return bool(told[0 if layout is _LINUX else 3] != fcntl.F_UNLCK)
