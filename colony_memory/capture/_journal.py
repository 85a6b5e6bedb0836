"""What a restore is about to do to a folder, written down before the first move, and the way back.

The way back looks at what stands on disk and at nothing else. It is the same for a move that failed, for a restore
that was interrupted and for one that was killed, and may itself be cut off and taken again::

    {"directories": ["made"], "format": "colony-memory/restore-journal/1",
     "steps": [{"copy_of": null, "name": "MEMORY.md", "new": [12, 1795766400000000000],
                "old": [9, 1793088000000000000]}],
     "target": "memory"}

``new`` and ``old`` are size in bytes and time of change in nanoseconds, or null for no file. ``target`` is relative to
the directory that the staging directory is in. An original is in ``kept`` there, as a second name of the same file;
where a file cannot have two names, it is moved there.
"""

from __future__ import annotations

import errno
import json
import logging
import os
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colony_memory._format.json import load_object
from colony_memory.capture._filenames import name_problem, parents_of
from colony_memory.capture._staging import JOURNAL_NAME, look, sync_directory
from colony_memory.exceptions import ColonyMemoryError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

logger = logging.getLogger(__name__)

JOURNAL_FORMAT = "colony-memory/restore-journal/1"
Version = tuple[int, int]


@dataclass(frozen=True)
class Step:
    """One file that is put in place or taken away.

    Attributes:
        name: Path in the folder, with ``/``.
        new: Version of the file that is put there, or None where one is taken away.
        old: Version of the file that it replaces, or None.
        copy_of: For a copy of what a later step replaces: that step's name.
    """

    name: str
    new: Version | None
    old: Version | None = None
    copy_of: str | None = None


@dataclass(frozen=True)
class Journal:
    """The steps of a restore.

    Attributes:
        staging: The directory that it is in, with ``new`` and ``kept``.
        target: Name of the folder in the same directory, or ``.`` where the staging directory is in the folder.
        directories: Directories that are made, those above first.
        steps: In the order in which they are taken.
    """

    staging: Path
    target: str
    directories: tuple[str, ...]
    steps: tuple[Step, ...]

    @property
    def folder(self) -> Path:
        """The folder that is restored into."""
        return self.staging.parent / self.target

    def kept(self, name: str) -> Path:
        """Where the original of a file is."""
        return self.staging / "kept" / name

    def staged(self, name: str) -> Path:
        """Where a new file waits."""
        return self.staging / "new" / name

    def write(self) -> None:
        """Put it on disk, whole or not at all."""
        document = {
            "directories": self.directories,
            "format": JOURNAL_FORMAT,
            "steps": [asdict(step) for step in self.steps],
            "target": self.target,
        }
        draft = self.staging / f"{JOURNAL_NAME}.draft"
        with draft.open("w", encoding="ascii") as stream:
            json.dump(document, stream)
            stream.flush()
            os.fsync(stream.fileno())
        move(draft, self.staging / JOURNAL_NAME)
        sync_directory(self.staging)

    def close(self) -> None:
        """Let go of the way back: the folder is as it is to be."""
        (self.staging / JOURNAL_NAME).unlink(missing_ok=True)
        # Before anything that it speaks of is removed.
        sync_directory(self.staging)

    def changed_originals(self) -> list[str]:
        """Names whose original was written to after it was judged."""
        return [step.name for step in self.steps if step.old and _version_at(self.kept(step.name)) != step.old]

    def is_done(self) -> bool:
        """Whether all is in place, and no original was written to meanwhile."""
        return (
            all(_version_at(self.folder / step.name) == step.new for step in self.steps)
            and all((self.folder / name).is_dir() for name in self.directories)
            and not self.changed_originals()
        )

    def roll_back(self) -> list[str]:
        """Put everything back; return the names for which that failed.

        What was written into the folder since, by others, stays: next to the original, or where it is.
        """
        failed = [step.name for step in reversed(self.steps) if not self._succeeds(self._take_back, step)]
        failed += [f"{name}/" for name in reversed(self.directories) if not self._succeeds(self._remove_made, name)]
        if not failed:
            touched = {(self.folder / step.name).parent for step in self.steps} | {self.folder}
            for directory in touched:
                if directory.is_dir():
                    sync_directory(directory)
            self.close()
        return failed

    def _succeeds(self, act: Callable[[Any], None], about: Step | str) -> bool:
        try:
            act(about)
        except OSError:
            logger.warning("a file could not be put back", exc_info=True)
            return False
        return True

    def _take_back(self, step: Step) -> None:
        path, kept = self.folder / step.name, self.kept(step.name)
        original = look(kept)
        if self._leads_elsewhere(step.name):
            if step.old is None or original is None:
                return  # nothing of ours is there
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        there = look(path)
        if step.old is None:
            if there and (version(there) == step.new or self._is_copy(step, there)):
                path.unlink()
            return
        if original is None or (there and os.path.samestat(there, original)):
            return
        if there and version(there) != step.new:
            _set_aside(path)
        move(kept, path)

    def _is_copy(self, step: Step, there: os.stat_result) -> bool:
        """Whether it is a second name of the original, which then may have been written to."""
        if step.copy_of is None:
            return False
        originals = (look(self.kept(step.copy_of)), look(self.folder / step.copy_of))
        return any(original and os.path.samestat(original, there) for original in originals)

    def _remove_made(self, name: str) -> None:
        path = self.folder / name
        if self._leads_elsewhere(f"{name}/"):
            return
        try:
            path.rmdir()
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            logger.info("%s stays: there is something of others in it", path)

    def _leads_elsewhere(self, name: str) -> bool:
        return any((self.folder / parent).is_symlink() for parent in parents_of(name))


