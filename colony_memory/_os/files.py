"""Plain files, whole or not at all, on disk when the call returns; and a lock between threads and between processes.

The lock is the operating system's, on a file of its own, and goes with the process. Where a file system has none (NFS
without its lock daemon), a second file stands for one held for moments: one seen unchanged for ``_LEFT_BEHIND`` seconds
is what a crash left.
"""

from __future__ import annotations

import contextlib
import errno
import operator
import os
import stat
import sys
import time
from typing import TYPE_CHECKING

from colony_memory._os.directory import BY_DESCRIPTOR, Directory, give, sync_bytes
from colony_memory._os.paths import user_id
from colony_memory._values import Value

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

if sys.platform == "win32":  # pragma: no cover - chosen by the platform
    import msvcrt
else:
    import fcntl

#: How the names of temporary files begin.
TEMP_PREFIX = ".tmp-"


_version = operator.attrgetter("st_dev", "st_ino", "st_size", "st_mtime_ns")


class Contents(Value):
    data: bytes
    facts: os.stat_result  # of the very file that was read


class Files(Directory):
    """An open directory whose files nobody in this process has open for longer than a call."""

    def require_private(self, user: int | None = None) -> None:
        """PermissionError where others than root and the user, this one unless another is given, can write here."""
        status = os.lstat(self.path) if self.descriptor is None else self.status()  # a link leads where its owner likes
        is_bad = status.st_mode & 0o022 or not stat.S_ISDIR(status.st_mode)
        # In a directory of another user's root believes the files that are root's.
        if os.name != "nt" and (is_bad or (user_id() if user is None else user) not in (0, status.st_uid)):
            raise PermissionError(errno.EPERM, "others can write to it", str(self.path))

    def read(self, name: str, *, limit: int, follow: bool = False, owner: int | None = None) -> Contents | None:
        """A file's bytes, or None without one; UnfitFile for more than ``limit``, or if not the ``owner``'s alone."""
        try:
            descriptor = self.open_file(name, follow=follow)
        except FileNotFoundError:
            if not follow or self.look(name) is None:
                return None
            try:  # since then, somebody may have made it, or what the link leads to
                descriptor = self.open_file(name, follow=True)
            except FileNotFoundError:
                raise self.unfit(name, "a link to nothing") from None
        try:
            facts, data = os.fstat(descriptor), bytearray()
            while facts.st_size <= limit and (piece := os.read(descriptor, max(facts.st_size + 1 - len(data), 65_536))):
                data += piece
                if len(data) > limit:
                    break
        finally:
            os.close(descriptor)
        if max(facts.st_size, len(data)) > limit:
            raise self.unfit(name, f"larger than {limit} bytes")
        if owner is not None and os.name != "nt":
            access = facts.st_uid, facts.st_nlink, facts.st_mode & 0o077
            if access != (owner, 1, 0):
                raise self.unfit(name, "it is not its owner's alone")
        return Contents(bytes(data), facts)

    def create(self, name: str, data: bytes) -> None:
        """Make a file, for its owner alone. Where the file system has no hard links it is empty for an instant."""
        temp = new_temp_name()
        try:
            self._write(temp, data)
            try:
                self.share(temp, self, name)
            except FileExistsError:
                raise
            except (OSError, NotImplementedError):  # this file system or platform has no hard links
                os.close(self.make_file(name))  # takes the name, or fails
                try:
                    self.move(temp, self, name)
                except BaseException:
                    self.clear(name)
                    raise
        finally:
            with contextlib.suppress(OSError):  # the first error is the one to tell
                self.clear(temp)
        self.sync()

    def replace(self, name: str, data: bytes, *, temp: str | None = None, like: os.stat_result | None = None) -> None:
        """Put bytes in the place of a file, or of none, for its owner alone; until then they are in ``temp``.

        A file with the status ``like`` is somebody's own: it keeps its owner and who may read it, and is replaced only
        while it is that very file, else FileExistsError.
        """
        self.refuse_unfit(name)
        if temp is not None:
            self.clear(temp)
        temp = temp or new_temp_name()
        try:
            self._write(temp, data)
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
        if there is None or _version(there) != _version(like):
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

    def _write(self, temp: str, data: bytes) -> None:
        descriptor = self.make_file(temp)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            sync_bytes(descriptor)


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
            with Directory.open(made) as directory:
                give(directory.descriptor or 0, owner, above[known])
        # The new directory is an entry of the one above, and lasts only when that one is synced.
        Directory(made.parent).sync()


