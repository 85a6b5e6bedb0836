"""Backup on a timer, at exit, and on the signals that end a process."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import inspect
import logging
import math
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

from colony_memory._format.names import require_label
from colony_memory.exceptions import ColonyMemoryError
from colony_memory.schedule.child import TakenSignals, is_taken, send_again
from colony_memory.schedule.loop import LONGEST_ASKED, Clock, Loop, Outcome, Request, require_seconds

if TYPE_CHECKING:
    from colony_memory.client import AsyncColonyMemory, ColonyMemory
    from colony_memory.snapshot import SnapshotInfo

__all__ = ["AsyncAutobackup", "Autobackup"]


_logger = logging.getLogger(__name__)
_PATIENCE = 0.1  # seconds for the main thread to handle a signal


class AutobackupBase(Loop["SnapshotInfo"]):
    """The common part of :class:`Autobackup` and the one for asyncio."""

    _asynchronous = False

    def __init__(
        self,
        memory: Any,
        collect: Callable[[], Any],
        *,
        every: float = 900.0,
        label: str = "default",
        final_timeout: float = 10.0,
        clock: Clock | None = None,
        **backup_options: Any,
    ) -> None:
        self._options = _checked(memory, collect, backup_options, asynchronous=self._asynchronous)
        self._memory, self._collect = memory, collect
        self._final_timeout = require_seconds("final_timeout", final_timeout, most=LONGEST_ASKED)
        self._label = require_label(label)
        every = require_seconds("every", every, most=math.inf)
        super().__init__(f"colony-memory-autobackup-{self._label}", every=every, longest_retry=every, clock=clock)
        self._signals = TakenSignals(self._on_signal)
        self._ending: int | None = None  # the signal being handled
        self._saved_for: int | None = None  # the signal that is to be passed on now

    @property
    def last_snapshot(self) -> SnapshotInfo | None:
        """The snapshot that was saved or found unchanged last, None before the first."""
        return self._last_result

    def _check_documents(self, documents: Any) -> dict[str, str]:
        """A copy of what ``collect()`` returned."""
        if not isinstance(documents, dict) or not documents:
            kind = "an empty dict" if documents == {} else f"a {type(documents).__name__}"
            raise ValueError(f"collect() must return a non-empty {{name: text}} dict, not {kind}: nothing was saved")
        if self._closed:
            raise TimeoutError("collect() returned only after the block was left: nothing was saved")
        return dict(documents)

    def _post_now(self, *, in_collect: bool) -> Request[SnapshotInfo]:
        if not self.running:
            raise RuntimeError("backup_now() works inside the with block only, in the process that entered it")
        if in_collect:
            raise RuntimeError("collect() must not call backup_now(): its result is being waited for")
        return self._post(LONGEST_ASKED, final=False)

    def _report(self, outcome: Outcome[SnapshotInfo]) -> None:
        failures, error, label = outcome.failures, outcome.error, self._label
        if error is None and failures:
            _logger.info("backups of label %r work again, after %d errors", label, failures)
        if error is not None:
            loud = outcome.final or failures & (failures - 1) == 0
            _logger.log(
                logging.WARNING if loud else logging.DEBUG,
                "%s of label %r failed: %s: %s (error %d in a row, last success: %s)",
                "the final backup" if outcome.final else "backup",
                label,
                type(error).__name__,
                error,
                failures,
                self.last_success or "none",
                exc_info=None if isinstance(error, ColonyMemoryError) else error,
            )

    # The end.

    def _check_final(self, request: Request[SnapshotInfo], *, why: str = "") -> None:
        """Note and log a final backup that is late or was missed."""
        if not request.done:
            self._late = request
        if request.missed or not request.done:
            msg = why or f"the final backup was not done within {self._final_timeout:g} s"
            self.last_error = TimeoutError(msg)
            _logger.warning("label %r: %s; last success: %s", self._label, msg, self.last_success or "none")

    def _make_final(self, *, end: bool = False) -> None:
        """Have the thread make a backup, and wait for it. Safe in a signal handler."""
        request = self._post(self._final_timeout, end=end)
        request.wait()
        self._check_final(request)

    def _must_go_on(self) -> bool:
        """True if the final backup needs the main thread, which must not wait for it then."""
        session = getattr(self._memory, "_session", None)
        return session is not None and session.writers.get(self._label) == threading.get_ident()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if not self._is_own_process or self._saved_for == number:
            self._ending = self._saved_for = None
        elif self._ending is not None:
            # A second signal changes nothing, but whoever presses Ctrl-C again does not want to wait.
            if number != signal.SIGINT:
                return
        else:
            self._ending = number
            try:
                if self._must_go_on():
                    threading.Thread(target=self._end_in_thread, args=(number,), daemon=True).start()
                    return
                self._make_final()
            except RuntimeError:  # no more threads
                _logger.warning("no final backup of label %r: no thread can be started", self._label)
            except BaseException:
                self._ending = None
                raise
            self._ending = None
        self._signals.pass_on(number, frame)

    def _end_in_thread(self, number: int) -> None:
        """Make the final backup while the main thread goes on, then have that handle the signal."""
        try:
            self._make_final()
        finally:
            self._saved_for = number
            send_again(number)
            # A signal that comes just before the main thread falls asleep does not wake it.
            time.sleep(_PATIENCE)
            while self._saved_for == number and not self._closed and is_taken(number):
                send_again(number)
                time.sleep(_PATIENCE)


class Autobackup(AutobackupBase):
    """Saves what ``collect()`` returns, every ``every`` seconds and once more at the end; made for one ``with``.

    Nothing here raises into the agent, unless no thread can be started. Errors, another writer's conflict included, are
    in :attr:`last_error` and in the log: as a warning the first in a row, the second, the fourth, the eighth and so on,
    and every failed final backup.

    **When.** ``every`` seconds after the end of the last backup; after an error in 30 s, doubled with each further one
    up to ``every``, and never before a ``retry_after`` of the vault has passed (a day at most). Time that the machine
    is suspended counts. The final backup is made when the block is left, at the interpreter's exit, and on SIGTERM,
    SIGINT and SIGHUP if the block is entered in the main thread, unless they are ignored, but not while a rate limit
    holds. Then the former handler is called, or the process dies of the signal as usual (process 1 of a container,
    which the system spares, goes on until it is killed). A second SIGINT does not wait. **Beware** that a signal halts
    the main thread, whatever locks it holds: a ``collect()`` that waits for a lock of the agent may wait in vain, until
    ``final_timeout``. In a forked child the block does nothing.

    Args:
        memory: The memory to save to.
        collect: Returns the documents, a non-empty ``{name: text}``, which is copied at once. It is called in the
            timer's thread, so it must be safe to run alongside the agent.
        every: Seconds between backups; ``math.inf`` for the final one alone.
        label: Label to save under.
        final_timeout: Seconds that the final backup may take. A container is often killed 10 s after SIGTERM.
        clock: For tests.
        backup_options: Handed to :meth:`ColonyMemory.backup`: ``prune_keep``, ``retention``, ``on_conflict`` and so on.

    Raises:
        ValueError: A bad argument.
        TypeError: ``backup`` has no such option.
    """

    _memory: ColonyMemory

    def __enter__(self) -> Autobackup:  # noqa: PYI034 - typing.Self is of 3.11
        self._start()
        atexit.register(self._finish)
        self._signals.take()
        return self

    def __exit__(self, *exc: object) -> None:
        try:
            self._finish()
        finally:
            atexit.unregister(self._finish)

    def backup_now(self) -> SnapshotInfo | None:
        """Make a backup in the timer's thread, after one that is under way, and wait for it.

        The caller must hold no lock that ``collect()`` waits for: neither would go on.
        """
        request = self._post_now(in_collect=threading.current_thread() is self._thread)
        request.wait()
        return None if request.outcome is None else request.outcome.result

    def _save(self) -> SnapshotInfo:
        return self._memory.backup(self._check_documents(self._collect()), label=self._label, **self._options)

    def _finish(self) -> None:
        try:
            if self._is_own_process:
                self._make_final(end=True)
        finally:
            self._closed = True
            self._signals.give_back()


def _checked(memory: Any, collect: Any, options: dict[str, Any], *, asynchronous: bool) -> dict[str, Any]:
    """The options of each backup. Bad ones are refused here, where the caller sees it."""
    from colony_memory._engine.backup.job import check_arguments

    if not callable(collect):
        msg = f"collect must be a function that returns the documents, not a {type(collect).__name__}"
        raise ValueError(msg)  # noqa: TRY004 - one type for every bad argument
    if inspect.iscoroutinefunction(memory.backup) != asynchronous:
        raise ValueError("use the autobackup() of the memory itself: the one for ColonyMemory is another")
    if inspect.iscoroutinefunction(collect) and not asynchronous:
        raise ValueError("collect is a coroutine function: use the autobackup() of an AsyncColonyMemory")
    inspect.signature(memory.backup).bind({}, label="default", **options)
    parameters = inspect.signature(check_arguments).parameters
    _, _, facts = check_arguments(**{name: value for name, value in options.items() if name in parameters})
    # Iterators, which can be read only once, have been read.
    return {name: facts[name] if name in ("tags", "incomplete") else value for name, value in options.items()}


# Seconds between two looks: nothing tells a thread that an event loop was closed, nor a loop that a thread is done.
_LOOK = 1.0
_PAUSE = 0.02


class AsyncAutobackup(AutobackupBase):
    """:class:`~colony_memory.schedule.autobackup.Autobackup` for :class:`AsyncColonyMemory`; for one ``async with``.

    ``collect`` may be a coroutine function. Either kind is called in the event loop, between two steps of the agent;
    a plain one that takes long holds the loop up (``asyncio.to_thread`` helps). **Cancelling** the task takes effect
    after the final backup, for which it waits ``final_timeout`` at most. **On a signal** the loop goes on while the
    final backup is made, and so does the agent. Nothing is saved at the interpreter's exit, or by an event loop that is
    closed before the block is left.
    """

    _asynchronous = True
    _memory: AsyncColonyMemory
    _event_loop: asyncio.AbstractEventLoop
    _collecting: asyncio.Task[Any] | None = None
    _future: concurrent.futures.Future[SnapshotInfo | SystemExit] | None = None

    async def __aenter__(self) -> AsyncAutobackup:  # noqa: PYI034 - typing.Self is of 3.11
        self._event_loop = asyncio.get_running_loop()
        self._start()
        self._signals.take()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        try:
            if self._is_own_process:
                await self._end(thrown_away=kind is not None and issubclass(kind, GeneratorExit))
        finally:
            self._closed = True
            self._signals.give_back()
            if self._future is not None and not self._event_loop.is_closed():
                self._future.cancel()

    async def backup_now(self) -> SnapshotInfo | None:
        """Make a backup, after one that is under way. Cancelling this does not cancel the backup."""
        request = self._post_now(in_collect=self._collecting is asyncio.current_task())
        while not request.done:  # noqa: ASYNC110 - no event of this loop
            await asyncio.sleep(_PAUSE)
        return None if request.outcome is None else request.outcome.result

    async def _end(self, *, thrown_away: bool) -> None:
        request = self._post(0.0 if thrown_away else self._final_timeout, end=True)
        cancelled = None
        while not thrown_away and not request.done and request.remaining() > 0:
            try:
                await asyncio.sleep(_PAUSE)
            except asyncio.CancelledError as error:
                cancelled = error
        thrown = "no final backup was made: the coroutine was closed, and nothing can be awaited any more"
        self._check_final(request, why=thrown if thrown_away else "")
        if cancelled is not None:
            raise cancelled

    def _must_go_on(self) -> bool:
        return True  # the loop makes the backup

    # In the thread.

    def _save(self) -> SnapshotInfo:
        coroutine = self._collect_and_save()
        try:
            self._future = future = asyncio.run_coroutine_threadsafe(coroutine, self._event_loop)
        except RuntimeError as error:
            coroutine.close()
            raise ColonyMemoryError("the event loop is closed") from error
        while not concurrent.futures.wait([future], _LOOK).done:
            if self._event_loop.is_closed():
                raise ColonyMemoryError("the event loop was closed before the backup was done")
        try:
            result = future.result()
        except concurrent.futures.CancelledError as error:
            raise ColonyMemoryError("the backup was cancelled") from error
        if isinstance(result, SystemExit):
            raise result
        return result

    # In the event loop.

    async def _collect_and_save(self) -> SnapshotInfo | SystemExit:
        self._collecting = asyncio.current_task()
        try:
            documents = self._collect()
            if inspect.isawaitable(documents):
                documents = await documents
            documents = self._check_documents(documents)
        except SystemExit as error:
            return error  # which, raised in a task, would end the loop
        finally:
            self._collecting = None
        return await self._memory.backup(documents, label=self._label, **self._options)
