"""Backup on a timer, at the end of a block and on signals, inside of an event loop.

::

    async with mem.autobackup(collect, every=900, prune_keep=20):
        await run_agent()
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import inspect
from typing import TYPE_CHECKING, Any

from colony_memory.exceptions import ColonyMemoryError
from colony_memory.schedule.autobackup import AutobackupBase
from colony_memory.schedule.loop import LONGEST_ASKED

if TYPE_CHECKING:
    from colony_memory.client import AsyncColonyMemory
    from colony_memory.schedule.loop import Request
    from colony_memory.snapshot import SnapshotInfo

__all__ = ["AsyncAutobackup"]

# Seconds. An event loop that was closed does not say so.
_LOOK = 1.0


class AsyncAutobackup(AutobackupBase):
    """:class:`~colony_memory.schedule.autobackup.Autobackup` for :class:`AsyncColonyMemory`; for one ``async with``.

    When backups are made, what is told, the arguments and the attributes are the same. What differs:

    **collect** may be a coroutine function too. Either kind is called in the event loop, so it sees the agent's
    memory between two of its steps; a plain one that takes long holds the loop up (``asyncio.to_thread`` helps).

    **Cancelling** the task waits for the final backup, ``final_timeout`` at most, and is then heeded. After that time
    the backup is cancelled, and leaves what a crash at that place leaves. What cancels every task, as the end of
    ``asyncio.run`` does, may cut off a backup on the timer; the final one is then made all the same.

    **On a signal** the loop goes on while the final backup is made, and so does the agent. Then the former handler is
    called; a loop that is blocked is not waited for longer than ``final_timeout``.

    An event loop that is closed before the block is left makes no final backup. Leave the block: nothing is done at
    the interpreter's exit, where no loop runs any more.
    """

    _asynchronous = True
    _memory: AsyncColonyMemory
    _event_loop: asyncio.AbstractEventLoop

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._collecting: asyncio.Task[Any] | None = None
        self._future: concurrent.futures.Future[SnapshotInfo | SystemExit] | None = None

    async def __aenter__(self) -> AsyncAutobackup:  # noqa: PYI034 - typing.Self is of 3.11
        self._event_loop = asyncio.get_running_loop()
        self._loop.start()
        self._signals.take()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        try:
            if self._loop.is_own_process:
                await self._end(thrown_away=kind is not None and issubclass(kind, GeneratorExit))
        finally:
            self._loop.closed = True
            self._signals.give_back()
            if self._future is not None and not self._event_loop.is_closed():
                self._future.cancel()

    async def backup_now(self) -> SnapshotInfo | None:
        """Make a backup, after one that is under way. To cancel this does not cancel the backup."""
        self._require_running(in_collect=self._collecting is not None and self._collecting is asyncio.current_task())
        request, answered = self._post(LONGEST_ASKED, final=False)
        await answered
        return None if request.outcome is None else request.outcome.result

    async def _end(self, *, thrown_away: bool) -> None:
        request, answered = self._post(0.0 if thrown_away else self._final_timeout, end=True)
        cancelled = None
        while not thrown_away and not request.done and request.left() > 0:
            try:
                await asyncio.wait({answered}, timeout=request.left())
            except asyncio.CancelledError as error:
                cancelled = error
        if thrown_away:
            self._tell_missed("no final backup was made: the coroutine was closed, and nothing can be awaited any more")
        elif self._loop.give_up(request):
            self._tell_missed()
        if cancelled is not None:
            raise cancelled

    def _post(
        self, timeout: float, *, final: bool = True, end: bool = False
    ) -> tuple[Request[SnapshotInfo], asyncio.Future[None]]:
        """Ask the thread for a backup; the future is done when that is."""
        event_loop = self._event_loop
        answered = event_loop.create_future()

        def tell() -> None:
            with contextlib.suppress(RuntimeError):  # it is closed, so nobody waits
                event_loop.call_soon_threadsafe(_set, answered)

        return self._loop.post(timeout, final=final, end=end, then=tell), answered

    def _must_go_on(self) -> bool:
        return True  # the loop, to make the backup

    # In the thread.

    def _save(self) -> SnapshotInfo:
        verb = self._collect_and_save()
        try:
            self._future = future = asyncio.run_coroutine_threadsafe(verb, self._event_loop)
        except RuntimeError as error:
            verb.close()
            raise ColonyMemoryError("the event loop is closed") from error
        while not concurrent.futures.wait([future], _LOOK).done:
            if self._event_loop.is_closed():
                raise ColonyMemoryError("the event loop was closed before the backup was done")
        try:
            saved = future.result()
        except concurrent.futures.CancelledError as error:
            raise ColonyMemoryError("the backup was cancelled") from error
        if isinstance(saved, SystemExit):
            raise saved
        return saved

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


def _set(answered: asyncio.Future[None]) -> None:
    if not answered.done():  # whoever waited may have been cancelled
        answered.set_result(None)
