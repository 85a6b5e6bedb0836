"""The bytes of open files as they were at one moment, by calls that may hang."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from colony_memory._os.paths import is_file
from colony_memory._values import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from colony_memory._os.directory import Directory


_Answer = TypeVar("_Answer")

_SECONDS_TO_TIDY_UP = 2.0


class TookTooLong(Exception):
    """It did not end in time; the text says what time that was."""


@dataclass
class Deadline:
    """When a call has to end. Whoever works in steps asks between them.

    Attributes:
        seconds: How long it has in all.
    """

    seconds: float
    _end: float = field(init=False)
    _called_off: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._end = time.monotonic() + self.seconds

    def check(self) -> None:
        """Go on, or not.

        Raises:
            TookTooLong: Time is up, or nobody waits any more.
        """
        if self._called_off or time.monotonic() > self._end:
            raise TookTooLong(f"not read within {round(self.seconds, 2):g} seconds")

    def call_off(self) -> None:
        """Nobody waits any more."""
        self._called_off = True


@dataclass
class _Call(Generic[_Answer]):
    function: Callable[[Deadline], _Answer]
    deadline: Deadline
    ended: threading.Event = field(default_factory=threading.Event)
    answer: _Answer | None = None
    error: BaseException | None = None

    def run(self) -> None:
        try:
            self.answer = self.function(self.deadline)
        except BaseException as error:  # noqa: BLE001 - raised where the answer is waited for
            self.error = error
        self.ended.set()


class Patience:
    """Runs calls one after the other."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[_Call[Any] | None] | None = None
        self._thread: threading.Thread | None = None

    def run(self, function: Callable[[Deadline], _Answer], *, seconds: float) -> _Answer:
        """What the function gives or raises.

        Args:
            function: Gets a deadline that it may ask.
            seconds: How long it has.

        Raises:
            TookTooLong: It did not end. It may still go on, to no effect.
        """
        call = _Call(function, Deadline(seconds))
        if self._calls is None:
            self._calls = queue.SimpleQueue()
            self._thread = threading.Thread(
                target=_serve, args=(self._calls,), name="colony-memory-reading", daemon=True
            )
            self._thread.start()
        self._calls.put(call)
        try:
            if not call.ended.wait(seconds):
                raise TookTooLong(f"not read within {round(seconds, 2):g} seconds")
        except BaseException:
            self._leave()
            # What works in steps ends by itself now, and tidies up.
            call.deadline.call_off()
            call.ended.wait(_SECONDS_TO_TIDY_UP)
            raise
        if call.error is not None:
            try:
                raise call.error
            finally:
                call.error = None  # which would refer to this very frame
        return call.answer  # type: ignore[return-value]

    def close(self) -> None:
        """End the thread. It has nothing to do any more, so that whoever forks afterwards forks no thread of ours."""
        thread = self._thread
        self._leave()
        if thread is not None:
            thread.join()

    def _leave(self) -> None:
        """Have the thread end when its call does, if ever."""
        if self._calls is not None:
            self._calls.put(None)
            self._calls = self._thread = None


@contextlib.contextmanager
def patience() -> Iterator[Patience]:
    """For the length of a ``with``."""
    one = Patience()
    try:
        yield one
    finally:
        one.close()


def _serve(calls: queue.SimpleQueue[_Call[Any] | None]) -> None:
    while (call := calls.get()) is not None:
        call.run()
        del call  # with what it gave


TRIES = 3
LARGE = 1 << 16
"""Bytes from which on a file is a large one."""

_STEP, _AT_ONCE = 1 << 17, 1 << 26  # memory of this size is used again; what is read in one need not be copied


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


def read_steadily(descriptor: int, *, limit: int, deadline: Deadline, size: int | None = None) -> bytes | bytearray:
    """What a file held when the reading began; of a large one, read once.

    Args:
        descriptor: It.
        limit: Most bytes that it may have.
        deadline: When that has to be done.
        size: Read no more than so many of its bytes.

    Raises:
        TooLarge: It has more bytes; none was read.
        Unsteady: It changed, each time.
    """
    for _ in range(TRIES):
        data = read_bytes(descriptor, limit=limit, deadline=deadline, size=size)
        if data is None or (len(data) < LARGE and not still_holds(descriptor, data, deadline=deadline)):
            continue
        if _read_at(descriptor, 1, len(data)) and os.fstat(descriptor).st_size == len(data):
            raise OSError(None, "has more bytes than the file system says")
        return data
    raise Unsteady("changed each time that it was read")


def read_bytes(descriptor: int, *, limit: int, deadline: Deadline, size: int | None = None) -> bytes | bytearray | None:
    """The bytes that a file has now, no more than ``size``, or None where it shrank meanwhile.

    Raises:
        TooLarge: It has more than ``limit``; none was read.
    """
    there = os.fstat(descriptor).st_size
    size = there if size is None else min(size, there)
    if size > limit:
        raise TooLarge(size)
    at_once = _read_at(descriptor, size, 0) if size <= _AT_ONCE else b""
    if len(at_once) == size:
        return at_once
    data = bytearray(size)
    for start in range(0, size, _STEP):
        deadline.check()
        step = read_range(descriptor, min(_STEP, size - start), start)
        data[start : start + len(step)] = step
        if len(step) < min(_STEP, size - start):
            return None
    return data


def read_start(descriptor: int, size: int) -> bytes:
    """The first bytes of a file, as many as there are."""
    return read_range(descriptor, size, 0)


def still_holds(descriptor: int, data: bytes | bytearray, *, deadline: Deadline) -> bool:
    """Whether a file still begins with these bytes."""
    for start, end in _other_steps(len(data)):
        deadline.check()
        expected = data[start:end]
        if read_range(descriptor, len(expected), start) != expected:
            return False
    return True


def _other_steps(length: int) -> Iterator[tuple[int, int]]:
    """Where the second reading begins and ends each step: elsewhere than the first, whose seams could fit twice."""
    start, end = 0, _STEP // 3
    while start < length:
        yield start, min(end, length)
        start, end = end, end + _STEP


def read_range(descriptor: int, size: int, position: int) -> bytes:
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
