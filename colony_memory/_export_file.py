"""Export files on disk: written whole or not at all, and read as what anyone may have made."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from colony_memory._os.files import create_file, read_file, replace_file
from colony_memory.exceptions import ColonyMemoryError, SnapshotCorrupt
from colony_memory.export import Export, read_export, write_export

#: Bytes of an export file that are read at most.
MAX_EXPORT_BYTES = 512 * 2**20


def save_export(exported: Export, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write an export file, for its owner alone (0600), whole or not at all; on disk when this returns.

    Args:
        exported: The export.
        path: The file.
        overwrite: Replace what is there.

    Raises:
        ValueError: The path is empty.
        ColonyMemoryError: Something is there already, or the file cannot be written.
    """
    data = write_export(exported.label, exported.snapshot_id, exported.files).encode("ascii")
    save_own(_locate(path), data, overwrite=overwrite)


def save_own(place: Path, data: bytes, *, overwrite: bool) -> None:
    """Write a file for its owner alone (0600), whole or not at all; on disk when this returns.

    Raises:
        ColonyMemoryError: Something is there already, or the file cannot be written.
    """
    try:
        (replace_file if overwrite else create_file)(place, data)
    except FileExistsError as error:
        raise ColonyMemoryError(f"{place} already exists and is not overwritten") from error
    except OSError as error:
        raise ColonyMemoryError(f"{place} cannot be written: {error.strerror or type(error).__name__}") from error


def load_export(path: str | os.PathLike[str]) -> Export:
    """Read an export file, which anyone may have made. Its content is checked by whoever restores or imports it.

    Raises:
        ValueError: The path is empty.
        SnapshotCorrupt: It is no export, is cut short, or holds files that are not of its snapshot.
        UnsupportedFormat: A newer version wrote it.
        ColonyMemoryError: It cannot be read, or is larger than :data:`MAX_EXPORT_BYTES`.
    """
    place = _locate(path)
    try:
        found = read_file(place, MAX_EXPORT_BYTES, follow=True)
    except OSError as error:
        raise ColonyMemoryError(f"{place} cannot be read: {error.strerror or type(error).__name__}") from error
    if found is None:
        raise ColonyMemoryError(f"{place} cannot be read: {os.strerror(errno.ENOENT)}")
    return parse_export(found.data, name=str(place))


def parse_export(data: bytes, *, name: str = "the export") -> Export:
    """The export in the bytes of a file, which is called ``name`` in errors. See :func:`load_export`."""
    if len(data) > MAX_EXPORT_BYTES:
        raise ColonyMemoryError(f"{name} is larger than {MAX_EXPORT_BYTES} bytes: it is not an exported snapshot")
    try:
        return read_export(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise SnapshotCorrupt(f"{name}: not an exported snapshot: it is not UTF-8") from error
    except SnapshotCorrupt as error:
        raise type(error)(f"{name}: {error}", file=error.file) from error


def _locate(path: str | os.PathLike[str]) -> Path:
    given = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(given, str) or not given or "\0" in given:
        raise ValueError("path must be the name of an export file")
    return Path(given)
