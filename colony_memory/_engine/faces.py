"""The two faces of a vault: over plain methods, and over coroutines.

:class:`SyncVault` never suspends, so :func:`~colony_memory._boundary.drive` runs a verb over it without an event
loop, inside or outside of one. :class:`AsyncVault` awaits.
"""

from __future__ import annotations

import threading
import time
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from colony_memory._boundary import drive, is_coroutine
from colony_memory._engine.store import StoredFile, Vault, nobody
from colony_memory.exceptions import VaultUnavailable
from colony_memory.vaults import VaultBackend

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from colony_memory._engine.store import ReadFile

_T = TypeVar("_T")
_READERS = 12
# Calls that change the vault.
_CHANGES = frozenset({"vault_upload_file", "vault_upload_file_if", "vault_delete_file"})
# Seconds; a call that takes less is not worth a thread.
_FAST = 0.002
# Seconds between two looks whether a lock is free.
_SHORTEST, _LONGEST = 0.001, 0.05


class SyncVault(Vault):
    """Over a backend of plain methods. No await here ever suspends."""

    def __init__(self, backend: Any) -> None:
        super().__init__(backend)
        self._pace = 0.0

    async def _call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        begin = time.perf_counter()
        try:
            reply = getattr(self.backend, method)(*args, **kwargs)
        finally:
            self._pace = time.perf_counter() - begin
        if hasattr(type(reply), "__await__"):
            if hasattr(reply, "close"):
                reply.close()
            raise VaultUnavailable("this backend is asynchronous: use AsyncColonyMemory")
        return reply

    def new_lock(self) -> threading.Lock:
        return threading.RLock()  # type: ignore[return-value] # which is used as the other is

    async def acquire(self, lock: threading.Lock) -> None:
        lock.acquire()

    async def compute(self, function: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
        return function(*args, **kwargs)

    async def gather(
        self, names: list[str], told: Callable[[str], None] = nobody, read: ReadFile | None = None
    ) -> list[StoredFile | None]:
        left, out, read = list(names), list[StoredFile | None](), read or self.get
        # Threads pay off where a read waits for a network; a vault in memory or on disk is read as fast in turn.
        while left and (self._pace < _FAST or len(left) == 1):
            name = left.pop(0)
            out.append(await read(name))
            told(name)
        return out + self._read_at_once(left, told, read) if left else out

    def _read_at_once(self, names: list[str], told: Callable[[str], None], read: ReadFile) -> list[StoredFile | None]:
        def read_one(name: str) -> StoredFile | None:
            return drive(read(name))  # type: ignore[arg-type] # which is a coroutine

        try:
            from concurrent.futures import ThreadPoolExecutor

            pool = ThreadPoolExecutor(min(_READERS, len(names)), "colony-memory-read")
            # Each in a copy of this context, so that it counts for this verb.
            futures = [pool.submit(copy_context().run, read_one, name) for name in names]
        except (ImportError, RuntimeError):
            # At the interpreter's exit no thread starts and nothing is imported any more; nor is it where a process
            # gave up the right to read Python's own files. A backup still has to read.
            return list(map(read_one, names))
        with pool:
            try:
                out = []
                for name, future in zip(names, futures, strict=True):
                    out.append(future.result())
                    told(name)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return out


class AsyncVault(Vault):
    """Over a backend of coroutines, or of plain methods, which then run in threads."""

    def __init__(self, backend: Any) -> None:
        super().__init__(backend)
        methods = (name for name in vars(VaultBackend) if name.startswith("vault_"))
        self._threads = not any(is_coroutine(getattr(backend, name)) for name in methods)

    async def _call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        bound = getattr(self.backend, method)
        if not self._threads:
            reply = bound(*args, **kwargs)
        elif method in _CHANGES:
            reply = await _to_its_end(_in_thread(bound, args, kwargs))
        else:
            reply = await _in_thread(bound, args, kwargs)
        return await reply if hasattr(type(reply), "__await__") else reply

    def new_lock(self) -> threading.Lock:
        return threading.Lock()

    async def acquire(self, lock: threading.Lock) -> None:
        import asyncio

        # Asked again and again: a thread that waits could not be called off, and several loops may use one client.
        pause = _SHORTEST
        while not lock.acquire(blocking=False):
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST)

    async def compute(self, function: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
        return await _in_thread(function, args, kwargs)

    async def change(self, function: Callable[..., _T], *args: Any) -> _T:
        return await _to_its_end(_in_thread(function, args, {}))

    async def gather(
        self, names: list[str], told: Callable[[str], None] = nobody, read: ReadFile | None = None
    ) -> list[StoredFile | None]:
        import asyncio

        gate, get = asyncio.Semaphore(_READERS), read or self.get

        async def read_one(name: str) -> StoredFile | None:
            async with gate:
                file = await get(name)
            told(name)
            return file

        tasks = [asyncio.ensure_future(read_one(name)) for name in names]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _in_thread(function: Callable[..., _T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> asyncio.Future[_T]:
    """A call in a thread of its own, in a copy of this context. No task: the end of a loop cancels every one."""
    import asyncio

    run = partial(copy_context().run, _outside_loop, function, args, kwargs)
    return asyncio.get_running_loop().run_in_executor(None, run)


async def _to_its_end(call: asyncio.Future[_T]) -> _T:
    """The result of a call that cannot be called off. A cancellation is passed on once it has ended: else it would
    change the vault behind whoever goes on from there.
    """
    import asyncio

    cancelled: asyncio.CancelledError | None = None
    while not call.done():
        try:
            await asyncio.wait([call])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        return call.result()
    call.exception()  # nobody else hears of it
    raise cancelled


def _outside_loop(bound: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    try:
        return bound(*args, **kwargs)
    except StopIteration as error:
        # It cannot pass through a future: whoever waits for that would wait for ever.
        raise RuntimeError(f"StopIteration: {error}") from error
