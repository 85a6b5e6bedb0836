"""The files that were found, read within what a snapshot may hold, or named as left out."""

from __future__ import annotations

import contextlib
import threading
import time
from contextlib import ExitStack
from itertools import groupby
from typing import TYPE_CHECKING

from colony_memory._os.directory import open_below
from colony_memory._values import replace
from colony_memory.capture._filenames import JOURNAL, LOG, parents_of, whole_of
from colony_memory.capture._ignore import IGNORE_NAME
from colony_memory.capture._moment import Moment
from colony_memory.capture._steady import (
    CHANGED,
    HEADER,
    NO_FILE,
    VANISHED,
    Contents,
    NotSaved,
    TooLarge,
    as_content,
    companions_of,
    has_file,
    is_database,
    read_plain,
    read_start,
    reason_of,
    room_of,
)
from colony_memory.capture._tree import PART, LeftOut, Note, Tree, cost_of, encoded_size, is_same, shown_size
from colony_memory.exceptions import ColonyMemoryError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping

    from colony_memory._os.directory import Directory
    from colony_memory.capture._tree import Change, Entry, Known, Room, Row
    from colony_memory.capture._walk import NamedFile, Walk

SECONDS = 300.0
"""How long the system has to answer for a file or a directory."""
_BYTES_A_SECOND = 1e6  # of a large file, for which it is waited longer
_SECONDS_BETWEEN_REPORTS = 0.1
_LOOKS_FOR_SIZES = 20
_RESTLESS = (VANISHED, NO_FILE, CHANGED)


