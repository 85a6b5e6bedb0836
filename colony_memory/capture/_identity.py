"""What a folder is, whatever its path says later: by this its index knows it again."""

from __future__ import annotations

import contextlib
import os
import struct
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colony_memory._os.directory import DIRECTORY_FLAGS
from colony_memory._os.paths import real_path
from colony_memory._values import dataclass
from colony_memory.exceptions import ColonyMemoryError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_BOOT = "/proc/sys/kernel/random/boot_id"
_MOUNTS = "/proc/self/mountinfo"
_GENERATION = (0x80087601, 8)  # FS_IOC_GETVERSION of Linux: a number that an inode has got with its latest owner
# What these hold has other numbers after the next mount, or when it was copied up.
_PASSING = frozenset({"9p", "aufs", "cifs", "exfat", "fuse", "msdos", "overlay", "smb3", "smbfs", "vfat", "virtiofs"})


@dataclass(frozen=True)
class FolderIdentity:
    """A folder, or a file, as an index is bound to it.

    Attributes:
        path: Its real path.
        inode: Its inode, of a file that of its directory, since editors replace a file whole; None where inodes do not
            last.
        born: What tells it from a later one of that inode: when it was made, or the number that its file system gives
            for that; None where the system tells neither.
        device: The device that it is on, which counts as long as the system runs.
        boot: Which run of the system that is, None where it does not tell.
    """

    path: str
    inode: int | None = None
    born: int | None = None
    device: int | None = None
    boot: str | None = None

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> FolderIdentity:
        """What is there now; the path alone where nothing is.

        Raises:
            OSError: It cannot be looked at.
        """
        real = real_path(path)
        where = real if real.is_dir() else real.parent
        if not os.path.lexists(real):
            return cls(os.fspath(real))
        status = where.stat()
        lasting = status.st_ino != 0 and _lasts(status.st_dev)
        inode, born = (status.st_ino, _born(where, status)) if lasting else (None, None)
        return cls(os.fspath(real), inode, born, status.st_dev, _boot())

    def is_same_as(self, other: FolderIdentity) -> bool:
        """Whether both are one, as far as can be told."""
        if self.path != other.path:
            return False
        if None not in (self.inode, other.inode):
            if self.inode != other.inode:
                return False
            if None not in (self.born, other.born) and self.born != other.born:
                return False
        return self.boot is None or self.boot != other.boot or self.device == other.device

    def dump(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    @classmethod
    def load(cls, found: Any) -> FolderIdentity:
        """What :meth:`dump` gave.

        Raises:
            ValueError: It is something else.
        """
        kinds = {"path": str, "inode": int, "born": int, "device": int, "boot": str}
        if not isinstance(found, dict) or not isinstance(found.get("path"), str):
            raise ValueError("no identity of a folder")  # noqa: TRY004 - what was read is wrong
        if any(found.get(name) is not None and type(found[name]) is not kind for name, kind in kinds.items()):
            raise ValueError("a malformed identity of a folder")
        return cls(found["path"], *(found.get(name) for name in list(kinds)[1:]))


@contextlib.contextmanager
def unmoved(places: Mapping[str, Path]) -> Iterator[None]:
    """Do something with folders that nobody watches, where each path leads, and still does at the end, to what it did.

    Whoever may write beside a folder, such as an agent in a sandbox of its own, could put a link to elsewhere in its
    place, and have that saved and shown, or written to.

    Args:
        places: What each path led to before.

    Raises:
        ColonyMemoryError: A link stands in the place of one, or did when it was done.
    """
    _require_unmoved(places)
    yield
    _require_unmoved(places)


def _require_unmoved(places: Mapping[str, Path]) -> None:
    for path, before in places.items():
        if real_path(path) != before:
            raise ColonyMemoryError(
                f"{path!r} is not what it was, {str(before)!r}: a link stands there; if that is meant, save it once by "
                "hand"
            )


def _born(path: Path, status: os.stat_result) -> int | None:
    made = getattr(status, "st_birthtime", None)
    if made is not None or sys.platform != "linux":
        return None if made is None else int(made * 10**6)
    import fcntl

    try:
        descriptor = os.open(path, DIRECTORY_FLAGS)
    except OSError:
        return None
    try:
        return int(struct.unpack("=Ixxxx", fcntl.ioctl(descriptor, _GENERATION[0], bytes(_GENERATION[1])))[0])
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _lasts(device: int) -> bool:
    """Whether what is on this device has the same inode after the next mount; who does not tell is believed."""
    if sys.platform != "linux":
        return True
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in _read(_MOUNTS).splitlines():
        fields = line.split(" ")
        if len(fields) > 2 and fields[2] == number and "-" in fields:
            return fields[fields.index("-") + 1].partition(".")[0] not in _PASSING
    # Volumes of btrfs have devices that no mount tells.
    return True


def _boot() -> str | None:
    return _read(_BOOT).strip() or None


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""
