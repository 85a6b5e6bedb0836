"""Backup on a timer, at exit and on SIGTERM.

::

    with mem.autobackup(lambda: read_folder("memory").documents, every=900, prune_keep=20):
        run_agent()

Memory is saved every 15 minutes while the block runs, and once more when it is left, by whatever way: at its end, by
an exception, at the interpreter's exit, by SIGTERM. Nothing can be saved after SIGKILL or ``os._exit()``.

There is no twin for :class:`AsyncColonyMemory`: there a task does it, ``await mem.backup(…)`` after each
``await asyncio.sleep(…)``, and once more in its ``finally``. A :class:`ColonyMemory` may be used beside a running
event loop; leaving the block then stops the loop for as long as the final backup takes.
"""

from __future__ import annotations

import atexit
import logging
import math
import os
import queue
import signal
import threading
import time
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from colony_memory._format.names import require_label
from colony_memory.exceptions import ColonyMemoryError, RateLimited
from colony_memory.schedule.waits import LONGEST_ASKED, asked_wait, require_seconds, retry_delay

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from colony_memory.client import ColonyMemory
    from colony_memory.snapshot import SnapshotInfo

__all__ = ["Autobackup"]

_logger = logging.getLogger(__name__)

# Seconds. The longest wait in one piece, since locks take no infinity.
_PIECE = 3600.0
_SAVE, _END, _WATCH = "save", "end", "watch"


