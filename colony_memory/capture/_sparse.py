"""Files with holes: what is nowhere on the disk is no size, neither here nor in a snapshot.

Such a file is held, and saved, as what is not zero in it, with a line before that says how long it is and where that
goes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from typing_extensions import Self

MAGIC = b"colony-memory/sparse/1 "
HOLES = 1 << 20
"""Bytes in holes from which on a file is one of these."""


class Sparse(bytes):
    """A file with holes, as a snapshot has it; ValueError where the bytes are none."""

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


def as_sparse(data: bytes) -> bytes:
    """What a snapshot has of a file without holes: that it begins like one with holes must not make it one."""
    if not data.startswith(MAGIC):
        return data
    return Sparse(b"%s%d 0 %d\n%s" % (MAGIC, len(data), len(data), data))


def room_of(status: os.stat_result) -> int:
    """How many bytes of a file there are to be read: what is in holes is none."""
    blocks = getattr(status, "st_blocks", None)
    room = status.st_size if blocks is None else blocks * 512
    return room if status.st_size - room >= HOLES else status.st_size
