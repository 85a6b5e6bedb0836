"""The files that were found, read within what a snapshot may hold, or named as left out."""

from __future__ import annotations

import time
from contextlib import ExitStack
from itertools import groupby
from typing import TYPE_CHECKING

from colony_memory._os.directory import open_below
from colony_memory._os.paths import UnfitFile, local_name
from colony_memory._values import dataclass, field
from colony_memory.capture._contents import (
    Contents,
    NeverStill,
    NotSaved,
    as_bytes,
    as_content,
    read_contents,
    reason_of,
)
from colony_memory.capture._filenames import parents_of
from colony_memory.capture._ignore import IGNORE_NAME
from colony_memory.capture._moment import BYTES_A_SECOND, Moment
from colony_memory.capture._rows import PART
from colony_memory.capture._steady import JOURNAL, LOG, TookTooLong, TooLarge, whole_of
from colony_memory.capture._tree import LeftOut, Note, Tree, cost_of, encoded_size, is_same, length_of, shown_size
from colony_memory.capture._walk import SECONDS
from colony_memory.capture.git import BUNDLE_NAME, GIT_NAME, NotBundled, holds_bundle, make_bundle

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping

    from colony_memory._os.directory import Directory
    from colony_memory.capture._rows import Known, Row
    from colony_memory.capture._steady import Deadline, Patience
    from colony_memory.capture._tree import Change, Entry, Room
    from colony_memory.capture._walk import NamedFile, Walk

_SECONDS_BETWEEN_REPORTS = 0.1
_LOOKS_FOR_SIZES = 20


@dataclass(frozen=True)
class _Failed:
    """Why a file could not be read; ``moves`` where that may be otherwise a moment later."""

    status: os.stat_result
    left_out: LeftOut
    moves: bool
    is_there: bool = True


@dataclass(frozen=True)
class _Part:
    """What became of a part of a database: empty where the database has it."""

    of: str
    reason: str


