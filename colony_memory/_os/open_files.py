"""Processes that have a file open: this one, whose locks on it must stay, and others.

POSIX drops every lock that a process has on a file as soon as the process closes any descriptor of it
(https://www.sqlite.org/howtocorrupt.html, section 2.2). So a file that was read is closed only while nothing else in
this process has it open. Our lock on a database belongs to the open file where the system has such locks (Linux);
elsewhere it belongs to the process, and is not taken while this process has the file open otherwise.
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
_CLOSED_TOGETHER = 32  # files to close at once, since each round looks at all descriptors of the process
_DROPS_LOCKS = os.name == "posix"


class _KeptFile(Record):
    """Our descriptors for reading one file: mostly one, more if several threads opened it at once."""

    descriptors: list[int] = field(default_factory=list)
    users: int = 0  # readers at the moment


_kept: dict[Identity, _KeptFile] = {}
_guard = threading.RLock()


@contextlib.contextmanager
def keeping_locks(expected: Identity, opener: Callable[[], int]) -> Iterator[int]:
    """A descriptor of a file, at any position: a kept one of the file ``expected``, else the one from ``opener``."""
    with _guard:
        identity, file = expected, _kept.get(expected)
        # A descriptor in use may carry its reader's lock, in which other readers have no part.
        is_kept = file is not None and not file.users and _identity(file.descriptors[0]) == expected
        if file is not None and is_kept:
            file.users += 1
            descriptor = file.descriptors[0]
    if not is_kept:
        descriptor = opener()
        try:
            identity = Identity.of(os.fstat(descriptor))
        except OSError:  # a network file system may have lost it
            os.close(descriptor)
            raise
        with _guard:
            file = _kept.setdefault(identity, _KeptFile())
            file.descriptors.append(descriptor)
            file.users += 1
    try:
        yield descriptor
    finally:
        with _guard:
            _kept[identity].users -= 1
            idle = sum(not file.users for file in _kept.values())
            if not _DROPS_LOCKS or idle >= _CLOSED_TOGETHER:
                close_unused()


def is_open_elsewhere(identity: Identity) -> bool:
    """True if this process has the file open by a descriptor other than ours."""
    with _guard:
        return identity in _foreign()


@contextlib.contextmanager
def settling() -> Iterator[None]:
    """Call close_unused() at the end of the block, or of the function that this decorates."""
    try:
        yield
    finally:
        close_unused()


def close_unused() -> None:
    """Close files that are no longer read, and that nothing else in this process has open."""
    with _guard:
        foreign = _foreign() if _DROPS_LOCKS else set()
        for identity, file in list(_kept.items()):
            if file.users or identity in foreign:
                continue
            del _kept[identity]
            for descriptor in file.descriptors:
                # A program that closes descriptors of others may have given the number to another file.
                if not _DROPS_LOCKS or _identity(descriptor) == identity:
                    os.close(descriptor)


def _foreign() -> set[Identity]:
    """The plain files that this process has open by descriptors other than ours."""
    own = {descriptor for file in _kept.values() for descriptor in file.descriptors}
    identities = (_identity(descriptor) for descriptor in _descriptors() if descriptor not in own)
    return {identity for identity in identities if identity is not None}


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


# --- other processes: only on Linux, and not the open files of another user's processes

PROCESSES = "/proc"
# Device, inode and path of a file that is mapped into memory.
_MAPPED = pattern(rb"^\S+ \S+ \S+ ([0-9a-f]+):([0-9a-f]+) ([1-9][0-9]*) +(.*)$", re.MULTILINE)


OpenFiles = dict[tuple[int, "int | bytes"], int]


def open_files() -> OpenFiles:
    """One process for each file that any but this one has open for writing or mapped, by device and inode."""
    processes = OpenFiles()
    for process in _listed(PROCESSES) if sys.platform == "linux" else ():
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        for link in _listed(f"{process.path}/fd"):
            with contextlib.suppress(OSError):
                # The link's own permissions tell how the file was opened.
                if link.stat(follow_symlinks=False).st_mode & stat.S_IWUSR and is_file(status := link.stat()):
                    processes.setdefault(Identity.of(status), int(process.name))
        with contextlib.suppress(OSError):  # it has ended, or is not ours to look at
            for major, minor, inode, path in set(_MAPPED.findall(Path(process.path, "maps").read_bytes())):
                processes.setdefault((os.makedev(int(major, 16), int(minor, 16)), int(inode)), int(process.name))
                # Some file systems show another device here.
                processes.setdefault((int(inode), path.rpartition(b"/")[2]), int(process.name))
    return processes


def holder_of(processes: OpenFiles, name: str, status: os.stat_result) -> int | None:
    """Another process that has the file of this name and status open, None if there is none."""
    if not is_file(status):
        return None
    return processes.get(Identity.of(status)) or processes.get((status.st_ino, encode_name(name.rpartition("/")[2])))


def name_process(number: int) -> str:
    """A process in words: ``python3 (process 4711)``."""
    if number <= 0:  # the lock of an open file names none
        return "a program"
    if number == os.getpid():
        return "this process"
    try:
        name = Path(PROCESSES, str(number), "comm").read_text("utf-8", "replace").strip()
    except OSError:
        name = ""
    return f"{name} (process {number})" if name and name.isprintable() else f"process {number}"


def _listed(directory: str) -> list[os.DirEntry[str]]:
    """The entries of a directory of the system; none if it is missing, or another user's."""
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
    """A writer is changing the file, or about to."""


@contextlib.contextmanager
def shared_lock(descriptor: int) -> Iterator[None]:
    """Hold a reader's lock, or none if the file system has no locks; Locked if a writer has the file."""
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
        # Other code of this process may have opened the file meanwhile: its locks are one with this.
        if _may_lock(descriptor):
            _set(descriptor, _SHARED, _SHARED_SIZE, free=True)


def lock_holder(descriptor: int, part: tuple[int, int]) -> int | None:
    """The other process that has a lock on a part of a file, or None; -1 for the lock of an open file."""
    if sys.platform == "win32" or struct.calcsize("P") != 8:
        return None
    answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, _pack(fcntl.F_WRLCK, *part))
    if sys.platform == "linux":
        kind, _, _, _, holder = struct.unpack("@hhqqi4x", answer)
    else:  # pragma: no cover - chosen by the platform
        _, _, holder, kind, _ = struct.unpack("@qqihh", answer)
    return None if kind == fcntl.F_UNLCK else holder


def _may_lock(descriptor: int) -> bool:
    return os.name != "nt" and (_OF_OPEN_FILES or not is_open_elsewhere(Identity.of(os.fstat(descriptor))))


def _pack(kind: int, start: int, length: int) -> bytes:
    """The struct flock of 64-bit systems, with the process last on Linux and before the kind on macOS and the BSDs."""
    if sys.platform == "linux":
        return struct.pack("@hhqqi4x", kind, os.SEEK_SET, start, length, 0)
    return struct.pack("@qqihh", start, length, 0, kind, os.SEEK_SET)  # pragma: no cover - chosen by the platform


def _set(descriptor: int, start: int, length: int, *, free: bool = False) -> None:
    """Take a reader's lock without waiting, or release it (``free``)."""
    if _OF_OPEN_FILES and sys.platform == "linux":
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _pack(fcntl.F_UNLCK if free else fcntl.F_RDLCK, start, length))
    elif sys.platform != "win32":  # pragma: no branch - chosen by the platform
        fcntl.lockf(descriptor, fcntl.LOCK_UN if free else fcntl.LOCK_SH | fcntl.LOCK_NB, length, start)
