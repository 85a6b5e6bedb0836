"""Reading: what is stored, and what is to be said of it. Nothing is changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from colony_memory import _engine
from colony_memory._format.constants import NO_DEFAULT
from colony_memory.client._face import Awaiting, Blocking

if TYPE_CHECKING:
    from collections.abc import Iterable

    from colony_memory.reports import Change, Salvaged, SearchReport, SnapshotDiff, VaultMap, VerifyReport
    from colony_memory.snapshot import SnapshotInfo

__all__ = ["AsyncReading", "Reading"]

_D = TypeVar("_D")


class Reading(Blocking):
    """The verbs that read."""

    @overload
    def restore(
        self,
        *,
        label: str = "default",
        snapshot_id: str | None = None,
        verify: bool = True,
        names: str | Iterable[str] | None = None,
        fallback: bool = False,
        at_least: str | int | None = None,
        default: dict[str, str],
    ) -> dict[str, str]: ...

    @overload
    def restore(
        self,
        *,
        label: str = "default",
        snapshot_id: str | None = None,
        verify: bool = True,
        names: str | Iterable[str] | None = None,
        fallback: bool = False,
        at_least: str | int | None = None,
        default: _D = NO_DEFAULT,
    ) -> dict[str, str] | _D: ...

    def restore(
        self,
        *,
        label: str = "default",
        snapshot_id: str | None = None,
        verify: bool = True,
        names: str | Iterable[str] | None = None,
        fallback: bool = False,
        at_least: str | int | None = None,
        default: _D = NO_DEFAULT,
    ) -> dict[str, str] | _D:
        """The documents of the latest snapshot, or of the one asked for, checked in every byte.

        Where the pointer is missing, garbled, or names a snapshot that is not there, it is the newest whole snapshot
        in the vault's list, with a :class:`ColonyMemoryWarning`.

        Args:
            label: Label to restore.
            snapshot_id: A certain snapshot, from :meth:`list_snapshots`.
            verify: Check signatures, of the snapshot and of the pointer. The digest is always checked.
            names: Only documents whose name matches one of these globs (``*``, ``?``, ``[…]``; ``*`` matches ``/``); a
                ValueError where there is none, ``default`` or not.
            fallback: Where a snapshot is damaged, walk back to the newest intact one, with a warning that says why.
            at_least: ``head`` of a snapshot that was seen before, or its generation: refuse a vault that was set back.
            default: What to return where the vault has proven that nothing is saved yet. No fault ever leads here:
                ``memory = mem.restore(default={})`` is a boot that cannot start empty by mistake.

        Raises:
            SnapshotNotFound: The vault answered, and there is no such snapshot.
            SnapshotCorrupt: The snapshot is damaged; ``UnsupportedFormat``: a newer version wrote it.
            UntrustedSnapshot: Its signature does not verify, or this client does not trust who made it.
            RollbackDetected: The vault is in an older state than the one that was seen before.
            DecryptionError: It is encrypted, and no identity opens it. ``fallback`` does not pass it over.
            VaultError: The vault could not be reached or refused. Nothing is known of what is stored.
        """
        return self._run(
            _engine.restore.restore_documents,
            label=label,
            snapshot_id=snapshot_id,
            verify=verify,
            names=names,
            fallback=fallback,
            at_least=at_least,
            default=default,
        )

    def salvage(self, *, label: str = "default", snapshot_id: str | None = None) -> Salvaged:
        """What is proven of the latest snapshot, or of the one asked for, where it is damaged: of each document the
        newest text up to then, of its own whole packs or of the snapshots before it, else of those after it.

        With it the memory counts as set back, unless the snapshot is whole: the next backup becomes the latest.

        Args:
            label: Label to restore.
            snapshot_id: A certain snapshot, from :meth:`list_snapshots`.

        Raises:
            SnapshotNotFound: There is no such snapshot.
            SnapshotCorrupt: It is damaged, and nothing is proven of it, nor of any other.
            UntrustedSnapshot: Likewise; with a pinned signer, only what is signed is proven.
            DecryptionError: What comes next is encrypted, and no identity opens it.
            VaultError: The vault could not be reached, refused, or cut its list.
        """
        return self._run(_engine.salvage.salvage_documents, label=label, snapshot_id=snapshot_id)

    def list_snapshots(self, *, label: str | None = None) -> list[SnapshotInfo]:
        """Every snapshot that is whole, newest first, of one label or of all.

        A snapshot that is not whole is left out with a :class:`ColonyMemoryWarning` that names it.
        """
        return self._run(_engine.restore.list_snapshots, label=label)

    def latest(self, *, label: str = "default") -> SnapshotInfo | None:
        """The snapshot that ``restore`` gives, or None where the vault has proven that there is none."""
        return self._run(_engine.restore.latest, label=label)

    def verify(self, *, label: str = "default", snapshot_id: str | None = None) -> VerifyReport:
        """Read every byte of a label's snapshots, or of one, and report each fact on its own."""
        return self._run(_engine.verify.verify, label=label, snapshot_id=snapshot_id)

    def diff(
        self,
        a: str | dict[str, str],
        b: str | dict[str, str] | None = None,
        *,
        label: str = "default",
    ) -> SnapshotDiff:
        """What changed from ``a`` to ``b``: each an id, or documents; ``b`` is by default the latest snapshot."""
        return self._run(_engine.history.diff, a, b, label=label)

    def history(self, name: str, *, label: str = "default", patch: bool = False) -> tuple[Change, ...]:
        """What became of one document, from snapshot to snapshot, newest first; empty where none has it.

        Reads every snapshot of the label once, two files for most. Those that cannot be read or are not trusted are
        passed over with a :class:`ColonyMemoryWarning` that names them: what changed there shows in the one after it.

        Args:
            name: The document.
            label: Label to look at.
            patch: Give each difference too, as git and patch take it.

        Raises:
            SnapshotNotFound: Nothing is saved under this label.
            SnapshotCorrupt: No snapshot of it can be read.
            UntrustedSnapshot: This client does not trust it; ``RollbackDetected``: it was set back.
            VaultError: The vault could not be reached, refused, or cut its list.
        """
        found = self._run(_engine.history.history, name, label=label, patch=patch)
        return found.changes.get(name, ())

    def search(
        self, pattern: str, *, label: str = "default", fixed: bool = False, ignore_case: bool = False
    ) -> SearchReport:
        """Every line of every snapshot that has something in it, with the first and the last snapshot that it is in.

        Reads every snapshot of the label once, as :meth:`history` does.

        Args:
            pattern: A regular expression of :mod:`re`, looked for in each line on its own.
            label: Label to search.
            fixed: Take the pattern as a text.
            ignore_case: Take upper and lower case for the same.

        Raises:
            ValueError: The pattern is empty, has a line feed in it, or is not a regular expression.
            SnapshotNotFound: Nothing is saved under this label.
            SnapshotCorrupt: No snapshot of it can be read.
            UntrustedSnapshot: This client does not trust it; ``RollbackDetected``: it was set back.
            VaultError: The vault could not be reached, refused, or cut its list.
        """
        return self._run(_engine.history.search, pattern, label=label, fixed=fixed, ignore_case=ignore_case)

    def inspect(self) -> VaultMap:
        """Everything in the vault: labels, snapshots, sizes, leftovers, quota, and what the next backup costs."""
        return self._run(_engine.inspect.inspect)

    def status(self, *, label: str | None = None) -> dict[str, Any]:
        """The vault's quota: ``{quota_bytes, used_bytes, available_bytes, file_count}``, 0 before the first write.

        Args:
            label: Tell of this label too, at the cost of reading what it lists: ``restore_points``, how many it has;
                ``newest``, the id of the newest, and whether it is ``encrypted``; ``before_loss``, the id of the
                snapshot that is kept because much less followed; ``unmerged``, ids of those that no latest is based
                on; ``unsigned``, ids of those that are older than signing;
                ``next_bytes``, what the next backup stores by what recent ones did; ``next_at_most``, whether that is
                the most, and nothing shows yet how much less; ``fits``, how many more there is room for;
                ``daily_bytes``, what a day of backups takes at their pace; ``room_lasts_seconds``, how long there is
                room then, if nothing is removed and nobody else writes. What cannot be told, or is not there, is None.
        """
        return self._run(_engine.inspect.status, label=label)


