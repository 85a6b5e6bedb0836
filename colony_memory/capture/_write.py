"""Documents into a folder: what would happen, judged in full before anything is touched."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from colony_memory.capture._filenames import check_names
from colony_memory.capture._journal import stamp
from colony_memory.capture._metadata import split_documents
from colony_memory.capture._plan import Plan
from colony_memory.capture._recover import recover
from colony_memory.capture._swap import put_in_place
from colony_memory.exceptions import ColonyMemoryError, Hint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from colony_memory.capture._stage import NewFile

_SHOWN = 5


@dataclass(frozen=True)
class Written:
    """What write_folder() did, or with ``dry_run`` would do. Names as in the snapshot, sorted.

    Each file of the snapshot is in one of the first three, or in ``conflicts``.

    Attributes:
        created: Files that were not there.
        replaced: Files that had other content, or lacked the executable bit.
        unchanged: Files that were there already and were not touched.
        directories: Empty directories that were made.
        kept: Copies of what was replaced, next to it: ``notes.md.local-20261128T031500Z``.
        conflicts: With ``dry_run`` only: files that differ and are newer than the snapshot. They stop the call
            without ``dry_run``; ``force`` replaces them.
        masked: Files in which secrets were masked before they were saved: they are not what they were.
        removed: Logs (``-wal``, ``-journal``) of the databases that were replaced, which would be merged into the new.
    """

    created: tuple[str, ...]
    replaced: tuple[str, ...]
    unchanged: tuple[str, ...]
    directories: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    masked: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


def write_folder(
    documents: Mapping[str, str],
    directory: str | os.PathLike[str],
    *,
    newer_than: datetime | None = None,
    force: bool = False,
    dry_run: bool = False,
    keep_local: bool = False,
    on_progress: Callable[[int, int, str], None] | None = None,
) -> Written:
    """Turn documents into files, byte for byte, all or none of them.

    Everything is written and synced in a hidden directory first and then moved into place; if a move fails, the
    ones before it are undone, and if the process is killed, the next restore or backup of the folder puts
    everything back. This call does so too, before anything else. Files that are not in ``documents`` are left
    alone. Files and directories that are made belong to the owner alone (0600 and 0700, less the umask); a
    replaced file keeps its permissions.

    Args:
        documents: Name to text, as read_folder() gives them.
        directory: Where to write. It is created, with the directories above it, if it is not there. It may be a
            symbolic link; nothing under it may be one on the way of a document.
        newer_than: Time of the snapshot, with a time zone. A file that differs and was changed after that time
            stops the call. None: no such check.
        force: Replace such files all the same.
        dry_run: Check everything and return the plan, writing nothing.
        keep_local: Of each file whose content is replaced, keep a copy next to it.
        on_progress: Called as ``on_progress(done, total, name)`` for every file that is ready to be moved, with
            the number of files so far, of all files and the name. What it raises ends the call, with nothing
            changed.

    Raises:
        ValueError: ``documents`` is empty or holds something other than text, ``directory`` is not a directory, or
            ``newer_than`` has no time zone.
        SnapshotCorrupt: The document that describes the folder is malformed.
        ColonyMemoryError: A document cannot or must not be written, or another restore into the directory is under
            way. The directory is as it was before.
    """
    if newer_than is not None and newer_than.tzinfo is None:
        raise ValueError("newer_than needs a time zone")
    if not documents:
        raise ValueError("there are no documents to write")
    for name, text in documents.items():
        if not all(isinstance(value, str) for value in (name, text)):
            raise ValueError(f"document {name!r} is not text under a name")
    target = _resolve(directory)
    contents, metadata = split_documents(documents)
    check_names(contents, metadata.empty_dirs, near=_nearest_directory(target), target=target)
    recover(target)
    plan = Plan(target, wanted=contents.keys())
    for name, content in sorted(contents.items()):
        plan.add_file(name, content, executable=name in metadata.executable)
    for name in sorted(metadata.empty_dirs):
        plan.add_directory(name)
    conflicts = plan.newer(newer_than) if newer_than is not None and not force else []
    if keep_local:
        plan.keep_local(stamp=stamp(datetime.now(timezone.utc)))
    if not dry_run:
        if conflicts:
            raise _newer(target, conflicts)
        put_in_place(plan.files, plan.directories, target, on_progress=on_progress)
    return _written(plan, conflicts, masked=tuple(name for name in metadata.masked if name in contents))


def _written(plan: Plan, conflicts: list[str], *, masked: tuple[str, ...]) -> Written:
    refused = set(conflicts)
    replaced = {name: file for name, file in plan.files.items() if file.replaces and name not in refused}
    return Written(
        created=tuple(name for name, file in plan.files.items() if file.replaces is None),
        replaced=tuple(replaced),
        unchanged=tuple(plan.unchanged),
        directories=tuple(plan.directories),
        removed=tuple(
            sorted(dropped for name, file in plan.files.items() if name not in refused for dropped in file.drops)
        ),
        kept=tuple(sorted(_copies(replaced))),
        conflicts=tuple(conflicts),
        masked=masked,
    )


def _copies(replaced: Mapping[str, NewFile]) -> Iterator[str]:
    for name, file in replaced.items():
        if file.copy_to is not None:
            yield file.copy_to
            yield from (file.copy_to + dropped.removeprefix(name) for dropped in file.drops)


def _newer(target: Path, names: list[str]) -> ColonyMemoryError:
    shown = ", ".join(map(repr, names[:_SHOWN]))
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ColonyMemoryError(
        f"changed in {str(target)!r} after the snapshot was made: {shown}{more}; nothing was written. "
        "What is newer is replaced only by force, and a copy of it can be kept",
        hint=Hint("write_folder", "force", value=True),
    )


def _resolve(directory: str | os.PathLike[str]) -> Path:
    """Follow the link that the caller may have named, once, and make sure that a directory is or can be there."""
    try:
        target = Path(os.path.realpath(directory))
        if not os.path.lexists(target) or target.is_dir():
            return target
    except (OSError, ValueError) as error:
        raise ValueError(f"{os.fspath(directory)!r} cannot be a directory: {error}") from error
    raise ValueError(f"{os.fspath(directory)!r} is not a directory")


def _nearest_directory(target: Path) -> Path:
    nearest = next((path for path in [target, *target.parents] if os.path.lexists(path)), target)
    if not os.path.isdir(nearest):  # noqa: PTH112 - Path.is_dir() raises where a directory above is closed to us
        raise ValueError(f"{str(target)!r} cannot be a directory: {str(nearest)!r} is not one")
    return nearest
