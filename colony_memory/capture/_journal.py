"""What a restore is about to do to a folder, written down before the first move; a value, and how it is stored.

Paths in it are either the folder itself or names below it, and nothing that lies in the folder is believed beyond it:
each file is known by its inode, its size and its time of change::

    {"boot": "…", "dropped": {"old": 448}, "folder": "/home/me/memory", "format": "colony-memory/restore/2",
     "given": {}, "identity": [2049, 131], "lent": [], "made": ["notes"], "modes": [], "note": null,
     "phase": "moving", "place": "/home/me/memory", "place_identity": [2049, 131], "settled": true,
     "staging": ".colony-memory-restoring-5f0c",
     "steps": [["MEMORY.md", [140, 12, 1795766400000000000], [139, 9, 1793088000000000000], "0", "", true]],
     "volumes": [""]}
"""

from __future__ import annotations

import functools
import json
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from colony_memory._format.json import load_object
from colony_memory._os.kinds import Identity
from colony_memory.capture._filenames import STAGING_PREFIX, name_problem

if TYPE_CHECKING:
    from collections.abc import Sequence

JOURNAL_FORMAT = "colony-memory/restore/2"
PREPARING, MOVING, DONE = "preparing", "moving", "done"

_STAGING = re.compile(re.escape(STAGING_PREFIX) + "[0-9a-f]{16,64}")
_NUMBER = re.compile("[0-9]+(-[a-z]+)?")


class Version(NamedTuple):
    """What tells one content of a file from another; size and time are -1 where the content does not matter."""

    inode: int
    size: int
    changed: int

    @classmethod
    def of(cls, status: os.stat_result) -> Version:
        """The version that a status is of."""
        return cls(status.st_ino, status.st_size, status.st_mtime_ns)

    def fits(self, status: os.stat_result | None) -> bool:
        """Whether it is that of a status."""
        if status is None or status.st_ino != self.inode:
            return False
        return self.size == -1 or self == Version.of(status)


class Step(NamedTuple):
    """One file that is put in place or taken away.

    In the staging directory it waits under its number in ``new``, and what it replaces is in ``kept`` then.

    Attributes:
        name: Path in the folder, with ``/``.
        new: The file that is put there, or None where one is taken away.
        old: The file that it replaces, or None.
        number: Its name in both; the log of a database has the number of that, and its own ending.
        volume: Which of the journal's volumes its staging directory is in.
        shared: What it replaces had a second name in ``kept`` beforehand, and is not moved there.
    """

    name: str
    new: Version | None
    old: Version | None
    number: str
    volume: str = ""
    shared: bool = False


class ModeChange(NamedTuple):
    """A file or directory that gets other permissions and nothing else."""

    name: str
    inode: int
    old: int
    new: int


@dataclass(frozen=True)
class Journal:
    """A restore.

    Attributes:
        folder: Real path of the folder that is restored into.
        identity: The folder, or None where it appears as a whole.
        place: Real path of the directory that the staging directory is in: the folder, or the one above it.
        place_identity: That directory.
        staging: Name of the staging directory.
        phase: ``preparing`` while only the staging directory changes, ``moving``, or ``done`` when it may go.
        made: Directories that are made, those above first.
        given: Permissions that some of them get in the end.
        steps: In the order in which they are taken.
        dropped: Directories that are removed, inner ones first, with their permissions.
        modes: Permissions that are set.
        lent: Read-only directories of this user, the folder itself by no name, that may be written to until the end.
        volumes: Directories of the folder that there is a staging directory in, the folder itself first: files are
            moved within one file system.
        settled: What is replaced may go, so that the moves alone are what there is to finish; else it has to be asked
            for when they are taken, and whoever finds them cut off puts everything back.
        note: What is to be remembered once all is in place, None for nothing.
        boot: What tells one run of the machine from another: device numbers may change in between.
    """

    folder: str
    identity: Identity | None
    place: str
    place_identity: Identity
    staging: str
    phase: str = PREPARING
    made: tuple[str, ...] = ()
    given: tuple[tuple[str, int], ...] = ()
    steps: tuple[Step, ...] = ()
    dropped: tuple[tuple[str, int], ...] = ()
    modes: tuple[ModeChange, ...] = ()
    lent: tuple[ModeChange, ...] = ()
    volumes: tuple[str, ...] = ("",)
    settled: bool = True
    note: dict[str, Any] | None = None
    boot: str = ""

    def at(self, phase: str) -> Journal:
        """The same at another phase; all but what comes next is told by the staging directory alone."""
        if phase == DONE:
            return replace(self, phase=phase, made=(), given=(), steps=(), dropped=(), modes=())
        return replace(self, phase=phase)

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
        """Whether a directory is the one of that identity."""
        if identity is None or status.st_ino != identity.inode:
            return False
        return status.st_dev == identity.device or self.boot != boot_id()


@functools.cache
def boot_id() -> str:
    """What this run of the machine is called, empty where the system does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except (OSError, ValueError):
        return ""


def dump_journal(journal: Journal) -> bytes:
    """The bytes of the file."""
    fields = {name: getattr(journal, name) for name in journal.__dataclass_fields__}
    fields |= {"dropped": dict(journal.dropped), "given": dict(journal.given)}
    return json.dumps({**fields, "format": JOURNAL_FORMAT}).encode("ascii")


def load_journal(data: bytes) -> Journal:
    """Read the file, every path and name in it checked.

    Raises:
        ValueError: It is no journal.
    """
    document = load_object(data.decode("ascii"))
    try:
        if document["format"] != JOURNAL_FORMAT:
            raise ValueError(f"unknown format {document['format']!r}")
        return Journal(
            folder=_path(document["folder"]),
            identity=None if document["identity"] is None else Identity(*_numbers(document["identity"], 2)),
            place=_path(document["place"]),
            place_identity=Identity(*_numbers(document["place_identity"], 2)),
            staging=_staging(document["staging"]),
            phase=_phase(document["phase"]),
            made=tuple(_name(name) for name in document["made"]),
            steps=tuple(_step(each) for each in document["steps"]),
            given=_directories(document["given"]),
            dropped=_directories(document["dropped"]),
            modes=_modes(document["modes"]),
            lent=_modes(document["lent"], folder=True),
            volumes=tuple(name and _name(name) for name in document["volumes"]),
            settled=document["settled"] is True,
            note=_note(document["note"]),
            boot=str(document["boot"]),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a journal: {error!r}") from error


def _step(found: Any) -> Step:
    name, new, old, number, volume, shared = found
    if new is None and old is None:
        raise ValueError(f"nothing to do for {name!r}")
    if not isinstance(number, str) or not _NUMBER.fullmatch(number):
        raise ValueError(f"number {number!r}")
    return Step(_name(name), _version(new), _version(old), number, volume and _name(volume), shared is True)


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


def _name(name: Any) -> str:
    if not isinstance(name, str) or name_problem(name):
        raise ValueError(f"name {name!r}")
    return name


def _path(path: Any) -> str:
    if not isinstance(path, str) or not Path(path).is_absolute() or os.path.normpath(path) != path:
        raise ValueError(f"path {path!r}")
    return path


def _note(note: Any) -> dict[str, Any] | None:
    if note is not None and not isinstance(note, dict):
        raise ValueError(f"note {note!r}")
    return note


def _staging(name: Any) -> str:
    if not isinstance(name, str) or not _STAGING.fullmatch(name):
        raise ValueError(f"staging directory {name!r}")
    return name


def _phase(phase: Any) -> str:
    if phase not in (PREPARING, MOVING, DONE):
        raise ValueError(f"phase {phase!r}")
    return str(phase)
