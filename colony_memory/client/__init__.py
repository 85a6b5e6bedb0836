"""The facade: :class:`ColonyMemory` and :class:`AsyncColonyMemory`, the same verbs for both worlds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from colony_memory.client._face import Awaiting, awaited
from colony_memory.client._verbs import ColonyMemory
from colony_memory.vaults import AsyncVaultBackend, VaultBackend

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from colony_memory.schedule.autobackup import AsyncAutobackup

__all__ = ["AsyncColonyMemory", "AsyncVaultBackend", "ColonyMemory", "VaultBackend"]


class AsyncColonyMemory(Awaiting):
    """:class:`ColonyMemory` as coroutines, over ``colony_sdk.AsyncColonyClient`` or any asynchronous vault.

    A plain vault works too: its calls then run in threads. A cancelled verb leaves the vault as a crash would leave it.
    Belongs to one event loop; ``async with`` closes the connection that it opened itself. Arguments and errors are
    those of :class:`ColonyMemory`. The hosted vault needs the extra ``async``.
    """

    async def aclose(self) -> None:
        """Close the connection, if this client opened it."""
        if self._own is not None:
            await self._own.aclose()

    async def __aenter__(self) -> AsyncColonyMemory:  # noqa: PYI034 - typing.Self is of 3.11
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    backup = awaited(ColonyMemory.backup)
    restore = awaited(ColonyMemory.restore)
    merge = awaited(ColonyMemory.merge)
    salvage = awaited(ColonyMemory.salvage)
    list_snapshots = awaited(ColonyMemory.list_snapshots)
    latest = awaited(ColonyMemory.latest)
    verify = awaited(ColonyMemory.verify)
    diff = awaited(ColonyMemory.diff)
    history = awaited(ColonyMemory.history)
    search = awaited(ColonyMemory.search)
    inspect = awaited(ColonyMemory.inspect)
    status = awaited(ColonyMemory.status)
    prune = awaited(ColonyMemory.prune)
    plan_prune = awaited(ColonyMemory.plan_prune)
    delete_snapshot = awaited(ColonyMemory.delete_snapshot)
    pin = awaited(ColonyMemory.pin)
    unpin = awaited(ColonyMemory.unpin)
    tag = awaited(ColonyMemory.tag)
    rewrite = awaited(ColonyMemory.rewrite)
    export_snapshot = awaited(ColonyMemory.export_snapshot)
    import_snapshot = awaited(ColonyMemory.import_snapshot)
    copy_to = awaited(ColonyMemory.copy_to)

    def autobackup(
        self,
        collect: Callable[[], dict[str, str] | Awaitable[dict[str, str]]],
        *,
        every: float = 900.0,
        label: str = "default",
        final_timeout: float = 10.0,
        **backup_options: Any,
    ) -> AsyncAutobackup:
        """See :meth:`ColonyMemory.autobackup`; ``collect`` may be a coroutine function, called in the event loop."""
        from colony_memory.schedule.autobackup import AsyncAutobackup

        return AsyncAutobackup(self, collect, every=every, label=label, final_timeout=final_timeout, **backup_options)
