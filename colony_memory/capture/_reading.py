"""The files that were found: read, within the size limit of a snapshot, or named as left out."""

from __future__ import annotations

import contextlib
import threading
import time
from contextlib import ExitStack
from itertools import groupby
from typing import TYPE_CHECKING

from colony_memory._os.directory import open_below
from colony_memory._values import replace
from colony_memory.capture._filenames import JOURNAL, LOG, parents_of, stem_of
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
_BYTES_A_SECOND = 1e6  # a file has one second more for each so many of its bytes
_SECONDS_BETWEEN_REPORTS = 0.1
_LOOKS_FOR_SIZES = 20
_RESTLESS = (VANISHED, NO_FILE, CHANGED)


class Found:
    """Everything that was read so far, by name."""

    def __init__(self, walks: list[Walk | NamedFile], fixed: Tree, room: Room) -> None:
        self.walks, self.fixed, self.room = walks, fixed, room  # `fixed` is a part of each tree that is found
        self.tree = Tree()  # the latest one, with what is left out
        self.contents: dict[str, str | bytes] = {}
        # Files that are as an index has them and need not be read, with their rows
        self.unread: dict[str, tuple[Entry, Row]] = {}
        self.parts: dict[str, os.stat_result] = {}  # files that are a part of a database, as found
        self.databases: set[str] = set()
        self.status: dict[str, os.stat_result] = {}  # of the files that were read or need not be
        self.read_at: dict[str, int] = {}  # time at which a file was read, in nanoseconds since 1970
        self.fresh: set[str] = set()  # files read since this was last emptied
        self.proven: set[str] = set()  # files that were compared with the disk, as their status alone does not tell
        self.sizes: dict[str, int] = {}  # bytes to read of each growing file
        self.sets: dict[str, str] = {}  # names left out as never quiet, with the reason; directories end with a slash
        self.notes: list[Note] = []
        # By directory and name of a file: the database that it is a part of, and why that is left out, or nothing
        self._parts: dict[tuple[str, str], tuple[str, str]] = {}
        self._failed: dict[str, tuple[os.stat_result, LeftOut]] = {}
        self._measured = self._size = self._steps = 0
        self._at, self._cancelled = "", False

    def __bool__(self) -> bool:
        return bool(self.contents or self.unread)

    @property
    def all_walks(self) -> list[NamedFile | Walk]:
        """The walks, with those of followed links."""
        return [member for walk in self.walks for member in (walk, *walk.followed)]

    def within_reach(self, work: Callable[[], None], on_progress: Callable[[int, int, str], None] | None) -> None:
        """Find or read in a separate thread, the only one that a system without an answer can block for ever."""
        failed = list[BaseException]()

        def run() -> None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - raised in the waiting thread
                failed.append(error)

        thread = threading.Thread(target=run, name="colony-memory-reading", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no more threads: nothing limits the wait for an answer of the system then
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
            self._cancelled = True
            raise
        if failed:
            raise failed.pop()

    def report(self, on_progress: Callable[[int, int, str], None] | None) -> None:
        if on_progress is not None and self:
            on_progress(len(self.contents) + len(self.unread), sum(map(room_of, [*self.status.values()])), self._at)

    def _step(self, name: str, size: int = 0) -> None:
        if self._cancelled:
            raise TimeoutError  # nobody waits for this thread any more
        self._at, self._size, self._steps = name, size, self._steps + 1

    def find(self, changes: Iterable[Change] | None = None) -> None:
        """Find everything there is; given ``changes``, look again only at the directories that have some."""
        dirty: dict[NamedFile | Walk, set[tuple[str, ...]]] | None = None
        if changes is not None and not any(change.own == IGNORE_NAME for change in changes):
            dirty = {walk: set() for walk in self.all_walks}
            for change in changes:
                dirty[change.walk] |= {change.inside, (*change.inside, change.own)}
        self.tree = Tree()
        self.tree.add(self.fixed)
        for walk in self.walks:
            walk.find(self.tree, self._step, None if dirty is None else dirty[walk])
            for followed in walk.followed:
                followed.find(self.tree, self._step, None if dirty is None else dirty.get(followed))
        self.leave_sets({})

    def read(self, known: Known | None = None) -> None:
        """Read all files that there is room for, except those that are known to be unchanged."""
        chosen = self._choose()
        self._read_all(chosen if known is None else self._skip_known(chosen, known))
        # A folder that is all as in the index was so when this began: there is no moment to look for.
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
        """Read changed and torn files again, and growing ones up to their sizes at one instant."""
        self.find(changes)
        found = {entry.name: entry for entry in self.tree.files}
        self._measured = time.time_ns()
        self.sizes = _measure([found[name] for name in growing if name in found])
        chosen = self._choose()
        kept = {entry.name for entry in chosen if entry.name not in torn and self._is_unchanged(entry.name, found)}
        kept -= {name for name, size in self.sizes.items() if name in kept and size != self.status[name].st_size}
        for name in [name for name in (*self.contents, *self.unread) if name not in kept]:
            self._drop(name)
        self._parts = {key: part for key, part in self._parts.items() if part[0] in kept and not part[1]}
        self.parts = {name: status for name, status in self.parts.items() if stem_of(name) in kept}
        same = {name for name, (then, _) in self._failed.items() if name in found and is_same(then, found[name].status)}
        self._failed = {name: self._failed[name] for name in same - self.restless}
        self.tree.left_out += [why for _, why in self._failed.values()]
        kept |= self._failed.keys()
        self._read_all([entry for entry in chosen if entry.name not in kept])

    def add(self, name: str, content: str | bytes) -> None:
        """Set the content of a file."""
        self.room.charge(name, cost_of(content))
        self.contents[name] = content
        self.fresh.add(name)

    def note(self, name: str, text: str) -> None:
        self.notes.append(Note(name, text))

    # --- files that are never quiet

    def leave_sets(self, sets: Mapping[str, str]) -> None:
        """Leave out what is never quiet: files by name, and directories with all in them, by names with a slash."""
        self.sets |= sets
        if not self.sets:
            return
        tree, inside = self.tree, self.is_in_set
        for name in [name for name in (*self.contents, *self.unread) if inside(name)]:
            self._drop(name)
        self.parts = {name: status for name, status in self.parts.items() if not inside(name)}
        tree.files = [entry for entry in tree.files if not inside(entry.name)]
        tree.repositories = [name for name in tree.repositories if not inside(name)]
        tree.directories = {name: status for name, status in tree.directories.items() if not inside(f"{name}/.")}
        tree.links = {name: target for name, target in tree.links.items() if not inside(name)}
        tree.left_out = [entry for entry in tree.left_out if not inside(entry.name.rstrip("/"))]
        tree.left_out += [LeftOut(name, reason, unread=True) for name, reason in self.sets.items()]

    def is_in_set(self, name: str) -> bool:
        return name in self.sets or any(f"{parent}/" in self.sets for parent in parents_of(name))

    def is_database(self, name: str) -> bool:
        name = stem_of(name)
        return name in self.databases or (name in self.unread and self.unread[name][1].is_database)

    def is_skipped(self, name: str) -> bool:
        """True if a file is left out for a reason other than changes, so that these don't matter."""
        name = stem_of(name)
        return name in self._failed and self._failed[name][1].reason not in _RESTLESS

    @property
    def restless(self) -> set[str]:
        """Names of the files that could not be read because they changed or vanished."""
        return {name for name, (_, why) in self._failed.items() if why.reason in _RESTLESS}

    @property
    def vanished(self) -> set[str]:
        """Those of :attr:`restless` that vanished or are no files any more, each time that they are opened."""
        return {name for name in self.restless if self._failed[name][1].reason != CHANGED}

    # --- reading

    def _choose(self) -> list[Entry]:
        excess = set[str]()
        for entries, reason in self.room.too_much(self.tree.files):
            self._leave(entries, reason, unread=False)
            excess |= {entry.name for entry in entries}
        return [entry for entry in self.tree.files if entry.name not in excess]

    def _skip_known(self, chosen: list[Entry], known: Known) -> list[Entry]:
        statuses, rest = {entry.name: entry.status for entry in chosen}, []
        for entry in chosen:
            row = known.find(entry.name, statuses)
            if row is None:
                rest.append(entry)
            elif row.digest == PART:
                self.parts[entry.name] = entry.status
            else:
                self.unread[entry.name] = entry, row
                self.status[entry.name] = entry.status
                self.room.charge(entry.name, entry.size if row.is_text else encoded_size(entry.size))
        return rest

    def _is_unchanged(self, name: str, entries: Mapping[str, Entry]) -> bool:
        if not (name in self.contents or name in self.unread) or not is_same(self.status[name], entries[name].status):
            return False
        for part in (name + LOG, name + JOURNAL) if self.is_database(name) else ():
            before, now = self.parts.get(part), entries.get(part)
            if before is None or now is None:
                if (before is not None and before.st_size) or (now is not None and now.size):
                    return False
            elif not is_same(before, now.status):
                return False
        return True

    def _drop(self, name: str) -> None:
        self.room.charge(name, 0)
        for mapping in (self.contents, self.unread, self.status, self.read_at):
            mapping.pop(name, None)
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
            why = f"{shown_size(error.size)}, which together with all files before it is {self.room.exceeded}"
            self._leave([entry], why, unread=False)
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
    """The sizes of files at one instant, as far as can be seen: two looks that agree; or the last, or none."""
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
    """Read a file, or the committed state of a database: NotSaved, TooLarge, OSError."""
    with place.file(name) as (descriptor, status):
        if not is_database(read_start(descriptor, len(HEADER))):
            return read_plain(descriptor, status, limit=limit, size=size)
    from colony_memory.capture.sqlite import DatabaseDamaged, read_database

    parts = tuple(part for part in companions_of(name) if has_file(place, part))  # confirmed when they are read
    try:
        data, own = read_database(place, name, limit=limit)
    except (NotSaved, OSError) as error:
        raise NotSaved(reason_of(error), parts=parts) from error
    except DatabaseDamaged as damaged:
        # Then its companions are files like others.
        with place.file(name) as (descriptor, status):
            plain = read_plain(descriptor, status, limit=limit)
        return replace(plain, note=f"looks like an SQLite database and is saved as it is: {damaged}")
    return Contents(data, status, is_database=True, parts=own)
