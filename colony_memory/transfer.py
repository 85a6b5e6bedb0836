"""Snapshots from one place to another: into a file, out of a file, from vault to vault.

Everything goes byte for byte. Nothing is packed, signed or dated anew, so digests and signatures hold wherever a
snapshot has gone. Each function takes a :class:`ColonyMemory` and returns, or an :class:`AsyncColonyMemory` and is
awaited.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from colony_memory._engine import transfer as _flow
from colony_memory._engine.transfer import CopyReport
from colony_memory._export_file import MAX_EXPORT_BYTES, load_export, parse_export, save_export
from colony_memory.export import Export, read_export, write_export
from colony_memory.vaults.exported import ExportVault

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from colony_memory.client import AsyncColonyMemory, ColonyMemory
    from colony_memory.snapshot import SnapshotInfo

__all__ = [
    "MAX_EXPORT_BYTES",
    "CopyReport",
    "Export",
    "ExportVault",
    "copy",
    "export_snapshot",
    "import_snapshot",
    "load_export",
    "parse_export",
    "read_export",
    "save_export",
    "write_export",
]


@overload
def export_snapshot(memory: ColonyMemory, *, label: str = "default", snapshot_id: str | None = None) -> Export: ...
@overload
def export_snapshot(
    memory: AsyncColonyMemory, *, label: str = "default", snapshot_id: str | None = None
) -> Coroutine[Any, Any, Export]: ...
def export_snapshot(
    memory: ColonyMemory | AsyncColonyMemory, *, label: str = "default", snapshot_id: str | None = None
) -> Export | Coroutine[Any, Any, Export]:
    """Take one snapshot out of a vault, checked in every byte as a restore of it would be.

    Args:
        memory: The memory whose vault it is in.
        label: Stream of the snapshot.
        snapshot_id: A certain snapshot; by default the latest.

    Raises:
        SnapshotNotFound: The vault answered, and there is no such snapshot.
        SnapshotCorrupt: The snapshot is damaged.
        UntrustedSnapshot: The client does not trust it.
        VaultError: The vault could not be reached or refused.
    """
    return memory._run(_flow.export_snapshot(memory._session, label=label, snapshot_id=snapshot_id))  # noqa: SLF001


@overload
def import_snapshot(memory: ColonyMemory, exported: Export, *, label: str | None = None) -> SnapshotInfo: ...
@overload
def import_snapshot(
    memory: AsyncColonyMemory, exported: Export, *, label: str | None = None
) -> Coroutine[Any, Any, SnapshotInfo]: ...
def import_snapshot(
    memory: ColonyMemory | AsyncColonyMemory, exported: Export, *, label: str | None = None
) -> SnapshotInfo | Coroutine[Any, Any, SnapshotInfo]:
    """Put an exported snapshot into a vault, if this client would restore it.

    Parts are written first, then the manifest, then the pointer: wherever it stops, nothing is lost, and importing
    again goes on. The pointer moves to the snapshot if that is newer than the one that it names.

    Args:
        memory: The memory whose vault it goes into.
        exported: The export, from :func:`load_export` or :func:`export_snapshot`.
        label: Refuse an export of another label. A snapshot cannot change its label: restore it and back it up.

    Returns:
        The summary: ``head`` tells whether the pointer names it now, ``reused`` that it was there already.

    Raises:
        ValueError: The export is of another label.
        SnapshotCorrupt: It is damaged. Nothing was written.
        UntrustedSnapshot: This client does not trust it. Nothing was written.
        QuotaExceeded: It does not fit. Nothing was written.
        ConflictDetected: Another content is under its id, or other clients kept moving the pointer.
        VaultError: The vault could not be reached or refused.
    """
    return memory._run(_flow.import_snapshot(memory._session, exported, label=label))  # noqa: SLF001


@overload
def copy(
    source: ColonyMemory,
    destination: ColonyMemory,
    *,
    labels: str | Iterable[str] | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> CopyReport: ...
@overload
def copy(
    source: AsyncColonyMemory,
    destination: AsyncColonyMemory,
    *,
    labels: str | Iterable[str] | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Coroutine[Any, Any, CopyReport]: ...
def copy(
    source: Any,
    destination: Any,
    *,
    labels: str | Iterable[str] | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> CopyReport | Coroutine[Any, Any, CopyReport]:
    """Copy every whole snapshot from one vault into another, oldest first, and read each back.

    What is there with the same bytes is not written again, so a copy that was stopped anywhere goes on when it is
    made again, and one that is made every night brings what is new. Nothing is removed. The pointer of each label is
    written last and never moves to an older snapshot than it names. A client with a signer signs it; without one, a
    signed pointer is copied as it is where it says just what is there, else an unsigned one is written, with a
    warning.

    Args:
        source: The memory to copy from. What it would not restore is left out.
        destination: The memory to copy to. What it would not restore is left out.
        labels: Streams to copy, by default all.
        progress: Called after each snapshot with the number that is done and the number there is.

    Raises:
        SnapshotNotFound: There is nothing to copy, under one of the labels or at all.
        QuotaExceeded: It does not fit.
        RollbackDetected: A label, here or there, was rolled back.
        VaultError: A vault could not be reached or refused; ``RateLimited`` after 60 writes an hour to the hosted one.
            The message tells how far it came, and copying again goes on.
    """
    return source._run(  # type: ignore[no-any-return]  # noqa: SLF001
        _flow.copy(source._session, destination._session, labels=labels, progress=progress)  # noqa: SLF001
    )
