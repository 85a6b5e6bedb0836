"""The journal of a restore, written before the first move, and its place on disk.

It does not lie in the folder: whoever can put a file there, a stranger's repository for one, must not say what a
restore left undone. Each restore has a file in the user's directory for the state of programs, replaced whole and
synced, and a lock that goes with its process. Files of another user, or that others could write to, are passed over.
Paths in it are the folder itself or names below it, and each file is known by its inode, size and time of change.
``~/.local/state/colony-memory/restores/5f0c….json``::

    {"boot": "…", "dropped": {"old": 448}, "folder": "/home/me/memory", "format": "colony-memory/restore/2",
     "given": {}, "identity": [2049, 131], "lent": [], "made": ["notes"], "modes": [], "note": null,
     "phase": "moving", "place": "/home/me/memory", "place_identity": [2049, 131], "settled": true,
     "staging": ".colony-memory-restoring-5f0c",
     "steps": [["MEMORY.md", [140, 12, 1795766400000000000], [139, 9, 1793088000000000000], "0", "", true]],
     "volumes": [""]}
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import os
import re
import stat
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from colony_memory._format.json import load_object
from colony_memory._os.directory import Directory
from colony_memory._os.files import make_directory, open_files, read_file, replace_file
from colony_memory._os.locks import locked, locked_in
from colony_memory._os.machine import state_directory
from colony_memory._os.paths import Identity
from colony_memory._values import dataclass, names_of, pattern, replace
from colony_memory.capture._filenames import STAGING_PREFIX, name_problem
from colony_memory.exceptions import ColonyMemoryError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

logger = logging.getLogger(__name__)

JOURNAL_FORMAT = "colony-memory/restore/2"
PREPARING, MOVING, DONE = "preparing", "moving", "done"

_STAGING = pattern(re.escape(STAGING_PREFIX) + "[0-9a-f]{16,64}")
_PHASE = pattern(f"{PREPARING}|{MOVING}|{DONE}")
_NUMBER = pattern("[0-9]+(-[a-z]+)?")
_LOCK, _DRAFT, _ALONE = ".lock", ".draft", "lock"
_LARGEST = 1 << 30  # bytes: a hundred or so for each file of a folder


class Version(NamedTuple):
    """The identity of a file's content; size and time are -1 where the content does not matter."""

    inode: int
    size: int
    changed: int

    @classmethod
    def of(cls, status: os.stat_result) -> Version:
        return cls(status.st_ino, status.st_size, status.st_mtime_ns)

    def fits(self, status: os.stat_result | None) -> bool:
        if status is None or status.st_ino != self.inode:
            return False
        return self.size == -1 or self == Version.of(status)


class Step(NamedTuple):
    """One file that is put in place or taken away.

    In the staging directory it waits under its number in ``new``, and what it replaces is in ``kept`` then.
    """

    name: str  # path in the folder, with /
    new: Version | None  # the file that is put there, or None where one is taken away
    old: Version | None  # the file that it replaces, or None
    number: str  # its name in both; the log of a database has the number of that, and its own ending
    volume: str = ""  # which of the journal's volumes its staging directory is in
    shared: bool = False  # what it replaces had a second name in kept beforehand, and is not moved there


class ModeChange(NamedTuple):
    """A file or directory that gets other permissions and nothing else."""

    name: str
    inode: int
    old: int
    new: int


@dataclass(frozen=True)
class Journal:
    """A restore."""

    folder: str  # real path of the folder that is restored into
    identity: Identity | None  # the folder, or None where it appears as a whole
    place: str  # real path of the directory that the staging directory is in: the folder, or the one above it
    place_identity: Identity  # that directory
    staging: str  # name of the staging directory
    phase: str = PREPARING  # preparing while only the staging directory changes, moving, or done when it may go
    made: tuple[str, ...] = ()  # directories that are made, those above first
    given: tuple[tuple[str, int], ...] = ()  # permissions that some of them get in the end
    steps: tuple[Step, ...] = ()  # in the order in which they are taken
    dropped: tuple[tuple[str, int], ...] = ()  # directories that are removed, inner ones first, with their permissions
    modes: tuple[ModeChange, ...] = ()  # permissions that are set
    # Read-only directories of this user, the folder itself by no name, that may be written to until the end
    lent: tuple[ModeChange, ...] = ()
    # Directories of the folder that there is a staging directory in, the folder itself first: files are moved within
    # one file system
    volumes: tuple[str, ...] = ("",)
    # What is replaced may go, so that the moves alone are what there is to finish; else it has to be asked for when
    # they are taken, and whoever finds them cut off puts everything back
    settled: bool = True
    note: dict[str, Any] | None = None  # what is to be remembered once all is in place, None for nothing
    boot: str = ""  # what tells one run of the machine from another: device numbers may change in between

    def done(self, *, note: bool = True) -> Journal:
        """The same when the moves are over: what is left to do is told by the staging directory alone, and the note."""
        over = replace(self, phase=DONE, made=(), given=(), steps=(), dropped=(), modes=())
        return over if note else replace(over, note=None)

    @property
    def leaving(self) -> list[Step]:
        """The steps that take a file away, which come first: a directory may take its name, or its directory go."""
        return [step for step in self.steps if step.new is None]

    @property
    def coming(self) -> list[Step]:
        """The steps that put a file in place."""
        return [step for step in self.steps if step.new is not None]

    def names(self) -> list[str]:
        """Of all that comes to be in the folder or goes."""
        return [*(step.name for step in self.steps), *self.made, *(name for name, _ in self.dropped)]

    def is_of(self, status: os.stat_result, identity: Identity | None) -> bool:
        """A directory is the one of that identity."""
        if identity is None or status.st_ino != identity.inode:
            return False
        return status.st_dev == identity.device or self.boot != boot_id()


