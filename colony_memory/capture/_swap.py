"""Files into place, all or none: staged and synced out of sight, then moved, and moved back if a move fails.

Two ways in. A directory that is not there, or is empty, appears by a single rename. Into a directory that holds
something, file after file is moved, and a journal in the user's state directory says beforehand what is replaced and
what is made: whoever comes next to a folder in which this was cut off puts everything back.

Exchanging the whole directory for a copy would need no such repair, and is not done on purpose. The copy is another
directory: a container that has the folder mounted, a process that stands in it or holds it open, a watcher or an
export goes on with the one that is taken away, unseen by anything that could be asked beforehand, and what an agent
writes there is lost. It would also touch every file that the restore is not about, with journals of live databases
among them. A mix that lasts for as long as the renames take, and that the next command ends, costs less.
"""

from __future__ import annotations

import errno
import logging
import os
import secrets
import stat
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from colony_memory._os import disk
from colony_memory._os.directory import Directory, Reach
from colony_memory._os.paths import PERMISSIONS, Identity, is_link
from colony_memory._values import replace
from colony_memory.capture._filenames import STAGING_PREFIX, parents_of, quoted
from colony_memory.capture._journal import MOVING, Journal, ModeChange, Step, Version, begin_record, boot_id, start_lock
from colony_memory.capture._question import Displaced
from colony_memory.capture._recover import clear, discard, find_unfinished, kept_of, remember
from colony_memory.capture._stage import Failed, Stage, blaming, find_read_only, find_volumes, open_staging, volume_of
from colony_memory.capture._steady import INDEX, whole_of
from colony_memory.capture._undo import Undo, lend, set_mode
from colony_memory.exceptions import ColonyMemoryError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from colony_memory.capture._journal import Record
    from colony_memory.capture._plan import Plan
    from colony_memory.capture._stage import Staging

logger = logging.getLogger(__name__)

# Reasons for which moving file after file may do: a mount in between, a parent that is not ours to write to.
_ELSEWHERE = {errno.EXDEV, errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY}
_WHOLE = "whole"


class FolderChanged(ColonyMemoryError):
    """The folder is not any more as it was looked at."""

    def __init__(self, name: str, path: Path) -> None:
        super().__init__(f"document {name!r}: {str(path)!r} was changed in the meantime; nothing was written")


def put_in_place(plan: Plan) -> None:
    """Do what the plan says.

    Raises:
        ColonyMemoryError: It names the document. The folder is as it was, unless the message says otherwise and
            where the originals are.
    """
    if not (plan.files or plan.directories or plan.removed or plan.dropped or plan.modes):
        return
    try:
        top = _topmost_missing(plan.target)
        empty = top is None and _is_empty(plan.target) and not _is_current(plan.target)
        if top is None and not empty:
            _file_by_file(plan)
            return
        try:
            _in_one_move(plan, top or plan.target)
        except Failed as failure:
            if not empty or failure.error.errno not in _ELSEWHERE:
                raise
            logger.debug("%s cannot be exchanged: %s", plan.target, failure.error)
            _file_by_file(plan)
    except Failed as failure:
        raise ColonyMemoryError(
            f"{failure.what} cannot be written ({failure.error.strerror or failure.error}); "
            f"nothing was changed in {str(plan.target)!r}"
        ) from failure.error


def _topmost_missing(target: Path) -> Path | None:
    if os.path.lexists(target):
        return None
    return next(path for path in (target, *target.parents) if os.path.lexists(path.parent))


def _is_empty(directory: Path) -> bool:
    try:
        with os.scandir(directory) as entries:
            return next(entries, None) is None
    except OSError:  # it may be possible to write to it all the same
        return False


def _is_current(directory: Path) -> bool:
    """Some process stands in ``directory``: a rename would leave it in a removed one."""
    try:
        if directory.samefile(Path.cwd()):
            return True
    except OSError as error:
        logger.debug("the current directory is gone already: %s", error)
    if sys.platform != "linux":
        return False
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str((process / "cwd").readlink()) == str(directory):
                return True
        except OSError:  # it has ended, or is not ours to look at
            continue
    return False


