"""A consistent copy of an SQLite database that others may have open, without changing it or its companions.

SQLite never opens the files themselves: it would act on their companions, or delete a file that a journal names. They
are read under the lock of a reader (https://www.sqlite.org/lockingv3.html), until all are unchanged together, as a
crash at that moment would have left them. A log or journal is merged by SQLite in a copy that nobody else can reach.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from contextlib import ExitStack, closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from colony_memory._os.open_files import Locked, shared_lock
from colony_memory._os.paths import Identity, is_file
from colony_memory.capture._filenames import INDEX, JOURNAL, LOG
from colony_memory.capture._steady import TRIES, NotSaved, TooLarge, has_file, read_bytes, read_start, still_holds

if TYPE_CHECKING:
    from colony_memory._os.directory import Directory

_WAIT = 5.0  # seconds for another program to release its lock, or for the files to be quiet
_ROOM, _TIMES = 1 << 26, 4  # limit of a database with its log to compare: bytes, and times the size of the other
_PAUSE = 0.002  # seconds: a busy writer releases its lock for moments only
_HEADER_SIZE = 100
_SMALLEST_PAGE, _LARGEST_PAGE = 512, 65536
_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
_INDEX_VERSION = (b"\x18\xe2\x2d\x00", b"\x00\x2d\xe2\x18")  # 3007000, the only one
_LOG_MAGIC = (bytes.fromhex("377f0682"), bytes.fromhex("377f0683"))


class DatabaseDamaged(Exception):
    """Raised for a file that cannot be read as a database; the text is the reason."""


# The bytes of a database, its log, its journal and its index, empty if missing.
_Files = tuple["bytes | bytearray", "bytes | bytearray", "bytes | bytearray", "bytes | bytearray"]


def read_database(place: Directory, name: str, *, limit: int) -> tuple[bytes | bytearray, tuple[str, ...]]:
    """Copy a database with all committed transactions, and name the companions that belong to it.

    If there is nothing to merge, the copy is the database as it is. The same content gives the same bytes. NotSaved,
    DatabaseDamaged, or TooLarge if it has more than ``limit`` bytes, together with its companions.
    """
    database, log, journal, index = _read_together(place, name, limit=limit)
    size = int.from_bytes(database[16:18], "big")
    size = _LARGEST_PAGE if size == 1 else size
    if len(database) < _HEADER_SIZE or size < _SMALLEST_PAGE or size & (size - 1):
        raise DatabaseDamaged("its header is damaged")
    if len(database) % size:
        raise DatabaseDamaged("it is not a whole number of pages")
    has_log, has_journal = log[:4] in _LOG_MAGIC, journal.startswith(_JOURNAL_MAGIC)
    # A finished log or journal is empty, or begins with zeros; so does a new index.
    own = {
        LOG: has_log or not log,
        JOURNAL: has_journal or not any(journal[: len(_JOURNAL_MAGIC)]),
        INDEX: index[:4] in _INDEX_VERSION or not any(index),
    }
    parts = tuple(name + suffix for suffix, is_own in own.items() if is_own)
    if not has_log and not has_journal:
        return database, parts
    if has_journal and journal.endswith(_JOURNAL_MAGIC):
        # SQLite would look for the file of that name, and delete it. Only that file tells if the change was committed.
        raise DatabaseDamaged("its journal names a file of another database that it belongs to")
    try:
        return _merge(database, {LOG: log, JOURNAL: journal}, limit=limit), parts
    except OSError as error:
        raise NotSaved(f"what is beside it cannot be merged: {error.strerror or error}") from error


def holds_same(place: Directory, name: str, data: bytes) -> bool:
    """True if a database with all committed transactions equals this file; false if it cannot be read."""
    # With its log it may be larger than their merged copy, but its maker must not decide how much is read.
    try:
        return read_database(place, name, limit=_ROOM + _TIMES * len(data))[0] == data
    except (NotSaved, DatabaseDamaged, TooLarge, OSError):
        return False


def reads_as_journal(name: str, data: bytes) -> bool:
    """True if SQLite would take a file of this name and content for the log or journal of a database."""
    if name.endswith(LOG):
        return data.startswith(_LOG_MAGIC)
    # The end of a journal counts, too: SQLite deletes a file that is named there.
    return name.endswith(JOURNAL) and (data.startswith(_JOURNAL_MAGIC) or data.endswith(_JOURNAL_MAGIC))


def _read_together(place: Directory, name: str, *, limit: int) -> _Files:
    end, tries = time.monotonic() + _WAIT, 0
    while True:
        tries += 1
        try:
            if (files := _read_locked(place, name, limit=limit)) is not None:
                return files
        except Locked as locked:
            if time.monotonic() > end:
                raise NotSaved(f"locked by another program for {_WAIT:g} seconds") from locked
        else:
            if tries >= TRIES and time.monotonic() > end:
                raise NotSaved(f"changed while it was read, {tries} times in a row")
        time.sleep(_PAUSE)


def _read_locked(place: Directory, name: str, *, limit: int) -> _Files | None:
    """Read all files once; None if one changed meanwhile."""
    with place.file(name) as (descriptor, _):
        # With a write-ahead log, the files are consistent at every moment. Without, the journal may be in memory, and
        # then only the lock tells that a change is under way.
        logs_ahead = read_start(descriptor, _HEADER_SIZE)[18:20] == b"\2\2"
        try:
            with nullcontext() if logs_ahead else shared_lock(descriptor):
                return _read_once(place, name, descriptor, limit=limit)
        except Locked:
            # If the writer's journal is on disk, it undoes everything that the writer has done.
            files = _read_once(place, name, descriptor, limit=limit)
            if files is None or files[2].startswith(_JOURNAL_MAGIC):
                return files
            raise


def _read_once(place: Directory, name: str, descriptor: int, *, limit: int) -> _Files | None:
    with ExitStack() as stack:
        opened = {"": descriptor}
        for suffix in (LOG, JOURNAL, INDEX):
            if has_file(place, name + suffix):
                with contextlib.suppress(FileNotFoundError):
                    opened[suffix], _ = stack.enter_context(place.file(name + suffix))
        data: dict[str, bytes | bytearray] = {}
        for suffix, fd in opened.items():
            try:
                found = read_bytes(fd, limit=limit)
            except TooLarge as error:
                raise TooLarge(sum(os.fstat(other_fd).st_size for other_fd in opened.values())) from error
            if found is None:
                return None
            limit -= len(found)
            data[suffix] = found
        # Data appended to a log or journal meanwhile is of a later moment. The index is left out: readers change it.
        unchanged = all(still_holds(opened[suffix], data[suffix]) for suffix in (JOURNAL, LOG, "") if suffix in opened)
        if not unchanged or os.fstat(descriptor).st_size != len(data[""]):
            return None
        for suffix in ("", LOG, JOURNAL):
            status, own = place.look(name + suffix), opened.get(suffix)
            now = Identity.of(status) if status is not None and is_file(status) else None
            if now != (None if own is None else Identity.of(os.fstat(own))):
                return None  # it was replaced
    return data[""], data.get(LOG, b""), data.get(JOURNAL, b""), data.get(INDEX, b"")


def _merge(database: bytes | bytearray, companions: dict[str, bytes | bytearray], *, limit: int) -> bytes:
    try:
        import sqlite3
    except ImportError as error:  # a Python that was built without it
        raise NotSaved(f"what is beside it takes SQLite to merge, and this Python has none: {error}") from error
    with tempfile.TemporaryDirectory(prefix="colony-memory-") as scratch:
        copy = Path(scratch, "database")
        copy.write_bytes(database)
        for suffix, data in companions.items():
            if data:
                Path(f"{copy}{suffix}").write_bytes(data)
        try:
            with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
                connection.execute("PRAGMA synchronous=OFF")
                connection.execute("PRAGMA schema_version").fetchone()  # rolls the journal back
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.OperationalError as error:
            # No room, or no memory. Damage raises another class of error.
            raise OSError(str(error)) from error
        except sqlite3.Error as error:
            raise DatabaseDamaged(str(error)) from error
        size = copy.stat().st_size
        if size > limit:  # by a number of pages in the log or journal
            raise TooLarge(size)
        return copy.read_bytes()
