"""Backups at intervals until the process is told to stop, in a process that does nothing else, or with a command."""

from __future__ import annotations

import contextlib
import math
import queue
import random
import signal
import threading
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from types import FrameType
from typing import TYPE_CHECKING

from colony_memory._boundary import Passing
from colony_memory._values import replace
from colony_memory.exceptions import (
    BackupUncertain,
    ConflictDetected,
    PruneIncomplete,
    QuotaExceeded,
    RateLimited,
    VaultUnavailable,
)
from colony_memory.schedule.child import TakenSignals
from colony_memory.schedule.last_run import LastRun, RunLog, alone, last_run_path, read_runs, run_of, write_last_run
from colony_memory.schedule.loop import LONGEST_ASKED, LOOK, Clock, Loop, Outcome, require_seconds

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Self

    from colony_memory.shell.app.save import Saved
    from colony_memory.snapshot import SnapshotInfo

    Backup = SnapshotInfo | Saved | None

__all__ = ["LastRun", "RunLog", "Watch", "last_run_path", "mends_itself", "read_runs"]


# Seconds.
_LONGEST_EVERY = 3650 * 86_400.0
_LONGEST_RETRY = 3600.0
_LEAST_PATIENCE = 60.0
# A bad argument, a refused key or a bug stays until somebody acts; these errors may go away by themselves.
_MENDING = (BackupUncertain, ConflictDetected, Passing, PruneIncomplete, QuotaExceeded, RateLimited, VaultUnavailable)


def mends_itself(error: BaseException) -> bool:
    """True if an error may be gone at the next try, without anybody doing anything about it."""
    return isinstance(error, _MENDING)


class Watch(Loop["Backup"]):
    """Calls ``save()`` now, then ``every`` seconds after the end of each run, and once more when told to stop.

    After an error it tries again in 30 s, then 60 s and so on, up to ``every`` or an hour, at random up to half sooner,
    and never before a ``retry_after`` of the vault has passed (a day at most). :meth:`run` raises the error of the very
    first run, unless that may go away by itself, and stops on SIGTERM, SIGINT and SIGHUP if called in the main thread,
    after one more run; a second SIGINT raises KeyboardInterrupt.

    Runs are made in a thread of their own, which calls ``on_run`` with each. One that takes longer than ``every`` (a
    minute at least) is reported as a failure meanwhile. To run alongside other work, enter it by ``with``, begin with
    :meth:`save_now`, call :meth:`look` now and then, and :meth:`end`; signals and the state's lock are the caller's.
    """

    def __init__(
        self,
        save: Callable[[], Backup],
        *,
        every: float = 900.0,
        final_timeout: float = 10.0,
        state: Path | None = None,
        on_run: Callable[[LastRun, BaseException | None], object] | None = None,
        clock: Clock | None = None,
    ) -> None:
        every = require_seconds("every", every, most=_LONGEST_EVERY)
        self._patience = self._alert_after = max(every, _LEAST_PATIENCE)
        self._final_timeout = require_seconds("final_timeout", final_timeout, most=LONGEST_ASKED)
        self._state = state
        self._on_run = on_run
        # Reasons to stop: a word, or an error to raise.
        self._reasons: queue.SimpleQueue[str | BaseException] = queue.SimpleQueue()
        self._publish_lock = threading.Lock()
        self._first = False  # the first run, whose error may end it, is not done yet
        self._interrupted = False
        self._save = save
        super().__init__(
            "colony-memory-watch",
            every=every,
            longest_retry=min(every, _LONGEST_RETRY),
            share=lambda: random.uniform(0.5, 1.0),  # noqa: S311 - nothing secret
            clock=clock,
        )

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._post(0.0, end=True)  # however the block ends, no run begins after it

    @property
    def busy(self) -> bool:
        """True while a run is under way; after the end, if one was left behind in its thread."""
        return self._began is not None

    def stop(self, reason: str = "stop()") -> None:
        """Have :meth:`run` make the last backup and return."""
        self._reasons.put(reason)

    def save_now(self) -> None:
        """Have a backup made at once, or after the one under way; safe in a signal handler."""
        self._post(LONGEST_ASKED, final=False)

    def run(self) -> LastRun:
        """Make backups until told to stop, and return the last one; called once. Its error is :attr:`last_error`."""
        signals = TakenSignals(self._on_signal)
        with contextlib.nullcontext() if self._state is None else alone(self._state):
            try:
                signals.take()
                with self:
                    self._first = True
                    self.save_now()
                    while True:
                        reason = self._clock.get(self._reasons, self.look())
                        if isinstance(reason, BaseException):
                            raise reason
                        if reason is not None:
                            return self.end(reason)
            finally:
                signals.give_back()

    def look(self) -> float:
        """Report a run that takes too long; returns the seconds until the next look."""
        began = self._began
        if began is None:
            return LOOK
        elapsed = self._clock.now() - began
        if elapsed >= self._alert_after:
            self._alert_after = elapsed + self._patience
            late = VaultUnavailable(f"not done after {elapsed:.0f} s, still waiting")
            self._publish(run_of(datetime.now(timezone.utc), None, late), late)
        return min(LOOK, max(0.0, self._alert_after - elapsed))

    def end(self, reason: str) -> LastRun:
        """Have the last backup made, after one under way, which misses all changes since it began."""
        request = self._post(self._final_timeout, end=True)
        request.wait()
        late = VaultUnavailable(f"not done within {self._final_timeout:g} s")
        outcome = request.outcome or Outcome(datetime.now(timezone.utc), error=late)
        last = _run_of(outcome)
        last = replace(last, message=f"{last.message} (last backup, on {reason})", next_run=None)
        self.last_error = outcome.error
        self._publish(last, outcome.error)
        return last

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGINT:
            if self._interrupted:
                raise KeyboardInterrupt
            self._interrupted = True
        self.stop(signal.Signals(number).name)

    def _report(self, outcome: Outcome[Backup]) -> None:
        """Report a run, in the thread of the runs."""
        self._alert_after = self._patience
        if outcome.final:
            return
        first, self._first = self._first, False
        raised = outcome.error if first and outcome.error is not None and not mends_itself(outcome.error) else None
        run = _run_of(outcome)
        try:
            self._publish(run if raised is None else replace(run, next_run=None), outcome.error, call=raised is None)
        except Exception as failed:  # noqa: BLE001 - raised by run()
            raised = raised or failed
        if raised is not None:
            self._reasons.put(raised)

    def _publish(self, run: LastRun, error: BaseException | None, *, call: bool = True) -> None:
        """Write the state file and ``call`` on_run, unless the error is raised in its place."""
        with self._publish_lock:
            if self._state is not None:
                try:
                    write_last_run(self._state, run)
                except OSError as failed:
                    problem = f"this could not be noted in {self._state}: {failed.strerror}"
                    run = replace(run, message=f"{run.message}; {problem}")
            if call and self._on_run is not None:
                self._on_run(run, error)


def _run_of(outcome: Outcome[Backup]) -> LastRun:
    due = None if outcome.next_in == math.inf else outcome.when + timedelta(seconds=outcome.next_in)
    return run_of(outcome.when, outcome.result, outcome.error, next_run=due)
