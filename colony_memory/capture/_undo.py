"""The way back from a restore that was not finished, by what stands on disk and what its journal says.

It is the same for a move that failed, for a restore that was interrupted and for one that was killed, and may itself be
cut off and taken again.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import logging
import os
import stat
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from colony_memory._os.kinds import UnfitFile, is_directory, is_link
from colony_memory._os.names import encode_name
from colony_memory._os.reach import Reach
from colony_memory.capture._filenames import LONGEST_COMPONENT, parents_of
from colony_memory.capture._journal import Version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from colony_memory._os.directory import Directory
    from colony_memory.capture._journal import Journal, ModeChange, Step

logger = logging.getLogger(__name__)

NEW, KEPT = "new", "kept"


class Undo:
    """Judges and takes back the steps of a journal in an open folder; ``kept`` holds the originals."""

    def __init__(self, journal: Journal, folder: Directory, kept: Directory) -> None:
        self.journal = journal
        self.folder = folder
        self.kept = kept

    def is_done(self) -> bool:
        """Whether all is in place, and no original was written to meanwhile."""
        try:
            with Reach(self.folder) as reach:
                return (
                    all(_version(reach.look(step.name)) == step.new for step in self.journal.steps)
                    and all(is_directory(reach.look(name)) for name in self.journal.made)
                    and not any(reach.look(name) for name, _ in self.journal.dropped)
                    and all(_has_mode(reach.look(change.name), change) for change in self.journal.modes)
                    and not self.changed_originals()
                )
        except OSError as error:
            logger.debug("it is not done: %s", error)
            return False

    def changed_originals(self) -> list[str]:
        """Names whose original was written to after it was judged."""
        return [
            step.name
            for number, step in enumerate(self.journal.steps)
            if step.old and not step.old.fits(self.kept.look(str(number)))
        ]

    def roll_back(self) -> list[str]:
        """Put everything back; return the names for which that failed.

        What was written into the folder since, by others, stays: next to the original, or where it is.
        """
        with Reach(self.folder) as reach:
            tasks = [*self._tasks(reach)]
            failed = [name for name, act in tasks if not _succeeds(name, act)]
            if not failed:
                self._sync(reach)
        return failed

    def _tasks(self, reach: Reach) -> Iterator[tuple[str, Callable[[], None]]]:
        for change in self.journal.modes:
            yield change.name, lambda change=change: set_mode(reach, change, change.old)  # type: ignore[misc]
        for name, mode in reversed(self.journal.dropped):
            yield f"{name}/", lambda name=name, mode=mode: _make_again(reach, name, mode)  # type: ignore[misc]
        for number, step in reversed([*enumerate(self.journal.steps)]):
            yield step.name, lambda number=number, step=step: self._take_back(reach, number, step)  # type: ignore[misc]
        for name in reversed(self.journal.made):
            yield f"{name}/", lambda name=name: _remove_made(reach, name)  # type: ignore[misc]

    def _take_back(self, reach: Reach, number: int, step: Step) -> None:
        original = self.kept.look(str(number)) if step.old else None
        try:
            directory, last = reach.parent(step.name)
        except OSError as error:
            if original is None and error.errno in (errno.ENOENT, errno.ELOOP, errno.ENOTDIR):
                return  # nothing of ours is there
            raise
        there = directory.look(last)
        if step.old is None:
            if there is not None and Version.of(there) == step.new:
                directory.clear(last)
            return
        if original is None or (there is not None and there.st_ino == step.old.inode):
            return
        if original.st_ino != step.old.inode:
            raise FileExistsError(errno.EEXIST, "a different file is where the original was kept", str(self.kept.path))
        if there is not None and Version.of(there) != step.new:
            _set_aside(directory, last)
        self.kept.move(str(number), directory, last)

    def _sync(self, reach: Reach) -> None:
        try:
            reach.sync(self.journal.names())
        except OSError as error:
            logger.warning("%s is as it was, but may not survive a power cut right now: %s", self.folder.path, error)


def set_mode(reach: Reach, change: ModeChange, mode: int) -> None:
    """Set the permissions of a file, if it still is the one that was meant."""
    directory, last = reach.parent(change.name)
    with contextlib.suppress(FileNotFoundError, UnfitFile), directory.file(last) as (descriptor, there):
        if there.st_ino == change.inode:
            os.fchmod(descriptor, mode)


def _version(status: os.stat_result | None) -> Version | None:
    return None if status is None else Version.of(status)


def _has_mode(status: os.stat_result | None, change: ModeChange) -> bool:
    return status is not None and (status.st_ino, stat.S_IMODE(status.st_mode)) == (change.inode, change.new)


def _succeeds(name: str, act: Callable[[], None]) -> bool:
    try:
        act()
    except OSError:
        logger.warning("%r could not be put back", name, exc_info=True)
        return False
    return True


def _make_again(reach: Reach, name: str, mode: int) -> None:
    directory, last = reach.parent(name)
    try:
        directory.make(last)
    except FileExistsError:
        return
    made = reach.directory(name).descriptor
    if made is not None:
        os.fchmod(made, mode)


def _remove_made(reach: Reach, name: str) -> None:
    if any(is_link(there) for parent in [*parents_of(name), name] if (there := _look(reach, parent)) is not None):
        return
    try:
        directory, last = reach.parent(name)
        directory.remove_directory(last)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        logger.info("%s stays: there is something of others in it", name)


def _look(reach: Reach, name: str) -> os.stat_result | None:
    try:
        return reach.look(name)
    except OSError:
        return None


def _set_aside(directory: Directory, name: str) -> None:
    """Give what others wrote a name of its own, next to where it was."""
    other = _free_name(directory, name, f".local-{datetime.now(timezone.utc):%Y%m%dT%H%M%SZ}")
    logger.warning("%s was changed since a restore was cut off: it is kept as %s", directory.path / name, other)
    directory.move(name, directory, other)


def _free_name(directory: Directory, name: str, ending: str) -> str:
    """A name beside ``name``: ``notes.md.local-20261128T031500Z``, with a number where that is taken."""
    ends = itertools.chain([ending], (f"{ending}-{number}" for number in itertools.count(2)))
    return next(other for other in (_fitted(name, end) for end in ends) if directory.look(other) is None)


def _fitted(name: str, end: str) -> str:
    while len(encode_name(name + end)) > LONGEST_COMPONENT:
        name = name[:-1]
    return name + end
