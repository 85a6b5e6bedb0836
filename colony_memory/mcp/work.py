"""Calls that take long, in a thread: one after the other, with progress, and ended where nobody waits any more."""

from __future__ import annotations

import threading
import warnings
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread

from colony_memory.exceptions import ColonyMemoryError, ColonyMemoryWarning
from colony_memory.reports import Event
from colony_memory.words.text import count, size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from colony_memory.reports import LifecycleEvent

_T = TypeVar("_T")

#: Seconds between two reports.
_EVERY = 0.25
_DOING = {"upload": "uploading", "download": "reading the vault", "delete": "deleting"}


class Reporting(Protocol):
    """Who is told how far a call has come; the library's context of a request is one."""

    async def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Tell; ``progress`` only grows."""


class Stopped(BaseException):
    """Nobody waits for the call. No error, so that nothing on the way takes it for one, as an interrupt is none."""


@dataclass(frozen=True)
class Done(Generic[_T]):
    """What a call gave, and what it warned of."""

    value: _T
    warnings: tuple[ColonyMemoryWarning, ...] = ()


class Job:
    """One call under way, seen from both threads."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self.ended = threading.Event()
        self._uploading = False
        self._steps = 0
        self._message = ""

    def stop(self) -> None:
        """End it at its next step, unless it is writing to the vault: what has begun there is soon done, and whole."""
        self._stop.set()

    @property
    def told(self) -> tuple[int, str]:
        """How many steps were done, and what the last one was."""
        return self._steps, self._message

    def on_event(self, event: Event | LifecycleEvent) -> None:
        """Take note of a vault file, as ``on_event`` of :class:`colony_memory.ColonyMemory`."""
        if not isinstance(event, Event):
            return
        self._uploading = self._uploading or event.action != "download"
        self._step(f"{_DOING[event.action]}: {event.done} of {event.total}", may_stop=not self._uploading)

    def on_reading(self, files: int, read: int, _name: str) -> None:
        """Take note of files that were read, as ``on_progress`` of a backup."""
        self._step(f"reading: {count(files, 'file')}, {size(read)}")

    def on_writing(self, done: int, total: int, _name: str) -> None:
        """Take note of files that are ready, as ``on_progress`` of a restore."""
        self._step(f"writing: {done} of {total}")

    def _step(self, message: str, *, may_stop: bool = True) -> None:
        if may_stop and self._stop.is_set():
            raise Stopped
        self._steps, self._message = self._steps + 1, message


class Worker:
    """Does one call at a time: a warning belongs to the call that is under way."""

    def __init__(self) -> None:
        self._turn = anyio.Lock()
        self._job: Job | None = None

    def rest(self, seconds: float) -> None:
        """Stop what is under way, and wait until it has ended, so long at most. For another thread, at the end."""
        job = self._job
        if job is not None:
            job.stop()
            job.ended.wait(seconds)

    async def do(self, call: Callable[[Job], _T], told: Reporting) -> Done[_T]:
        """Run the call in a thread when it is its turn, and tell how far it is.

        Where the caller is cancelled, a call that waits is not begun, and one that is under way is stopped at its next
        step, or awaited where it is writing to the vault.
        """
        async with self._turn:
            job = self._job = Job()
            outcome: list[Done[_T] | Exception] = []
            async with anyio.create_task_group() as beside:
                beside.start_soon(_report, job, told)
                beside.start_soon(_stop_if_cancelled, job)
                found = await anyio.to_thread.run_sync(partial(_perform, call, job))
                if found is not None:
                    outcome.append(found)
                beside.cancel_scope.cancel()
        if not outcome:  # it was stopped, and so is whoever waits
            await anyio.lowlevel.checkpoint()
            raise ColonyMemoryError("the call was stopped, as the server is about to end")
        if isinstance(outcome[0], Exception):
            raise outcome[0]
        return outcome[0]


def _perform(call: Callable[[Job], _T], job: Job) -> Done[_T] | Exception | None:
    """What the call gives or raises; None where it was stopped."""
    with _recorded() as found:
        try:
            value = call(job)
        except Stopped:
            return None
        except Exception as error:  # noqa: BLE001 - raised where it is waited for
            return error
        finally:
            job.ended.set()
    return Done(value, tuple(found))


@contextmanager
def _recorded() -> Iterator[list[ColonyMemoryWarning]]:
    found: list[ColonyMemoryWarning] = []

    def note(message: Warning | str, *_: object, **__: object) -> None:
        if isinstance(message, ColonyMemoryWarning):
            found.append(message)

    with warnings.catch_warnings():
        warnings.simplefilter("always", ColonyMemoryWarning)
        warnings.showwarning = note
        yield found


async def _report(job: Job, told: Reporting) -> None:
    known = 0
    while True:
        await anyio.sleep(_EVERY)
        steps, message = job.told
        if steps > known:
            known = steps
            with suppress(Exception):  # the call does not depend on who hears of it
                await told.report_progress(steps, None, message)


async def _stop_if_cancelled(job: Job) -> None:
    try:
        await anyio.sleep_forever()
    finally:
        job.stop()