@functools.cache
def boot_id() -> str:
    """The id of this run of the machine, empty where the system does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except (OSError, ValueError):
        return ""


def dump_journal(journal: Journal) -> bytes:
    """The bytes of the file."""
    known = {name: getattr(journal, name) for name in names_of(Journal)}
    known |= {"dropped": dict(journal.dropped), "given": dict(journal.given)}
    return json.dumps({**known, "format": JOURNAL_FORMAT}).encode("ascii")


def load_journal(data: bytes) -> Journal:
    """Read the file, every path and name in it checked; ValueError where it is no journal."""
    document = load_object(data.decode("ascii"))
    try:
        if document["format"] != JOURNAL_FORMAT:
            raise ValueError(f"unknown format {document['format']!r}")
        return Journal(
            folder=_path(document["folder"]),
            identity=None if document["identity"] is None else Identity(*_numbers(document["identity"], 2)),
            place=_path(document["place"]),
            place_identity=Identity(*_numbers(document["place_identity"], 2)),
            staging=_text(document["staging"], _STAGING),
            phase=_text(document["phase"], _PHASE),
            made=tuple(_name(name) for name in document["made"]),
            steps=tuple(_step(each) for each in document["steps"]),
            given=_directories(document["given"]),
            dropped=_directories(document["dropped"]),
            modes=_modes(document["modes"]),
            lent=_modes(document["lent"], folder=True),
            volumes=tuple(name and _name(name) for name in document["volumes"]),
            settled=document["settled"] is True,
            note=document["note"],
            boot=str(document["boot"]),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a journal: {error!r}") from error


def _step(found: Any) -> Step:
    name, new, old, number, volume, shared = found
    if new is None and old is None:
        raise ValueError(f"nothing to do for {name!r}")
    where = volume and _name(volume)
    return Step(_name(name), _version(new), _version(old), _text(number, _NUMBER), where, shared is True)


def _directories(found: Any) -> tuple[tuple[str, int], ...]:
    return tuple((_name(name), _numbers([mode], 1)[0]) for name, mode in found.items())


def _modes(found: Any, *, folder: bool = False) -> tuple[ModeChange, ...]:
    return tuple(
        ModeChange("" if folder and name == "" else _name(name), *_numbers([inode, old, new], 3))
        for name, inode, old, new in found
    )


def _version(value: Any) -> Version | None:
    return None if value is None else Version(*_numbers(value, 3))


def _numbers(values: Any, count: int) -> Sequence[int]:
    if not isinstance(values, list) or len(values) != count or not all(type(value) is int for value in values):
        raise ValueError(f"numbers {values!r}")
    return values


def _text(text: Any, form: re.Pattern[str]) -> str:
    if not isinstance(text, str) or not form.fullmatch(text):
        raise ValueError(f"{text!r}")
    return text


def _name(name: Any) -> str:
    if not isinstance(name, str) or name_problem(name):
        raise ValueError(f"name {name!r}")
    return name


def _path(path: Any) -> str:
    if not isinstance(path, str) or not Path(path).is_absolute() or os.path.normpath(path) != path:
        raise ValueError(f"path {path!r}")
    return path


# --- on disk


class Record:
    """The journal of one restore on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.needed = False  # the restore that began it has come to the folder itself, and has not ended there

    def write(self, journal: Journal) -> None:
        """Put it on disk, whole or not at all."""
        replace_file(self.path, dump_journal(journal), temp=self.path.with_suffix(_DRAFT).name)

    def read(self) -> Journal | None:
        """The journal; None where it is gone, or is not this user's; ValueError where it makes no sense."""
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

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the restore, whose file goes when there is nothing left to remember; else TimeoutError."""
        lock = self.path.with_suffix(_LOCK)
        with locked(lock, patience=0):
            try:
                yield
            finally:
                if not os.path.lexists(self.path):
                    try:
                        lock.unlink(missing_ok=True)
                    except OSError as error:
                        logger.debug("%s is no longer needed and could not be removed: %s", lock, error)


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
def begin_record(journal: Journal) -> Iterator[Record]:
    """Write down a restore that begins, holding its lock for as long as the block runs."""
    record = Record(_made_records() / f"{os.urandom(16).hex()}.json")
    with record.locked():
        record.write(journal)
        yield record


@contextlib.contextmanager
def start_lock() -> Iterator[None]:
    """Keep other processes of this user from beginning a restore at the same moment."""
    place = _made_records()
    with ExitStack() as stack:
        try:
            directory = stack.enter_context(open_files(place, keep_owner=True))
            stack.enter_context(locked_in(directory, _ALONE))
        except TimeoutError as error:
            raise ColonyMemoryError(f"another restore is about to begin: {error}; try again") from error
        # Processes that were killed have left locks of restores that never began, or had ended.
        for lock in place.glob(f"*{_LOCK}"):
            record = Record(lock.with_suffix(".json"))
            if not os.path.lexists(record.path):
                with contextlib.suppress(TimeoutError), record.locked():
                    record.remove()
        yield


def _records() -> Path:
    return state_directory() / "restores"


def _made_records() -> Path:
    place = _records()
    make_directory(place, keep_owner=True)
    if not _is_trusted(os.lstat(place)):
        raise PermissionError(f"{str(place)!r} is not this user's alone")
    return place


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
