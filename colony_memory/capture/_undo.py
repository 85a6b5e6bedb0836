"""The way back from a restore that was not finished, by what stands on disk and what its journal says.

It is the same for a move that failed, for a restore that was interrupted and for one that was killed, and may itself be
cut off and taken up again.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import logging
import os
import stat
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING

from colony_memory._os.directory import Directory, Reach
from colony_memory._os.paths import PERMISSIONS, UnfitFile, encode_name, is_directory
from colony_memory.capture._filenames import LONGEST_COMPONENT, parents_of
from colony_memory.capture._journal import Version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from colony_memory.capture._journal import Journal, ModeChange, Record, Step
    from colony_memory.capture._stage import Staging

logger = logging.getLogger(__name__)

#: What a way through a folder fails with that leads where no such directory is any more.
_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})


class Undo:
    """Judges and takes back the steps of a journal in an open folder.

    Args:
        journal: The restore.
        folder: Where it writes.
        places: The staging directory of each volume that still has one.
    """

    def __init__(self, journal: Journal, folder: Directory, places: Mapping[str, Staging]) -> None:
        self.journal = journal
        self.folder = folder
        self.places = places

    def is_done(self) -> bool:
        """All is in place and may stay so, and no original was written to meanwhile."""
        if not self.journal.settled:
            return False
        try:
            with Reach(self.folder) as reach:
                return (
                    all(_version(_look(reach, step.name)) == step.new for step in self.journal.steps)
                    and all(is_directory(reach.look(name)) for name in self.journal.made)
                    and all(_has_permissions(reach.look(name), mode) for name, mode in self.journal.given)
                    and not any(is_directory(_look(reach, name)) for name, _ in self.journal.dropped)
                    and all(_has_mode(reach.look(change.name), change) for change in self.journal.modes)
                    and not self.changed_originals()
                )
        except OSError as error:
            logger.debug("it is not done: %s", error)
            return False

    def changed_originals(self) -> list[str]:
        """Names whose original was written to after it was judged."""
        return [step.name for step in self.journal.steps if step.old and not step.old.fits(self._original(step))]

    def put_back(self, record: Record) -> list[str]:
        """Put everything back, and say so before anything that leads there is removed; names for which that failed."""
        stranded = self.roll_back()
        if not stranded:
            try:
                record.write(self.journal.done(note=False))
                record.needed = False
            except OSError as error:
                logger.debug("the journal of the restore goes at once: %s", error)
                record.needed = not record.remove()
        return stranded

    def roll_back(self) -> list[str]:
        """Put everything back; return the names for which that failed.

        What was written into the folder since, by others, stays: next to the original, or where it is. What was
        never done is not undone, and nothing is touched that is as it was.
        """
        with Reach(self.folder) as reach:
            failed = [name for name, act in [*self._tasks(reach)] if not _succeeds(name, act)]
            if not failed:
                try:
                    reach.sync(self.journal.names(), one_by_one=len(self.places) > 1)
                except OSError as error:
                    path = self.folder.path
                    logger.warning("%s is as it was, but may not survive a power cut right now: %s", path, error)
        return failed

    def _tasks(self, reach: Reach) -> Iterator[tuple[str, Callable[[], None]]]:
        journal = self.journal
        for change in journal.modes:
            yield change.name, partial(_set_back, reach, change)
        for step in reversed(journal.coming):
            yield step.name, partial(self._take_back, reach, step)
        for name in reversed(journal.made):
            yield f"{name}/", partial(self._remove_made, reach, name)
        for name, _ in reversed(journal.dropped):
            yield f"{name}/", partial(_make_again, reach, name)
        for step in reversed(journal.leaving):
            yield step.name, partial(self._take_back, reach, step)
        for name, mode in journal.dropped:  # with what was in them: they may be read-only
            yield f"{name}/", partial(_close_again, reach, name, mode)

    def _original(self, step: Step) -> os.stat_result | None:
        place = self.places.get(step.volume)
        return None if place is None else place.kept.look(step.number)

    def _take_back(self, reach: Reach, step: Step) -> None:
        original = self._original(step) if step.old else None
        there = _look(reach, step.name)
        if step.old is None:
            if there is not None and Version.of(there) == step.new:
                self._take_out(reach, step.name, Directory.clear)
            return
        if original is None or (there is not None and there.st_ino == step.old.inode):
            return
        place = self.places[step.volume]
        if original.st_ino != step.old.inode:
            raise FileExistsError(errno.EEXIST, "a different file is where the original was kept", str(place.kept.path))
        if step.shared and (
            _version(there) is not None if step.new is None else place.new.look(step.number) is not None
        ):
            return  # it was never replaced or taken away: what is there, or is not any more, is the doing of others
        directory, last = _nearest(reach, step.name)
        if there is not None and Version.of(there) != step.new:
            _set_aside(directory, last)
        place.kept.move(step.number, directory, last)

    def _remove_made(self, reach: Reach, name: str) -> None:
        if not is_directory(_look(reach, name)):
            return
        try:
            self._take_out(reach, name, Directory.remove_directory)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            logger.info("%s stays: there is something of others in it", name)

    def _take_out(self, reach: Reach, name: str, remove: Callable[[Directory, str], None]) -> None:
        directory, last = reach.parent(name)
        try:
            remove(directory, last)
        except PermissionError:
            if directory.descriptor is None or name.rpartition("/")[0] not in self.journal.made:
                raise
            os.fchmod(directory.descriptor, 0o700)  # it has the permissions of the snapshot already
            remove(directory, last)


def set_mode(reach: Reach, change: ModeChange, mode: int) -> None:
    """Set the permissions of a file, if it still is the one that was meant."""
    directory, last = reach.parent(change.name)
    with contextlib.suppress(FileNotFoundError, UnfitFile), directory.file(last) as (descriptor, there):
        if there.st_ino == change.inode:
            os.fchmod(descriptor, mode)


def lend(folder: Directory, changes: Iterable[ModeChange]) -> None:
    """Let directories be written to, as far as they still are those that were meant, and are as they were."""
    with Reach(folder) as reach:
        for change in changes:
            _set_directory(reach, change.name, change.inode, change.old, change.new)


def give_back(folder: Directory, changes: Iterable[ModeChange]) -> bool:
    """Give those directories their permissions back; return whether that could be done."""
    with Reach(folder) as reach:
        done = [
            _succeeds(
                f"{change.name}/", partial(_set_directory, reach, change.name, change.inode, change.new, change.old)
            )
            for change in changes
        ]
    return all(done)


def _succeeds(name: str, act: Callable[[], None]) -> bool:
    try:
        act()
    except OSError:
        logger.warning("%r could not be put back", name, exc_info=True)
        return False
    return True


def _set_directory(reach: Reach, name: str, inode: int, old: int, new: int) -> None:
    try:
        directory = reach.directory(name)
    except OSError as error:
        if error.errno not in _GONE:
            raise
        return
    there = directory.status()
    if directory.descriptor is not None and (there.st_ino, stat.S_IMODE(there.st_mode)) == (inode, old):
        os.fchmod(directory.descriptor, new)


def _set_back(reach: Reach, change: ModeChange) -> None:
    if _has_mode(_look(reach, change.name), change):
        set_mode(reach, change, change.old)


def _make_again(reach: Reach, name: str) -> None:
    if _look(reach, name) is None:
        directory, last = _nearest(reach, name)
        directory.make(last)


def _close_again(reach: Reach, name: str, mode: int) -> None:
    there = _look(reach, name)
    if there is not None and is_directory(there):
        _set_directory(reach, name, there.st_ino, stat.S_IMODE(there.st_mode), mode)


def _look(reach: Reach, name: str) -> os.stat_result | None:
    """The status of a name, None also where the way there is no more."""
    try:
        return reach.look(name)
    except OSError as error:
        if error.errno not in _GONE:
            raise
        return None


def _version(status: os.stat_result | None) -> Version | None:
    """Of the file that is there; a directory that has its name by now is none."""
    return None if status is None or is_directory(status) else Version.of(status)


def _has_permissions(status: os.stat_result | None, mode: int) -> bool:
    return status is not None and status.st_mode & PERMISSIONS == mode


def _has_mode(status: os.stat_result | None, change: ModeChange) -> bool:
    return status is not None and (status.st_ino, stat.S_IMODE(status.st_mode)) == (change.inode, change.new)


def _nearest(reach: Reach, name: str) -> tuple[Directory, str]:
    """The place of an original: as it was, in directories made anew, or beside what is in the way of that."""
    for parent in parents_of(name):
        try:
            directory, last = reach.parent(parent)
            if directory.look(last) is None:
                directory.make(last)
            reach.directory(parent)
        except OSError as error:
            if error.errno not in _GONE:
                raise
            directory = reach.directory(parent.rpartition("/")[0])
            other = _free_name(directory, name.rpartition("/")[2])
            logger.warning("%r cannot be where it was: it is kept as %s", name, directory.path / other)
            return directory, other
    return reach.parent(name)


def _set_aside(directory: Directory, name: str) -> None:
    """Give what others wrote a name of its own, next to where it was."""
    other = _free_name(directory, name)
    logger.warning("%s was changed since a restore was cut off: it is kept as %s", directory.path / name, other)
    directory.move(name, directory, other)


def _free_name(directory: Directory, name: str) -> str:
    """A name beside ``name``: ``notes.md.local-20261128T031500Z``, with a number where that is taken."""
    ending = f".local-{datetime.now(timezone.utc):%Y%m%dT%H%M%SZ}"
    for end in itertools.chain([ending], (f"{ending}-{number}" for number in itertools.count(2))):
        fitted = name
        while len(encode_name(fitted + end)) > LONGEST_COMPONENT:
            fitted = fitted[:-1]
        if directory.look(fitted + end) is None:
            return fitted + end
    raise AssertionError  # there are names without end
