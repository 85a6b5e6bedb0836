"""Records of the files in a folder, of their changes, of their rows in an index, and of the room in a snapshot."""

from __future__ import annotations

import os
import stat
import sys
from typing import TYPE_CHECKING, Any

from colony_memory._values import Record, Value, field
from colony_memory.capture._filenames import INDEX, JOURNAL, LOG, stem_of
from colony_memory.capture._steady import room_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from colony_memory.capture._walk import NamedFile, Walk

    Place = tuple[Path, tuple[str, ...]]  # the root of a walk, and the directories from there

#: Stands for the digest of a file that is saved as a part of a database.
PART = "part"
_COARSE, _FINE = 2_500_000_000, 20_000_000  # nanoseconds: time step of FAT, of a kernel's tick, each with a margin
_WHOLE = 1_000_000  # a timestamp that is no multiple of this is from a file system with fine ones
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")


class LeftOut(Value):
    """Something in the folder that no document holds."""

    name: str  #: Path inside the folder, with ``/``; a directory ends with one.
    reason: str  #: Why it was left out.
    #: It could have been saved, had it been quiet or readable: another snapshot may have it.
    unread: bool = field(default=True, compare=False)

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


class Note(Value):
    """A remark on a file or directory, which is no fault."""

    name: str  #: Path inside the folder, with ``/``; a directory ends with one.
    text: str  #: The remark.


class Entry(Value):
    """A file that was found."""

    root: Path  # a directory above it, with no link on the way
    inside: tuple[str, ...]  # the directories from there to the file
    own: str  # its name in the last of them, as the system has it
    name: str  # its name in the snapshot
    status: os.stat_result

    @property
    def size(self) -> int:
        """Its bytes when it was found, without holes."""
        return room_of(self.status)


class Tree(Record):
    """Everything that was found so far."""

    files: list[Entry] = field(default_factory=list)  # databases before their companions
    repositories: list[str] = field(default_factory=list)  # the name of the .git of each
    directories: dict[str, os.stat_result] = field(default_factory=dict)  # without those at which a walk began
    links: dict[str, str] = field(default_factory=dict)  # with their targets
    left_out: list[LeftOut] = field(default_factory=list)  # of a walk, unreadable names and directories are `unread`
    ignored: list[str] = field(default_factory=list)  # names excluded by rules

    def add(self, other: Tree) -> None:
        self.files += other.files
        self.repositories += other.repositories
        self.directories |= other.directories
        self.links |= other.links
        self.left_out += other.left_out
        self.ignored += other.ignored


class Change(Value):
    """A file or directory that differs from how it was found or read."""

    walk: Walk | NamedFile
    inside: tuple[str, ...]  # the directories that lead to it
    own: str  # its name there; empty for a directory that cannot be listed any more
    name: str  # its name in the snapshot
    before: os.stat_result | None  # when it was found or read; None if it is new
    now: os.stat_result | None  # None if it is gone


class Look:
    """A second look at everything but the watched names, or at these alone; its results, by name."""

    def __init__(
        self,
        read: Mapping[str, os.stat_result],
        read_at: Mapping[str, int],
        since: int,
        places: set[Place],
        names: set[str],
        *,
        alone: bool,
    ) -> None:
        self.read, self.read_at = read, read_at  # the statuses of files when they were read, and the times of that
        self.since = since  # changes after this are recent, in nanoseconds since 1970
        self.watched_places, self.watched, self.alone = places, names, alone
        self.changes: list[Change] = []
        self.recent: dict[str, os.stat_result] = {}  # files and links with recent changes
        self.places: dict[str, Place] = {}  # the directories of these
        self.unsettled: set[str] = set()  # changed names, but for databases and files that only grew
        self.torn: set[str] = set()  # of these, files whose bytes alone show the change
        self.grown: set[str] = set()  # files that have their former content, and more
        self.databases: set[str] = set()  # changed databases and companions of databases
        self.gone: set[str] = set()  # names that are left out in any case, and have vanished

    def is_recent(self, name: str, status: os.stat_result) -> bool:
        """True if a file was changed recently, or may have been: truncation shows in its size before its time."""
        return max(changed_at(status), 0 if status.st_size else self.read_at.get(name, 0)) > self.since


def is_same(one: os.stat_result, other: os.stat_result) -> bool:
    """True if a file is unchanged, as far as its status tells; for a directory, whatever its entries."""
    if one.st_mode != other.st_mode or one.st_ino != other.st_ino:
        return False
    if not (stat.S_ISREG(one.st_mode) or stat.S_ISLNK(one.st_mode)):
        return True
    return (one.st_size, one.st_mtime_ns, one.st_ctime_ns) == (other.st_size, other.st_mtime_ns, other.st_ctime_ns)


def changed_at(status: os.stat_result) -> int:
    """The time of a file's last change of any kind, by the system's own clock except on Windows."""
    return status.st_mtime_ns if os.name == "nt" else status.st_ctime_ns


