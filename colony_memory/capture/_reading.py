"""The files that were found, read within what a snapshot may hold, or named as left out."""

from __future__ import annotations

import contextlib
import os
import time
from contextlib import ExitStack
from dataclasses import field
from itertools import groupby
from typing import TYPE_CHECKING

from colony_memory._os.names import local_name
from colony_memory._os.reach import open_below
from colony_memory._values import dataclass
from colony_memory.capture._companions import whole_of
from colony_memory.capture._contents import Contents, NotSaved, grown, read_contents, reason_of
from colony_memory.capture._patience import TookTooLong
from colony_memory.capture._rows import PART
from colony_memory.capture._steady import TRIES, TooLarge
from colony_memory.capture._walk import SECONDS, LeftOut, Note
from colony_memory.capture.git import BUNDLE_NAME, GIT_NAME, NotBundled, holds_bundle, make_bundle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from colony_memory._os.directory import Directory
    from colony_memory.capture._patience import Deadline, Patience
    from colony_memory.capture._rows import Known, Row
    from colony_memory.capture._steady import Proof
    from colony_memory.capture._walk import Entry, Tree

_BYTES_A_SECOND = 1_000_000  # what a slow disk gives at the least
_SECONDS_BETWEEN_REPORTS = 0.1
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")


@dataclass
class Found:
    """What was read so far.

    Attributes:
        tree: What is there, and what is left out of it.
        max_bytes: How many bytes a snapshot may hold.
        on_progress: Is told the files and bytes so far and a name, now and then.
        contents: What was read, by name.
        unread: What need not be read, since it is as it was when it was read before, with what was noted then.
        parts: Files that are a part of a database, by name, as they were found.
        databases: Those that were read as SQLite databases, by name.
        status: What the system says of what was read, or need not be.
        notes: What is good to know.
    """

    tree: Tree
    max_bytes: int
    on_progress: Callable[[int, int, str], None] | None = None
    contents: dict[str, str | bytes] = field(default_factory=dict)
    unread: dict[str, tuple[Entry, Row]] = field(default_factory=dict)
    parts: dict[str, os.stat_result] = field(default_factory=dict)
    databases: set[str] = field(default_factory=set)
    status: dict[str, os.stat_result] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    _parts: dict[tuple[str, str], str] = field(default_factory=dict)  # of databases, with what became of these
    _passed: dict[str, Row] = field(default_factory=dict)
    _unproven: dict[str, tuple[Entry, Proof]] = field(default_factory=dict)
    _used: int = 0
    _bytes: int = 0
    _reported: float = 0.0

    def read(self, patience: Patience, known: Known | None = None) -> None:
        """Read all files that there is room for, but for those that are known to be as they were."""
        chosen = self._choose()
        self._read_in_turn(chosen if known is None else self._pass_over(chosen, known), patience)

    def read_rest(self, patience: Patience) -> None:
        """Read what was passed over."""
        rest, self.unread = [entry for entry, _ in self.unread.values()], {}
        for entry in rest:
            self._used -= _cost_of(entry, self._passed.pop(entry.name))
        self._read_in_turn(rest, patience)

    def _pass_over(self, chosen: list[Entry], known: Known) -> list[Entry]:
        """Put aside what need not be read, and return the others."""
        there = {entry.name: entry.status for entry in chosen if entry.status is not None}
        left = []
        for entry in chosen:
            row = known.find(entry.name, there)
            if row is None:
                left.append(entry)
            elif row.digest == PART:
                self.parts[entry.name] = there[entry.name]
            else:
                self.unread[entry.name], self._passed[entry.name] = (entry, row), row
                self.status[entry.name] = there[entry.name]
                self._used += _cost_of(entry, row)
        return left

    def _read_in_turn(self, chosen: Iterable[Entry], patience: Patience) -> None:
        self._read_all(chosen, patience)
        for _ in range(TRIES - 1):
            self._read_all(self._prove(patience), patience)
        for entry in self._prove(patience):
            self._leave([entry], f"changed while it was read, {TRIES} times in a row")

    def _read_all(self, chosen: Iterable[Entry], patience: Patience) -> None:
        for (root, inside), entries in groupby(chosen, key=lambda entry: (entry.root, entry.inside)):
            with ExitStack() as stack:
                try:
                    place = patience.run(
                        lambda _: stack.enter_context(open_below(root, inside)),  # noqa: B023
                        seconds=SECONDS,
                    )
                except (OSError, TookTooLong) as error:
                    self._leave(entries, reason_of(error))
                    continue
                for entry in entries:
                    self._read_file(place, entry, patience)

    def _prove(self, patience: Patience) -> list[Entry]:
        """Take back what has not stood still since it was read, and return it."""
        changed = []
        unproven, self._unproven = self._unproven, {}
        for name, (entry, proof) in unproven.items():
            content = self._take_back(name)
            seconds = SECONDS + entry.size / _BYTES_A_SECOND
            try:
                grew = patience.run(lambda deadline: _look_again(entry, proof, deadline), seconds=seconds)  # noqa: B023
            except (OSError, TookTooLong) as error:
                self._leave([entry], reason_of(error))
                continue
            if grew is None:
                changed.append(entry)
                continue
            if grew:
                kept = grown(_as_bytes(content), self.status[name])
                content = _as_content(kept)
                self.notes.append(Note(name, kept.note))
            self._add(name, content)
        return changed

    def _take_back(self, name: str) -> str | bytes:
        content = self.contents.pop(name)
        self._used -= _cost(content)
        self._bytes -= _length(content)
        return content

    def take_repositories(self) -> None:
        """Take the git repositories, as bundles."""
        for entry in self.tree.repositories:
            path = entry.root.joinpath(*map(local_name, entry.inside), GIT_NAME)
            name = entry.name.removesuffix(GIT_NAME) + BUNDLE_NAME
            try:
                bundle = make_bundle(path, within=entry.root, limit=self.max_bytes)
                if bundle is None:
                    self.notes.append(Note(entry.name, "git repository without a commit: there is nothing to save"))
                    continue
                beside = self.contents.get(name)
                if beside is not None and not holds_bundle(path, _as_bytes(beside)):
                    raise NotBundled(f"{BUNDLE_NAME!r} beside it is another: fetch from it or rename it")
                if not self._has_room(bundle):
                    raise NotBundled(f"its bundle is {shown_size(len(bundle))}, {self._too_large}")
            except NotBundled as error:
                self._leave([entry], str(error), unread=False)
            else:
                self._add(name, bundle)

    def note_repositories(self) -> None:
        """Say that they were not asked for."""
        for entry in self.tree.repositories:
            self.notes.append(Note(entry.name, "git repository, not saved unless git is asked for"))

    def attributes(self) -> dict[str, os.stat_result]:
        """What the system says of each file that was read, and of each directory, whose name ends with ``/``."""
        files = {name: status for name, status in self.status.items() if name in self.contents or name in self.unread}
        return files | {f"{name}/": status for name, status in self.tree.directories.items()}

    def __bool__(self) -> bool:
        return bool(self.contents or self.unread)

    def finish(self) -> None:
        """Report the end."""
        if self.on_progress is not None and self:
            last = next(reversed(self.contents or self.unread))
            self.on_progress(len(self.contents) + len(self.unread), self._bytes, last)

    def _choose(self) -> list[Entry]:
        """The files that fit. Where not all do, it is the largest that are left out: what is short is read most."""
        names = {entry.name for entry in self.tree.files}
        units: dict[str, list[Entry]] = {}
        for entry in self.tree.files:
            units.setdefault(_belongs_to(entry.name, names), []).append(entry)
        total = sum(entry.size for entry in self.tree.files)
        dropped: set[str] = set()
        for unit, entries in sorted(units.items(), key=lambda each: sum(one.size for one in each[1]), reverse=True):
            if total <= self.max_bytes:
                break
            size = sum(entry.size for entry in entries)
            why = self._too_large if size > self.max_bytes else f"and all files together are {self._too_large}"
            self._leave(entries, f"{shown_size(size)}, {why}", unread=False)
            total -= size
            dropped.add(unit)
        return [entry for entry in self.tree.files if _belongs_to(entry.name, names) not in dropped]

    @property
    def _too_large(self) -> str:
        return f"more than the {shown_size(self.max_bytes)} that a snapshot may hold; exclude what is not memory"

    def _read_file(self, place: Directory, entry: Entry, patience: Patience) -> None:
        part = self._parts.get((str(place.path), entry.own))
        if part is not None:
            if part:
                self._leave([entry], part)
            elif entry.status is not None:
                self.parts[entry.name] = entry.status
            return
        limit = self.max_bytes - self._used
        seconds = SECONDS + entry.size / _BYTES_A_SECOND
        try:
            content, read = patience.run(lambda deadline: _read(place, entry.own, limit, deadline), seconds=seconds)
            self._know_parts(place, read.parts, "")
            if not self._has_room(content):
                raise TooLarge(len(content))
        except NotSaved as error:
            self._know_parts(place, error.parts, f"a part of {entry.name!r}, which is left out")
            self._leave([entry], str(error))
        except TooLarge as error:
            self._leave([entry], f"{shown_size(error.size)}, with all before it {self._too_large}", unread=False)
        except (OSError, TookTooLong) as error:
            self._leave([entry], reason_of(error))
        except MemoryError:
            self._leave([entry], f"{shown_size(entry.size)}, for which there is not enough memory", unread=False)
        else:
            if read.note:
                self.notes.append(Note(entry.name, read.note))
            self.status[entry.name] = read.status
            if read.is_database:
                self.databases.add(entry.name)
            if read.proof is not None:
                self._unproven[entry.name] = entry, read.proof
            self._add(entry.name, content)

    def _know_parts(self, place: Directory, parts: tuple[str, ...], reason: str) -> None:
        self._parts.update({(str(place.path), part): reason for part in parts})

    def _has_room(self, content: str | bytes) -> bool:
        return self._used + _cost(content) <= self.max_bytes

    def _leave(self, entries: Iterable[Entry], reason: str, *, unread: bool = True) -> None:
        self.tree.left_out += [LeftOut(entry.name, reason, unread) for entry in entries]

    def _add(self, name: str, content: str | bytes) -> None:
        self._used += _cost(content) - (_cost(self.contents[name]) if name in self.contents else 0)
        self._bytes += _length(content)
        self.contents[name] = content
        if self.on_progress is not None and time.monotonic() - self._reported >= _SECONDS_BETWEEN_REPORTS:
            self.on_progress(len(self.contents), self._bytes, name)
            self._reported = time.monotonic()


