"""Who has a file open: this very process, whose locks on it must stay, and other processes.

POSIX drops every lock that a process has on a file as soon as the process closes any descriptor of it
(https://www.sqlite.org/howtocorrupt.html, section 2.2). So what was read is closed only where nobody else in this
process has the file open. Our lock on a database belongs to the open file where the system has such (Linux); elsewhere
to the process, and is not taken where this process has the file open besides.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from colony_memory._os.paths import Identity, encode_name, is_file
from colony_memory._values import Record, field, pattern

if sys.platform != "win32":
    import fcntl
_LISTINGS = ("/proc/self/fd", "/dev/fd")  # the second knows three descriptors only on some systems
_TRIED_WITHOUT_LISTING = 1024
_CLOSED_TOGETHER = 32  # the look at all descriptors of the process is shared by so many
_DROPS_LOCKS = os.name == "posix"


class _Held(Record):
    """Our descriptors of one file, for reading; mostly one, more where several threads opened it at once."""

    descriptors: list[int] = field(default_factory=list)
    users: int = 0  # that are reading now


_kept: dict[Identity, _Held] = {}
_guard = threading.RLock()


@contextlib.contextmanager
def keeping_locks(expected: Identity, opener: Callable[[], int]) -> Iterator[int]:
    """A descriptor of a file, at any position: of what ``opener`` opens, should that not be the one ``expected``."""
    with _guard:
        identity, one = expected, _kept.get(expected)
        # One that is being read from may be locked through, which is no business of another reading.
        is_kept = one is not None and not one.users and _identity(one.descriptors[0]) == expected
        if one is not None and is_kept:
            one.users += 1
            descriptor = one.descriptors[0]
    if not is_kept:
        descriptor = opener()
        try:
            identity = Identity.of(os.fstat(descriptor))
        except OSError:  # a network file system may have lost it
            os.close(descriptor)
            raise
        with _guard:
            one = _kept.setdefault(identity, _Held())
            one.descriptors.append(descriptor)
            one.users += 1
    try:
        yield descriptor
    finally:
        with _guard:
            _kept[identity].users -= 1
            idle = sum(not one.users for one in _kept.values())
            if not _DROPS_LOCKS or idle >= _CLOSED_TOGETHER:
                settle()


def is_open_elsewhere(identity: Identity) -> bool:
    """Open in this process by another descriptor than ours."""
    with _guard:
        return identity in _foreign()


@contextlib.contextmanager
def settling() -> Iterator[None]:
    """Call settle() when the block, or the function that bears this as a decorator, has ended."""
    try:
        yield
    finally:
        settle()


def settle() -> None:
    """Close what nobody reads any more and nobody else in this process has open."""
    with _guard:
        foreign = _foreign() if _DROPS_LOCKS else set()
        for identity, one in list(_kept.items()):
            if one.users or identity in foreign:
                continue
            del _kept[identity]
            for descriptor in one.descriptors:
                # A program that closes what it did not open may have given the number to something else.
                if not _DROPS_LOCKS or _identity(descriptor) == identity:
                    os.close(descriptor)


def _foreign() -> set[Identity]:
    """The plain files that this process has open by descriptors other than ours."""
    own = {descriptor for one in _kept.values() for descriptor in one.descriptors}
    found = (_identity(descriptor) for descriptor in _descriptors() if descriptor not in own)
    return {identity for identity in found if identity is not None}


def _descriptors() -> list[int]:
    for listing in _LISTINGS:
        with contextlib.suppress(OSError):
            listed = [int(name) for name in os.listdir(listing) if name.isdigit()]
            if len(listed) > 3:
                return listed
    return list(range(_TRIED_WITHOUT_LISTING))


def _identity(descriptor: int) -> Identity | None:
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return Identity.of(status) if is_file(status) else None


# --- other processes: Linux alone tells of them, and what one of another user has open stays unseen

PROCESSES = "/proc"
# Device, inode and path of a part of memory that is a file's.
_MAPPED = pattern(rb"^\S+ \S+ \S+ ([0-9a-f]+):([0-9a-f]+) ([1-9][0-9]*) +(.*)$", re.MULTILINE)


OpenFiles = dict[tuple[int, "int | bytes"], int]


def open_files() -> OpenFiles:
    """One process, of all but this one, for each file that any has open to write or mapped, by device and inode."""
    found = OpenFiles()
    for process in _listed(PROCESSES) if sys.platform == "linux" else ():
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        for link in _listed(f"{process.path}/fd"):
            with contextlib.suppress(OSError):
                # The link's own permissions tell how the file was opened.
                if link.stat(follow_symlinks=False).st_mode & stat.S_IWUSR and is_file(status := link.stat()):
                    found.setdefault(Identity.of(status), int(process.name))
        with contextlib.suppress(OSError):  # it has ended, or is not ours to look at
            for major, minor, inode, path in set(_MAPPED.findall(Path(process.path, "maps").read_bytes())):
                found.setdefault((os.makedev(int(major, 16), int(minor, 16)), int(inode)), int(process.name))
                # Some file systems tell another device here.
                found.setdefault((int(inode), path.rpartition(b"/")[2]), int(process.name))
    return found


def holder_of(found: OpenFiles, name: str, status: os.stat_result) -> int | None:
    """The process that has the file of that name and status, None where no other has."""
    if not is_file(status):
        return None
    return found.get(Identity.of(status)) or found.get((status.st_ino, encode_name(name.rpartition("/")[2])))


def name_process(number: int) -> str:
    """A process as people know it: ``python3 (process 4711)``."""
    if number <= 0:  # a lock of an open file tells none
        return "a program"
    if number == os.getpid():
        return "this process"
    try:
        name = Path(PROCESSES, str(number), "comm").read_text("utf-8", "replace").strip()
    except OSError:
        name = ""
    return f"{name} (process {number})" if name and name.isprintable() else f"process {number}"


def _listed(directory: str) -> list[os.DirEntry[str]]:
    """The entries of a directory of the system's; none where it is not there, or another user's."""
    try:
        with os.scandir(directory) as entries:
            return [*entries]
    except OSError:
        return []


# --- locks on parts of a file

_PENDING = 0x40000000
_SHARED, _SHARED_SIZE = _PENDING + 2, 510
# https://www.sqlite.org/src/file/src/os_unix.c: all bytes that connections lock, of the database and of its index.
DATABASE_LOCKS = (_PENDING, 2 + _SHARED_SIZE)
INDEX_LOCKS = (120, 9)
WHOLE_FILE = (0, 0)
_OF_OPEN_FILES = sys.platform == "linux"
_TAKEN = frozenset({errno.EACCES, errno.EAGAIN})


class Locked(Exception):
    """A writer is about to change the file, or does."""


@contextlib.contextmanager
def shared_lock(descriptor: int) -> Iterator[None]:
    """Hold the lock that every reader takes, or go without where the file system knows no locks; Locked by a writer."""
    if not _may_lock(descriptor):
        yield
        return
    try:
        _set(descriptor, _PENDING, 1)
        try:
            _set(descriptor, _SHARED, _SHARED_SIZE)
        finally:
            _set(descriptor, _PENDING, 1, free=True)
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
            _set(descriptor, _SHARED, _SHARED_SIZE, free=True)


def lock_holder(descriptor: int, where: tuple[int, int]) -> int | None:
    """The process that holds a lock on a part of a file, None where no other does; -1 where it is of an open file."""
    if sys.platform == "win32" or struct.calcsize("P") != 8:
        return None
    told = fcntl.fcntl(descriptor, fcntl.F_GETLK, _pack(fcntl.F_WRLCK, *where))
    if sys.platform == "linux":
        kind, _, _, _, by = struct.unpack("@hhqqi4x", told)
    else:  # pragma: no cover - chosen by the platform
        _, _, by, kind, _ = struct.unpack("@qqihh", told)
    return None if kind == fcntl.F_UNLCK else by


def _may_lock(descriptor: int) -> bool:
    return os.name != "nt" and (_OF_OPEN_FILES or not is_open_elsewhere(Identity.of(os.fstat(descriptor))))


def _pack(kind: int, start: int, length: int) -> bytes:
    """The struct flock of 64-bit systems, with the process last on Linux and before the kind on macOS and the BSDs."""
    if sys.platform == "linux":
        return struct.pack("@hhqqi4x", kind, os.SEEK_SET, start, length, 0)
    return struct.pack("@qqihh", start, length, 0, kind, os.SEEK_SET)  # pragma: no cover - chosen by the platform


def _set(descriptor: int, start: int, length: int, *, free: bool = False) -> None:
    """Take the lock of a reader without waiting, or give it up."""
    if _OF_OPEN_FILES and sys.platform == "linux":
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _pack(fcntl.F_UNLCK if free else fcntl.F_RDLCK, start, length))
    elif sys.platform != "win32":  # pragma: no branch - chosen by the platform
        fcntl.lockf(descriptor, fcntl.LOCK_UN if free else fcntl.LOCK_SH | fcntl.LOCK_NB, length, start)
