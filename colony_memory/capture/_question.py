"""The checks of displaced files: each is saved, by its content once it is moved aside, and not in use, by the system.

A snapshot is read at most once, and only if those before it lack something. A file that another process has open for
writing, mapped or locked is not replaced unasked; nor is an SQLite database that this process has open. If such a file
is not text, nothing else in its directory is replaced but notes.
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
from colony_memory.capture._filenames import INDEX, is_note, listed, parents_of, quoted, stem_of
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
_START = 4096  # bytes from the start of a file that tell if it is text


class Unsaved(ColonyMemoryError):
    """Raised for files, ``names``, that a restore would replace or remove and that are saved nowhere."""

    def __init__(self, target: Path, names: list[str], why: str = "saved nowhere") -> None:
        be = "is" if len(names) == 1 else "are"
        super().__init__(
            f"{quoted(names)} in {str(target)!r} would be replaced or removed, and {be} {why}; nothing was written",
            hint=Hint("restore_folder", "snapshot_first", value=True),
        )
        self.names = tuple(names)


class FileInUse(ColonyMemoryError):
    """Raised for files that a restore would change while they are open; ``users`` maps each to its program."""

    def __init__(self, target: Path, users: Mapping[str, str]) -> None:
        programs, names = listed(list(dict.fromkeys(users.values())), most=3), quoted(list(users))
        super().__init__(
            f"open in {str(target)!r} by {programs}, which would go on with the old content: {names}; "
            "nothing was written; stop what has it open, and try again"
        )
        self.users = dict(users)


class Displaced(Value):
    """A file that is replaced or removed."""

    name: str  # path in the folder
    reach: Reach  # its present place: the folder, or a staging directory
    at: str  # path there
    status: os.stat_result

    @property
    def where(self) -> tuple[Directory, str]:
        """The directory of the file, and its name there."""
        return self.reach.parent(self.at)

    def is_part_of(self, database: Displaced | None) -> bool:
        """True for a log or index of that database, which is compared together with it."""
        if database is None or database is self or not holds_database(*database.where):
            return False
        if self.name.endswith(INDEX):
            return True
        data = self.read()
        return isinstance(data, bytes) and (reads_as_journal(self.name, data) or not any(data[:8]))

    def digest(self) -> str | None:
        """The digest of its bytes, or of a link's target; None if it cannot be read: then no snapshot has it."""
        try:
            return _digest(self.read())
        except OSError:
            return None

    def text(self) -> str | None:
        """Its text; None if it is not text, or too large."""
        if is_file(self.status) and self.status.st_size <= _LARGEST_TEXT:
            with contextlib.suppress(OSError, UnicodeDecodeError):
                data = self.read()
                return data.decode("utf-8", "surrogatepass") if isinstance(data, bytes) else None
        return None

    def read(self) -> bytes | str:
        """Its bytes, or a link's target."""
        directory, name = self.where
        if is_link(self.status):
            return directory.read_link(name)
        with directory.file(name) as (descriptor, now):
            return read_start(descriptor, now.st_size) if room_of(now) == now.st_size else read_sparse(descriptor)


class Holding(Record):
    """A snapshot that may have the displaced files."""

    snapshot_id: str  # empty for one that is still to be saved
    read: Callable[[], Mapping[str, str]]  # gives its documents as they would be restored into this folder
    proven: frozenset[str] = frozenset()  # digests of files that it has for certain, known without reading it
    fresh: bool = False  # it was saved just now, so that it is listed for certain

    @cached_property
    def contents(self) -> tuple[Contents, Metadata]:
        return split_documents(self.read())

    @cached_property
    def digests(self) -> frozenset[str]:
        return _digests(*self.contents)


