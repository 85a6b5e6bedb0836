"""Carrying: snapshots out of a vault, and into another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colony_memory import _engine
from colony_memory._arguments import require_type
from colony_memory.client._face import Awaiting, Blocking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from colony_memory._engine.transfer import CopyReport
    from colony_memory.client import AsyncColonyMemory, ColonyMemory
    from colony_memory.export import Export
    from colony_memory.snapshot import SnapshotInfo

__all__ = ["AsyncCarrying", "Carrying"]


class Carrying(Blocking):
    """The verbs that take snapshots elsewhere."""

    def export_snapshot(self, *, label: str = "default", snapshot_id: str | None = None) -> Export:
        """Take one snapshot out of a vault, checked in every byte as a restore of it would be.

        Args:
            label: Label of the snapshot.
            snapshot_id: A certain snapshot; by default the latest.

        Raises:
            SnapshotNotFound: The vault answered, and there is no such snapshot.
            SnapshotCorrupt: The snapshot is damaged.
            UntrustedSnapshot: The client does not trust it.
            VaultError: The vault could not be reached or refused.
        """
        return self._run(_engine.transfer.export_snapshot, label=label, snapshot_id=snapshot_id)

    def import_snapshot(self, exported: Export, *, label: str | None = None, dry_run: bool = False) -> SnapshotInfo:
        """Put an exported snapshot into the vault, if this client would restore it.

        Parts are written first, then the manifest, then the pointer, which moves to the snapshot if that is newer than
        the one that it names.

        Args:
            exported: The export, from :func:`colony_memory.transfer.load_export` or :meth:`export_snapshot`.
            label: Refuse an export of another label. A snapshot cannot change its label: restore it and back it up.
            dry_run: Only check all that, and write nothing.

        Returns:
            The summary: ``head`` tells whether it is the latest now, ``reused`` that it was there already.

        Raises:
            ValueError: The export is of another label.
            SnapshotCorrupt: It is damaged. Nothing was written.
            UntrustedSnapshot: This client does not trust it. Nothing was written.
            QuotaExceeded: It does not fit. Nothing was written.
            ColonyMemoryError: It is of format 2, and the vault does not write on condition. Nothing was written.
            ConflictDetected: Something else is under its id; what is there of it is in no catalogue, and may be about
                to be deleted; or the label is signed, and this client has no signer.
            VaultError: The vault could not be reached or refused.
        """
        return self._run(_engine.transfer.import_snapshot, exported, label=label, dry_run=dry_run)

    def copy_to(
        self,
        destination: ColonyMemory,
        *,
        labels: str | Iterable[str] | None = None,
        progress: Callable[[int, int], object] | None = None,
        dry_run: bool = False,
    ) -> CopyReport:
        """Copy every whole snapshot into another vault, oldest first, byte for byte, and read each back.

        What is there with the same bytes is not written again, so a copy that was stopped goes on when it is made
        again, and one that is made every night brings what is new. Nothing is removed, and the pointer of a label never
        moves to an older snapshot than it names. A client with a signer signs that pointer. Without one, a label that
        is not there yet gets the pointer of this one as it is, where that says just what is there, else an unsigned
        one, with a warning; to add to a label that is signed takes a signer.

        Args:
            destination: The memory to copy to. What it, or this one, would not restore is left out.
            labels: Labels to copy, by default all.
            progress: Called after each snapshot with the number that is done and the number there is.
            dry_run: Read and check everything, and write nothing.

        Raises:
            ConflictDetected: A label there is signed, and the destination has no signer.
            SnapshotNotFound: There is nothing to copy, under one of the labels or at all.
            QuotaExceeded: It does not fit.
            RollbackDetected: A label, here or there, was rolled back.
            VaultError: A vault could not be reached or refused; ``RateLimited`` after 60 writes an hour to the hosted
                one. The message tells how far it came.
        """
        from colony_memory.client import ColonyMemory

        require_type("destination", destination, ColonyMemory)
        return self._run(
            _engine.transfer.copy,
            destination._session,  # noqa: SLF001 - another client
            labels=labels,
            progress=progress,
            dry_run=dry_run,
        )


class AsyncCarrying(Awaiting):
    """:class:`Carrying` as coroutines."""

    async def export_snapshot(self, *, label: str = "default", snapshot_id: str | None = None) -> Export:
        """See :meth:`ColonyMemory.export_snapshot`."""
        return await self._run(_engine.transfer.export_snapshot, label=label, snapshot_id=snapshot_id)

    async def import_snapshot(
        self, exported: Export, *, label: str | None = None, dry_run: bool = False
    ) -> SnapshotInfo:
        """See :meth:`ColonyMemory.import_snapshot`."""
        return await self._run(_engine.transfer.import_snapshot, exported, label=label, dry_run=dry_run)

    async def copy_to(
        self,
        destination: AsyncColonyMemory,
        *,
        labels: str | Iterable[str] | None = None,
        progress: Callable[[int, int], object] | None = None,
        dry_run: bool = False,
    ) -> CopyReport:
        """See :meth:`ColonyMemory.copy_to`."""
        from colony_memory.client import AsyncColonyMemory

        require_type("destination", destination, AsyncColonyMemory)
        return await self._run(
            _engine.transfer.copy,
            destination._session,  # noqa: SLF001 - another client
            labels=labels,
            progress=progress,
            dry_run=dry_run,
        )