def _in_one_move(plan: Plan, top: Path) -> None:
    """Let the directory, with those above it that are missing, appear as a whole."""
    with ExitStack() as stack:
        with blaming(f"directory {str(top.parent)!r}"):
            place = stack.enter_context(Directory.open(top.parent))
            there, above = place.look(top.name), place.status()
        # What appears is another directory, which no note was made for.
        journal = replace(_journal(plan, place, None), note=None)
        # The way back is one directory to remove; that it is known to whoever comes next is not worth a failure.
        try:
            _begin(stack, plan, journal, place)
        except OSError as error:
            logger.debug("nothing will be known of this restore if it is cut off: %s", error)
            stack.callback(discard, place, journal)
        stage = Stage(plan, there or above)
        with blaming(f"directory {str(top.parent)!r}"):
            staging = stack.enter_context(_made(place, journal.staging))
            chain = [staging]
            for name in (_WHOLE, *plan.target.relative_to(top).parts):
                chain.append(stack.enter_context(_made(chain[-1], name)))
        stage.write_tree(chain[-1])
        with blaming(f"directory {str(top)!r}"):
            mode = None if there is None else stat.S_IMODE(there.st_mode)
            for directory in chain[:0:-1]:
                if directory.descriptor is not None:
                    stage.give(directory.descriptor, f"{top.name}/", owner=stage.owner, mode=mode)
            stage.settle(*reversed(chain))
            if plan.confirm is not None:
                plan.confirm()
            if os.name == "nt" and there is not None:  # pragma: no cover - chosen by the platform
                place.remove_directory(top.name)
            staging.move(_WHOLE, place, top.name)
        try:
            if place.descriptor is not None:
                disk.sync_names(place.descriptor)
        except OSError as error:
            logger.warning("%s is restored, but may not survive a power cut right now: %s", top, error)
    stage.warn()


def _file_by_file(plan: Plan) -> None:
    where = f"directory {str(plan.target)!r}"
    with ExitStack() as stack:
        with blaming(where):
            folder = stack.enter_context(Directory.open(plan.target))
            above = folder.status()
            with Reach(folder) as reach:
                volumes = find_volumes(reach, [*plan.files, *plan.removed])
                tops = tuple(dict.fromkeys(["", *volumes.values()]))
                changing = [*plan.files, *plan.directories, *plan.removed, *(name for name, _ in plan.dropped)]
                closed = find_read_only(reach, [*changing, *(f"{top}/" for top in tops)])
            journal = replace(_journal(plan, folder, Identity.of(above)), volumes=tops, lent=closed)
        try:
            record = _begin(stack, plan, journal, folder)
        except OSError as error:
            raise ColonyMemoryError(
                f"what it takes to undo a restore cannot be kept ({error}): set XDG_STATE_HOME to a directory "
                f"that you can write to; nothing was changed in {str(plan.target)!r}"
            ) from error
        with blaming(where):
            lend(folder, closed)
            places = stack.enter_context(open_staging(folder, tops, journal.staging, making=True))
        stage = Stage(plan, above)
        moves = Moves(plan, folder, places, stage)
        planned = moves.prepare(journal, volumes)
        if plan.confirm is not None:
            with blaming(where):
                plan.confirm()
        _take(moves, planned, record)
        remember(journal)
    stage.warn()


def _take(moves: Moves, journal: Journal, record: Record) -> None:
    """Take all steps of a journal, or none."""
    folder = moves.folder
    undo = Undo(journal, folder, moves.places)
    try:
        with blaming("the state of the restore"):
            record.needed = True
            record.write(journal)
        moves.take(journal)
        moves.sync(journal)
        with blaming(f"directory {str(folder.path)!r}"):
            moves.ask(journal)
            for name in undo.changed_originals():
                raise FolderChanged(name, folder.path / name)
            record.write(journal.done())
            record.needed = False
    except BaseException as error:
        stranded = undo.put_back(record)
        if stranded:
            raise ColonyMemoryError(
                f"restoring into {str(folder.path)!r} failed, and so did putting back {quoted(stranded)}; "
                f"the originals are in {kept_of(journal)}, and the next restore or backup tries again"
            ) from error
        raise


