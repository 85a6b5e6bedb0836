"""Backups now and then every so often until the process is told to stop, for a process that does nothing else.

::

    mem = ColonyMemory(api_key="col_…")
    watch = Watch(lambda: mem.backup(read_folder("memory").documents), every=900, on_run=print)
    ended = watch.run()  # until SIGTERM or SIGINT

Inside of an agent, :meth:`ColonyMemory.autobackup` does it on a timer, beside the agent's own work.
"""

from __future__ import annotations

import contextlib
import os
import queue
import random
import signal
import threading
import time
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from colony_memory.exceptions import (
    BackupUncertain,
    ColonyMemoryError,
    ConflictDetected,
    PruneIncomplete,
    QuotaExceeded,
    RateLimited,
    VaultUnavailable,
    message_of,
)
from colony_memory.schedule.last_run import LastRun, last_run_path, only_one, read_last_run, write_last_run
from colony_memory.schedule.waits import LONGEST_ASKED, asked_wait, require_seconds, retry_delay

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from colony_memory.snapshot import SnapshotInfo

__all__ = ["Ended", "LastRun", "Saved", "Watch", "last_run_path", "mends_itself", "read_last_run"]

# Seconds.
_LONGEST_EVERY = 3650 * 86_400.0
_LONGEST_RETRY = 3600.0
# The longest wait in one piece. Windows cannot interrupt one, and a signal has to wait for its end there.
_PIECE = 1.0 if os.name == "nt" else 3600.0
_LEAST_PATIENCE = 60.0
# A bad argument, a refused key or a bug stays until somebody does something about it; these may go by themselves.
_MENDING = (BackupUncertain, ConflictDetected, PruneIncomplete, QuotaExceeded, RateLimited, VaultUnavailable)
_NAMED = 3


@dataclass(frozen=True)
class Saved:
    """What one run saved.

    Attributes:
        snapshot_id: The snapshot that was made or found unchanged.
        reused: Whether nothing had changed.
        left_out: What was not saved, each with the reason.
    """

    snapshot_id: str
    reused: bool = False
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ended:
    """How a watch ended.

    Attributes:
        last: The last backup, made when it was told to stop.
        error: What that failed of, or None.
    """

    last: LastRun
    error: BaseException | None


@dataclass(frozen=True)
class _Outcome:
    """What a run came to: one of the two."""

    saved: Saved | None = None
    error: BaseException | None = None


def mends_itself(error: BaseException) -> bool:
    """Whether an error may be gone at the next try, without anybody doing something about it."""
    return isinstance(error, _MENDING)


