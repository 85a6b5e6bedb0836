"""Key files on disk: for their owner alone, never overwritten."""

from __future__ import annotations

import errno
import os
import shlex
import stat
from pathlib import Path

from colony_memory._os.files import create_file, make_directory, read_file
from colony_memory.exceptions import ColonyMemoryError

# On Windows the bits of a mode say nothing of who may read.
_MODES_COUNT = os.name != "nt"
_OPEN_TO_OTHERS = 0o077
_READ_BY_GROUP = 0o040
_MAX_BYTES = 8192


def read_key_file(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a key file.

    Raises:
        ColonyMemoryError: It is not there, cannot be read, is no plain file, is larger than any key, or others than
            its owner have access to it. A secret that root has mounted may be readable by this process's group too.
    """
    place = _locate(path)
    try:
        found = read_file(place, _MAX_BYTES, follow=True)
    except OSError as error:
        raise _failure(f"key file {place} cannot be read", error) from error
    if found is None:
        raise ColonyMemoryError(f"key file {place} cannot be read: {os.strerror(errno.ENOENT)}")
    # What was opened is what is judged, whatever the name leads to by now.
    mode = stat.S_IMODE(found.facts.st_mode)
    if _MODES_COUNT and mode & _OPEN_TO_OTHERS and not _is_mounted_for_us(found.facts):
        quoted = shlex.quote(str(place))
        way = f"run: chmod 600 {quoted}"
        if os.geteuid() not in (0, found.facts.st_uid):
            way = "mount it with mode 0400, or with 0440 and a group of this user, or use a copy with mode 0600"
        raise ColonyMemoryError(f"key file {place} is open to others (mode {mode:04o}); if nobody has read it, {way}")
    return found.data


def _is_mounted_for_us(facts: os.stat_result) -> bool:
    """True if only root and a group that root has put this process into can read it: a cluster mounts secrets so, and
    systemd, where an access list names the user and the mode shows root's group in its place.
    """
    mode = stat.S_IMODE(facts.st_mode)
    if facts.st_uid != 0 or mode & _OPEN_TO_OTHERS != _READ_BY_GROUP:
        return False
    if os.geteuid() == 0 and mode & stat.S_IWUSR:  # one's own, and no mount: its mode can be set
        return False
    return facts.st_gid in (0, os.getegid(), *os.getgroups())


def write_key_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Create a key file, readable by its owner alone from the first byte on; on disk when this returns.

    Raises:
        ColonyMemoryError: Something is there already, or it cannot be written.
    """
    place = _locate(path)
    try:
        make_directory(place.parent)
    except OSError as error:
        raise _failure(f"the directory of key file {place} cannot be made", error) from error
    try:
        create_file(place, data)
    except FileExistsError as error:
        raise ColonyMemoryError(
            f"key file {place} already exists and is not overwritten: a key that is lost cannot be made again"
        ) from error
    except OSError as error:
        raise _failure(f"key file {place} cannot be written", error) from error


def _locate(path: str | os.PathLike[str]) -> Path:
    given = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(given, str) or not given or "\0" in given:
        raise ValueError("path must be the name of a key file")
    return Path(given)


def _failure(what: str, error: OSError) -> ColonyMemoryError:
    return ColonyMemoryError(f"{what}: {error.strerror or type(error).__name__}")
