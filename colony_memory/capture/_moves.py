"""The moves of a restore into a folder that holds something: planned, written down, taken, or taken back."""

from __future__ import annotations

import errno
import logging
import os
import stat
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from colony_memory._os.kinds import PERMISSIONS, is_link
from colony_memory._os.reach import Reach
from colony_memory.capture._filenames import parents_of
from colony_memory.capture._journal import DONE, MOVING, Journal, ModeChange, Step, Version
from colony_memory.capture._question import Displaced
from colony_memory.capture._stage import Job, Stage, blaming, volume_of
from colony_memory.capture._steady import INDEX, whole_of
from colony_memory.capture._undo import Undo, set_mode
from colony_memory.exceptions import ColonyMemoryError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from colony_memory._os.directory import Directory
    from colony_memory.capture._stage import Staging
    from colony_memory.capture._state import Record

logger = logging.getLogger(__name__)


class Stranded(Exception):
    """Moving back failed too: ``names`` are not as they were, and what was replaced is in one of ``kept``."""

    def __init__(self, names: Sequence[str], kept: Sequence[Path]) -> None:
        super().__init__(names, kept)
        self.names = names
        self.kept = kept


def take(moves: Moves, journal: Journal, record: Record, stage: Stage) -> None:
    """Take all steps of a journal, or none.

    Raises:
        Stranded: One failed, and so did the way back.
    """
    undo = Undo(journal, moves.folder, moves.places)
    try:
        with blaming("the state of the restore"):
            record.needed = True
            record.write(journal)
        moves.take(journal, stage)
        moves.sync(journal)
        with blaming(f"directory {str(moves.folder.path)!r}"):
            moves.ask(journal)
            for name in undo.changed_originals():
                raise meanwhile(name, moves.folder.path / name)
            record.write(journal.at(DONE))
            record.needed = False
    except BaseException as error:
        stranded = undo.roll_back()
        if stranded:
            raise Stranded(stranded, [place.kept.path for place in moves.places.values()]) from error
        _forget(record, journal)
        raise


def _forget(record: Record, journal: Journal) -> None:
    """Say that all is as it was before anything that leads there is removed."""
    try:
        record.write(replace(journal.at(DONE), note=None))
    except OSError as error:
        logger.debug("the state of the restore goes at once: %s", error)
        if not record.remove():
            return
    record.needed = False


