"""The restore of documents to a folder: checked in full before anything is touched, staged, then moved into place.

A missing directory appears by a single rename. Into an existing one, file after file is moved once a journal lists what
is replaced and made; if a move fails, those before it are undone. To exchange the whole directory for a copy would need
no journal; but a container with the folder mounted, a process working in it or a watcher would go on with the removed
one, and what an agent writes there would be lost.
"""

from __future__ import annotations

import errno
import itertools
import os
import secrets
import warnings
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from colony_memory._boundary import require_call, require_named, require_type
from colony_memory._os.directory import Directory, Reach
from colony_memory._os.open_files import settling
from colony_memory._os.paths import Identity, is_link, real_path
from colony_memory._values import Value, field, getLogger, replace
from colony_memory.capture._filenames import (
    INDEX,
    STAGING_PREFIX,
    check_names,
    parents_of,
    problem_with_state,
    quoted,
    stem_of,
)
from colony_memory.capture._identity import boot_id
from colony_memory.capture._journal import MOVING, Journal, Record, Step, Version, begin_record, start_lock
from colony_memory.capture._metadata import encode_text, split_documents
from colony_memory.capture._moves import Moves, set_mode
from colony_memory.capture._plan import Plan, make_plan
from colony_memory.capture._question import FileInUse, Question, Unsaved
from colony_memory.capture._recover import clear, discard, kept_of, recover, remember, warn_unfinished
from colony_memory.capture._stage import KEPT, NEW, Stage, blaming, find_read_only, find_volumes, nearest
from colony_memory.capture._steady import holds_own_data
from colony_memory.capture.sqlite import reads_as_journal
from colony_memory.exceptions import ColonyMemoryError, ColonyMemoryWarning

if TYPE_CHECKING:
    from pathlib import Path


logger = getLogger(__name__)


class Written(Value):
    """The outcome of write_folder(), or with ``dry_run`` the plan. Names as in the snapshot, sorted.

    Each file of the snapshot is in one of the first three, in ``left``, ``unsaved`` or ``in_use``. The last two have
    files only with ``dry_run``: otherwise these stop the call.
    """

    created: tuple[str, ...]  # files that were not there
    replaced: tuple[str, ...]  # files that had other content
    unchanged: tuple[str, ...]  # files whose content was there already
    directories: tuple[str, ...] = ()  # empty directories that were made
    permissions: tuple[str, ...] = ()  # of the unchanged files, those whose permissions were set
    # With ``delete``, files that the snapshot lacks; always the logs (``-wal``, ``-journal``) of replaced databases, as
    # they would be merged into the new ones
    removed: tuple[str, ...] = ()
    left: tuple[str, ...] = ()  # files left as they were, since the snapshot has them with masked secrets
    masked: tuple[str, ...] = ()  # files written with masked secrets, as they were saved
    unsaved: tuple[str, ...] = ()  # files that would be lost, as they are saved nowhere
    in_use: tuple[str, ...] = ()  # files that a program has open or mapped, or whose store it has open
    # For each file that goes, or would: where its text is saved; for a file in use, the program
    why: Mapping[str, str] = field(default_factory=dict)


def write_folder(
    documents: Mapping[str, str],
    directory: str | os.PathLike[str],
    *,
    force: bool = False,
    delete: bool = False,
    dry_run: bool = False,
    on_progress: Callable[[int, int, str], None] | None = None,
) -> Written:
    """Turn documents into files, byte for byte, all or none of them.

    Everything is written and synced in a hidden directory first and then moved into place; if a move fails, the
    ones before it are undone, and if the process is killed, the next restore or backup of the folder puts
    everything back. This call does so too, before anything else. New files have the permissions and times of the
    snapshot, or without these are open to their owner alone; a replaced file keeps its permissions. Files made by root
    belong to the owner of the folder. No link is followed.

    Args:
        documents: Name to text, as read_folder() gives them.
        directory: The target, which is created if it is missing, with the directories above it. It may be a symbolic
            link; nothing under it may be one on the way to a document.
        force: Replace what a program has open, and real text by masked text.
        delete: Also remove the files that ``documents`` lack, as far as a backup of the folder would save them.
        dry_run: Check everything and return the plan, changing nothing anywhere.
        on_progress: Called as ``on_progress(done, total, name)`` for every file that is ready to be moved. An exception
            that it raises ends the call, with nothing changed.

    Raises:
        ValueError: ``documents`` is empty or holds something other than text, or ``directory`` is not a directory.
        SnapshotCorrupt: The document that describes the folder is malformed.
        ColonyMemoryError: A document cannot or must not be written, or another restore into the directory is under
            way. The directory is as it was before.

    Warns:
        ColonyMemoryWarning: Something of a file could not be kept: its owner, permissions, times or other names.
    """
    return place_documents(documents, directory, force=force, delete=delete, dry_run=dry_run, on_progress=on_progress)


