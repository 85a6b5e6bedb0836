"""export, import, copy: snapshots from one place to another, byte for byte, so that every signature stays as it was.

Where another format is asked for, a snapshot is converted on the way. Each is read in full where it comes from
(``whole``), turned into the other format (``convert``), compared with what its destination has already
(``destination``), and written there (``deliver``). What has come (``arrived``) is listed by one pointer (``pointer``),
which may be the one of where it comes from (``origin``). ``copies`` does that for every snapshot of a label.
"""

from __future__ import annotations

import copy as copying
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from colony_memory._engine.load import nothing_saved
from colony_memory._engine.observe import observed, saved
from colony_memory._engine.restore import latest
from colony_memory._engine.store import StoredFile, Vault, to_public
from colony_memory._engine.transfer.convert import Converter
from colony_memory._engine.transfer.copies import CopyReport, copy
from colony_memory._engine.transfer.deliver import Delivery
from colony_memory._engine.transfer.destination import require_conditions
from colony_memory._engine.transfer.whole import Reader, Whole
from colony_memory._format.names import require_id, require_label
from colony_memory.exceptions import ColonyMemoryError, ConflictDetected, SnapshotCorrupt, VaultError
from colony_memory.export import Export

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from colony_memory._engine.session import Session
    from colony_memory._engine.store import Tell
    from colony_memory._engine.transfer.whole import Arrived
    from colony_memory.snapshot import SnapshotInfo

__all__ = ["CopyReport", "copy", "export_snapshot", "import_snapshot"]

_T = TypeVar("_T")


@observed("export_snapshot")
async def export_snapshot(session: Session, *, label: str, snapshot_id: str | None) -> Export:
    """See :meth:`colony_memory.ColonyMemory.export_snapshot`."""
    label = require_label(label)
    if snapshot_id is None:
        newest = await latest(session, label=label)
        if newest is None:
            raise await nothing_saved(session, label=label)
        snapshot_id = newest.snapshot_id
    whole = await Reader(session).read(label, require_id(snapshot_id))
    return Export(label, snapshot_id, whole.files)


@observed("import_snapshot", saved)
async def import_snapshot(
    session: Session, exported: Export, *, label: str | None, wire: str | None = None
) -> SnapshotInfo:
    """See :meth:`colony_memory.ColonyMemory.import_snapshot`."""
    if not isinstance(exported, Export):
        msg = f"exported must be an Export, not {type(exported).__name__}: load_export() and read_export() give one"
        raise ValueError(msg)  # noqa: TRY004 - one type for every bad argument
    if label is not None and require_label(label) != exported.label:
        msg = (
            f"the export is of label {exported.label!r}, as its manifest says, and cannot be imported as {label!r}: "
            f"restore it, and back that up under {label!r}"
        )
        raise ValueError(msg)
    label, snapshot_id = exported.label, exported.snapshot_id
    converter = None if wire is None else Converter(session, wire)
    whole = await _check(session, label, snapshot_id, exported.files)
    if whole.packs and wire is None:
        require_conditions(session, f"snapshot {snapshot_id} of label {label!r}")
    try:
        delivery = await Delivery.to(session, label, [snapshot_id])

        async def store() -> Arrived | None:
            brought = whole if converter is None else await converter.convert(delivery.here, whole)
            return None if brought is None else await delivery.store(brought)

        arrived = await store()
        if arrived is None:
            await delivery.look_again()
            arrived = await store()
        if arrived is None:
            raise delivery.in_the_way(whole)
        try:
            pointer = await delivery.commit()
        except ColonyMemoryError as error:
            await delivery.undo(error)
            raise
    except VaultError as error:
        raise to_public(error, "importing again goes on where it stopped") from error
    if delivery.arrivals.lost:
        raise ConflictDetected(delivery.arrivals.lost[snapshot_id], theirs=snapshot_id)
    is_latest = pointer.snapshot_id == snapshot_id
    return replace(arrived.info, reused=not arrived.wrote, head=pointer.head if is_latest else "")


async def _check(session: Session, label: str, snapshot_id: str, files: Mapping[str, str]) -> Whole:
    """Decide on a snapshot's files as a restore by this client would, and that nothing else is among them.

    Raises:
        SnapshotCorrupt: It is damaged, or a file is not its own.
        UntrustedSnapshot: The client does not trust it.
    """
    given = copying.copy(session)
    given.vault, given.manifests, given.good = _Given(files, session.vault), {}, {}
    whole = await Reader(given).read(label, snapshot_id)
    for name in files:
        if name not in whole.files:
            msg = f"{name} is no file that snapshot {snapshot_id} of label {label!r} needs"
            raise SnapshotCorrupt(msg, file=name)
    return whole


class _Given(Vault):
    """Files that were read already, as a vault: whoever judges a snapshot in one judges these."""

    def __init__(self, files: Mapping[str, str], vault: Vault) -> None:
        super().__init__(None)
        self._files, self._vault = files, vault

    async def get(self, name: str) -> StoredFile | None:
        return StoredFile(self._files[name], None) if name in self._files else None

    async def get_many(
        self,
        names: Iterable[str],
        tell: Tell | None = None,  # noqa: ARG002
        *,
        at_most: int | None = None,  # noqa: ARG002
    ) -> dict[str, StoredFile | None]:
        return {name: await self.get(name) for name in names}

    async def compute(self, function: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
        return await self._vault.compute(function, *args, **kwargs)