class Moves:
    """Moves files between an open folder and its staging directories."""

    def __init__(self, job: Job, folder: Directory, places: Mapping[str, Staging], volumes: dict[str, str]) -> None:
        self._job = job
        self.folder = folder
        self.places = places
        self._volumes = volumes

    def prepare(self, journal: Journal, stage: Stage) -> Journal:
        """Stage what is new and keep what is going to be replaced; return the journal of what is to be done then."""
        planned = self._plan()
        numbers = {name: str(number) for number, name in enumerate(planned)}
        for name in planned:
            # The log of a database is told by the name that it has beside it.
            whole = whole_of(name)
            if whole in numbers:
                numbers[name] = numbers[whole] + name[len(whole) :]
        steps = tuple(
            Step(name, None, old, numbers[name], volume_of(name, self._volumes)) for name, old in planned.items()
        )
        versions = stage.write_flat({step.name: (self.places[step.volume].new, step.number) for step in steps})
        shared = set()
        with Reach(self.folder) as reach:
            for step in steps:
                if step.old is not None:
                    with blaming(f"document {step.name!r}"):
                        if self._keep(reach, step, step.old):
                            shared.add(step.name)
            made = tuple(parent for parent, name in self._job.parents() if self._is_missing(reach, parent, name))
        with blaming(f"directory {str(self.folder.path)!r}"):
            for place in self.places.values():
                stage.settle(place.new, place.kept)
        return replace(
            journal.at(MOVING),
            settled=self._job.ask is None,
            made=made,
            given=self._permissions(made),
            steps=tuple(step._replace(new=versions.get(step.name), shared=step.name in shared) for step in steps),
            dropped=tuple(self._job.dropped),
            modes=tuple(
                ModeChange(name, there.st_ino, stat.S_IMODE(there.st_mode), mode)
                for name, (there, mode) in self._job.modes.items()
            ),
        )

    def _permissions(self, made: Sequence[str]) -> tuple[tuple[str, int], ...]:
        """Those that directories get which are made, where the system has any."""
        modes = {name: each.mode for name in made if (each := self._job.attributes.get(name)) and hasattr(os, "fchmod")}
        return tuple((name, mode & PERMISSIONS) for name, mode in modes.items() if mode is not None)

    def _plan(self) -> dict[str, Version | None]:
        """Every file that comes or goes, in order, with what is there."""
        planned: dict[str, Version | None] = {name: _version(name, there) for name, there in self._job.removed.items()}
        for name, file in self._job.files.items():
            planned.update((log, _version(log, there)) for log, there in file.drops.items())
            planned[name] = None if file.replaces is None else Version.of(file.replaces)
        return planned

    def take(self, journal: Journal, stage: Stage) -> None:
        """Take every step of the journal."""
        with Reach(self.folder) as reach:
            for step in journal.leaving:
                with blaming(f"document {step.name!r}"):
                    self._take(reach, step)
            for name, _ in journal.dropped:
                with blaming(f"directory {name!r}"):
                    directory, last = reach.parent(name)
                    directory.remove_directory(last)
            for name in journal.made:
                with blaming(f"document {name + '/'!r}"):
                    self._make_directory(reach, name)
            for step in journal.coming:
                with blaming(f"document {step.name!r}"):
                    self._take(reach, step)
            for change in journal.modes:
                with blaming(f"document {change.name!r}"), stage.attribution.attempt("permissions", change.name):
                    set_mode(reach, change, change.new)
            for name in reversed(journal.made):
                with blaming(f"document {name + '/'!r}"):
                    stage.finish_directory(reach.directory(name), name)

    def ask(self, journal: Journal) -> None:
        """Have it judged whether what was displaced may go; nothing that is written to its names changes it any more.

        Raises:
            ColonyMemoryError: It may not.
        """
        if self._job.ask is None:
            return
        with ExitStack() as stack:
            kept = {volume: stack.enter_context(Reach(place.kept)) for volume, place in self.places.items()}
            there = [(step, kept[step.volume].look(step.number)) for step in journal.steps if step.old is not None]
            self._job.ask(
                [Displaced(step.name, kept[step.volume], step.number, status) for step, status in there if status]
            )

    def sync(self, journal: Journal) -> None:
        """Make the moves last."""
        with blaming(f"directory {str(self.folder.path)!r}"), Reach(self.folder) as reach:
            reach.sync(journal.names(), one_by_one=len(self.places) > 1)

    def _keep(self, reach: Reach, step: Step, old: Version) -> bool:
        """Give a file that is going to be replaced or taken away a second name; whether it can have one."""
        kept = self.places[step.volume].kept
        directory, last = reach.parent(step.name)
        if not _shares(directory, last, kept, step.number):
            return False
        if not old.fits(kept.look(step.number)):
            raise meanwhile(step.name, self.folder.path / step.name)
        return True

    def _is_missing(self, reach: Reach, parent: str, name: str) -> bool:
        if any(above in self._job.removed for above in (*parents_of(parent), parent)):
            return True  # a file that makes way
        with blaming(f"document {name!r}"):
            there = reach.look(parent)
            if there is not None and is_link(there):
                raise OSError(errno.ELOOP, "is a symbolic link", parent)
            return there is None

    def _make_directory(self, reach: Reach, name: str) -> None:
        directory, last = reach.parent(name)
        try:
            directory.make(last)
        except FileExistsError:
            there = directory.look(last)
            if there is None or is_link(there) or not stat.S_ISDIR(there.st_mode):
                raise meanwhile(f"{name}/", self.folder.path / name) from None

    def _take(self, reach: Reach, step: Step) -> None:
        """Put one file in place, or take it away.

        Raises:
            ColonyMemoryError: There is no longer what the plan was made for.
        """
        place = self.places[step.volume]
        directory, last = reach.parent(step.name)
        if step.old is None:
            self._create(directory, last, place.new, step)
            return
        kept = place.kept.look(step.number)
        there = directory.look(last)
        if there is None or not step.old.fits(there) or (kept and not os.path.samestat(there, kept)):
            raise meanwhile(step.name, self.folder.path / step.name)
        if kept is None:
            directory.move(last, place.kept, step.number)
            kept = place.kept.look(step.number)
            if kept is None or not os.path.samestat(there, kept):
                place.kept.move(step.number, directory, last)
                raise meanwhile(step.name, self.folder.path / step.name)
        elif step.new is None:
            directory.clear(last)
        if step.new is not None:
            place.new.move(step.number, directory, last)

    def _create(self, directory: Directory, last: str, new: Directory, step: Step) -> None:
        # A second name, unlike a rename, never takes the place of a file that has come to be there.
        if _shares(new, step.number, directory, last):
            return
        if directory.look(last) is not None:
            raise meanwhile(step.name, self.folder.path / step.name)
        new.move(step.number, directory, last)


class Meanwhile(ColonyMemoryError):
    """The folder is not any more as it was looked at."""


def meanwhile(name: str, path: Path) -> Meanwhile:
    """What is said of that."""
    return Meanwhile(f"document {name!r}: {str(path)!r} was changed in the meantime; nothing was written")


def _version(name: str, there: os.stat_result) -> Version:
    version = Version.of(there)
    # The index of a log is written to by whoever only reads.
    return version._replace(size=-1, changed=-1) if name.endswith(INDEX) else version


def _shares(one: Directory, name: str, other: Directory, other_name: str) -> bool:
    """Give a file a second name, where that is possible and the name is free."""
    try:
        one.share(name, other, other_name)
    except (OSError, NotImplementedError) as error:
        logger.debug("%s has no second name %s: %s", one.path / name, other_name, error)
        return False
    return True
