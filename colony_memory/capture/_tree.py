"""The files found in a folder, the changes since, an index's rows of them, and the room that a snapshot has."""

from __future__ import annotations

import os
import stat
import sys
from typing import TYPE_CHECKING, Any

from colony_memory._values import Record, Value, field
from colony_memory.capture._filenames import INDEX, JOURNAL, LOG, whole_of
from colony_memory.capture._steady import room_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from colony_memory.capture._walk import NamedFile, Walk

    Place = tuple[Path, tuple[str, ...]]  # where a walk began, and the directories that lead on from there

#: The digest of what is saved as a part of a database.
PART = "part"
_COARSE, _FINE = 2_500_000_000, 20_000_000  # nanoseconds: of FAT, with some to spare; of a kernel's tick
_WHOLE = 1_000_000  # a time that is no multiple of this tells that its file system counts finely
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")


class LeftOut(Value):
    """Something in the folder that no document holds."""

    name: str  #: Path inside the folder, with ``/``; a directory ends with one.
    reason: str  #: Why it was left out.
    #: It could have been saved, had it stood still or been readable: another snapshot may have it.
    unread: bool = field(default=True, compare=False)

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


class Note(Value):
    """Something that is good to know of a file or directory, and no fault."""

    name: str  #: Path inside the folder, with ``/``; a directory ends with one.
    text: str  #: What there is to know.


class Entry(Value):
    """A file that was found."""

    root: Path  # a directory from which no link leads on to it
    inside: tuple[str, ...]  # the directories that lead to it from there
    own: str  # its name in the last of them, as the system has it
    name: str  # under which it is saved
    status: os.stat_result

    @property
    def size(self) -> int:
        """Its bytes when it was found, but for holes."""
        return room_of(self.status)


class Tree(Record):
    """Everything that was found so far."""

    files: list[Entry] = field(default_factory=list)  # a database before what is beside it
    repositories: list[str] = field(default_factory=list)  # the .git of each, by name
    directories: dict[str, os.stat_result] = field(default_factory=dict)  # but for those where a walk began
    links: dict[str, str] = field(default_factory=dict)  # with what they say
    left_out: list[LeftOut] = field(default_factory=list)  # of a walk, what cannot be looked at, or into, is `unread`
    ignored: list[str] = field(default_factory=list)  # what rules exclude

    def add(self, other: Tree) -> None:
        self.files += other.files
        self.repositories += other.repositories
        self.directories |= other.directories
        self.links |= other.links
        self.left_out += other.left_out
        self.ignored += other.ignored


class Change(Value):
    """Something that is not there as it was."""

    walk: Walk | NamedFile
    inside: tuple[str, ...]  # the directories that lead to it
    own: str  # its name there; empty of a directory that cannot be looked into any more
    name: str  # its name among all that is saved
    before: os.stat_result | None  # when it was found, or read; None where it was not there
    now: os.stat_result | None  # None where it is gone


class Look:
    """A second look at everything but what is watched, or at that alone; what it found, by name."""

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
        self.read, self.read_at = read, read_at  # the status of files when they were read, and when that was
        self.since = since  # from when on a change is a recent one, in nanoseconds since 1970
        self.watched_places, self.watched, self.alone = places, names, alone
        self.changes: list[Change] = []
        self.recent: dict[str, os.stat_result] = {}  # files and links that were changed a moment ago
        self.places: dict[str, Place] = {}  # the directories in which these are
        self.unsettled: set[str] = set()  # neither whole by itself nor only longer
        self.torn: set[str] = set()  # of that, the files of which nothing but their bytes tells
        self.grown: set[str] = set()  # files that hold what they held, and more
        self.databases: set[str] = set()  # databases, and files that are a part of one
        self.gone: set[str] = set()  # what is left out in any case, and is not there any more

    def is_recent(self, name: str, status: os.stat_result) -> bool:
        """It was changed a moment ago, or may have been: a system cuts a file first, and notes that time later."""
        return max(changed_at(status), 0 if status.st_size else self.read_at.get(name, 0)) > self.since


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


def is_settled(status: os.stat_result, began: int) -> bool:
    """A file is older, by more than its file system's time step, than the time at which reading began."""
    newest = max(status.st_mtime_ns, status.st_ctime_ns)
    step = _FINE if status.st_ctime_ns % _WHOLE else _COARSE
    return newest + step < began


