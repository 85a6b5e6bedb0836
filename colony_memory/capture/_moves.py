"""The steps of a restore, done and undone by the state on disk and the journal.

A replaced file is exchanged with the new one, or is moved aside first if the file system cannot exchange names. Each
step may be interrupted anywhere, and so may its undoing, which is then resumed.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import stat
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any

from colony_memory._os.directory import GONE, Directory, Reach
from colony_memory._os.paths import UnfitFile, encode_name, is_directory
from colony_memory._values import getLogger
from colony_memory.capture._filenames import LONGEST_COMPONENT, parents_of
from colony_memory.capture._question import Displaced
from colony_memory.capture._stage import KEPT, NEW, Stage, is_root
from colony_memory.exceptions import ColonyMemoryError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from colony_memory.capture._journal import Journal, ModeChange, Record, Step

    Task = tuple[str, Callable[..., object], Any]  # the name for a message, the function, and its argument

logger = getLogger(__name__)


class FolderChanged(ColonyMemoryError):
    """The folder has changed since it was looked at."""

    def __init__(self, name: str, folder: Directory) -> None:
        path = str(folder.path / name)
        super().__init__(f"document {name!r}: {path!r} was changed in the meantime; nothing was written")


class Moves:
    """The moves between an open folder and its staging directories, which are closed with ``stack``."""

    def __init__(self, journal: Journal, folder: Directory, stack: contextlib.ExitStack) -> None:
        self.journal = journal
        self._folder = folder
        self._new, self._kept = (stack.enter_context(Reach(folder)) for _ in (NEW, KEPT))

    def take(self, stage: Stage) -> None:
        """Do every step of the journal."""
        with Reach(self._folder) as reach:
            for step in self.journal.steps:
                with stage.blaming(step.name):
                    self._take(reach, step)
            for change in self.journal.modes:
                with stage.blaming(change.name), stage.attempt("permissions", change.name):
                    set_mode(reach, change)
            for name in self.journal.made():
                with stage.blaming(f"{name}/"):
                    stage.finish_directory(reach.directory(name), name)

    def sync(self) -> None:
        """Sync the moves to disk."""
        with Reach(self._folder) as reach:
            reach.sync(self.journal.names(), one_by_one=len(self.journal.volumes) > 1)

    def displaced(self) -> list[Displaced]:
        """The files that were moved aside; FolderChanged if one was written to since it was looked at."""
        found = []
        for step in self.journal.steps:
            if step.old is None:
                continue
            at = self.journal.staged(step.volume, KEPT, step.number)
            status = self._kept.look(at)
            if is_directory(status):
                if self._kept.directory(at).names():  # a program that works in it goes on writing there
                    raise FolderChanged(step.name, self._folder)
            elif status is None or not step.old.fits(status):
                raise FolderChanged(step.name, self._folder)
            else:
                found.append(Displaced(step.name, self._kept, at, status))
        return found

    def _take(self, reach: Reach, step: Step) -> None:
        """Do one step; FolderChanged if its name is not as it was for the plan."""
        directory, last = reach.parent(step.name.rstrip("/"))
        if step.name.endswith("/"):
            with contextlib.suppress(FileExistsError):
                directory.make(last)
            if not is_directory(directory.look(last)):
                raise FolderChanged(step.name, self._folder)
            return
        new, kept, number = self._staged(step)
        if step.old is not None:
            status = directory.look(last)
            if status is None or not step.old.fits(status):
                raise FolderChanged(step.name, self._folder)
            if step.new is not None and new.exchange(number, directory, last):
                # A file that somebody moved there since the look comes out, and goes back.
                if not step.old.fits(new.look(number)):
                    new.exchange(number, directory, last)
                    raise FolderChanged(step.name, self._folder)
                new.move(number, kept, number)
                return
            if is_directory(status):
                _move_directory(directory, last, kept, number)
                with kept.enter(number) as inner:
                    fits = not inner.names()
            else:
                directory.move(last, kept, number)
                fits = step.old.fits(kept.look(number))
            if not fits:
                _put(kept, number, directory, last)
                raise FolderChanged(step.name, self._folder)
        if step.new is not None and not _put(new, number, directory, last):
            raise FolderChanged(step.name, self._folder)

    def _staged(self, step: Step) -> tuple[Directory, Directory, str]:
        """The directories of the new file and of the old one, and the name in both; FileNotFoundError if missing."""
        new, kept = (self.journal.staged(step.volume, kind) for kind in (NEW, KEPT))
        return self._new.directory(new), self._kept.directory(kept), step.number

    # --- the way back

    def put_back(self, record: Record) -> list[str]:
        """Put everything back and record that, before any means to do so is removed; return the names that failed."""
        journal = self.journal
        tasks: list[Task] = [
            *((change.name, partial(set_mode, back=True), change) for change in journal.modes),
            # New directories have the permissions of the snapshot already, and may be closed.
            *((f"{name}/", _open_up, name) for name in reversed(journal.made())),
            *((step.name, self._take_back, step) for step in reversed(journal.steps)),
        ]
        with Reach(self._folder) as reach:
            stranded = [name for name, act, argument in tasks if not succeeds("put back", name, act, reach, argument)]
            if stranded:
                return stranded
        try:
            self.sync()
        except OSError as error:
            logger.warning("%s is as it was, but may not survive a power cut: %s", self._folder.path, error)
        try:
            record.write(journal.undone())
        except OSError as error:
            logger.debug("the journal of the restore goes at once: %s", error)
            if record.remove():
                record.journal = journal.undone()
        return []

    def _take_back(self, reach: Reach, step: Step) -> None:
        # Files that others wrote since stay, next to the original or in place; unchanged ones are not touched.
        if step.name.endswith("/"):
            remove_empty(reach, step.name.rstrip("/"))
            return
        status = reach.look(step.name)
        new, kept, number = self._staged(step)  # a volume may not be mounted any more
        is_new = status is not None and step.new is not None and step.new.fits(status)
        if step.old is None:
            if is_new:
                directory, last = reach.parent(step.name)
                directory.clear(last)
            return
        # The file that came out goes back: the original, or one that others had put in its place by then.
        source, out = kept, kept.look(number)
        if out is None:
            source, out = new, new.look(number)
            if out is None or (step.new is not None and step.new.fits(out)):
                return  # no file came out: the present state is the doing of others
        if status is not None and (os.path.samestat(status, out) or (is_directory(status) and is_directory(out))):
            return
        directory, last = _nearest(reach, step.name)
        if status is not None and not is_new:
            free_name = _free_name(directory, last)
            path = directory.path / last
            logger.warning("%s was changed since a restore was cut off: it is kept as %s", path, free_name)
            directory.move(last, directory, free_name)
        if is_new and is_directory(out):
            directory.clear(last)
        source.move(number, directory, last)


def _move_directory(source: Directory, name: str, target: Directory, new_name: str) -> None:
    """Move an empty directory, or make one like it, as overlayfs cannot move a directory of a lower layer."""
    try:
        source.move(name, target, new_name)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        target.make(new_name)
        with source.enter(name) as old, target.enter(new_name) as new:
            status = old.status()
            if new.descriptor is not None:
                if is_root():
                    os.fchown(new.descriptor, status.st_uid, status.st_gid)
                os.fchmod(new.descriptor, stat.S_IMODE(status.st_mode))
        source.remove_directory(name)


def _put(source: Directory, name: str, target: Directory, new_name: str) -> bool:
    """Move a file to a free name; false if it is taken."""
    try:
        # Neither this move nor a hard link ever replaces a file that appears there meanwhile.
        if not source.move_to_free(name, target, new_name):
            source.share(name, target, new_name)
            source.clear(name)
    except FileExistsError:
        return False
    except (OSError, NotImplementedError) as error:
        logger.debug("%s has no second name %s: %s", source.path / name, new_name, error)
        if target.look(new_name) is not None:
            return False
        source.move(name, target, new_name)
    return True


def remove_empty(reach: Reach, name: str) -> None:
    """Remove a directory if it is empty."""
    if not is_directory(reach.look(name)):
        return
    try:
        directory, last = reach.parent(name)
        directory.remove_directory(last)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        logger.info("%s stays: there is something of others in it", name)


def set_mode(reach: Reach, change: ModeChange, back: bool = False) -> None:
    """Set permissions, or with ``back`` reset them, if the inode and the permissions are still as expected."""
    before, after = (change.new, change.old) if back else (change.old, change.new)
    with _if_there(), contextlib.ExitStack() as stack:
        if change.name.endswith("/"):
            descriptor = reach.directory(change.name.rstrip("/")).descriptor
        else:
            directory, last = reach.parent(change.name)
            descriptor, _ = stack.enter_context(directory.file(last))
        if descriptor is not None:
            status = os.fstat(descriptor)
            if (status.st_ino, stat.S_IMODE(status.st_mode)) == (change.inode, before):
                os.fchmod(descriptor, after)


def succeeds(action: str, name: str, act: Callable[..., object], *arguments: Any) -> bool:
    """Do one thing of the way back; false if it failed, which is logged."""
    try:
        act(*arguments)
    except OSError as error:
        logger.warning("%r could not be %s: %s", name, action, error)
        return False
    return True


@contextlib.contextmanager
def _if_there() -> Iterator[None]:
    """Ignore errors of a name that is gone, is something else by now, or whose directory is."""
    try:
        yield
    except OSError as error:
        if error.errno not in GONE and not isinstance(error, UnfitFile):
            raise


def _open_up(reach: Reach, name: str) -> None:
    with _if_there():
        directory, last = reach.parent(name)
        directory.open_up(last)


def _nearest(reach: Reach, name: str) -> tuple[Directory, str]:
    """The place for an original: its own, with directories made anew, or next to the obstacle on the way there."""
    for parent in parents_of(name):
        with _if_there():
            if reach.look(parent) is None:
                reach.make(parent)
            reach.directory(parent)
            continue
        directory = reach.directory(parent.rpartition("/")[0])
        free_name = _free_name(directory, name.rpartition("/")[2])
        logger.warning("%r cannot be where it was: it is kept as %s", name, directory.path / free_name)
        return directory, free_name
    return reach.parent(name)


def _free_name(directory: Directory, name: str) -> str:
    """A free name next to ``name``: ``notes.md.local-20261128T031500Z``, with a number if that is taken."""
    ending = f".local-{datetime.now(timezone.utc):%Y%m%dT%H%M%SZ}"
    ends = itertools.chain([ending], (f"{ending}-{number}" for number in itertools.count(2)))
    cuts = ((name[:length] + end for length in range(len(name), 0, -1)) for end in ends)  # by whole characters
    names = (next(cut for cut in group if len(encode_name(cut)) <= LONGEST_COMPONENT) for group in cuts)
    return next(free for free in names if directory.look(free) is None)