class Found:
    """Everything that was read so far, by name."""

    def __init__(self, walks: list[Walk | NamedFile], fixed: Tree, room: Room) -> None:
        self.walks, self.fixed, self.room = walks, fixed, room  # `fixed` is known whatever is found
        self.tree = Tree()  # what is there, and what is left out of it
        self.contents: dict[str, str | bytes] = {}
        # What need not be read, since it is as it was when it was read before, with what was noted then
        self.unread: dict[str, tuple[Entry, Row]] = {}
        self.parts: dict[str, os.stat_result] = {}  # files that are a part of a database, as found
        self.databases: set[str] = set()
        self.status: dict[str, os.stat_result] = {}  # of what was read, or need not be
        self.read_at: dict[str, int] = {}  # when a file was read, in nanoseconds since 1970
        self.fresh: set[str] = set()  # what was read since somebody emptied this
        self.proven: set[str] = set()  # read a second time and the same, where the status alone does not tell
        self.sizes: dict[str, int] = {}  # how much of a file that grows is to be read
        self.sets: dict[str, str] = {}  # left out as it moves all the time, with the reason; directories with a slash
        self.notes: list[Note] = []
        # By directory and name, what is a part of which database, and why that is left out, or nothing
        self._parts: dict[tuple[str, str], tuple[str, str]] = {}
        self._failed: dict[str, tuple[os.stat_result, LeftOut]] = {}
        self._measured = self._size = self._steps = 0
        self._at, self._called_off = "", False

    def __bool__(self) -> bool:
        return bool(self.contents or self.unread)

    @property
    def all_walks(self) -> list[NamedFile | Walk]:
        """The walks, with those of followed links."""
        return [each for walk in self.walks for each in (walk, *walk.followed)]

    def within_reach(self, work: Callable[[], None], on_progress: Callable[[int, int, str], None] | None) -> None:
        """Find or read in a thread of its own: a system that does not answer may hold that for ever, and no other."""
        failed = list[BaseException]()

        def run() -> None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - raised where the answer is waited for
                failed.append(error)

        thread = threading.Thread(target=run, name="colony-memory-reading", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # there are no more threads: nothing ends what the system does not answer for then
            work()
            return
        steps, since = 0, time.monotonic()
        try:
            while thread.is_alive():
                thread.join(_SECONDS_BETWEEN_REPORTS)
                if self._steps != steps:
                    steps, since = self._steps, time.monotonic()
                    self.report(on_progress)
                elif time.monotonic() - since > (seconds := SECONDS + self._size / _BYTES_A_SECOND):
                    where = self._at or "the folder"
                    raise ColonyMemoryError(f"{where!r}: the system has not answered for {seconds:.0f} seconds")
        except BaseException:
            self._called_off = True
            raise
        if failed:
            raise failed.pop()

    def report(self, on_progress: Callable[[int, int, str], None] | None) -> None:
        if on_progress is not None and self:
            on_progress(len(self.contents) + len(self.unread), sum(map(room_of, [*self.status.values()])), self._at)

    def _step(self, name: str, size: int = 0) -> None:
        if self._called_off:
            raise TimeoutError  # which nobody waits for any more
        self._at, self._size, self._steps = name, size, self._steps + 1

    def find(self, changes: Iterable[Change] | None = None) -> None:
        """Find what is there; with ``changes``, where there have been some."""
        moved: dict[NamedFile | Walk, set[tuple[str, ...]]] | None = None
        if changes is not None and not any(change.own == IGNORE_NAME for change in changes):
            moved = {walk: set() for walk in self.all_walks}
            for change in changes:
                moved[change.walk] |= {change.inside, (*change.inside, change.own)}
        self.tree = Tree()
        self.tree.add(self.fixed)
        for walk in self.walks:
            walk.find(self.tree, self._step, None if moved is None else moved[walk])
            for led in walk.followed:
                led.find(self.tree, self._step, None if moved is None else moved.get(led))
        self.leave_sets({})

    def read(self, known: Known | None = None) -> None:
        """Read all files that there is room for, but for those that are known to be as they were."""
        chosen = self._choose()
        self._read_all(chosen if known is None else self._pass_over(chosen, known))
        # What is all as it was noted was so when the first look at it began.
        kept = set() if known is None else {name for name, row in known.rows.items() if row.digest != PART}
        if self.contents or not kept <= self.unread.keys():
            Moment(self).hold()

    def read_rest(self) -> None:
        rest, self.unread = [entry for entry, _ in self.unread.values()], {}
        for entry in rest:
            self.room.charge(entry.name, 0)
        self._read_all(rest)
        Moment(self).hold()

    def read_again(self, changes: list[Change], torn: set[str], growing: Iterable[str]) -> None:
        """Read what has changed, seen or not; what grows, as far as all of it goes at one instant."""
        self.find(changes)
        there = {entry.name: entry for entry in self.tree.files}
        self._measured = time.time_ns()
        self.sizes = _measure([there[name] for name in growing if name in there])
        chosen = self._choose()
        held = {entry.name for entry in chosen if entry.name not in torn and self._is_held(entry.name, there)}
        held -= {name for name, size in self.sizes.items() if name in held and size != self.status[name].st_size}
        for name in [name for name in (*self.contents, *self.unread) if name not in held]:
            self._drop(name)
        self._parts = {key: part for key, part in self._parts.items() if part[0] in held and not part[1]}
        self.parts = {name: status for name, status in self.parts.items() if whole_of(name) in held}
        same = {name for name, (then, _) in self._failed.items() if name in there and is_same(then, there[name].status)}
        self._failed = {name: self._failed[name] for name in same - self.restless}
        self.tree.left_out += [why for _, why in self._failed.values()]
        held |= self._failed.keys()
        self._read_all([entry for entry in chosen if entry.name not in held])

    def add(self, name: str, content: str | bytes) -> None:
        """Let a file that was read be this."""
        self.room.charge(name, cost_of(content))
        self.contents[name] = content
        self.fresh.add(name)

    def note(self, name: str, text: str) -> None:
        self.notes.append(Note(name, text))

    # --- what moves

    def leave_sets(self, sets: Mapping[str, str]) -> None:
        """Leave out what moves all the time: files by their names, and directories whose names end with a slash."""
        self.sets |= sets
        if not self.sets:
            return
        tree, inside = self.tree, self.is_in_set
        for name in [name for name in (*self.contents, *self.unread) if inside(name)]:
            self._drop(name)
        self.parts = {name: status for name, status in self.parts.items() if not inside(name)}
        tree.files = [entry for entry in tree.files if not inside(entry.name)]
        tree.repositories = [name for name in tree.repositories if not inside(name)]
        tree.directories = {name: each for name, each in tree.directories.items() if not inside(f"{name}/.")}
        tree.links = {name: target for name, target in tree.links.items() if not inside(name)}
        tree.left_out = [entry for entry in tree.left_out if not inside(entry.name.rstrip("/"))]
        tree.left_out += [LeftOut(name, reason, unread=True) for name, reason in self.sets.items()]

    def is_in_set(self, name: str) -> bool:
        return name in self.sets or any(f"{parent}/" in self.sets for parent in parents_of(name))

    def is_database(self, name: str) -> bool:
        name = whole_of(name)
        return name in self.databases or (name in self.unread and self.unread[name][1].is_database)

    def is_passed(self, name: str) -> bool:
        """A file is left out for what it is, so that its content does not matter."""
        name = whole_of(name)
        return name in self._failed and self._failed[name][1].reason not in _RESTLESS

    @property
    def restless(self) -> set[str]:
        """Names of files that could not be read since they changed, or went."""
        return {name for name, (_, why) in self._failed.items() if why.reason in _RESTLESS}

    @property
    def vanished(self) -> set[str]:
        """Of these, those that went, or are no files any more, whenever they are opened."""
        return {name for name in self.restless if self._failed[name][1].reason != CHANGED}

    # --- reading

    def _choose(self) -> list[Entry]:
        left = set[str]()
        for entries, reason in self.room.too_much(self.tree.files):
            self._leave(entries, reason, unread=False)
            left |= {entry.name for entry in entries}
        return [entry for entry in self.tree.files if entry.name not in left]

    def _pass_over(self, chosen: list[Entry], known: Known) -> list[Entry]:
        there, left = {entry.name: entry.status for entry in chosen}, []
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
        if not (name in self.contents or name in self.unread) or not is_same(self.status[name], there[name].status):
            return False
        for part in (name + LOG, name + JOURNAL) if self.is_database(name) else ():
            before, now = self.parts.get(part), there.get(part)
            if before is None or now is None:
                if (before is not None and before.st_size) or (now is not None and now.size):
                    return False
            elif not is_same(before, now.status):
                return False
        return True

    def _drop(self, name: str) -> None:
        self.room.charge(name, 0)
        for each in (self.contents, self.unread, self.status, self.read_at):
            each.pop(name, None)
        for names in (self.databases, self.proven, self.fresh):
            names.discard(name)
        self.notes = [note for note in self.notes if note.name != name]

    def _read_all(self, chosen: Iterable[Entry]) -> None:
        for (root, inside), entries in groupby(chosen, key=lambda entry: (entry.root, entry.inside)):
            with ExitStack() as stack:
                try:
                    place = stack.enter_context(open_below(root, inside))
                except OSError as error:
                    self._leave(entries, reason_of(error))
                    continue
                for entry in entries:
                    self._step(entry.name, min(entry.size, self.room.size))
                    self._read_file(place, entry)

    def _read_file(self, place: Directory, entry: Entry) -> None:
        if (str(place.path), entry.own) in self._parts:
            if why := self._parts[str(place.path), entry.own][1]:
                self._leave([entry], why)
            else:
                self.parts[entry.name] = entry.status
            return
        limit, size = self.room.size - self.room.used, self.sizes.get(entry.name)
        self.read_at[entry.name] = time.time_ns() if size is None else self._measured
        parts, why = tuple[str, ...](), ""
        try:
            read = read_contents(place, entry.own, limit=limit, size=size)
            parts, content = read.parts, bytes(read.data) if read.is_database else as_content(read.data)
            if not self.room.has(cost_of(content)):
                raise TooLarge(len(content))
        except (NotSaved, OSError) as error:
            parts, why = getattr(error, "parts", ()), f"a part of {entry.name!r}, which is left out"
            self._leave([entry], reason_of(error))
        except TooLarge as error:
            self._leave([entry], f"{shown_size(error.size)}, with all before it {self.room.exceeded}", unread=False)
        except MemoryError:
            self._leave([entry], f"{shown_size(entry.size)}, for which there is not enough memory", unread=False)
        else:
            if read.note:
                self.note(entry.name, read.note)
            self.status[entry.name] = read.status
            if read.is_database:
                self.databases.add(entry.name)
            self.add(entry.name, content)
        self._parts |= {(str(place.path), part): (entry.name, why) for part in parts}

    def _leave(self, entries: Iterable[Entry], reason: str, *, unread: bool = True) -> None:
        for entry in entries:
            self.tree.left_out.append(LeftOut(entry.name, reason, unread))
            self._failed[entry.name] = entry.status, self.tree.left_out[-1]


def _measure(entries: list[Entry]) -> dict[str, int]:
    """The sizes that files have at one instant, as far as that can be seen: two looks, with nothing in between."""
    found = dict[str, int]()
    with contextlib.suppress(OSError), ExitStack() as stack:
        places = {where: stack.enter_context(open_below(*where)) for where in {(e.root, e.inside) for e in entries}}
        for _ in range(_LOOKS_FOR_SIZES if entries else 0):
            looks = {entry.name: places[entry.root, entry.inside].look(entry.own) for entry in entries}
            before, found = found, {name: status.st_size for name, status in looks.items() if status is not None}
            if found == before:
                break
        return found
    return {}


def read_contents(place: Directory, name: str, *, limit: int, size: int | None = None) -> Contents:
    """Read a file, or all that the committed transactions of a database give: NotSaved, TooLarge, OSError."""
    with place.file(name) as (descriptor, status):
        if not is_database(read_start(descriptor, len(HEADER))):
            return read_plain(descriptor, status, limit=limit, size=size)
    from colony_memory.capture.sqlite import DatabaseDamaged, read_database

    parts = tuple(each for each in companions_of(name) if has_file(place, each))  # what they are shows when read
    try:
        data, own = read_database(place, name, limit=limit)
    except (NotSaved, OSError) as error:
        raise NotSaved(reason_of(error), parts=parts) from error
    except DatabaseDamaged as damaged:
        # Then the files beside it are files like others.
        with place.file(name) as (descriptor, status):
            plain = read_plain(descriptor, status, limit=limit)
        return replace(plain, note=f"looks like an SQLite database and is saved as it is: {damaged}")
    return Contents(data, status, is_database=True, parts=own)