@settling()
def place_documents(
    documents: Mapping[str, str],
    directory: str | os.PathLike[str],
    *,
    force: bool = False,
    delete: bool | Collection[str] = False,
    dry_run: bool = False,
    question: Question | None = None,
    note: Mapping[str, Any] | None = None,
    on_progress: Callable[[int, int, str], None] | None = None,
) -> Written:
    """:func:`write_folder` for callers with a vault at hand; raises Unsaved and FileInUse, with nothing written.

    ``delete`` may be the names of the files to remove. The ``question`` is asked before any file of the folder is
    discarded; None allows all of it. The ``note``, of :meth:`FolderIndex.note_of`, goes to the index at the end.
    """
    require_type("documents", documents, Mapping)  # type: ignore[type-abstract]
    require_call("on_progress", on_progress)
    if not documents and question is None:
        raise ValueError("there are no documents to write")
    for name, text in documents.items():
        if not all(isinstance(value, str) for value in (name, text)):
            raise ValueError(f"document {name!r} is not a string under a name")
    target, near = _resolve(directory)
    contents, metadata = split_documents(documents)
    contents = _without_journals(contents)
    names = [*contents, *metadata.links]
    check_names(names, metadata.empty_dirs, near=near, target=target, dry_run=dry_run)
    problem = problem_with_state(names, metadata.empty_dirs, target)
    if problem is not None:
        raise ColonyMemoryError(f"document {problem}; nothing was written")
    if dry_run:
        warn_unfinished(target, stacklevel=3)
    else:
        recover(target)
    plan = make_plan(target, contents, metadata, delete=delete, force=force)
    query = None if question is None or force else replace(question, restored=(contents, metadata))
    in_use = {} if force else plan.in_use
    # A file in use is not also reported as unsaved: saving it first would not help.
    unsaved = [] if query is None else [name for name in plan.unsaved(query) if name not in in_use]
    if not dry_run:
        if in_use:
            raise FileInUse(target, in_use)
        if unsaved:
            raise Unsaved(target, unsaved)
        plan.question, plan.note, plan.on_progress = query, note, on_progress
        if plan.files or plan.directories or plan.removed or plan.dropped or plan.modes:
            # A plan for an existing folder omits its unchanged files: if it is gone since, one move would lose these.
            (_file_by_file if plan.found or os.path.lexists(plan.target) else _in_one_move)(plan)
        if plan.in_use:
            alert = f"{quoted(list(plan.in_use))} was replaced while a program has it open: the program goes on with "
            alert += "the old content and loses what it writes from now on; restart it"
            warnings.warn(alert, ColonyMemoryWarning, stacklevel=3)
    return _written(plan, unsaved, in_use, {} if query is None else query.why)


def _written(plan: Plan, unsaved: list[str], in_use: Mapping[str, str], why: Mapping[str, str]) -> Written:
    refused = {*unsaved, *in_use}
    files = [name for name in plan.files if name not in refused]
    logs = [log for log, status in plan.logs.items() if stem_of(log) not in refused and holds_own_data(log, status)]
    removed = {*plan.removed, *logs} - refused
    return Written(
        created=tuple(name for name in files if name not in plan.replaced),
        replaced=tuple(name for name in files if name in plan.replaced),
        unchanged=tuple(plan.unchanged),
        directories=tuple(plan.directories),
        permissions=tuple(change.name for change in plan.modes),
        removed=tuple(sorted([*removed, *(f"{name}/" for name in plan.dropped)])),
        left=tuple(plan.left),
        masked=tuple(name for name in plan.metadata.masked if name in plan.files),
        unsaved=tuple(unsaved),
        in_use=tuple(in_use),
        why={**why, **in_use},
    )


# --- names and places that are refused


def _without_journals(contents: dict[str, str | bytes]) -> dict[str, str | bytes]:
    """Rename files that SQLite would apply to a database: anybody who can write to the vault may have made them."""
    renamed = {}
    for name, content in contents.items():
        if stem_of(name) != name and reads_as_journal(name, encode_text(content)):
            candidates = (f"{name}.saved{number}" for number in itertools.chain([""], itertools.count(2)))
            renamed[name] = next(candidate for candidate in candidates if candidate not in contents)
            message = f"{name!r} is written as {renamed[name]!r}: SQLite would take it for a journal, and apply it"
            warnings.warn(message, ColonyMemoryWarning, stacklevel=4)
    return {renamed.get(name, name): content for name, content in contents.items()}


def _resolve(directory: str | os.PathLike[str]) -> tuple[Path, Path]:
    """The real path of an existing or possible directory, and the nearest existing one; ValueError if impossible."""
    require_named(directory)
    try:
        target = real_path(directory)
        near = next((path for path in [target, *target.parents] if os.path.lexists(path)), target)
        if os.path.isdir(near):  # noqa: PTH112 - Path.is_dir() raises where a directory above is closed to us
            return target, near
    except (OSError, ValueError) as error:
        raise ValueError(f"{os.fspath(directory)!r} cannot be a directory: {error}") from error
    raise ValueError(f"{os.fspath(directory)!r} cannot be a directory: {str(near)!r} is not one")


