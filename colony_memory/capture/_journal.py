"""The journal of a restore, written before the first move, and its place on disk.

It does not lie in the folder: whoever can put a file there, a stranger's repository for one, must not say what a
restore left undone. Each restore has a file in the user's directory for the state of programs, replaced whole and
synced, and a lock that goes with its process. Files of another user, or that others could write to, are passed over.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colony_memory._format.json import load_object
from colony_memory._os.directory import Directory
from colony_memory._os.files import locked, locked_in, make_directory, open_files, read_file, replace_file
from colony_memory._os.machine import state_directory
from colony_memory._os.paths import Identity, local_bytes
from colony_memory._values import NamedTuple, dataclass, getLogger, names_of, pattern, replace
from colony_memory.capture._filenames import STAGING_PREFIX, name_problem
from colony_memory.capture._identity import boot_id
from colony_memory.exceptions import ColonyMemoryError

if TYPE_CHECKING:
    from collections.abc import Iterator

logger = getLogger(__name__)

JOURNAL_FORMAT = "colony-memory/restore/2"
# Only the staging directory changes; the folder does, and would have to be put back; all is in place.
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

    name: str  # of a directory with a slash at the end; of the folder itself that alone
    inode: int
    old: int
    new: int


class Dropped(NamedTuple):
    """A directory that is removed, with what it takes to make it again."""

    name: str
    mode: int
    owner: int
    group: int

    @classmethod
    def of(cls, name: str, status: os.stat_result) -> Dropped:
        return cls(name, stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid)


@dataclass(frozen=True)
class Journal:
    """A restore."""

    folder: str  # real path of the folder that is restored into
    place: str  # real path of the directory that the staging directory is in: the folder, or what it appears in
    identity: Identity  # that directory
    staging: str  # name of the staging directory
    boot: str  # what tells one run of the machine from another: device numbers may change in between
    phase: str = PREPARING
    made: tuple[str, ...] = ()  # directories that are made, those above first
    steps: tuple[Step, ...] = ()  # in the order in which they are taken
    dropped: tuple[Dropped, ...] = ()  # directories that are removed, inner ones first
    modes: tuple[ModeChange, ...] = ()  # permissions that are set
    lent: tuple[ModeChange, ...] = ()  # read-only directories of this user that may be written to until the end
    # Directories of the folder that there is a staging directory in, the folder itself first: files are moved within
    # one file system
    volumes: tuple[str, ...] = ("",)
    note: dict[str, Any] | None = None  # what is to be remembered once all is in place, None for nothing

    def done(self, *, note: bool = True) -> Journal:
        """The same when the moves are over: what is left to do is told by the staging directory alone, and the note."""
        kept = self.note if note else None
        return replace(self, phase=DONE, made=(), steps=(), dropped=(), modes=(), note=kept)

    @property
    def leaving(self) -> list[Step]:
        """The steps that take a file away, which come first: a directory may take its name, or its directory go."""
        return [step for step in self.steps if step.new is None]

    @property
    def coming(self) -> list[Step]:
        return [step for step in self.steps if step.new is not None]

    def names(self) -> list[str]:
        """Of all that comes to be in the folder or goes."""
        return [*(step.name for step in self.steps), *self.made, *(each.name for each in self.dropped)]

    def is_at(self, status: os.stat_result) -> bool:
        """A directory is the one that the staging directory is in."""
        same_device = status.st_dev == self.identity.device or self.boot != boot_id()
        return status.st_ino == self.identity.inode and same_device


def load_journal(data: bytes) -> Journal:
    """Read the file, every path, name and number in it checked; ValueError where it is no journal."""
    known = load_object(data.decode("ascii"))
    try:
        journal = Journal(
            **{name: known[name] for name in ("folder", "place", "staging", "boot", "phase", "note")},
            identity=Identity(*known["identity"]),
            made=tuple(known["made"]),
            steps=tuple(
                Step(name, _version(new), _version(old), number, volume, shared is True)
                for name, new, old, number, volume, shared in known["steps"]
            ),
            dropped=tuple(Dropped(*each) for each in known["dropped"]),
            modes=tuple(ModeChange(*each) for each in known["modes"]),
            lent=tuple(ModeChange(*each) for each in known["lent"]),
            volumes=tuple(known["volumes"]),
        )
        changes, versions = [*journal.modes, *journal.lent], [step[1:3] for step in journal.steps]
        names = [*journal.names(), *(each.name.removesuffix("/") for each in changes if each.name != "/")]
        names += filter(None, [*journal.volumes, *(step.volume for step in journal.steps)])
        numbers = [*journal.identity, *(number for each in [*changes, *journal.dropped] for number in each[1:])]
        numbers += [number for pair in versions for each in pair for number in each or ()]
        permissions = [*(mode for each in changes for mode in each[2:]), *(each.mode for each in journal.dropped)]
        owners = [number for each in journal.dropped for number in each[2:]]
        for text in (journal.folder, journal.place, *names):
            local_bytes(text)
        valid = (
            known["format"] == JOURNAL_FORMAT
            and _STAGING.fullmatch(journal.staging)
            and _PHASE.fullmatch(journal.phase)
            and all(
                Path(path).is_absolute() and os.path.normpath(path) == path and "\0" not in path
                for path in (journal.folder, journal.place)
            )
            and all(isinstance(name, str) and not name_problem(name) for name in names)
            and all(type(number) is int for number in numbers)
            and all(0 <= mode <= 0o7777 for mode in permissions)
            and all(0 <= number < 1 << 32 for number in owners)
            and all(any(pair) for pair in versions)
            and {step.volume for step in journal.steps} <= {*journal.volumes}
            and all(_NUMBER.fullmatch(step.number) for step in journal.steps)
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a journal: {error!r}") from error
    if not valid:
        raise ValueError("a path, name or number that no restore has")
    return journal


def _version(found: Any) -> Version | None:
    return None if found is None else Version(*found)


# --- on disk


class Record:
    """The journal of one restore on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.needed = False  # the restore that began it has come to the folder itself, and has not ended there

    def write(self, journal: Journal) -> None:
        """Put it on disk, whole or not at all."""
        known = {name: getattr(journal, name) for name in names_of(Journal)}
        data = json.dumps({**known, "format": JOURNAL_FORMAT}).encode("ascii")
        replace_file(self.path, data, temp=self.path.with_suffix(_DRAFT).name)

    def read(self) -> Journal | None:
        """The journal; None where it is gone, or is not this user's; ValueError where it makes no sense."""
        try:
            found = read_file(self.path, _LARGEST)
        except OSError as error:  # one that another user has made in this place, by all likelihood root
            logger.warning("%s is passed over: %s", self.path, error)
            return None
        if found is not None and sys.platform != "win32":
            facts = found.facts
            if (facts.st_uid, facts.st_nlink, facts.st_mode & 0o077) != (os.geteuid(), 1, 0):
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
        # Should it come back with a power cut, whoever finds it has nothing to do either.
        with contextlib.suppress(OSError):
            Directory(self.path.parent).sync()
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
                    with contextlib.suppress(OSError):  # an empty file that the next restore removes
                        lock.unlink(missing_ok=True)


