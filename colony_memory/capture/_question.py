"""May what a restore displaces go? Saved is asked of content, and after it was moved aside; in use of the system.

A snapshot is read once, and only where those asked before it did not have everything. What another process has open to
write to, has mapped, or holds a lock on is not replaced unasked, an SQLite database also where this process has it
open. Where such a file is no text, nothing else of its directory changes but notes.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import stat
from typing import TYPE_CHECKING

from colony_memory._diff import split_lines
from colony_memory._format.payload import sha256
from colony_memory._os.open_files import (
    DATABASE_LOCKS,
    INDEX_LOCKS,
    WHOLE_FILE,
    holder_of,
    is_open_elsewhere,
    lock_holder,
    name_process,
    open_files,
)
from colony_memory._os.paths import Identity, is_file, is_link
from colony_memory._values import Record, Value, cached_property, field
from colony_memory.capture._filenames import INDEX, is_note, listed, parents_of, quoted, whole_of
from colony_memory.capture._metadata import Metadata, encode_text, split_documents
from colony_memory.capture._steady import holds_database, is_database, read_sparse, read_start, room_of
from colony_memory.capture.sqlite import holds_same, reads_as_journal
from colony_memory.exceptions import ColonyMemoryError, Hint

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from pathlib import Path

    from colony_memory._os.directory import Directory, Reach

    Contents = Mapping[str, str | bytes]

_LARGEST_TEXT = 1 << 26  # bytes of a file that is compared line by line
_START = 4096  # bytes by which a file is known for text


class Unsaved(ColonyMemoryError):
    """Files that a restore would replace or take away, ``names``, are saved nowhere."""

    def __init__(self, target: Path, names: list[str], why: str = "saved nowhere") -> None:
        be = "is" if len(names) == 1 else "are"
        super().__init__(
            f"{quoted(names)} in {str(target)!r} would be replaced or removed, and {be} {why}; nothing was written",
            hint=Hint("restore_folder", "snapshot_first", value=True),
        )
        self.names = tuple(names)


class FileInUse(ColonyMemoryError):
    """Files that a restore would change are open in a program: ``users`` has it for each."""

    def __init__(self, target: Path, users: Mapping[str, str]) -> None:
        programs, names = listed(list(dict.fromkeys(users.values())), most=3), quoted(list(users))
        super().__init__(
            f"open in {str(target)!r} by {programs}, which would go on with what was there before: {names}; "
            "nothing was written; stop what has it open, and try again"
        )
        self.users = dict(users)


class Displaced(Value):
    """A file that is replaced or taken away."""

    name: str  # path in the folder
    reach: Reach  # where it is now: the folder, or where it was moved aside
    at: str  # path there
    status: os.stat_result

    @property
    def where(self) -> tuple[Directory, str]:
        """The directory that it is in, and its name there."""
        return self.reach.parent(self.at)

    def is_part_of(self, whole: Displaced | None) -> bool:
        """A log or an index of that database, which is asked for with all that belongs to it."""
        if whole is None or whole is self or not holds_database(*whole.where):
            return False
        if self.name.endswith(INDEX):
            return True
        data = self.read()
        return isinstance(data, bytes) and (reads_as_journal(self.name, data) or not any(data[:8]))

    def digest(self) -> str | None:
        """Of its bytes, or of what a link says; None where it cannot be read: then nobody has it."""
        try:
            return _digest(self.read())
        except OSError:
            return None

    def text(self) -> str | None:
        """Its text; None of what is no text, or too large."""
        if is_file(self.status) and self.status.st_size <= _LARGEST_TEXT:
            with contextlib.suppress(OSError, UnicodeDecodeError):
                data = self.read()
                return data.decode("utf-8", "surrogatepass") if isinstance(data, bytes) else None
        return None

    def read(self) -> bytes | str:
        """Its bytes, or what a link says."""
        directory, name = self.where
        if is_link(self.status):
            return directory.read_link(name)
        with directory.file(name) as (descriptor, there):
            return read_start(descriptor, there.st_size) if room_of(there) == there.st_size else read_sparse(descriptor)


class Holding(Record):
    """A snapshot that is asked for what is displaced."""

    snapshot_id: str
    read: Callable[[], Mapping[str, str]]  # gives its documents, as a restore into this folder would have them
    proven: frozenset[str] = frozenset()  # digests of files that are in it for certain, known without reading it
    fresh: bool = False  # it was saved just now, so that nobody need be asked whether it is listed

    @cached_property
    def contents(self) -> tuple[Contents, Metadata]:
        return split_documents(self.read())

    @cached_property
    def digests(self) -> frozenset[str]:
        return _digests(*self.contents)


class Question(Record):
    """The question that stands before anything that a restore displaces is discarded."""

    basis: Holding | None = None  # the snapshot that the folder is based on, None where it is not known
    others: tuple[Holding, ...] = ()  # the other snapshots that are asked, in that order
    # Is given the ids of those on which the answer rests, and says whether they are still listed
    confirm: Callable[[Collection[str]], bool] = field(default=lambda _: True)
    saving: bool = False  # what none of them has is going to be saved first: nothing stands against it
    why: dict[str, str] = field(default_factory=dict, init=False)  # for each file that was asked for, where it is
    restored: tuple[Contents, Metadata] = field(default_factory=lambda: ({}, Metadata()))
    _used: set[str] = field(default_factory=set, init=False)

    def unsaved(self, displaced: Iterable[Displaced]) -> list[str]:
        """Names of what none of them has, sorted; what cannot be read is with none."""
        self._used.clear()
        found = {each.name: each for each in displaced if each.status.st_size}
        left = {name: each for name, each in found.items() if not each.is_part_of(found.get(whole_of(name)))}
        digests = {name: digest for name, each in left.items() if (digest := each.digest()) is not None}
        target = _digests(*self.restored)
        self._take(left, "the snapshot has it", lambda each: digests.get(each.name) in target)
        self._take(left, "the snapshot has all its lines", lambda each: self._has_lines(each, None))
        for holding in filter(None, (self.basis, *self.others)):
            self._ask(left, holding, digests)
        self.why.update(dict.fromkeys(left, "it is saved first" if self.saving else "saved nowhere"))
        return [] if self.saving else sorted(left)

    def require_saved(self, target: Path, displaced: Iterable[Displaced]) -> None:
        """Raise Unsaved where none of them has something, or those that have it are not listed any more."""
        unsaved = self.unsaved(displaced)
        if unsaved:
            raise Unsaved(target, unsaved)
        if self._used and not self.confirm(frozenset(self._used)):
            raise Unsaved(target, sorted(self.why), "in no snapshot that is still listed")

    def _ask(self, left: dict[str, Displaced], holding: Holding, digests: Mapping[str, str]) -> None:
        why, before = f"snapshot {holding.snapshot_id} has it", len(left)
        self._take(left, why, lambda each: digests.get(each.name) in holding.proven)
        if left:
            files = holding.contents[0]
            self._take(left, why, lambda each: digests.get(each.name) in holding.digests)
            self._take(left, why, lambda each: _is_same_database(each, files.get(each.name)))
            if holding is self.basis:
                since = f"the snapshot has all its lines that are not of {holding.snapshot_id}"
                self._take(left, since, lambda each: self._has_lines(each, files.get(each.name)))
        if len(left) < before and not holding.fresh:
            self._used.add(holding.snapshot_id)

    def _take(self, left: dict[str, Displaced], why: str, has: Callable[[Displaced], bool]) -> None:
        for name in [name for name, each in left.items() if has(each)]:
            self.why[name] = why
            del left[name]

    def _has_lines(self, displaced: Displaced, before: str | bytes | None) -> bool:
        """The restored snapshot has every line of a text but those that were there before it was changed."""
        text = displaced.text()
        if text is None or (before is not None and not isinstance(before, str)):
            return False
        return _lines(text) - _lines(before or "") <= self._lines

    @cached_property
    def _lines(self) -> frozenset[str]:
        texts = (content for content in self.restored[0].values() if isinstance(content, str))
        return frozenset().union(*map(_lines, texts))


def _lines(text: str) -> frozenset[str]:
    return frozenset(line.rstrip("\n") for line in split_lines(text)) - {""}


def _is_same_database(displaced: Displaced, saved: str | bytes | None) -> bool:
    """A database with its log comes to what was saved of it."""
    data = saved if isinstance(saved, bytes) else b""
    return is_database(data) and stat.S_ISREG(displaced.status.st_mode) and holds_same(*displaced.where, data)


def _digests(contents: Contents, metadata: Metadata) -> frozenset[str]:
    files = frozenset(_digest(encode_text(content)) for content in contents.values())
    return files | frozenset(map(_digest, metadata.links.values()))


def _digest(content: str | bytes) -> str:
    """Of a file, as the tree of a memory has it; a link has another, whatever it says."""
    return sha256(content) if isinstance(content, bytes) else f"link:{content}"


# --- in use


def find_users(reach: Reach, changing: Collection[str], databases: Collection[str]) -> dict[str, str]:
    """The files ``changing``, ``databases`` among them, that a process has open, or whose store; with its name."""
    there: dict[str, os.stat_result] = {}
    for directory in sorted({parent for name in changing for parent in _stores_of(name)}):
        with contextlib.suppress(OSError):  # it is not there yet, or not ours to look at
            lead = f"{directory}/" if directory else ""
            there |= {lead + name: status for name, status in reach.directory(directory).entries() if is_file(status)}
    if not there:
        return {}
    system, found, stores = open_files(), {}, {}
    for name, status in there.items():
        place, by = reach.parent(name), holder_of(system, name, status)
        may_be_lock = name in changing or not status.st_size or "lock" in place[1].lower()
        if by is None and may_be_lock and not is_note(name):
            by = _lock_holder(*place, WHOLE_FILE)
        if by is not None and _is_of_store(*place):
            stores[name.rpartition("/")[0]] = by
        if by is None and name in databases:
            by = os.getpid() if is_open_elsewhere(Identity.of(status)) else None
            # The index first: in WAL mode, nothing else is locked by whoever only waits.
            by = by or _lock_holder(place[0], place[1] + INDEX, INDEX_LOCKS) or _lock_holder(*place, DATABASE_LOCKS)
        if by is not None and name in changing:
            found[name] = by
    for name in changing:
        store = next((each for each in _stores_of(name) if each in stores), None)
        if store is not None and not is_note(name) and (store or name not in databases):
            found.setdefault(name, stores[store])
    return {name: name_process(by) for name, by in sorted(found.items())}


def _stores_of(name: str) -> tuple[str, ...]:
    """The directories whose stores a file is of: those above it, the folder itself only where it is right in it."""
    return tuple(parents_of(name)) or ("",)


def _is_of_store(directory: Directory, name: str) -> bool:
    """A file that is open is one of several: no text, and no SQLite database, which is whole by itself."""
    if holds_database(directory, whole_of(name)):
        return False
    try:
        with directory.file(name) as (descriptor, _):
            start = read_start(descriptor, _START)
        codecs.getincrementaldecoder("utf-8")().decode(start)  # a character may be cut at the end
    except (OSError, UnicodeDecodeError):
        return True
    return not start or b"\0" in start


def _lock_holder(directory: Directory, name: str, where: tuple[int, int]) -> int | None:
    with contextlib.suppress(OSError), directory.file(name) as (descriptor, _):
        return lock_holder(descriptor, where)
    return None
