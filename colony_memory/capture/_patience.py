"""Calls that may hang in the operating system, and what is done about it: they get a thread, and so long.

A file on a network or a user-space file system may never answer, and nothing ends a call that waits for it. So such
calls run in one thread of their own. A call that takes too long is left behind in its thread, and the next one gets
another.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from dataclasses import field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from colony_memory._values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
