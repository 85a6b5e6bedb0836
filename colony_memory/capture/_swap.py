"""Files into place, all or none: staged and synced out of sight, then moved, and moved back if a move fails.

A directory that is not there appears by a single rename. Into one that is, file after file is moved, after a journal
says what is replaced and made. To exchange the whole directory for a copy would need no journal; but a container that
has the folder mounted, a process that stands in it or a watcher would go on with the one that is taken away, and what
an agent writes there would be lost.
"""

from __future__ import annotations

import errno
import os
import secrets
from contextlib import ExitStack
from typing import TYPE_CHECKING

from colony_memory._os.directory import Directory, Reach
from colony_memory._os.paths import Identity, is_link
from colony_memory._values import getLogger, replace
from colony_memory.capture._filenames import INDEX, STAGING_PREFIX, parents_of, quoted, whole_of
from colony_memory.capture._identity import boot_id
from colony_memory.capture._journal import MOVING, Journal, Step, Version, begin_record, start_lock
from colony_memory.capture._moves import Moves, set_mode
from colony_memory.capture._question import FileInUse
from colony_memory.capture._recover import clear, discard, kept_of, recover, remember
from colony_memory.capture._stage import Stage, blaming, find_read_only, find_volumes, nearest, open_staging
from colony_memory.exceptions import ColonyMemoryError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from colony_memory.capture._journal import Record
    from colony_memory.capture._plan import Plan
    from colony_memory.capture._stage import Staging

logger = getLogger(__name__)

_WHOLE = "whole"


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
            chain = [place]
            for name in (journal.staging, _WHOLE, *plan.target.relative_to(top).parts):
                chain[-1].make(name)
                chain.append(stack.enter_context(chain[-1].enter(name)))
        stage.write_tree(chain[-1])
        with blaming(f"directory {str(top)!r}", plan.target):
            for directory in chain[:1:-1]:
                if directory.descriptor is not None:
                    stage.give(directory.descriptor, f"{top.name}/", owner=stage.owner)
            stage.settle(*chain[:0:-1])
            chain[1].move(_WHOLE, place, top.name)
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
                changing = [*plan.files, *plan.directories, *plan.removed, *plan.logs, *plan.dropped]
                changing += [f"{name}/" for name in plan.makes_way()]
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
        with Reach(folder) as reach:
            planned = _prepare(stage, journal, reach, places, volumes)
        moves = Moves(planned, folder, places)
        with where:
            in_use = {} if plan.force else plan.users()
        if in_use:
            raise FileInUse(plan.target, in_use)
        try:
            with blaming("the state of the restore", plan.target):
                record.needed = True
                record.write(planned)
            moves.take(stage)
            moves.sync(plan.target)
            with where:
                # To be judged when it is moved aside: what is written to its names changes it no more.
                if plan.question is not None:
                    plan.question.require_saved(plan.target, moves.displaced())
                moves.displaced()
                record.write(planned.done())
                record.needed = False
        except BaseException as error:
            stranded = moves.put_back(record)
            if stranded:
                raise ColonyMemoryError(
                    f"restoring into {str(folder.path)!r} failed, and so did putting back {quoted(stranded)}; "
                    f"the originals are in {kept_of(journal)}, and the next restore or backup tries again"
                ) from error
            raise
        remember(planned)
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
        if recover(plan.target):  # another has begun since the plan was made, and been cut off by now
            raise ColonyMemoryError(f"{str(plan.target)!r} was changed in the meantime; nothing was written; try again")
        record = stack.enter_context(begin_record(journal))
    stack.callback(clear, record, place)
    return record


def _prepare(
    stage: Stage, journal: Journal, reach: Reach, places: Mapping[str, Staging], volumes: Mapping[str, str]
) -> Journal:
    """Stage what is new; return the journal of what is to be done then."""
    plan = stage.plan
    going = {**plan.removed, **plan.logs, **{f"{name}/": plan.dropped[name] for name in plan.makes_way()}}
    numbers = {name: str(number) for number, name in enumerate([*going, *plan.files])}
    for name in numbers:  # The log of a database is told by the name that it has beside it.
        whole = whole_of(name)
        if whole in numbers:
            numbers[name] = numbers[whole] + name[len(whole) :]
    steps, made = [], []
    for name, number in numbers.items():
        volume = volumes[nearest(name, volumes)]
        there = going.get(name) or plan.replaced.get(name)
        old = None if there is None else Version.of(there)
        if old is not None and name in going and name.endswith((INDEX, "/")):
            old = old._replace(size=-1, changed=-1)  # whoever only reads writes to it; and what is in it goes first
        new = stage.write(Reach(places[volume].new), number, name) if name in plan.files else None
        steps.append(Step(name.rstrip("/"), new, old, number, volume))
    for parent, name in plan.parents():
        with stage.blaming(name):
            # Where it is a file, that makes way.
            there = None if {*parents_of(parent), parent} & plan.removed.keys() else reach.look(parent)
            if there is not None and is_link(there):
                raise OSError(errno.ELOOP, "is a symbolic link", parent)
            if there is None:
                made.append(parent)
    with blaming(f"directory {str(plan.target)!r}", plan.target):
        for place in places.values():
            stage.settle(place.new, place.kept)
    return replace(
        journal,
        phase=MOVING,
        made=tuple(made),
        steps=tuple(steps),
        emptied=tuple(name for name in plan.dropped if name not in plan.makes_way()),
        modes=tuple(plan.modes),
    )
