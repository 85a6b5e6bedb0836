"""Names and paths in the system's form, and the kinds of files by their status."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from colony_memory._values import NamedTuple

PERMISSIONS = 0o777
"""The bits of a mode that a snapshot keeps: not those that make a program run as somebody else."""

_TRIES = 100
_JUNCTION = 0xA0000003  # reparse tag of a directory junction on Windows
_KINDS = (
    (stat.S_ISLNK, "a link"),
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
)


def encode_name(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def local_bytes(name: str) -> bytes:
    """A name's bytes as the system counts them; UnicodeEncodeError if surrogates in it stand for no bytes."""
    return os.fsencode(name) if os.name == "nt" else encode_name(name)


def decode_name(name: str) -> str:
    """The saved form of a name, from the form that Python gives."""
    return name if os.name == "nt" or name.isascii() else os.fsencode(name).decode("utf-8", "surrogateescape")


def local_name(name: str) -> str:
    """The reverse of :func:`decode_name`, for functions that take paths."""
    return name if os.name == "nt" else os.fsdecode(encode_name(name))


def real_path(path: str | os.PathLike[str]) -> Path:
    """The path without links, existing or not. Tried again, as Python's own fails if a link vanishes meanwhile."""
    for _ in range(_TRIES - 1):
        try:
            return Path(os.path.realpath(path))
        except OSError:
            continue
    return Path(os.path.realpath(path))


def user_id() -> int:
    """The effective user of this process; 0 on Windows, where all files have that owner."""
    return os.geteuid() if hasattr(os, "geteuid") else 0


def is_empty(directory: str | os.PathLike[str]) -> bool:
    """True if a directory is missing or empty. An unreadable one is for others to report."""
    try:
        with os.scandir(directory) as entries:
            return next(entries, None) is None
    except FileNotFoundError:
        return True
    except OSError:
        return False


class Identity(NamedTuple):
    """The identity of a file or directory, whatever its name."""

    device: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> Identity:
        return cls(status.st_dev, status.st_ino)


class UnfitFile(OSError):
    """The name is no plain file, or the file is too large or others have access to it."""


def is_file(status: os.stat_result | None) -> bool:
    return status is not None and stat.S_ISREG(status.st_mode)


def is_link(status: os.stat_result) -> bool:
    """True for a symbolic link, and for a directory junction of Windows."""
    return stat.S_ISLNK(status.st_mode) or getattr(status, "st_reparse_tag", 0) == _JUNCTION


def is_directory(status: os.stat_result | None) -> bool:
    """True for a directory, but not for a link to one."""
    return status is not None and stat.S_ISDIR(status.st_mode) and not is_link(status)


def name_kind(mode: int) -> str | None:
    """The kind of a file in two words, None if it is a plain one."""
    return None if stat.S_ISREG(mode) else next((kind for test, kind in _KINDS if test(mode)), "a device")
