"""The moment of a snapshot: one instant at which all files on disk were as they are saved.

Files that differ from when they were read are watched: read again, then compared by themselves in one quick look, with
everything else the same before and after it. A look counts only after a quiet time, or half of the writer's pause:
before that, a store may be in the middle of a change. Files that never become quiet are left out as one set.
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
from colony_memory.capture._filenames import is_note, parents_of, stem_of
from colony_memory.capture._steady import LARGE, Sparse, as_bytes, as_content, read_sparse, still_holds, up_to_last_line
from colony_memory.capture._tree import Look, changed_at, is_same, is_settled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from colony_memory.capture._reading import Found
    from colony_memory.capture._tree import Change, Entry, Place

SECONDS_IN_ALL = 10.0  # a host that waits for a backup waits 20
# Seconds without a change before a store counts as quiet, unless it makes shorter pauses by a rule; and seconds in
# which that rule has to show: afterwards a longer pause is awaited, with fewer looks.
QUIET, LEARNING = 0.1, 3.0
SHORTEST, PAUSES = 0.003, 16  # the shortest pause in seconds, and the number of pauses that make a rule
# Seconds for which a file only grows before it counts as a log: a rewritten file grows too, until it is complete.
LOG_SECONDS = 1.0
STEP = 10_000_000  # nanoseconds of a kernel's tick: a change may be this much later than its timestamp
# Seconds between the two readings of a large file whose status shows no changes; and tries for files whose changes show
# in their bytes alone: no timestamp says when their writer pauses.
APART, TRIES = 0.2, 4
NEVER_STILL = (
    "kept changing while it was read, so the whole set was left out: save it while its program is stopped, or save a "
    "copy that the program makes"
)


class Rhythm:
    """The pauses of a store's writer: long ones after changes of the same files, far shorter ones in between."""

    def __init__(self) -> None:
        self.newest = 0  # time of the last change that was seen, in nanoseconds since 1970
        self._last: set[str] = set()
        self._statuses: dict[str, os.stat_result] = {}
        self._seen_at = 0
        self._active = False
        self._pauses: deque[tuple[int, frozenset[str], float]] = deque(maxlen=64)

    def observe(self, statuses: dict[str, os.stat_result], now: int, *, changed: bool = False) -> None:
        """Record the statuses of all files at ``now``; ``changed`` if even the first ones show a change."""
        if changed_names := _different(statuses, self._statuses):
            at = max(map(changed_at, statuses.values()), default=0)
            if at > self.newest:
                changed_names = {name for name, status in statuses.items() if changed_at(status) == at}
            # A system truncates a file first, and sets its time afterwards.
            self.newest, self._last = at if at > self.newest else self._seen_at, changed_names
        if not self._seen_at and changed:
            self.newest, self._active = now, True
        self._statuses, self._seen_at = statuses, now
        if self._pauses and self._pauses[-1][0] == self.newest:
            self._pauses.pop()
        kinds = frozenset(re.sub(r"[0-9a-f]{8,}|[0-9]+", "#", name) for name in self._last)
        self._pauses.append((self.newest, kinds, (now - self.newest) / 1e9))

    def quiet(self) -> float:
        """Seconds of quiet after which the writer is done, given the files that changed last."""
        *ended, (_, last, _) = self._pauses
        if not (ended or self._active):
            return QUIET
        load = _load()  # with more programs to run than processors, the writer may be held up anywhere
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
            return 10 * QUIET  # the writer is not done
        return min(long, max(usual / 2, SHORTEST) if load <= 1.0 else max(usual * 0.8, SHORTEST * 7))


