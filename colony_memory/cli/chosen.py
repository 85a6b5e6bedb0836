"""Which snapshot a restore is of, and which of its files."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from colony_memory.capture._metadata import METADATA_NAME, Metadata, dump_metadata, split_documents
from colony_memory.cli.ids import find_id
from colony_memory.exceptions import (
    ColonyMemoryError,
    ColonyMemoryWarning,
    SnapshotCorrupt,
    SnapshotNotFound,
    UntrustedSnapshot,
)
from colony_memory.snapshot import digest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from colony_memory.client import ColonyMemory
    from colony_memory.snapshot import SnapshotInfo

# Another writer may remove what was the latest before it is read.
_TRIES = 3


@dataclass(frozen=True)
class Chosen:
    """A snapshot as it was read.

    Attributes:
        documents: Its documents.
        info: Its summary; None where the vault does not list it.
    """

    documents: dict[str, str]
    info: SnapshotInfo | None


def fetch(memory: ColonyMemory, *, label: str, snapshot_id: str | None, fallback: bool) -> Chosen:
    """Read the snapshot asked for, else the latest; with ``fallback`` an older one where it is damaged.

    The errors are those of :meth:`colony_memory.ColonyMemory.restore`.
    """
    try:
        if snapshot_id is None:
            return _fetch_latest(memory, label)
        snapshot_id = find_id(memory, snapshot_id, label=label)
        documents = memory.restore(label=label, snapshot_id=snapshot_id)
        return Chosen(documents, _find(memory, label, lambda info: info.snapshot_id == snapshot_id))
    except (SnapshotCorrupt, UntrustedSnapshot):
        if not fallback:
            raise
    documents = memory.restore(label=label, snapshot_id=snapshot_id, fallback=True)
    same = digest(documents)
    return Chosen(documents, _find(memory, label, lambda info: info.plaintext_sha256 == same))


def _fetch_latest(memory: ColonyMemory, label: str) -> Chosen:
    for _ in range(_TRIES):
        info = memory.latest(label=label)
        if info is None:
            raise SnapshotNotFound(f"nothing is saved yet under label {label!r}")
        try:
            return Chosen(memory.restore(label=label, snapshot_id=info.snapshot_id), info)
        except SnapshotNotFound:
            continue
    raise ColonyMemoryError(f"label {label!r} changes too fast to be read: try again")


def _find(memory: ColonyMemory, label: str, fits: Callable[[SnapshotInfo], bool]) -> SnapshotInfo | None:
    with warnings.catch_warnings():
        # Other snapshots may be broken: nobody asked for them.
        warnings.simplefilter("ignore", ColonyMemoryWarning)
        return next(filter(fits, memory.list_snapshots(label=label)), None)


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
