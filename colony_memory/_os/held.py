"""Who has a file open: this very process, whose locks on it must stay, and other processes.

POSIX drops every lock that a process has on a file as soon as the process closes any descriptor of it
(https://www.sqlite.org/howtocorrupt.html, section 2.2). So what was read is closed only where nobody else in this
process has the file open. Otherwise the descriptor is kept, one for each such file, and used again by the next
reading; it goes when the other one has gone.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import sys
import threading
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from colony_memory._os.paths import Identity, encode_name, is_file
from colony_memory._values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_LISTINGS = ("/proc/self/fd", "/dev/fd")  # the second knows three descriptors only on some systems
_TRIED_WITHOUT_LISTING = 1024
_CLOSED_TOGETHER = 32  # the look at all descriptors of the process is shared by so many
_DROPS_LOCKS = os.name == "posix"


@dataclass
class _Held:
    """What we have open of one file, for reading; mostly once, more where several threads opened it at once."""

    descriptors: list[int] = field(default_factory=list)
    users: int = 0  # that are reading now


_held: dict[Identity, _Held] = {}
_guard = threading.Lock()


@contextlib.contextmanager
def held(expected: Identity, opener: Callable[[], int]) -> Iterator[int]:
    """A descriptor of a file, for the length of a ``with``. Its position is not to be relied on.

    Args:
        expected: Device and inode of the file.
        opener: Opens it. What it opens counts, should that be another file meanwhile.
    """
    identity, descriptor = _take(expected, opener)
    try:
        yield descriptor
    finally:
        _give_back(identity)


def is_open_elsewhere(identity: Identity) -> bool:
    """Whether this process has the file open by another descriptor than ours."""
    with _guard:
        return identity in _foreign()


@contextlib.contextmanager
def settling() -> Iterator[None]:
    """Call settle() when the block, or the function that bears this as a decorator, has ended."""
    try:
        yield
    finally:
        settle()


def settle() -> None:
    """Close what nobody reads any more and nobody else in this process has open."""
    with _guard:
        _settle()


def _take(expected: Identity, opener: Callable[[], int]) -> tuple[Identity, int]:
    with _guard:
        one = _held.get(expected)
        # One that is being read from may be locked through, which is no business of another reading.
        if one is not None and not one.users and _identity(one.descriptors[0]) == expected:
            one.users += 1
            return expected, one.descriptors[0]
    descriptor = opener()
    try:
        identity = Identity.of(os.fstat(descriptor))
    except OSError:  # a network file system may have lost it
        os.close(descriptor)
        raise
    with _guard:
        one = _held.setdefault(identity, _Held())
        one.descriptors.append(descriptor)
        one.users += 1
    return identity, descriptor


def _give_back(identity: Identity) -> None:
    with _guard:
        _held[identity].users -= 1
        if not _DROPS_LOCKS or (len(_held) >= _CLOSED_TOGETHER and _idle() >= _CLOSED_TOGETHER):
            _settle()


def _idle() -> int:
    return sum(not one.users for one in _held.values())


def _settle() -> None:
    foreign = _foreign() if _DROPS_LOCKS else set()
    for identity, one in list(_held.items()):
        if not one.users and identity not in foreign:
            del _held[identity]
            for descriptor in one.descriptors:
                # A program that closes what it did not open may have given the number to something else.
                if not _DROPS_LOCKS or _identity(descriptor) == identity:
                    os.close(descriptor)


def _foreign() -> set[Identity]:
    """The plain files that this process has open by descriptors other than ours."""
    own = {descriptor for one in _held.values() for descriptor in one.descriptors}
    found = (_identity(descriptor) for descriptor in _descriptors() if descriptor not in own)
    return {identity for identity in found if identity is not None}


def _descriptors() -> list[int]:
    for listing in _LISTINGS:
        with contextlib.suppress(OSError):
            listed = [int(name) for name in os.listdir(listing) if name.isdigit()]
            if len(listed) > 3:
                return listed
    return list(range(_TRIED_WITHOUT_LISTING))


def _identity(descriptor: int) -> Identity | None:
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return Identity.of(status) if is_file(status) else None


# --- other processes: Linux alone tells of them, and what one of another user has open stays unseen

PROCESSES = "/proc"
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


def open_files() -> OpenFiles:
    """Look at all processes but this one, once."""
    found = OpenFiles()
    if sys.platform != "linux":
        return found
    for process in _listed(PROCESSES):
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        for identity in _written(process.path):
            found.written.setdefault(identity, int(process.name))
        for device, inode, base in _mapped(process.path):
            found.mapped.setdefault(inode, {}).setdefault((device, base), int(process.name))
    return found


def name_process(number: int) -> str:
    """A process as people know it: ``python3 (process 4711)``."""
    if number <= 0:  # a lock of an open file tells none
        return "a program"
    try:
        name = Path(PROCESSES, str(number), "comm").read_text("utf-8", "replace").strip()
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
