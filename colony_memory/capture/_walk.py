"""What is in a folder, before any of it is read: files with their sizes, directories, links, and what is neither."""

from __future__ import annotations

import stat
from dataclasses import field
from typing import TYPE_CHECKING

from colony_memory._os import kinds
from colony_memory._os.kinds import UnfitFile, is_file
from colony_memory._os.reach import open_below
from colony_memory._values import dataclass
from colony_memory.capture._companions import companions_of, holds_database
from colony_memory.capture._contents import VANISHED, NotSaved, read_contents, reason_of
from colony_memory.capture._ignore import IGNORE_NAME, LARGEST, Excluded, IgnoreRules
from colony_memory.capture._links import link_problem
from colony_memory.capture._patience import TookTooLong
from colony_memory.capture._steady import TooLarge
from colony_memory.capture._unsaved import VAULT, is_of_vault, is_vault, why_unsaved
from colony_memory.capture.git import GIT_NAME, is_repository
from colony_memory.exceptions import ColonyMemoryError

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from colony_memory._os.directory import Directory
    from colony_memory.capture._patience import Deadline, Patience

SECONDS = 60.0
"""How long the system has to answer for a directory, or for a small file."""

_LOOKS = 3


@dataclass(frozen=True)
class LeftOut:
    """Something in the folder that no document holds.

    Attributes:
        name: Path inside the folder, with ``/``; a directory ends with one.
        reason: Why it was left out.
        unread: It could have been saved, had it stood still or been readable: another snapshot may have it.
    """

    name: str
    reason: str
    unread: bool = field(default=True, compare=False)

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


@dataclass(frozen=True)
class Note:
    """Something that is good to know of a file or directory, and no fault.

    Attributes:
        name: Path inside the folder, with ``/``; a directory ends with one.
        text: What there is to know.
    """

    name: str
    text: str


@dataclass(frozen=True)
class Entry:
    """A file that was found, or a git repository.

    Attributes:
        root: Where the walk began.
        inside: The directories that lead to it from there.
        own: Its name there.
        name: Its name among all that is saved.
        status: What the system said of it when it was found; None of a repository.
    """

    root: Path
    inside: tuple[str, ...]
    own: str
    name: str
    status: os.stat_result | None = None

    @property
    def size(self) -> int:
        """Its bytes when it was found."""
        return 0 if self.status is None else self.status.st_size


@dataclass
class Tree:
    """What was found so far.

    Attributes:
        files: In the order in which they are to be read: a database before what is beside it.
        repositories: The ``.git`` of each.
        directories: All but those where a walk began for all names, with what the system says of them.
        links: With what they say.
        left_out: What is not going to be read.
        closed: Of that, the directories that cannot be looked into.
        ignored: What rules exclude.
        excluded: Rules of the caller, which come before those that are found.
    """

    files: list[Entry] = field(default_factory=list)
    repositories: list[Entry] = field(default_factory=list)
    directories: dict[str, os.stat_result] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)
    closed: list[LeftOut] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    excluded: Excluded = field(default_factory=Excluded)


@dataclass(frozen=True)
class _Listing:
    """A directory as it was at one moment: its status, name and status of what is in it, and what its links say."""

    own: os.stat_result
    entries: dict[str, os.stat_result]
    links: dict[str, str]
    left_out: dict[str, str]
    rules: bytes | bytearray | None
    repository: bool


def walk(root: Path, prefix: str, tree: Tree, patience: Patience) -> None:
    """Find all that is under a directory.

    Args:
        root: The directory.
        prefix: What comes before the names, empty or with a slash at its end.
        tree: Is added to.
        patience: Asks the system.

    Raises:
        ValueError: The directory cannot be read.
        ColonyMemoryError: Rules that exclude files cannot be read.
    """
    _Walk(root, prefix, tree, patience).run()