# --- into place


def _in_one_move(plan: Plan) -> None:
    """Let the directory, with the missing ones above it, appear by one rename."""
    top = next(path for path in (plan.target, *plan.target.parents) if os.path.lexists(path.parent))
    above = blaming(f"directory {str(top.parent)!r}", plan.target)
    with ExitStack() as stack:
        with above:
            place = stack.enter_context(Directory.open(top.parent))
            stage = Stage(plan, place.status())
            # A note is for a directory that exists, and this will be a new one.
            journal = replace(_journal(plan, place), note=None)
        # To undo this takes the removal of one directory: a missing record of it is no reason to fail.
        try:
            _begin(stack, plan, journal, place)
        except OSError as error:
            logger.debug("nothing will be known of this restore if it is cut off: %s", error)
            stack.callback(discard, place, journal)
        reach = stack.enter_context(Reach(place))
        inside = "/".join((journal.staging, "whole", *plan.target.relative_to(top).parts))
        made = [*parents_of(inside), inside]
        with above:
            for name in made:
                reach.make(name)
        stage.write_tree(reach.directory(inside))
        with blaming(f"directory {str(top)!r}", plan.target):
            for name in made[:0:-1]:
                directory = reach.directory(name)
                if stage.owner is not None and directory.descriptor is not None:
                    with stage.attempt("owner", f"{top.name}/"):
                        os.fchown(directory.descriptor, *stage.owner)
            stage.sync_directories(reach, made[::-1])
            reach.directory(made[0]).move("whole", place, top.name)
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
                changing += [f"{name}/" for name in plan.displaced_directories()]
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
        with where, Reach(folder) as reach:
            for change in closed:
                set_mode(reach, change)
            for name in (journal.staged(top, *inside) for top in tops for inside in ((), (NEW,), (KEPT,))):
                reach.make(name)
        stage = Stage(plan, above)
        planned = _prepare(stage, journal, folder, volumes)
        moves = Moves(planned, folder, stack)
        with where:
            in_use = {} if plan.force else plan.users()
        if in_use:
            raise FileInUse(plan.target, in_use)
        try:
            with blaming("the state of the restore", plan.target):
                record.write(planned)
            moves.take(stage)
            with where:
                moves.sync()
                # Asked about files that were moved aside: writing to their former names cannot change them.
                if plan.question is not None:
                    plan.question.require_saved(plan.target, moves.displaced())
                moves.displaced()
                record.write(planned.done())
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
    """Record that a restore begins; its remains are cleared when the stack unwinds."""
    with start_lock():
        if recover(plan.target):  # another one began since the plan was made, and was cut off
            raise ColonyMemoryError(f"{str(plan.target)!r} was changed in the meantime; nothing was written; try again")
        record = stack.enter_context(begin_record(journal))
    stack.callback(clear, record, place)
    return record


def _prepare(stage: Stage, journal: Journal, folder: Directory, volumes: Mapping[str, str]) -> Journal:
    """Stage the new files; return the journal with the steps to do."""
    plan = stage.plan
    removed = {**plan.removed, **plan.logs, **{f"{name}/": plan.dropped[name] for name in plan.displaced_directories()}}
    numbers = {name: str(number) for number, name in enumerate([*removed, *plan.files])}
    for name in numbers:  # The log of a database needs the database's name to be known as one.
        stem = stem_of(name)
        if stem in numbers:
            numbers[name] = numbers[stem] + name[len(stem) :]
    steps = []
    with Reach(folder) as reach, Reach(folder) as aside:
        for parent, name in plan.parents().items():
            with stage.blaming(name):
                # A file of that name is removed first.
                status = None if {*parents_of(parent), parent} & plan.removed.keys() else reach.look(parent)
                if status is not None and is_link(status):
                    raise OSError(errno.ELOOP, "is a symbolic link", parent)
                if status is None:
                    steps.append(Step(f"{parent}/"))
        for name, number in numbers.items():
            volume = volumes[nearest(name, volumes)]
            status = removed.get(name) or plan.replaced.get(name)
            old = None if status is None else Version.of(status)
            if old is not None and name in removed and name.endswith((INDEX, "/")):
                old = old._replace(size=-1, changed=-1)  # even readers write to an index; a directory is emptied first
            new = stage.write(aside, journal.staged(volume, NEW, number), name) if name in plan.files else None
            steps.append(Step(name.rstrip("/"), new, old, number, volume))
        with blaming(f"directory {str(plan.target)!r}", plan.target):
            for volume in journal.volumes:
                stage.sync_directories(aside, [journal.staged(volume, kind) for kind in (NEW, KEPT)])
    return replace(
        journal,
        phase=MOVING,
        # Removals come first, and directories before the files put in them.
        steps=tuple(sorted(steps, key=lambda step: (step.new is not None, step.name.endswith("/")))),
        emptied=tuple(name for name in plan.dropped if name not in plan.displaced_directories()),
        modes=tuple(plan.modes),
    )
