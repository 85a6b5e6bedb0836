"""Every file under a directory, read or named as left out; no symbolic link is followed."""

from __future__ import annotations

import os
import stat
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from colony_memory.capture._contents import NotSaved, holds_database, read_contents, reason_of
from colony_memory.capture._filenames import STAGING_PREFIX, name_problem
from colony_memory.capture._ignore import IGNORE_NAME, IgnoreRules
from colony_memory.capture.git import BUNDLE_NAME, GIT_NAME, NotBundled, holds_bundle, is_repository, make_bundle
from colony_memory.capture.sqlite import companions_of
from colony_memory.exceptions import ColonyMemoryError

if TYPE_CHECKING:
    from collections.abc import Callable

_JUNCTION = 0xA0000003  # reparse tag of a directory junction on Windows
_KEEPS_EXECUTABLE_BITS = os.name != "nt"
_SECONDS_BETWEEN_REPORTS = 0.1


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
class Note:
    """Something that is good to know of a file or directory, and no fault.

    Attributes:
        name: Path inside the folder, with ``/``; a directory ends with one.
        text: What there is to know.
    """

    name: str
    text: str


@dataclass
class Found:
    """What the reading has come across so far.

    Attributes:
        with_git: Whether git repositories are taken, as bundles.
        on_progress: Is told the files and bytes so far and a name, now and then.
    """

    with_git: bool = False
    on_progress: Callable[[int, int, str], None] | None = None
    contents: dict[str, str | bytes] = field(default_factory=dict)
    executable: set[str] = field(default_factory=set)
    directories: set[str] = field(default_factory=set)
    left_out: list[LeftOut] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    _parts: set[Path] = field(default_factory=set)  # of databases
    _bytes: int = 0
    _reported: float = 0.0

    def read_file(self, path: Path, name: str) -> None:
        """Read a file, or leave it out."""
        if path in self._parts:
            return
        try:
            read = read_contents(path)
        except NotSaved as error:
            if error.is_database:
                self._parts.update(map(Path, companions_of(str(path))))
            self.left_out.append(LeftOut(name, str(error)))
            return
        except OSError as error:
            self.left_out.append(LeftOut(name, reason_of(error)))
            return
        if read.is_database:
            self._parts.update(map(Path, companions_of(str(path))))
        if read.note:
            self.notes.append(Note(name, read.note))
        self._add(name, read.data if read.is_database else _as_text(read.data), len(read.data))
        if read.executable and _KEEPS_EXECUTABLE_BITS:
            self.executable.add(name)

    def read_tree(self, root: Path, prefix: str) -> None:
        """Read all that is under a directory.

        Args:
            root: The directory.
            prefix: What comes before the names, empty or with a slash at its end.

        Raises:
            ValueError: The directory cannot be read.
            ColonyMemoryError: Rules that exclude files cannot be read.
        """
        rules = IgnoreRules()
        pending = [""]
        while pending:
            directory = pending.pop()
            try:
                children = _list(root / directory)
            except OSError as error:
                if not directory:
                    raise ValueError(f"{str(root)!r} cannot be read: {reason_of(error)}") from error
                self.left_out.append(LeftOut(f"{prefix}{directory}/", reason_of(error)))
                continue
            if directory or prefix:
                self.directories.add(f"{prefix}{directory}".rstrip("/"))
            if IGNORE_NAME in children:
                _read_rules(root / directory / IGNORE_NAME, directory, rules)
            skipped = ""
            for child in children:
                name = f"{directory}/{child}" if directory else child
                if child == GIT_NAME and _is_repository(root / name, name, rules):
                    skipped = self._read_repository(root / name, f"{prefix}{name}")
                elif child != skipped and self._read_entry(root / name, name, prefix, rules):
                    pending.append(name)

    def finish(self) -> None:
        """Report the end."""
        if self.on_progress is not None and self.contents:
            self.on_progress(len(self.contents), self._bytes, next(reversed(self.contents)))

    def _read_entry(self, path: Path, inside: str, prefix: str, rules: IgnoreRules) -> bool:
        """Read or leave out what stands at ``path``; return whether it is a directory to go into instead."""
        name = prefix + inside
        if path in self._parts:
            return False
        try:
            status = path.lstat()
        except OSError as error:
            self.left_out.append(LeftOut(name, reason_of(error)))
            return False
        is_directory = stat.S_ISDIR(status.st_mode)
        shown = f"{name}/" if is_directory else name
        if path.name != IGNORE_NAME and rules.exclude(inside, is_directory=is_directory):
            self.ignored.append(shown)
            self._leave_parts(path)
            return False
        reason = _refusal(path, name, status)
        if reason:
            self.left_out.append(LeftOut(shown, reason))
        elif is_directory:
            return True
        else:
            self.read_file(path, name)
        return False

    def _leave_parts(self, database: Path) -> None:
        """Where an excluded file is a database that is open, the files beside it hold the same."""
        parts = [Path(part) for part in companions_of(str(database)) if os.path.lexists(part)]
        if parts and holds_database(database):
            self._parts.update(parts)

    def _read_repository(self, path: Path, name: str) -> str:
        """Take a repository, if that is asked for; return the name of a file beside it that is in there already."""
        if not self.with_git:
            self.notes.append(Note(name, "git repository, not saved unless git is asked for"))
            return ""
        beside = path.with_name(BUNDLE_NAME)
        try:
            bundle = make_bundle(path)
            if bundle is None:
                self.notes.append(Note(name, "git repository without a commit: there is nothing to save"))
                return ""
            if os.path.lexists(beside) and not holds_bundle(path, beside):
                raise NotBundled(f"{BUNDLE_NAME!r} beside it is another: fetch from it or rename it")
        except NotBundled as error:
            self.left_out.append(LeftOut(name, str(error)))
            return ""
        self._add(name.removesuffix(GIT_NAME) + BUNDLE_NAME, bundle, len(bundle))
        return BUNDLE_NAME

    def _add(self, name: str, content: str | bytes, size: int) -> None:
        self.contents[name] = content
        self._bytes += size
        if self.on_progress is not None and time.monotonic() - self._reported >= _SECONDS_BETWEEN_REPORTS:
            self.on_progress(len(self.contents), self._bytes, name)
            self._reported = time.monotonic()


def _as_text(data: bytes) -> str | bytes:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data


def _is_repository(path: Path, name: str, rules: IgnoreRules) -> bool:
    return is_repository(path) and not rules.exclude(name, is_directory=path.is_dir())


def _read_rules(path: Path, directory: str, rules: IgnoreRules) -> None:
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            raise NotSaved("not a plain file")
        data = read_contents(path).data
    except (NotSaved, OSError) as error:
        reason = str(error) if isinstance(error, NotSaved) else reason_of(error)
        raise ColonyMemoryError(f"{str(path)!r}: {reason}, so that its rules could not be kept") from error
    rules.add(directory, data, where=str(path))


def _list(directory: Path) -> list[str]:
    with os.scandir(directory) as entries:
        return sorted(entry.name for entry in entries)


def _refusal(path: Path, name: str, status: os.stat_result) -> str:
    """Say why what stands there is not saved, or nothing."""
    if path.name.casefold().startswith(STAGING_PREFIX):
        return "left by a restore that was cut off; it may hold originals, look and then delete it"
    problem = name_problem(name)
    return f"{problem}; rename it" if problem else _special(status)


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
