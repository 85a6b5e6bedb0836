"""Whole plain files: read within a bound, made, replaced and removed, on disk when the call returns.

What is written is there whole or not at all.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import TYPE_CHECKING

from colony_memory._os.directory import BY_DESCRIPTOR, DIRECTORY_FLAGS, NO_LINK, Directory
from colony_memory._os.disk import give, sync_bytes
from colony_memory._os.paths import is_link
from colony_memory._values import NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

#: How the names of temporary files begin.
TEMP_PREFIX = ".tmp-"


class Contents(NamedTuple):
    """The bytes of a file, and the status of the very file that was read."""

    data: bytes
    facts: os.stat_result


class Files(Directory):
    """An open directory whose files nobody in this process has open for longer than a call."""

    def read(self, name: str, *, limit: int, follow: bool = False) -> Contents | None:
        """A file's bytes, or None where nothing has that name; UnfitFile for more than ``limit`` bytes."""
        was_link = False
        while True:
            try:
                descriptor = self.open_file(name, follow=follow)
                break
            except FileNotFoundError:
                found = self.look(name) if follow else None
                if found is None:
                    return None
                # Since it was opened, somebody may have made it, or what the link leads to.
                if was_link and is_link(found):
                    raise self.unfit(name, "a link to nothing") from None
                was_link = is_link(found)
        try:
            facts = os.fstat(descriptor)
            data = None if facts.st_size > limit else _read(descriptor, facts.st_size, limit)
        finally:
            os.close(descriptor)
        if data is None:
            raise self.unfit(name, f"larger than {limit} bytes")
        return Contents(data, facts)

    def create(self, name: str, data: bytes) -> None:
        """Make a file, for its owner alone. Where the file system has no hard links it is empty for an instant."""
        temp = self._write_temp(data, new_temp_name())
        try:
            try:
                self.share(temp, self, name)
            except FileExistsError:
                raise
            except (OSError, AttributeError, NotImplementedError):  # this file system or platform has no hard links
                os.close(self.make_file(name))  # takes the name, or fails
                try:
                    self.move(temp, self, name)
                except BaseException:
                    self.clear(name)
                    raise
        finally:
            self.clear(temp)
        self.sync()

    def replace(self, name: str, data: bytes, *, temp: str | None = None, like: os.stat_result | None = None) -> None:
        """Put bytes in the place of a file, or where nothing is, for its owner alone.

        Args:
            name: The file.
            data: What it is to hold.
            temp: The name that the bytes have until they are whole, by default one that nobody has. What is there
                under a given one is what a crash left.
            like: The status of the file that is replaced, for one that is somebody's own: it keeps its owner and who
                may read it, and is replaced only while it is that very file, else FileExistsError.
        """
        self.refuse_unfit(name)
        if temp is not None:
            self.clear(temp)
        temp = self._write_temp(data, temp or new_temp_name())
        try:
            if like is not None:
                self._make_like(temp, name, like)
            self.move(temp, self, name)
        except BaseException:
            with contextlib.suppress(OSError):  # the first error is the one to tell
                self.clear(temp)
            raise
        self.sync()

    def _make_like(self, temp: str, name: str, like: os.stat_result) -> None:
        descriptor = self.open_file(temp, write=True)
        try:
            made = os.fstat(descriptor)
            if hasattr(os, "fchown") and (made.st_uid, made.st_gid) != (like.st_uid, like.st_gid):
                try:
                    os.fchown(descriptor, like.st_uid, like.st_gid)
                except PermissionError:
                    if made.st_uid != like.st_uid:  # while a group that one is not in cannot be given
                        raise
            if hasattr(os, "fchmod"):
                os.fchmod(descriptor, stat.S_IMODE(like.st_mode))
        finally:
            os.close(descriptor)
        there = self.look(name)
        if there is None or not os.path.samestat(there, like) or _written(there) != _written(like):
            raise FileExistsError(errno.EEXIST, "was changed meanwhile", str(self.path / name))

    def remove(self, name: str) -> None:
        self.refuse_unfit(name)
        at, where = self.address(name)
        os.unlink(at, **where)
        self.sync()

    def open_or_make(self, name: str) -> int:
        """A descriptor to read and write a file that may be there, else an empty one. Nothing is synced."""
        while True:
            with contextlib.suppress(FileNotFoundError):
                return self.open_file(name, write=True)
            with contextlib.suppress(FileExistsError):  # somebody else was faster
                return self.make_file(name)

    def _write_temp(self, data: bytes, temp: str) -> str:
        descriptor = self.make_file(temp)
        try:
            try:
                with os.fdopen(descriptor, "wb", closefd=False) as stream:
                    stream.write(data)
                sync_bytes(descriptor)
            finally:
                os.close(descriptor)
        except BaseException:
            with contextlib.suppress(OSError):  # the first error is the one to tell
                self.clear(temp)
            raise
        return temp


def open_files(path: Path, *, keep_owner: bool = False) -> Files:
    """Open a directory, which the path may lead to by a link; see :class:`Directory` for ``keep_owner``."""
    return Files.open(path, follow=True, keep_owner=keep_owner)


def read_file(path: Path, limit: int, *, follow: bool = False) -> Contents | None:
    """:meth:`Files.read` by a path."""
    # Read as it is named: to open its directory takes a right that a reader of the file may lack.
    return Files(path.parent).read(path.name, limit=limit, follow=follow)


def create_file(path: Path, data: bytes) -> None:
    """:meth:`Files.create` by a path."""
    with open_files(path.parent) as directory:
        directory.create(path.name, data)


def replace_file(path: Path, data: bytes, *, temp: str | None = None, like: os.stat_result | None = None) -> None:
    """:meth:`Files.replace` by a path."""
    with open_files(path.parent) as directory:
        directory.replace(path.name, data, temp=temp, like=like)


def make_directory(path: Path, *, keep_owner: bool = False) -> None:
    """Make a directory for its owner alone, and those above it that are missing; they last when this returns."""
    if path.is_dir():
        return
    above = path.parents
    known = next((depth for depth, directory in enumerate(above) if directory.is_dir()), 0)
    owner = above[known].stat()
    for made in reversed((path, *above[:known])):
        made.mkdir(mode=0o700, exist_ok=True)
        if keep_owner and BY_DESCRIPTOR:
            descriptor = os.open(made, DIRECTORY_FLAGS | NO_LINK)
            try:
                give(descriptor, owner, above[known])
            finally:
                os.close(descriptor)
        # The new directory is an entry of the one above, and lasts only when that one is synced.
        Directory(made.parent).sync()


def _read(descriptor: int, size: int, limit: int) -> bytes | None:
    """All bytes of a file that had this size; None where it has grown beyond the limit."""
    data = bytearray()
    while piece := os.read(descriptor, max(size + 1 - len(data), 65_536)):
        data += piece
        if len(data) > limit:
            return None
    return bytes(data)


def _written(facts: os.stat_result) -> tuple[int, int]:
    return facts.st_size, facts.st_mtime_ns


def new_temp_name() -> str:
    """A name that nobody has, under which bytes are written until they are whole."""
    return f"{TEMP_PREFIX}{os.urandom(8).hex()}"