def _read(place: Directory, own: str, limit: int, deadline: Deadline) -> tuple[str | bytes, Contents]:
    """What is saved of a file, and what else is known of it."""
    read = read_contents(place, own, limit=limit, deadline=deadline)
    return _as_content(read), read


def _look_again(entry: Entry, proof: Proof, deadline: Deadline) -> bool | None:
    """Whether a file has grown since, or None where it has become another."""
    proof.wait(deadline)
    with open_below(entry.root, entry.inside) as place, place.file(entry.own) as (descriptor, _):
        if not proof.holds(descriptor, deadline):
            return None
        size = os.fstat(descriptor).st_size
        return None if size < proof.length else size > proof.length


def _as_content(contents: Contents) -> str | bytes:
    if not contents.is_database:
        with contextlib.suppress(UnicodeDecodeError):
            return contents.data.decode("utf-8")
    return bytes(contents.data)


def _as_bytes(content: str | bytes) -> bytes:
    return content if isinstance(content, bytes) else content.encode("utf-8")


def _length(content: str | bytes) -> int:
    return len(content) if isinstance(content, bytes) or content.isascii() else len(content.encode("utf-8"))


def _cost(content: str | bytes) -> int:
    """Bytes that it takes in a snapshot."""
    length = _length(content)
    return (length + 2) // 3 * 4 if isinstance(content, bytes) else length  # base64


def _cost_of(entry: Entry, row: Row) -> int:
    return entry.size if row.is_text else (entry.size + 2) // 3 * 4


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
