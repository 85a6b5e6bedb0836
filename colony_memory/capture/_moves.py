"""The moves of a restore into a folder that holds something: planned, written down, taken, or taken back."""

from __future__ import annotations

import errno
import logging
import os
import stat
from dataclasses import replace
from typing import TYPE_CHECKING

from colony_memory._os.kinds import is_link
from colony_memory._os.reach import Reach
from colony_memory.capture._companions import INDEX
from colony_memory.capture._journal import DONE, MOVING, Journal, ModeChange, Step, Version
from colony_memory.capture._stage import Job, Stage, blaming
from colony_memory.capture._undo import Undo, set_mode
from colony_memory.exceptions import ColonyMemoryError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from colony_memory._os.directory import Directory
    from colony_memory.capture._state import Record

logger = logging.getLogger(__name__)


class Stranded(Exception):
    """Moving back failed too: ``names`` are not as they were, and what was replaced is in ``kept``."""

    def __init__(self, names: Sequence[str], kept: Path) -> None:
        super().__init__(names, kept)
        self.names = names
        self.kept = kept


def take(moves: Moves, journal: Journal, record: Record, stage: Stage) -> None:
    """Take all steps of a journal, or none.

    Raises:
        Stranded: One failed, and so did the way back.
    """
    undo = Undo(journal, moves.folder, moves.kept)
    try:
        with blaming("the state of the restore"):
            record.needed = True
            record.write(journal)
        moves.take(journal, stage)
        moves.sync(journal)
        with blaming(f"directory {str(moves.folder.path)!r}"):
            for name in undo.changed_originals():
                raise meanwhile(name, moves.folder.path / name)
            record.write(journal.at(DONE))
            record.needed = False
    except BaseException as error:
        stranded = undo.roll_back()
        if stranded:
            raise Stranded(stranded, moves.kept.path) from error
        _forget(record, journal)
        raise


def _forget(record: Record, journal: Journal) -> None:
    """Say that all is as it was before anything that leads there is removed."""
    try:
        record.write(journal.at(DONE))
    except OSError as error:
        logger.debug("the state of the restore goes at once: %s", error)
        if not record.remove():
            return
    record.needed = False


