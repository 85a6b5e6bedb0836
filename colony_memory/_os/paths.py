"""Names and paths as the system has them, and what stands under a name, told by its status."""

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
    """The bytes that the system counts of a name; UnicodeEncodeError where surrogates in it stand for none."""
    return os.fsencode(name) if os.name == "nt" else encode_name(name)


def decode_name(name: str) -> str:
    """A name as Python gives it, as it is saved."""
    return name if os.name == "nt" or name.isascii() else os.fsencode(name).decode("utf-8", "surrogateescape")


def local_name(name: str) -> str:
    """The other way round, for what takes paths."""
    return name if os.name == "nt" else os.fsdecode(encode_name(name))


def real_path(path: str | os.PathLike[str]) -> Path:
    """The path without links, there or not. Python's own fails where a link goes between a look and the reading."""
    for _ in range(_TRIES - 1):
        try:
            return Path(os.path.realpath(path))
        except OSError:
            continue
    return Path(os.path.realpath(path))


def user_id() -> int:
    """The effective user of this process; on Windows 0, as files have for their owner there."""
    return os.geteuid() if hasattr(os, "geteuid") else 0


def is_empty(directory: str | os.PathLike[str]) -> bool:
    """True if a directory is missing, or there is nothing in it. What cannot be read is for others to report."""
    try:
        with os.scandir(directory) as entries:
            return next(entries, None) is None
    except FileNotFoundError:
        return True
    except OSError:
        return False


class Identity(NamedTuple):
    """A file or directory to its file system, whatever its name."""

    device: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> Identity:
        return cls(status.st_dev, status.st_ino)


class UnfitFile(OSError):
    """No plain file is there, or a larger one than belongs there."""


def is_file(status: os.stat_result | None) -> bool:
    return status is not None and stat.S_ISREG(status.st_mode)


def is_link(status: os.stat_result) -> bool:
    """It leads elsewhere: a symbolic link, or what Windows has in its place."""
    return stat.S_ISLNK(status.st_mode) or getattr(status, "st_reparse_tag", 0) == _JUNCTION


def is_directory(status: os.stat_result | None) -> bool:
    """It is a directory, and not a link to one."""
    return status is not None and stat.S_ISDIR(status.st_mode) and not is_link(status)


def name_kind(mode: int) -> str | None:
    """The kind of what is no plain file, in two words; None for one."""
    if stat.S_ISREG(mode):
        return None
    return next((kind for test, kind in _KINDS if test(mode)), "a device")