class Question(Record):
    """The question of which displaced files are saved, to be answered before any is discarded."""

    basis: Holding | None = None  # the snapshot that the folder is based on, None if unknown
    others: tuple[Holding, ...] = ()  # the other snapshots to search, in that order
    # Takes the ids of the snapshots on which the answer rests, and is true if all are still listed
    confirm: Callable[[Collection[str]], bool] = field(default=lambda _: True)
    why: dict[str, str] = field(default_factory=dict, init=False)  # for each file in question, where it is saved
    restored: tuple[Contents, Metadata] = field(default_factory=lambda: ({}, Metadata()))
    _used: set[str] = field(default_factory=set, init=False)

    def unsaved(self, displaced: Iterable[Displaced]) -> list[str]:
        """Names of the files that no snapshot has, sorted; unreadable files are among them."""
        self._used.clear()
        found = {file.name: file for file in displaced if file.status.st_size}
        remaining = {name: file for name, file in found.items() if not file.is_part_of(found.get(stem_of(name)))}
        digests = {name: digest for name, file in remaining.items() if (digest := file.digest()) is not None}
        target = _digests(*self.restored)
        self._check_off(remaining, "the snapshot has it", lambda file: digests.get(file.name) in target)
        self._check_off(remaining, "the snapshot has all its lines", lambda file: self._has_lines(file, None))
        for holding in filter(None, (self.basis, *self.others)):
            self._ask(remaining, holding, digests)
        self.why.update(dict.fromkeys(remaining, "saved nowhere"))
        return sorted(remaining)

    def require_saved(self, target: Path, displaced: Iterable[Displaced]) -> None:
        """Raise Unsaved if a file is in no snapshot, or if a snapshot that has one is not listed any more."""
        unsaved = self.unsaved(displaced)
        if unsaved:
            raise Unsaved(target, unsaved)
        if self._used and not self.confirm(frozenset(self._used)):
            raise Unsaved(target, sorted(self.why), "in no snapshot that is still listed")

    def _ask(self, remaining: dict[str, Displaced], holding: Holding, digests: Mapping[str, str]) -> None:
        why = f"snapshot {holding.snapshot_id} has it" if holding.snapshot_id else "it is saved first"
        before = len(remaining)
        self._check_off(remaining, why, lambda file: digests.get(file.name) in holding.proven)
        if remaining:
            files = holding.contents[0]
            self._check_off(remaining, why, lambda file: digests.get(file.name) in holding.digests)
            self._check_off(remaining, why, lambda file: _is_same_database(file, files.get(file.name)))
            if holding is self.basis:
                why_lines = f"the snapshot has all its lines that are not of {holding.snapshot_id}"
                self._check_off(remaining, why_lines, lambda file: self._has_lines(file, files.get(file.name)))
        if len(remaining) < before and not holding.fresh:
            self._used.add(holding.snapshot_id)

    def _check_off(self, remaining: dict[str, Displaced], why: str, is_saved: Callable[[Displaced], bool]) -> None:
        for name in [name for name, file in remaining.items() if is_saved(file)]:
            self.why[name] = why
            del remaining[name]

    def _has_lines(self, displaced: Displaced, before: str | bytes | None) -> bool:
        """True if the restored snapshot has every line of a text, but for lines that its former version has."""
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
    """True if a database together with its log equals the saved one."""
    data = saved if isinstance(saved, bytes) else b""
    return is_database(data) and stat.S_ISREG(displaced.status.st_mode) and holds_same(*displaced.where, data)


def _digests(contents: Contents, metadata: Metadata) -> frozenset[str]:
    files = frozenset(_digest(encode_text(content)) for content in contents.values())
    return files | frozenset(map(_digest, metadata.links.values()))


def _digest(content: str | bytes) -> str:
    """The digest of a file, as in the tree of a memory; a link's differs from that of any file."""
    return sha256(content) if isinstance(content, bytes) else f"link:{content}"


# --- in use


def find_users(reach: Reach, changing: Collection[str], databases: Collection[str]) -> dict[str, str]:
    """The files in ``changing`` that are open, or whose store is, with the process; ``databases`` are among them."""
    statuses: dict[str, os.stat_result] = {}
    for path in sorted({parent for name in changing for parent in _stores_of(name)}):
        with contextlib.suppress(OSError):  # missing, or not readable for us
            prefix = f"{path}/" if path else ""
            statuses |= {prefix + name: status for name, status in reach.directory(path).entries() if is_file(status)}
    if not statuses:
        return {}
    system, found, stores = open_files(), {}, {}
    for name, status in statuses.items():
        place, user = reach.parent(name), holder_of(system, name, status)
        may_be_lock = name in changing or not status.st_size or "lock" in place[1].lower()
        if user is None and may_be_lock and not is_note(name):
            user = _lock_holder(*place, WHOLE_FILE)
        if user is not None and _is_of_store(*place):
            stores[name.rpartition("/")[0]] = user
        if user is None and name in databases:
            user = os.getpid() if is_open_elsewhere(Identity.of(status)) else None
            # The index first: an idle user of a database in WAL mode locks nothing else.
            user = user or _lock_holder(place[0], place[1] + INDEX, INDEX_LOCKS) or _lock_holder(*place, DATABASE_LOCKS)
        if user is not None and name in changing:
            found[name] = user
    for name in changing:
        store = next((path for path in _stores_of(name) if path in stores), None)
        if store is not None and not is_note(name) and (store or name not in databases):
            found.setdefault(name, stores[store])
    return {name: name_process(user) for name, user in sorted(found.items())}


def _stores_of(name: str) -> tuple[str, ...]:
    """The directories whose stores include a file: those above it; the folder itself only if directly in it."""
    return tuple(parents_of(name)) or ("",)


def _is_of_store(directory: Directory, name: str) -> bool:
    """True if an open file is one of a store's: neither text nor an SQLite database, which is complete by itself."""
    if holds_database(directory, stem_of(name)):
        return False
    try:
        with directory.file(name) as (descriptor, _):
            start = read_start(descriptor, _START)
        codecs.getincrementaldecoder("utf-8")().decode(start)  # the last character may be incomplete
    except (OSError, UnicodeDecodeError):
        return True
    return not start or b"\0" in start


def _lock_holder(directory: Directory, name: str, where: tuple[int, int]) -> int | None:
    with contextlib.suppress(OSError), directory.file(name) as (descriptor, _):
        return lock_holder(descriptor, where)
    return None
