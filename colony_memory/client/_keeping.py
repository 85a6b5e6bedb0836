"""Keeping: which snapshots stay, and which go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from colony_memory import _engine
from colony_memory.client._face import Awaiting, Blocking, wire_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from colony_memory.encryption import Passphrase
    from colony_memory.reports import RewriteReport
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

    def rewrite(
        self,
        *,
        label: str = "default",
        exclude: str | Iterable[str] = (),
        replace: Mapping[str, str] | None = None,
        format: Literal[1, 2] | None = None,  # noqa: A002 - the word for it
        sign: bool = False,
        encrypt_to: str | Passphrase | Iterable[str | Passphrase] | None = None,
        dry_run: bool = False,
    ) -> RewriteReport:
        """Save the snapshots of a label anew, without a text or a document, in another format or under other keys, and
        delete those that they stand for.

        Each keeps its time, note, tags and pin, is signed by this client's signer if it has one, and has an id one
        microsecond later; ``rewrites`` names the one that it stands for, in its place for whoever saved or restored
        that. Snapshots that are as they are to be stay. It may be stopped anywhere, and goes on when it is done again.

        Args:
            label: Label to rewrite.
            exclude: Globs of names of documents that no snapshot is to hold.
            replace: Texts that no document or note is to hold, and what stands in their place.
            format: 1 or 2: the format to save in.
            sign: Save anew also what this client's signer has not signed.
            encrypt_to: Whom to encrypt to; by default those of this client. Takes format 2.
            dry_run: Only tell what it takes.

        Returns:
            What it took, and which files the hour of grace holds back, until when: a :meth:`prune` then removes them.

        Raises:
            ValueError: There is nothing to do, or an argument is wrong.
            QuotaExceeded: It does not fit beside what is there. Nothing was written.
            SnapshotCorrupt: A snapshot is damaged: it has to be deleted first. Nothing was written.
            UntrustedSnapshot: A snapshot is not trusted, or is signed, and this client has no signer.
            ColonyMemoryError: A document that is to have a text replaced is no text, or nothing would be left.
            ConflictDetected: Others kept saving.
            VaultError: The vault could not be reached or refused; what was done stays done.
        """
        return self._run(
            _engine.rewrite.rewrite,
            label=label,
            exclude=exclude,
            replaced=replace,
            wire=wire_of(format),
            sign=sign,
            encrypt_to=encrypt_to,
            dry_run=dry_run,
        )


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

    async def rewrite(
        self,
        *,
        label: str = "default",
        exclude: str | Iterable[str] = (),
        replace: Mapping[str, str] | None = None,
        format: Literal[1, 2] | None = None,  # noqa: A002 - the word for it
        sign: bool = False,
        encrypt_to: str | Passphrase | Iterable[str | Passphrase] | None = None,
        dry_run: bool = False,
    ) -> RewriteReport:
        """See :meth:`ColonyMemory.rewrite`."""
        return await self._run(
            _engine.rewrite.rewrite,
            label=label,
            exclude=exclude,
            replaced=replace,
            wire=wire_of(format),
            sign=sign,
            encrypt_to=encrypt_to,
            dry_run=dry_run,
        )


def _policy(keep: int, retention: Retention | None) -> Retention:
    """``keep`` has a default, so a retention takes its place."""
    policy = _engine.keep.policy_of(None if retention is not None else keep, retention)
    if policy is None:
        raise ValueError("keep must be a count")
    return policy