class AsyncReading(Awaiting):
    """:class:`Reading` as coroutines."""

    @overload
    async def restore(
        self,
        *,
        label: str = "default",
        snapshot_id: str | None = None,
        verify: bool = True,
        names: str | Iterable[str] | None = None,
        fallback: bool = False,
        at_least: str | int | None = None,
        default: dict[str, str],
    ) -> dict[str, str]: ...

    @overload
    async def restore(
        self,
        *,
        label: str = "default",
        snapshot_id: str | None = None,
        verify: bool = True,
        names: str | Iterable[str] | None = None,
        fallback: bool = False,
        at_least: str | int | None = None,
        default: _D = NO_DEFAULT,
    ) -> dict[str, str] | _D: ...

    async def restore(
        self,
        *,
        label: str = "default",
        snapshot_id: str | None = None,
        verify: bool = True,
        names: str | Iterable[str] | None = None,
        fallback: bool = False,
        at_least: str | int | None = None,
        default: _D = NO_DEFAULT,
    ) -> dict[str, str] | _D:
        """See :meth:`ColonyMemory.restore`."""
        return await self._run(
            _engine.restore.restore_documents,
            label=label,
            snapshot_id=snapshot_id,
            verify=verify,
            names=names,
            fallback=fallback,
            at_least=at_least,
            default=default,
        )

    async def salvage(self, *, label: str = "default", snapshot_id: str | None = None) -> Salvaged:
        """See :meth:`ColonyMemory.salvage`."""
        return await self._run(_engine.salvage.salvage_documents, label=label, snapshot_id=snapshot_id)

    async def list_snapshots(self, *, label: str | None = None) -> list[SnapshotInfo]:
        """See :meth:`ColonyMemory.list_snapshots`."""
        return await self._run(_engine.restore.list_snapshots, label=label)

    async def latest(self, *, label: str = "default") -> SnapshotInfo | None:
        """See :meth:`ColonyMemory.latest`."""
        return await self._run(_engine.restore.latest, label=label)

    async def verify(self, *, label: str = "default", snapshot_id: str | None = None) -> VerifyReport:
        """See :meth:`ColonyMemory.verify`."""
        return await self._run(_engine.verify.verify, label=label, snapshot_id=snapshot_id)

    async def diff(
        self,
        a: str | dict[str, str],
        b: str | dict[str, str] | None = None,
        *,
        label: str = "default",
    ) -> SnapshotDiff:
        """See :meth:`ColonyMemory.diff`."""
        return await self._run(_engine.history.diff, a, b, label=label)

    async def history(self, name: str, *, label: str = "default", patch: bool = False) -> tuple[Change, ...]:
        """See :meth:`ColonyMemory.history`."""
        found = await self._run(_engine.history.history, name, label=label, patch=patch)
        return found.changes.get(name, ())

    async def search(
        self, pattern: str, *, label: str = "default", fixed: bool = False, ignore_case: bool = False
    ) -> SearchReport:
        """See :meth:`ColonyMemory.search`."""
        return await self._run(_engine.history.search, pattern, label=label, fixed=fixed, ignore_case=ignore_case)

    async def inspect(self) -> VaultMap:
        """See :meth:`ColonyMemory.inspect`."""
        return await self._run(_engine.inspect.inspect)

    async def status(self, *, label: str | None = None) -> dict[str, Any]:
        """See :meth:`ColonyMemory.status`."""
        return await self._run(_engine.inspect.status, label=label)
