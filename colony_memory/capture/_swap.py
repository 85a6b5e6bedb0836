"""Files into place, all or none: staged and synced out of sight, then moved, and moved back if a move fails.

Two ways in. A directory that is not there, or is empty, appears by a single rename. Into a directory that holds
something, file after file is moved, and a journal says beforehand what is replaced and what is made: whoever comes
next to a folder in which this was cut off puts everything back.

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
import shutil
import stat
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from colony_memory.capture._journal import Journal, Step, Version, move, version
from colony_memory.capture._recover import clear
from colony_memory.capture._stage import Failed, Job, NewFile, blaming, stage, sync_file, take_owner
from colony_memory.capture._staging import beside, discard, held, inside, look, sync_directory
from colony_memory.exceptions import ColonyMemoryError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from colony_memory.capture._stage import Progress

logger = logging.getLogger(__name__)

# Reasons for which staging in another place may do: a mount in between, a parent that is not ours to write to.
_ELSEWHERE = {errno.EXDEV, errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY}
_LINK_ITSELF = {"follow_symlinks": False} if os.link in os.supports_follow_symlinks else {}


class _Stranded(Exception):
    """Moving back failed too: ``names`` are not as they were, and what was replaced is in ``kept``."""

    def __init__(self, names: Sequence[str], kept: Path) -> None:
        super().__init__(names, kept)
        self.names = names
        self.kept = kept


def put_in_place(
    files: Mapping[str, NewFile],
    directories: Sequence[str],
    target: Path,
    *,
    on_progress: Progress | None = None,
) -> None:
    """Write the files and make the directories under ``target``.

    Raises:
        ColonyMemoryError: It names the document. ``target`` is as it was, unless the message says otherwise and
            where the originals are.
    """
    if not files and not directories:
        return
    job = Job(files, directories, target, on_progress)
    ways = _ways_in(target)
    while True:
        place, top = ways.pop(0)
        try:
            _stage_and_move(job, place=place, top=top)
        except Failed as failure:
            if failure.error.errno in _ELSEWHERE and ways:
                logger.debug("staging in %s did not do: %s", place, failure.error)
                continue
            raise ColonyMemoryError(
                f"{failure.what} cannot be written ({failure.error.strerror or failure.error}); "
                f"nothing was changed in {str(target)!r}"
            ) from failure.error
        except _Stranded as stranded:
            names = ", ".join(map(repr, stranded.names))
            raise ColonyMemoryError(
                f"restoring into {str(target)!r} failed, and so did putting back {names}; "
                f"the originals are in {str(stranded.kept)!r}, and the next restore or backup tries again"
            ) from stranded
        return


def _ways_in(target: Path) -> list[tuple[Path, Path | None]]:
    """List what to try: a place to stage in, and the path to rename to, or None for file after file."""
    if not os.path.lexists(target):
        top = target
        while not os.path.lexists(top.parent):
            top = top.parent
        return [(beside(top), top)]
    each: list[tuple[Path, Path | None]] = [(beside(target), None), (inside(target), None)]
    return [(beside(target), target), *each] if _is_empty(target) and not _is_current(target) else each


def _is_empty(directory: Path) -> bool:
    try:
        with os.scandir(directory) as entries:
            return next(entries, None) is None
    except PermissionError:  # it can be written to all the same
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


def _stage_and_move(job: Job, *, place: Path, top: Path | None) -> None:
    with ExitStack() as stack:
        with blaming(f"directory {str(place.parent)!r}"):
            stack.enter_context(held(place, folder=job.target))
            clear(place)
            stack.callback(discard, place)
            place.mkdir(mode=0o700)
        new = place / "new"
        if top:
            stage(job, new / job.target.relative_to(top), top=new)
            _move_whole(new, top)
        else:
            stage(job, new, top=new)
            _move_each(job, place)


def _move_whole(new: Path, top: Path) -> None:
    with blaming(f"directory {str(top)!r}"):
        if top.exists():
            there = top.stat()
            take_owner(new, there)
            new.chmod(stat.S_IMODE(there.st_mode))
        move(new, top)
    try:
        sync_directory(top.parent)
    except OSError as error:
        logger.warning("%s is restored, but may not survive a power cut right now: %s", top, error)


def _move_each(job: Job, place: Path) -> None:
    journal = _plan_moves(job, place)
    try:
        with blaming(f"directory {str(place.parent)!r}"):
            journal.write()
        for name in journal.directories:
            with blaming(f"document {name + '/'!r}"):
                _make_directory(job.target / name, name)
        for step in journal.steps:
            with blaming(f"document {step.name!r}"):
                _take(step, journal)
        for directory in {(job.target / step.name).parent for step in journal.steps} | {
            (job.target / name).parent for name in journal.directories
        }:
            with blaming(f"directory {str(directory)!r}"):
                sync_directory(directory)
        with blaming(f"directory {str(place.parent)!r}"):
            for name in journal.changed_originals():
                raise _meanwhile(name, job.target / name)
            journal.close()
    except BaseException as error:
        stranded = journal.roll_back()
        if stranded:
            raise _Stranded(stranded, place / "kept") from error
        raise


def _plan_moves(job: Job, place: Path) -> Journal:
    """Keep what is going to be replaced, and say what is about to be done; ``target`` is not touched."""
    kept, new = place / "kept", place / "new"
    steps = []
    made = set()
    for name, file in job.files.items():
        with blaming(f"document {name!r}"):
            going = {**file.drops, name: file.replaces} if file.replaces else dict(file.drops)
            for each, planned in going.items():
                made.add((kept / each).parent)
                _keep(each, planned, target=job.target, kept=kept)
            if file.copy_to is not None:
                for each in going:
                    copy = file.copy_to + each.removeprefix(name)
                    steps.append(Step(copy, _stage_copy(job.target / each, new / copy), copy_of=each))
            steps += [Step(each, None, version(planned)) for each, planned in file.drops.items()]
            old = version(file.replaces) if file.replaces else None
            steps.append(Step(name, version((new / name).lstat()), old))
    with blaming(f"directory {str(place)!r}"):
        for directory in made:
            sync_directory(directory)
    missing = tuple(parent for parent, name in job.parents() if _is_missing(job.target / parent, name))
    return Journal(place, os.path.relpath(job.target, place.parent), missing, tuple(steps))


def _keep(name: str, planned: os.stat_result, *, target: Path, kept: Path) -> None:
    """Give a file that is going to be replaced or taken away a second name, if it can have one."""
    (kept / name).parent.mkdir(parents=True, exist_ok=True)
    if _link_to(target / name, kept / name) and not _is_same(kept / name, planned):
        raise _meanwhile(name, target / name)


def _stage_copy(path: Path, copy: Path) -> Version:
    if not _link_to(path, copy):
        shutil.copy2(path, copy, follow_symlinks=False)
        sync_file(copy)
    return version(copy.lstat())


def _is_missing(path: Path, name: str) -> bool:
    with blaming(f"document {name!r}"):
        there = look(path)
    if there and stat.S_ISLNK(there.st_mode):
        raise ColonyMemoryError(f"document {name!r}: {str(path)!r} has become a symbolic link; nothing was written")
    return there is None


def _make_directory(path: Path, name: str) -> None:
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        if path.is_symlink() or not path.is_dir():
            raise _meanwhile(f"{name}/", path) from None


def _take(step: Step, journal: Journal) -> None:
    """Put one file in place, or take it away.

    Raises:
        ColonyMemoryError: There is no longer what the plan was made for.
    """
    source, path = journal.staged(step.name), journal.folder / step.name
    if step.old is None:
        _create(source, path, step.name)
        return
    original = journal.kept(step.name)
    kept = look(original)
    if kept is None:
        move(path, original)
        there = kept = original.lstat()
    else:
        there = path.lstat()
    if not os.path.samestat(there, kept) or version(there) != step.old:
        raise _meanwhile(step.name, path)
    if step.new is not None:
        move(source, path)
    elif there is not kept:  # or it was moved away already
        path.unlink()


def _create(source: Path, path: Path, name: str) -> None:
    # A link, unlike a rename, never takes the place of a file that has come to be there.
    if _link_to(source, path):
        return
    if os.path.lexists(path):
        raise _meanwhile(name, path)
    move(source, path)


def _link_to(path: Path, other: Path) -> bool:
    """Give the file at ``path`` a second name, where that is possible and the name is free."""
    try:
        os.link(path, other, **_LINK_ITSELF)
    except (OSError, NotImplementedError) as error:
        logger.debug("%s has no second name %s: %s", path, other, error)
        return False
    return True


def _is_same(status: Path, planned: os.stat_result) -> bool:
    there = status.lstat()
    return there.st_ino == planned.st_ino and version(there) == version(planned)


def _meanwhile(name: str, path: Path) -> ColonyMemoryError:
    return ColonyMemoryError(f"document {name!r}: {str(path)!r} was changed in the meantime; nothing was written")
