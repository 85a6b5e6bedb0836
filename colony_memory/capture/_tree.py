"""The files found in a folder, the changes since, and how much of them a snapshot may hold."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from colony_memory._os.paths import is_file
from colony_memory._values import dataclass, field
from colony_memory.capture._sparse import room_of
from colony_memory.capture._steady import whole_of

if TYPE_CHECKING:
    from pathlib import Path

    from colony_memory.capture._walk import NamedFile, Walk

    Place = tuple[Path, tuple[str, ...]]


_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")


@dataclass(frozen=True)
class LeftOut:
    """Something in the folder that no document holds.

    Attributes:
        name: Path inside the folder, with ``/``; a directory ends with one.
        reason: Why it was left out.
        unread: It could have been saved, had it stood still or been readable: another snapshot may have it.
    """

    name: str
    reason: str
    unread: bool = field(default=True, compare=False)

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


@dataclass(frozen=True)
class Note:
    """Something that is good to know of a file or directory, and no fault.

    Attributes:
        name: Path inside the folder, with ``/``; a directory ends with one.
        text: What there is to know.
    """

    name: str
    text: str


@dataclass(frozen=True)
class Entry:
    """A file that was found, or a git repository."""

    root: Path  # where the walk began
    inside: tuple[str, ...]  # the directories that lead to it from there
    own: str  # its name there
    name: str  # its name among all that is saved
    status: os.stat_result  # what the system said of it when it was found

    @property
    def size(self) -> int:
        """Its bytes when it was found, but for holes."""
        return room_of(self.status)


@dataclass
class Tree:
    """Everything that was found so far."""

    # In the order in which they are to be read: a database before what is beside it
    files: list[Entry] = field(default_factory=list)
    repositories: list[Entry] = field(default_factory=list)  # the .git of each
    # All but those where a walk began for all names, with what the system says of them
    directories: dict[str, os.stat_result] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)  # with what they say
    left_out: list[LeftOut] = field(default_factory=list)  # what is not going to be read
    closed: list[LeftOut] = field(default_factory=list)  # of that, what cannot be looked at, or into
    ignored: list[str] = field(default_factory=list)  # what rules exclude

    def add(self, other: Tree) -> None:
        """Take over what another has."""
        self.files += other.files
        self.repositories += other.repositories
        self.directories |= other.directories
        self.links |= other.links
        self.left_out += other.left_out
        self.closed += other.closed
        self.ignored += other.ignored


@dataclass(frozen=True)
class Change:
    """Something that is not there as it was."""

    walk: Walk | NamedFile  # of what walk
    inside: tuple[str, ...]  # the directories that lead to it
    own: str  # its name there; empty of a directory that cannot be looked into any more
    name: str  # its name among all that is saved
    before: os.stat_result | None  # what the system said of it when it was found, or read; None where it was not there
    now: os.stat_result | None  # what the system says; None where it is gone

    @property
    def grew(self) -> bool:
        """It is the same file with more bytes."""
        before, now = self.before, self.now
        if before is None or now is None or not (is_file(before) and is_file(now)):
            return False
        return before.st_ino == now.st_ino and before.st_size < now.st_size

    @property
    def is_of_no_other_kind(self) -> bool:
        """It is still a file, a link or what else it was, or gone."""
        before, now = self.before, self.now
        return before is not None and (now is None or stat.S_IFMT(before.st_mode) == stat.S_IFMT(now.st_mode))


@dataclass
class Watched:
    """Everything that moves."""

    # The directories that it is in: where the walk began, and the directories that lead to it from there
    places: set[Place] = field(default_factory=set)
    names: set[str] = field(default_factory=set)  # its names among all that is saved


@dataclass
class Look:
    """A second look at everything."""

    since: int  # from when on a change is a recent one, in nanoseconds since 1970
    watched: Watched = field(default_factory=Watched)  # what is looked at alone, or left aside
    alone: bool = False  # which of the two
    changes: list[Change] = field(default_factory=list)  # what is not as it was
    recent: dict[str, os.stat_result] = field(default_factory=dict)  # files and links that were changed a moment ago
    places: dict[str, Place] = field(default_factory=dict)  # of these, where each is, as for what is watched


def is_same(one: os.stat_result, other: os.stat_result) -> bool:
    """A file or directory is as it was, as far as its status tells; of a directory, without its contents."""
    if one.st_mode != other.st_mode or one.st_ino != other.st_ino:
        return False
    if not (stat.S_ISREG(one.st_mode) or stat.S_ISLNK(one.st_mode)):
        return True
    return (one.st_size, one.st_mtime_ns, one.st_ctime_ns) == (other.st_size, other.st_mtime_ns, other.st_ctime_ns)


def changed_at(status: os.stat_result) -> int:
    """When anything of a file changed last, by the system's own clock where it tells that."""
    return status.st_mtime_ns if os.name == "nt" else status.st_ctime_ns


class Room:
    """The bytes that a snapshot may hold, and those that are taken of them."""

    def __init__(self, size: int) -> None:
        self.size, self.used = size, 0
        self._costs: dict[str, int] = {}

    @property
    def exceeded(self) -> str:
        """What to say of what is larger."""
        return f"more than the {shown_size(self.size)} that a snapshot may hold; exclude what is not memory"

    def has(self, cost: int) -> bool:
        return self.used + cost <= self.size

    def charge(self, name: str, cost: int) -> None:
        """Let a file take so much, in place of what it took."""
        self.used += cost - self._costs.pop(name, 0)
        if cost:
            self._costs[name] = cost

    def choose(self, files: list[Entry]) -> tuple[list[Entry], list[tuple[list[Entry], str]]]:
        """The files that fit, and what does not, with the reason.

        Where not all do, it is the largest that are left out: what is short is read most.
        """
        total = sum(entry.size for entry in files)
        if total <= self.size:
            return files, []
        names = {entry.name for entry in files}
        units: dict[str, list[Entry]] = {}
        for entry in files:
            units.setdefault(_belongs_to(entry.name, names), []).append(entry)
        left: list[tuple[list[Entry], str]] = []
        dropped: set[str] = set()
        for unit, entries in sorted(units.items(), key=lambda each: sum(one.size for one in each[1]), reverse=True):
            if total <= self.size:
                break
            size = sum(entry.size for entry in entries)
            why = self.exceeded if size > self.size else f"and all files together are {self.exceeded}"
            left.append((entries, f"{shown_size(size)}, {why}"))
            total -= size
            dropped.add(unit)
        return [entry for entry in files if _belongs_to(entry.name, names) not in dropped], left


def length_of(content: str | bytes) -> int:
    """Its bytes."""
    return len(content) if isinstance(content, bytes) or content.isascii() else len(content.encode("utf-8"))


def cost_of(content: str | bytes) -> int:
    """Bytes that it takes in a snapshot."""
    return encoded_size(len(content)) if isinstance(content, bytes) else length_of(content)


def encoded_size(size: int) -> int:
    """Bytes that so many take where they are no text."""
    return (size + 2) // 3 * 4  # base64


def _belongs_to(name: str, names: set[str]) -> str:
    """The file that it would be a part of, were that a database; else itself."""
    whole = whole_of(name)
    return whole if whole in names else name


def shown_size(size: int) -> str:
    """Bytes for people, as the command line shows them."""
    scaled, unit = float(size), 0
    while round(scaled, 1) >= 1000 and unit < len(_UNITS) - 1:
        scaled, unit = scaled / 1000, unit + 1
    return f"{size} B" if not unit else f"{scaled:.1f} {_UNITS[unit]}"
