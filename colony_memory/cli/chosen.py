"""Which snapshot is meant, and which of its files."""

from __future__ import annotations

from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from colony_memory.capture._metadata import METADATA_NAME, Metadata, dump_metadata, split_documents
from colony_memory.cli.errors import FAILED, Failure
from colony_memory.cli.ids import find_id, names_a_snapshot
from colony_memory.cli.text import left_out
from colony_memory.exceptions import SnapshotNotFound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from colony_memory._engine.restore import Restored
    from colony_memory.client import ColonyMemory


def split_positional(given: Sequence[str], last: str) -> tuple[str | None, str]:
    """An ID, if one is given, and what comes after it.

    Raises:
        ValueError: There are more than two, or the one there is names a snapshot.
    """
    if len(given) > 2:
        raise ValueError(f"give an ID and a {last}, or a {last} alone: {given[2]!r} is too much")
    if len(given) == 1 and names_a_snapshot(given[0]) and not Path(given[0]).exists():
        raise ValueError(
            f"{given[0]!r} names a snapshot, and the {last} is missing"
            + ("; a folder is ./" + given[0] if last == "DIR" else "")
        )
    return (given[0] if len(given) == 2 else None), given[-1]


def content_of(found: Restored, name: str) -> str | bytes:
    """The content of one file of a snapshot, bytes where it is no text.

    Raises:
        Failure: There is no such file.
        SnapshotCorrupt: The document that describes the folder is malformed.
    """
    files, metadata = split_documents(found.documents)
    if name in files:
        return files[name]
    if name == METADATA_NAME and name in found.documents:
        return found.documents[name]
    if name in metadata.links:
        raise Failure(f"{name!r} is a link, to {metadata.links[name]!r}", code=FAILED)
    near = (
        get_close_matches(name, files, n=3) or [each for each in files if each.startswith(f"{name.rstrip('/')}/")][:3]
    )
    more = f"; there is {', '.join(map(repr, near))}" if near else ""
    lacks = f"; the snapshot is incomplete, {left_out(found.info)}" if found.info.incomplete else ""
    raise Failure(f"there is no {name!r} in snapshot {found.info.snapshot_id}{more}{lacks}", code=FAILED)


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
