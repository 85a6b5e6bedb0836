"""Files into place, all or none: staged and synced out of sight, then moved, and moved back if a move fails.

Two ways in. A directory that is not there, or is empty, appears by a single rename. Into a directory that holds
something, file after file is moved; what a move replaces is kept until the last one has succeeded.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import shutil
import stat
import tempfile
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from colony_memory.capture._filenames import STAGING_PREFIX, parents_of
from colony_memory.capture._undo import Undo, replace
from colony_memory.exceptions import ColonyMemoryError, ColonyMemoryWarning

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

logger = logging.getLogger(__name__)

_WRITE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
# Reasons for which staging in another place may do: a mount in between, a parent that is not ours to write to.
_ELSEWHERE = {errno.EXDEV, errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY}
# What systems and file systems answer that know no syncing of a directory.
_NO_DIRECTORY_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES}

_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class NewFile:
    """A file to be put in place.

    Attributes:
        content: Text or bytes.
        executable: Whether its owner may execute it.
        replaces: What stood in its place when the plan was made, or None.
    """

    content: str | bytes
    executable: bool
    replaces: os.stat_result | None


@dataclass(frozen=True)
class _Job:
    """What is to stand in ``target``: the same for every way of getting it there."""

    files: Mapping[str, NewFile]
    directories: Sequence[str]
    target: Path


class _Failed(Exception):
    """The system refused a step that was for ``what``."""

    def __init__(self, what: str, error: OSError) -> None:
        super().__init__(what, error)
        self.what = what
        self.error = error


class _Stranded(Exception):
    """Moving back failed too: ``names`` are not as they were, and what was replaced is in ``kept``."""

    def __init__(self, names: Sequence[str], kept: Path) -> None:
        super().__init__(names, kept)
        self.names = names
        self.kept = kept


def encode_text(content: str | bytes) -> bytes:
    """Return the bytes of a file. A lone surrogate, which UTF-8 has no bytes for, becomes three of its own."""
    return content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")


def put_in_place(files: Mapping[str, NewFile], directories: Sequence[str], target: Path) -> None:
    """Write the files and make the directories under ``target``.

    Raises:
        ColonyMemoryError: It names the document. ``target`` is as it was, unless the message says otherwise and
            where the originals are.
    """
    if not files and not directories:
        return
    job = _Job(files, directories, target)
    ways = _ways_in(target)
    while True:
        base, top = ways.pop(0)
        try:
            _stage_and_move(job, base=base, top=top)
        except _Failed as failure:
            if failure.error.errno in _ELSEWHERE and ways:
                logger.debug("staging in %s did not do: %s", base, failure.error)
                continue
            raise ColonyMemoryError(
                f"{failure.what} cannot be written ({failure.error.strerror or failure.error}); "
                f"nothing was changed in {str(target)!r}"
            ) from failure.error
        except _Stranded as stranded:
            names = ", ".join(map(repr, stranded.names))
            raise ColonyMemoryError(
                f"restoring into {str(target)!r} failed, and so did putting back {names}; "
                f"the originals are in {str(stranded.kept)!r}"
            ) from stranded
        return


def _ways_in(target: Path) -> list[tuple[Path, Path | None]]:
    """List what to try: a directory to stage in, and the path to rename to, or None for file after file."""
    if not os.path.lexists(target):
        top = target
        while not os.path.lexists(top.parent):
            top = top.parent
        return [(top.parent, top)]
    each: list[tuple[Path, Path | None]] = [(target.parent, None), (target, None)]
    return [(target.parent, target), *each] if _is_empty(target) and not _is_current(target) else each


def _is_empty(directory: Path) -> bool:
    try:
        with os.scandir(directory) as entries:
            return next(entries, None) is None
    except PermissionError:  # it can be written to all the same
        return False


def _is_current(directory: Path) -> bool:
    """Whether a shell that started us may stand in ``directory``: a rename would leave it in a removed one."""
    try:
        return directory.samefile(Path.cwd())
    except OSError:  # the current directory is gone already
        return False


def _stage_and_move(job: _Job, *, base: Path, top: Path | None) -> None:
    with _blaming(f"directory {str(base)!r}"):
        staging = Path(tempfile.mkdtemp(prefix=STAGING_PREFIX, dir=base))
    stranded = False
    try:
        new = staging / "new"
        if top:
            _stage(job, new / job.target.relative_to(top), top=new)
            _move_whole(new, top)
        else:
            _stage(job, new, top=new)
            _move_each(job, new, Undo(staging / "kept"))
    except _Stranded:
        stranded = True
        raise
    finally:
        if not stranded:
            _remove(staging)


def _stage(job: _Job, tree: Path, *, top: Path) -> None:
    """Write everything under ``tree``, and make sure that it is on the disk."""
    made = [top]
    with _blaming(f"directory {str(job.target)!r}"):
        top.mkdir(mode=0o700)
        for part in tree.relative_to(top).parts:
            made.append(made[-1] / part)
            made[-1].mkdir(mode=0o700)
    seen = set(made)
    for name in [*job.files, *(f"{name}/" for name in job.directories)]:
        with _blaming(f"document {name!r}"):
            for parent in parents_of(name):
                directory = tree / parent
                if directory not in seen:
                    directory.mkdir(mode=0o700)
                    seen.add(directory)
                    made.append(directory)
    for name, file in job.files.items():
        with _blaming(f"document {name!r}"):
            _write(tree / name, name, file)
    # Syncing after all of the writing costs far less than syncing in between.
    for name, file in job.files.items():
        with _blaming(f"document {name!r}"):
            _sync(tree / name)
            if file.replaces:
                _take_permissions(tree / name, file.replaces, executable=file.executable)
    for directory in reversed(made):
        with _blaming(f"directory {str(job.target)!r}"):
            _sync_directory(directory)


def _write(path: Path, name: str, file: NewFile) -> None:
    data = encode_text(file.content)
    if isinstance(file.content, str) and _SURROGATE.search(file.content):
        warnings.warn(
            f"document {name!r} has half of a surrogate pair in its text: the file is not valid UTF-8",
            ColonyMemoryWarning,
            stacklevel=2,
        )
    with os.fdopen(os.open(path, _WRITE_FLAGS, 0o700 if file.executable else 0o600), "wb") as stream:
        stream.write(data)


def _sync(path: Path) -> None:
    with path.open("r+b") as stream:
        os.fsync(stream.fileno())


def _sync_directory(path: Path) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in _NO_DIRECTORY_SYNC:
            raise
        logger.debug("%s cannot be synced: %s", path, error)


def _take_permissions(path: Path, replaced: os.stat_result, *, executable: bool) -> None:
    mode = stat.S_IMODE(replaced.st_mode) & 0o777
    if executable:
        mode |= 0o100 | (mode & 0o444) >> 2  # whoever may read may execute
    _take_owner(path, replaced)
    path.chmod(mode)


def _take_owner(path: Path, replaced: os.stat_result) -> None:
    """Root restores for others: what was theirs stays theirs."""
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        os.chown(path, replaced.st_uid, replaced.st_gid)


def _move_whole(new: Path, top: Path) -> None:
    with _blaming(f"directory {str(top)!r}"):
        if top.exists():
            there = top.stat()
            _take_owner(new, there)
            new.chmod(stat.S_IMODE(there.st_mode))
        replace(new, top)
    try:
        _sync_directory(top.parent)
    except OSError as error:
        logger.warning("%s is restored, but may not survive a power cut right now: %s", top, error)


def _move_each(job: _Job, new: Path, undo: Undo) -> None:
    touched = {job.target: None}
    try:
        for name in [*job.files, *(f"{name}/" for name in job.directories)]:
            with _blaming(f"document {name!r}"):
                for parent in parents_of(name):
                    undo.make_directory(job.target / parent, f"{parent}/")
                    touched[job.target / parent] = None
        for name, file in job.files.items():
            with _blaming(f"document {name!r}"):
                undo.move(new / name, job.target / name, name, replaces=file.replaces)
        for directory in touched:
            with _blaming(f"directory {str(directory)!r}"):
                _sync_directory(directory)
    except BaseException as error:
        stranded = undo.put_back()
        if stranded:
            raise _Stranded(stranded, undo.kept) from error
        raise


def _remove(staging: Path) -> None:
    try:
        shutil.rmtree(staging)
    except OSError as error:
        logger.warning("%s could not be removed and is of no use any more: %s", staging, error)


@contextmanager
def _blaming(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _Failed(what, error) from error