class Moves:
    """Moves files between an open folder and its staging directory."""

    def __init__(self, job: Job, folder: Directory, new: Directory, kept: Directory) -> None:
        self._job = job
        self.folder = folder
        self.new = new
        self.kept = kept

    def prepare(self, journal: Journal, stage: Stage) -> Journal:
        """Stage what is new and keep what is going to be replaced; return the journal of what is to be done then."""
        planned: list[tuple[str, Version | None]] = []
        for name, file in self._job.files.items():
            planned += ((log, _version(log, there)) for log, there in file.drops.items())
            planned.append((name, None if file.replaces is None else Version.of(file.replaces)))
        planned += ((name, _version(name, there)) for name, there in self._job.removed.items())
        numbers = {name: number for number, (name, _) in enumerate(planned)}
        versions = stage.write_flat(self.new, numbers)
        with Reach(self.folder) as reach:
            for number, (name, old) in enumerate(planned):
                if old is not None:
                    with blaming(f"document {name!r}"):
                        self._keep(reach, number, name, old)
            made = tuple(parent for parent, name in self._job.parents() if _is_missing(reach, parent, name))
        with blaming(f"directory {str(self.folder.path)!r}"):
            stage.settle(self.new, self.kept)
        return replace(
            journal.at(MOVING),
            made=made,
            steps=tuple(Step(name, versions.get(name), old) for name, old in planned),
            dropped=tuple(self._job.dropped),
            modes=tuple(
                ModeChange(name, there.st_ino, stat.S_IMODE(there.st_mode), mode)
                for name, (there, mode) in self._job.modes.items()
            ),
        )

    def take(self, journal: Journal, stage: Stage) -> None:
        """Take every step of the journal."""
        with Reach(self.folder) as reach:
            for name in journal.made:
                with blaming(f"document {name + '/'!r}"):
                    self._make_directory(reach, name)
            for number, step in enumerate(journal.steps):
                with blaming(f"document {step.name!r}"):
                    self._take(reach, number, step)
            for name, _ in journal.dropped:
                with blaming(f"directory {name!r}"):
                    directory, last = reach.parent(name)
                    directory.remove_directory(last)
            for change in journal.modes:
                with blaming(f"document {change.name!r}"), stage.attribution.attempt("permissions", change.name):
                    set_mode(reach, change, change.new)
            for name in reversed(journal.made):
                with blaming(f"document {name + '/'!r}"):
                    stage.finish_directory(reach.directory(name), name)

    def sync(self, journal: Journal) -> None:
        """Make the moves last."""
        with blaming(f"directory {str(self.folder.path)!r}"), Reach(self.folder) as reach:
            reach.sync(journal.names())

    def _keep(self, reach: Reach, number: int, name: str, old: Version) -> None:
        """Give a file that is going to be replaced or taken away a second name, if it can have one."""
        directory, last = reach.parent(name)
        if not _shares(directory, last, self.kept, str(number)):
            return
        if not old.fits(self.kept.look(str(number))):
            raise meanwhile(name, self.folder.path / name)

    def _make_directory(self, reach: Reach, name: str) -> None:
        directory, last = reach.parent(name)
        try:
            directory.make(last)
        except FileExistsError:
            there = directory.look(last)
            if there is None or is_link(there) or not stat.S_ISDIR(there.st_mode):
                raise meanwhile(f"{name}/", self.folder.path / name) from None

    def _take(self, reach: Reach, number: int, step: Step) -> None:
        """Put one file in place, or take it away.

        Raises:
            ColonyMemoryError: There is no longer what the plan was made for.
        """
        at = str(number)
        directory, last = reach.parent(step.name)
        if step.old is None:
            self._create(directory, last, at, step.name)
            return
        kept = self.kept.look(at)
        there = directory.look(last)
        if there is None or not step.old.fits(there) or (kept and not os.path.samestat(there, kept)):
            raise meanwhile(step.name, self.folder.path / step.name)
        if kept is None:
            directory.move(last, self.kept, at)
            kept = self.kept.look(at)
            if kept is None or not os.path.samestat(there, kept):
                self.kept.move(at, directory, last)
                raise meanwhile(step.name, self.folder.path / step.name)
        elif step.new is None:
            directory.clear(last)
        if step.new is not None:
            self.new.move(at, directory, last)

    def _create(self, directory: Directory, last: str, at: str, name: str) -> None:
        # A second name, unlike a rename, never takes the place of a file that has come to be there.
        if _shares(self.new, at, directory, last):
            return
        if directory.look(last) is not None:
            raise meanwhile(name, self.folder.path / name)
        self.new.move(at, directory, last)


def meanwhile(name: str, path: Path) -> ColonyMemoryError:
    """What is said where the folder is not any more as it was looked at."""
    return ColonyMemoryError(f"document {name!r}: {str(path)!r} was changed in the meantime; nothing was written")


def _version(name: str, there: os.stat_result) -> Version:
    version = Version.of(there)
    # The index of a log is written to by whoever only reads.
    return version._replace(size=-1, changed=-1) if name.endswith(INDEX) else version


def _is_missing(reach: Reach, parent: str, name: str) -> bool:
    with blaming(f"document {name!r}"):
        there = reach.look(parent)
        if there is not None and is_link(there):
            raise OSError(errno.ELOOP, "is a symbolic link", parent)
        return there is None


def _shares(one: Directory, name: str, other: Directory, other_name: str) -> bool:
    """Give a file a second name, where that is possible and the name is free."""
    try:
        one.share(name, other, other_name)
    except (OSError, NotImplementedError) as error:
        logger.debug("%s has no second name %s: %s", one.path / name, other_name, error)
        return False
    return True
