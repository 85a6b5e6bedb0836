"""Files that a user names: private to their owner, written whole or not at all, and not trusted when read."""

from __future__ import annotations

import errno
import os
import shlex
import stat
from collections.abc import Callable
from pathlib import Path

from colony_memory._os.files import Contents, create_file, make_directory, read_file, replace_file
from colony_memory.exceptions import ColonyMemoryError

_MAX_KEY_BYTES = 8192
# On Windows the bits of a mode say nothing of who may read.
_MODES_COUNT = os.name != "nt"
_OPEN_TO_OTHERS = 0o077
_READ_BY_GROUP = 0o040


def read_key_file(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a key file that is its owner's alone, or that root has mounted for this process's group."""
    place = _locate(path, "a key file")
    contents = _read(place, f"key file {place}", _MAX_KEY_BYTES)
    # The file that was opened is judged, whatever the name leads to by now.
    mode = stat.S_IMODE(contents.facts.st_mode)
    if _MODES_COUNT and mode & _OPEN_TO_OTHERS and not _is_mounted_for_us(contents.facts):
        fix = f"run: chmod 600 {shlex.quote(str(place))}"
        if os.geteuid() not in (0, contents.facts.st_uid):
            fix = "mount it with mode 0400, or with 0440 and a group of this user, or use a copy with mode 0600"
        raise ColonyMemoryError(f"key file {place} is open to others (mode {mode:04o}); if nobody has read it, {fix}")
    return contents.data


def _is_mounted_for_us(facts: os.stat_result) -> bool:
    """True if only root and a group of this process can read it, as clusters and systemd mount secrets."""
    mode = stat.S_IMODE(facts.st_mode)
    if facts.st_uid != 0 or mode & _OPEN_TO_OTHERS != _READ_BY_GROUP:
        return False
    if os.geteuid() == 0 and mode & stat.S_IWUSR:  # root's own file, and no mount: its mode can be set
        return False
    return facts.st_gid in (0, os.getegid(), *os.getgroups())


def write_key_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Create a key file, readable by its owner alone from the first byte on; on disk when this returns."""
    place = _locate(path, "a key file")
    try:
        make_directory(place.parent)
    except OSError as error:
        raise _failure(f"the directory of key file {place} cannot be made", error) from error
    why = "already exists and is not overwritten: a key that is lost cannot be made again"
    _write(create_file, place, data, name=f"key file {place}", conflict=why)


def save_own(path: str | os.PathLike[str], data: bytes, kind: str, *, overwrite: bool) -> None:
    """Write a file, private to its owner (0600), whole or not at all; on disk when this returns."""
    place = _locate(path, kind)
    write = replace_file if overwrite else create_file
    _write(write, place, data, name=str(place), conflict="already exists and is not overwritten")


def read_own(path: str | os.PathLike[str], kind: str, limit: int) -> tuple[str, bytes]:
    """A file's path as text, and its contents of at most ``limit`` bytes."""
    place = _locate(path, kind)
    return str(place), _read(place, str(place), limit).data


def _locate(path: str | os.PathLike[str], kind: str) -> Path:
    text = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(text, str) or not text or "\0" in text:
        raise ValueError(f"path must be the name of {kind}")
    return Path(text)


def _read(place: Path, name: str, limit: int) -> Contents:
    try:
        contents = read_file(place, limit, follow=True)
    except OSError as error:
        raise _failure(f"{name} cannot be read", error) from error
    if contents is None:
        raise ColonyMemoryError(f"{name} cannot be read: {os.strerror(errno.ENOENT)}")
    return contents


def _write(write: Callable[[Path, bytes], None], place: Path, data: bytes, *, name: str, conflict: str) -> None:
    try:
        write(place, data)
    except FileExistsError as error:
        raise ColonyMemoryError(f"{name} {conflict}") from error
    except OSError as error:
        raise _failure(f"{name} cannot be written", error) from error


def _failure(problem: str, error: OSError) -> ColonyMemoryError:
    return ColonyMemoryError(f"{problem}: {error.strerror or type(error).__name__}")
