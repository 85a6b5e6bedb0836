"""Plain files, written whole or not at all, on disk when the call returns; and a lock between threads and processes.

The lock is the operating system's, on a file of its own, and ends with the process. Where a file system has none (NFS
without its lock daemon), a second file takes the place of a brief one: a crash left it if it stays unchanged for
``_STALE_AFTER`` seconds.
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

#: Prefix of the names of temporary files.
TEMP_PREFIX = ".tmp-"


_version = operator.attrgetter("st_dev", "st_ino", "st_size", "st_mtime_ns")


class Contents(Value):
    data: bytes
    facts: os.stat_result  # the status of the very file that was read


class Files(Directory):
    """An open directory whose files this process has open only during a call."""

    def require_private(self, user: int | None = None) -> None:
        """PermissionError if anyone but root and the user, by default this one, can write here."""
        status = os.lstat(self.path) if self.descriptor is None else self.status()  # a link's owner may redirect it
        is_bad = status.st_mode & 0o022 or not stat.S_ISDIR(status.st_mode)
        # In another user's directory, root trusts the files that are root's.
        if os.name != "nt" and (is_bad or (user_id() if user is None else user) not in (0, status.st_uid)):
            raise PermissionError(errno.EPERM, "others can write to it", str(self.path))

    def read(self, name: str, *, limit: int, follow: bool = False, owner: int | None = None) -> Contents | None:
        """A file's bytes, None without one; UnfitFile if over ``limit`` bytes, or not the ``owner``'s alone."""
        try:
            descriptor = self.open_file(name, follow=follow)
        except FileNotFoundError:
            if not follow or self.look(name) is None:
                return None
            try:  # it, or the link's target, may have been made since
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
                raise self.unfit(name, "others have access to it")
        return Contents(bytes(data), facts)

    def create(self, name: str, data: bytes) -> None:
        """Make a file, private to its owner. On a file system without hard links it is empty for an instant."""
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
            with contextlib.suppress(OSError):  # the first error is the one to report
                self.clear(temp)
        self.sync()

    def replace(self, name: str, data: bytes, *, temp: str | None = None, like: os.stat_result | None = None) -> None:
        """Write a file, private to its owner, over an existing one if any; the bytes are in ``temp`` until whole.

        ``like`` is the status of a file of a user's own: it keeps its owner and permissions, and is replaced only while
        it is still that very file, else FileExistsError.
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
            with contextlib.suppress(OSError):  # the first error is the one to report
                self.clear(temp)
            raise
        self.sync()

    def _make_like(self, temp: str, name: str, like: os.stat_result) -> None:
        descriptor = self.open_file(temp, write=True)
        try:
            own = os.fstat(descriptor)
            if hasattr(os, "fchown") and (own.st_uid, own.st_gid) != (like.st_uid, like.st_gid):
                try:
                    os.fchown(descriptor, like.st_uid, like.st_gid)
                except PermissionError:
                    if own.st_uid != like.st_uid:  # a group that this user is not in cannot be given
                        raise
            if hasattr(os, "fchmod"):
                os.fchmod(descriptor, stat.S_IMODE(like.st_mode))
        finally:
            os.close(descriptor)
        current = self.look(name)
        if current is None or _version(current) != _version(like):
            raise FileExistsError(errno.EEXIST, "was changed meanwhile", str(self.path / name))

    def remove(self, name: str) -> None:
        self.refuse_unfit(name)
        at, dir_fd = self.address(name)
        os.unlink(at, **dir_fd)
        self.sync()

    def open_or_make(self, name: str) -> int:
        """A descriptor for reading and writing an existing file, else a new empty one. Nothing is synced."""
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
    """Open a directory, also through a link; see :class:`Directory` for ``keep_owner``."""
    return Files.open(path, follow=True, keep_owner=keep_owner)


def read_file(path: Path, limit: int, *, follow: bool = False) -> Contents | None:
    """:meth:`Files.read` by a path."""
    # By its path: to open its directory takes a right that a reader of the file may lack.
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
    """Make a directory and its missing parents, private to their owner; on disk when this returns."""
    if path.is_dir():
        return
    parents = path.parents
    nearest = next((depth for depth, directory in enumerate(parents) if directory.is_dir()), 0)
    owner = parents[nearest].stat()
    for missing in reversed((path, *parents[:nearest])):
        missing.mkdir(mode=0o700, exist_ok=True)
        if keep_owner and BY_DESCRIPTOR:
            with Directory.open(missing) as directory:
                give(directory.descriptor or 0, owner, parents[nearest])
        # The new directory is an entry of its parent, and lasts only once that is synced.
        Directory(missing.parent).sync()


def new_temp_name() -> str:
    """A unique name for a file while its bytes are not whole yet."""
    return f"{TEMP_PREFIX}{os.urandom(8).hex()}"


_PAUSE = 0.002
_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOTTY})
_STALE_AFTER = 20.0


def locked(path: Path, *, patience: float = 30.0, brief: bool = False) -> contextlib.AbstractContextManager[int]:
    """:func:`locked_in` by a path."""
    return locked_in(Files(path.parent), path.name, patience=patience, brief=brief)


@contextlib.contextmanager
def locked_in(directory: Files, name: str, *, patience: float = 30.0, brief: bool = False) -> Iterator[int]:
    """Hold a file's lock, making the file if need be; gives its descriptor. TimeoutError after ``patience`` seconds.

    Not reentrant. A ``brief`` lock, held for milliseconds, is replaced by a second file if the file system has none.
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
                with _locked_by_name(directory, f"{name}-held", deadline, patience):
                    yield lock
                return
            if is_ours:
                try:
                    # Newcomers lock the file of that name, which may be another by now than the one opened here.
                    current = directory.look(name)
                    if current is not None and os.path.samestat(current, os.fstat(lock)):
                        yield lock
                        return
                finally:
                    # Closing alone would leave the lock to a child forked meanwhile.
                    _release(lock)
        finally:
            os.close(lock)
        _wait(directory, name, deadline, patience)


@contextlib.contextmanager
def _locked_by_name(directory: Files, name: str, deadline: float, patience: float) -> Iterator[None]:
    """Hold a lock by the existence of a file."""
    last, since = None, time.monotonic()
    while True:
        with contextlib.suppress(FileExistsError):
            os.close(directory.make_file(name))
            break
        status, now = directory.look(name), time.monotonic()
        version = status and (status.st_ino, status.st_mtime_ns)
        if version != last:
            last, since = version, now
        elif version is not None and now - since > _STALE_AFTER:
            _remove_stale(directory, name, version)
            continue
        _wait(directory, name, deadline, patience)
    try:
        yield
    finally:
        directory.clear(name)


def _remove_stale(directory: Files, name: str, version: tuple[int, int]) -> None:
    """Remove a lock that a crash left, unless another waiter was faster and holds it by now."""
    aside = new_temp_name()
    try:
        directory.move(name, directory, aside)
    except FileNotFoundError:
        return
    status = directory.look(aside)
    if status is not None and (status.st_ino, status.st_mtime_ns) != version:
        directory.move(aside, directory, name)
    directory.clear(aside)


def _wait(directory: Files, name: str, deadline: float, patience: float) -> None:
    if time.monotonic() > deadline:
        problem = f"locked by another process for {patience:.0f} s"
        raise TimeoutError(errno.ETIMEDOUT, problem, str(directory.path / name))
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
