"""Everything in a folder, before any of it is read: files with their sizes, directories, links, and the rest.

A second look compares every name and status with those of the first, or with those at which a file was read.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING

from colony_memory._os import paths
from colony_memory._os.directory import Directory, Reach, open_below
from colony_memory._os.paths import UnfitFile, decode_name, is_file, real_path
from colony_memory._values import Record, field
from colony_memory.capture import _steady as steady
from colony_memory.capture._filenames import link_problem
from colony_memory.capture._ignore import (
    GIT_NAME,
    IGNORE_NAME,
    LARGEST,
    VAULT,
    IgnoreRules,
    NotFollowed,
    find_end,
    is_of_vault,
    is_vault,
    why_unsaved,
)
from colony_memory.capture._steady import reason_of
from colony_memory.capture._tree import Change, Entry, LeftOut, Look, Tree, is_same
from colony_memory.exceptions import ColonyMemoryError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from pathlib import Path

    from colony_memory.capture._ignore import Following

_LOOKS = 3
_LEADS = b"gitdir: "
NOT_FOLLOWED = "it is not followed"


class _Place(Record):
    """A directory and what was found in it."""

    tree: Tree = field(default_factory=Tree)  # its links by their names from the folder on
    deeper: list[tuple[str, ...]] = field(default_factory=list)  # the directories to go into
    counts: dict[str, os.stat_result] = field(default_factory=dict)  # what has to be there still, by its own name
    passed: set[str] = field(default_factory=set)  # own names of which it does not matter
    rules: bytes | bytearray | None = None  # its own rules of what to exclude
    is_open: bool = True


class NamedFile:
    """A file that the caller named himself, link or not, or one that a link leads to, ``inside`` a directory."""

    prefix = ""
    followed: Iterable[NamedFile | Walk] = ()

    def __init__(self, path: Path, name: str, inside: tuple[str, ...] = ()) -> None:
        self.root, self._name, self._inside = path, name, inside
        self._status: os.stat_result | None = None

    def _locate(self) -> Entry:
        if not self._inside:
            file = real_path(self.root)
            return Entry(file.parent, (), decode_name(file.name), self._name, file.stat())
        *inside, own = self._inside
        with open_below(self.root, inside) as place:
            status = place.look(own)
        if status is None:
            raise FileNotFoundError
        return Entry(self.root, tuple(inside), own, self._name, status)

    def find(self, tree: Tree, *_: object) -> None:
        """Find it, anew whatever moved."""
        try:
            entry = self._locate()
        except OSError as error:
            tree.left_out.append(LeftOut(self._name, reason_of(error)))
        else:
            self._status = entry.status
            tree.files.append(entry)

    def look(self, look: Look) -> None:
        """As :meth:`Walk.look`."""
        if (self._name in look.watched) != look.alone:
            return
        now = None
        with contextlib.suppress(OSError):
            now = self._locate().status
        before = look.read.get(self._name, self._status)
        if before is not None and (now is None or not is_same(before, now)):
            look.changes.append(Change(self, (), self.root.name, self._name, before, now))
        if now is not None and look.is_recent(self._name, now):
            look.recent[self._name] = now


class Walk:
    """A directory, with all that is under it; names begin with ``prefix``.

    ``base`` is the way to it from ``root`` on. ``within`` has the walk that a link leads here from, and its name there:
    what is excluded or hidden there is so here.
    """

    def __init__(
        self,
        root: Path,
        prefix: str,
        excluded: IgnoreRules | None = None,
        follow: Following | None = None,
        *,
        base: tuple[str, ...] = (),
        within: tuple[Walk, str] | None = None,
    ) -> None:
        self.root, self.prefix, self._excluded = root, prefix, excluded or IgnoreRules()
        self._follow, self._base, self._within = follow, base, within
        self._rules = IgnoreRules()
        self._places: dict[tuple[str, ...], _Place] = {}
        self._led: dict[tuple[str, tuple[str, ...]], NamedFile | Walk] = {}

    @property
    def followed(self) -> Iterable[NamedFile | Walk]:
        return self._led.values()

    def find(
        self, tree: Tree, step: Callable[[str], None] = lambda _: None, moved: Collection[tuple[str, ...]] | None = None
    ) -> None:
        """Add all that is there to a tree; ``moved`` has the directories to look at, if all others are as they were."""
        before = {} if moved is None else {inside: self._places[inside] for inside in {*self._places} - {*moved}}
        self._places, self._rules = {}, IgnoreRules()
        found, pending = Tree(), [self._base]
        while pending:
            inside = pending.pop()
            place = before.get(inside)
            if place is None:
                step(self.prefix + self._below(inside))
                place = self._find_in(inside)
            elif place.rules is not None:
                self._add_rules(inside, place.rules)
            self._places[inside] = place
            found.add(place.tree)
            pending += reversed(place.deeper)
        self._lead(found)
        tree.add(found)

    def _lead(self, found: Tree) -> None:
        links, found.links = found.links, {}
        before, self._led = self._led, {}
        taken = Counter[tuple[str, ...]]()
        for name, target in links.items():
            shown, why = self.prefix + name, ""
            problem = link_problem(name, target, said_by=links.get)
            if problem is None:
                found.links[shown] = target
                continue
            if self._follow is not None:
                try:
                    parts, is_directory = find_end(self._follow, self.root, name, taken)
                except OSError as error:
                    problem = f"is a link to {target!r}"
                    why = f": {error if isinstance(error, NotFollowed) else reason_of(error)}"
                else:
                    home, led = self._follow.home, before.get((name, parts))
                    if led is None and is_directory:
                        led = Walk(home, f"{shown}/", self._excluded, base=parts, within=(self, name))
                    self._led[name, parts] = led or NamedFile(home, shown, parts)
                    continue
            found.left_out.append(LeftOut(shown, f"{problem}; {NOT_FOLLOWED}{why}", unread=False))

    def look(self, look: Look) -> None:
        """Look again whether everything is there as it was found or, of files that were read, as it was then."""
        with ExitStack() as stack:
            reach: Reach | None = None
            for inside, place in self._places.items():
                if not place.is_open or (look.alone and (self.root, inside) not in look.watched_places):
                    continue
                try:
                    if reach is None:
                        reach = stack.enter_context(Reach(stack.enter_context(Directory.open(self.root, follow=True))))
                    self._compare(reach.directory("/".join(inside)), inside, place, look)
                except OSError:
                    name = self.prefix + self._below(inside)
                    look.changes.append(Change(self, inside, "", name, None, None))

    def _compare(self, directory: Directory, inside: tuple[str, ...], place: _Place, look: Look) -> None:
        below, where, there = self._below(inside), (self.root, inside), set[str]()
        # What was looked at alone before does not count any more, nor what is new beside it.
        news = look.alone or where not in look.watched_places
        for own in directory.names():
            if own in place.passed:
                continue
            name = self.prefix + below + own
            noted = place.counts.get(own)
            # What was read under the name of a link is what it leads to.
            before = noted if noted is not None and stat.S_ISLNK(noted.st_mode) else look.read.get(name) or noted
            if (before is None and not news) or (before is not None and (name in look.watched) != look.alone):
                there.add(own)
                continue
            now = None
            with contextlib.suppress(OSError):
                now = directory.look(own)
            if now is None or (before is None and self._passes(directory, own, below + own, now)):
                continue
            there.add(own)
            if before is None or not is_same(before, now):
                look.changes.append(Change(self, inside, own, name, before, now))
            if not stat.S_ISDIR(now.st_mode) and look.is_recent(name, now):
                look.recent[name], look.places[name] = now, where
        for own, before in place.counts.items():
            name = self.prefix + below + own
            if own not in there and (look.alone or name not in look.watched):
                look.changes.append(Change(self, inside, own, name, look.read.get(name, before), None))

    def _passes(self, directory: Directory, own: str, name: str, status: os.stat_result) -> bool:
        """It does not matter that something new is there: it would not be saved."""
        is_symbolic = stat.S_ISLNK(status.st_mode)
        is_directory = paths.is_directory(status) or (is_symbolic and self._leads_to_directory(directory, own))
        if is_of_vault(own, status) or self._exclude(own, name, is_directory=is_directory):
            return True
        if is_symbolic and self._follow is None:  # such as the lock of an editor, which comes and goes
            with contextlib.suppress(OSError):
                return link_problem(name, directory.read_link(own), said_by=lambda _: None) is not None
        return not (is_directory or is_file(status) or paths.is_link(status))

    def _leads_to_directory(self, place: Directory, own: str) -> bool:
        with contextlib.suppress(OSError):
            return self._follow is not None and paths.is_directory(place.look(own, follow=True))
        return False

    def _find_in(self, inside: tuple[str, ...]) -> _Place:
        try:
            with open_below(self.root, inside) as directory:
                return self._sort(directory, inside)
        except OSError as error:
            if not inside:
                raise ValueError(f"{str(self.root)!r} cannot be read: {reason_of(error)}") from error
            place = _Place(is_open=False)
            self._leave(place.tree, self._below(inside) or "./", reason_of(error), unread=True)
            return place

    def _sort(self, directory: Directory, inside: tuple[str, ...]) -> _Place:
        place, below = _Place(), self._below(inside)
        tree = place.tree
        entries, links, lost = _entries_of(directory)
        if is_vault(entries):
            self._leave(tree, below or "./", VAULT)
            place.is_open = False
            return place
        if inside or self.prefix:
            tree.directories[f"{self.prefix}{below}".rstrip("/")] = directory.status()
        if IGNORE_NAME in entries:
            place.rules = self._read_rules(directory, inside)
        for own, reason in lost.items():  # it may be a directory
            self._leave(tree, below + own, reason, unread=True)
        strays = {name for name, status in entries.items() if is_of_vault(name, status)}
        if strays:
            self._leave(tree, f"{below}cmem.*.json", VAULT)
        place.passed |= strays | lost.keys()
        for own, status in entries.items():
            if own in place.passed:
                continue
            name, is_directory = below + own, paths.is_directory(status)
            is_directory |= own in links and self._leads_to_directory(directory, own)
            shown = f"{name}/" if is_directory else name
            if self._exclude(own, name, is_directory=is_directory):
                tree.ignored.append(self.prefix + shown)
                place.passed.add(own)
                companions = steady.companions_of(own)
                parts = {each for each in companions if each not in place.passed and is_file(entries.get(each))}
                if parts and steady.holds_database(directory, own):  # what is beside it holds the same
                    place.passed |= parts
                    tree.ignored += [f"{self.prefix}{below}{part}" for part in sorted(parts)]
                continue
            place.counts[own] = status
            if own == GIT_NAME and _is_repository(directory):
                tree.repositories.append(self.prefix + name)
            elif reason := why_unsaved(own, self.prefix + name, status):
                self._leave(tree, shown, reason)
            elif own in links:
                tree.links[name] = links[own]
            elif is_directory:
                place.deeper.append((*inside, own))
            else:
                tree.files.append(Entry(self.root, inside, own, self.prefix + name, status))
        return place

    def _read_rules(self, place: Directory, inside: tuple[str, ...]) -> bytes | bytearray | None:
        try:
            with place.file(IGNORE_NAME) as (descriptor, status):
                rules = steady.read_plain(descriptor, status, limit=LARGEST).data
        except FileNotFoundError:
            return None  # it has just gone
        except (steady.NotSaved, steady.TooLarge, OSError) as error:
            reason = error.strerror if isinstance(error, UnfitFile) else reason_of(error)
            where = self.root.joinpath(*inside, IGNORE_NAME)
            raise ColonyMemoryError(f"{str(where)!r}: {reason}, so its rules could not be applied") from error
        self._add_rules(inside, rules)
        return rules

    def _add_rules(self, inside: tuple[str, ...], rules: bytes | bytearray) -> None:
        self._rules.add(self._below(inside).rstrip("/"), rules, where=str(self.root.joinpath(*inside, IGNORE_NAME)))

    def _exclude(self, own: str, name: str, *, is_directory: bool) -> bool:
        if self._within is not None and own.startswith(".") and own != IGNORE_NAME:
            return True
        asked = self._excluded.exclude(self.prefix + name, is_directory=is_directory)
        if asked is not None:
            return asked
        return own != IGNORE_NAME and self.rules_out(name, is_directory=is_directory)

    def rules_out(self, name: str, *, is_directory: bool) -> bool:
        if self._rules.exclude(name, is_directory=is_directory):
            return True
        walk, link = self._within or (None, "")
        return walk is not None and walk.rules_out(f"{link}/{name}", is_directory=is_directory)

    def _leave(self, tree: Tree, name: str, reason: str, *, unread: bool = False) -> None:
        tree.left_out.append(LeftOut(self.prefix + name, reason, unread))

    def _below(self, inside: tuple[str, ...]) -> str:
        return "".join(f"{name}/" for name in inside[len(self._base) :])


def _entries_of(place: Directory) -> tuple[dict[str, os.stat_result], dict[str, str], dict[str, str]]:
    """The status of what is in a directory, the text of its links, and why the rest is not told."""
    entries, links, lost = dict[str, os.stat_result](), dict[str, str](), dict[str, str]()
    names = [*place.names()]
    for _ in range(_LOOKS):
        lost.clear()
        for name in names:
            try:
                status = place.look(name)
                if status is not None and stat.S_ISLNK(status.st_mode):
                    links[name] = place.read_link(name)
            except OSError as error:
                lost[name] = reason_of(error)
            else:
                if status is None:
                    lost[name] = steady.VANISHED
                else:
                    entries[name] = status
        # What goes or becomes another thing meanwhile, and is named there still, is looked at again.
        names = [*lost.keys() & {*place.names()}] if lost else []
    return entries, links, {name: lost[name] for name in names}


def _is_repository(place: Directory) -> bool:
    """The ``.git`` in a directory is git's: a directory of a repository, or a file that leads to one."""
    try:
        if is_file(place.look(GIT_NAME)):
            with place.file(GIT_NAME) as (descriptor, _):
                return steady.read_start(descriptor, len(_LEADS)) == _LEADS
        with place.enter(GIT_NAME) as inner:
            return is_file(inner.look("HEAD")) and paths.is_directory(inner.look("objects"))
    except OSError:
        return False