@dataclass
class Found:
    """What was read so far.

    Attributes:
        walks: What finds it.
        fixed: What is known of it whatever is found.
        room: How many bytes a snapshot may hold.
        on_progress: Is told the files and bytes so far and a name, now and then.
        tree: What is there, and what is left out of it.
        contents: What was read, by name.
        unread: What need not be read, since it is as it was when it was read before, with what was noted then.
        parts: Files that are a part of a database, by name, as they were found.
        databases: Those that were read as SQLite databases, by name.
        status: What the system says of what was read, or need not be.
        read_at: When a file was read, in nanoseconds since 1970.
        fresh: Names of what was read since somebody emptied this.
        proven: Names of what was read and found to be the same a second time, where its status alone does not tell.
        sizes: How much of a file that grows is to be read.
        notes: What is good to know.
        sets: What is left out since it moves all the time, with the reason; a directory ends with a slash.
    """

    walks: list[Walk | NamedFile]
    fixed: Tree
    room: Room
    on_progress: Callable[[int, int, str], None] | None = None
    tree: Tree = field(default_factory=Tree)
    contents: dict[str, str | bytes] = field(default_factory=dict)
    unread: dict[str, tuple[Entry, Row]] = field(default_factory=dict)
    parts: dict[str, os.stat_result] = field(default_factory=dict)
    databases: set[str] = field(default_factory=set)
    status: dict[str, os.stat_result] = field(default_factory=dict)
    read_at: dict[str, int] = field(default_factory=dict)
    fresh: set[str] = field(default_factory=set)
    proven: set[str] = field(default_factory=set)
    sizes: dict[str, int] = field(default_factory=dict)
    sets: dict[str, str] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    _parts: dict[tuple[str, str], _Part] = field(default_factory=dict)
    _failed: dict[str, _Failed] = field(default_factory=dict)
    _bundles: set[str] = field(default_factory=set)
    _reported: float = 0.0
    _measured: int = 0

    def find(self, patience: Patience, changes: Iterable[Change] | None = None) -> None:
        """Find what is there; with ``changes``, where there have been some."""
        moved: dict[NamedFile | Walk, set[tuple[str, ...]]] | None = None
        if changes is not None and not any(change.own == IGNORE_NAME for change in changes):
            moved = {walk: set() for walk in self.all_walks}
            for change in changes:
                moved[change.walk] |= {change.inside, (*change.inside, change.own)}
        self.tree = Tree()
        self.tree.add(self.fixed)
        for walk in self.walks:
            walk.find(self.tree, patience, None if moved is None else moved[walk])
            for led in walk.followed:
                led.find(self.tree, patience, None if moved is None else moved.get(led))
        self._leave_sets()

    @property
    def all_walks(self) -> list[NamedFile | Walk]:
        """What finds it, where links lead to included."""
        return [each for walk in self.walks for each in (walk, *walk.followed)]

    def read(self, patience: Patience, known: Known | None = None) -> None:
        """Read all files that there is room for, but for those that are known to be as they were."""
        chosen = self._choose()
        self._read_all(chosen if known is None else self._pass_over(chosen, known), patience)
        # What is all as it was noted was so when the first look at it began.
        kept = set() if known is None else {name for name, row in known.rows.items() if row.digest != PART}
        if self.contents or not kept <= self.unread.keys():
            Moment(self, patience).hold()

    def read_rest(self, patience: Patience) -> None:
        """Read what was passed over."""
        rest, self.unread = [entry for entry, _ in self.unread.values()], {}
        for entry in rest:
            self.room.charge(entry.name, 0)
        self._read_all(rest, patience)
        Moment(self, patience).hold()

    def read_again(self, patience: Patience, changes: list[Change], torn: set[str], growing: Iterable[str]) -> None:
        """Read what is not as it was when it was read.

        Args:
            patience: Asks the system.
            changes: What is not as it was.
            torn: Names of files that hold something else although nothing shows.
            growing: Names of files that grow: they are read as far as all of them go at one instant.
        """
        self.find(patience, changes)
        there = {entry.name: entry for entry in self.tree.files}
        self._measured = time.time_ns()
        self.sizes = _measure([there[name] for name in growing if name in there], patience)
        chosen = self._choose()
        held = {entry.name for entry in chosen if entry.name not in torn and self._is_held(entry.name, there)}
        held -= {name for name, size in self.sizes.items() if name in held and size != self.status[name].st_size}
        held |= self._bundles
        for name in [name for name in (*self.contents, *self.unread) if name not in held]:
            self._drop(name)
        self._parts = {key: part for key, part in self._parts.items() if part.of in held and not part.reason}
        self.parts = {name: status for name, status in self.parts.items() if whole_of(name) in held}
        failed, self._failed = self._failed, {}
        there |= {entry.name: entry for entry in self.tree.repositories}
        for name, why in failed.items():
            if name in there and not why.moves and is_same(why.status, there[name].status):
                self.tree.left_out.append(why.left_out)
                self._failed[name] = why
                held.add(name)
        self._read_all([entry for entry in chosen if entry.name not in held], patience)

    def leave_sets(self, sets: Mapping[str, str]) -> None:
        """Leave out what moves all the time: files by their names, and directories whose names end with a slash."""
        self.sets |= sets
        self._leave_sets()
        for name in [name for name in (*self.contents, *self.unread) if self.is_in_set(name)]:
            self._drop(name)
        self.parts = {name: status for name, status in self.parts.items() if not self.is_in_set(name)}

    def is_in_set(self, name: str) -> bool:
        """Whether something is left out since it moves all the time."""
        return name in self.sets or any(f"{parent}/" in self.sets for parent in parents_of(name))

    def is_database(self, name: str) -> bool:
        """Whether it is an SQLite database, or the log or journal of one."""
        name = whole_of(name)
        return name in self.databases or (name in self.unread and self.unread[name][1].is_database)

    def is_passed(self, name: str) -> bool:
        """Whether a file is left out for what it is, so that its content does not matter."""
        failed = self._failed.get(whole_of(name))
        return failed is not None and not failed.moves

    @property
    def restless(self) -> set[str]:
        """Names of files that could not be read since they changed, or went."""
        return {name for name, failed in self._failed.items() if failed.moves}

    @property
    def vanished(self) -> set[str]:
        """Of these, those that went, or are no files any more, whenever they are opened."""
        return {name for name in self.restless if not self._failed[name].is_there}

    def note(self, name: str, text: str) -> None:
        """Add to it."""
        self.notes.append(Note(name, text))

    def _leave_sets(self) -> None:
        if not self.sets:
            return
        tree, inside = self.tree, self.is_in_set
        tree.files = [entry for entry in tree.files if not inside(entry.name)]
        tree.repositories = [entry for entry in tree.repositories if not inside(entry.name)]
        tree.directories = {name: each for name, each in tree.directories.items() if not inside(f"{name}/.")}
        tree.links = {name: target for name, target in tree.links.items() if not inside(name)}
        tree.left_out = [entry for entry in tree.left_out if not inside(entry.name.rstrip("/"))]
        tree.left_out += [LeftOut(name, reason, unread=True) for name, reason in self.sets.items()]

    def _pass_over(self, chosen: list[Entry], known: Known) -> list[Entry]:
        """Put aside what need not be read, and return the others."""
        there = {entry.name: entry.status for entry in chosen}
        left = []
        for entry in chosen:
            row = known.find(entry.name, there)
            if row is None:
                left.append(entry)
            elif row.digest == PART:
                self.parts[entry.name] = entry.status
            else:
                self.unread[entry.name] = entry, row
                self.status[entry.name] = entry.status
                self.room.charge(entry.name, entry.size if row.is_text else encoded_size(entry.size))
        return left

    def _is_held(self, name: str, there: Mapping[str, Entry]) -> bool:
        """Whether what was read of a file is what it has now."""
        if not (name in self.contents or name in self.unread) or not is_same(self.status[name], there[name].status):
            return False
        return not self.is_database(name) or all(
            self._is_same_part(self.parts.get(part), there.get(part)) for part in (name + LOG, name + JOURNAL)
        )

    @staticmethod
    def _is_same_part(before: os.stat_result | None, now: Entry | None) -> bool:
        if before is None or now is None:
            return (before is None or before.st_size == 0) and (now is None or now.size == 0)
        return is_same(before, now.status)

    def _drop(self, name: str) -> None:
        self.room.charge(name, 0)
        for each in (self.contents, self.unread, self.status, self.read_at):
            each.pop(name, None)
        for names in (self.databases, self.proven, self.fresh):
            names.discard(name)
        self.notes = [note for note in self.notes if note.name != name]

    def _read_all(self, chosen: Iterable[Entry], patience: Patience) -> None:
        for (root, inside), entries in groupby(chosen, key=lambda entry: (entry.root, entry.inside)):
            with ExitStack() as stack:
                try:
                    place = patience.run(
                        lambda _: stack.enter_context(open_below(root, inside)),  # noqa: B023
                        seconds=SECONDS,
                    )
                except (OSError, TookTooLong) as error:
                    self._fail(entries, error)
                    continue
                for entry in entries:
                    self._read_file(place, entry, patience)

    def take_repositories(self) -> None:
        """Take the git repositories, as bundles."""
        for entry in self.tree.repositories:
            path = entry.root.joinpath(*map(local_name, entry.inside), GIT_NAME)
            name = entry.name.removesuffix(GIT_NAME) + BUNDLE_NAME
            try:
                bundle = make_bundle(path, within=entry.root, limit=self.room.size)
                if bundle is None:
                    self.note(entry.name, "git repository without a commit: there is nothing to save")
                    continue
                beside = self.contents.get(name)
                if beside is not None and not holds_bundle(path, as_bytes(beside)):
                    raise NotBundled(f"{BUNDLE_NAME!r} beside it is another: fetch from it or rename it")
                if not self.room.has(encoded_size(len(bundle))):
                    raise NotBundled(f"its bundle is {shown_size(len(bundle))}, {self.room.exceeded}")
            except NotBundled as error:
                self._leave([entry], str(error), unread=False)
            else:
                self.add(name, bundle)
                self._bundles.add(name)

    def note_repositories(self) -> None:
        """Say that they were not asked for."""
        for entry in self.tree.repositories:
            self.note(entry.name, "git repository, not saved unless git is asked for")

    def __bool__(self) -> bool:
        return bool(self.contents or self.unread)

    def finish(self) -> None:
        """Report the end."""
        if self.on_progress is not None and self:
            last = next(reversed(self.contents or self.unread))
            self.on_progress(len(self.contents) + len(self.unread), self._length, last)

    def _choose(self) -> list[Entry]:
        chosen, left = self.room.choose(self.tree.files)
        for entries, reason in left:
            self._leave(entries, reason, unread=False)
        return chosen

    def _read_file(self, place: Directory, entry: Entry, patience: Patience) -> None:
        part = self._parts.get((str(place.path), entry.own))
        if part is not None:
            if part.reason:
                self._leave([entry], part.reason)
            else:
                self.parts[entry.name] = entry.status
            return
        limit, size = self.room.size - self.room.used, self.sizes.get(entry.name)
        seconds = SECONDS + entry.size / BYTES_A_SECOND
        self.read_at[entry.name] = time.time_ns() if size is None else self._measured
        try:
            content, read = patience.run(
                lambda deadline: _read(place, entry.own, limit, deadline, size), seconds=seconds
            )
            self._know_parts(place, entry, read.parts, "")
            if not self.room.has(cost_of(content)):
                raise TooLarge(len(content))
        except NotSaved as error:
            self._know_parts(place, entry, error.parts, f"a part of {entry.name!r}, which is left out")
            self._fail([entry], error)
        except TooLarge as error:
            self._leave([entry], f"{shown_size(error.size)}, with all before it {self.room.exceeded}", unread=False)
        except (OSError, TookTooLong) as error:
            self._fail([entry], error)
        except MemoryError:
            self._leave([entry], f"{shown_size(entry.size)}, for which there is not enough memory", unread=False)
        else:
            if read.note:
                self.note(entry.name, read.note)
            self.status[entry.name] = read.status
            if read.is_database:
                self.databases.add(entry.name)
            self.add(entry.name, content)

    def _know_parts(self, place: Directory, entry: Entry, parts: tuple[str, ...], reason: str) -> None:
        self._parts.update({(str(place.path), part): _Part(entry.name, reason) for part in parts})

    @property
    def _length(self) -> int:
        return sum(map(length_of, self.contents.values()))

    def _fail(self, entries: Iterable[Entry], error: Exception) -> None:
        gone = isinstance(error, (FileNotFoundError, UnfitFile))
        reason = str(error) if isinstance(error, NotSaved) else reason_of(error)
        self._leave(entries, reason, moves=gone or isinstance(error, NeverStill), is_there=not gone)

    def _leave(
        self, entries: Iterable[Entry], reason: str, *, unread: bool = True, moves: bool = False, is_there: bool = True
    ) -> None:
        for entry in entries:
            self.tree.left_out.append(LeftOut(entry.name, reason, unread))
            self._failed[entry.name] = _Failed(entry.status, self.tree.left_out[-1], moves, is_there)

    def add(self, name: str, content: str | bytes) -> None:
        """Let a file that was read be this."""
        self.room.charge(name, cost_of(content))
        self.contents[name] = content
        self.fresh.add(name)
        if self.on_progress is not None and time.monotonic() - self._reported >= _SECONDS_BETWEEN_REPORTS:
            self.on_progress(len(self.contents), self._length, name)
            self._reported = time.monotonic()


def _read(place: Directory, own: str, limit: int, deadline: Deadline, size: int | None) -> tuple[str | bytes, Contents]:
    """What is saved of a file, and what else is known of it."""
    read = read_contents(place, own, limit=limit, deadline=deadline, size=size)
    return bytes(read.data) if read.is_database else as_content(read.data), read


def _measure(entries: list[Entry], patience: Patience) -> dict[str, int]:
    """The sizes that files have at one instant, as far as that can be seen: two looks, with nothing in between."""

    def look(_: Deadline) -> dict[str, int]:
        found = dict[str, int]()
        with ExitStack() as stack:
            places = {where: stack.enter_context(open_below(*where)) for where in {(e.root, e.inside) for e in entries}}
            for _try in range(_LOOKS_FOR_SIZES):
                before, found = found, {}
                for entry in entries:
                    status = places[entry.root, entry.inside].look(entry.own)
                    if status is not None:
                        found[entry.name] = status.st_size
                if found == before:
                    break
        return found

    try:
        return patience.run(look, seconds=SECONDS) if entries else {}
    except (OSError, TookTooLong):
        return {}
