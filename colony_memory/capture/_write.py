"""Documents into a folder: what would happen, judged in full before anything is touched."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from colony_memory.capture._filenames import check_names
from colony_memory.capture._metadata import split_documents
from colony_memory.capture._swap import NewFile, encode_text, put_in_place
from colony_memory.exceptions import ColonyMemoryError

if TYPE_CHECKING:
    from collections.abc import Mapping

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_SHOWN = 5
_JUNCTION = 0xA0000003  # reparse tag of a directory junction on Windows


@dataclass(frozen=True)
class Written:
    """What write_folder() did, or with ``dry_run`` would do. Names as in the snapshot, sorted.

    Attributes:
        created: Files that were not there.
        replaced: Files that had other content, or lacked the executable bit.
        unchanged: Files that were there already and were not touched.
        directories: Empty directories that were made.
    """

    created: tuple[str, ...]
    replaced: tuple[str, ...]
    unchanged: tuple[str, ...]
    directories: tuple[str, ...] = ()


def write_folder(
    documents: Mapping[str, str],
    directory: str | os.PathLike[str],
    *,
    newer_than: datetime | None = None,
    force: bool = False,
    dry_run: bool = False,
) -> Written:
    """Turn documents into files, byte for byte, all or none of them.

    Everything is written and synced in a hidden directory first and then moved into place; if a move fails, the
    ones before it are undone. Files that are not in ``documents`` are left alone. Files and directories that are
    made belong to the owner alone (0600 and 0700, less the umask); a replaced file keeps its permissions.

    Args:
        documents: Name to text, as read_folder() gives them.
        directory: Where to write. It is created, with the directories above it, if it is not there. It may be a
            symbolic link; nothing under it may be one on the way of a document.
        newer_than: Time of the snapshot, with a time zone. A file that differs and was changed after that time
            stops the call. None: no such check.
        force: Replace such files all the same.
        dry_run: Check everything and return the plan, writing nothing.

    Raises:
        ValueError: ``documents`` is empty or holds something other than text, ``directory`` is not a directory, or
            ``newer_than`` has no time zone.
        SnapshotCorrupt: The document that describes the folder is malformed.
        ColonyMemoryError: A document cannot or must not be written. The directory is as it was before.
    """
    if newer_than is not None and newer_than.tzinfo is None:
        raise ValueError("newer_than needs a time zone")
    if not documents:
        raise ValueError("there are no documents to write")
    for name, text in documents.items():
        if not all(isinstance(value, str) for value in (name, text)):
            raise ValueError(f"document {name!r} is not text under a name")
    target = _resolve(directory)
    contents, metadata = split_documents(documents)
    check_names(contents, metadata.empty_dirs, near=_nearest_directory(target))
    plan = _Plan(target)
    for name, content in sorted(contents.items()):
        plan.add_file(name, content, executable=name in metadata.executable)
    for name in sorted(metadata.empty_dirs):
        plan.add_directory(name)
    if newer_than is not None and not force:
        plan.refuse_newer(newer_than)
    if not dry_run:
        put_in_place(plan.files, plan.directories, target)
    return Written(
        created=tuple(name for name, file in plan.files.items() if file.replaces is None),
        replaced=tuple(name for name, file in plan.files.items() if file.replaces is not None),
        unchanged=tuple(plan.unchanged),
        directories=tuple(plan.directories),
    )


def _resolve(directory: str | os.PathLike[str]) -> Path:
    """Follow the link that the caller may have named, once, and make sure that a directory is or can be there."""
    try:
        target = Path(os.path.realpath(directory))
        if not os.path.lexists(target) or target.is_dir():
            return target
    except (OSError, ValueError) as error:
        raise ValueError(f"{os.fspath(directory)!r} cannot be a directory: {error}") from error
    raise ValueError(f"{os.fspath(directory)!r} is not a directory")


def _nearest_directory(target: Path) -> Path:
    nearest = next((path for path in [target, *target.parents] if os.path.lexists(path)), target)
    if not os.path.isdir(nearest):  # noqa: PTH112 - Path.is_dir() raises where a directory above is closed to us
        raise ValueError(f"{str(target)!r} cannot be a directory: {str(nearest)!r} is not one")
    return nearest


@dataclass
class _Plan:
    """What is to be done in ``target``, compared with what is there."""

    target: Path
    files: dict[str, NewFile] = field(default_factory=dict)
    differing: dict[str, os.stat_result] = field(default_factory=dict)
    unchanged: list[str] = field(default_factory=list)
    directories: list[str] = field(default_factory=list)
    _known: dict[Path, bool] = field(default_factory=dict)

    def add_file(self, name: str, content: str | bytes, *, executable: bool) -> None:
        there = self._look(name)
        if there is None:
            self.files[name] = NewFile(content, executable, None)
            return
        if not stat.S_ISREG(there.st_mode):
            what = "directory" if stat.S_ISDIR(there.st_mode) else "device, pipe or socket"
            raise self._refusal(name, self.target / name, f"is a {what}")
        same = self._has(name, content, there)
        if same and (not executable or there.st_mode & stat.S_IXUSR or os.name == "nt"):
            self.unchanged.append(name)
            return
        self.files[name] = NewFile(content, executable, there)
        if not same:
            self.differing[name] = there

    def add_directory(self, name: str) -> None:
        there = self._look(name)
        if there is None:
            self.directories.append(name)
        elif not stat.S_ISDIR(there.st_mode):
            raise self._refusal(name, self.target / name, "is not a directory")

    def refuse_newer(self, moment: datetime) -> None:
        limit = (moment - _EPOCH) // timedelta(microseconds=1) * 1000
        newer = [name for name, there in self.differing.items() if there.st_mtime_ns > limit]
        if newer:
            shown = ", ".join(repr(name) for name in newer[:_SHOWN])
            more = f" and {len(newer) - _SHOWN} more" if len(newer) > _SHOWN else ""
            raise ColonyMemoryError(
                f"changed in {str(self.target)!r} after the snapshot was made: {shown}{more}; nothing was written. "
                "Use force to replace what is newer"
            )

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
