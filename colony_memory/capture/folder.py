"""A folder on disk, as documents and back, byte for byte.

UTF-8 files become documents of their own, without any newline translation. What text cannot carry (other bytes,
empty directories, executable files) stands in one more document, ``.colony-memory/folder.json``. Nothing is left
out unsaid, and no symbolic link is followed.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from colony_memory.capture._filenames import STAGING_PREFIX, find_clash, name_problem, parents_of
from colony_memory.capture._metadata import METADATA_NAME, Metadata, dump_metadata
from colony_memory.capture._write import Written, write_folder

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Capture", "LeftOut", "Written", "read_folder", "read_paths", "write_folder"]

_TRIES = 3
# A file that becomes a pipe must not hang the reading, nor one that becomes a link lead it elsewhere.
_OPEN_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
)
_JUNCTION = 0xA0000003  # reparse tag of a directory junction on Windows
_KEEPS_EXECUTABLE_BITS = os.name != "nt"


@dataclass(frozen=True)
class LeftOut:
    """Something in the folder that no document holds.

    Attributes:
        name: Path inside the folder, with ``/``; a directory ends with one.
        reason: Why it was left out.
    """

    name: str
    reason: str


@dataclass(frozen=True)
class Capture:
    """What was read from a folder.

    Attributes:
        documents: Name to text; write_folder() turns it into the same files again.
        left_out: What is on disk and not in ``documents``, by name. Empty if all was saved.
    """

    documents: dict[str, str]
    left_out: tuple[LeftOut, ...]


def read_folder(path: str | os.PathLike[str]) -> Capture:
    """Read every file under a directory.

    Names are relative to the directory and use ``/``. A file that changes while it is read is read again, three
    times in all. The directory itself may be a symbolic link.

    Raises:
        ValueError: ``path`` is missing, not a directory or not readable, or nothing in it can be saved.
    """
    return _capture([_directory(path)])


def read_paths(paths: Iterable[str | os.PathLike[str]]) -> Capture:
    """Read files and directories into one set of documents.

    A directory gives its files under names relative to it, as read_folder() does; a file gives its base name.

    Raises:
        ValueError: A path is missing or not readable, two sources have the same name, or nothing can be saved.
    """
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    return _capture([_existing(path) for path in paths])


@dataclass(frozen=True)
class _Source:
    """A path that the caller named, and what stands there."""

    path: Path
    is_directory: bool


@dataclass
class _Found:
    """What the reading has come across so far; each name with the path it was found at."""

    contents: dict[str, str | bytes] = field(default_factory=dict)
    executable: set[str] = field(default_factory=set)
    sources: dict[str, Path] = field(default_factory=dict)
    directories: dict[str, Path] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)


class _NotSaved(Exception):
    """A file that cannot be read whole; the text is the reason."""


def _existing(path: str | os.PathLike[str]) -> _Source:
    try:
        status = Path(path).stat()
    except FileNotFoundError as error:
        raise ValueError(f"{os.fspath(path)!r}: no such file or directory") from error
    except (OSError, ValueError) as error:
        raise ValueError(f"{os.fspath(path)!r} cannot be read: {_reason(error)}") from error
    if not stat.S_ISDIR(status.st_mode) and not stat.S_ISREG(status.st_mode):
        raise ValueError(f"{os.fspath(path)!r} is neither a file nor a directory")
    return _Source(Path(path), stat.S_ISDIR(status.st_mode))


def _directory(path: str | os.PathLike[str]) -> _Source:
    source = _existing(path)
    if not source.is_directory:
        raise ValueError(f"{os.fspath(path)!r} is not a directory")
    return source


def _capture(sources: list[_Source]) -> Capture:
    found = _Found()
    for source in sources:
        if source.is_directory:
            _read_tree(source.path, found)
        else:
            # The caller named this very file: as with most tools, its being a link does not matter.
            _read_file(source.path.resolve(), source.path.absolute().name, found, given_as=source.path)
    _refuse_clashes(found)
    left_out = tuple(sorted(found.left_out, key=lambda entry: entry.name))
    if not found.contents:
        where = ", ".join(repr(str(source.path)) for source in sources) or "no path was given"
        why = f": {left_out[0].name!r} was left out ({left_out[0].reason})" if left_out else ""
        raise ValueError(f"{where}: nothing to back up{why}")
    return Capture(_documents(found), left_out)


def _documents(found: _Found) -> dict[str, str]:
    documents: dict[str, str] = {}
    files: dict[str, bytes] = {}
    for name, content in sorted(found.contents.items()):
        if isinstance(content, bytes):
            files[name] = content
        elif name == METADATA_NAME:
            files[name] = content.encode("utf-8")
        else:
            documents[name] = content
    metadata = Metadata(files, tuple(_empty_directories(found)), frozenset(found.executable))
    if metadata:
        documents[METADATA_NAME] = dump_metadata(metadata)
    return documents


def _empty_directories(found: _Found) -> list[str]:
    """Directories that no file implies; of nested ones, the innermost."""
    implied = {parent for name in [*found.contents, *found.directories] for parent in parents_of(name)}
    return [name for name in found.directories if name not in implied]


def _read_tree(root: Path, found: _Found) -> None:
    pending = [""]
    while pending:
        directory = pending.pop()
        try:
            with os.scandir(root / directory) as entries:
                children = sorted(entry.name for entry in entries)
        except OSError as error:
            if not directory:
                raise ValueError(f"{str(root)!r} cannot be read: {_reason(error)}") from error
            found.left_out.append(LeftOut(f"{directory}/", _reason(error)))
            continue
        if directory:
            found.directories.setdefault(directory, root / directory)
        for child in children:
            name = f"{directory}/{child}" if directory else child
            if _read_entry(root / name, name, found):
                pending.append(name)


def _read_entry(path: Path, name: str, found: _Found) -> bool:
    """Read or leave out what stands at ``path``; return whether it is a directory to go into instead."""
    try:
        status = path.lstat()
    except OSError as error:
        found.left_out.append(LeftOut(name, _reason(error)))
        return False
    is_directory = stat.S_ISDIR(status.st_mode)
    problem = name_problem(name)
    if path.name.startswith(STAGING_PREFIX):
        reason = "left by a restore that was cut off; it may hold originals, look and then delete it"
    elif problem:
        reason = f"{problem}; rename it"
    else:
        reason = _special(status)
    if reason:
        found.left_out.append(LeftOut(f"{name}/" if is_directory else name, reason))
    elif is_directory:
        return True
    else:
        _read_file(path, name, found, given_as=path)
    return False


def _special(status: os.stat_result) -> str:
    """Say what a thing is that is neither a plain file nor a directory, or nothing."""
    if stat.S_ISLNK(status.st_mode) or getattr(status, "st_reparse_tag", 0) == _JUNCTION:
        return "symbolic link, not followed"
    if stat.S_ISSOCK(status.st_mode):
        return "socket"
    if stat.S_ISFIFO(status.st_mode):
        return "named pipe"
    if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
        return ""
    return "device"


def _read_file(path: Path, name: str, found: _Found, *, given_as: Path) -> None:
    try:
        data, executable = _read_steadily(path)
    except _NotSaved as reason:
        found.left_out.append(LeftOut(name, str(reason)))
        return
    except OSError as error:
        found.left_out.append(LeftOut(name, _reason(error)))
        return
    if name in found.sources:
        raise ValueError(
            f"{str(found.sources[name])!r} and {str(given_as)!r} would both be saved as {name!r}: back them up apart"
        )
    found.sources[name] = given_as
    try:
        found.contents[name] = data.decode("utf-8")
    except UnicodeDecodeError:
        found.contents[name] = data
    if executable and _KEEPS_EXECUTABLE_BITS:
        found.executable.add(name)


def _read_steadily(path: Path) -> tuple[bytes, bool]:
    """Return the bytes of a file that held still meanwhile, and whether its owner may execute it."""
    for _ in range(_TRIES):
        with open(path, "rb", opener=_open_file) as file:
            before = os.fstat(file.fileno())
            if not stat.S_ISREG(before.st_mode):
                raise _NotSaved("no longer a file when it was read")
            data = file.read()
        after = path.lstat()
        if _version(before) == _version(after) and len(data) == before.st_size:
            return data, bool(before.st_mode & stat.S_IXUSR)
    raise _NotSaved(f"changed while it was read, {_TRIES} times in a row")


def _open_file(path: str, _flags: int) -> int:
    return os.open(path, _OPEN_FLAGS)


def _version(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns


def _refuse_clashes(found: _Found) -> None:
    """Of several sources, one may have a file where another has a directory."""
    clash = find_clash(found.contents, found.directories, key=str)
    if clash:
        file, below = found.sources[clash[0]], found.directories.get(clash[1]) or found.sources[clash[1]]
        raise ValueError(
            f"{str(file)!r} and {str(below)!r} would be a file and a directory of one name, {clash[0]!r}: "
            "back them up apart"
        )


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "vanished before it was read"
    if isinstance(error, PermissionError):
        return "not readable: permission denied"
    return getattr(error, "strerror", None) or str(error)
