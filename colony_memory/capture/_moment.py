"""One moment: everything that a snapshot holds was there at one instant.

After reading, all names and statuses are compared with those at which each file was read. What differs is read again,
and so on, until one whole look finds nothing: then all of it was there when that look began. Where a store was changed
a moment ago, its writer may be in the middle of it, between an index and its texts; so nothing counts that has not been
quiet for a while. What never is, is left out together with what is kept beside it, as one set.
"""

from __future__ import annotations

import os
import time
from dataclasses import field
from typing import TYPE_CHECKING

from colony_memory._os.directory import open_below
from colony_memory._values import dataclass
from colony_memory.capture._contents import as_bytes, as_content, up_to_last_line
from colony_memory.capture._filenames import is_note, parents_of
from colony_memory.capture._patience import TookTooLong
from colony_memory.capture._rows import is_settled
from colony_memory.capture._sparse import Sparse, read_sparse
from colony_memory.capture._steady import LARGE, still_holds
from colony_memory.capture._tree import Change, Look
from colony_memory.capture._walk import SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from colony_memory.capture._patience import Deadline, Patience
    from colony_memory.capture._reading import Found
    from colony_memory.capture._tree import Entry

ROUNDS = 10
SECONDS_IN_ALL = 20.0
QUIET = 0.1
"""Seconds for which nothing may have changed at first, and how much of them is asked for after each round."""
LESS = 0.85
SLOWEST = 2.0
"""How many times as long it is at the most where others have the processors."""
LOG_SECONDS = 1.0
"""How long a file has to do nothing but grow to be a log: one that is written anew grows too, until it is done."""
BYTES_A_SECOND = 1_000_000  # what a slow disk gives at the least
NEVER_STILL = (
    "never held still for a moment while it was read; left out as one set: save it while its program is stopped, or "
    "save a copy that the program makes"
)
APART = 0.2
"""Seconds that have to lie between the two readings of a large file, of which its status says nothing."""


@dataclass
class _Seen:
    """What one look at everything has shown.

    Attributes:
        changes: Whatever is not as it was.
        moved: Names of what is neither whole by itself nor only longer.
        torn: Of that, the files of which nothing but their bytes tells.
        grown: Names of files that hold what they held, and more.
        databases: Names of databases, and of files that are a part of one, that have changed.
        recent: What was changed a moment ago, with the time.
        gone: Of what is left out in any case, what is not there any more.
    """

    changes: list[Change] = field(default_factory=list)
    moved: set[str] = field(default_factory=set)
    torn: set[str] = field(default_factory=set)
    grown: set[str] = field(default_factory=set)
    databases: set[str] = field(default_factory=set)
    recent: dict[str, int] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)