@dataclass
class _Walk:
    root: Path
    prefix: str
    tree: Tree
    patience: Patience
    rules: IgnoreRules = field(default_factory=IgnoreRules)
    links: dict[str, str] = field(default_factory=dict)

    def run(self) -> None:
        pending: list[tuple[str, ...]] = [()]
        while pending:
            inside = pending.pop()
            directory = "/".join(inside)
            try:
                listing = self.patience.run(lambda deadline: self._look(inside, deadline), seconds=SECONDS)  # noqa: B023
            except (OSError, TookTooLong) as error:
                if not inside:
                    raise ValueError(f"{str(self.root)!r} cannot be read: {reason_of(error)}") from error
                self._leave(f"{directory}/", reason_of(error), unread=True)
                self.tree.closed.append(self.tree.left_out[-1])
                continue
            if is_vault(listing.entries):
                self._leave(f"{directory}/" if inside else "./", VAULT)
                continue
            if inside or self.prefix:
                self.tree.directories[f"{self.prefix}{directory}".rstrip("/")] = listing.own
            if listing.rules is not None:
                self.rules.add(directory, listing.rules, where=str(self.root / directory / IGNORE_NAME))
            pending += reversed(self._sort(inside, listing))
        self._judge_links()

    def _look(self, inside: tuple[str, ...], deadline: Deadline) -> _Listing:
        with open_below(self.root, inside) as place:
            for _ in range(_LOOKS):
                entries, vanished = _look_at(place, deadline)
                # What has got another name meanwhile is found when the directory is read anew.
                if not vanished:
                    break
            rules = self._read_rules(place, inside, deadline) if IGNORE_NAME in entries else None
            links = {name: place.read_link(name) for name, status in entries.items() if stat.S_ISLNK(status.st_mode)}
            return _Listing(
                place.status(),
                entries,
                links,
                vanished,
                rules,
                GIT_NAME in entries and is_repository(place),
            )

    def _read_rules(self, place: Directory, inside: tuple[str, ...], deadline: Deadline) -> bytes | bytearray:
        try:
            return read_contents(place, IGNORE_NAME, limit=LARGEST, deadline=deadline).data
        except (NotSaved, TooLarge, OSError) as error:
            reason = error.strerror if isinstance(error, UnfitFile) else reason_of(error)
            where = self.root.joinpath(*inside, IGNORE_NAME)
            raise ColonyMemoryError(f"{str(where)!r}: {reason}, so its rules could not be applied") from error

    def _sort(self, inside: tuple[str, ...], listing: _Listing) -> list[tuple[str, ...]]:
        """Put everything in a directory where it belongs, and return the directories to go into."""
        below = "".join(f"{name}/" for name in inside)
        for own, reason in listing.left_out.items():
            self._leave(below + own, reason)
        entries, done, deeper = listing.entries, set[str](), []
        strays = [name for name, status in entries.items() if is_of_vault(name, status)]
        if strays:
            self._leave(f"{below}cmem.*.json", VAULT)
            entries = {name: status for name, status in entries.items() if name not in strays}
        for own, status in entries.items():
            if own in done:
                continue
            done.add(own)
            name, is_directory = below + own, kinds.is_directory(status)
            shown = f"{name}/" if is_directory else name
            if self._exclude(own, name, is_directory=is_directory):
                self.tree.ignored.append(self.prefix + shown)
                parts = [part for part in companions_of(own) if part not in done and is_file(entries.get(part))]
                if parts and self._is_database(inside, own):  # what is beside it holds the same
                    done.update(parts)
                    self.tree.ignored += [f"{self.prefix}{below}{part}" for part in parts]
            elif own == GIT_NAME and listing.repository:
                self.tree.repositories.append(Entry(self.root, inside, own, self.prefix + name))
            elif reason := why_unsaved(own, self.prefix + name, status):
                self._leave(shown, reason)
            elif is_directory:
                deeper.append((*inside, own))
            elif own in listing.links:
                self.links[name] = listing.links[own]
            else:
                self.tree.files.append(Entry(self.root, inside, own, self.prefix + name, status))
        return deeper

    def _is_database(self, inside: tuple[str, ...], own: str) -> bool:
        def look(_: Deadline) -> bool:
            with open_below(self.root, inside) as place:
                return holds_database(place, own)

        try:
            return self.patience.run(look, seconds=SECONDS)
        except (OSError, TookTooLong):
            return False

    def _exclude(self, own: str, name: str, *, is_directory: bool) -> bool:
        asked = self.tree.excluded.judge(self.prefix + name, is_directory=is_directory)
        if asked is not None:
            return asked
        return own != IGNORE_NAME and self.rules.exclude(name, is_directory=is_directory)

    def _judge_links(self) -> None:
        for name, target in self.links.items():
            problem = link_problem(name, target, said_by=self.links.get)
            if problem:
                self._leave(name, f"{problem}; it is not followed")
            else:
                self.tree.links[self.prefix + name] = target

    def _leave(self, name: str, reason: str, *, unread: bool = False) -> None:
        self.tree.left_out.append(LeftOut(self.prefix + name, reason, unread))


def _look_at(place: Directory, deadline: Deadline) -> tuple[dict[str, os.stat_result], dict[str, str]]:
    found, lost = {}, {}
    for name in place.names():
        deadline.check()
        try:
            status = place.look(name)
        except OSError as error:
            lost[name] = reason_of(error)
            continue
        if status is None:
            lost[name] = VANISHED
        else:
            found[name] = status
    return found, lost
