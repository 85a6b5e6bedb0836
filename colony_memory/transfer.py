"""The transfer of snapshots, byte for byte: into a file, out of a file, from vault to vault."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, overload

from colony_memory._engine.transfer import CopyReport
from colony_memory.export import Export, read_export, write_export
from colony_memory.vaults.memory import MAX_EXPORT_BYTES, ExportVault, load_export, parse_export, save_export

if TYPE_CHECKING:
    from typing import TypedDict

    from typing_extensions import Unpack

    from colony_memory.client import AsyncColonyMemory, ColonyMemory

    class _Options(TypedDict, total=False):
        labels: str | Iterable[str] | None
        progress: Callable[[int, int], object] | None
        dry_run: bool


__all__ = [
    "MAX_EXPORT_BYTES",
    "CopyReport",
    "Export",
    "ExportVault",
    "copy",
    "load_export",
    "parse_export",
    "read_export",
    "save_export",
    "write_export",
]


@overload
def copy(source: ColonyMemory, destination: ColonyMemory, **options: Unpack[_Options]) -> CopyReport: ...
@overload
def copy(
    source: AsyncColonyMemory, destination: AsyncColonyMemory, **options: Unpack[_Options]
) -> Coroutine[Any, Any, CopyReport]: ...
def copy(source: Any, destination: Any, **options: Any) -> Any:
    """See :meth:`colony_memory.ColonyMemory.copy_to`."""
    return source.copy_to(destination, **options)
