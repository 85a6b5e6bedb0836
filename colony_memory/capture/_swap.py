"""Files into place, all or none: staged and synced out of sight, then moved, and moved back if a move fails.

Two ways in. A directory that is not there appears by a single rename. Into one that is, file after file is moved, and a
journal in the user's state directory says beforehand what is replaced and what is made: whoever comes next to a folder
in which this was cut off puts everything back.

Exchanging the whole directory for a copy would need no such repair, and is not done on purpose. The copy is another
directory: a container that has the folder mounted, a process that stands in it or a watcher goes on with the one that
is taken away, and what an agent writes there is lost. A mix that lasts for as long as the renames take costs less.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from colony_memory._os.directory import Directory, Reach
from colony_memory._os.paths import Identity, is_directory, is_link
from colony_memory._values import getLogger, replace
from colony_memory.capture._filenames import INDEX, STAGING_PREFIX, parents_of, quoted, whole_of
from colony_memory.capture._identity import boot_id
from colony_memory.capture._journal import MOVING, Journal, ModeChange, Step, Version, begin_record, start_lock
from colony_memory.capture._question import Displaced, FileInUse
from colony_memory.capture._recover import Undo, clear, discard, find_in_the_way, kept_of, remember, set_mode
from colony_memory.capture._stage import Stage, blaming, find_read_only, find_volumes, nearest, open_staging
from colony_memory.exceptions import ColonyMemoryError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from colony_memory.capture._journal import Record
    from colony_memory.capture._plan import Plan
    from colony_memory.capture._stage import Staging

logger = getLogger(__name__)

_WHOLE = "whole"


class FolderChanged(ColonyMemoryError):
    """The folder is not any more as it was looked at."""

    def __init__(self, name: str, path: Path) -> None:
        super().__init__(f"document {name!r}: {str(path)!r} was changed in the meantime; nothing was written")


def put_in_place(plan: Plan) -> None:
    """Do what the plan says, or raise ColonyMemoryError: then the folder is as it was, unless the message says else."""
    if not (plan.files or plan.directories or plan.removed or plan.dropped or plan.modes):
        return
    # What is there already is told by the plan: without the folder, it is not all.
    (_file_by_file if plan.found or os.path.lexists(plan.target) else _in_one_move)(plan)


def _in_one_move(plan: Plan) -> None:
    """Let the directory, with those above it that are missing, appear as a whole."""
    top = next(path for path in (plan.target, *plan.target.parents) if os.path.lexists(path.parent))
    above = blaming(f"directory {str(top.parent)!r}", plan.target)
    with ExitStack() as stack:
        with above:
            place = stack.enter_context(Directory.open(top.parent))
            stage = Stage(plan, place.status())
            # What appears is another directory, which no note was made for.
            journal = replace(_journal(plan, place), note=None)
        # The way back is one directory to remove; that it is known to whoever comes next is not worth a failure.
        try:
            _begin(stack, plan, journal, place)
        except OSError as error:
            logger.debug("nothing will be known of this restore if it is cut off: %s", error)
            stack.callback(discard, place, journal)
        with above:
            chain = [stack.enter_context(_made(place, journal.staging))]
            for name in (_WHOLE, *plan.target.relative_to(top).parts):
                chain.append(stack.enter_context(_made(chain[-1], name)))
        stage.write_tree(chain[-1])
        with blaming(f"directory {str(top)!r}", plan.target):
            for directory in chain[:0:-1]:
                if directory.descriptor is not None:
                    stage.give(directory.descriptor, f"{top.name}/", owner=stage.owner)
            stage.settle(*reversed(chain))
            chain[0].move(_WHOLE, place, top.name)
        try:
            place.sync()
        except OSError as error:
            logger.warning("%s is restored, but may not survive a power cut right now: %s", top, error)
    stage.warn()


def _file_by_file(plan: Plan) -> None:
    where = blaming(f"directory {str(plan.target)!r}", plan.target)
    with ExitStack() as stack:
        with where:
            folder = stack.enter_context(Directory.open(plan.target))
            above = folder.status()
            if plan.found not in (None, Identity.of(above)):
                raise ColonyMemoryError(f"{str(plan.target)!r} is another folder by now; nothing was written")
            with Reach(folder) as reach:
                changing = [*plan.files, *plan.directories, *plan.removed, *plan.logs]
                changing += [each.name for each in plan.dropped]
                volumes = find_volumes(reach, changing)
                tops = tuple(dict.fromkeys(volumes.values()))
                closed = find_read_only(reach, [*changing, *(f"{top}/" for top in tops)], volumes)
            journal = replace(_journal(plan, folder), volumes=tops, lent=closed)
        try:
            record = _begin(stack, plan, journal, folder)
        except OSError as error:
            raise ColonyMemoryError(
                f"what it takes to undo a restore cannot be kept ({error}): set XDG_STATE_HOME to a directory "
                f"that you can write to; nothing was changed in {str(plan.target)!r}"
            ) from error
        with where:
            with Reach(folder) as reach:
                for change in closed:
                    set_mode(reach, change)
            places = stack.enter_context(open_staging(folder, tops, journal.staging, making=True))
        stage = Stage(plan, above)
        moves = Moves(plan, folder, places, stage)
        planned = moves.prepare(journal, volumes)
        undo = Undo(planned, folder, places)
        with where:
            in_use = {} if plan.force else plan.users()
        if in_use:
            raise FileInUse(plan.target, in_use)
        try:
            with blaming("the state of the restore", plan.target):
                record.needed = True
                record.write(planned)
            moves.take(planned)
            moves.sync(planned)
            with where:
                moves.ask(planned)
                for name in undo.changed_originals():
                    raise FolderChanged(name, folder.path / name)
                record.write(planned.done())
                record.needed = False
        except BaseException as error:
            stranded = undo.put_back(record)
            if stranded:
                raise ColonyMemoryError(
                    f"restoring into {str(folder.path)!r} failed, and so did putting back {quoted(stranded)}; "
                    f"the originals are in {kept_of(journal)}, and the next restore or backup tries again"
                ) from error
            raise
        remember(journal)
    stage.warn()


def _journal(plan: Plan, place: Directory) -> Journal:
    return Journal(
        folder=str(plan.target),
        place=str(place.path),
        identity=Identity.of(place.status()),
        staging=STAGING_PREFIX + secrets.token_hex(8),
        boot=boot_id(),
        note=None if plan.note is None else dict(plan.note),
    )


def _begin(stack: ExitStack, plan: Plan, journal: Journal, place: Directory) -> Record:
    """Write down that a restore begins, and have its traces removed when the stack unwinds."""
    with start_lock():
        other = find_in_the_way(plan.target)
        if other is not None:
            raise ColonyMemoryError(f"a restore into {other!r} is under way: try again when it has ended")
        record = stack.enter_context(begin_record(journal))
    stack.callback(clear, record, journal, place)
    return record


@contextmanager
def _made(above: Directory, name: str) -> Iterator[Directory]:
    above.make(name)
    with above.enter(name) as directory:
        yield directory


class Moves:
    """Moves files between an open folder and its staging directories."""

    def __init__(self, plan: Plan, folder: Directory, places: Mapping[str, Staging], stage: Stage) -> None:
        self._plan = plan
        self._stage = stage
        self._folder = folder
        self._places = places

    def prepare(self, journal: Journal, volumes: dict[str, str]) -> Journal:
        """Stage what is new and keep what is going to be replaced; return the journal of what is to be done then."""
        plan, stage = self._plan, self._stage
        going = {**plan.removed, **plan.logs}
        numbers = {name: str(number) for number, name in enumerate([*going, *plan.files])}
        for name in numbers:  # The log of a database is told by the name that it has beside it.
            whole = whole_of(name)
            if whole in numbers:
                numbers[name] = numbers[whole] + name[len(whole) :]
        steps, made = [], []
        with Reach(self._folder) as reach:
            for name, number in numbers.items():
                volume = volumes[nearest(name, volumes)]
                there = going.get(name) or plan.replaced.get(name)
                old = None if there is None else Version.of(there)
                if old is not None and name in going and name.endswith(INDEX):
                    old = old._replace(size=-1, changed=-1)  # it is written to by whoever only reads
                new = stage.write(self._places[volume].new, number, name) if name in plan.files else None
                steps.append(Step(name, new, old, number, volume))
            for index, step in enumerate(steps):  # What is replaced gets a second name, where it can have one.
                if step.old is not None:
                    kept = self._places[step.volume].kept
                    with stage.blaming(step.name):
                        if _shares(*reach.parent(step.name), kept, step.number):
                            steps[index] = step._replace(shared=True)
                            if not step.old.fits(kept.look(step.number)):
                                raise self._changed(step.name)
            for parent, name in plan.parents():
                with stage.blaming(name):
                    if self._is_missing(reach, parent):
                        made.append(parent)
        with blaming(f"directory {str(plan.target)!r}", plan.target):
            for place in self._places.values():
                stage.settle(place.new, place.kept)
        modes = (
            ModeChange(name, old.st_ino, stat.S_IMODE(old.st_mode), new) for name, (old, new) in plan.modes.items()
        )
        return replace(
            journal, phase=MOVING, made=tuple(made), steps=tuple(steps), dropped=tuple(plan.dropped), modes=tuple(modes)
        )

    def take(self, journal: Journal) -> None:
        """Take every step of the journal."""
        stage = self._stage
        with Reach(self._folder) as reach:
            for step in journal.leaving:
                with stage.blaming(step.name):
                    self._take(reach, step)
            for each in journal.dropped:
                with stage.blaming(f"{each.name}/"):
                    directory, last = reach.parent(each.name)
                    directory.remove_directory(last)
            for name in journal.made:
                with stage.blaming(f"{name}/"):
                    directory, last = reach.parent(name)
                    try:
                        directory.make(last)
                    except FileExistsError:
                        if not is_directory(directory.look(last)):
                            raise self._changed(f"{name}/") from None
            for step in journal.coming:
                with stage.blaming(step.name):
                    self._take(reach, step)
            for change in journal.modes:
                with stage.blaming(change.name), stage.attempt("permissions", change.name):
                    set_mode(reach, change)
            for name in reversed(journal.made):
                with stage.blaming(f"{name}/"):
                    stage.finish_directory(reach.directory(name), name)

    def sync(self, journal: Journal) -> None:
        """Make the moves last."""
        with blaming(f"directory {str(self._folder.path)!r}", self._plan.target), Reach(self._folder) as reach:
            reach.sync(journal.names(), one_by_one=len(self._places) > 1)

    def ask(self, journal: Journal) -> None:
        """Have it judged whether what was displaced may go: what is written to its names changes it no more."""
        if self._plan.question is None:
            return
        with ExitStack() as stack:
            kept = {volume: stack.enter_context(Reach(place.kept)) for volume, place in self._places.items()}
            there = [(step, kept[step.volume].look(step.number)) for step in journal.steps if step.old is not None]
            displaced = [Displaced(step.name, kept[step.volume], step.number, at) for step, at in there if at]
            self._plan.question.require_saved(self._plan.target, displaced)

    def _is_missing(self, reach: Reach, parent: str) -> bool:
        if any(above in self._plan.removed for above in (*parents_of(parent), parent)):
            return True  # a file that makes way
        there = reach.look(parent)
        if there is not None and is_link(there):
            raise OSError(errno.ELOOP, "is a symbolic link", parent)
        return there is None

    def _take(self, reach: Reach, step: Step) -> None:
        """Put one file in place, or take it away; FolderChanged where is not any more what the plan was made for."""
        place = self._places[step.volume]
        directory, last = reach.parent(step.name)
        if step.old is None:
            # A second name, unlike a rename, never takes the place of a file that has come to be there.
            if not _shares(place.new, step.number, directory, last):
                if directory.look(last) is not None:
                    raise self._changed(step.name)
                place.new.move(step.number, directory, last)
            return
        kept = place.kept.look(step.number)
        there = directory.look(last)
        if there is None or not step.old.fits(there) or (kept and not os.path.samestat(there, kept)):
            raise self._changed(step.name)
        if kept is None:
            directory.move(last, place.kept, step.number)
            kept = place.kept.look(step.number)
            if kept is None or not os.path.samestat(there, kept):
                place.kept.move(step.number, directory, last)
                raise self._changed(step.name)
        elif step.new is None:
            directory.move(last, place.new, step.number)
            if not os.path.samestat(kept, place.new.look(step.number) or there):
                _shares(place.new, step.number, directory, last)
                raise self._changed(step.name)
        elif place.new.exchange(step.number, directory, last):
            # What somebody put there by a rename, after it was looked at, comes out and goes back.
            if not os.path.samestat(kept, place.new.look(step.number) or there):
                place.new.exchange(step.number, directory, last)
                raise self._changed(step.name)
            return
        if step.new is not None:
            place.new.move(step.number, directory, last)

    def _changed(self, name: str) -> FolderChanged:
        return FolderChanged(name, self._folder.path / name)


def _shares(one: Directory, name: str, other: Directory, other_name: str) -> bool:
    """Give a file a second name, where that is possible and the name is free."""
    try:
        one.share(name, other, other_name)
    except (OSError, NotImplementedError) as error:
        logger.debug("%s has no second name %s: %s", one.path / name, other_name, error)
        return False
    return True