def new_temp_name() -> str:
    """A name that nobody has, under which bytes are written until they are whole."""
    return f"{TEMP_PREFIX}{os.urandom(8).hex()}"


_PAUSE = 0.002
_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOTTY})
_LEFT_BEHIND = 20.0


def locked(path: Path, *, patience: float = 30.0, brief: bool = False) -> contextlib.AbstractContextManager[int]:
    """:func:`locked_in` by a path."""
    return locked_in(Files(path.parent), path.name, patience=patience, brief=brief)


@contextlib.contextmanager
def locked_in(directory: Files, name: str, *, patience: float = 30.0, brief: bool = False) -> Iterator[int]:
    """Hold the lock of a file, which is made if need be; gives its descriptor. TimeoutError after ``patience`` seconds.

    Not reentrant. For a ``brief`` one, held for milliseconds, a file can stand where the file system has no locks.
    """
    deadline = time.monotonic() + patience
    while True:
        lock = directory.open_or_make(name)
        try:
            try:
                is_ours = _try(lock)
            except OSError as error:
                if not brief or error.errno not in _NO_LOCKS:
                    raise
                with _held_by_name(directory, f"{name}-held", deadline, patience):
                    yield lock
                return
            if is_ours:
                try:
                    # Whoever comes now locks what has the name now, which may be another file than was opened.
                    found = directory.look(name)
                    if found is not None and os.path.samestat(found, os.fstat(lock)):
                        yield lock
                        return
                finally:
                    # Closing alone would leave the lock with a child that was forked meanwhile.
                    _release(lock)
        finally:
            os.close(lock)
        _wait(directory, name, deadline, patience)


@contextlib.contextmanager
def _held_by_name(directory: Files, name: str, deadline: float, patience: float) -> Iterator[None]:
    """Hold a lock by having made a file."""
    seen, since = None, time.monotonic()
    while True:
        with contextlib.suppress(FileExistsError):
            os.close(directory.make_file(name))
            break
        there, now = directory.look(name), time.monotonic()
        facts = there and (there.st_ino, there.st_mtime_ns)
        if facts != seen:
            seen, since = facts, now
        elif facts is not None and now - since > _LEFT_BEHIND:
            _take_away(directory, name, facts)
            continue
        _wait(directory, name, deadline, patience)
    try:
        yield
    finally:
        directory.clear(name)


def _take_away(directory: Files, name: str, facts: tuple[int, int]) -> None:
    """Remove what a crash left, unless another waiter was faster and holds it by now."""
    aside = new_temp_name()
    try:
        directory.move(name, directory, aside)
    except FileNotFoundError:
        return
    taken = directory.look(aside)
    if taken is not None and (taken.st_ino, taken.st_mtime_ns) != facts:
        directory.move(aside, directory, name)
    directory.clear(aside)


def _wait(directory: Files, name: str, deadline: float, patience: float) -> None:
    if time.monotonic() > deadline:
        what = f"locked by another process for {patience:.0f} s"
        raise TimeoutError(errno.ETIMEDOUT, what, str(directory.path / name))
    time.sleep(_PAUSE)


if sys.platform == "win32":  # pragma: no cover - chosen by the platform

    def _try(lock: int) -> bool:
        try:
            msvcrt.locking(lock, msvcrt.LK_NBLCK, 1)
        except OSError as exc:
            if exc.errno in {errno.EACCES, errno.EDEADLK}:
                return False
            raise
        return True

    def _release(lock: int) -> None:
        msvcrt.locking(lock, msvcrt.LK_UNLCK, 1)

else:

    def _try(lock: int) -> bool:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _release(lock: int) -> None:
        fcntl.flock(lock, fcntl.LOCK_UN)