def _journal(plan: Plan, place: Directory, identity: Identity | None) -> Journal:
    return Journal(
        folder=str(plan.target),
        identity=identity,
        place=str(place.path),
        place_identity=Identity.of(place.status()),
        staging=STAGING_PREFIX + secrets.token_hex(8),
        note=None if plan.note is None else dict(plan.note),
        boot=boot_id(),
    )


def _begin(stack: ExitStack, plan: Plan, journal: Journal, place: Directory) -> Record:
    """Write down that a restore begins, and have its traces removed when the stack unwinds.

    Raises:
        OSError: The journal cannot be kept.
        ColonyMemoryError: Another restore of the folder has begun.
    """
    with start_lock():
        other = find_unfinished(plan.target)
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
        self.folder = folder
        self.places = places

    def prepare(self, journal: Journal, volumes: dict[str, str]) -> Journal:
        """Stage what is new and keep what is going to be replaced; return the journal of what is to be done then."""
        plan = self._plan
        comes: dict[str, Version | None] = {name: _version(name, there) for name, there in plan.removed.items()}
        for name, file in plan.files.items():
            comes.update((log, _version(log, there)) for log, there in file.drops.items())
            comes[name] = None if file.replaces is None else Version.of(file.replaces)
        numbers = {name: str(number) for number, name in enumerate(comes)}
        for name in comes:
            # The log of a database is told by the name that it has beside it.
            whole = whole_of(name)
            if whole in numbers:
                numbers[name] = numbers[whole] + name[len(whole) :]
        steps = [Step(name, None, old, numbers[name], volume_of(name, volumes)) for name, old in comes.items()]
        versions = self._stage.write_flat({step.name: (self.places[step.volume].new, step.number) for step in steps})
        shared = set()
        with Reach(self.folder) as reach:
            for step in steps:
                if step.old is not None:
                    with blaming(f"document {step.name!r}"):
                        if self._keep(reach, step, step.old):
                            shared.add(step.name)
            made = tuple(parent for parent, name in plan.parents() if self._is_missing(reach, parent, name))
        with blaming(f"directory {str(self.folder.path)!r}"):
            for place in self.places.values():
                self._stage.settle(place.new, place.kept)
        given = {name: plan.metadata.modes.get(f"{name}/") for name in made if hasattr(os, "fchmod")}
        return replace(
            journal,
            phase=MOVING,
            settled=plan.ask is None,
            made=made,
            given=tuple((name, mode & PERMISSIONS) for name, mode in given.items() if mode is not None),
            steps=tuple(step._replace(new=versions.get(step.name), shared=step.name in shared) for step in steps),
            dropped=tuple(plan.dropped),
            modes=tuple(
                ModeChange(name, there.st_ino, stat.S_IMODE(there.st_mode), mode)
                for name, (there, mode) in plan.modes.items()
            ),
        )

    def take(self, journal: Journal) -> None:
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
                with blaming(f"document {change.name!r}"), self._stage.attempt("permissions", change.name):
                    set_mode(reach, change, change.new)
            for name in reversed(journal.made):
                with blaming(f"document {name + '/'!r}"):
                    self._stage.finish_directory(reach.directory(name), name)

    def ask(self, journal: Journal) -> None:
        """Have it judged whether what was displaced may go; nothing that is written to its names changes it any more.

        Raises:
            ColonyMemoryError: It may not.
        """
        if self._plan.ask is None:
            return
        with ExitStack() as stack:
            kept = {volume: stack.enter_context(Reach(place.kept)) for volume, place in self.places.items()}
            there = [(step, kept[step.volume].look(step.number)) for step in journal.steps if step.old is not None]
            self._plan.ask(
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
            raise self._changed(step.name)
        return True

    def _is_missing(self, reach: Reach, parent: str, name: str) -> bool:
        if any(above in self._plan.removed for above in (*parents_of(parent), parent)):
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
                raise self._changed(f"{name}/") from None

    def _take(self, reach: Reach, step: Step) -> None:
        """Put one file in place, or take it away.

        Raises:
            FolderChanged: There is no longer what the plan was made for.
        """
        place = self.places[step.volume]
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
            directory.clear(last)
        if step.new is not None:
            place.new.move(step.number, directory, last)

    def _changed(self, name: str) -> FolderChanged:
        return FolderChanged(name, self.folder.path / name)


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
