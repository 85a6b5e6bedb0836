"""What stands under a name, told by its status."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import os

PERMISSIONS = 0o777
"""The bits of a mode that a snapshot keeps: not those that make a program run as somebody else."""

_JUNCTION = 0xA0000003  # reparse tag of a directory junction on Windows
_KINDS = (
    (stat.S_ISLNK, "a link"),
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
)


class Identity(NamedTuple):
    """What a file or directory is to its file system, whatever its name."""

    device: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> Identity:
        """The identity that a status is of."""
        return cls(status.st_dev, status.st_ino)


class UnfitFile(OSError):
    """What is there is no plain file, or larger than anything that belongs there."""


def is_file(status: os.stat_result | None) -> bool:
    """Whether it is a plain file."""
    return status is not None and stat.S_ISREG(status.st_mode)


def is_link(status: os.stat_result) -> bool:
    """Whether it leads elsewhere: a symbolic link, or what Windows has in its place."""
    return stat.S_ISLNK(status.st_mode) or getattr(status, "st_reparse_tag", 0) == _JUNCTION


def is_directory(status: os.stat_result | None) -> bool:
    """Whether it is a directory, and not a link to one."""
    return status is not None and stat.S_ISDIR(status.st_mode) and not is_link(status)


def name_kind(mode: int) -> str | None:
    """What is no plain file, in two words; None for one."""
    if stat.S_ISREG(mode):
        return None
    return next((kind for test, kind in _KINDS if test(mode)), "a device")
