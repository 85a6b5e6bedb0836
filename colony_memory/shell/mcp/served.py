"""The memory that a server serves, by the options it was started with, and its calls: in a thread, one at a time."""

from __future__ import annotations

import os
import threading
import warnings
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread

from colony_memory._os.paths import real_path
from colony_memory.capture._identity import unmoved
from colony_memory.client import ColonyMemory
from colony_memory.exceptions import ColonyMemoryError, ColonyMemoryWarning
from colony_memory.reports import Event
from colony_memory.shell.app.open import refuse_vault_inside
from colony_memory.shell.app.options import BackupOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from colony_memory.reports import LifecycleEvent
    from colony_memory.shell.app.open import Place
    from colony_memory.shell.mcp.replies import Words


@dataclass(frozen=True)
class Served:
    """A folder, and where and how its memory is kept.

    Attributes:
        options: How it is saved; the label is the only one that is read and written.
        trust: The arguments of :class:`ColonyMemory` that say what is trusted.
    """

    place: Place  # the vault
    root: Path  # the folder, as a real path
    options: BackupOptions = field(default_factory=BackupOptions)
    trust: Mapping[str, Any] = field(default_factory=dict, repr=False)
    wire: Literal[1, 2] | None = None  # format to write, None for what the vault is for
    allow_restore: bool = False  # whether files may be restored into the folder, by a client that can ask the person

    def __post_init__(self) -> None:
        """Refuse before a host is answered what every call would be refused for."""
        if not os.path.isdir(self.root) and (not self.allow_restore or os.path.lexists(self.root)):  # noqa: PTH112
            raise ValueError(f"{str(self.root)!r} is not a directory")
        refuse_vault_inside(self.open(), [self.root])

    @property
    def label(self) -> str:
        return self.options.label

    @property
    def hidden(self) -> set[str]:
        """The URL and path of the vault, which nobody needs to know who may only call tools."""
        path = getattr(self.place.backend, "path", None)
        found = {self.place.url, *([str(path), os.path.realpath(path)] if path is not None else [])}
        return {spelling for each in found for spelling in (each, repr(each)[1:-1])}

    def fixed(self) -> AbstractContextManager[None]:
        """Do something with the folder, where it is still the one that the server was started for."""
        return unmoved({str(self.root): self.root})

    def open(self, on_event: Callable[[Event | LifecycleEvent], None] | None = None) -> ColonyMemory:
        """A client for one call, as each run of the command line has: what others saved in between is no conflict."""
        return ColonyMemory(backend=self.place.backend, format=self.wire, on_event=on_event, **self.trust)


def real_folder(directory: str) -> Path:
    """The folder that a path leads to, once and for all: what a link says later moves nothing."""
    if not directory or "\0" in directory:
        raise ValueError("an empty path" if not directory else f"{directory!r} is not a path")
    return real_path(os.path.expanduser(directory))  # noqa: PTH111 - Path's raises RuntimeError


_T = TypeVar("_T")


class Stopped(BaseException):
    """Nobody waits for the call. No error, so that nothing on the way takes it for one, as an interrupt is none."""


class Job:
    """One call under way, seen from both threads."""

    def __init__(self, served: Served, words: Words) -> None:
        self.served, self.words = served, words
        self.stop = threading.Event()
        self.ended = threading.Event()
        self._uploading = False

    def open(self) -> ColonyMemory:
        return self.served.open(self._on_event)

    def _on_event(self, event: Event | LifecycleEvent) -> None:
        # What has begun in the vault is soon done, and whole.
        self._uploading = self._uploading or (isinstance(event, Event) and event.action != "download")
        if not self._uploading:
            self.go_on()

    def go_on(self, *_progress: object) -> None:
        """Go on only where somebody waits; the ``on_progress`` of what reads and writes."""
        if self.stop.is_set():
            raise Stopped


class Worker:
    """Does one call at a time: a warning belongs to the call that is under way."""

    def __init__(self, served: Served, words: Words) -> None:
        self._served, self._words = served, words
        self._turn = anyio.Lock()
        self._job: Job | None = None

    def rest(self, seconds: float) -> None:
        """Stop what is under way, and wait until it has ended, so long at most. For another thread, at the end."""
        job = self._job
        if job is not None:
            job.stop.set()
            job.ended.wait(seconds)

    async def do(self, call: Callable[[Job], _T]) -> tuple[_T, list[ColonyMemoryWarning]]:
        """Run the call in a thread when it is its turn; what it gives, and what it warned of.

        Where the caller is cancelled, a call that waits is not begun, and one that is under way is stopped at its next
        step, or awaited where it is writing to the vault.
        """
        async with self._turn:
            job = self._job = Job(self._served, self._words)
            found: tuple[_T, list[ColonyMemoryWarning]] | Exception | None = None
            async with anyio.create_task_group() as beside:
                beside.start_soon(_stop_where_cancelled, job)
                found = await anyio.to_thread.run_sync(partial(_perform, call, job))
                beside.cancel_scope.cancel()
        if found is None:  # it was stopped, and so is whoever waits
            await anyio.lowlevel.checkpoint()
            raise ColonyMemoryError("the call was stopped, as the server is about to end")
        if isinstance(found, Exception):
            raise found
        return found


def _perform(call: Callable[[Job], _T], job: Job) -> tuple[_T, list[ColonyMemoryWarning]] | Exception | None:
    """The call's result or error; None where it was stopped."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", ColonyMemoryWarning)
        try:
            value = call(job)
        except Stopped:
            return None
        except Exception as error:  # noqa: BLE001 - raised where it is waited for
            return error
        finally:
            job.ended.set()
    return value, [each.message for each in found if isinstance(each.message, ColonyMemoryWarning)]


async def _stop_where_cancelled(job: Job) -> None:
    try:
        await anyio.sleep_forever()
    finally:
        job.stop.set()
