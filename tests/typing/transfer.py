"""What a type checker says of export, import and copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colony_memory import AsyncColonyMemory, ColonyMemory, SnapshotInfo
from colony_memory.transfer import CopyReport, Export, ExportVault, copy, export_snapshot, import_snapshot, load_export

if TYPE_CHECKING:
    from typing_extensions import assert_type  # noqa: TC004 - never called


def plain(source: ColonyMemory, destination: ColonyMemory) -> None:
    exported = export_snapshot(source, label="work", snapshot_id=None)
    assert_type(exported, Export)
    assert_type(exported.info, SnapshotInfo)
    assert_type(import_snapshot(destination, load_export("work.json")), SnapshotInfo)
    assert_type(copy(source, destination, labels=["work"], progress=lambda done, total: None), CopyReport)
    ColonyMemory(backend=ExportVault(exported))
    copy(source, AsyncColonyMemory())  # type: ignore[call-overload]
    import_snapshot(destination, "work.json")  # type: ignore[call-overload]


async def awaited(source: AsyncColonyMemory, destination: AsyncColonyMemory) -> None:
    exported = await export_snapshot(source)
    assert_type(exported, Export)
    assert_type(await import_snapshot(destination, exported), SnapshotInfo)
    assert_type(await copy(source, destination), CopyReport)
