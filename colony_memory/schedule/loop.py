"""A thread that makes runs at intervals, retries after errors, and runs once more at the end; and its clock."""

from __future__ import annotations

import contextlib
import math
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Generic, TypeVar

from colony_memory._values import Value
from colony_memory.exceptions import ColonyMemoryError, RateLimited, VaultError

#: Seconds. The longest wait that a vault may ask for: a bad Retry-After must not end the backups for good.
LONGEST_ASKED = 86_400.0
#: Seconds. The longest sleep in one piece: the clock that measures it may stop while the machine is suspended.
LOOK = 30.0
# Seconds. The wait after the first of a run of errors; each further one doubles it.
_FIRST_RETRY = 30.0

_R = TypeVar("_R")
_M = TypeVar("_M")


def require_seconds(name: str, value: object, *, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= most:
        bound = "" if most == math.inf else f" and up to {most:.0f}"
        raise ValueError(f"{name} must be a number of seconds above 0{bound}, not {value!r}")
    return float(value)


class Clock:
    """A clock that goes on while the machine is suspended, and never goes back."""

    def __init__(self) -> None:
        # One tuple, replaced whole: any thread and signal handler may look at any moment.
        self._last = (*self._read(), 0.0)

    @staticmethod
    def _read() -> tuple[float, float]:
        """The wall clock, and one that nobody sets but that may stop in suspend."""
        boottime = getattr(time, "CLOCK_BOOTTIME", None)  # of Linux; it counts the time in suspend
        return time.time(), time.monotonic() if boottime is None else time.clock_gettime(boottime)

    def now(self) -> float:
        """Seconds since this clock was made."""
        (wall, steady, total), (wall_now, steady_now) = self._last, self._read()
        # After a suspend the wall clock may be the only one that went on; if it was set back, only the other one did.
        # If it was set ahead, one run comes early.
        total += max(0.0, wall_now - wall, steady_now - steady)
        self._last = (wall_now, steady_now, total)
        return total

    def get(self, inbox: queue.SimpleQueue[_M], timeout: float) -> _M | None:
        """The next message, or None if none comes in time."""
        try:
            # Windows cannot interrupt a sleep, and a signal has to wait for its end there.
            return inbox.get(timeout=min(timeout, 1.0) if os.name == "nt" else timeout)
        except queue.Empty:
            return None


class Outcome(Value, Generic[_R]):
    """The outcome of a run: a result or an error, such as the rate limit that held it up."""

    when: datetime  # when it ended, in UTC
    next_in: float = math.inf  # seconds from there to the next run
    result: _R | None = None  # what it returned
    error: BaseException | None = None  # its failure
    failures: int = 0  # errors in a row: up to this one, or before this success
    final: bool = False  # made because of the end


class Request(Generic[_R]):
    """A request for a run, which must begin before a deadline. Safe to wait for in a signal handler."""

    def __init__(self, timeout: float, *, final: bool = True, end: bool = False) -> None:
        self.final = final
        self.end = end
        self.done = False
        self.missed = False  # its deadline passed before it could begin
        self.outcome: Outcome[_R] | None = None
        # Not by the loop's clock, which jumps if the wall clock is set: this is for seconds of work.
        self._deadline = time.monotonic() + timeout
        self._done = threading.Lock()
        self._done.acquire()

    def remaining(self) -> float:
        """Seconds until the deadline, not below 0."""
        return max(0.0, self._deadline - time.monotonic())

    def finish(self) -> None:
        """Release the caller that waits."""
        self.done = True
        self._done.release()

    def wait(self) -> None:
        """Wait until it is done or the deadline has passed; for one caller."""
        # In short pieces, as a signal that comes just before a sleep does not cut it short.
        while not self._done.acquire(timeout=min(self.remaining(), 0.2)) and self.remaining() > 0:
            pass


class Loop(Generic[_R]):
    """Saves when due, in a daemon thread, until the end; a subclass defines ``_save`` and ``_report``."""

    _save: Callable[[], _R]
    _report: Callable[[Outcome[_R]], object]

    def __init__(
        self,
        name: str,
        *,
        every: float,
        longest_retry: float,
        share: Callable[[], float] = lambda: 1.0,
        clock: Clock | None = None,
    ) -> None:
        self._name, self._every, self._longest_retry, self._share = name, every, longest_retry, share
        self._clock = clock or Clock()
        self._due = math.inf
        self._failures = 0  # errors in a row
        self._barred_until = -math.inf  # when the vault's rate limit ends
        #: Time in UTC of the latest success, None before the first.
        self.last_success: datetime | None = None
        #: The error of the latest try, None after a success.
        self.last_error: BaseException | None = None
        self._last_result: _R | None = None
        self._closed = False  # later results are not wanted any more

        # A signal handler interrupts the main thread anywhere, so they must not share a lock that is waited for without
        # end, nor an Event, which has such a lock inside: SimpleQueue.put is reentrant.
        self._inbox: queue.SimpleQueue[Request[_R]] = queue.SimpleQueue()
        self._began: float | None = None  # start of the run under way
        self._thread: threading.Thread | None = None
        self._pid = -1
        self._finished = False  # the thread answers no more requests
        self._late: Request[_R] | None = None  # a request that was waited for in vain

    def _start(self) -> None:
        """Start the thread; once."""
        if self._thread is not None:
            raise RuntimeError("this can be entered only once: make a new one")
        self._pid = os.getpid()
        self._due = self._clock.now() + self._every
        # It also makes the final run, since no thread can be started at the interpreter's exit.
        thread = threading.Thread(target=self._work, name=self._name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            raise ColonyMemoryError(f"no backups can be made alongside this program: {error}") from error
        self._thread = thread

    @property
    def running(self) -> bool:
        """True while the timer is on: from entering the block to leaving it, in the process that entered it."""
        return self._thread is not None and self._is_own_process and not (self._closed or self._finished)

    @property
    def _is_own_process(self) -> bool:
        """False in a forked child, which has no thread."""
        return os.getpid() == self._pid

    @property
    def next_run(self) -> datetime | None:
        """Time of the next run, in UTC; None outside of the block, and if only the final one is made."""
        wait = self._due - self._clock.now()
        if not self.running or not wait < 1e9:
            return None
        return datetime.now(timezone.utc) + timedelta(seconds=max(0.0, wait))

    def _post(self, timeout: float, *, final: bool = True, end: bool = False) -> Request[_R]:
        """Have the thread begin a run within ``timeout`` seconds; with ``end``, its last one."""
        late = self._late is not None and not self._late.done
        # It hangs in a run that was waited for already, as when a signal handler exits and so leads to the end.
        request: Request[_R] = Request(0.0 if late else timeout, final=final, end=end)
        self._inbox.put(request)
        if self._finished:  # in this order, as the thread answers the rest of the inbox after it has set this
            self._answer_all()
        return request

    # The thread.

    def _work(self) -> None:
        try:
            while True:
                request = self._clock.get(self._inbox, min(self._wait(), LOOK))
                if request is None:
                    if self._wait() == 0:
                        self._perform()
                    continue
                request.missed = request.remaining() == 0
                try:
                    if not request.missed:
                        request.outcome = self._perform(final=request.final)
                finally:
                    request.finish()
                if request.end:
                    return
        finally:
            self._finished = True
            self._answer_all()

    def _wait(self) -> float:
        return max(0.0, self._due - self._clock.now())

    def _answer_all(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                self._inbox.get_nowait().finish()

    def _perform(self, *, final: bool = False) -> Outcome[_R]:
        error: BaseException | None = None
        result: _R | None = None
        failures, barred = self._failures, self._barred_until - self._clock.now()
        if barred > 0:
            error = RateLimited(f"the vault's rate limit holds for {barred:.0f} s more", retry_after=barred)
        else:
            self._began = self._clock.now()
            try:
                result = self._save()
            except BaseException as caught:  # noqa: BLE001 - reported, as all of this thread
                error = caught
            self._began = None
            failures = self._note(result, error)
        now = datetime.now(timezone.utc)
        outcome = Outcome(now, self._due - self._clock.now(), result, error, failures, final)
        try:
            self._report(outcome)
        except Exception:  # noqa: BLE001 - such as a log handler's: reported as any thread's, which goes on
            threading.excepthook(threading.ExceptHookArgs([*sys.exc_info(), threading.current_thread()]))
        return outcome

    def _note(self, result: _R | None, error: BaseException | None) -> int:
        """Plan the next run, and return the number of errors in a row."""
        now, failures = self._clock.now(), self._failures
        self.last_error = error
        if error is None:
            self._due, self._failures = now + self._every, 0
            self._last_result, self.last_success = result, datetime.now(timezone.utc)
            return failures
        pause = 0.0
        if isinstance(error, VaultError) and error.retry_after is not None:
            pause = min(max(0.0, error.retry_after), LONGEST_ASKED)
        if isinstance(error, RateLimited):
            self._barred_until = now + pause
        wait = min(self._longest_retry, _FIRST_RETRY * 2.0 ** min(failures, 20))
        self._due, self._failures = now + max(wait * self._share(), pause), failures + 1
        return self._failures
