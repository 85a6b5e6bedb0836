"""Saving: ``backup``, and ``autobackup`` by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from colony_memory import _engine
from colony_memory.client._face import Awaiting, Blocking

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from colony_memory.reports import Merged
    from colony_memory.retention import Retention
    from colony_memory.schedule.async_autobackup import AsyncAutobackup
    from colony_memory.schedule.autobackup import Autobackup
    from colony_memory.signing import Signer
    from colony_memory.snapshot import SnapshotInfo

__all__ = ["AsyncSaving", "Saving"]


class Saving(Blocking):
    """The verbs that save."""

    def backup(
        self,
        documents: dict[str, str],
        *,
        label: str = "default",
        signer: Signer | None = None,
        prune_keep: int | None = None,
        retention: Retention | None = None,
        skip_unchanged: bool = True,
        on_conflict: Literal["raise", "continue", "merge"] = "raise",
        note: str | None = None,
        incomplete: Iterable[str] | None = None,
        tags: str | Iterable[str] = (),
    ) -> SnapshotInfo:
        """Save ``{name: text}`` as a new snapshot, which ``restore`` then gives.

        Parts are written first, then the manifest, then the pointer: wherever it stops, the snapshot before stays
        what ``restore`` gives.

        Args:
            documents: The whole memory, not empty. Any text comes back exactly.
            label: Label to save under.
            signer: Signs this one, in place of the client's.
            prune_keep: Keep only so many snapshots of this label, the new one included.
            retention: The same, by rules. Either is lenient in one way: for 30 days it keeps a snapshot that one of
                less than half its bytes or documents followed, so that an agent that started empty by mistake loses
                nothing. Older snapshots go first only if the new one does not fit otherwise.
            skip_unchanged: Where the memory is the same as in the latest snapshot, under the same signer, write
                nothing and return that one with ``reused`` set.
            on_conflict: What to do where the latest is another writer's, and this memory never held it, or another one
                saves in between. ``"raise"`` stores the snapshot, leaves the latest as it is, and raises.
                ``"continue"`` makes this one the latest and tells of the other in ``diverged_from``. ``"merge"`` stores
                the snapshot likewise, and saves what both have, over what they have in common, by document and then by
                line; it keeps twice what cannot be joined. Equal memory is no conflict, nor is memory
                in which nothing is new: then nothing is written.
            note: What to say of it, for people, in at most 1,000 characters.
            incomplete: What could not be saved and why, one line each. Such a snapshot never takes the place of the
                newest complete one in a retention.
            tags: What to file it under, for lists: at most 20, each of 1 to 64 letters, digits or any of ``._:/@+=-``.
                Unchanged memory is saved anew where the latest snapshot lacks one of them, or has another note than
                the one given here.

        Raises:
            ValueError: Bad documents or arguments; the message names the document.
            QuotaExceeded: It does not fit. Nothing was written.
            ConflictDetected: Another client has saved. Both snapshots are stored and listed.
            BackupUncertain: A write was not answered; the snapshot may be live.
            VaultError: The vault could not be reached or refused.
        """
        return self._run(
            _engine.backup.backup,
            documents,
            label=label,
            signer=signer,
            prune_keep=prune_keep,
            retention=retention,
            skip_unchanged=skip_unchanged,
            on_conflict=on_conflict,
            note=note,
            incomplete=incomplete,
            tags=tags,
        )

    def merge(self, documents: dict[str, str], *, snapshot_id: str, label: str = "default") -> Merged:
        """Join these documents with a snapshot, such as one of your own that met a conflict or was overtaken.

        By document and then by line, over what both come from: what only one side added, changed or removed is done.
        Where both changed the same lines, ours keeps the name and the other's text is kept too, under a name that says
        whose it is. Nothing is saved: the next :meth:`backup` of the label names the snapshot in ``based_on``.

        Args:
            documents: The memory as it is, not empty.
            snapshot_id: The snapshot, listed or not.
            label: Its label.

        Raises:
            ValueError: Bad documents or arguments.
            SnapshotNotFound: There is no such snapshot.
            SnapshotCorrupt: It is damaged.
            UntrustedSnapshot: This client does not trust it.
            VaultError: The vault could not be reached or refused.
        """
        return self._run(_engine.backup.merge_snapshot, documents, label=label, snapshot_id=snapshot_id)

    def autobackup(
        self,
        collect: Callable[[], dict[str, str]],
        *,
        every: float = 900.0,
        label: str = "default",
        final_timeout: float = 10.0,
        **backup_options: Any,
    ) -> Autobackup:
        """Save what ``collect()`` returns every ``every`` seconds, and once more when the block is left.

        ``with mem.autobackup(collect, every=900):`` also saves at the interpreter's exit and on SIGTERM, SIGINT and
        SIGHUP, never raises into the agent, and tells of itself in ``last_success`` and ``last_error``. See
        :class:`colony_memory.schedule.autobackup.Autobackup`.

        Args:
            collect: Returns the documents; called in a thread of its own.
            every: Seconds between backups.
            label: Label to save under.
            final_timeout: Seconds that the last backup may take.
            backup_options: Further arguments of :meth:`backup`.
        """
        from colony_memory.schedule.autobackup import Autobackup

        return Autobackup(self, collect, every=every, label=label, final_timeout=final_timeout, **backup_options)


class AsyncSaving(Awaiting):
    """:class:`Saving` as coroutines."""

    async def backup(
        self,
        documents: dict[str, str],
        *,
        label: str = "default",
        signer: Signer | None = None,
        prune_keep: int | None = None,
        retention: Retention | None = None,
        skip_unchanged: bool = True,
        on_conflict: Literal["raise", "continue", "merge"] = "raise",
        note: str | None = None,
        incomplete: Iterable[str] | None = None,
        tags: str | Iterable[str] = (),
    ) -> SnapshotInfo:
        """See :meth:`ColonyMemory.backup`."""
        return await self._run(
            _engine.backup.backup,
            documents,
            label=label,
            signer=signer,
            prune_keep=prune_keep,
            retention=retention,
            skip_unchanged=skip_unchanged,
            on_conflict=on_conflict,
            note=note,
            incomplete=incomplete,
            tags=tags,
        )

    async def merge(self, documents: dict[str, str], *, snapshot_id: str, label: str = "default") -> Merged:
        """See :meth:`ColonyMemory.merge`."""
        return await self._run(_engine.backup.merge_snapshot, documents, label=label, snapshot_id=snapshot_id)

    def autobackup(
        self,
        collect: Callable[[], dict[str, str] | Awaitable[dict[str, str]]],
        *,
        every: float = 900.0,
        label: str = "default",
        final_timeout: float = 10.0,
        **backup_options: Any,
    ) -> AsyncAutobackup:
        """See :meth:`ColonyMemory.autobackup`: ``async with mem.autobackup(collect, every=900):``.

        ``collect`` may be a coroutine function or a plain one; either is called in the event loop. See
        :class:`colony_memory.schedule.async_autobackup.AsyncAutobackup`.
        """
        from colony_memory.schedule.async_autobackup import AsyncAutobackup

        return AsyncAutobackup(self, collect, every=every, label=label, final_timeout=final_timeout, **backup_options)
