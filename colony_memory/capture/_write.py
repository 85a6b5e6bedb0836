"""Documents into a folder: judged in full before anything is touched, and then put in place."""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from colony_memory._boundary import require_call, require_named, require_type
from colony_memory._os.open_files import settling
from colony_memory._os.paths import real_path
from colony_memory._values import dataclass, field, replace
from colony_memory.capture._filenames import check_names, problem_with_state, quoted, whole_of
from colony_memory.capture._metadata import encode_text, split_documents
from colony_memory.capture._plan import Plan, make_plan
from colony_memory.capture._question import FileInUse, Unsaved
from colony_memory.capture._recover import recover, warn_unfinished
from colony_memory.capture._steady import holds_text
from colony_memory.capture._swap import put_in_place
from colony_memory.capture.sqlite import reads_as_journal
from colony_memory.exceptions import ColonyMemoryError, ColonyMemoryWarning

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from colony_memory.capture._question import Question


@dataclass(frozen=True)
class Written:
    """The outcome of write_folder(), or with ``dry_run`` the plan. Names as in the snapshot, sorted.

    Each file of the snapshot is in one of the first three, in ``left``, ``unsaved`` or ``in_use``. Of the last two
    there are any with ``dry_run`` alone: they stop the call without.
    """

    created: tuple[str, ...]  # files that were not there
    replaced: tuple[str, ...]  # files that had other content
    unchanged: tuple[str, ...]  # files whose content was there already
    directories: tuple[str, ...] = ()  # empty directories that were made
    permissions: tuple[str, ...] = ()  # of the unchanged files, those whose permissions were set
    # With ``delete`` what the snapshot lacks; in any case the logs (``-wal``, ``-journal``) of databases that were
    # replaced, which would be merged into the new
    removed: tuple[str, ...] = ()
    left: tuple[str, ...] = ()  # files that are as they were because the snapshot has them with secrets masked
    masked: tuple[str, ...] = ()  # files that are not what they were: secrets were masked before they were saved
    unsaved: tuple[str, ...] = ()  # files that would go, and that are saved nowhere
    in_use: tuple[str, ...] = ()  # files that a program has open or mapped, or that are of a store that it has open
    # For each file that goes, or would: where its text is; of what is in use, by which program
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
    everything back. This call does so too, before anything else. What is made has the permissions and times that the
    snapshot tells, else it is its owner's alone; a replaced file keeps its permissions. What root makes belongs to the
    owner of the folder. No link is followed.

    Args:
        documents: Name to text, as read_folder() gives them.
        directory: Where to write. It is created, with the directories above it, if it is not there. It may be a
            symbolic link; nothing under it may be one on the way of a document.
        force: Replace what a program has open, and real text by masked text.
        delete: Also take away the files that ``documents`` lack, as far as a backup of the folder would save them.
        dry_run: Check everything and return the plan, changing nothing anywhere.
        on_progress: Called as ``on_progress(done, total, name)`` for every file that is ready to be moved. What it
            raises ends the call, with nothing changed.

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
    """:func:`write_folder`, for whoever knows what is saved; raises Unsaved and FileInUse, with nothing written.

    ``delete`` may be the names of the files that are taken away. The ``question`` is asked before anything goes that
    the folder holds, and None where all of it may. The ``note`` is for the index once all is in place, as
    :meth:`FolderIndex.note_of` gives it.
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
    asked = None if question is None or force else replace(question, restored=(contents, metadata))
    in_use = {} if force else plan.in_use
    # To save first what a program goes on with helps nobody.
    unsaved = [] if asked is None else [name for name in plan.unsaved(asked) if name not in in_use]
    if not dry_run:
        if in_use:
            raise FileInUse(target, in_use)
        if unsaved:
            raise Unsaved(target, unsaved)
        plan.question, plan.note, plan.on_progress = asked, note, on_progress
        put_in_place(plan)
        if plan.in_use:
            warnings.warn(
                f"while a program has it open, {quoted(list(plan.in_use))} was replaced: it goes on with what was "
                "there before, and what it writes from now on is lost; start it anew",
                ColonyMemoryWarning,
                stacklevel=3,
            )
    return _written(plan, unsaved, in_use, {} if asked is None else asked.why)


def _written(plan: Plan, unsaved: list[str], in_use: Mapping[str, str], why: Mapping[str, str]) -> Written:
    refused = {*unsaved, *in_use}
    files = [name for name in plan.files if name not in refused]
    logs = [log for log, there in plan.logs.items() if whole_of(log) not in refused and holds_text(log, there)]
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


# --- what must not be written


def _without_journals(contents: dict[str, str | bytes]) -> dict[str, str | bytes]:
    """Give what a program would play back into a database another name: it is of whoever could write to the vault."""
    renamed = {}
    for name, content in contents.items():
        if whole_of(name) != name and reads_as_journal(name, encode_text(content)):
            others = (f"{name}.saved{number}" for number in itertools.chain([""], itertools.count(2)))
            renamed[name] = next(other for other in others if other not in contents)
            warnings.warn(
                f"{name!r} is written as {renamed[name]!r}: SQLite would take it for a journal, and apply it",
                ColonyMemoryWarning,
                stacklevel=4,
            )
    return {renamed.get(name, name): content for name, content in contents.items()}


def _resolve(directory: str | os.PathLike[str]) -> tuple[Path, Path]:
    """The real path of what is or can be a directory, and the nearest directory that is there."""
    require_named(directory)
    try:
        target = real_path(directory)
        near = next((path for path in [target, *target.parents] if os.path.lexists(path)), target)
        if os.path.isdir(near):  # noqa: PTH112 - Path.is_dir() raises where a directory above is closed to us
            return target, near
    except (OSError, ValueError) as error:
        raise ValueError(f"{os.fspath(directory)!r} cannot be a directory: {error}") from error
    raise ValueError(f"{os.fspath(directory)!r} cannot be a directory: {str(near)!r} is not one")
