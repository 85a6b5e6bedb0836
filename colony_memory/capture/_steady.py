"""The bytes of one file at one moment; of a file with holes, the parts that are not zero.

A snapshot has those behind a line with the length of the file and the positions of the parts.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from colony_memory._os.paths import UnfitFile, is_file
from colony_memory._values import Value
from colony_memory.capture._filenames import COMPANIONS, INDEX

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Self

    from colony_memory._os.directory import Directory

TRIES = 3
LARGE = 1 << 16
"""Bytes from which on a file is a large one."""
_STEP = 1 << 17  # blocks of this size are reused by the allocator
_AT_ONCE = 1 << 30  # some systems refuse to read more
_SPARSE_STEP, _PAGE = 1 << 20, 1 << 12

HEADER = b"SQLite format 3\0"
MAGIC = b"colony-memory/sparse/1 "
HOLES = 1 << 20
"""Bytes in holes from which on a file is one of these."""

VANISHED = "vanished before it was read"
NO_FILE = "no longer a file when it was read"
CHANGED = "changed each time that it was read"


class NotSaved(Exception):
    """Raised for a file that cannot be read as a whole, with the companions that are its parts; says why."""

    def __init__(self, reason: str, *, parts: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.parts = parts


class TooLarge(Exception):
    """Raised for a file with more bytes, ``size``, than there is room for."""

    def __init__(self, size: int) -> None:
        super().__init__(f"too large, {size} bytes")
        self.size = size


class Contents(Value):
    """The contents of a file."""

    data: bytes | bytearray  # of an SQLite database, with all committed transactions
    status: os.stat_result
    is_database: bool = False
    parts: tuple[str, ...] = ()  # companions whose data is in `data`
    note: str = ""  # a remark for the user


def read_plain(descriptor: int, status: os.stat_result, *, limit: int, size: int | None = None) -> Contents:
    """Read up to ``size`` bytes of a file as it was when the reading began: NotSaved, TooLarge, OSError."""
    if size is None and room_of(status) < status.st_size:
        sparse = read_sparse(descriptor, limit=limit)
        if sparse.size - len(sparse) >= HOLES:
            return Contents(sparse, status)
    for _ in range(TRIES):
        data = read_bytes(descriptor, limit=limit, size=size)
        if data is None or (len(data) < LARGE and not still_holds(descriptor, data)):
            continue
        if _read_at(descriptor, 1, len(data)) and os.fstat(descriptor).st_size == len(data):
            raise OSError(None, "has more bytes than the file system says")
        return Contents(data, status)
    raise NotSaved(CHANGED)


def read_bytes(descriptor: int, *, limit: int, size: int | None = None) -> bytes | bytearray | None:
    """The present bytes of a file, up to ``size``; None if it shrank meanwhile, TooLarge above ``limit``."""
    available = os.fstat(descriptor).st_size
    size = available if size is None else min(size, available)
    if size > limit:
        raise TooLarge(size)
    data = read_range(descriptor, size, 0)
    return data if len(data) == size else None


def still_holds(descriptor: int, data: bytes | bytearray) -> bool:
    # The blocks begin elsewhere than in the first reading: both could be torn in the same way at the same seams.
    start, end = 0, _STEP // 3
    while start < len(data):
        expected = data[start:end]
        if read_range(descriptor, len(expected), start) != expected:
            return False
        start, end = end, end + _STEP
    return True


def read_start(descriptor: int, size: int) -> bytes:
    return bytes(read_range(descriptor, size, 0))


def read_range(descriptor: int, size: int, position: int) -> bytes | bytearray:
    """Up to ``size`` bytes from a position, also from file systems that give them piece by piece."""
    more = _read_at(descriptor, min(size, _AT_ONCE), position)
    if len(more) in (0, size):
        return more
    data = bytearray()
    while more:
        data += more
        more = _read_at(descriptor, min(size - len(data), _AT_ONCE), position + len(data))
    return data


if hasattr(os, "pread"):
    _read_at = os.pread
else:  # pragma: no cover - chosen by the platform

    def _read_at(descriptor: int, size: int, position: int) -> bytes:
        os.lseek(descriptor, position, os.SEEK_SET)
        return os.read(descriptor, size)


def read_sparse(descriptor: int, *, limit: int | None = None) -> Sparse:
    """Read a file except for its holes; TooLarge if more than ``limit`` bytes are not zero."""
    size = os.fstat(descriptor).st_size
    parts: list[tuple[int, bytearray]] = []
    total = 0
    for start, end in _filled(descriptor, size):
        for at in range(start, end, _SPARSE_STEP):
            step = read_range(descriptor, min(_SPARSE_STEP, end - at), at)
            for page in range(0, len(step), _PAGE):
                data = step[page : page + _PAGE]
                if data.count(0) == len(data):
                    continue
                total += len(data)
                if limit is not None and total > limit:
                    raise TooLarge(total)
                if parts and parts[-1][0] + len(parts[-1][1]) == at + page:
                    parts[-1][1].extend(data)
                else:
                    parts.append((at + page, bytearray(data)))
    words = [size, *(number for at, data in parts for number in (at, len(data)))]
    return Sparse(b"".join([MAGIC, " ".join(map(str, words)).encode("ascii"), b"\n", *(data for _, data in parts)]))


def _filled(descriptor: int, size: int) -> Iterator[tuple[int, int]]:
    """The ranges of a file outside holes, in whole pages, as far as the system tells."""
    at = 0
    while at < size:
        try:
            start = os.lseek(descriptor, at, os.SEEK_DATA) // _PAGE * _PAGE
            end = os.lseek(descriptor, start, os.SEEK_HOLE)
        except (OSError, AttributeError):  # only a hole is left, or the system does not tell
            if hasattr(os, "SEEK_DATA"):
                return
            start, end = at, size
        yield max(at, start), min(size, end)
        at = max(at + 1, -(-end // _PAGE) * _PAGE)


# --- files with holes


class Sparse(bytes):
    """A file with holes in the form of a snapshot; ValueError for bytes in another form."""

    size: int
    parts: tuple[tuple[int, int], ...]
    start: int

    def __new__(cls, data: bytes | bytearray) -> Self:
        found = super().__new__(cls, data)
        header = found[: max(0, found.find(b"\n"))]
        words = header.removeprefix(MAGIC).decode("ascii").split(" ")
        if not header.startswith(MAGIC) or not all(word.isdigit() for word in words) or len(words) % 2 != 1:
            raise ValueError("no file with holes")
        numbers = [int(word) for word in words]
        found.size, found.start = numbers[0], len(header) + 1
        found.parts = tuple(zip(numbers[1::2], numbers[2::2], strict=True))
        end = 0
        for at, length in found.parts:
            if at < end or not length:
                raise ValueError("a file with holes whose parts overlap")
            end = at + length
        if not end <= found.size < 1 << 63 or found.start + sum(length for _, length in found.parts) != len(found):
            raise ValueError("a file with holes of another size")
        return found

    def pieces(self) -> Iterator[tuple[int, memoryview]]:
        view, start = memoryview(self), self.start
        for at, length in self.parts:
            yield at, view[start : start + length]
            start += length

    def whole(self) -> bytes:
        data = bytearray(self.size)
        for at, piece in self.pieces():
            data[at : at + len(piece)] = piece
        return bytes(data)


def room_of(status: os.stat_result) -> int:
    """The bytes of a file to read: those outside holes."""
    blocks = getattr(status, "st_blocks", None)
    room = status.st_size if blocks is None else blocks * 512
    return room if status.st_size - room >= HOLES else status.st_size


# --- contents of files


def as_bytes(content: str | bytes) -> bytes:
    return content if isinstance(content, bytes) else content.encode("utf-8")


def as_content(data: bytes | bytearray) -> str | bytes:
    if isinstance(data, Sparse):
        return data
    with contextlib.suppress(UnicodeDecodeError):
        return data.decode("utf-8")
    # A plain file that begins like one with holes must not be taken for one.
    return Sparse(b"%s%d 0 %d\n%s" % (MAGIC, len(data), len(data), data)) if data.startswith(MAGIC) else bytes(data)


def up_to_last_line(data: bytes) -> tuple[bytes, str]:
    """The part to save of a file that had these bytes, then more, and a note about it."""
    lines = data[: data.rfind(b"\n") + 1]
    if lines and isinstance(as_content(lines), str):
        return lines, f"grew while it was read: saved up to its last whole line, {len(lines)} B"
    # Without lines to cut at, it is saved as it was at one moment.
    return data, "grew while it was read: saved as it was when that began"


def reason_of(error: Exception) -> str:
    if isinstance(error, UnfitFile):
        return NO_FILE
    if isinstance(error, FileNotFoundError):
        return VANISHED
    if isinstance(error, PermissionError):
        return "not readable: permission denied"
    return getattr(error, "strerror", None) or str(error)


# --- SQLite's files: names and first bytes


def is_database(data: bytes | bytearray) -> bool:
    return data.startswith(HEADER)


def holds_database(directory: Directory, name: str) -> bool:
    with contextlib.suppress(OSError), directory.file(name) as (descriptor, _):
        return is_database(read_start(descriptor, len(HEADER)))
    return False


def companions_of(name: str) -> tuple[str, ...]:
    """The names of the files next to a database that are a part of it while it is open."""
    return tuple(name + suffix for suffix in COMPANIONS)


def holds_own_data(name: str, status: os.stat_result) -> bool:
    """True if a companion of a database has data of its own: an index has none, nor has an empty log."""
    return status.st_size > 0 and not name.endswith(INDEX)


def has_file(directory: Directory, name: str) -> bool:
    with contextlib.suppress(OSError):
        return is_file(directory.look(name))
    return False
