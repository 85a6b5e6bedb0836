"""Directories that are open: the one place that looks up, opens, makes, moves and removes what is in them.

Every name is one component, looked up without following links, and nothing but plain files is opened, so that nothing
is waited for. Without directory descriptors (Windows), names are joined to paths, and looked at before and after.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import stat
import sys
import warnings
from typing import TYPE_CHECKING, Any

from colony_memory._os.open_files import keeping_locks
from colony_memory._os.paths import (
    Identity,
    UnfitFile,
    decode_name,
    encode_name,
    is_directory,
    is_file,
    is_link,
    local_name,
    name_kind,
)
from colony_memory.exceptions import ColonyMemoryWarning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from typing_extensions import Self


def _flags(*names: str) -> int:
    """Those of the flags that this platform has."""
    return sum(getattr(os, name, 0) for name in names)


NO_LINK = _flags("O_NOFOLLOW")
DIRECTORY_FLAGS = os.O_RDONLY | _flags("O_CLOEXEC", "O_DIRECTORY", "O_NONBLOCK")
_PLAIN = _flags("O_CLOEXEC", "O_BINARY", "O_NONBLOCK", "O_NOCTTY")
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | _PLAIN | NO_LINK
BY_DESCRIPTOR = (
    {os.open, os.stat, os.mkdir, os.rename, os.unlink, os.rmdir, os.symlink, os.readlink} <= os.supports_dir_fd
) and os.scandir in os.supports_fd
_OF_A_GROUP = stat.S_ISGID | stat.S_IRWXG
_CLOSED = 2**31 - 1  # no descriptor that a system gives; Python takes -1 for none, which is the current directory
#: What opening a link without following it fails with: Linux and macOS; FreeBSD.
_IS_A_LINK = frozenset({errno.ELOOP, errno.EMLINK})
#: Nothing is there, or the way there is gone, or something else or a link is in it.
GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_EXCHANGE = 2  # RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS
_TO_FREE = 4 if sys.platform == "darwin" else 1  # RENAME_EXCL, RENAME_NOREPLACE
#: Of file systems that exchange no names, of older systems, and of a container that lets nobody ask.
_NO_EXCHANGE = frozenset({errno.EINVAL, errno.ENOSYS, errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP})
#: By which systems refuse to unlink a directory.
_IS_A_DIRECTORY = frozenset({errno.EISDIR, errno.EPERM, errno.EACCES})


class Directory:
    """An open directory: what is done in it is done there, whatever becomes of its path.

    Args:
        path: Where it was when it was opened: for messages, and for platforms without directory descriptors.
        descriptor: An open descriptor of it, which is closed with it; None to look its path up at each call.
        keep_owner: What root makes here with :meth:`make_file` belongs to the directory's owner, and where the
            directory is one that hands on its group (set-group-id) and opens itself to that, so are files.
    """

    def __init__(self, path: Path, descriptor: int | None = None, *, keep_owner: bool = False) -> None:
        self.path = path
        self.descriptor = descriptor
        self._where = {"dir_fd": descriptor}
        self._keep_owner = keep_owner

    @classmethod
    def open(cls, path: Path, *, follow: bool = False, keep_owner: bool = False) -> Self:
        """Open the directory at a path, whose last name may be a link only with ``follow``, else ENOTDIR or ELOOP."""
        if BY_DESCRIPTOR:
            return cls(path, os.open(path, DIRECTORY_FLAGS | (0 if follow else NO_LINK)), keep_owner=keep_owner)
        _require_directory(os.stat(path, follow_symlinks=follow), path)
        return cls(path, keep_owner=keep_owner)

    def enter(self, name: str) -> Directory:
        """Open a directory in it; ELOOP where a link is there, ENOTDIR where something else is."""
        path = self.path / local_name(name)
        if self.descriptor is None:
            _require_directory(os.lstat(path), path)
            return Directory(path)
        try:
            return Directory(path, os.open(encode_name(name), DIRECTORY_FLAGS | NO_LINK, dir_fd=self.descriptor))
        except NotADirectoryError:
            there = self.look(name)
            if there is not None:
                _require_directory(there, path)
            raise

    def close(self) -> None:
        """Let go of it. A second time does nothing, and whatever else is done then fails."""
        if self.descriptor not in (None, _CLOSED):
            descriptor, self.descriptor, self._where = self.descriptor, _CLOSED, {"dir_fd": _CLOSED}
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- looking

    def status(self) -> os.stat_result:
        return os.stat(self.path) if self.descriptor is None else os.fstat(self.descriptor)

    def look(self, name: str, *, follow: bool = False) -> os.stat_result | None:
        """The status of a name, of a link itself unless it is followed, or None."""
        at, where = self.address(name)
        try:
            return os.stat(at, follow_symlinks=follow, **where)
        except FileNotFoundError:
            return None

    def names(self) -> list[str]:
        with os.scandir(self.path if self.descriptor is None else self.descriptor) as entries:
            return sorted(decode_name(entry.name) for entry in entries)

    def entries(self, wanted: Callable[[str], object] = bool) -> Iterator[tuple[str, os.stat_result]]:
        """Every wanted name in it, with what is there: a link itself, not what it leads to."""
        with os.scandir(self.path if self.descriptor is None else self.descriptor) as entries:
            for entry in entries:
                if not wanted(name := decode_name(entry.name)):
                    continue
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:  # removed since the directory was read
                    continue
                yield name, status

    def read_link(self, name: str) -> str:
        at, where = self.address(name)
        return decode_name(os.fsdecode(os.readlink(os.fsencode(at), **where)))

    @contextlib.contextmanager
    def file(self, name: str) -> Iterator[tuple[int, os.stat_result]]:
        """A plain file, open for reading at given positions, and its status then; locks of this process on it stay."""
        at, where = self.address(name)
        seen = os.stat(at, follow_symlinks=False, **where)
        self._refuse(name, seen)
        with keeping_locks(Identity.of(seen), lambda: self._opened(name, os.O_RDONLY)) as descriptor:
            yield descriptor, os.fstat(descriptor)

    def open_file(self, name: str, *, write: bool = False, follow: bool = False) -> int:
        """A descriptor of a plain file, looked at before and after: to open a device may do something already."""
        at, where = self.address(name)
        self._refuse(name, os.stat(at, follow_symlinks=follow, **where))
        return self._opened(name, os.O_RDWR if write else os.O_RDONLY, follow=follow)

    def _opened(self, name: str, flags: int, *, follow: bool = False) -> int:
        at, where = self.address(name)
        try:
            descriptor = os.open(at, flags | _PLAIN | (0 if follow else NO_LINK), **where)
        except OSError as error:
            if not follow and error.errno in _IS_A_LINK:
                raise self.unfit(name, "a link, not a plain file") from error
            raise
        try:
            self._refuse(name, os.fstat(descriptor))
            if not follow and not NO_LINK:
                self.refuse_unfit(name)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    # --- changing

    def make(self, name: str) -> None:
        """Make a directory for its owner alone."""
        at, where = self.address(name)
        os.mkdir(at, 0o700, **where)

    def make_file(self, name: str, mode: int = 0o600) -> int:
        """Make a file and return its descriptor; nothing of that name may be there."""
        at, where = self.address(name)
        descriptor = os.open(at, _NEW, mode, **where)
        try:
            if self._keep_owner:
                give(descriptor, self.status(), self.path)
                if self.status().st_mode & _OF_A_GROUP == _OF_A_GROUP:
                    os.fchmod(descriptor, mode | 0o060)  # whatever the umask is
        except BaseException:
            os.close(descriptor)
            self.clear(name)
            raise
        return descriptor

    def make_link(self, name: str, target: str) -> None:
        at, where = self.address(name)
        os.symlink(local_name(target) if self.descriptor is None else encode_name(target), at, **where)

    def share(self, name: str, other: Directory, other_name: str) -> None:
        """Give a file a second name, which must be free; a link gets it itself."""
        if not hasattr(os, "link"):  # on Android
            raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))
        itself = {"follow_symlinks": False} if os.link in os.supports_follow_symlinks else {}
        os.link(self.address(name)[0], other.address(other_name)[0], **self._pair(other), **itself)

    def move(self, name: str, other: Directory, other_name: str) -> None:
        """Move a file or directory in one step, over a file that is there."""
        os.replace(self.address(name)[0], other.address(other_name)[0], **self._pair(other))

    def exchange(self, name: str, other: Directory, other_name: str) -> bool:
        """Let two names change places in one step; False where the system or the file system cannot."""
        return self._rename(name, other, other_name, _EXCHANGE)

    def move_to_free(self, name: str, other: Directory, other_name: str) -> bool:
        """Move to a name that is free, else FileExistsError; False where the system or the file system cannot."""
        return self._rename(name, other, other_name, _TO_FREE)

    def _rename(self, name: str, other: Directory, other_name: str, how: int) -> bool:
        call = _native("renameat2") or _native("renameatx_np", "darwin")
        if call is None or self.descriptor is None or other.descriptor is None:
            return False
        sys.audit("os.rename", name, other_name, self.descriptor, other.descriptor)  # as os.rename() does
        try:
            call(self.descriptor, encode_name(name), other.descriptor, encode_name(other_name), how)
        except OSError as error:
            if error.errno not in _NO_EXCHANGE:
                raise
            return False
        return True

    def clear(self, name: str) -> None:
        """Take away what is there, if anything, and no directory: a link itself, not what it leads to."""
        at, where = self.address(name)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(at, **where)

    def remove_directory(self, name: str) -> None:
        at, where = self.address(name)
        os.rmdir(at, **where)

    def open_up(self, name: str) -> None:
        """Let the owner of a directory that is closed to them change what is in it; root needs no permission."""
        at, where = self.address(name)
        there = self.look(name)
        if self.descriptor is None or there is None or not is_directory(there):
            return
        mode = stat.S_IMODE(there.st_mode)
        if mode & stat.S_IRWXU != stat.S_IRWXU and there.st_uid == os.geteuid() != 0:
            os.chmod(at, mode | stat.S_IRWXU, **where)

    def remove_tree(self, name: str) -> None:
        """Remove a directory with all that is in it, if need be read-only; one that is not there is no error."""
        self.open_up(name)
        try:
            inner = self.enter(name)
        except FileNotFoundError:
            return
        with inner:
            for each in inner.names():
                try:
                    inner.clear(each)
                except OSError as error:
                    if error.errno not in _IS_A_DIRECTORY:
                        raise
                    inner.remove_tree(each)
        self.remove_directory(name)

    def sync(self) -> None:
        """Make the names in it last, where the platform and its file system can."""
        if self.descriptor is not None:
            sync_names(self.descriptor)
        elif sys.platform != "win32":  # pragma: no branch - there a directory cannot be opened
            with Directory(self.path, os.open(self.path, DIRECTORY_FLAGS)) as opened:
                opened.sync()

    # --- one name

    def address(self, name: str) -> tuple[bytes | Path, dict[str, Any]]:
        """The path and its ``dir_fd``, for a call of ``os`` that no method here is for."""
        if self.descriptor is None:
            return self.path / local_name(name), {}
        return encode_name(name), self._where

    def refuse_unfit(self, name: str) -> None:
        """Raise UnfitFile where something else than a plain file has the name."""
        there = self.look(name)
        if there is not None:
            self._refuse(name, there)

    def unfit(self, name: str, what: str) -> UnfitFile:
        return UnfitFile(None, what, str(self.path / local_name(name)))

    def _refuse(self, name: str, there: os.stat_result) -> None:
        if not is_file(there):
            raise self.unfit(name, f"{name_kind(there.st_mode)}, not a plain file")

    def _pair(self, other: Directory) -> dict[str, Any]:
        return {} if self.descriptor is None else {"src_dir_fd": self.descriptor, "dst_dir_fd": other.descriptor}


def _require_directory(status: os.stat_result, path: Path) -> None:
    if is_link(status):
        raise OSError(errno.ELOOP, "is a symbolic link", str(path))
    if not is_directory(status):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))


class Reach:
    """The directories of a folder by their names with ``/``, none through a link; the way to the last stays open."""

    def __init__(self, top: Directory) -> None:
        self._stack: list[tuple[str, Directory]] = [("", top)]
        self._name: str | None = ""  # of the directory last asked for

    def directory(self, name: str) -> Directory:
        """A directory of the folder, empty for the folder itself, open until another is asked for."""
        if name == self._name:
            return self._stack[-1][1]
        parts = name.split("/") if name else []
        known = 1
        while known < len(self._stack) and known <= len(parts) and self._stack[known][0] == parts[known - 1]:
            known += 1
        self._leave(known)
        for part in parts[known - 1 :]:
            self._stack.append((part, self._stack[-1][1].enter(part)))
        self._name = name
        return self._stack[-1][1]

    def parent(self, name: str) -> tuple[Directory, str]:
        """The directory that a name is in, and its last component."""
        above, _, last = name.rpartition("/")
        return self.directory(above), last

    def look(self, name: str) -> os.stat_result | None:
        """The status of a name itself, or None, also where no directory is above it."""
        try:
            directory, last = self.parent(name)
        except OSError as error:
            if error.errno not in GONE:
                raise
            return None
        return directory.look(last)

    def make(self, name: str) -> None:
        """Make a directory for its owner alone, in one that is there."""
        directory, last = self.parent(name)
        directory.make(last)

    def sync(self, names: Iterable[str], *, one_by_one: bool = False) -> None:
        """Make it last that these names came to be there, or went; ``one_by_one`` where in several file systems."""
        top, names = self._stack[0][1], list(names)
        if top.descriptor is None:
            return
        if not one_by_one and syncs_together(len(names)):
            sync_file_system(top.descriptor)
            return
        for above in sorted({name.rpartition("/")[0] for name in names}):
            # It went too, or was made with permissions that close it, and is synced already.
            with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
                self.directory(above).sync()

    def close(self) -> None:
        """Let go of all but the folder itself."""
        self._leave(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _leave(self, depth: int) -> None:
        self._name = None
        while len(self._stack) > depth:
            self._stack.pop()[1].close()


@contextlib.contextmanager
def open_below(root: Path, inside: Iterable[str] = ()) -> Iterator[Directory]:
    """A directory however deep, without those above it open; ``root`` may be reached by links, the rest may not."""
    directory = Directory.open(root, follow=True)
    try:
        for name in inside:
            above, directory = directory, directory.enter(name)
            above.close()
        yield directory
    finally:
        directory.close()


_MANY = 64


def sync_bytes(descriptor: int) -> None:
    """Bring what was written to a file onto the disk."""
    if sys.platform == "darwin":  # there fsync() leaves it in the disk's own cache
        import fcntl

        with contextlib.suppress(OSError):  # not every file system can
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            return
    os.fsync(descriptor)


def sync_names(descriptor: int) -> None:
    """Make the names in a directory last, where its file system can."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.ENOTSUP}:  # it keeps directories its own way
            raise