# --- what an index knows


class Row(Value):
    """A file as it was read."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    mode: int
    # Of what is saved of it: `sha256:` and that of its bytes, of a database that of its copy. PART where it is saved
    # as a part of a database. Empty where it has to be read: it was so young that a change may hide behind the same
    # time, or it is not saved as it is
    digest: str
    clean: str = ""  # the version of the rules by which no likely secret is in it; empty where that was not found
    is_text: bool = True  # it is a document of its own
    is_database: bool = False  # it was read as an SQLite database, with what is beside it
    pieces: str = ""  # of a large one, those in which no likely secret is, see secrets.Pieces

    @classmethod
    def of(cls, status: os.stat_result, digest: str, *, began: int, **more: Any) -> Row:
        """The row of a file that was read with this status, by somebody who began at that time (``time.time_ns()``)."""
        facts = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_mode)
        return cls(*facts, digest if is_settled(status, began) else "", **more)

    def is_of(self, status: os.stat_result) -> bool:
        """A file is as it was, but for its mode, which is in the status."""
        now = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
        return now == (self.size, self.mtime_ns, self.ctime_ns, self.inode)


class Known(Value):
    """Files that need not be read, by what an index has of them."""

    rows: Mapping[str, Row]
    rules: str | None  # the version of the rules by which they have to be clean, None where nobody asks for that

    def find(self, name: str, there: Mapping[str, os.stat_result]) -> Row | None:
        """The row of a file that need not be read, or is a part of one that need not be, by all that is there."""
        row = self.rows.get(name)
        if row is None or row.digest == PART:
            whole = whole_of(name)
            found = self.find(whole, there) if whole != name and whole in there else None
            if found is None or not found.is_database:
                return None
            return row or Row.of(there[name], PART, began=sys.maxsize, is_text=False)
        if not row.digest or not row.is_of(there[name]) or self.rules not in (None, row.clean):
            return None
        # A database changes by its log alone. The index beside it is the readers', who may come and go.
        same = all(self._is_same(name + suffix, there, of=row) for suffix in (LOG, JOURNAL))
        return row if same and (name + INDEX not in there or name + INDEX in self.rows) else None

    def _is_same(self, part: str, there: Mapping[str, os.stat_result], *, of: Row) -> bool:
        row, status = self.rows.get(part), there.get(part)
        if status is None or status.st_size == 0:
            return row.size == 0 if row is not None else status is None or of.is_database
        return row is not None and row.is_of(status)


# --- how much a snapshot may hold


class Room:
    """The bytes that a snapshot may hold, and those that are taken of them."""

    def __init__(self, size: int) -> None:
        self.size, self.used = size, 0
        self.exceeded = f"more than the {shown_size(size)} that a snapshot may hold; exclude what is not memory"
        self._costs: dict[str, int] = {}

    def has(self, cost: int) -> bool:
        return self.used + cost <= self.size

    def charge(self, name: str, cost: int) -> None:
        """Let a file take so much, in place of what it took."""
        self.used += cost - self._costs.get(name, 0)
        self._costs[name] = cost

    def too_much(self, files: list[Entry]) -> Iterable[tuple[list[Entry], str]]:
        """The largest files, without which the others fit, with the reason: what is short is read most."""
        total = sum(entry.size for entry in files)
        if total <= self.size:
            return
        names = {entry.name for entry in files}
        units: dict[str, list[Entry]] = {}  # a database with what would be a part of it
        for entry in files:
            whole = whole_of(entry.name)
            units.setdefault(whole if whole in names else entry.name, []).append(entry)
        sized = [(sum(entry.size for entry in entries), entries) for entries in units.values()]
        for size, entries in sorted(sized, key=lambda each: -each[0]):
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
    """Bytes that so many take where they are no text."""
    return (size + 2) // 3 * 4  # base64


def shown_size(size: int) -> str:
    scaled, unit = float(size), 0
    while round(scaled, 1) >= 1000 and unit < len(_UNITS) - 1:
        scaled, unit = scaled / 1000, unit + 1
    return f"{size} B" if not unit else f"{scaled:.1f} {_UNITS[unit]}"
