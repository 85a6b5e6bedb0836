"""Backups now and then every so often until the process is told to stop, for a process that does nothing else.

::

    mem = ColonyMemory(api_key="col_…")

    watch = Watch(lambda: save_folder(mem, "memory"), every=900, on_run=print)
    ended = watch.run()  # until SIGTERM or SIGINT

Inside of an agent, :meth:`ColonyMemory.autobackup` does it on a timer, beside the agent's own work.
"""

from __future__ import annotations

import contextlib
import queue
import random
import signal
import threading
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from colony_memory._values import dataclass, replace
from colony_memory.exceptions import (
    BackupUncertain,
    ConflictDetected,
    PruneIncomplete,
    QuotaExceeded,
    RateLimited,
    VaultUnavailable,
    is_passing,
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
    from collections.abc import Callable
    from pathlib import Path
    from types import FrameType

    from typing_extensions import Self

    from colony_memory.app.save import Saved
    from colony_memory.schedule.notify import Notifier
    from colony_memory.snapshot import SnapshotInfo

    Backup = SnapshotInfo | Saved | None

__all__ = [
    "BackgroundWatch",
    "Ended",
    "LastRun",
    "RunLog",
    "Watch",
    "last_run_path",
    "mends_itself",
    "read_last_run",
    "read_runs",
]


# Seconds.
_LONGEST_EVERY = 3650 * 86_400.0
_LONGEST_RETRY = 3600.0
_LEAST_PATIENCE = 60.0
# What the watch may take beyond its own time for the last backup, to note and tell how that went.
_GRACE = 2.0
# A bad argument, a refused key or a bug stays until somebody does something about it; these may go by themselves.
_MENDING = (BackupUncertain, ConflictDetected, PruneIncomplete, QuotaExceeded, RateLimited, VaultUnavailable)


@dataclass(frozen=True)
class Ended:
    """How a watch ended."""

    last: LastRun  # the last backup, made when it was told to stop
    error: BaseException | None  # what that failed of, or None


def mends_itself(error: BaseException) -> bool:
    """Whether an error may be gone at the next try, without anybody doing something about it."""
    return isinstance(error, _MENDING) or is_passing(error)


class Watch:
    """Calls ``save()`` now, then ``every`` seconds after the end of each run, and once more when told to stop.

    **After an error** it tries again in 30 s, then 60 s and so on, up to ``every`` or an hour, by chance up
    to a half sooner, and never before a ``retry_after`` of the vault has passed (a day at most). It never gives up.
    Only what the very first run fails of is raised at once, unless it may mend itself (:func:`mends_itself`).

    **To stop**, :meth:`stop` may be called from any thread or signal handler. Where :meth:`run` was called in the main
    thread, SIGTERM, SIGINT and SIGHUP do it, unless they are ignored. Then a run under way is finished and one more is
    made, both within ``final_timeout`` seconds, and not while a rate limit holds. A second SIGINT raises
    KeyboardInterrupt. The former handlers are not called but put back: whoever called :meth:`run` hears by its return.

    **Runs are made in a thread** of their own, one at a time, so that a vault that hangs does not keep signals
    waiting. While one takes longer than ``every`` (a minute at least), that is told each time as a failure.

    **In the background** of what has the main thread, such as the agent's own process, with ``background``: signals and
    the state's lock are then the caller's, and nothing that a run fails of ends it, the first one neither.
    """

    def __init__(
        self,
        save: Callable[[], Backup],
        *,
        every: float = 900.0,
        final_timeout: float = 10.0,
        state: Path | None = None,
        on_run: Callable[[LastRun], object] | None = None,
        notifier: Notifier | None = None,
        background: bool = False,
        clock: Clock | None = None,
    ) -> None:
        self._save = save
        self._every = require_seconds("every", every, most=_LONGEST_EVERY)
        self._final_timeout = require_seconds("final_timeout", final_timeout, most=LONGEST_ASKED)
        self._state = state
        self._on_run = on_run
        self._notifier = notifier
        self._background = background
        self._clock = clock or Clock()
        # What has happened: an outcome, or as a text why to stop.
        self._inbox: queue.SimpleQueue[Outcome[Backup] | str] = queue.SimpleQueue()
        self._signals = TakenSignals(self._on_signal)
        self._interrupted = False
        self._loop: Loop[Backup] = Loop(
            self._run_once,
            name="colony-memory-watch",
            every=self._every,
            first=0.0,
            longest_retry=min(self._every, _LONGEST_RETRY),
            share=lambda: random.uniform(0.5, 1.0),  # noqa: S311 - nothing secret
            tell=self._inbox.put,
            clock=self._clock,
        )

    @property
    def busy(self) -> bool:
        """Whether a run is under way; after the end, whether one was left behind in its thread."""
        return self._loop.busy_for is not None

    def stop(self, reason: str = "stop()") -> None:
        """Have :meth:`run` make the last backup and return."""
        self._inbox.put(reason)

    def save_now(self) -> None:
        """Have a backup made at once, or after the one under way; safe in a signal handler."""
        self._loop.post(self._final_timeout, final=False)

    def run(self) -> Ended:
        """Make backups until told to stop; called once."""
        with contextlib.ExitStack() as stack:
            if not self._background:
                if self._state is not None:
                    stack.enter_context(alone(self._state))
                stack.callback(self._signals.give_back)
                self._signals.take()
            self._loop.start()
            # However this ends: none is begun after it.
            stack.callback(self._loop.post, 0.0, end=True)
            reason = self._run_until_stopped()
            outcome = self._final_outcome(self._loop.post(self._final_timeout, end=True).left)
            last, error = self._result(outcome)
            last = replace(last, message=f"{last.message} (last backup, on {reason})")
            self._tell(last, error)
            return Ended(last, error)

    def _run_once(self) -> Backup:
        if self._notifier is not None:
            self._notifier.begin()
        return self._save()

    def _run_until_stopped(self) -> str:
        """Tell of each run; the reason to stop."""
        patience = max(self._every, _LEAST_PATIENCE)
        first, told_of = not self._background, patience
        while True:
            taken = self._loop.busy_for
            wait = LOOK if taken is None else min(LOOK, max(0.0, told_of - taken))
            message = self._clock.get(self._inbox, wait)
            if isinstance(message, str):
                return message
            if message is not None:
                if first and message.error is not None and not mends_itself(message.error):
                    self._tell(*self._result(message), heard=False)
                    raise message.error
                first, told_of = False, patience
                self._tell(*self._result(message, next_in=message.next_in))
            elif taken is not None and taken >= told_of and self._loop.busy_for is not None:
                late = VaultUnavailable(f"not done after {taken:.0f} s, still waiting")
                self._tell(run_of(_now(), None, late), late)
                told_of = taken + patience

    def _final_outcome(self, left: Callable[[], float]) -> Outcome[Backup]:
        # One that is under way has read what was there when it began, so there is one more after it.
        while left() > 0:
            with contextlib.suppress(queue.Empty):
                message = self._inbox.get(timeout=min(left(), 1.0))
                if isinstance(message, Outcome) and message.final:
                    return message
        return Outcome(_now(), error=VaultUnavailable(f"not done within {self._final_timeout:g} s"))

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGINT:
            if self._interrupted:
                raise KeyboardInterrupt
            self._interrupted = True
        self.stop(signal.Signals(number).name)

    # What is told of it.

    @staticmethod
    def _result(outcome: Outcome[Backup], *, next_in: float | None = None) -> tuple[LastRun, BaseException | None]:
        error = outcome.error
        if outcome.barred:
            error = RateLimited(
                f"the vault's rate limit holds for {outcome.barred:.0f} s more", retry_after=outcome.barred
            )
        due = None if next_in is None else outcome.when + timedelta(seconds=next_in)
        return run_of(outcome.when, outcome.result, error, next_run=due), error

    def _tell(self, run: LastRun, error: BaseException | None, *, heard: bool = True) -> None:
        """Write the state file, and tell the notifier, and whoever hears of runs unless it is raised to him."""
        if self._state is not None:
            try:
                write_last_run(self._state, run)
            except OSError as failed:
                run = replace(
                    run, message=f"{run.message}; this could not be noted in {self._state}: {failed.strerror}"
                )
        if self._notifier is not None and run.ok:
            self._notifier.succeeded()
        elif self._notifier is not None:
            self._notifier.failed(run.message, error)
        if heard and self._on_run is not None:
            self._on_run(run)


def _now() -> datetime:
    return datetime.now(timezone.utc)


class BackgroundWatch:
    """Runs a :class:`~colony_memory.schedule.watch.Watch` that is told to be in the background.

    The thread is there from the ``with`` on, so that what has begun is never without one; backups begin with
    :meth:`go`.
    """

    def __init__(self, watch: Watch, *, final_timeout: float) -> None:
        self._watch = watch
        self._final_timeout = final_timeout
        self._decided = threading.Event()
        self._wanted = False
        self._ended: Ended | None = None
        self._thread = threading.Thread(target=self._work, name="colony-memory-background", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._decided.set()

    @property
    def busy(self) -> bool:
        """Whether a backup is under way; after the end, whether one was left behind."""
        return self._watch.busy or (self._wanted and self._thread.is_alive())

    def go(self) -> None:
        """Let the backups begin."""
        self._wanted = True
        self._decided.set()

    def end(self, reason: str) -> Ended:
        """Have the last backup made, and wait for it no longer than it may take; how that went."""
        self._watch.stop(reason)
        self._thread.join(self._final_timeout + _GRACE)
        return self._ended or _failed(VaultUnavailable(f"not done within {self._final_timeout:g} s"))

    def _work(self) -> None:
        self._decided.wait()
        if self._wanted:
            try:
                self._ended = self._watch.run()
            except BaseException as error:  # noqa: BLE001 - told at the end, when somebody hears it
                self._ended = _failed(error)


def _failed(error: BaseException) -> Ended:
    return Ended(run_of(_now(), None, error), error)
