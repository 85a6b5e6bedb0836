"""The bytes of open files as they were at one moment.

Neither size nor time of change tells whether a file held still: who writes through a memory map moves neither. So what
is read is read twice, and counts where both are the same. The writer of a large file may be stopped in the middle by
the system for a while; so of such a file the second reading has to come some time later, and is left to the caller.
"""

from __future__ import annotations

import hashlib
import os
import time
from typing import TYPE_CHECKING

from colony_memory._values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from colony_memory.capture._patience import Deadline

TRIES = 3
APART = 0.2
"""Seconds that have to lie between the two readings of a large file."""
LARGE = 1 << 16
"""Bytes from which on a file is a large one."""

_STEP = 1 << 20


class Unsteady(Exception):
    """It changed while it was read; the text says how."""


class TooLarge(Exception):
    """It has more bytes than there is room for.

    Attributes:
        size: How many.
    """

    def __init__(self, size: int) -> None:
        super().__init__(f"too large, {size} bytes")
        self.size = size


@dataclass(frozen=True)
class Bytes:
    """What a file held.

    Attributes:
        data: Its bytes when the reading began.
        grew: Whether more were appended meanwhile.
        proof: What tells later whether it holds them still; None where that is known already.
    """

    data: bytes | bytearray
    grew: bool = False
    proof: Proof | None = None


@dataclass(frozen=True)
class Proof:
    """What a file has to hold still some time after it was read.

    Attributes:
        length: How many bytes it had.
        digest: Of these.
        read_at: When they had been read.
    """

    length: int
    digest: bytes
    read_at: float

    @classmethod
    def of(cls, data: bytes | bytearray) -> Proof:
        """What these bytes have to be again."""
        return cls(len(data), hashlib.blake2b(data).digest(), time.monotonic())

    def wait(self, deadline: Deadline) -> None:
        """Let that time go by."""
        while (left := self.read_at + APART - time.monotonic()) > 0:
            deadline.check()
            time.sleep(min(left, APART / 4))

    def holds(self, descriptor: int, deadline: Deadline) -> bool:
        """Whether the file still begins with these bytes."""
        digest = hashlib.blake2b()
        for start, end in _other_steps(self.length):
            deadline.check()
            digest.update(_read_fully(descriptor, end - start, start))
        return digest.digest() == self.digest


def read_steadily(descriptor: int, *, limit: int, deadline: Deadline) -> Bytes:
    """Read a file that holds still, or that does no more than grow at its end; of a large one, once.

    Args:
        descriptor: It.
        limit: Most bytes that it may have.
        deadline: When that has to be done.

    Raises:
        TooLarge: It has more bytes; none was read.
        Unsteady: It changed, each time.
    """
    grown: Bytes | None = None
    for _ in range(TRIES):
        data = read_bytes(descriptor, limit=limit, deadline=deadline)
        if data is not None and len(data) >= LARGE:
            return Bytes(data, proof=Proof.of(data))
        if data is None or not still_holds(descriptor, data, deadline=deadline):
            continue
        more = _read_at(descriptor, 1, len(data))
        size = os.fstat(descriptor).st_size
        if size > len(data):
            grown = Bytes(data, grew=True)
        elif more:
            raise Unsteady("has more bytes than the file system says")
        elif size == len(data):
            return Bytes(data)
    if grown is None:
        raise Unsteady(f"changed while it was read, {TRIES} times in a row")
    return grown


def read_bytes(descriptor: int, *, limit: int, deadline: Deadline) -> bytearray | None:
    """The bytes that a file has now, or None where it shrank meanwhile.

    Raises:
        TooLarge: It has more than ``limit``; none was read.
    """
    size = os.fstat(descriptor).st_size
    if size > limit:
        raise TooLarge(size)
    data = bytearray(size)
    for start in range(0, size, _STEP):
        deadline.check()
        step = _read_fully(descriptor, min(_STEP, size - start), start)
        data[start : start + len(step)] = step
        if len(step) < min(_STEP, size - start):
            return None
    return data


def read_start(descriptor: int, size: int) -> bytes:
    """The first bytes of a file, as many as there are."""
    return _read_fully(descriptor, size, 0)


def still_holds(descriptor: int, data: bytes | bytearray, *, deadline: Deadline) -> bool:
    """Whether a file still begins with these bytes."""
    for start, end in _other_steps(len(data)):
        deadline.check()
        expected = data[start:end]
        if _read_fully(descriptor, len(expected), start) != expected:
            return False
    return True


def _other_steps(length: int) -> Iterator[tuple[int, int]]:
    """Where the second reading begins and ends each step: elsewhere than the first, whose seams could fit twice."""
    start, end = 0, _STEP // 3
    while start < length:
        yield start, min(end, length)
        start, end = end, end + _STEP


def _read_fully(descriptor: int, size: int, position: int) -> bytes:
    """As many bytes as there are, which some file systems give piece by piece."""
    data = _read_at(descriptor, size, position)
    while data and len(data) < size:
        more = _read_at(descriptor, size - len(data), position + len(data))
        if not more:
            break
        data += more
    return data


if hasattr(os, "pread"):
    _read_at = os.pread
else:  # pragma: no cover - chosen by the platform

    def _read_at(descriptor: int, size: int, position: int) -> bytes:
        os.lseek(descriptor, position, os.SEEK_SET)
        return os.read(descriptor, size)
