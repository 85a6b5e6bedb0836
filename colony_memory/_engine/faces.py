"""A vault over coroutines, or over plain methods in threads; the other face is :class:`Vault` itself."""

from __future__ import annotations

import threading
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, TypeVar

from colony_memory._boundary import is_coroutine
from colony_memory._engine.store import READERS, StoredFile, Vault
from colony_memory.vaults import VaultBackend

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from colony_memory._engine.store import ReadFile

_T = TypeVar("_T")
# Calls that change the vault.
_CHANGES = frozenset({"vault_upload_file", "vault_upload_file_if", "vault_delete_file"})
# Seconds between two looks whether a lock is free.
_SHORTEST, _LONGEST = 0.001, 0.05


class AsyncVault(Vault):
    """Over a backend of coroutines, or of plain methods, which then run in threads."""

    def __init__(self, backend: Any) -> None:
        super().__init__(backend)
        methods = (name for name in vars(VaultBackend) if name.startswith("vault_"))
        self._threads = not any(is_coroutine(getattr(backend, name)) for name in methods)

    async def _call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        bound = getattr(self.backend, method)
        if self._threads:
            call = _in_thread(bound, args, kwargs)
            reply = await (_to_its_end(call) if method in _CHANGES else call)
        else:
            reply = bound(*args, **kwargs)
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

    async def gather(self, names: list[str], told: Callable[[str], None], read: ReadFile) -> list[StoredFile | None]:
        import asyncio

        gate = asyncio.Semaphore(READERS)

        async def read_one(name: str) -> StoredFile | None:
            async with gate:
                file = await read(name)
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

    def run() -> _T:
        try:
            return function(*args, **kwargs)
        except StopIteration as error:  # whoever waits for a future with it would wait for ever
            raise RuntimeError(f"StopIteration: {error}") from error

    return asyncio.get_running_loop().run_in_executor(None, copy_context().run, run)


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