def is_settled(status: os.stat_result, began: int) -> bool:
    """True if the last change came before the reading began by more than the time step of the file system."""
    newest = max(status.st_mtime_ns, status.st_ctime_ns)
    step = _FINE if status.st_ctime_ns % _WHOLE else _COARSE
    return newest + step < began


# --- rows of an index


class Row(Value):
    """A file as it was last read."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    mode: int
    # Of the saved content: `sha256:` and the digest of the file's bytes, or of the copy of a database. PART for a file
    # saved as a part of a database. Empty if the file has to be read: it was so young that a change may hide behind the
    # same timestamp, or it is not saved as it is
    digest: str
    clean: str = ""  # version of the rules by which it has no likely secret; empty if it has, or was not searched
    is_text: bool = True  # it is a document of its own
    is_database: bool = False  # it was read as an SQLite database, with its companions
    pieces: str = ""  # of a large file, those without a likely secret, see secrets.Pieces

    @classmethod
    def of(cls, status: os.stat_result, digest: str, *, began: int, **more: Any) -> Row:
        """The row of a file that had this status in a reading that began then (``time.time_ns()``)."""
        facts = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_mode)
        return cls(*facts, digest if is_settled(status, began) else "", **more)

    def is_of(self, status: os.stat_result) -> bool:
        """True if a file is unchanged, but perhaps for its mode, which its status has."""
        now = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
        return now == (self.size, self.mtime_ns, self.ctime_ns, self.inode)


class Known(Value):
    """The files that need not be read, by their rows in an index."""

    rows: Mapping[str, Row]
    rules: str | None  # version of the rules by which they must have no secrets, None for no such condition

    def find(self, name: str, statuses: Mapping[str, os.stat_result]) -> Row | None:
        """The row of a file that need not be read, or whose database need not be, given all statuses; else None."""
        row = self.rows.get(name)
        if row is None or row.digest == PART:
            database = stem_of(name)
            found = self.find(database, statuses) if database != name and database in statuses else None
            if found is None or not found.is_database:
                return None
            return row or Row.of(statuses[name], PART, began=sys.maxsize, is_text=False)
        if not row.digest or not row.is_of(statuses[name]) or self.rules not in (None, row.clean):
            return None
        # A database may change by its log alone. Its index belongs to readers, who come and go.
        same = all(self._is_same(name + suffix, statuses, of=row) for suffix in (LOG, JOURNAL))
        return row if same and (name + INDEX not in statuses or name + INDEX in self.rows) else None

    def _is_same(self, part: str, statuses: Mapping[str, os.stat_result], *, of: Row) -> bool:
        row, status = self.rows.get(part), statuses.get(part)
        if status is None or status.st_size == 0:
            return row.size == 0 if row is not None else status is None or of.is_database
        return row is not None and row.is_of(status)


# --- the size limit of a snapshot


class Room:
    """The bytes that a snapshot may hold, and those used so far."""

    def __init__(self, size: int) -> None:
        self.size, self.used = size, 0
        self.exceeded = f"more than the {shown_size(size)} that a snapshot may hold; exclude what is not memory"
        self._costs: dict[str, int] = {}

    def has(self, cost: int) -> bool:
        return self.used + cost <= self.size

    def charge(self, name: str, cost: int) -> None:
        """Set the bytes that a file uses."""
        self.used += cost - self._costs.get(name, 0)
        self._costs[name] = cost

    def too_much(self, files: list[Entry]) -> Iterable[tuple[list[Entry], str]]:
        """The largest files, without which the others fit, with the reason: short files are read most."""
        total = sum(entry.size for entry in files)
        if total <= self.size:
            return
        names = {entry.name for entry in files}
        units: dict[str, list[Entry]] = {}  # a database together with its companions
        for entry in files:
            database = stem_of(entry.name)
            units.setdefault(database if database in names else entry.name, []).append(entry)
        sized = [(sum(entry.size for entry in entries), entries) for entries in units.values()]
        for size, entries in sorted(sized, key=lambda sized_unit: -sized_unit[0]):
            if total <= self.size:
                return
            why = self.exceeded if size > self.size else f"and all files together are {self.exceeded}"
            yield entries, f"{shown_size(size)}, {why}"
            total -= size


def cost_of(content: str | bytes) -> int:
    if isinstance(content, bytes):
        return encoded_size(len(content))
    return len(content) if content.isascii() else len(content.encode("utf-8"))


def encoded_size(size: int) -> int:
    """The length of ``size`` bytes that are not text, in a document."""
    return (size + 2) // 3 * 4  # base64


def shown_size(size: int) -> str:
    scaled, unit = float(size), 0
    while round(scaled, 1) >= 1000 and unit < len(_UNITS) - 1:
        scaled, unit = scaled / 1000, unit + 1
    return f"{size} B" if not unit else f"{scaled:.1f} {_UNITS[unit]}"
