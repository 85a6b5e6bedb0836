"""New files written and synced out of sight, ready to be moved."""

from __future__ import annotations

import os
import re
import stat
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from colony_memory.capture._filenames import parents_of
from colony_memory.capture._staging import sync_directory
from colony_memory.exceptions import ColonyMemoryWarning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    Progress = Callable[[int, int, str], None]

_WRITE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class NewFile:
    """A file to be put in place.

    Attributes:
        content: Text or bytes.
        executable: Whether its owner may execute it.
        replaces: What stood in its place when the plan was made, or None.
        copy_to: Name under which what it replaces stays next to it, or None where it does not.
        drops: Files that go with what it replaces: the logs of a database, which would be merged into the new one.
    """

    content: str | bytes
    executable: bool
    replaces: os.stat_result | None
    copy_to: str | None = None
    drops: Mapping[str, os.stat_result] = field(default_factory=dict)


@dataclass(frozen=True)
class Job:
    """What is to stand in ``target``: the same for every way of getting it there."""

    files: Mapping[str, NewFile]
    directories: Sequence[str]
    target: Path
    on_progress: Progress | None = None

    def parents(self) -> Iterator[tuple[str, str]]:
        """Yield every directory that is needed, those above first, with the name that needs it first."""
        seen: set[str] = set()
        for name in [*self.files, *(f"{name}/" for name in self.directories)]:
            for parent in parents_of(name):
                if parent not in seen:
                    seen.add(parent)
                    yield parent, name


class Failed(Exception):
    """The system refused a step that was for ``what``."""

    def __init__(self, what: str, error: OSError) -> None:
        super().__init__(what, error)
        self.what = what
        self.error = error


@contextmanager
def blaming(what: str) -> Iterator[None]:
    """Turn an OSError into one that says what it was about."""
    try:
        yield
    except OSError as error:
        raise Failed(what, error) from error


def encode_text(content: str | bytes) -> bytes:
    """Return the bytes of a file. A lone surrogate, which UTF-8 has no bytes for, becomes three of its own."""
    return content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")


def stage(job: Job, tree: Path, *, top: Path) -> None:
    """Write everything under ``tree``, which is ``top`` or below it, and make sure that it is on the disk."""
    made = [top]
    with blaming(f"directory {str(job.target)!r}"):
        top.mkdir(mode=0o700)
        for part in tree.relative_to(top).parts:
            made.append(made[-1] / part)
            made[-1].mkdir(mode=0o700)
    for parent, name in job.parents():
        with blaming(f"document {name!r}"):
            (tree / parent).mkdir(mode=0o700)
            made.append(tree / parent)
    for name, file in job.files.items():
        with blaming(f"document {name!r}"):
            _write(tree / name, name, file)
    # Syncing after all of the writing costs far less than syncing in between.
    for done, (name, file) in enumerate(job.files.items(), 1):
        with blaming(f"document {name!r}"):
            sync_file(tree / name)
            if file.replaces:
                _take_permissions(tree / name, file.replaces, executable=file.executable)
        if job.on_progress:
            job.on_progress(done, len(job.files), name)
    for directory in reversed(made):
        with blaming(f"directory {str(job.target)!r}"):
            sync_directory(directory)


def take_owner(path: Path, replaced: os.stat_result) -> None:
    """Root restores for others: what was theirs stays theirs."""
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        os.chown(path, replaced.st_uid, replaced.st_gid)


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


def sync_file(path: Path) -> None:
    """Make the content of a file last."""
    with path.open("r+b") as stream:
        os.fsync(stream.fileno())


def _take_permissions(path: Path, replaced: os.stat_result, *, executable: bool) -> None:
    mode = stat.S_IMODE(replaced.st_mode) & 0o777
    if executable:
        mode |= 0o100 | (mode & 0o444) >> 2  # whoever may read may execute
    take_owner(path, replaced)
    path.chmod(mode)
