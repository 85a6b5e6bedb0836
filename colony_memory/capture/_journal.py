"""The journal of a restore, written before the first move, and its place on disk.

It is kept outside the folder, where others may write files: they must not say what a restore left undone. Each journal
is a file in the state directory, with a lock that ends with its process; files that others could write are ignored.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from colony_memory._format.payload import sha256
from colony_memory._os.files import Files, locked_in, make_directory
from colony_memory._os.machine import state_directory
from colony_memory._os.paths import Identity, local_bytes, user_id
from colony_memory._values import NamedTuple, Value, getLogger, names_of, pattern, replace
from colony_memory.capture._filenames import STAGING_PREFIX, name_problem
from colony_memory.capture._identity import boot_id
from colony_memory.exceptions import ColonyMemoryError

logger = getLogger(__name__)

# Start of the first line of the file; the digest of all other lines follows.
_FORMAT = "colony-memory/restore/4"
# Only the staging directory changes; the folder changes, and has to be put back if interrupted; all is in place.
PREPARING, MOVING, DONE = "preparing", "moving", "done"

_STAGING = pattern(re.escape(STAGING_PREFIX) + "[0-9a-f]{16,64}")
_NUMBER = pattern("[0-9]+(-[a-z]+)?")
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
        return status is not None and (self == Version.of(status) or self == (status.st_ino, -1, -1))


class Step(NamedTuple):
    """A file put in place, a file or empty directory removed, or a directory made."""

    name: str  # path in the folder, with /; a directory that is made ends with a slash
    new: Version | None = None  # the file that is put there
    old: Version | None = None  # the file or directory that is replaced or removed
    number: str = "0"  # name of the new file in ``new`` of the staging directory, and of the old one in ``kept``
    volume: str = ""  # the one of the journal's volumes with its staging directory


class ModeChange(NamedTuple):
    """A file or directory that only gets other permissions."""

    name: str  # a directory ends with a slash; the folder itself is the slash alone
    inode: int
    old: int
    new: int


class Journal(Value):
    """A restore."""

    folder: str  # real path of the target folder
    place: str  # real path of the staging directory's parent: the folder, or the directory in which it will appear
    identity: Identity  # of that parent
    staging: str  # name of the staging directory
    boot: str  # id of the run of the machine: device numbers may change with the next one
    phase: str = PREPARING
    # Removals first, as a directory may take the name or lose its own; then directories, outer ones first; then files
    steps: tuple[Step, ...] = ()
    modes: tuple[ModeChange, ...] = ()  # permissions to set
    lent: tuple[ModeChange, ...] = ()  # read-only directories of this user, made writable until the end
    # Directories with a staging directory, the folder itself first: files are moved within one file system
    volumes: tuple[str, ...] = ("",)
    emptied: tuple[str, ...] = ()  # directories to remove once all is in place, inner ones first
    note: dict[str, Any] | None = None  # to write to the index then, None for nothing

    def done(self) -> Journal:
        """The journal after the moves."""
        return replace(self, phase=DONE, steps=(), modes=())

    def undone(self) -> Journal:
        """The journal when only the remains are left to be cleared."""
        return replace(self.done(), emptied=(), note=None)

    def made(self) -> list[str]:
        """The directories to make, inner ones first."""
        return [step.name.rstrip("/") for step in reversed(self.steps) if step.name.endswith("/")]

    def names(self) -> list[str]:
        """The paths of all steps: everything that appears in the folder or is removed, until it is done."""
        return [step.name.rstrip("/") for step in self.steps]

    def staged(self, volume: str, *inside: str) -> str:
        """The path in the folder of a volume's staging directory, or of something inside."""
        return "/".join(filter(None, (volume, self.staging, *inside)))

    def is_at(self, status: os.stat_result) -> bool:
        """True if a directory is the parent of the staging directory."""
        same_device = status.st_dev == self.identity.device or self.boot != boot_id()
        return status.st_ino == self.identity.inode and same_device


def dump_journal(journal: Journal) -> bytes:
    body = json.dumps({name: getattr(journal, name) for name in names_of(Journal)}).encode("ascii")
    return _head(body) + body


def load_journal(data: bytes) -> Journal:
    """Read the bytes of :func:`dump_journal`; ValueError for others, or if damaged."""
    body = data[data.find(b"\n") + 1 :]
    if not data.startswith(_head(body)):
        raise ValueError("damaged, or of another version")
    try:
        known = json.loads(body)
        known["identity"] = Identity(*known["identity"])
        known["steps"] = tuple(
            Step(name, new and Version(*new), old and Version(*old), *where)
            for name, new, old, *where in known["steps"]
        )
        for changes in ("modes", "lent"):
            known[changes] = tuple(ModeChange(*fields) for fields in known[changes])
        for names in ("volumes", "emptied"):
            known[names] = tuple(known[names])
        journal = Journal(**known)
        if not _is_sound(journal):
            raise ValueError("a path, name or number that no restore has")
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"not a journal: {error!r}") from error
    return journal