class Moment:
    """The moment at which all files are as they were read."""

    def __init__(self, found: Found) -> None:
        self._found = found
        self._growing_since: dict[str, float] = {}  # first look at which each file had only grown
        self._sizes: dict[str, int] = {}  # sizes of these at the last look
        self._by_status: set[str] = set()  # files whose changes show in their status
        self._unsettled: set[str] = set()  # everything that changed at some look
        self._passing: set[str] = set()  # those of them that appeared or vanished
        self._places: set[Place] = set()  # the directories of the watched files
        self._watched: set[str] = set()
        self._rhythm = Rhythm()

    def hold(self) -> None:
        """Read changing files again until all are stable together; leave out those that never are."""
        found, end = self._found, time.monotonic() + SECONDS_IN_ALL
        gone, grown = set[str](), set[str]()
        while True:
            seen = self._look()
            if not (seen.unsettled or seen.grown or seen.recent):
                break  # watched names were stable before this look; the rest still is
            self._watch(seen)
            caught = self._catch(end)
            last = caught or self._give_up()
            gone, grown = last.gone, last.grown
            if caught is None:
                break
        gone = gone | seen.gone
        found.tree.left_out = [entry for entry in found.tree.left_out if entry.name not in gone]
        for name in grown & found.contents.keys():
            kept, text = up_to_last_line(as_bytes(found.contents[name]))
            found.add(name, as_content(kept))
            found.note(name, text)

    def _catch(self, end: float) -> Look | None:
        """Read the watched files until they are the same after a quiet time, and return that look; None if never."""
        found, rhythm, began, torn = self._found, self._rhythm, time.monotonic(), 0
        tops, tree, safe = {walk.prefix.rstrip("/") for walk in found.all_walks}, None, set[str]()
        while (now := time.monotonic()) < end:
            now_ns, seen = time.time_ns(), self._look(alone=True, compared=False)
            self._watch(seen)
            if tree is not found.tree:
                tree, safe = found.tree, _crash_safe({entry.name for entry in found.tree.files}, found.contents, tops)
            names = {*seen.recent, *(change.name for change in seen.changes)}
            of_stores = {name for name in names if not safe.isdisjoint((name, *parents_of(name)))}
            logs = self._logs(seen) - of_stores  # all files of such a store go together
            exempt = logs | of_stores
            recent = {name: status for name, status in seen.recent.items() if name not in exempt}
            changed = {change.name for change in seen.changes} - exempt
            changed |= {name for name, status in recent.items() if not status.st_size}  # may be truncated just now
            rhythm.observe(recent, now_ns, changed=bool(changed))
            parts = (stem_of(change.name) for change in seen.changes if change.name.rstrip("/") in seen.databases)
            # A changed database was consistent when it was read: all else has to be the same since then.
            outdated = any(rhythm.newest > found.read_at.get(name, 0) for name in parts)
            # The same goes for the length of a log.
            outdated |= any(rhythm.newest + STEP > found.read_at.get(name, 0) for name in logs)
            pause, quiet = (now_ns - rhythm.newest) / 1e9, rhythm.quiet()
            learning = now - began < LEARNING
            # The lengths of several logs have to be measured at one instant.
            if outdated or seen.unsettled or seen.grown - (logs & found.sizes.keys()):
                if pause >= max(quiet / 4, STEP / 1e9 if logs else 0.0):
                    self._read_again(seen, logs)
                    if learning:
                        continue
            elif pause >= quiet:
                seen = self._look(alone=True)
                again = {name: status for name, status in seen.recent.items() if name not in exempt}
                if not (_different(again, recent) or seen.unsettled) and seen.grown <= logs:
                    return seen
                if seen.unsettled:
                    torn += 1
                    if torn > TRIES and seen.unsettled <= seen.torn:
                        return None
                    self._watch(seen)
                    self._read_again(seen, logs)
                    continue
            often = learning or quiet < QUIET
            time.sleep(max(0.001, min(pause / 8, QUIET / 8)) if often else QUIET / 8)
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
        """Look at all but the watched names, noting files changed in :data:`QUIET`; ``alone``, at these, noting all."""
        found, now, since = self._found, time.time_ns(), 0
        if not alone:
            since = min([now - int(QUIET * 1e9), *(found.read_at.get(name, now) for name in found.databases)])
        seen = Look(found.status, found.read_at, since, self._places, self._watched, alone=alone)
        for walk in found.all_walks:
            walk.look(seen)
        left_out = {entry.name.rstrip("/") for entry in found.tree.left_out} - found.restless
        entries = {entry.name: entry for entry in found.tree.files if (entry.name in self._watched) == alone}
        changes, seen.changes, seen.unsettled = seen.changes, [], set(found.restless)
        for change in changes:
            name, before, after = change.name.rstrip("/"), change.before, change.now
            same_kind = before and (after is None or stat.S_IFMT(before.st_mode) == stat.S_IFMT(after.st_mode))
            if found.is_in_set(name) or found.is_skipped(name) or (name in left_out and same_kind):
                seen.gone |= {name} if after is None else set()
                continue
            seen.changes.append(change)
            if found.is_database(name):
                seen.databases.add(name)
            elif self._only_grew(change) and (
                not compared or (name in found.contents and name in entries and self._holds(entries[name]))
            ):
                seen.grown.add(name)
                self._growing_since.setdefault(name, time.monotonic())
            else:
                seen.unsettled.add(change.name)
                self._passing |= {change.name} if None in (before, after) else set()
                self._growing_since.pop(name, None)
                self._by_status.add(name)
        unchanged = entries.keys() - {change.name for change in seen.changes}
        for name in found.sizes.keys() & self._growing_since.keys() & unchanged:
            # It had grown already by the time that it was read up to its measured size.
            if found.sizes[name] < found.status[name].st_size:
                seen.grown.add(name)
        if compared:  # files whose status cannot tell are compared by their bytes
            for name in (found.contents.keys() & unchanged) - found.proven:
                if not self._is_proven(entries[name]):
                    seen.torn.add(name)
                    seen.places[name] = entries[name].root, entries[name].inside
                    self._by_status.discard(name)
        seen.unsettled |= seen.torn
        self._unsettled |= seen.unsettled
        seen.recent = {
            name: status
            for name, status in seen.recent.items()
            if (alone or name in entries or name in found.tree.links) and changed_at(status) <= now
            if not found.is_database(name) and not found.is_skipped(name)
        }
        return seen

    def _logs(self, seen: Look) -> set[str]:
        """The files that have only grown, for :data:`LOG_SECONDS` or longer."""
        now = time.monotonic()
        return {name for name in seen.grown if now - self._growing_since[name] >= LOG_SECONDS}

    def _read_again(self, seen: Look, logs: set[str]) -> None:
        found = self._found
        before = {name: found.contents[name] for name in self._growing_since if name in found.contents}
        found.read_again(seen.changes, seen.torn, logs)
        for name, content in before.items():
            if not as_bytes(found.contents.get(name, b"")).startswith(as_bytes(content)):
                self._growing_since.pop(name, None)

    def _only_grew(self, change: Change) -> bool:
        """True if a file has more bytes than were read of it, and has not shrunk at any look since."""
        before, now, size = change.before, change.now, 0
        if before is not None and now is not None and is_file(before) and is_file(now) and before.st_ino == now.st_ino:
            size = now.st_size if 0 < before.st_size < now.st_size else 0
        last, self._sizes[change.name] = self._sizes.get(change.name, 0), size
        return size >= max(last, 1)

    def _is_proven(self, entry: Entry) -> bool:
        """True if a file still holds the bytes that were read, where its status does not tell."""
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
                return True  # a change may still hide behind the same timestamp
        found.proven.add(name)
        return True

    def _holds(self, entry: Entry) -> bool:
        data = as_bytes(self._found.contents[entry.name])
        try:
            with open_below(entry.root, entry.inside) as place, place.file(entry.own) as (descriptor, _):
                return read_sparse(descriptor) == data if isinstance(data, Sparse) else still_holds(descriptor, data)
        except OSError:
            return False

    # --- files that never become quiet

    def _give_up(self) -> Look:
        """Leave out unstable files together with their stores, after two last looks at everything.

        A store is the directory of a file, or one above that holds other unstable files or is named like a file, unless
        there are notes in it. At the top of the saved tree it is the file, and files whose names begin with the same
        word; or all but notes and databases, if files there come and go under other words.
        """
        found, self._places, self._watched = self._found, set(), set()
        earlier = self._look()
        self._read_again(earlier, self._logs(earlier))
        time.sleep(QUIET / 2)
        seen = self._look()
        logs = self._logs(seen) & found.sizes.keys()
        seen.grown, grown = logs, seen.grown - logs
        recent = {name for name, status in seen.recent.items() if changed_at(status) > seen.since} - logs
        unstable = (seen.unsettled | earlier.unsettled | grown | recent) - found.vanished
        tops = {"", *(walk.prefix.rstrip("/") for walk in found.all_walks)}
        with_databases = {_above(name) for name in seen.databases | earlier.databases} - tops
        directories, names = set[str](), set[str]()
        for name in unstable:
            above = _above(name)  # a directory, whose name ends with a slash, gives itself
            if above in tops:
                names.add(name.rstrip("/"))
                continue
            # A database that changed along with files in a directory next to it belongs to these.
            while (parent := _above(above)) in with_databases:
                above = parent
            directories.add(f"{self._store_over(above, tops)}/")
        words, known = {_word(name) for name in names}, {entry.name for entry in found.tree.files} | {*found.tree.links}
        passing = {(_above(name), _word(name)) for name in self._passing if not is_note(name)}
        stores = {
            _above(name) for name in names if any(top == _above(name) and word != _word(name) for top, word in passing)
        }
        left_out = {name for name in known if _above(name) in tops and _word(name) in words}
        left_out |= {n for n in known if _above(n) in stores and not is_note(n) and not found.is_database(n)}
        left_out |= names & ({change.name for change in seen.changes} | known) | directories
        nested = {n for n in left_out if any(f"{parent}/" in directories for parent in parents_of(n.rstrip("/")))}
        found.leave_sets(dict.fromkeys(left_out - nested, NEVER_STILL))
        return seen

    def _store_over(self, directory: str, tops: set[str]) -> str:
        """The outermost directory of the store to which a directory with unstable files belongs."""
        store, above = directory, {_above(name) for name in self._unsettled} - tops
        notes = [entry.name for entry in self._found.tree.files if is_note(entry.name)]
        for parent in sorted(parents_of(directory), key=len, reverse=True):
            if parent in tops or any(name.startswith(f"{parent}/") for name in notes):
                break
            more = any(other.startswith(f"{parent}/") and f"{other}/".find(f"{store}/") for other in above)
            if more or "." in parent.rpartition("/")[2].lstrip("."):
                store = parent
        return store