class Watch:
    """Calls ``save()`` now, then ``every`` seconds after the end of each run, and once more when told to stop.

    **After an error** it tries again in 30 s, then 60 s and so on, up to ``every`` or an hour, by chance up
    to a half sooner, and never before a ``retry_after`` of the vault has passed (a day at most). It never gives up.
    Only what the very first run fails of is raised at once, unless it may mend itself (:func:`mends_itself`).

    **To stop**, :meth:`stop` may be called from any thread or signal handler. Where :meth:`run` was called in the main
    thread, SIGTERM, SIGINT and SIGHUP do it, unless they are ignored. Then a run under way is finished and one more is
    made, both within ``final_timeout`` seconds, and not while a rate limit holds. A second SIGINT raises
    KeyboardInterrupt.

    **Runs are made in a thread** of their own, one at a time, so that a vault that hangs does not keep signals
    waiting. While one takes longer than ``every`` (a minute at least), that is told each time as a failure.

    Args:
        save: Makes one backup. It returns what :meth:`ColonyMemory.backup` does, or a :class:`Saved`.
        every: Seconds between runs.
        final_timeout: Seconds for the last backup.
        state: File for the result of each run, see :func:`last_run_path`. It also keeps a second watch out.
        on_run: Called with the result of each run, in the thread of :meth:`run`.
        clock: Seconds that only go up; for tests.

    Raises:
        ValueError: A bad argument.
    """

    def __init__(
        self,
        save: Callable[[], SnapshotInfo | Saved],
        *,
        every: float = 900.0,
        final_timeout: float = 10.0,
        state: Path | None = None,
        on_run: Callable[[LastRun], object] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._save = save
        self._every = require_seconds("every", every, most=_LONGEST_EVERY)
        self._final_timeout = require_seconds("final_timeout", final_timeout, most=LONGEST_ASKED)
        self._state = state
        self._on_run = on_run
        self._clock = clock
        # What has happened: an outcome, or as a text why to stop. A signal handler may put something in at any
        # moment, which of all queues only this one allows.
        self._inbox: queue.SimpleQueue[_Outcome | str] = queue.SimpleQueue()
        self._stopping: str | None = None
        self._busy = False
        self._interrupted = False
        self._failures = 0
        self._limited_until = -float("inf")

    @property
    def busy(self) -> bool:
        """Whether a run is under way; after the end, whether one was left behind in its thread."""
        return self._busy

    def stop(self, reason: str = "stop()") -> None:
        """Have :meth:`run` make the last backup and return."""
        self._inbox.put(reason)

    def run(self) -> Ended:
        """Make backups until told to stop; called once.

        Raises:
            ColonyMemoryError: Another watch writes the same state file.
            KeyboardInterrupt: SIGINT came again during the last backup.
            Exception: What the first run failed of, where that does not mend itself.
        """
        with contextlib.ExitStack() as held:
            if self._state is not None and not held.enter_context(only_one(self._state)):
                raise ColonyMemoryError(
                    "another watch of this vault and label is running on this host: stop it first, or use another label"
                )
            held.enter_context(self._signals())
            self._begin()
            outcome = self._finish_run()
            if outcome is not None and outcome.error is not None and not mends_itself(outcome.error):
                self._record(self._result(outcome))
                raise outcome.error
            while outcome is not None:
                self._tell(self._result(outcome, delay=(delay := self._delay_after(outcome))))
                self._wait(self._clock() + delay, heed_stop=True)
                if self._stopping is not None:
                    break
                self._begin()
                outcome = self._finish_run()
            return self._end()

    # One run.

    def _begin(self) -> None:
        self._busy = True
        try:
            self._start(self._work)
        except RuntimeError as error:  # no more threads
            self._inbox.put(_Outcome(error=error))

    def _start(self, work: Callable[[], None]) -> None:
        threading.Thread(target=work, name="colony-memory-watch", daemon=True).start()

    def _work(self) -> None:
        try:
            saved = self._save()
            if not isinstance(saved, Saved):
                saved = Saved(saved.snapshot_id, saved.reused)
            outcome = _Outcome(saved=saved)
        except BaseException as error:  # noqa: BLE001 - whatever it was, the watch goes on
            outcome = _Outcome(error=error)
        self._inbox.put(outcome)

    def _finish_run(self) -> _Outcome | None:
        """What the run under way comes to; None where it was told to stop first."""
        patience = max(self._every, _LEAST_PATIENCE)
        began = self._clock()
        while True:
            outcome = self._wait(self._clock() + patience, heed_stop=True)
            if outcome is not None or self._stopping is not None:
                return outcome
            waited = self._clock() - began
            self._tell(self._failed(f"not done after {waited:.0f} s, still waiting"))

    def _wait(self, deadline: float, *, heed_stop: bool) -> _Outcome | None:
        """The outcome of the run under way; None at the deadline, or where that is heeded, once told to stop."""
        while not (heed_stop and self._stopping is not None):
            left = deadline - self._clock()
            message = self._next_message(max(0.0, min(left, _PIECE)))
            if isinstance(message, _Outcome):
                self._busy = False
                self._note(message)
                return message
            if message is not None:
                self._stopping = self._stopping or message
            elif left <= 0:
                break
        return None

    def _next_message(self, timeout: float) -> _Outcome | str | None:
        try:
            return self._inbox.get(timeout=timeout)
        except queue.Empty:
            return None

    def _note(self, outcome: _Outcome) -> None:
        self._failures = 0 if outcome.error is None else self._failures + 1
        if isinstance(outcome.error, RateLimited):
            self._limited_until = self._clock() + asked_wait(outcome.error)

    def _delay_after(self, outcome: _Outcome) -> float:
        if outcome.error is None:
            return self._every
        share = random.uniform(0.5, 1.0)  # noqa: S311 - nothing secret
        longest = min(self._every, _LONGEST_RETRY)
        return retry_delay(outcome.error, failures=self._failures, longest=longest, share=share)

    # The end.

    def _end(self) -> Ended:
        deadline = self._clock() + self._final_timeout
        if self._busy:
            self._wait(deadline, heed_stop=False)
        error: BaseException | None
        limited = self._limited_until - self._clock()
        if not self._busy and limited > 0:
            error = RateLimited(f"the vault's rate limit holds for {limited:.0f} s more", retry_after=limited)
            outcome = _Outcome(error=error)
        else:
            # One that is under way has read what was there when it began, so there is one more after it.
            if not self._busy:
                self._begin()
            late = VaultUnavailable(f"not done within {self._final_timeout:g} s")
            outcome = self._wait(deadline, heed_stop=False) or _Outcome(error=late)
        last = self._result(outcome)
        last = replace(last, message=f"{last.message} (last backup, on {self._stopping})")
        self._tell(last)
        return Ended(last, outcome.error)

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        taken: dict[int, Any] = {}
        try:
            for name in ("SIGTERM", "SIGINT", "SIGHUP"):
                number = getattr(signal, name, None)
                if number is None or signal.getsignal(number) == signal.SIG_IGN:
                    continue
                with contextlib.suppress(ValueError):  # not in the main thread
                    taken[number] = signal.signal(number, self._on_signal)
            yield
        finally:
            for number, before in taken.items():
                signal.signal(number, signal.SIG_DFL if before is None else before)

    def _on_signal(self, number: int, _frame: object) -> None:
        if number == signal.SIGINT:
            if self._interrupted:
                raise KeyboardInterrupt
            self._interrupted = True
        self.stop(signal.Signals(number).name)

    # What is told of it.

    def _result(self, outcome: _Outcome, *, delay: float | None = None) -> LastRun:
        if outcome.saved is None:
            return self._failed(_describe(outcome.error), delay=delay)
        saved = outcome.saved
        message = f"{'unchanged since' if saved.reused else 'saved'} {saved.snapshot_id}"
        if saved.left_out:
            more = f" and {len(saved.left_out) - _NAMED} more" if len(saved.left_out) > _NAMED else ""
            message += f"; {len(saved.left_out)} left out: {', '.join(saved.left_out[:_NAMED])}{more}"
        return replace(
            self._failed("", delay=delay), ok=not saved.left_out, message=message, snapshot_id=saved.snapshot_id
        )

    def _failed(self, why: str, *, delay: float | None = None) -> LastRun:
        now = _utc_now()
        return LastRun(
            when=now,
            ok=False,
            message=f"failed: {why}",
            snapshot_id=None,
            next_run=None if delay is None else now + timedelta(seconds=delay),
            pid=os.getpid(),
        )

    def _tell(self, run: LastRun) -> None:
        run = self._record(run)
        if self._on_run is not None:
            self._on_run(run)

    def _record(self, run: LastRun) -> LastRun:
        """Write the state file; the result, with a word about it where that failed."""
        if self._state is not None:
            try:
                write_last_run(self._state, run)
            except OSError as error:
                return replace(
                    run, message=f"{run.message}; this could not be noted in {self._state}: {error.strerror}"
                )
        return run


def _describe(error: BaseException | None) -> str:
    text = "" if error is None else " ".join(message_of(error).split())
    ours = isinstance(error, ValueError) or type(error).__module__.startswith("colony_memory.")
    if ours and text:
        return text
    # Not foreseen, so its kind is needed to make sense of it.
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _utc_now() -> datetime:
    return datetime.now(timezone.utc)
