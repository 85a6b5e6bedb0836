"""Which snapshot a restore is of, and which of its files."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from colony_memory.capture._metadata import METADATA_NAME, Metadata, dump_metadata, split_documents
from colony_memory.cli.ids import find_id
from colony_memory.exceptions import SnapshotNotFound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from colony_memory._engine.restore import Restored
    from colony_memory.client import ColonyMemory


def fetch(memory: ColonyMemory, *, label: str, snapshot_id: str | None, fallback: bool) -> Restored:
    """Read the snapshot asked for, else the latest; with ``fallback`` an older one where it is damaged.

    The errors are those of :meth:`colony_memory.ColonyMemory.restore`.
    """
    if snapshot_id == "latest":
        snapshot_id = None
    if snapshot_id is not None:
        snapshot_id = find_id(memory, snapshot_id, label=label)
    try:
        return memory._restored(label=label, snapshot_id=snapshot_id, fallback=fallback)  # noqa: SLF001
    except SnapshotNotFound as error:
        if snapshot_id is not None:
            raise
        raise SnapshotNotFound(f"nothing is saved yet under label {label!r}") from error


def narrow(documents: dict[str, str], globs: Sequence[str]) -> dict[str, str]:
    """The documents of the files and directories whose name matches one of the globs.

    Raises:
        ValueError: None does.
        SnapshotCorrupt: The document that describes the folder is malformed.
    """

    def wanted(name: str) -> bool:
        return any(fnmatchcase(name, glob) for glob in globs)

    _, metadata = split_documents(documents)
    left = Metadata(
        files={name: data for name, data in metadata.files.items() if wanted(name)},
        empty_dirs=tuple(filter(wanted, metadata.empty_dirs)),
        executable=frozenset(filter(wanted, metadata.executable)),
        masked=tuple(filter(wanted, metadata.masked)),
    )
    kept = {name: text for name, text in documents.items() if name != METADATA_NAME and wanted(name)}
    if left:
        kept[METADATA_NAME] = dump_metadata(left)
    if not kept:
        raise ValueError(f"nothing in the snapshot matches {', '.join(map(repr, globs))}")
    return kept
