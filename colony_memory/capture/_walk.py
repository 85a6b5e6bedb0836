"""The walk through a folder, before any file is read: files with their sizes, directories, links, and the rest.

A second look compares each name and status with that of the walk, or of the reading of the file.
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
_GITDIR = b"gitdir: "
NOT_FOLLOWED = "it is not followed"


class _Place(Record):
    """A directory and its entries."""

    tree: Tree = field(default_factory=Tree)  # with links by their paths in the folder
    subdirectories: list[tuple[str, ...]] = field(default_factory=list)  # to walk through next
    statuses: dict[str, os.stat_result] = field(default_factory=dict)  # of entries that must not change, by own name
    ignored: set[str] = field(default_factory=set)  # own names of the entries that may change
    rules: bytes | bytearray | None = None  # content of its file of ignore rules
    is_open: bool = True


class NamedFile:
    """A file named by the caller, possibly a link; or, with ``inside``, a file that a link in a folder leads to."""

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
        """Look the file up, each time anew."""
        try:
            entry = self._locate()
        except OSError as error:
            tree.left_out.append(LeftOut(self._name, reason_of(error)))
        else:
            self._status = entry.status
            tree.files.append(entry)

    def look(self, look: Look) -> None:
        """Look again, as :meth:`Walk.look`."""
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
    """A directory with everything under it, named with ``prefix``.

    ``base`` is the path to it from ``root``. ``within`` is the walk with the link that leads here, and the link's name:
    its rules, and its hiding of names with a leading dot, hold here too.
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
        self._followed: dict[tuple[str, tuple[str, ...]], NamedFile | Walk] = {}

    @property
    def followed(self) -> Iterable[NamedFile | Walk]:
        return self._followed.values()

    def find(
        self, tree: Tree, step: Callable[[str], None] = lambda _: None, dirty: Collection[tuple[str, ...]] | None = None
    ) -> None:
        """Add everything to a tree; given ``dirty``, look only into these directories, as no other has changed."""
        before = {} if dirty is None else {inside: self._places[inside] for inside in {*self._places} - {*dirty}}
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
            pending += reversed(place.subdirectories)
        self._resolve_links(found)
        tree.add(found)

    def _resolve_links(self, found: Tree) -> None:
        links, found.links = found.links, {}
        before, self._followed = self._followed, {}
        links_by_end = Counter[tuple[str, ...]]()
        for name, target in links.items():
            shown, reason = self.prefix + name, ""
            problem = link_problem(name, target, target_of=links.get)
            if problem is None:
                found.links[shown] = target
                continue
            if self._follow is not None:
                try:
                    parts, is_directory = find_end(self._follow, self.root, name, links_by_end)
                except OSError as error:
                    problem = f"is a link to {target!r}"
                    reason = f": {error if isinstance(error, NotFollowed) else reason_of(error)}"
                else:
                    home, target_walk = self._follow.home, before.get((name, parts))
                    if target_walk is None and is_directory:
                        target_walk = Walk(home, f"{shown}/", self._excluded, base=parts, within=(self, name))
                    self._followed[name, parts] = target_walk or NamedFile(home, shown, parts)
                    continue
            found.left_out.append(LeftOut(shown, f"{problem}; {NOT_FOLLOWED}{reason}", unread=False))

    def look(self, look: Look) -> None:
        """Note what differs from the walk or, of files that were read, from their reading."""
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
                    look.changes.append(Change(self, inside, "", self.prefix + self._below(inside), None, None))

    def _compare(self, directory: Directory, inside: tuple[str, ...], place: _Place, look: Look) -> None:
        below, where, present = self._below(inside), (self.root, inside), set[str]()
        # In a look at all but the watched, new names in watched directories don't count: the look alone has them.
        sees_new = look.alone or where not in look.watched_places
        for own in directory.names():
            if own in place.ignored:
                continue
            name = self.prefix + below + own
            noted = place.statuses.get(own)
            # The file that was read under the name of a link is the link's target.
            before = noted if noted is not None and stat.S_ISLNK(noted.st_mode) else look.read.get(name) or noted
            if (before is None and not sees_new) or (before is not None and (name in look.watched) != look.alone):
                present.add(own)
                continue
            now = None
            with contextlib.suppress(OSError):
                now = directory.look(own)
            if now is None or (before is None and self._is_irrelevant(directory, own, below + own, now)):
                continue
            present.add(own)
            if before is None or not is_same(before, now):
                look.changes.append(Change(self, inside, own, name, before, now))
            if not stat.S_ISDIR(now.st_mode) and look.is_recent(name, now):
                look.recent[name], look.places[name] = now, where
        for own, before in place.statuses.items():
            name = self.prefix + below + own
            if own not in present and (look.alone or name not in look.watched):
                look.changes.append(Change(self, inside, own, name, look.read.get(name, before), None))

    def _is_irrelevant(self, directory: Directory, own: str, name: str, status: os.stat_result) -> bool:
        """True if a new entry does not matter, as it would not be saved."""
        is_symbolic = stat.S_ISLNK(status.st_mode)
        is_directory = paths.is_directory(status) or (is_symbolic and self._leads_to_directory(directory, own))
        if is_of_vault(own, status) or self._exclude(own, name, is_directory=is_directory):
            return True
        if is_symbolic and self._follow is None:  # such as an editor's lock, which comes and goes
            with contextlib.suppress(OSError):
                return link_problem(name, directory.read_link(own), target_of=lambda _: None) is not None
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
        entries, links, problems = _entries_of(directory)
        if is_vault(entries):
            self._leave(tree, below or "./", VAULT)
            place.is_open = False
            return place
        if inside or self.prefix:
            tree.directories[f"{self.prefix}{below}".rstrip("/")] = directory.status()
        if IGNORE_NAME in entries:
            place.rules = self._read_rules(directory, inside)
        for own, reason in problems.items():  # each may be a directory
            self._leave(tree, below + own, reason, unread=True)
        strays = {name for name, status in entries.items() if is_of_vault(name, status)}
        if strays:
            self._leave(tree, f"{below}cmem.*.json", VAULT)
        place.ignored |= strays | problems.keys()
        for own, status in entries.items():
            if own in place.ignored:
                continue
            name, is_directory = below + own, paths.is_directory(status)
            is_directory |= own in links and self._leads_to_directory(directory, own)
            shown = f"{name}/" if is_directory else name
            if self._exclude(own, name, is_directory=is_directory):
                tree.ignored.append(self.prefix + shown)
                place.ignored.add(own)
                companions = steady.companions_of(own)
                parts = {part for part in companions if part not in place.ignored and is_file(entries.get(part))}
                if parts and steady.holds_database(directory, own):  # its companions have its data
                    place.ignored |= parts
                    tree.ignored += [f"{self.prefix}{below}{part}" for part in sorted(parts)]
                continue
            place.statuses[own] = status
            if own == GIT_NAME and _is_repository(directory):
                tree.repositories.append(self.prefix + name)
            elif reason := why_unsaved(own, self.prefix + name, status):
                self._leave(tree, shown, reason)
            elif own in links:
                tree.links[name] = links[own]
            elif is_directory:
                place.subdirectories.append((*inside, own))
            else:
                tree.files.append(Entry(self.root, inside, own, self.prefix + name, status))
        return place

    def _read_rules(self, place: Directory, inside: tuple[str, ...]) -> bytes | bytearray | None:
        try:
            with place.file(IGNORE_NAME) as (descriptor, status):
                rules = steady.read_plain(descriptor, status, limit=LARGEST).data
        except FileNotFoundError:
            return None  # it has just vanished
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
        decision = self._excluded.exclude(self.prefix + name, is_directory=is_directory)
        if decision is not None:
            return decision
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
    """The statuses of a directory's entries, the targets of its links, and the problems of unreadable entries."""
    entries, links, problems = dict[str, os.stat_result](), dict[str, str](), dict[str, str]()
    names = [*place.names()]
    for _ in range(_LOOKS):
        problems.clear()
        for name in names:
            try:
                status = place.look(name)
                if status is not None and stat.S_ISLNK(status.st_mode):
                    links[name] = place.read_link(name)
            except OSError as error:
                problems[name] = reason_of(error)
            else:
                if status is None:
                    problems[name] = steady.VANISHED
                else:
                    entries[name] = status
        # Entries that vanish or change their kind meanwhile, and are still listed, are looked at again.
        names = [*problems.keys() & {*place.names()}] if problems else []
    return entries, links, {name: problems[name] for name in names}


def _is_repository(place: Directory) -> bool:
    """True if the ``.git`` in a directory is git's: a repository, or a file that leads to one."""
    try:
        if is_file(place.look(GIT_NAME)):
            with place.file(GIT_NAME) as (descriptor, _):
                return steady.read_start(descriptor, len(_GITDIR)) == _GITDIR
        with place.enter(GIT_NAME) as inner:
            return is_file(inner.look("HEAD")) and paths.is_directory(inner.look("objects"))
    except OSError:
        return False
