"""What must be known of a restore when it is cut off, in the user's directory for the state of programs.

It does not lie in the folder: whoever can put a file there, a stranger's repository for one, must not say what a
restore left undone. Each restore has a file, replaced whole and synced, and a lock that goes with its process::

    ~/.local/state/colony-memory/restores/5f0c….json

Files of another user, or that others could write to, are passed over.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from colony_memory._os.directory import Directory
from colony_memory._os.files import make_directory, open_files, read_file, replace_file
from colony_memory._os.locks import locked, locked_in
from colony_memory._os.machine import config_directory, expanded, state_directory
from colony_memory._os.paths import real_path
from colony_memory.capture._filenames import fold
from colony_memory.exceptions import ColonyMemoryError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from colony_memory.capture._journal import Journal

logger = logging.getLogger(__name__)

_CONFIG = "the configuration of this program"
_LOCK, _DRAFT, _ALONE = ".lock", ".draft", "lock"
_LARGEST = 1 << 30  # bytes: a hundred or so for each file of a folder


def problem_with_state(files: Iterable[str], directories: Iterable[str], target: Path) -> str | None:
    """Say which document would come to lie where this state or the configuration is kept, or return None.

    What lies there is believed from then on: no snapshot may put it there.

    Args:
        files: Names of files and links in the folder.
        directories: Names of directories.
        target: Real path of the folder.
    """
    for kept, what in _kept():
        if target != kept and target not in kept.parents:
            if kept in target.parents:
                return f"names must not be written in {str(kept)!r}, where {what} is kept"
            continue
        reserved = tuple(map(_folded, kept.relative_to(target).parts))
        for name in [*files, *(f"{name}/" for name in directories)]:
            parts = tuple(map(_folded, name.split("/")))
            # A link on the way there would lead to state of the snapshot's own.
            if parts[: len(reserved)] == reserved or reserved[: len(parts)] == parts:
                return f"{name!r} is where {what} is kept"
    return None


def place_of_state(target: Path) -> tuple[str, ...]:
    """The names in a folder under which this is kept, as far as it is kept in there."""
    return tuple(kept.relative_to(target).as_posix() for kept, _ in _kept() if target in kept.parents)


def _kept() -> list[tuple[Path, str]]:
    """Paths of what this user's programs believe, and what each is; a user without a home has none."""
    found: list[tuple[Path, str]] = []
    for place, what in ((state_directory, "the state of restores"), (_config, _CONFIG), (_named_config, _CONFIG)):
        with contextlib.suppress(OSError):
            found += [(form, what) for form in _forms(place())]
    return found


def _forms(path: Path | None) -> list[Path]:
    """A path with what is on its way resolved to each depth: whoever makes anew what is a link there has it moved."""
    if path is None:
        return []
    return list(dict.fromkeys(Path(real_path(each), path.relative_to(each)) for each in (path, *path.parents)))


def _config() -> Path:
    return config_directory() / "config.toml"


def _named_config() -> Path | None:
    named = os.environ.get("COLONY_MEMORY_CONFIG", "")
    return Path(os.path.abspath(expanded(named))) if named.strip() else None  # noqa: PTH100 - links stay


def _folded(component: str) -> str:
    """The same for all spellings that a file system may take for one."""
    return fold(component).rstrip(" .")


