"""The bytes of one file as they were at one moment."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from colony_memory._os.paths import UnfitFile
from colony_memory._values import dataclass, replace
from colony_memory.capture._sparse import HOLES, Sparse, as_sparse, read_sparse, room_of
from colony_memory.capture._steady import HEADER, Unsteady, companions_in, is_database, read_start, read_steadily

if TYPE_CHECKING:
    import os

    from colony_memory._os.directory import Directory
    from colony_memory.capture._steady import Deadline

VANISHED = "vanished before it was read"
NO_FILE = "no longer a file when it was read"


class NotSaved(Exception):
    """A file that cannot be read whole; the text is the reason.

    Attributes:
        parts: Files beside it that are a part of it.
    """

    def __init__(self, reason: str, *, parts: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.parts = parts


@dataclass(frozen=True)
class Contents:
    """What a file held.

    Attributes:
        data: Its bytes; of an SQLite database those that all its committed transactions give.
        status: What the system says of it.
        is_database: Whether it was read as an SQLite database.
        parts: Files beside it that are in ``data`` too.
        note: What is odd about it, or empty.
    """

    data: bytes | bytearray
    status: os.stat_result
    is_database: bool = False
    parts: tuple[str, ...] = ()
    note: str = ""


class NeverStill(NotSaved):
    """It changed each time that it was read."""


def read_contents(place: Directory, name: str, *, limit: int, deadline: Deadline, size: int | None = None) -> Contents:
    """Read a file as it was when that began.

    Args:
        place: The directory that it is in.
        name: The file, as the system has it.
        limit: Most bytes that it may have.
        deadline: When that has to be done.
        size: Read no more than so many of its bytes; a database is read whole.

    Raises:
        NotSaved: It never held still (:class:`NeverStill`), or is a database that cannot be copied.
        TooLarge: It has more bytes than ``limit``.
        TookTooLong: It was not read in time.
        OSError: It cannot be read.
    """
    with place.file(name) as (descriptor, status):
        if not is_database(read_start(descriptor, len(HEADER))):
            return _read_plain(descriptor, status, limit=limit, deadline=deadline, size=size)
    from colony_memory.capture.sqlite import DatabaseDamaged, DatabaseLocked, NotMerged, read_database

    parts = companions_in(place, name)  # what they are shows when they are read
    try:
        copy = read_database(place, name, limit=limit, deadline=deadline)
    except (DatabaseLocked, NotMerged) as error:
        raise NotSaved(str(error), parts=parts) from error
    except OSError as error:
        raise NotSaved(reason_of(error), parts=parts) from error
    except DatabaseDamaged as damaged:
        # Then the files beside it are files like others.
        with place.file(name) as (descriptor, status):
            plain = _read_plain(descriptor, status, limit=limit, deadline=deadline)
        return replace(plain, note=f"looks like an SQLite database and is saved as it is: {damaged}")
    return Contents(copy.data, status, is_database=True, parts=copy.parts)


def _read_plain(
    descriptor: int, status: os.stat_result, *, limit: int, deadline: Deadline, size: int | None = None
) -> Contents:
    if size is None and room_of(status) < status.st_size:
        sparse = read_sparse(descriptor, limit=limit, deadline=deadline)
        if sparse.size - len(sparse) >= HOLES:
            return Contents(sparse, status)
    try:
        return Contents(read_steadily(descriptor, limit=limit, deadline=deadline, size=size), status)
    except Unsteady as unsteady:
        raise NeverStill(str(unsteady)) from unsteady


def up_to_last_line(data: bytes) -> tuple[bytes, str]:
    """What is saved of a file that had these bytes, and more behind them a moment later; and what to say of it."""
    lines = data[: data.rfind(b"\n") + 1]
    if lines and _is_text(lines):
        return lines, f"grew while it was read: saved up to its last whole line, {len(lines)} B"
    # There are no lines to cut at, and this is what it was at one moment.
    return data, "grew while it was read: saved as it was when that began"


def as_bytes(content: str | bytes) -> bytes:
    """The bytes of a file that was read."""
    return content if isinstance(content, bytes) else content.encode("utf-8")


def _is_text(data: bytes | bytearray) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def reason_of(error: Exception) -> str:
    """Say in a few words why something could not be read."""
    if isinstance(error, UnfitFile):
        return NO_FILE
    if isinstance(error, FileNotFoundError):
        return VANISHED
    if isinstance(error, PermissionError):
        return "not readable: permission denied"
    return getattr(error, "strerror", None) or str(error)


def as_content(data: bytes | bytearray) -> str | bytes:
    """Bytes of a file as text, where they are that."""
    if isinstance(data, Sparse):
        return data
    with contextlib.suppress(UnicodeDecodeError):
        return data.decode("utf-8")
    return as_sparse(bytes(data))
