"""Keeping: which snapshots stay, and which go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colony_memory import _engine
from colony_memory.client._face import Awaiting, Blocking

if TYPE_CHECKING:
    from colony_memory.retention import PrunePlan, Retention

__all__ = ["AsyncKeeping", "Keeping"]


class Keeping(Blocking):
    """The verbs that keep and delete."""

    def prune(self, *, label: str = "default", keep: int = 5, retention: Retention | None = None) -> int:
        """Delete snapshots, and the leftovers of interrupted backups that are older than an hour.

        Only snapshots that are whole count. The newest good one and the one that the pointer names always stay;
        those that cannot be read are neither counted nor removed.

        Args:
            label: Label to prune.
            keep: How many to keep.
            retention: Rules in place of ``keep``. See :meth:`plan_prune` for a preview.

        Returns:
            The number of snapshots that are gone.

        Raises:
            PruneIncomplete: Some files could not be deleted.
            VaultError: The vault could not be reached, or cut its list; nothing was deleted.
        """
        return self._run(_engine.prune.prune, label=label, policy=_policy(keep, retention))

    def plan_prune(self, *, label: str = "default", keep: int = 5, retention: Retention | None = None) -> PrunePlan:
        """What :meth:`prune` with these arguments would keep and delete, and why. Deletes nothing."""
        return self._run(_engine.prune.plan_prune, label=label, policy=_policy(keep, retention))

    def delete_snapshot(self, *, label: str, snapshot_id: str) -> None:
        """Delete one snapshot. Where the pointer names it, the pointer first moves to the newest good one left.

        Raises:
            SnapshotNotFound: There is no such snapshot.
            PruneIncomplete: Some of its files could not be deleted.
        """
        self._run(_engine.prune.delete_snapshot, label=label, snapshot_id=snapshot_id)

    def pin(self, *, snapshot_id: str, label: str = "default") -> None:
        """Keep a snapshot whatever a retention says, until it is unpinned.

        Raises:
            SnapshotNotFound: There is no such snapshot.
        """
        self._run(_engine.prune.pin, label=label, snapshot_id=snapshot_id)

    def unpin(self, *, snapshot_id: str, label: str = "default") -> None:
        """Leave a snapshot to the retention again; it is no error that it was not pinned."""
        self._run(_engine.prune.unpin, label=label, snapshot_id=snapshot_id)


class AsyncKeeping(Awaiting):
    """:class:`Keeping` as coroutines."""

    async def prune(self, *, label: str = "default", keep: int = 5, retention: Retention | None = None) -> int:
        """See :meth:`ColonyMemory.prune`."""
        return await self._run(_engine.prune.prune, label=label, policy=_policy(keep, retention))

    async def plan_prune(
        self, *, label: str = "default", keep: int = 5, retention: Retention | None = None
    ) -> PrunePlan:
        """See :meth:`ColonyMemory.plan_prune`."""
        return await self._run(_engine.prune.plan_prune, label=label, policy=_policy(keep, retention))

    async def delete_snapshot(self, *, label: str, snapshot_id: str) -> None:
        """See :meth:`ColonyMemory.delete_snapshot`."""
        await self._run(_engine.prune.delete_snapshot, label=label, snapshot_id=snapshot_id)

    async def pin(self, *, snapshot_id: str, label: str = "default") -> None:
        """See :meth:`ColonyMemory.pin`."""
        await self._run(_engine.prune.pin, label=label, snapshot_id=snapshot_id)

    async def unpin(self, *, snapshot_id: str, label: str = "default") -> None:
        """See :meth:`ColonyMemory.unpin`."""
        await self._run(_engine.prune.unpin, label=label, snapshot_id=snapshot_id)


def _policy(keep: int, retention: Retention | None) -> Retention:
    """``keep`` has a default, so a retention takes its place."""
    policy = _engine.keep.policy_of(None if retention is not None else keep, retention)
    if policy is None:
        raise ValueError("keep must be a count")
    return policy