class Autobackup:
    """Saves what ``collect()`` returns, every ``every`` seconds and once more at the end; made for one ``with``.

    Nothing here raises into the agent. What goes wrong is in :attr:`last_error` and in the log: a warning for the
    first error of a run, the second, the fourth, the eighth and so on, and for every failed final backup.

    **When.** First after ``every`` seconds, then ``every`` seconds after the end of each backup. After an error
    already after 30 s, doubled with each further one up to ``every``, and never before a ``retry_after`` of the vault
    has passed (a day at most). Backups never overlap. Unchanged memory writes nothing and counts as a success.

    **The final backup** is made when the block is left, at the interpreter's exit, and on SIGTERM. It is made although
    the latest try failed, but not while a rate limit holds. After ``final_timeout`` seconds the process goes on
    without it; what ``collect()`` returns later than that is not saved, since the agent may be half gone by then.

    **SIGTERM** is handled where the block is entered in the main thread and the signal is not ignored. After the
    final backup the handler that was there before is called; where there was none, the process dies of the signal as
    ever (process 1 of a container, which the system spares, goes on until it is killed). Leaving the block puts the
    former handler back, unless another one was set meanwhile. Where a backup_now() of the main thread is interrupted,
    it is finished first, within the same time.

    **Beware** that on SIGTERM the main thread stands still, whatever it holds: a ``collect()`` that waits for a lock of
    the agent may wait in vain, until ``final_timeout``. In a forked child the block does nothing.

    Args:
        memory: Where to save.
        collect: Returns the documents, ``{name: text}``. It is called in the timer's thread (for backup_now() in the
            caller's), so it must be safe to run beside the agent. The dict is copied at once. Anything but a
            non-empty dict is an error, and nothing is saved then.
        every: Seconds between backups; ``math.inf`` for the final one alone.
        label: Stream to save to.
        final_timeout: Seconds that the final backup may take. A container is often killed 10 s after SIGTERM.
        clock: Seconds that only go up; for tests.
        backup_options: Handed to :meth:`ColonyMemory.backup`: ``prune_keep``, ``retention``, ``signer`` and so on.

    Attributes:
        last_success: Time in UTC of the latest success, None before the first.
        last_snapshot: The snapshot that it saved or found unchanged, None before the first.
        last_error: What the latest try failed of, None after a success.

    Raises:
        ValueError: A bad argument.
        TypeError: ``backup`` has no such option.
    """

    def __init__(
        self,
        memory: ColonyMemory,
        collect: Callable[[], dict[str, str]],
        *,
        every: float = 900.0,
        label: str = "default",
        final_timeout: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
        **backup_options: Any,
    ) -> None:
        _check_arguments(memory, collect, backup_options)
        self._memory = memory
        self._collect = collect
        self._every = require_seconds("every", every, most=math.inf)
        self._final_timeout = require_seconds("final_timeout", final_timeout, most=LONGEST_ASKED)
        self._label = require_label(label)
        self._clock = clock
        self._options = backup_options
        self.last_success: datetime | None = None
        self.last_snapshot: SnapshotInfo | None = None
        self.last_error: BaseException | None = None
        self._failures = 0
        self._due = math.inf
        self._limited_until = -math.inf

        # A signal handler runs on top of whatever the main thread is doing, so what it shares with it must not be
        # a lock that is waited for without end, nor an Event, which has one inside: SimpleQueue.put is reentrant.
        self._requests: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._owner: int | None = None  # thread that runs a backup, under the lock
        self._thread: threading.Thread | None = None
        self._pid = -1
        self._finished = False  # the thread answers no more
        self._closed = False  # the block is left
        self._late: _Request | None = None  # what was waited for in vain
        self._previous: Any = None
        self._terminating: _Request | None = None  # the SIGTERM being handled
        self._overdue = False

    @property
    def running(self) -> bool:
        """Whether the timer is on: from entering the block to leaving it, in the process that entered it."""
        return self._thread is not None and os.getpid() == self._pid and not (self._closed or self._finished)

    def __enter__(self) -> Autobackup:  # noqa: PYI034 - typing.Self is of 3.11
        if self._thread is not None:
            raise RuntimeError("an Autobackup is entered once: make another one")
        self._pid = os.getpid()
        self._due = self._clock() + self._every
        # The thread also makes the final backup: at the interpreter's exit none can be started any more.
        thread = threading.Thread(target=self._work, name=f"colony-memory-autobackup-{self._label}", daemon=True)
        thread.start()
        self._thread = thread
        atexit.register(self._finish)
        self._take_sigterm()
        return self

    def __exit__(self, *exc: object) -> None:
        try:
            self._finish()
        finally:
            atexit.unregister(self._finish)

    def backup_now(self) -> SnapshotInfo | None:
        """Make a backup in the caller's thread, after one that is under way.

        Returns:
            The snapshot, or None where it failed (see :attr:`last_error`) or a rate limit still holds.

        Raises:
            RuntimeError: Called outside the block, in a forked child, or from within ``collect()``.
        """
        if not self.running:
            raise RuntimeError("backup_now() works inside the with block only, in the process that entered it")
        me = threading.get_ident()
        if self._owner == me:
            raise RuntimeError("collect() must not call backup_now(): its result is being waited for")
        try:
            with self._lock:
                self._owner = me
                try:
                    return self._run(Exception)
                finally:
                    self._owner = None
        finally:
            self._requests.put(None)  # the timer looks when it is due now
            if self._terminating is not None and threading.current_thread() is threading.main_thread():
                self._end_sigterm(self._terminating, signal.SIGTERM, None)

    # One backup. All of it is called with the lock held.

    def _run(self, caught: type[BaseException], *, final: bool = False) -> SnapshotInfo | None:
        limited = self._limited_until - self._clock()
        if limited > 0:
            _logger.warning("no backup of label %r: the vault's rate limit holds for %.0f s", self._label, limited)
            return None
        try:
            documents = self._collect()
            if not isinstance(documents, dict) or not documents:
                what = "an empty dict" if documents == {} else f"a {type(documents).__name__}"
                msg = f"collect() must return a non-empty {{name: text}} dict, not {what}: nothing was saved"
                raise ValueError(msg)
            documents = dict(documents)
            if self._closed:
                raise TimeoutError("collect() returned only after the block was left: nothing was saved")
            info = self._memory.backup(documents, label=self._label, **self._options)
        except caught as error:
            self._note_failure(error, final=final)
            return None
        self._note_success(info)
        return info

    def _note_success(self, info: SnapshotInfo) -> None:
        failures, self._failures = self._failures, 0
        self.last_snapshot, self.last_success, self.last_error = info, datetime.now(timezone.utc), None
        self._due = self._clock() + self._every
        if failures:
            _logger.info("backups of label %r work again, after %d errors", self._label, failures)

    def _note_failure(self, error: BaseException, *, final: bool) -> None:
        self.last_error = error
        self._failures += 1
        now = self._clock()
        if isinstance(error, RateLimited):
            self._limited_until = now + asked_wait(error)
        self._due = now + retry_delay(error, failures=self._failures, longest=self._every)
        # The 1st, 2nd, 4th, 8th of a run.
        loud = final or self._failures & (self._failures - 1) == 0
        _logger.log(
            logging.WARNING if loud else logging.DEBUG,
            "%s of label %r failed: %s: %s (error %d in a row, last success: %s)",
            "the final backup" if final else "backup",
            self._label,
            type(error).__name__,
            error,
            self._failures,
            self.last_success or "none",
            exc_info=None if isinstance(error, ColonyMemoryError) else error,
        )

    # The thread.

    def _work(self) -> None:
        try:
            while True:
                request = self._next_request()
                if request is not None:
                    self._serve(request)
                    if request.kind == _END:
                        return
                elif self._lock.acquire(blocking=False):
                    try:
                        if self._clock() >= self._due:
                            self._run_here()
                    finally:
                        self._lock.release()
        finally:
            self._finished = True
            while not self._requests.empty():
                request = self._requests.get()
                if request is not None:
                    request.finish()

    def _next_request(self) -> _Request | None:
        """What is asked for, or None where a backup may be due."""
        # A backup_now() under way sets when the next one is due, and tells.
        wait = _PIECE if self._owner is not None else min(max(0.0, self._due - self._clock()), _PIECE)
        try:
            return self._requests.get(timeout=wait)
        except queue.Empty:
            return None

    def _serve(self, request: _Request) -> None:
        try:
            if self._lock.acquire(timeout=request.left()):
                try:
                    if request.kind != _WATCH and request.left() > 0:
                        self._run_here(final=True)
                finally:
                    self._lock.release()
            elif self._terminating is request:
                _logger.warning("SIGTERM does not wait any longer for backup_now() of label %r", self._label)
                self._overdue = True
                os.kill(self._pid, signal.SIGTERM)
        finally:
            request.finish()

    def _run_here(self, *, final: bool = False) -> None:
        self._owner = threading.get_ident()
        try:
            # A sys.exit() in collect() would end this thread without a word, and the backups with it.
            self._run(BaseException, final=final)
        finally:
            self._owner = None

    # The end.

    def _finish(self) -> None:
        try:
            if os.getpid() == self._pid:
                self._ask(_END, self._final_timeout)
        finally:
            self._closed = True
            self._give_sigterm_back()

    def _ask(self, kind: str, timeout: float) -> None:
        """Have the thread make a backup, and wait for it. Safe in a signal handler."""
        late = self._late is not None and not self._late.done
        # It still hangs in what was waited for already: a handler that exits leads from SIGTERM to here.
        request = _Request(kind, 0.0 if late else timeout)
        self._requests.put(request)
        # In this order, since the thread finishes whatever is there after it has said so.
        if self._finished or request.wait():
            return
        self._late = request
        msg = f"the final backup was not done within {self._final_timeout:g} s"
        self.last_error = TimeoutError(msg)
        _logger.warning("label %r: %s; last success: %s", self._label, msg, self.last_success or "none")

    def _take_sigterm(self) -> None:
        previous = signal.getsignal(signal.SIGTERM)
        if previous is signal.SIG_DFL or callable(previous):
            self._previous = previous
            try:
                signal.signal(signal.SIGTERM, self._on_sigterm)
            except ValueError:
                _logger.debug("SIGTERM is not handled: the block was not entered in the main thread")

    def _give_sigterm_back(self) -> None:
        if signal.getsignal(signal.SIGTERM) == self._on_sigterm:
            try:
                signal.signal(signal.SIGTERM, self._previous)
            except ValueError:
                _logger.debug("the SIGTERM handler stays, and passes on: the block was not left in the main thread")

    def _on_sigterm(self, signum: int, frame: FrameType | None) -> None:
        if os.getpid() != self._pid or self._closed or self._overdue:
            self._pass_on(signum, frame)
        elif self._terminating is None:  # a second signal changes nothing
            self._terminating = _Request(_WATCH, self._final_timeout)
            if self._owner == threading.get_ident():
                # This interrupted backup_now(), which can go on only after a return. It comes back to it; the thread
                # watches the time.
                self._requests.put(self._terminating)
            else:
                self._end_sigterm(self._terminating, signum, frame)

    def _end_sigterm(self, request: _Request, signum: int, frame: FrameType | None) -> None:
        try:
            self._ask(_SAVE, request.left())
        finally:
            self._terminating = None
        self._pass_on(signum, frame)

    def _pass_on(self, signum: int, frame: FrameType | None) -> None:
        self._terminating, self._overdue = None, False
        if callable(self._previous):
            self._previous(signum, frame)
        else:
            signal.signal(signum, signal.SIG_DFL)
            os.kill(os.getpid(), signum)


