"""The journal of a restore, written before the first move, and its place on disk.

It does not lie in the folder: whoever can put a file there must not say what a restore left undone. Each has a file in
the state directory, and a lock that goes with its process; what others could write to is passed over.
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

# What the first line of the file begins with; a digest of all other lines follows.
_FORMAT = "colony-memory/restore/4"
# Only the staging directory changes; the folder does, and would have to be put back; all is in place.
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
    """A file that is put in place, one or an empty directory that is taken away, or a directory that is made."""

    name: str  # path in the folder, with /; of a directory that is made with a slash at the end
    new: Version | None = None  # the file that is put there
    old: Version | None = None  # the file or directory that is replaced or taken away
    number: str = "0"  # name of the new one in ``new`` of the staging directory, and of the old one in ``kept``
    volume: str = ""  # which of the journal's volumes its staging directory is in


class ModeChange(NamedTuple):
    """A file or directory that gets other permissions and nothing else."""

    name: str  # of a directory with a slash at the end; of the folder itself that alone
    inode: int
    old: int
    new: int


class Journal(Value):
    """A restore."""

    folder: str  # real path of the folder that is restored into
    place: str  # real path of the directory that the staging directory is in: the folder, or what it appears in
    identity: Identity  # that directory
    staging: str  # name of the staging directory
    boot: str  # what tells one run of the machine from another: device numbers may change in between
    phase: str = PREPARING
    # What is taken away first: a directory may take its name, or its directory go; then directories, outer ones first
    steps: tuple[Step, ...] = ()
    modes: tuple[ModeChange, ...] = ()  # permissions that are set
    lent: tuple[ModeChange, ...] = ()  # read-only directories of this user that may be written to until the end
    # Directories of the folder that there is a staging directory in, the folder itself first: files are moved within
    # one file system
    volumes: tuple[str, ...] = ("",)
    emptied: tuple[str, ...] = ()  # directories that are removed once all is in place, inner ones first
    note: dict[str, Any] | None = None  # what is to be remembered then, None for nothing

    def done(self) -> Journal:
        """The same when the moves are over."""
        return replace(self, phase=DONE, steps=(), modes=())

    def undone(self) -> Journal:
        """The same when there is nothing left to do but to clear away."""
        return replace(self.done(), emptied=(), note=None)

    def made(self) -> list[str]:
        """The directories that are made, inner ones first."""
        return [step.name.rstrip("/") for step in reversed(self.steps) if step.name.endswith("/")]

    def names(self) -> list[str]:
        """Of all that comes to be in the folder or goes, before it is done."""
        return [step.name.rstrip("/") for step in self.steps]

    def staged(self, volume: str, *inside: str) -> str:
        """The path in the folder of a volume's staging directory, or of what is inside."""
        return "/".join(filter(None, (volume, self.staging, *inside)))

    def is_at(self, status: os.stat_result) -> bool:
        """A directory is the one that the staging directory is in."""
        same_device = status.st_dev == self.identity.device or self.boot != boot_id()
        return status.st_ino == self.identity.inode and same_device


def dump_journal(journal: Journal) -> bytes:
    body = json.dumps({name: getattr(journal, name) for name in names_of(Journal)}).encode("ascii")
    return _head(body) + body


def load_journal(data: bytes) -> Journal:
    """Read what :func:`dump_journal` gave; ValueError where it is something else, or was damaged."""
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
            known[changes] = tuple(ModeChange(*each) for each in known[changes])
        for names in ("volumes", "emptied"):
            known[names] = tuple(known[names])
        journal = Journal(**known)
        if not _is_sound(journal):
            raise ValueError("a path, name or number that no restore has")
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"not a journal: {error!r}") from error
    return journal


def _is_sound(journal: Journal) -> bool:
    """Nothing in it leads out of its directory, or to anything there but what a restore has made or may change."""
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
        self.journal: Journal | None = None  # as it is there, with what is left to do
        self._directory = directory
        self._draft, self._lock = f"{name}.draft", f"{name}.lock"

    def write(self, journal: Journal) -> None:
        """Put it on disk, whole or not at all."""
        self._directory.replace(self.path.name, dump_journal(journal), temp=self._draft)
        self.journal = journal

    def read(self) -> Journal | None:
        """The journal; None where it is gone, or is not this user's; ValueError where it makes no sense."""
        try:
            found = self._directory.read(self.path.name, limit=_LARGEST, owner=user_id())
        except OSError as error:  # one that another user has made in this place, by all likelihood root
            logger.warning("%s is passed over: %s", self.path, error)
            return None
        return None if found is None else load_journal(found.data)

    def remove(self) -> bool:
        """Forget it: nothing is left to do. Returns whether that could be done."""
        try:
            for name in (self.path.name, self._draft):
                self._directory.clear(name)
        except OSError as error:
            logger.warning("%s could not be removed: %s", self.path, error)
            return False
        return True  # should it come back with a power cut, whoever finds it has nothing to do either

    def is_there(self) -> bool:
        return self._directory.look(self.path.name) is not None

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the restore, whose file goes when there is nothing left to remember; else TimeoutError."""
        with locked_in(self._directory, self._lock, patience=0):
            try:
                yield
            finally:
                with contextlib.suppress(OSError):  # an empty file that the next restore removes
                    if not self.is_there():
                        self._directory.clear(self._lock)


def list_records() -> list[Record]:
    """Of all restores of this user that are under way or were cut off."""
    try:
        return _records(Files(_place()), ".json")
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        logger.warning("restores that were cut off are passed over: %s", error)
        return []


@contextlib.contextmanager
def begin_record(journal: Journal) -> Iterator[Record]:
    """Write down a restore that begins, holding its lock for as long as the block runs."""
    record = Record(Files(_place()), os.urandom(16).hex())
    with record.locked():
        record.write(journal)
        yield record


@contextlib.contextmanager
def start_lock() -> Iterator[None]:
    """Keep other processes of this user from beginning a restore at the same moment."""
    make_directory(_place(), keep_owner=True)
    directory = Files(_place(), keep_owner=True)
    with contextlib.ExitStack() as stack:
        try:
            directory.require_private()
            stack.enter_context(locked_in(directory, "lock"))
        except TimeoutError as error:
            raise ColonyMemoryError(f"another restore is about to begin: {error}; try again") from error
        # Processes that were killed have left locks and drafts of restores that never began, or had ended.
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
