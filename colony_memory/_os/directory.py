"""A directory and the plain files in it: the one place that opens, reads, makes, replaces, removes and syncs them.

A name leads to a plain file or to an error that says what is there in its place. Links are not followed unless the
caller says so, nothing is ever waited for (a named pipe, a device), what is read is bounded, and what is written is
there whole or not at all, on disk when the call returns.

Errors are those of the operating system, and :class:`UnfitFile`; whoever calls names the place and says what they
mean. Where the platform has no directory descriptors, no ``O_NOFOLLOW`` or no ``O_NONBLOCK`` (Windows), names are
looked up by path and looked at before and after they are opened.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from colony_memory._os.disk import give, sync_bytes, sync_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


def _flags(*names: str) -> int:
    """Those of the flags that this platform has."""
    return sum(getattr(os, name, 0) for name in names)


NO_LINK = _flags("O_NOFOLLOW")
DIRECTORY_FLAGS = os.O_RDONLY | _flags("O_CLOEXEC", "O_DIRECTORY", "O_NONBLOCK")
_PLAIN = _flags("O_CLOEXEC", "O_BINARY", "O_NONBLOCK", "O_NOCTTY")
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | _PLAIN | NO_LINK
BY_DESCRIPTOR = os.open in os.supports_dir_fd and os.scandir in os.supports_fd
#: What opening a link without following it fails with: Linux and macOS; FreeBSD.
_IS_A_LINK = frozenset({errno.ELOOP, errno.EMLINK})
_KINDS = (
    (stat.S_ISLNK, "a link"),
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
)
#: How the names of temporary files begin.
TEMP_PREFIX = ".tmp-"


class UnfitFile(OSError):
    """What is there is no plain file, or larger than anything that belongs there."""


class Contents(NamedTuple):
    """The bytes of a file, and the facts of the very file that was read."""

    data: bytes
    facts: os.stat_result


def name_kind(mode: int) -> str | None:
    """What is no plain file, in two words; None for one."""
    if stat.S_ISREG(mode):
        return None
    return next((kind for test, kind in _KINDS if test(mode)), "a device")


class Directory:
    """A directory that is open: what is done in it is done there, whatever becomes of its path.

    Args:
        path: The directory, for messages and for platforms without directory descriptors.
        descriptor: An open descriptor of it; None to look its path up at each call.
        keep_owner: What root makes here belongs to the directory's owner.
    """

    def __init__(self, path: Path, descriptor: int | None = None, *, keep_owner: bool = False) -> None:
        self.path = path
        self._descriptor = descriptor
        self._keep_owner = keep_owner

    # --- reading

    def facts(self, name: str, *, follow: bool = False) -> os.stat_result | None:
        """What is there under a name, or None."""
        try:
            return os.stat(self._at(name), follow_symlinks=follow, **self._keys("dir_fd"))
        except FileNotFoundError:
            return None

    def read(self, name: str, *, limit: int, follow: bool = False) -> Contents | None:
        """A file's bytes, or None where nothing has that name.

        Args:
            name: The file.
            limit: Most bytes that it may have.
            follow: Read what a link leads to.

        Raises:
            UnfitFile: What is there is no plain file, leads to none, or is larger.
        """
        try:
            descriptor = self._open(name, os.O_RDONLY, follow=follow)
        except FileNotFoundError:
            if follow and self.facts(name) is not None:
                raise self._unfit(name, "a link to nothing") from None
            return None
        try:
            facts = os.fstat(descriptor)
            data = None if facts.st_size > limit else _read(descriptor, facts.st_size, limit)
        finally:
            os.close(descriptor)
        if data is None:
            raise self._unfit(name, f"larger than {limit} bytes")
        return Contents(data, facts)

    def entries(self, wanted: Callable[[str], object] = bool) -> Iterator[tuple[str, os.stat_result]]:
        """Every wanted name in it, with the facts of what is there: of a link itself, not of what it leads to."""
        with os.scandir(self.path if self._descriptor is None else self._descriptor) as entries:
            for entry in entries:
                if not wanted(entry.name):
                    continue
                try:
                    facts = entry.stat(follow_symlinks=False)
                except FileNotFoundError:  # removed since the directory was read
                    continue
                yield entry.name, facts

    # --- writing

    def create(self, name: str, data: bytes) -> None:
        """Make a file, for its owner alone. Where the file system has no hard links it is empty for an instant.

        Raises:
            FileExistsError: Something of that name is there.
        """
        temp = self._write_temp(data, new_temp_name())
        try:
            try:
                self._link(temp, name)
            except FileExistsError:
                raise
            except (OSError, AttributeError, NotImplementedError):  # this file system or platform has no hard links
                os.close(self._make(name))  # takes the name, or fails
                try:
                    self._rename(temp, name)
                except BaseException:
                    self.clear(name)
                    raise
        finally:
            self.clear(temp)
        self.sync()

    def replace(self, name: str, data: bytes, *, temp: str | None = None) -> None:
        """Put bytes in the place of a file, or where nothing is, for its owner alone.

        Args:
            name: The file.
            data: What it is to hold.
            temp: The name that the bytes have until they are whole, by default one that nobody has. What is there
                under a given one is what a crash left.

        Raises:
            UnfitFile: What is there is no plain file.
        """
        self._refuse_unfit(name)
        if temp is not None:
            self.clear(temp)
        temp = self._write_temp(data, temp or new_temp_name())
        try:
            self._rename(temp, name)
        except BaseException:
            with contextlib.suppress(OSError):  # the first error is the one to tell
                self.clear(temp)
            raise
        self.sync()

    def remove(self, name: str) -> None:
        """Take a file away.

        Raises:
            FileNotFoundError: Nothing has that name.
            UnfitFile: What is there is no plain file.
        """
        self._refuse_unfit(name)
        os.unlink(self._at(name), **self._keys("dir_fd"))
        self.sync()

    def clear(self, name: str) -> None:
        """Take away what a crash left under a name of ours, if anything: a link itself, not what it leads to."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._at(name), **self._keys("dir_fd"))

    def open_or_make(self, name: str) -> int:
        """A descriptor to read and write a file that may be there, else an empty one. Nothing is synced.

        Raises:
            UnfitFile: What is there is no plain file.
        """
        while True:
            with contextlib.suppress(FileNotFoundError):
                return self._open(name, os.O_RDWR, follow=False)
            with contextlib.suppress(FileExistsError):  # somebody else was faster
                return self._make(name)

    def sync(self) -> None:
        """Make the names in it last, where the platform and its file system can."""
        if self._descriptor is not None:
            sync_names(self._descriptor)
        elif sys.platform != "win32":  # pragma: no branch - there a directory cannot be opened
            descriptor = os.open(self.path, DIRECTORY_FLAGS)
            try:
                sync_names(descriptor)
            finally:
                os.close(descriptor)

    # --- one name

    def _at(self, name: str) -> str | Path:
        return self.path / name if self._descriptor is None else name

    def _keys(self, *names: str) -> dict[str, Any]:
        return {} if self._descriptor is None else dict.fromkeys(names, self._descriptor)

    def _open(self, name: str, flags: int, *, follow: bool) -> int:
        """Open what is there, after a look and with another one: to open a device may do something already."""
        found = os.stat(self._at(name), follow_symlinks=follow, **self._keys("dir_fd"))
        self._refuse(name, found)
        try:
            descriptor = os.open(self._at(name), flags | _PLAIN | (0 if follow else NO_LINK), **self._keys("dir_fd"))
        except OSError as error:
            if not follow and error.errno in _IS_A_LINK:
                raise self._unfit(name, "a link, not a plain file") from error
            raise
        try:
            self._refuse(name, os.fstat(descriptor))
            if not follow and not NO_LINK:
                self._refuse_unfit(name)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _make(self, name: str) -> int:
        """Open a file that was not there."""
        descriptor = os.open(self._at(name), _NEW, 0o600, **self._keys("dir_fd"))
        try:
            if self._keep_owner:
                owner = os.stat(self.path) if self._descriptor is None else os.fstat(self._descriptor)
                give(descriptor, owner, self.path)
        except BaseException:
            os.close(descriptor)
            self.clear(name)
            raise
        return descriptor

    def _write_temp(self, data: bytes, temp: str) -> str:
        descriptor = self._make(temp)
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

    def _rename(self, name: str, other: str) -> None:
        os.replace(self._at(name), self._at(other), **self._keys("src_dir_fd", "dst_dir_fd"))

    def _link(self, name: str, other: str) -> None:
        keys = self._keys("src_dir_fd", "dst_dir_fd")
        if os.link in os.supports_follow_symlinks:
            keys["follow_symlinks"] = False
        os.link(self._at(name), self._at(other), **keys)

    def _refuse_unfit(self, name: str) -> None:
        found = self.facts(name)
        if found is not None:
            self._refuse(name, found)

    def _refuse(self, name: str, found: os.stat_result) -> None:
        kind = name_kind(found.st_mode)
        if kind is not None:
            raise self._unfit(name, f"{kind}, not a plain file")

    def _unfit(self, name: str, what: str) -> UnfitFile:
        return UnfitFile(None, what, str(self.path / name))


@contextlib.contextmanager
def open_directory(path: Path, *, keep_owner: bool = False) -> Iterator[Directory]:
    """Open a directory, which the path may lead to by a link.

    Args:
        path: The directory.
        keep_owner: What root makes in it belongs to its owner.

    Raises:
        FileNotFoundError: Nothing is there.
        NotADirectoryError: Something else is there.
    """
    if not BY_DESCRIPTOR:
        if not stat.S_ISDIR(os.stat(path).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
        yield Directory(path, keep_owner=keep_owner)
        return
    descriptor = os.open(path, DIRECTORY_FLAGS)
    try:
        yield Directory(path, descriptor, keep_owner=keep_owner)
    finally:
        os.close(descriptor)


def _read(descriptor: int, size: int, limit: int) -> bytes | None:
    """All bytes of a file that had this size; None where it has grown beyond the limit."""
    data = bytearray()
    while piece := os.read(descriptor, max(size + 1 - len(data), 65_536)):
        data += piece
        if len(data) > limit:
            return None
    return bytes(data)


def new_temp_name() -> str:
    """A name that nobody has, under which bytes are written until they are whole."""
    return f"{TEMP_PREFIX}{os.urandom(8).hex()}"
