"""A consistent copy of an SQLite database that others may have open, without a change to it or beside it.

Through SQLite's online backup, under a read transaction: what is committed at one moment is in the copy, and nothing
else. Where the database cannot be read in place without writing (a journal to be rolled back, a write-ahead log
without its index), a copy of its files is opened in its stead.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3

HEADER = b"SQLite format 3\0"
COMPANIONS = ("-journal", "-shm", "-wal")

_WAIT = 5.0  # seconds for another program's lock to go
_PAUSE = 0.05
_TRIES = 3
_HEADER_SIZE = 100
_SMALLEST_PAGE, _LARGEST_PAGE = 512, 65536
_PAGES_A_STEP = 4096
# https://www.sqlite.org/fileformat2.html, section 1.3: change counter, schema cookie, version-valid-for and version.
# A backup sets these anew, so that it differs from a file of the same content.
_COUNTERS = (slice(24, 28), slice(40, 44), slice(92, 100))
# The same, section 4.1: of the log, the frames.
_WAL_HEADER, _FRAME_HEADER = 32, 24


class DatabaseLocked(Exception):
    """Another program holds it, or it changes too fast; the text is the reason."""


class DatabaseDamaged(Exception):
    """SQLite cannot read it; the text is the reason."""


def is_database(data: bytes) -> bool:
    """Whether a file that starts like this is an SQLite database."""
    return data.startswith(HEADER)


def companions_of(name: str) -> tuple[str, ...]:
    """The files beside a database that are a part of it while it is open."""
    return tuple(name + suffix for suffix in COMPANIONS)


def copy_database(path: Path, *, descriptor: int | None = None) -> bytes:
    """Return the database as one file that needs none beside it.

    The same content gives the same bytes. They are those of the file itself where nothing is left to be merged into it.

    Args:
        path: The database.
        descriptor: A descriptor of it that this process has open already; it is then not opened besides SQLite.

    Raises:
        DatabaseLocked: It was locked, or changed, for some seconds.
        DatabaseDamaged: It cannot be read as a database.
    """
    import sqlite3

    try:
        _check_header(path, descriptor)
        with tempfile.TemporaryDirectory(prefix="colony-memory-") as scratch:
            if descriptor is not None or not _needs_writing(path):
                try:
                    return _copy_in_place(path, Path(scratch), descriptor)
                except sqlite3.OperationalError as error:
                    if descriptor is not None:
                        raise
                    del error  # a journal to roll back, or no way to share memory there
            return _copy_apart(path, Path(scratch))
    except sqlite3.Error as error:
        raise DatabaseDamaged(str(error)) from error


def _size(path: Path, suffix: str) -> int | None:
    try:
        return os.stat(f"{path}{suffix}").st_size  # noqa: PTH116 - the suffix is no component
    except OSError:
        return None


def _is_logging(header: bytes) -> bool:
    return header[18] == 2


def _needs_writing(path: Path) -> bool:
    """Whether there is a write-ahead log that nobody has open: it would have to be given an index first."""
    return bool(_size(path, "-wal")) and _size(path, "-shm") is None


def _check_header(path: Path, descriptor: int | None) -> None:
    header = _read_header(path, descriptor)
    size = int.from_bytes(header[16:18], "big")
    size = _LARGEST_PAGE if size == 1 else size
    if len(header) < _HEADER_SIZE or size < _SMALLEST_PAGE or size & (size - 1):
        raise DatabaseDamaged("its header is damaged")
    if path.stat().st_size % size:
        raise DatabaseDamaged("it is not a whole number of pages")


def _read_header(path: Path, descriptor: int | None) -> bytes:
    if descriptor is not None:
        return os.pread(descriptor, _HEADER_SIZE, 0)
    with path.open("rb") as file:
        return file.read(_HEADER_SIZE)


def _copy_in_place(path: Path, scratch: Path, descriptor: int | None) -> bytes:
    for _ in range(_TRIES):
        before = _state(path)
        # Nobody has the log open, so that SQLite would make one, and an index of it, beside the database.
        untouched = _is_logging(_read_header(path, descriptor)) and not before[-2] and before[-1] is None
        with closing(_begin(path, immutable=untouched)) as connection:
            data = _backup(connection, scratch / "copy")
            header = _first_page(path, _read_header(path, descriptor))
        if not untouched or _state(path) == before:
            return _restore_counters(data, header)
    raise DatabaseLocked(f"changed while it was read, {_TRIES} times in a row")


def _state(path: Path) -> tuple[int | None, ...]:
    """What tells one state of the files from another."""
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns, _size(path, "-wal"), _size(path, "-shm")


def _begin(path: Path, *, immutable: bool) -> sqlite3.Connection:
    """Open the database for reading, in a transaction that has begun."""
    import sqlite3

    uri = f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if immutable else ''}"
    end = time.monotonic() + _WAIT
    while True:
        with contextlib.ExitStack() as unless_it_has_begun:
            connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=_PAUSE)
            unless_it_has_begun.callback(connection.close)
            try:
                connection.execute("BEGIN")
                connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            except sqlite3.Error as error:
                if "lock" not in str(error):
                    raise
                if time.monotonic() > end:
                    raise DatabaseLocked(f"locked by another program for {_WAIT:g} seconds") from error
            else:
                unless_it_has_begun.pop_all()
                return connection
        time.sleep(_PAUSE)


def _backup(connection: sqlite3.Connection, to: Path) -> bytes:
    import sqlite3

    to.unlink(missing_ok=True)
    with closing(sqlite3.connect(to, isolation_level=None)) as copy:
        copy.execute("PRAGMA journal_mode=OFF")
        copy.execute("PRAGMA synchronous=OFF")
        # In steps that return to Python: an interrupt comes through.
        connection.backup(copy, pages=_PAGES_A_STEP, progress=lambda *_: None)
    return to.read_bytes()


def _first_page(path: Path, header: bytes) -> bytes:
    """The header that the database has once its log is merged into it."""
    with contextlib.suppress(OSError), open(f"{path}-wal", "rb") as log:  # noqa: PTH123 - the suffix is no component
        start = log.read(_WAL_HEADER)
        size, salts = int.from_bytes(start[8:12], "big"), start[16:24]
        position, at = _WAL_HEADER, None
        while size:
            log.seek(position)
            frame = log.read(_FRAME_HEADER)
            if len(frame) < _FRAME_HEADER or frame[8:16] != salts:
                break
            position += _FRAME_HEADER
            if frame[:4] == b"\0\0\0\1":
                at = position
            if at is not None and frame[4:8] != b"\0\0\0\0":  # the last frame of a transaction
                log.seek(at)
                header, at = log.read(_HEADER_SIZE), None
            position += size
    return header


def _restore_counters(data: bytes, header: bytes) -> bytes:
    """Give the copy the counters of the original, if that is the same page in all else."""
    with_counters = bytearray(data[:_HEADER_SIZE])
    for place in _COUNTERS:
        with_counters[place] = header[place]
    return data if with_counters != header else header + data[_HEADER_SIZE:]


def _copy_apart(path: Path, scratch: Path) -> bytes:
    """Copy the files while they hold still, which is what a crash would leave, and let SQLite put that in order."""
    import sqlite3

    there = scratch / "database"
    names = ("", "-wal", "-journal")
    for _ in range(_TRIES):
        before = [_copy_state(path, suffix) for suffix in names]
        for suffix, state in zip(names, before, strict=True):
            target = Path(f"{there}{suffix}")
            target.unlink(missing_ok=True)
            if state is not None:
                with contextlib.suppress(FileNotFoundError):
                    shutil.copyfile(f"{path}{suffix}", target)
        if before == [_copy_state(path, suffix) for suffix in names]:
            break
    else:
        raise DatabaseLocked(f"changed while it was read, {_TRIES} times in a row")
    with closing(sqlite3.connect(there, isolation_level=None)) as connection:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return there.read_bytes()


def _copy_state(path: Path, suffix: str) -> tuple[int, int, int] | None:
    try:
        status = os.stat(f"{path}{suffix}")  # noqa: PTH116 - the suffix is no component
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
