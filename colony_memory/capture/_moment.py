"""One moment: everything that a snapshot holds was there at one instant.

What differs from when it was read is watched, read again, and compared alone, at once; all else has to be the same
before and after that. Nothing counts that has not been quiet for a while, or half of its writer's pause: a store may
be in the middle of a change. What never is quiet is left out as one set.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections import Counter, deque
from pathlib import Path
from typing import TYPE_CHECKING

from colony_memory._os.directory import open_below
from colony_memory._os.paths import is_file
from colony_memory.capture._filenames import is_note, parents_of, whole_of
from colony_memory.capture._steady import LARGE, Sparse, as_bytes, as_content, read_sparse, still_holds, up_to_last_line
from colony_memory.capture._tree import Look, changed_at, is_same, is_settled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from colony_memory.capture._reading import Found
    from colony_memory.capture._tree import Change, Entry, Place

SECONDS_IN_ALL = 10.0  # a host that waits for a backup waits 20
# Seconds for which nothing may have changed, unless the store makes shorter pauses by a rule; and within which that
# rule has to show: then it is looked for a longer pause, now and then.
QUIET, LEARNING = 0.1, 3.0
SHORTEST, PAUSES = 0.003, 16  # the shortest pause in seconds, and how many make a rule
# Seconds that a file has to do nothing but grow to be a log: one that is written anew grows too, until it is done.
LOG_SECONDS = 1.0
STEP = 10_000_000  # nanoseconds of a kernel's tick: by so much a change may be later than its time
# Seconds between the two readings of a large file, of which its status says nothing; and how often it is tried where
# nothing but the bytes tells that it moves: no time says when its writer pauses.
APART, TRIES = 0.2, 4
NEVER_STILL = (
    "never held still for a moment while it was read; left out as one set: save it while its program is stopped, or "
    "save a copy that the program makes"
)


class Rhythm:
    """The pauses that a store makes: those after the same file time and again, where all others are far shorter."""

    def __init__(self) -> None:
        self.newest = 0  # when something changed last, as far as has been seen, in nanoseconds since 1970
        self._last: set[str] = set()
        self._told: dict[str, os.stat_result] = {}
        self._told_at = 0
        self._moves = False
        self._states: deque[tuple[int, frozenset[str], float]] = deque(maxlen=64)

    def tell(self, statuses: dict[str, os.stat_result], now: int, *, changed: bool = False) -> None:
        """Note what the system says of all files now; ``changed`` where the first time shows a change already."""
        if different := _different(statuses, self._told):
            at = max(map(changed_at, statuses.values()), default=0)
            if at > self.newest:
                different = {name for name, status in statuses.items() if changed_at(status) == at}
            # The system cuts a file first, and notes the time of that afterwards.
            self.newest, self._last = at if at > self.newest else self._told_at, different
        if not self._told_at and changed:
            self.newest, self._moves = now, True
        self._told, self._told_at = statuses, now
        if self._states and self._states[-1][0] == self.newest:
            self._states.pop()
        kinds = frozenset(re.sub(r"[0-9a-f]{8,}|[0-9]+", "#", name) for name in self._last)
        self._states.append((self.newest, kinds, (now - self.newest) / 1e9))

    def quiet(self) -> float:
        """Seconds after which the writer is done, by what has changed last."""
        *ended, (_, last, _) = self._states
        if not (ended or self._moves):
            return QUIET
        load = _load()  # it may be held up anywhere, where there is more to do than there are processors
        long = QUIET * min(max(load, 1.0), 10.0)
        if len(ended) < PAUSES:
            return long
        lengths = sorted(length for _, _, length in ended)
        usual = lengths[-3]  # one or two may be longer by chance
        pauses = [kinds for _, kinds, length in ended if length >= usual / 2]
        doubtful = sum(usual / 4 <= length < usual / 2 for length in lengths)
        counts = Counter(kind for kinds in pauses for kind in kinds)
        ends = {kind for kind, count in counts.items() if count >= 0.8 * len(pauses)}
        if len(pauses) < PAUSES or doubtful > 0.2 * len(pauses) or not ends:
            return long
        if not ends <= last:
            return 10 * QUIET  # it is not done
        return min(long, max(usual / 2, SHORTEST) if load <= 1.0 else max(usual * 0.8, SHORTEST * 7))


class Moment:
    """The moment at which everything holds that was read."""

    def __init__(self, found: Found) -> None:
        self._found = found
        self._since: dict[str, float] = {}  # when what only grows was first seen to
        self._sizes: dict[str, int] = {}  # that it had at the last look
        self._by_status: set[str] = set()  # files whose changes show
        self._unsettled: set[str] = set()  # whatever has moved at some time
        self._passing: set[str] = set()  # of that, what came or went
        self._places: set[Place] = set()  # the directories of what is watched
        self._watched: set[str] = set()
        self._rhythm = Rhythm()

    def hold(self) -> None:
        """Read again what moves, until everything has held; leave out what never does."""
        found, end = self._found, time.monotonic() + SECONDS_IN_ALL
        gone, grown = set[str](), set[str]()
        while True:
            seen = self._look()
            if not (seen.unsettled or seen.grown or seen.recent):
                break  # what is watched has held before this look, and all else still does
            self._watch(seen)
            caught = self._catch(end)
            held = caught or self._give_up()
            gone, grown = held.gone, held.grown
            if caught is None:
                break
        gone = gone | seen.gone
        found.tree.left_out = [each for each in found.tree.left_out if each.name not in gone]
        for name in grown & found.contents.keys():
            kept, text = up_to_last_line(as_bytes(found.contents[name]))
            found.add(name, as_content(kept))
            found.note(name, text)

    def _catch(self, end: float) -> Look | None:
        """Read what is watched, and find it the same once it is quiet; None where that does not come to be."""
        found, rhythm, began, torn = self._found, self._rhythm, time.monotonic(), 0
        tops, tree, stores = {walk.prefix.rstrip("/") for walk in found.all_walks}, None, set[str]()
        while (now := time.monotonic()) < end:
            looked, seen = time.time_ns(), self._look(alone=True, compared=False)
            self._watch(seen)
            if tree is not found.tree:
                tree, stores = found.tree, _whole_always({each.name for each in found.tree.files}, found.contents, tops)
            names = {*seen.recent, *(change.name for change in seen.changes)}
            whole = {name for name in names if not stores.isdisjoint((name, *parents_of(name)))}
            logs = self._logs(seen) - whole  # of such a store, all files go together
            free = logs | whole
            recent = {name: status for name, status in seen.recent.items() if name not in free}
            changed = {change.name for change in seen.changes} - free
            changed |= {name for name, status in recent.items() if not status.st_size}  # it may be cut just now
            rhythm.tell(recent, looked, changed=bool(changed))
            parts = (whole_of(change.name) for change in seen.changes if change.name.rstrip("/") in seen.databases)
            # A database that has changed was whole when it was read: all else has to be the same since then.
            late = any(rhythm.newest > found.read_at.get(name, 0) for name in parts)
            # So it is with how far a log went.
            late |= any(rhythm.newest + STEP > found.read_at.get(name, 0) for name in logs)
            stood, quiet = (looked - rhythm.newest) / 1e9, rhythm.quiet()
            learns = now - began < LEARNING
            # How far each of several logs went has to be known of one instant.
            if late or seen.unsettled or seen.grown - (logs & found.sizes.keys()):
                if stood >= max(quiet / 4, STEP / 1e9 if logs else 0.0):
                    self._read_again(seen, logs)
                    if learns:
                        continue
            elif stood >= quiet:
                seen = self._look(alone=True)
                again = {name: status for name, status in seen.recent.items() if name not in free}
                if not (_different(again, recent) or seen.unsettled) and seen.grown <= logs:
                    return seen
                if seen.unsettled:
                    torn += 1
                    if torn > TRIES and seen.unsettled <= seen.torn:
                        return None
                    self._watch(seen)
                    self._read_again(seen, logs)
                    continue
            often = learns or quiet < QUIET
            time.sleep(max(0.001, min(stood / 8, QUIET / 8)) if often else QUIET / 8)
        return None

    def _watch(self, seen: Look) -> None:
        for change in seen.changes:
            root, inside = change.walk.root, change.inside
            self._places |= {(root, inside), (root, (*inside, change.own))}
            self._watched.add(change.name.rstrip("/"))
        names = {*seen.torn, *seen.recent}
        self._watched |= names
        self._places |= {seen.places[name] for name in names & seen.places.keys()}

    def _look(self, *, alone: bool = False, compared: bool = True) -> Look:
        """Look at all but what is watched, and what has changed in :data:`QUIET`; or ``alone`` at what is watched."""
        found, now, since = self._found, time.time_ns(), 0
        if not alone:
            since = min([now - int(QUIET * 1e9), *(found.read_at.get(name, now) for name in found.databases)])
        seen = Look(found.status, found.read_at, since, self._places, self._watched, alone=alone)
        for walk in found.all_walks:
            walk.look(seen)
        left = {entry.name.rstrip("/") for entry in found.tree.left_out} - found.restless
        asked = {entry.name: entry for entry in found.tree.files if (entry.name in self._watched) == alone}
        changes, seen.changes, seen.unsettled = seen.changes, [], set(found.restless)
        for change in changes:
            name, before, after = change.name.rstrip("/"), change.before, change.now
            same_kind = before and (after is None or stat.S_IFMT(before.st_mode) == stat.S_IFMT(after.st_mode))
            if found.is_in_set(name) or found.is_passed(name) or (name in left and same_kind):
                seen.gone |= {name} if after is None else set()
                continue
            seen.changes.append(change)
            if found.is_database(name):
                seen.databases.add(name)
            elif self._only_grew(change) and (
                not compared or (name in found.contents and name in asked and self._holds(asked[name]))
            ):
                seen.grown.add(name)
                self._since.setdefault(name, time.monotonic())
            else:
                seen.unsettled.add(change.name)
                self._passing |= {change.name} if None in (before, after) else set()
                self._since.pop(name, None)
                self._by_status.add(name)
        unchanged = asked.keys() - {change.name for change in seen.changes}
        for name in found.sizes.keys() & self._since.keys() & unchanged:
            # It was longer already when it was read as far as it went at the instant before.
            if found.sizes[name] < found.status[name].st_size:
                seen.grown.add(name)
        if compared:  # by the bytes of what its status tells nothing of
            for name in (found.contents.keys() & unchanged) - found.proven:
                if not self._is_proven(asked[name]):
                    seen.torn.add(name)
                    seen.places[name] = asked[name].root, asked[name].inside
                    self._by_status.discard(name)
        seen.unsettled |= seen.torn
        self._unsettled |= seen.unsettled
        seen.recent = {
            name: status
            for name, status in seen.recent.items()
            if (alone or name in asked or name in found.tree.links) and changed_at(status) <= now
            if not found.is_database(name) and not found.is_passed(name)
        }
        return seen

    def _logs(self, seen: Look) -> set[str]:
        """The files that have done nothing but grow for long enough."""
        now = time.monotonic()
        return {name for name in seen.grown if now - self._since[name] >= LOG_SECONDS}

    def _read_again(self, seen: Look, logs: set[str]) -> None:
        found = self._found
        before = {name: found.contents[name] for name in self._since if name in found.contents}
        found.read_again(seen.changes, seen.torn, logs)
        for name, content in before.items():
            if not as_bytes(found.contents.get(name, b"")).startswith(as_bytes(content)):
                self._since.pop(name, None)

    def _only_grew(self, change: Change) -> bool:
        """A file has more bytes than were read of it, and no fewer than at any look since then."""
        before, now, size = change.before, change.now, 0
        if before is not None and now is not None and is_file(before) and is_file(now) and before.st_ino == now.st_ino:
            size = now.st_size if 0 < before.st_size < now.st_size else 0
        last, self._sizes[change.name] = self._sizes.get(change.name, 0), size
        return size >= max(last, 1)

    def _is_proven(self, entry: Entry) -> bool:
        """A file holds what was read of it, where its status does not tell that."""
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
        try:
            with open_below(entry.root, entry.inside) as place, place.file(entry.own) as (descriptor, _):
                return read_sparse(descriptor) == data if isinstance(data, Sparse) else still_holds(descriptor, data)
        except OSError:
            return False

    # --- what never holds still

    def _give_up(self) -> Look:
        """Leave out what moves with what is kept beside it, by two last looks at everything.

        That is its directory, and one above in which more has moved or which is named like a file, where nobody keeps
        notes in it. At the top of what is saved, it is what moved, and files whose names begin with the same word; all,
        where the store's come and go.
        """
        found, self._places, self._watched = self._found, set(), set()
        earlier = self._look()
        self._read_again(earlier, self._logs(earlier))
        time.sleep(QUIET / 2)
        seen = self._look()
        logs = self._logs(seen) & found.sizes.keys()
        seen.grown, grown = logs, seen.grown - logs
        moved = (seen.unsettled | earlier.unsettled | grown | (seen.recent.keys() - logs)) - found.vanished
        tops = {"", *(walk.prefix.rstrip("/") for walk in found.all_walks)}
        with_databases = {_above(name) for name in seen.databases | earlier.databases} - tops
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
        words, known = {_word(name) for name in names}, {each.name for each in found.tree.files} | {*found.tree.links}
        passing = {(_above(name), _word(name)) for name in self._passing if not is_note(name)}
        stores = {
            _above(name) for name in names if any(top == _above(name) and word != _word(name) for top, word in passing)
        }
        left = {name for name in known if _above(name) in tops and _word(name) in words}
        left |= {n for n in known if _above(n) in stores and not is_note(n) and not found.is_database(n)}
        left |= names & ({change.name for change in seen.changes} | known) | directories
        nested = {name for name in left if any(f"{over}/" in directories for over in parents_of(name.rstrip("/")))}
        found.leave_sets(dict.fromkeys(left - nested, NEVER_STILL))
        return seen

    def _store_over(self, directory: str, tops: set[str]) -> str:
        """The outermost directory that is of the same store as one in it that moves."""
        store, above = directory, {_above(name) for name in self._unsettled} - tops
        notes = [each.name for each in self._found.tree.files if is_note(each.name)]
        for over in sorted(parents_of(directory), key=len, reverse=True):
            if over in tops or any(name.startswith(f"{over}/") for name in notes):
                break
            more = any(each.startswith(f"{over}/") and f"{each}/".find(f"{store}/") for each in above)
            if more or "." in over.rpartition("/")[2].lstrip("."):
                store = over
        return store


def _load() -> float:
    """How many programs want to run now for each processor."""
    processors = os.cpu_count() or 1
    try:
        running, _, _ = Path("/proc/loadavg").read_text("ascii").split()[3].partition("/")
        return int(running) / processors
    except (OSError, ValueError, IndexError):
        return os.getloadavg()[0] / processors if hasattr(os, "getloadavg") else 2.0  # there is no such figure


def _whole_always(names: set[str], contents: Mapping[str, str | bytes], tops: set[str]) -> set[str]:
    """The files and directories of stores that are whole at each instant: their writer may be killed at any."""
    stores, files = set[str](), set[str]()
    for name in names:
        above, _, own = name.rpartition("/")
        first = {".managed.json": "meta.json", "MANIFEST": "CURRENT"}.get(own.partition("-")[0])
        if own.endswith(".toc") or (first and f"{above}/{first}" in names):
            stores.add(above)
        elif above.endswith("/_versions"):
            stores.add(_above(above))
        elif own.endswith(".wal") and contents.get(whole := name.removesuffix(".wal"), b"")[8:12] == b"DUCK":
            files |= {whole, name}
    return files | stores - tops


def _different(some: Mapping[str, os.stat_result], others: Mapping[str, os.stat_result]) -> set[str]:
    both = some.keys() & others.keys()
    return {*(some.keys() ^ others.keys()), *(name for name in both if not is_same(some[name], others[name]))}


def _above(name: str) -> str:
    return name.rpartition("/")[0]


def _word(name: str) -> str:
    """The beginning of a name at the top: that of a database, its log and what else a store writes beside it."""
    above, _, own = name.rpartition("/")
    return f"{above}/{own.lstrip('.').partition('.')[0]}"
