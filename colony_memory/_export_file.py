"""Export files on disk: written whole or not at all, and read as what anyone may have made."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path

from colony_memory._os import disk
from colony_memory.exceptions import ColonyMemoryError, SnapshotCorrupt
from colony_memory.export import Export, read_export, write_export

#: Bytes of an export file that are read at most.
MAX_EXPORT_BYTES = 512 * 2**20

_READ_FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)


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
    place = _locate(path)
    data = write_export(exported.label, exported.snapshot_id, exported.files).encode("ascii")
    temp = place.with_name(f".{place.name[:200]}.{secrets.token_hex(6)}")
    try:
        if overwrite:
            disk.replace_file(place, data, temp=temp)
        else:
            _create(place, data, temp)
    except FileExistsError as error:
        raise ColonyMemoryError(f"{place} is there already and is not overwritten") from error
    except OSError as error:
        raise ColonyMemoryError(f"{place} cannot be written: {error.strerror or type(error).__name__}") from error


def _create(place: Path, data: bytes, temp: Path) -> None:
    """Like :func:`colony_memory._os.disk.replace_file` where nothing is there."""
    if os.path.lexists(place):
        raise FileExistsError
    disk.write_new(temp, data)
    try:
        try:
            os.link(temp, place)  # unlike a rename it fails where something came in between
        except FileExistsError:
            raise
        except (OSError, AttributeError, NotImplementedError):  # this file system has no links
            temp.rename(place)
    finally:
        with contextlib.suppress(FileNotFoundError):
            temp.unlink()
    disk.sync_directory(place.parent)


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
        descriptor = os.open(place, _READ_FLAGS)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ColonyMemoryError(f"{place} is no plain file")
            with os.fdopen(descriptor, "rb", closefd=False) as stream:
                data = stream.read(MAX_EXPORT_BYTES + 1)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise ColonyMemoryError(f"{place} cannot be read: {error.strerror or type(error).__name__}") from error
    return parse_export(data, name=str(place))


def parse_export(data: bytes, *, name: str = "the export") -> Export:
    """The export in the bytes of a file, which is called ``name`` in errors. See :func:`load_export`."""
    if len(data) > MAX_EXPORT_BYTES:
        raise ColonyMemoryError(f"{name} is larger than {MAX_EXPORT_BYTES} bytes: it is no export of a snapshot")
    try:
        return read_export(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise SnapshotCorrupt(f"{name}: this is no export of a snapshot: it is not UTF-8") from error
    except SnapshotCorrupt as error:
        raise type(error)(f"{name}: {error}", file=error.file) from error


def _locate(path: str | os.PathLike[str]) -> Path:
    given = os.fspath(path)
    if not isinstance(given, str) or not given or "\0" in given:
        raise ValueError("path must be the name of an export file")
    return Path(given)