class _Request:
    """Something that the thread is to do until a certain time; waited for by one thread at most."""

    __slots__ = ("_done", "deadline", "done", "kind")

    def __init__(self, kind: str, timeout: float) -> None:
        self.kind = kind
        self.deadline = time.monotonic() + timeout
        self.done = False
        self._done = threading.Lock()
        self._done.acquire()

    def left(self) -> float:
        """Seconds until then, not below 0."""
        return max(0.0, self.deadline - time.monotonic())

    def finish(self) -> None:
        self.done = True
        self._done.release()

    def wait(self) -> bool:
        """Whether it is done in time."""
        return self._done.acquire(timeout=self.left())


def _check_arguments(memory: Any, collect: Any, options: dict[str, Any]) -> None:
    import inspect  # slow to import

    from colony_memory._engine.keep import policy_of

    if inspect.iscoroutinefunction(memory.backup) or inspect.iscoroutinefunction(collect):
        raise ValueError("autobackup runs in a thread and takes no coroutines: with AsyncColonyMemory, use a task")
    if not callable(collect):
        msg = f"collect must be a function that returns the documents, not a {type(collect).__name__}"
        raise ValueError(msg)  # noqa: TRY004 - one type for every bad argument
    inspect.signature(memory.backup).bind({}, label="default", **options)
    # What every backup would refuse is refused here, where somebody sees it.
    policy_of(options.get("prune_keep"), options.get("retention"))
    if options.get("on_conflict", "raise") not in ("raise", "continue"):
        msg = f"on_conflict must be 'raise' or 'continue', not {options['on_conflict']!r}"
        raise ValueError(msg)