def list_records() -> list[Record]:
    """Of all restores of this user that are under way or were cut off."""
    try:
        place = _records()
        names = sorted(name for name in os.listdir(place) if name.endswith(".json"))  # noqa: PTH208 - names alone
    except (FileNotFoundError, NotADirectoryError):
        return []
    except PermissionError as error:
        logger.warning("restores that were cut off are passed over: %s", error)
        return []
    return [Record(place / name) for name in names]


@contextlib.contextmanager
def begin_record(journal: Journal) -> Iterator[Record]:
    """Write down a restore that begins, holding its lock for as long as the block runs."""
    record = Record(_records(making=True) / f"{os.urandom(16).hex()}.json")
    with record.locked():
        record.write(journal)
        yield record


@contextlib.contextmanager
def start_lock() -> Iterator[None]:
    """Keep other processes of this user from beginning a restore at the same moment."""
    place = _records(making=True)
    with contextlib.ExitStack() as stack:
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


def _records(*, making: bool = False) -> Path:
    place = state_directory() / "restores"
    if making:
        make_directory(place, keep_owner=True)
    status = os.lstat(place)
    if sys.platform != "win32" and (
        not stat.S_ISDIR(status.st_mode)
        or stat.S_IMODE(status.st_mode) & 0o022
        # In a directory of another user's root believes the files that are root's.
        or os.geteuid() not in (0, status.st_uid)
    ):
        raise PermissionError(1, "others can write to it", str(place))
    return place
