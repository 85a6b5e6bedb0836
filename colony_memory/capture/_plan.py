"""What a restore would do in a folder: every document compared with what is there, and nothing touched."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from colony_memory.capture._journal import free_name
from colony_memory.capture._stage import NewFile, encode_text
from colony_memory.capture.sqlite import DatabaseDamaged, DatabaseLocked, copy_database, is_database
from colony_memory.exceptions import ColonyMemoryError

if TYPE_CHECKING:
    from collections.abc import Container
    from pathlib import Path

_LOGS = ("-journal", "-wal")  # the index of the latter, -shm, is made anew by whoever opens the database first
_HEADER_SIZE = 16
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_JUNCTION = 0xA0000003  # reparse tag of a directory junction on Windows


@dataclass
class Plan:
    """What is to be done in ``target``, compared with what is there; ``wanted`` are the names of the snapshot."""

    target: Path
    wanted: Container[str] = ()
    files: dict[str, NewFile] = field(default_factory=dict)
    differing: dict[str, os.stat_result] = field(default_factory=dict)
    unchanged: list[str] = field(default_factory=list)
    directories: list[str] = field(default_factory=list)
    _known: dict[Path, bool] = field(default_factory=dict)

    def add_file(self, name: str, content: str | bytes, *, executable: bool) -> None:
        """Compare a document with the file of its name."""
        there = self._look(name)
        drops = self._logs_of(name) if is_database(encode_text(content[:_HEADER_SIZE])) else {}
        if there is None:
            self.files[name] = NewFile(content, executable, None, drops=drops)
            return
        if not stat.S_ISREG(there.st_mode):
            what = "directory" if stat.S_ISDIR(there.st_mode) else "device, pipe or socket"
            raise self._refusal(name, self.target / name, f"is a {what}")
        same = self._has_merged(name, content) if drops else self._has(name, content, there)
        if same and (not executable or there.st_mode & stat.S_IXUSR or os.name == "nt"):
            self.unchanged.append(name)
            return
        self.files[name] = NewFile(content, executable, there, drops={} if same else drops)
        if not same:
            self.differing[name] = max([there, *drops.values()], key=lambda status: status.st_mtime_ns)

    def add_directory(self, name: str) -> None:
        """Make an empty directory unless it is there."""
        there = self._look(name)
        if there is None:
            self.directories.append(name)
        elif not stat.S_ISDIR(there.st_mode):
            raise self._refusal(name, self.target / name, "is not a directory")

    def newer(self, moment: datetime) -> list[str]:
        """Files that differ and were changed after ``moment``."""
        limit = (moment - _EPOCH) // timedelta(microseconds=1) * 1000
        return [name for name, there in self.differing.items() if there.st_mtime_ns > limit]

    def keep_local(self, *, stamp: str) -> None:
        """Let a copy of each file whose content is replaced stay next to it, under a name that nothing has."""
        names = {*self.files, *self.unchanged}
        for name in self.differing:
            copy = free_name(
                name, stamp=stamp, taken=lambda other: other in names or os.path.lexists(self.target / other)
            )
            names.add(copy)
            self.files[name] = replace(self.files[name], copy_to=copy)

    def _logs_of(self, name: str) -> dict[str, os.stat_result]:
        """What is written to the database of that name but not merged into it, where it is not in the snapshot."""
        found = {}
        for suffix in _LOGS:
            there = self._look(name + suffix)
            if there and stat.S_ISREG(there.st_mode) and there.st_size and name + suffix not in self.wanted:
                found[name + suffix] = there
        return found

    def _has_merged(self, name: str, content: str | bytes) -> bool:
        """Whether the database and its log together are what the snapshot has."""
        try:
            return copy_database(self.target / name) == encode_text(content)
        except (DatabaseDamaged, DatabaseLocked, OSError):
            return False

    def _look(self, name: str) -> os.stat_result | None:
        """Return what stands where ``name`` goes, or None, having made sure that no link is on the way."""
        path = self.target
        *parents, last = name.split("/")
        for parent in parents:
            path /= parent
            if path not in self._known:
                status = self._status(name, path)
                if status is not None and not stat.S_ISDIR(status.st_mode):
                    raise self._refusal(name, path, "is not a directory")
                self._known[path] = status is not None
            if not self._known[path]:
                return None
        return self._status(name, path / last)

    def _status(self, name: str, path: Path) -> os.stat_result | None:
        try:
            status = path.lstat()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._refusal(name, path, f"cannot be looked at ({error.strerror})") from error
        if stat.S_ISLNK(status.st_mode) or getattr(status, "st_reparse_tag", 0) == _JUNCTION:
            raise self._refusal(name, path, "is a symbolic link, and nothing is written through links")
        return status

    def _has(self, name: str, content: str | bytes, there: os.stat_result) -> bool:
        data = encode_text(content)
        if there.st_size != len(data):
            return False
        try:
            return (self.target / name).read_bytes() == data
        except OSError as error:
            raise self._refusal(name, self.target / name, f"cannot be read ({error.strerror})") from error

    @staticmethod
    def _refusal(name: str, path: Path, what: str) -> ColonyMemoryError:
        return ColonyMemoryError(f"document {name!r}: {str(path)!r} {what}; nothing was written")
