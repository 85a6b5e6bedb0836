"""The steps of a restore, taken and taken back by what stands on disk and what the journal says.

A file that is replaced changes places with the new one, or is moved aside first where the file system exchanges no
names. Each step may be cut off anywhere, and so may the way back: it is taken up again.
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

    Task = tuple[str, Callable[..., object], Any]  # the name for a message, what to do, and about what

logger = getLogger(__name__)


class FolderChanged(ColonyMemoryError):
    """The folder is not any more as it was looked at."""

    def __init__(self, name: str, folder: Directory) -> None:
        path = str(folder.path / name)
        super().__init__(f"document {name!r}: {path!r} was changed in the meantime; nothing was written")


class Moves:
    """Moves files between an open folder and its staging directories; what it opens is closed with a stack."""

    def __init__(self, journal: Journal, folder: Directory, stack: contextlib.ExitStack) -> None:
        self.journal = journal
        self._folder = folder
        self._new, self._kept = (stack.enter_context(Reach(folder)) for _ in (NEW, KEPT))

    def take(self, stage: Stage) -> None:
        """Take every step of the journal."""
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
        """Make the moves last."""
        with Reach(self._folder) as reach:
            reach.sync(self.journal.names(), one_by_one=len(self.journal.volumes) > 1)

    def displaced(self) -> list[Displaced]:
        """The files moved aside; FolderChanged where something was written to one after it was looked at."""
        found = []
        for step in self.journal.steps:
            if step.old is None:
                continue
            at = self.journal.staged(step.volume, KEPT, step.number)
            there = self._kept.look(at)
            if is_directory(there):
                if self._kept.directory(at).names():  # who stands in it goes on writing there
                    raise FolderChanged(step.name, self._folder)
            elif there is None or not step.old.fits(there):
                raise FolderChanged(step.name, self._folder)
            else:
                found.append(Displaced(step.name, self._kept, at, there))
        return found

    def _take(self, reach: Reach, step: Step) -> None:
        """FolderChanged where is not any more what the plan was made for."""
        directory, last = reach.parent(step.name.rstrip("/"))
        if step.name.endswith("/"):
            with contextlib.suppress(FileExistsError):
                directory.make(last)
            if not is_directory(directory.look(last)):
                raise FolderChanged(step.name, self._folder)
            return
        new, kept, number = self._waiting(step)
        if step.old is not None:
            there = directory.look(last)
            if there is None or not step.old.fits(there):
                raise FolderChanged(step.name, self._folder)
            if step.new is not None and new.exchange(number, directory, last):
                # What somebody put there by a rename, after it was looked at, comes out and goes back.
                if not step.old.fits(new.look(number)):
                    new.exchange(number, directory, last)
                    raise FolderChanged(step.name, self._folder)
                new.move(number, kept, number)
                return
            if is_directory(there):
                _move_directory(directory, last, kept, number)
                is_it = _is_empty(kept, number)
            else:
                directory.move(last, kept, number)
                is_it = step.old.fits(kept.look(number))
            if not is_it:
                _put(kept, number, directory, last)
                raise FolderChanged(step.name, self._folder)
        if step.new is not None and not _put(new, number, directory, last):
            raise FolderChanged(step.name, self._folder)

    def _waiting(self, step: Step) -> tuple[Directory, Directory, str]:
        """The directories of the new file and of the old one, and the name in both; FileNotFoundError without."""
        new, kept = (self.journal.staged(step.volume, kind) for kind in (NEW, KEPT))
        return self._new.directory(new), self._kept.directory(kept), step.number

    # --- back

    def put_back(self, record: Record) -> list[str]:
        """Put everything back, and note it before anything that leads there goes; names for which that failed."""
        journal = self.journal
        tasks: list[Task] = [
            *((change.name, partial(set_mode, back=True), change) for change in journal.modes),
            # They have the permissions of the snapshot already, and may be closed by them.
            *((f"{name}/", _open_up, name) for name in reversed(journal.made())),
            *((step.name, self._take_back, step) for step in reversed(journal.steps)),
        ]
        with Reach(self._folder) as reach:
            stranded = [name for name, act, about in tasks if not succeeds("put back", name, act, reach, about)]
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
        # What others wrote since stays, next to the original or where it is; what is as it was is not touched.
        if step.name.endswith("/"):
            remove_empty(reach, step.name.rstrip("/"))
            return
        there = reach.look(step.name)
        new, kept, number = self._waiting(step)  # a volume may not be mounted any more
        is_new = there is not None and step.new is not None and step.new.fits(there)
        if step.old is None:
            if is_new:
                directory, last = reach.parent(step.name)
                directory.clear(last)
            return
        # What came out goes back, the original or what others had put in its place at that moment.
        source, out = kept, kept.look(number)
        if out is None:
            source, out = new, new.look(number)
            if out is None or (step.new is not None and step.new.fits(out)):
                return  # nothing did: what is there, or is not any more, is the doing of others
        if there is not None and (os.path.samestat(there, out) or (is_directory(there) and is_directory(out))):
            return
        directory, last = _nearest(reach, step.name)
        if there is not None and not is_new:
            other = _free_name(directory, last)
            path = directory.path / last
            logger.warning("%s was changed since a restore was cut off: it is kept as %s", path, other)
            directory.move(last, directory, other)
        if is_new and is_directory(out):
            directory.clear(last)
        source.move(number, directory, last)


def _move_directory(one: Directory, name: str, other: Directory, other_name: str) -> None:
    """Move an empty directory. overlayfs moves none of a lower layer: one that is made like it stands for it then."""
    try:
        one.move(name, other, other_name)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        other.make(other_name)
        with one.enter(name) as old, other.enter(other_name) as new:
            there = old.status()
            if new.descriptor is not None:
                if is_root():
                    os.fchown(new.descriptor, there.st_uid, there.st_gid)
                os.fchmod(new.descriptor, stat.S_IMODE(there.st_mode))
        one.remove_directory(name)


def _is_empty(directory: Directory, name: str) -> bool:
    with directory.enter(name) as inner:
        return not inner.names()


def _put(one: Directory, name: str, other: Directory, other_name: str) -> bool:
    """Move a file to a name that is free; False where it is not."""
    try:
        # Neither such a move nor a second name ever takes the place of a file that has come to be there.
        if not one.move_to_free(name, other, other_name):
            one.share(name, other, other_name)
            one.clear(name)
    except FileExistsError:
        return False
    except (OSError, NotImplementedError) as error:
        logger.debug("%s has no second name %s: %s", one.path / name, other_name, error)
        if other.look(other_name) is not None:
            return False
        one.move(name, other, other_name)
    return True


def remove_empty(reach: Reach, name: str) -> None:
    """Remove a directory unless there is something in it."""
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
    """Set permissions, or set them ``back``, of what still is what was meant, and as it was."""
    before, after = (change.new, change.old) if back else (change.old, change.new)
    with _if_there(), contextlib.ExitStack() as stack:
        if change.name.endswith("/"):
            descriptor = reach.directory(change.name.rstrip("/")).descriptor
        else:
            directory, last = reach.parent(change.name)
            descriptor, _ = stack.enter_context(directory.file(last))
        if descriptor is not None:
            there = os.fstat(descriptor)
            if (there.st_ino, stat.S_IMODE(there.st_mode)) == (change.inode, before):
                os.fchmod(descriptor, after)


def succeeds(done: str, name: str, act: Callable[..., object], *about: Any) -> bool:
    """Do something of the way back; False where that failed, which is logged."""
    try:
        act(*about)
    except OSError as error:
        logger.warning("%r could not be %s: %s", name, done, error)
        return False
    return True


@contextlib.contextmanager
def _if_there() -> Iterator[None]:
    """Pass over that nothing is there any more, or something else, or that the way there is gone."""
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
    """The place of an original: as it was, in directories made anew, or beside what is in the way of that."""
    for parent in parents_of(name):
        with _if_there():
            if reach.look(parent) is None:
                reach.make(parent)
            reach.directory(parent)
            continue
        directory = reach.directory(parent.rpartition("/")[0])
        other = _free_name(directory, name.rpartition("/")[2])
        logger.warning("%r cannot be where it was: it is kept as %s", name, directory.path / other)
        return directory, other
    return reach.parent(name)


def _free_name(directory: Directory, name: str) -> str:
    """A name beside ``name``: ``notes.md.local-20261128T031500Z``, with a number where that is taken."""
    ending = f".local-{datetime.now(timezone.utc):%Y%m%dT%H%M%SZ}"
    ends = itertools.chain([ending], (f"{ending}-{number}" for number in itertools.count(2)))
    cuts = ((name[:length] + end for length in range(len(name), 0, -1)) for end in ends)  # by whole letters
    names = (next(each for each in some if len(encode_name(each)) <= LONGEST_COMPONENT) for some in cuts)
    return next(each for each in names if directory.look(each) is None)
