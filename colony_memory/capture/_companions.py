"""What an SQLite database is, and which files beside it are a part of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colony_memory._os.kinds import is_file
from colony_memory.capture._steady import read_start

if TYPE_CHECKING:
    import os

    from colony_memory._os.directory import Directory

HEADER = b"SQLite format 3\0"
LOG, JOURNAL, INDEX = "-wal", "-journal", "-shm"
COMPANIONS = (JOURNAL, INDEX, LOG)


def is_database(data: bytes) -> bool:
    """Whether a file that starts like this is an SQLite database."""
    return data.startswith(HEADER)


def holds_database(directory: Directory, name: str) -> bool:
    """Whether there is an SQLite database of that name."""
    try:
        with directory.file(name) as (descriptor, _):
            return is_database(read_start(descriptor, len(HEADER)))
    except OSError:
        return False


def companions_of(name: str) -> tuple[str, ...]:
    """The names of the files beside a database that are a part of it while it is open."""
    return tuple(name + suffix for suffix in COMPANIONS)


def companions_in(directory: Directory, name: str) -> tuple[str, ...]:
    """Those of them that are there, as plain files."""
    return tuple(each for each in companions_of(name) if has_file(directory, each))


def whole_of(name: str) -> str:
    """The database that a file would be a part of by its name; else the file itself."""
    return next((name.removesuffix(suffix) for suffix in COMPANIONS if name.endswith(suffix)), name)


def holds_text(name: str, status: os.stat_result) -> bool:
    """Whether a file that may be beside a database holds what somebody wrote: an index does not, nor an empty log."""
    return status.st_size > 0 and not name.endswith(INDEX)


def has_file(directory: Directory, name: str) -> bool:
    """Whether a plain file has that name, as far as can be seen."""
    try:
        return is_file(directory.look(name))
    except OSError:
        return False