def _is_sound(journal: Journal) -> bool:
    """True if no path leads out of its directory, or to anything there that no restore makes or changes."""
    changes, paths = [*journal.modes, *journal.lent], (journal.folder, journal.place)
    names = [*journal.names(), *journal.emptied, *journal.volumes, *(step.volume for step in journal.steps)]
    names += [change.name.removesuffix("/") for change in changes]
    numbers = [*journal.identity, *(number for change in changes for number in change[1:])]
    numbers += [number for step in journal.steps for version in step[1:3] for number in version or ()]
    for text in (*paths, *names):
        local_bytes(text)
    return (
        _STAGING.fullmatch(journal.staging) is not None
        and journal.phase in (PREPARING, MOVING, DONE)
        and all(Path(path).is_absolute() and os.path.normpath(path) == path and "\0" not in path for path in paths)
        and not any(map(name_problem, filter(None, names)))
        and all(type(number) is int for number in numbers)
        and all(0 <= mode <= 0o7777 for change in changes for mode in change[2:])
        and all(
            (any(step[1:3]) or step.name.endswith("/")) and _NUMBER.fullmatch(step.number) for step in journal.steps
        )
    )


def _head(body: bytes) -> bytes:
    return f"{_FORMAT} {sha256(body)}\n".encode()


# --- on disk


class Record:
    """The journal of one restore on disk."""

    def __init__(self, directory: Files, name: str) -> None:
        self.path = directory.path / f"{name}.json"
        self.journal: Journal | None = None  # as on disk, with the remaining work
        self._directory = directory
        self._draft, self._lock = f"{name}.draft", f"{name}.lock"

    def write(self, journal: Journal) -> None:
        """Put it on disk, whole or not at all."""
        self._directory.replace(self.path.name, dump_journal(journal), temp=self._draft)
        self.journal = journal

    def read(self) -> Journal | None:
        """The journal; None if it is gone or not this user's, ValueError if it makes no sense."""
        try:
            found = self._directory.read(self.path.name, limit=_LARGEST, owner=user_id())
        except OSError as error:  # most likely made here by another user, such as root
            logger.warning("%s is passed over: %s", self.path, error)
            return None
        return None if found is None else load_journal(found.data)

    def remove(self) -> bool:
        """Remove the journal, as nothing is left to do; true if that succeeded."""
        try:
            for name in (self.path.name, self._draft):
                self._directory.clear(name)
        except OSError as error:
            logger.warning("%s could not be removed: %s", self.path, error)
            return False
        return True  # if a power cut brings it back, there is nothing to do for it either

    def is_there(self) -> bool:
        return self._directory.look(self.path.name) is not None

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the restore, or raise TimeoutError; its file is removed if no journal is left."""
        with locked_in(self._directory, self._lock, patience=0):
            try:
                yield
            finally:
                with contextlib.suppress(OSError):  # an empty file that the next restore removes
                    if not self.is_there():
                        self._directory.clear(self._lock)


def list_records() -> list[Record]:
    """The records of all restores of this user that are under way or were interrupted."""
    try:
        return _records(Files(_place()), ".json")
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        logger.warning("restores that were cut off are passed over: %s", error)
        return []


@contextlib.contextmanager
def begin_record(journal: Journal) -> Iterator[Record]:
    """Record a restore that begins, and hold its lock for the length of the block."""
    record = Record(Files(_place()), os.urandom(16).hex())
    with record.locked():
        record.write(journal)
        yield record


@contextlib.contextmanager
def start_lock() -> Iterator[None]:
    """Keep other processes of this user from beginning a restore during the block."""
    make_directory(_place(), keep_owner=True)
    directory = Files(_place(), keep_owner=True)
    with contextlib.ExitStack() as stack:
        try:
            directory.require_private()
            stack.enter_context(locked_in(directory, "lock"))
        except TimeoutError as error:
            raise ColonyMemoryError(f"another restore is about to begin: {error}; try again") from error
        # Killed processes leave locks and drafts of restores that had not begun, or had ended.
        for record in _records(Files(_place()), ".lock"):
            if not record.is_there():
                with contextlib.suppress(TimeoutError), record.locked():
                    record.remove()
        yield


def _records(directory: Files, ending: str) -> list[Record]:
    directory.require_private()
    return [Record(directory, name.removesuffix(ending)) for name in directory.names() if name.endswith(ending)]


def _place() -> Path:
    return state_directory() / "restores"
