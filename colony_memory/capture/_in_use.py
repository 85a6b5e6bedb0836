"""What a program has open, and would go on with although nobody reads it any more: it is not replaced unasked.

A file counts as open where another process has it open to write to, has it mapped, or holds a lock on it; an SQLite
database also where this process has it open. A store is more than the files that it has open: where one of these is no
text, nothing else of its directory changes either, but for notes.

The locks that SQLite's connections take (https://www.sqlite.org/lockingv3.html): a reader's, and who holds any.

Where the system has locks that belong to an open file and not to the process (Linux), ours is one of these: it neither
touches nor is touched by the locks that this process has otherwise. Elsewhere it is one of the process, and is not
taken where this process has the file open besides.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import os
import struct
import sys
from typing import TYPE_CHECKING

from colony_memory._os.held import is_open_elsewhere, name_process, open_files
from colony_memory._os.paths import Identity, is_file
from colony_memory.capture._filenames import is_note, parents_of
from colony_memory.capture._steady import INDEX, holds_database, read_start, whole_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from colony_memory._os.directory import Directory, Reach


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


# Bytes by which a file is known for text.
_START = 4096


def find_users(reach: Reach, changing: Collection[str], databases: Collection[str]) -> dict[str, str]:
    """What of a folder is not to be changed, with the process that has it open, or has the store open that it is of.

    Args:
        reach: The folder.
        changing: Names of files that would be put there, replaced or taken away.
        databases: Those of them that are SQLite databases there.
    """
    directories = {each for name in changing for each in (*parents_of(name), "" if "/" not in name else None)} - {None}
    there = {name: status for each in sorted(map(str, directories)) for name, status in _files_in(reach, each)}
    if not there:
        return {}
    system = open_files()
    users = {name: by for name, status in there.items() if (by := system.holder(name, status)) is not None}
    for name, status in there.items():
        if name not in users and (name in changing or _is_lock(name, status)) and not is_note(name):
            by = lock_holder(*reach.parent(name), WHOLE_FILE)
            if by is not None:
                users[name] = by
    found = {name: name_process(users[name]) for name in changing if name in users}
    for name in databases:
        user = _user_of_database(reach, name, there.get(name))
        if user is not None:
            found.setdefault(name, user)
    stores = {name.rpartition("/")[0]: by for name, by in users.items() if _is_of_store(*reach.parent(name))}
    for name in changing:
        store = next((each for each in _above(name) if each in stores), None)
        if store is not None and not is_note(name) and (store or name not in databases):
            found.setdefault(name, name_process(stores[store]))
    return dict(sorted(found.items()))


def _files_in(reach: Reach, directory: str) -> Iterable[tuple[str, os.stat_result]]:
    try:
        entries = [*reach.directory(directory).entries()]
    except OSError:  # it is not there yet, or not ours to look at
        return []
    lead = f"{directory}/" if directory else ""
    return [(lead + name, status) for name, status in entries if is_file(status)]


def _above(name: str) -> Iterable[str]:
    """The directories whose stores a file is of: those above it, the folder itself only where it is right in it."""
    return (*parents_of(name),) or ("",)


def _is_lock(name: str, status: os.stat_result) -> bool:
    """Whether a file looks like one that is there to be locked."""
    return not status.st_size or "lock" in name.rpartition("/")[2].lower()


def _is_of_store(directory: Directory, name: str) -> bool:
    """Whether a file that is open is one of several: no text, and no SQLite database, which is whole by itself."""
    if holds_database(directory, whole_of(name)):
        return False
    try:
        with directory.file(name) as (descriptor, _):
            start = read_start(descriptor, _START)
    except OSError:
        return True
    if not start or b"\0" in start:
        return True
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)  # a character may be cut at the end
    except UnicodeDecodeError:
        return True
    return False


def _user_of_database(reach: Reach, name: str, status: os.stat_result | None) -> str | None:
    if status is None:
        return None
    if is_open_elsewhere(Identity.of(status)):
        return "this process"
    directory, last = reach.parent(name)
    # The index first: in WAL mode, nothing else is locked by whoever only waits.
    for part, where in ((last + INDEX, INDEX_LOCKS), (last, DATABASE_LOCKS)):
        by = lock_holder(directory, part, where)
        if by is not None:
            return name_process(by)
    return None
