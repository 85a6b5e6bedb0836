"""Files that a user names: for their owner alone, written whole or not at all, read as what anyone may have made."""

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
    found = _read(place, f"key file {place}", _MAX_KEY_BYTES)
    # What was opened is what is judged, whatever the name leads to by now.
    mode = stat.S_IMODE(found.facts.st_mode)
    if _MODES_COUNT and mode & _OPEN_TO_OTHERS and not _is_mounted_for_us(found.facts):
        way = f"run: chmod 600 {shlex.quote(str(place))}"
        if os.geteuid() not in (0, found.facts.st_uid):
            way = "mount it with mode 0400, or with 0440 and a group of this user, or use a copy with mode 0600"
        raise ColonyMemoryError(f"key file {place} is open to others (mode {mode:04o}); if nobody has read it, {way}")
    return found.data


def _is_mounted_for_us(facts: os.stat_result) -> bool:
    """True if only root and a group of this process can read it: clusters mount secrets so, and systemd."""
    mode = stat.S_IMODE(facts.st_mode)
    if facts.st_uid != 0 or mode & _OPEN_TO_OTHERS != _READ_BY_GROUP:
        return False
    if os.geteuid() == 0 and mode & stat.S_IWUSR:  # one's own, and no mount: its mode can be set
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
    _write(create_file, place, data, what=f"key file {place}", taken=why)


def save_own(path: str | os.PathLike[str], data: bytes, kind: str, *, overwrite: bool) -> None:
    """Write a file for its owner alone (0600), whole or not at all; on disk when this returns."""
    place = _locate(path, kind)
    write = replace_file if overwrite else create_file
    _write(write, place, data, what=str(place), taken="already exists and is not overwritten")


def read_own(path: str | os.PathLike[str], kind: str, limit: int) -> tuple[str, bytes]:
    """A file's path as text and what is in it, which may be of at most ``limit`` bytes."""
    place = _locate(path, kind)
    return str(place), _read(place, str(place), limit).data


def _locate(path: str | os.PathLike[str], kind: str) -> Path:
    given = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(given, str) or not given or "\0" in given:
        raise ValueError(f"path must be the name of {kind}")
    return Path(given)


def _read(place: Path, what: str, limit: int) -> Contents:
    try:
        found = read_file(place, limit, follow=True)
    except OSError as error:
        raise _failure(f"{what} cannot be read", error) from error
    if found is None:
        raise ColonyMemoryError(f"{what} cannot be read: {os.strerror(errno.ENOENT)}")
    return found


def _write(write: Callable[[Path, bytes], None], place: Path, data: bytes, *, what: str, taken: str) -> None:
    try:
        write(place, data)
    except FileExistsError as error:
        raise ColonyMemoryError(f"{what} {taken}") from error
    except OSError as error:
        raise _failure(f"{what} cannot be written", error) from error


def _failure(what: str, error: OSError) -> ColonyMemoryError:
    return ColonyMemoryError(f"{what}: {error.strerror or type(error).__name__}")