def give(descriptor: int, owner: os.stat_result, place: Path) -> None:
    """Where this is root, give what is open to the owner of a directory, or warn that it could not be given."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return
    made = os.fstat(descriptor)
    if (made.st_uid, made.st_gid) == (owner.st_uid, owner.st_gid):
        return
    try:
        os.fchown(descriptor, owner.st_uid, owner.st_gid)
    except OSError as error:
        said = f"files that root wrote in {place} could not be given to user {owner.st_uid}, who owns it and may be "
        said += f"unable to read them: {error.strerror}"
        warnings.warn(said, ColonyMemoryWarning, stacklevel=2)


def syncs_together(count: int) -> bool:
    """One :func:`sync_file_system`, which also waits for what others write, costs less than so many one by one."""
    return count >= _MANY and _native("syncfs") is not None


def sync_file_system(descriptor: int) -> None:
    """Make all that was written to the file system of an open file or directory last, by whoever wrote it."""
    call = _native("syncfs")
    if call is None:
        raise NotImplementedError
    call(descriptor)


@functools.cache
def _native(name: str, system: str = "linux") -> Callable[..., None] | None:
    """A call of a system that Python does not have; it raises what the system says."""
    if sys.platform != system:
        return None
    try:
        import ctypes

        function = getattr(ctypes.CDLL(None, use_errno=True), name)
    except (ImportError, OSError, AttributeError):
        return None

    def call(*arguments: int | bytes) -> None:
        if function(*arguments) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    return call