def read_journal(staging: Path) -> Journal | None:
    """Read what a restore was about to do, or return None where it had not come to that.

    Raises:
        ColonyMemoryError: The journal is not readable.
    """
    path = staging / JOURNAL_NAME
    try:
        document = load_object(path.read_text(encoding="ascii"))
        if document["format"] != JOURNAL_FORMAT:
            raise ValueError(f"unknown format {document['format']!r}")
        steps = tuple(_step(**each) for each in document["steps"])
        names = [*document["directories"], *(step.name for step in steps)]
        return Journal(staging, _target(document["target"]), tuple(document["directories"]), _safe(steps, names))
    except FileNotFoundError:
        return None
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise ColonyMemoryError(
            f"a restore was cut off, and its journal {str(path)!r} cannot be read ({error}): the originals are in "
            f"{str(staging / 'kept')!r}; put them back by hand and remove {str(staging)!r}"
        ) from error


def _step(*, name: str, new: Any, old: Any, copy_of: str | None, **_later: object) -> Step:
    if new is None and old is None:
        raise ValueError(f"nothing to do for {name!r}")
    return Step(name, _pair(new), _pair(old), copy_of)


def _pair(value: Any) -> Version | None:
    if value is None:
        return None
    size, changed = value
    return int(size), int(changed)


def _target(name: Any) -> str:
    if not isinstance(name, str) or (name != "." and (name == ".." or Path(name).name != name)):
        raise ValueError(f"target {name!r}")
    return name


def _safe(steps: tuple[Step, ...], names: Iterable[Any]) -> tuple[Step, ...]:
    for name in [*names, *(step.copy_of for step in steps if step.copy_of is not None)]:
        if not isinstance(name, str) or name_problem(name):
            raise ValueError(f"name {name!r}")
    return steps


def version(status: os.stat_result) -> Version:
    """What tells one content of a file from another."""
    return status.st_size, status.st_mtime_ns


def _version_at(path: Path) -> Version | None:
    there = look(path)
    return version(there) if there else None


def move(source: Path, path: Path) -> None:
    """Move ``source`` to ``path`` in one step, over what is there."""
    os.replace(source, path)  # noqa: PTH105 - Path.replace() of Python 3.10 holds on to a function of its own


def stamp(moment: datetime) -> str:
    """A time as part of a name, in UTC."""
    return moment.astimezone(timezone.utc).strftime("%Y%m%dT%H%M%SZ")


def free_name(name: str, *, stamp: str, taken: Callable[[str], bool]) -> str:
    """A name for a copy next to ``name``: ``notes.md.local-20261128T031500Z``, with a number where that is taken."""
    *above, last = name.split("/")
    number = 1
    while True:
        ending = f".local-{stamp}" + (f"-{number}" if number > 1 else "")
        base = last
        while len(os.fsencode(base + ending)) > 255:
            base = base[:-1]
        candidate = "/".join([*above, base + ending])
        if not taken(candidate):
            return candidate
        number += 1


def _set_aside(path: Path) -> None:
    """Give what others wrote a name of its own, next to where it was."""
    other = path.with_name(
        free_name(
            path.name,
            stamp=stamp(datetime.now(timezone.utc)),
            taken=lambda name: os.path.lexists(path.with_name(name)),
        )
    )
    logger.warning("%s was changed since a restore was cut off: it is kept as %s", path, other.name)
    os.rename(path, other)  # noqa: PTH104 - as in move()