def _load() -> float:
    """The number of runnable programs per processor."""
    processors = os.cpu_count() or 1
    try:
        running, _, _ = Path("/proc/loadavg").read_text("ascii").split()[3].partition("/")
        return int(running) / processors
    except (OSError, ValueError, IndexError):
        return os.getloadavg()[0] / processors if hasattr(os, "getloadavg") else 2.0  # no figure known


def _crash_safe(names: set[str], contents: Mapping[str, str | bytes], tops: set[str]) -> set[str]:
    """Files and directories of stores that are consistent at every instant, so that their writer may be killed."""
    stores, files = set[str](), set[str]()
    for name in names:
        above, _, own = name.rpartition("/")
        first = {".managed.json": "meta.json", "MANIFEST": "CURRENT"}.get(own.partition("-")[0])
        if own.endswith(".toc") or (first and f"{above}/{first}" in names):
            stores.add(above)
        elif above.endswith("/_versions"):
            stores.add(_above(above))
        elif own.endswith(".wal") and contents.get(stem := name.removesuffix(".wal"), b"")[8:12] == b"DUCK":
            files |= {stem, name}
    return files | stores - tops


def _different(first: Mapping[str, os.stat_result], second: Mapping[str, os.stat_result]) -> set[str]:
    both = first.keys() & second.keys()
    return {*(first.keys() ^ second.keys()), *(name for name in both if not is_same(first[name], second[name]))}


def _above(name: str) -> str:
    return name.rpartition("/")[0]


def _word(name: str) -> str:
    """The first word of a top-level name, which a database shares with its log and other files of its store."""
    above, _, own = name.rpartition("/")
    return f"{above}/{own.lstrip('.').partition('.')[0]}"
