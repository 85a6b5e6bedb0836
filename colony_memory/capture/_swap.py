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
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from colony_memory._os import disk
from colony_memory._os.directory import Directory
from colony_memory._os.kinds import Identity
from colony_memory._os.reach import Reach
from colony_memory.capture._attributes import Attributes, Attribution
from colony_memory.capture._filenames import STAGING_PREFIX, quoted
from colony_memory.capture._journal import Journal, boot_id
from colony_memory.capture._moves import Moves, Stranded, take
from colony_memory.capture._recover import clear, discard, remember, unfinished
from colony_memory.capture._stage import Failed, Job, Stage, blaming, find_closed, find_volumes, opened
from colony_memory.capture._state import alone, begun
from colony_memory.capture._undo import lend
from colony_memory.exceptions import ColonyMemoryError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from colony_memory.capture._state import Record

logger = logging.getLogger(__name__)

# Reasons for which moving file after file may do: a mount in between, a parent that is not ours to write to.
_ELSEWHERE = {errno.EXDEV, errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY}
_WHOLE = "whole"


def put_in_place(job: Job) -> None:
    """Do what the job says.

    Raises:
        ColonyMemoryError: It names the document. ``target`` is as it was, unless the message says otherwise and
            where the originals are.
    """
    if not (job.files or job.directories or job.removed or job.dropped or job.modes):
        return
    attribution = Attribution()
    try:
        if not _in_one_move(job, attribution):
            _file_by_file(job, attribution)
    except Failed as failure:
        raise ColonyMemoryError(
            f"{failure.what} cannot be written ({failure.error.strerror or failure.error}); "
            f"nothing was changed in {str(job.target)!r}"
        ) from failure.error
    except Stranded as stranded:
        names, kept = quoted(stranded.names), " and ".join(repr(str(each)) for each in stranded.kept)
        raise ColonyMemoryError(
            f"restoring into {str(job.target)!r} failed, and so did putting back {names}; "
            f"the originals are in {kept}, and the next restore or backup tries again"
        ) from stranded
    attribution.tell()


def _in_one_move(job: Job, attribution: Attribution) -> bool:
    """Let the directory appear as a whole; return whether that could be done."""
    top = _topmost_missing(job.target)
    empty = top is None and _is_empty(job.target) and not _is_current(job.target)
    if top is None and not empty:
        return False
    try:
        _move_whole(job, top or job.target, attribution)
    except Failed as failure:
        if empty and failure.error.errno in _ELSEWHERE:
            logger.debug("%s cannot be exchanged: %s", job.target, failure.error)
            return False
        raise
    return True


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
    """Whether some process stands in ``directory``: a rename would leave it in a removed one."""
    try:
        if directory.samefile(Path.cwd()):
            return True
    except OSError as error:
        logger.debug("the current directory is gone already: %s", error)
    if sys.platform != "linux":
        return False
    return any(_link(process / "cwd") == str(directory) for process in Path("/proc").glob("[0-9]*"))


def _link(path: Path) -> str | None:
    try:
        return str(path.readlink())
    except OSError:  # it has ended, or is not ours to look at
        return None


