"""Backups every so often until the process is told to stop, for a process that does nothing else, or beside another."""

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
from colony_memory.schedule.last_run import (
    LastRun,
    RunLog,
    alone,
    last_run_path,
    read_last_run,
    read_runs,
    run_of,
    write_last_run,
)
from colony_memory.schedule.loop import LONGEST_ASKED, LOOK, Clock, Loop, Outcome, require_seconds

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Self

    from colony_memory.shell.app.save import Saved
    from colony_memory.snapshot import SnapshotInfo

    Backup = SnapshotInfo | Saved | None

__all__ = ["LastRun", "RunLog", "Watch", "last_run_path", "mends_itself", "read_last_run", "read_runs"]


# Seconds.
_LONGEST_EVERY = 3650 * 86_400.0
_LONGEST_RETRY = 3600.0
_LEAST_PATIENCE = 60.0
# A bad argument, a refused key or a bug stays until somebody does something about it; these may go by themselves.
_MENDING = (BackupUncertain, ConflictDetected, Passing, PruneIncomplete, QuotaExceeded, RateLimited, VaultUnavailable)


def mends_itself(error: BaseException) -> bool:
    """True if an error may be gone at the next try, without anybody doing something about it."""
    return isinstance(error, _MENDING)


class Watch(Loop["Backup"]):
    """Calls ``save()`` now, then ``every`` seconds after the end of each run, and once more when told to stop.

    After an error it tries again in 30 s, then 60 s and so on, up to ``every`` or an hour, by chance up to half sooner,
    and never before a ``retry_after`` of the vault has passed (a day at most). :meth:`run` raises what the very first
    run fails of, unless it may mend itself, and stops by SIGTERM, SIGINT and SIGHUP where it was called in the main
    thread, after one more run; a second SIGINT raises KeyboardInterrupt.

    Runs are made in a thread of their own, and ``on_run`` hears of each there. While one takes longer than ``every`` (a
    minute at least), that is told as a failure. Beside something else it is entered by ``with``: :meth:`save_now`
    begins, :meth:`look` is called now and then, :meth:`end` stops. Signals and the state's lock are the caller's then.
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
        self._patience = self._told_of = max(every, _LEAST_PATIENCE)
        self._final_timeout = require_seconds("final_timeout", final_timeout, most=LONGEST_ASKED)
        self._state = state
        self._on_run = on_run
        # Why to stop: a word, or an error that is raised.
        self._reasons: queue.SimpleQueue[str | BaseException] = queue.SimpleQueue()
        self._telling = threading.Lock()
        self._first = False  # the first run, which may end it, is not done yet
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
        self._post(0.0, end=True)  # however this ends: no run is begun after it

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
        """Tell of a run that takes too long; in how many seconds to look again."""
        began = self._began
        if began is None:
            return LOOK
        taken = self._clock.now() - began
        if taken >= self._told_of:
            self._told_of = taken + self._patience
            late = VaultUnavailable(f"not done after {taken:.0f} s, still waiting")
            self._tell(run_of(datetime.now(timezone.utc), None, late), late)
        return min(LOOK, max(0.0, self._told_of - taken))

    def end(self, reason: str) -> LastRun:
        """Have the last backup made, after one that is under way, which has read what was there when it began."""
        request = self._post(self._final_timeout, end=True)
        request.wait()
        late = VaultUnavailable(f"not done within {self._final_timeout:g} s")
        outcome = request.outcome or Outcome(datetime.now(timezone.utc), error=late)
        last = _run_of(outcome)
        last = replace(last, message=f"{last.message} (last backup, on {reason})", next_run=None)
        self.last_error = outcome.error
        self._tell(last, outcome.error)
        return last

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGINT:
            if self._interrupted:
                raise KeyboardInterrupt
            self._interrupted = True
        self.stop(signal.Signals(number).name)

    def _hear(self, outcome: Outcome[Backup]) -> None:
        """Tell of a run, in the thread of the runs."""
        self._told_of = self._patience
        if outcome.final:
            return
        first, self._first = self._first, False
        raised = outcome.error if first and outcome.error is not None and not mends_itself(outcome.error) else None
        run = _run_of(outcome)
        try:
            self._tell(run if raised is None else replace(run, next_run=None), outcome.error, heard=raised is None)
        except Exception as failed:  # noqa: BLE001 - raised where the watch is run
            raised = raised or failed
        if raised is not None:
            self._reasons.put(raised)

    def _tell(self, run: LastRun, error: BaseException | None, *, heard: bool = True) -> None:
        """Write the state file, and tell whoever hears of runs unless it is raised to him."""
        with self._telling:
            if self._state is not None:
                try:
                    write_last_run(self._state, run)
                except OSError as failed:
                    noted = f"this could not be noted in {self._state}: {failed.strerror}"
                    run = replace(run, message=f"{run.message}; {noted}")
            if heard and self._on_run is not None:
                self._on_run(run, error)


def _run_of(outcome: Outcome[Backup]) -> LastRun:
    due = None if outcome.next_in == math.inf else outcome.when + timedelta(seconds=outcome.next_in)
    return run_of(outcome.when, outcome.result, outcome.error, next_run=due)