class Record:
    """The state of one restore.

    Attributes:
        path: Its file.
        needed: Whether the restore that began it has come to the folder itself, and has not ended there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.needed = False

    def write(self, journal: Journal) -> None:
        """Put it on disk, whole or not at all."""
        from colony_memory.capture._journal import dump_journal

        replace_file(self.path, dump_journal(journal), temp=self.path.with_suffix(_DRAFT).name)

    def read(self) -> Journal | None:
        """What it says; None where it is gone, or is not this user's.

        Raises:
            ValueError: It says nothing that makes sense.
            OSError: It cannot be read.
        """
        from colony_memory.capture._journal import load_journal

        found = read_file(self.path, _LARGEST)
        if found is not None and not _is_own(found.facts):
            logger.warning("%s is passed over: it is not this user's alone", self.path)
            return None
        return None if found is None else load_journal(found.data)

    def remove(self) -> bool:
        """Forget it: nothing is left to do. Returns whether that could be done."""
        try:
            self.path.unlink(missing_ok=True)
            self.path.with_suffix(_DRAFT).unlink(missing_ok=True)
        except OSError as error:
            logger.warning("%s could not be removed: %s", self.path, error)
            return False
        try:
            Directory(self.path.parent).sync()
        except OSError as error:
            # Should it come back with a power cut, whoever finds it has nothing to do either.
            logger.debug("%s is removed, but maybe not for good: %s", self.path, error)
        return True


def list_records() -> list[Record]:
    """Of all restores of this user that are under way or were cut off."""
    try:
        place = _records()
        if not _is_trusted(os.lstat(place)):
            logger.warning("%s is passed over: others can write to it", place)
            return []
        names = sorted(name for name in os.listdir(place) if name.endswith(".json"))  # noqa: PTH208 - names alone
    except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
        logger.debug("no restore has been cut off that could be known: %s", error)
        return []
    return [Record(place / name) for name in names]


@contextlib.contextmanager
def held(record: Record) -> Iterator[bool]:
    """Hold the lock of a restore that somebody else began. Gives False where it is under way."""
    with ExitStack() as stack:
        try:
            stack.enter_context(_locked(record))
        except TimeoutError:
            yield False
            return
        yield True


@contextlib.contextmanager
def begun(journal: Journal) -> Iterator[Record]:
    """Write down a restore that begins, holding its lock for as long as the block runs.

    Raises:
        OSError: The state cannot be kept.
    """
    place = _records()
    make_directory(place, keep_owner=True)
    if not _is_trusted(os.lstat(place)):
        raise PermissionError(f"{str(place)!r} is not this user's alone")
    record = Record(place / f"{os.urandom(16).hex()}.json")
    with _locked(record):
        record.write(journal)
        yield record


@contextlib.contextmanager
def _locked(record: Record) -> Iterator[None]:
    """Hold the lock of a restore, which goes when there is nothing left to remember."""
    lock = record.path.with_suffix(_LOCK)
    with locked(lock, patience=0):
        try:
            yield
        finally:
            if not os.path.lexists(record.path):
                try:
                    lock.unlink(missing_ok=True)
                except OSError as error:
                    logger.debug("%s is no longer needed and could not be removed: %s", lock, error)


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Keep other processes of this user from beginning a restore at the same moment.

    Raises:
        OSError: The state cannot be kept.
        ColonyMemoryError: Another one has held it for long.
    """
    place = _records()
    make_directory(place, keep_owner=True)
    with ExitStack() as stack:
        try:
            directory = stack.enter_context(open_files(place, keep_owner=True))
            stack.enter_context(locked_in(directory, _ALONE))
        except TimeoutError as error:
            raise ColonyMemoryError(f"another restore is about to begin: {error}; try again") from error
        _sweep(place)
        yield


def _sweep(place: Path) -> None:
    """Remove what processes that were killed have left of restores that never began, or had ended."""
    for lock in place.glob(f"*{_LOCK}"):
        record = Record(lock.with_suffix(".json"))
        if not os.path.lexists(record.path):
            with held(record) as free:
                if free:
                    record.remove()


def _records() -> Path:
    return state_directory() / "restores"


def _is_trusted(status: os.stat_result) -> bool:
    if sys.platform == "win32":  # pragma: no cover - chosen by the platform
        return True
    if not stat.S_ISDIR(status.st_mode) or stat.S_IMODE(status.st_mode) & 0o022:
        return False
    # In a directory of another user's root believes the files that are root's.
    return os.geteuid() in (0, status.st_uid)


def _is_own(status: os.stat_result) -> bool:
    if sys.platform == "win32":  # pragma: no cover - chosen by the platform
        return True
    return (status.st_uid, status.st_nlink, status.st_mode & 0o077) == (os.geteuid(), 1, 0)