class Moment:
    """The moment at which everything holds that was read.

    Args:
        found: What was read.
        patience: Asks the system.
    """

    def __init__(self, found: Found, patience: Patience) -> None:
        self._found, self._patience = found, patience
        self._since: dict[str, float] = {}  # when what grows was seen first
        self._by_status: set[str] = set()  # files whose changes show
        self._moved: set[str] = set()  # whatever has moved at some time
        self._passing: set[str] = set()  # of that, what came or went

    def hold(self) -> None:
        """Read again what moves, until everything has held; leave out what never does."""
        found, number, slow = self._found, 0, _slowness()
        end, earlier = time.monotonic() + SECONDS_IN_ALL, _Seen()
        while True:
            quiet = QUIET * min(1.0, LESS**number * slow)
            seen, now = self._look(quiet), time.monotonic()
            # How far each of several logs went has to be known of one instant.
            logs = {name for name in seen.grown & found.sizes.keys() if now - self._since[name] >= LOG_SECONDS}
            recent = {name: at for name, at in seen.recent.items() if name not in logs}
            waits = max((quiet - (time.time_ns() - at) / 1e9 for at in recent.values()), default=0.0)
            if not seen.moved and seen.grown <= logs and waits <= 0:
                break
            if number >= ROUNDS or now >= end:
                moved = (seen.moved | earlier.moved | (seen.grown - logs) | recent.keys()) - found.vanished
                self._give_up(moved, seen.databases | earlier.databases, {change.name for change in seen.changes})
                break
            if not seen.moved:
                waits = max(waits, *(LOG_SECONDS + self._since[name] - now for name in seen.grown - logs), 0.0)
            number += bool(seen.moved or recent)
            time.sleep(max(waits, 0.0))
            if seen.changes or seen.moved:
                self._read_again(seen)
            earlier = seen
        found.tree.left_out = [each for each in found.tree.left_out if each.name not in seen.gone]
        for name in logs & found.contents.keys():
            kept, text = up_to_last_line(as_bytes(found.contents[name]))
            found.add(name, as_content(kept))
            found.note(name, text)

    def _look(self, quiet: float) -> _Seen:
        found, look, now = self._found, Look(), time.time_ns()
        for walk in found.all_walks:
            walk.look(look, self._patience, found.status, since=now - int(quiet * 1e9))
        left = {entry.name.rstrip("/") for entry in found.tree.left_out} - found.restless
        seen = _Seen(moved=set(found.restless))
        for change in look.changes:
            name = change.name.rstrip("/")
            if found.is_in_set(name) or found.is_passed(name) or (name in left and change.is_of_no_other_kind):
                seen.gone |= {name} if change.now is None else set()
                continue
            seen.changes.append(change)
            if found.is_database(name):
                seen.databases.add(name)
            elif change.grew and self._begins_as_before(change):
                seen.grown.add(name)
                self._since.setdefault(name, time.monotonic())
            else:
                seen.moved.add(change.name)
                self._passing |= {change.name} if None in (change.before, change.now) else set()
                self._since.pop(name, None)
                self._by_status.add(name)
        changed = {change.name for change in seen.changes}
        entries = {entry.name: entry for entry in found.tree.files}
        for name in (found.contents.keys() & entries.keys()) - found.proven - changed:
            if not self._is_proven(entries[name]):
                seen.torn.add(name)
                self._by_status.discard(name)
        seen.moved |= seen.torn
        self._moved |= seen.moved
        seen.recent = {
            name: at
            for name, at in look.recent.items()
            if (name in entries or name in found.tree.links) and at <= now
            if not found.is_database(name) and not found.is_passed(name)
        }
        return seen

    def _read_again(self, seen: _Seen) -> None:
        found = self._found
        before = {name: found.contents[name] for name in self._since if name in found.contents}
        found.read_again(self._patience, seen.changes, seen.torn, self._since)
        for name, content in before.items():
            if not as_bytes(found.contents.get(name, b"")).startswith(as_bytes(content)):
                self._since.pop(name, None)

    def _begins_as_before(self, change: Change) -> bool:
        """Whether a file that has grown begins with what was read of it."""
        entry = next((each for each in self._found.tree.files if each.name == change.name), None)
        return entry is not None and entry.name in self._found.contents and self._holds(entry)

    def _is_proven(self, entry: Entry) -> bool:
        """Whether a file holds what was read of it, where its status does not tell that."""
        found, name = self._found, entry.name
        status, read_at = found.status[name], found.read_at[name]
        is_large = status.st_size >= LARGE
        if not found.is_database(name) and (is_large or not is_settled(status, read_at)):
            if is_large and name not in self._by_status:
                time.sleep(max(0.0, APART - (time.time_ns() - read_at) / 1e9))
            now = time.time_ns()
            if not self._holds(entry):
                return False
            if not is_settled(status, now):
                return True  # a change may still hide behind the same time
        found.proven.add(name)
        return True

    def _holds(self, entry: Entry) -> bool:
        data = as_bytes(self._found.contents[entry.name])

        def compare(deadline: Deadline) -> bool:
            with open_below(entry.root, entry.inside) as place, place.file(entry.own) as (descriptor, _):
                if isinstance(data, Sparse):
                    return read_sparse(descriptor, deadline=deadline) == data
                return still_holds(descriptor, data, deadline=deadline)

        try:
            return self._patience.run(compare, seconds=SECONDS + len(data) / BYTES_A_SECOND)
        except (OSError, TookTooLong):
            return False

    def _give_up(self, moved: Iterable[str], databases: Iterable[str], there: set[str]) -> None:
        """Leave out what moves with what is kept beside it.

        That is the directory that it is in, with all that is below it; and one above that, in which more has moved or
        which is named like a file, where nobody keeps notes in it. At the top of what is saved, where others keep their
        notes, it is what moved, and files whose names begin with the same word; all, where the store's come and go.
        """
        found = self._found
        tops = {"", *(walk.prefix.rstrip("/") for walk in found.all_walks)}
        with_databases = {_above(name) for name in databases} - tops
        directories, names = set[str](), set[str]()
        for name in moved:
            above = _above(name)  # of a directory, which ends with a slash, itself
            if above in tops:
                names.add(name.rstrip("/"))
                continue
            # A database that moved with what is in a directory beside it belongs to that.
            while (over := _above(above)) in with_databases:
                above = over
            directories.add(f"{self._store_over(above, tops)}/")
        words, known = {_word(name) for name in names}, [entry.name for entry in found.tree.files] + [*found.tree.links]
        passing = {(_above(name), _word(name)) for name in self._passing if not is_note(name)}
        stores = {
            _above(name) for name in names if any(top == _above(name) and word != _word(name) for top, word in passing)
        }
        left = {name for name in known if _above(name) in tops and _word(name) in words}
        left |= {n for n in known if _above(n) in stores and not is_note(n) and not found.is_database(n)}
        left |= names & (there | {*known}) | directories
        found.leave_sets(
            {
                name: NEVER_STILL
                for name in left
                if not any(f"{over}/" in directories for over in parents_of(name.rstrip("/")))
            }
        )

    def _store_over(self, directory: str, tops: set[str]) -> str:
        """The outermost directory that is of the same store as one in it that moves."""
        store, above = directory, {_above(name) for name in self._moved} - tops
        for over in sorted(parents_of(directory), key=len, reverse=True):
            if over in tops or any(
                is_note(each.name) for each in self._found.tree.files if each.name.startswith(f"{over}/")
            ):
                break
            more = any(each.startswith(f"{over}/") and f"{each}/".find(f"{store}/") for each in above)
            if more or "." in over.rpartition("/")[2].lstrip("."):
                store = over
        return store


def _slowness() -> float:
    """How much longer than usual a writer may stand still in the middle, as others have the processors."""
    try:
        return min(max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)), SLOWEST)
    except (AttributeError, OSError):  # no such figure here
        return 1.0


def _above(name: str) -> str:
    return name.rpartition("/")[0]


def _word(name: str) -> str:
    """What a name at the top begins with: that of a database, its log and what else a store writes beside it."""
    above, _, own = name.rpartition("/")
    return f"{above}/{own.lstrip('.').partition('.')[0]}"