def _move_whole(job: Job, top: Path, attribution: Attribution) -> None:
    with ExitStack() as stack:
        with blaming(f"directory {str(top.parent)!r}"):
            place = stack.enter_context(Directory.open(top.parent))
            there, above = place.look(top.name), place.status()
        # What appears is another directory, which no note was made for.
        journal = replace(_journal(job, place, Identity.of(above), None), note=None)
        # The way back is one directory to remove; that it is known to whoever comes next is not worth a failure.
        try:
            _begin(stack, job, journal, place)
        except OSError as error:
            logger.debug("nothing will be known of this restore if it is cut off: %s", error)
            stack.callback(discard, place, journal)
        owner = there or above
        stage = Stage(job, owner=(owner.st_uid, owner.st_gid), attribution=attribution)
        with blaming(f"directory {str(top.parent)!r}"):
            staging = stack.enter_context(_made(place, journal.staging))
            chain = [staging]
            for name in (_WHOLE, *job.target.relative_to(top).parts):
                chain.append(stack.enter_context(_made(chain[-1], name)))
        stage.write_tree(chain[-1])
        with blaming(f"directory {str(top)!r}"):
            for directory in chain[:0:-1]:
                mode = None if there is None else stat.S_IMODE(there.st_mode)
                if directory.descriptor is not None:
                    attribution.give(directory.descriptor, Attributes(stage.owner, mode), f"{top.name}/")
            stage.settle(*reversed(chain))
            _confirm(job)
            if os.name == "nt" and there is not None:  # pragma: no cover - chosen by the platform
                place.remove_directory(top.name)
            staging.move(_WHOLE, place, top.name)
        try:
            if place.descriptor is not None:
                disk.sync_names(place.descriptor)
        except OSError as error:
            logger.warning("%s is restored, but may not survive a power cut right now: %s", top, error)


def _file_by_file(job: Job, attribution: Attribution) -> None:
    with ExitStack() as stack:
        with blaming(f"directory {str(job.target)!r}"):
            folder = stack.enter_context(Directory.open(job.target))
            above = folder.status()
            with Reach(folder) as reach:
                volumes = find_volumes(reach, [*job.files, *job.removed])
                tops = tuple(dict.fromkeys(["", *volumes.values()]))
                changing = [*job.files, *job.directories, *job.removed, *(name for name, _ in job.dropped)]
                closed = find_closed(reach, [*changing, *(f"{top}/" for top in tops)])
        journal = _journal(job, folder, Identity.of(above), Identity.of(above))
        journal = replace(journal, volumes=tops, lent=closed)
        try:
            record = _begin(stack, job, journal, folder)
        except OSError as error:
            raise ColonyMemoryError(
                f"what it takes to undo a restore cannot be kept ({error}): set XDG_STATE_HOME to a directory "
                f"that you can write to; nothing was changed in {str(job.target)!r}"
            ) from error
        with blaming(f"directory {str(job.target)!r}"):
            lend(folder, closed)
            places = stack.enter_context(opened(folder, journal.volumes, journal.staging, making=True))
        stage = Stage(job, owner=(above.st_uid, above.st_gid), attribution=attribution)
        moves = Moves(job, folder, places, volumes)
        planned = moves.prepare(journal, stage)
        with blaming(f"directory {str(job.target)!r}"):
            _confirm(job)
        take(moves, planned, record, stage)
        remember(journal)


def _journal(job: Job, place: Directory, place_identity: Identity, identity: Identity | None) -> Journal:
    return Journal(
        folder=str(job.target),
        identity=identity,
        place=str(place.path),
        place_identity=place_identity,
        staging=STAGING_PREFIX + secrets.token_hex(8),
        note=None if job.note is None else dict(job.note),
        boot=boot_id(),
    )


def _begin(stack: ExitStack, job: Job, journal: Journal, place: Directory) -> Record:
    """Write down that a restore begins, and have its traces removed when the stack unwinds.

    Raises:
        OSError: The state cannot be kept.
        ColonyMemoryError: Another restore of the folder has begun.
    """
    with alone():
        other = unfinished(job.target)
        if other is not None:
            raise ColonyMemoryError(f"a restore into {other!r} is under way: try again when it has ended")
        record = stack.enter_context(begun(journal))
    stack.callback(_clear, record, journal, place)
    return record


def _clear(record: Record, journal: Journal, place: Directory) -> None:
    """Remove the traces, unless the state says that they still are needed."""
    if not record.needed:
        clear(record, journal, place)


@contextmanager
def _made(above: Directory, name: str) -> Iterator[Directory]:
    above.make(name)
    with above.enter(name) as directory:
        yield directory


def _confirm(job: Job) -> None:
    if job.confirm is not None:
        job.confirm()
