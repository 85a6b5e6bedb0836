"""Which files other processes have open to write to, or mapped, as far as this user may look at them.

Linux alone tells, under ``/proc``; elsewhere nothing is known. What a process of another user has open stays unseen.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from colony_memory._os.kinds import Identity, is_file
from colony_memory._os.paths import encode_name

if TYPE_CHECKING:
    from collections.abc import Iterator

PROCESSES = "/proc"
"""Where the system tells of processes."""

# Device, inode and path of a part of memory that is a file's.
_MAPPED = re.compile(rb"^\S+ \S+ \S+ ([0-9a-f]+):([0-9a-f]+) ([1-9][0-9]*) +(.*)$", re.MULTILINE)


@dataclass
class OpenFiles:
    """What is open, by one look at all processes.

    Attributes:
        written: File to the process that has it open to write to.
        mapped: Inode to each device and base name that it is mapped under, with the process.
    """

    written: dict[Identity, int] = field(default_factory=dict)
    mapped: dict[int, dict[tuple[int, bytes], int]] = field(default_factory=dict)

    def holder(self, name: str, status: os.stat_result) -> int | None:
        """The process that has the file of that name and status, None where no other has."""
        if not is_file(status):
            return None
        found = self.written.get(Identity.of(status))
        if found is not None:
            return found
        # Some file systems tell another device here: then the name has to be the same.
        own = encode_name(name.rpartition("/")[2])
        parts = self.mapped.get(status.st_ino, {}).items()
        return next((by for (device, base), by in parts if device == status.st_dev or base == own), None)


def open_files(*, processes: str | None = None) -> OpenFiles:
    """Look at all processes but this one, once."""
    found = OpenFiles()
    if sys.platform != "linux":
        return found
    for process in _listed(processes or PROCESSES):
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        for identity in _written(process.path):
            found.written.setdefault(identity, int(process.name))
        for device, inode, base in _mapped(process.path):
            found.mapped.setdefault(inode, {}).setdefault((device, base), int(process.name))
    return found


def name_process(number: int, *, processes: str | None = None) -> str:
    """A process as people know it: ``python3 (process 4711)``."""
    if number <= 0:  # a lock of an open file tells none
        return "a program"
    try:
        name = Path(processes or PROCESSES, str(number), "comm").read_text("utf-8", "replace").strip()
    except OSError:
        name = ""
    return f"{name} (process {number})" if name and name.isprintable() else f"process {number}"


def _written(process: str) -> Iterator[Identity]:
    for link in _listed(f"{process}/fd"):
        try:
            # The link's own permissions tell how the file was opened.
            if link.stat(follow_symlinks=False).st_mode & stat.S_IWUSR and is_file(status := link.stat()):
                yield Identity.of(status)
        except OSError:
            continue


def _mapped(process: str) -> Iterator[tuple[int, int, bytes]]:
    try:
        parts = Path(process, "maps").read_bytes()
    except OSError:  # it has ended, or is not ours to look at
        return
    for major, minor, inode, path in set(_MAPPED.findall(parts)):
        yield os.makedev(int(major, 16), int(minor, 16)), int(inode), path.rpartition(b"/")[2]


def _listed(directory: str) -> list[os.DirEntry[str]]:
    """What is in a directory of the system's; nothing where it is not there, or another user's."""
    try:
        with os.scandir(directory) as entries:
            return [*entries]
    except OSError:
        return []
