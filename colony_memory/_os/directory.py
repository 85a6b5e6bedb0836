"""Open directories: the one place that looks up, opens, makes, moves and removes their entries.

Every name is one component, looked up without following links, and only plain files are opened, so that no call blocks
on a pipe or a device. Without directory descriptors (Windows), names are joined to paths, checked before and after.
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
    """The bits of the flags that this platform has."""
    return sum(getattr(os, name, 0) for name in names)


NO_LINK = _flags("O_NOFOLLOW")
DIRECTORY_FLAGS = os.O_RDONLY | _flags("O_CLOEXEC", "O_DIRECTORY", "O_NONBLOCK")
_PLAIN = _flags("O_CLOEXEC", "O_BINARY", "O_NONBLOCK", "O_NOCTTY")
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | _PLAIN | NO_LINK
BY_DESCRIPTOR = (
    {os.open, os.stat, os.mkdir, os.rename, os.unlink, os.rmdir, os.symlink, os.readlink} <= os.supports_dir_fd
) and os.scandir in os.supports_fd
_GROUP_BITS = stat.S_ISGID | stat.S_IRWXG
_CLOSED = 2**31 - 1  # no system gives out this number; Python takes -1 for none, which is the current directory
#: Errors of opening a link without following it: on Linux and macOS; on FreeBSD.
_IS_A_LINK = frozenset({errno.ELOOP, errno.EMLINK})
#: A name, or a directory on the way to it, is missing, or is a link or something else by now.
GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_EXCHANGE = 2  # RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS
_TO_FREE_NAME = 4 if sys.platform == "darwin" else 1  # RENAME_EXCL, RENAME_NOREPLACE
#: Errors of file systems that cannot exchange names, of older systems, and of containers that forbid the call.
_NO_EXCHANGE = frozenset({errno.EINVAL, errno.ENOSYS, errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP})
#: Errors by which systems refuse to unlink a directory.
_IS_A_DIRECTORY = frozenset({errno.EISDIR, errno.EPERM, errno.EACCES})


class Directory:
    """An open directory: its methods act on that very directory, whatever becomes of its path.

    Args:
        path: Its path when it was opened: for messages, and for platforms without directory descriptors.
        descriptor: An open descriptor of it, closed along with it; None to look its path up at each call.
        keep_owner: Files that root makes with :meth:`make_file` belong to the directory's owner; and where the
            directory hands on its group (set-group-id) and is open to that group, so are the files.
    """

    def __init__(self, path: Path, descriptor: int | None = None, *, keep_owner: bool = False) -> None:
        self.path = path
        self.descriptor = descriptor
        self._dir_fd = {"dir_fd": descriptor}
        self._keep_owner = keep_owner

    @classmethod
    def open(cls, path: Path, *, follow: bool = False, keep_owner: bool = False) -> Self:
        """Open the directory at a path: ENOTDIR if it is none, ELOOP if it is a link, unless ``follow``."""
        if BY_DESCRIPTOR:
            return cls(path, os.open(path, DIRECTORY_FLAGS | (0 if follow else NO_LINK)), keep_owner=keep_owner)
        _require_directory(os.stat(path, follow_symlinks=follow), path)
        return cls(path, keep_owner=keep_owner)

    def enter(self, name: str) -> Directory:
        """Open a directory in it: ELOOP if the name is a link, ENOTDIR if it is something else."""
        path = self.path / local_name(name)
        if self.descriptor is None:
            _require_directory(os.lstat(path), path)
            return Directory(path)
        try:
            return Directory(path, os.open(encode_name(name), DIRECTORY_FLAGS | NO_LINK, dir_fd=self.descriptor))
        except NotADirectoryError:
            status = self.look(name)
            if status is not None:
                _require_directory(status, path)
            raise

    def close(self) -> None:
        """Close it. A second call does nothing; calls of other methods fail from then on."""
        if self.descriptor not in (None, _CLOSED):
            descriptor, self.descriptor, self._dir_fd = self.descriptor, _CLOSED, {"dir_fd": _CLOSED}
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- reading

    def status(self) -> os.stat_result:
        return os.stat(self.path) if self.descriptor is None else os.fstat(self.descriptor)

    def look(self, name: str, *, follow: bool = False) -> os.stat_result | None:
        """The status of a name, or None if there is none; of a link itself, unless ``follow``."""
        at, dir_fd = self.address(name)
        try:
            return os.stat(at, follow_symlinks=follow, **dir_fd)
        except FileNotFoundError:
            return None

    def names(self) -> list[str]:
        with os.scandir(self.path if self.descriptor is None else self.descriptor) as entries:
            return sorted(decode_name(entry.name) for entry in entries)

    def entries(self, wanted: Callable[[str], object] = bool) -> Iterator[tuple[str, os.stat_result]]:
        """Every wanted name in it with its status: of a link itself, not of its target."""
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
        at, dir_fd = self.address(name)
        return decode_name(os.fsdecode(os.readlink(os.fsencode(at), **dir_fd)))

    @contextlib.contextmanager
    def file(self, name: str) -> Iterator[tuple[int, os.stat_result]]:
        """A plain file, open for reading by position, and its status then; locks of this process on it stay."""
        at, dir_fd = self.address(name)
        status = os.stat(at, follow_symlinks=False, **dir_fd)
        self._refuse(name, status)
        with keeping_locks(Identity.of(status), lambda: self._opened(name, os.O_RDONLY)) as descriptor:
            yield descriptor, os.fstat(descriptor)

    def open_file(self, name: str, *, write: bool = False, follow: bool = False) -> int:
        """A descriptor of a plain file, checked before and after: opening a device may already have an effect."""
        at, dir_fd = self.address(name)
        self._refuse(name, os.stat(at, follow_symlinks=follow, **dir_fd))
        return self._opened(name, os.O_RDWR if write else os.O_RDONLY, follow=follow)

    def _opened(self, name: str, flags: int, *, follow: bool = False) -> int:
        at, dir_fd = self.address(name)
        try:
            descriptor = os.open(at, flags | _PLAIN | (0 if follow else NO_LINK), **dir_fd)
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

    # --- writing

    def make(self, name: str) -> None:
        """Make a directory, private to its owner."""
        at, dir_fd = self.address(name)
        os.mkdir(at, 0o700, **dir_fd)

    def make_file(self, name: str, mode: int = 0o600) -> int:
        """Make a file under a free name, else FileExistsError, and return its descriptor."""
        at, dir_fd = self.address(name)
        descriptor = os.open(at, _NEW, mode, **dir_fd)
        try:
            if self._keep_owner:
                give(descriptor, self.status(), self.path)
                if self.status().st_mode & _GROUP_BITS == _GROUP_BITS:
                    os.fchmod(descriptor, mode | 0o060)  # regardless of the umask
        except BaseException:
            os.close(descriptor)
            self.clear(name)
            raise
        return descriptor

    def make_link(self, name: str, target: str) -> None:
        at, dir_fd = self.address(name)
        os.symlink(local_name(target) if self.descriptor is None else encode_name(target), at, **dir_fd)

    def share(self, name: str, other: Directory, other_name: str) -> None:
        """Give a file, or a link itself, a second name, which must be free."""
        if not hasattr(os, "link"):  # on Android
            raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))
        itself = {"follow_symlinks": False} if os.link in os.supports_follow_symlinks else {}
        os.link(self.address(name)[0], other.address(other_name)[0], **self._pair(other), **itself)

    def move(self, name: str, other: Directory, other_name: str) -> None:
        """Move a file or directory in one step; a file of the new name is replaced."""
        os.replace(self.address(name)[0], other.address(other_name)[0], **self._pair(other))

    def exchange(self, name: str, other: Directory, other_name: str) -> bool:
        """Exchange two names in one step; False if the system or the file system cannot."""
        return self._rename(name, other, other_name, _EXCHANGE)

    def move_to_free(self, name: str, other: Directory, other_name: str) -> bool:
        """Move to a free name, else FileExistsError; False if the system or the file system cannot."""
        return self._rename(name, other, other_name, _TO_FREE_NAME)

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
        """Remove a file, or a link itself, if there is one; a directory is an error."""
        at, dir_fd = self.address(name)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(at, **dir_fd)

    def remove_directory(self, name: str) -> None:
        at, dir_fd = self.address(name)
        os.rmdir(at, **dir_fd)

    def open_up(self, name: str) -> None:
        """Give this user full access to a directory of their own that lacks it; root needs no permission."""
        at, dir_fd = self.address(name)
        status = self.look(name)
        if self.descriptor is None or status is None or not is_directory(status):
            return
        mode = stat.S_IMODE(status.st_mode)
        if mode & stat.S_IRWXU != stat.S_IRWXU and status.st_uid == os.geteuid() != 0:
            os.chmod(at, mode | stat.S_IRWXU, **dir_fd)

    def remove_tree(self, name: str) -> None:
        """Remove a directory and all its contents, read-only ones too; a missing one is no error."""
        self.open_up(name)
        try:
            inner = self.enter(name)
        except FileNotFoundError:
            return
        with inner:
            for child in inner.names():
                try:
                    inner.clear(child)
                except OSError as error:
                    if error.errno not in _IS_A_DIRECTORY:
                        raise
                    inner.remove_tree(child)
        self.remove_directory(name)

    def sync(self) -> None:
        """Bring its entries onto the disk, where the platform and the file system can."""
        if self.descriptor is not None:
            sync_names(self.descriptor)
        elif sys.platform != "win32":  # pragma: no branch - which cannot open a directory
            with Directory(self.path, os.open(self.path, DIRECTORY_FLAGS)) as opened:
                opened.sync()

    # --- single names

    def address(self, name: str) -> tuple[bytes | Path, dict[str, Any]]:
        """A name as path and ``dir_fd``, for calls of ``os`` that have no method here."""
        return (self.path / local_name(name), {}) if self.descriptor is None else (encode_name(name), self._dir_fd)

    def refuse_unfit(self, name: str) -> None:
        """Raise UnfitFile if the name is taken by anything but a plain file."""
        status = self.look(name)
        if status is not None:
            self._refuse(name, status)

    def unfit(self, name: str, problem: str) -> UnfitFile:
        return UnfitFile(None, problem, str(self.path / local_name(name)))

    def _refuse(self, name: str, status: os.stat_result) -> None:
        if not is_file(status):
            raise self.unfit(name, f"{name_kind(status.st_mode)}, not a plain file")

    def _pair(self, other: Directory) -> dict[str, Any]:
        return {} if self.descriptor is None else {"src_dir_fd": self.descriptor, "dst_dir_fd": other.descriptor}


def _require_directory(status: os.stat_result, path: Path) -> None:
    if is_link(status):
        raise OSError(errno.ELOOP, "is a symbolic link", str(path))
    if not is_directory(status):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))


class Reach:
    """The directories of a folder by ``/``-separated names, none through a link; those down to the last stay open."""

    def __init__(self, top: Directory) -> None:
        self._stack: list[tuple[str, Directory]] = [("", top)]
        self._name: str | None = ""  # of the directory opened last

    def directory(self, name: str) -> Directory:
        """A directory of the folder, the folder itself for ``""``; open until the next call."""
        if name == self._name:
            return self._stack[-1][1]
        parts = name.split("/") if name else []
        depth = 1
        while depth < len(self._stack) and depth <= len(parts) and self._stack[depth][0] == parts[depth - 1]:
            depth += 1
        self._leave(depth)
        for part in parts[depth - 1 :]:
            self._stack.append((part, self._stack[-1][1].enter(part)))
        self._name = name
        return self._stack[-1][1]

    def parent(self, name: str) -> tuple[Directory, str]:
        """The parent directory of a name, and its last component."""
        parent, _, last = name.rpartition("/")
        return self.directory(parent), last

    def look(self, name: str) -> os.stat_result | None:
        """The status of a name itself; None if it or a directory above it is missing."""
        try:
            directory, last = self.parent(name)
        except OSError as error:
            if error.errno not in GONE:
                raise
            return None
        return directory.look(last)

    def make(self, name: str) -> None:
        """Make a directory, private to its owner, in one that exists."""
        directory, last = self.parent(name)
        directory.make(last)

    def sync(self, names: Iterable[str], *, one_by_one: bool = False) -> None:
        """Bring the making or removal of names onto the disk; ``one_by_one`` if in several file systems."""
        top, names = self._stack[0][1], list(names)
        if top.descriptor is None:
            return
        if not one_by_one and syncs_together(len(names)):
            sync_file_system(top.descriptor)
            return
        for parent in sorted({name.rpartition("/")[0] for name in names}):
            # Removed as well, or made with permissions that close it, and then synced already.
            with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
                self.directory(parent).sync()

    def close(self) -> None:
        """Close all but the folder itself."""
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
    """A directory at any depth, with those above it closed; only ``root`` may be reached by links."""
    directory = Directory.open(root, follow=True)
    try:
        for name in inside:
            parent, directory = directory, directory.enter(name)
            parent.close()
        yield directory
    finally:
        directory.close()


_MANY = 64


def sync_bytes(descriptor: int) -> None:
    """Bring a file's contents onto the disk."""
    if sys.platform == "darwin":  # where fsync() leaves them in the disk's own cache
        import fcntl

        with contextlib.suppress(OSError):  # not every file system can
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            return
    os.fsync(descriptor)


def sync_names(descriptor: int) -> None:
    """Bring a directory's entries onto the disk, where its file system can."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.ENOTSUP}:  # of file systems that sync no directories
            raise


def give(descriptor: int, owner: os.stat_result, place: Path) -> None:
    """As root, give an open file or directory to a directory's owner, or warn that this failed."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return
    own = os.fstat(descriptor)
    if (own.st_uid, own.st_gid) == (owner.st_uid, owner.st_gid):
        return
    try:
        os.fchown(descriptor, owner.st_uid, owner.st_gid)
    except OSError as error:
        message = f"files that root wrote in {place} could not be given to user {owner.st_uid}, who owns it and may be "
        message += f"unable to read them: {error.strerror}"
        warnings.warn(message, ColonyMemoryWarning, stacklevel=2)


def syncs_together(count: int) -> bool:
    """True if :func:`sync_file_system`, which waits for others' writes too, costs less than so many single syncs."""
    return count >= _MANY and _native("syncfs") is not None


def sync_file_system(descriptor: int) -> None:
    """Bring all writes to the file system of an open file or directory onto the disk, other processes' too."""
    call = _native("syncfs")
    if call is None:
        raise NotImplementedError
    call(descriptor)


@functools.cache
def _native(name: str, system: str = "linux") -> Callable[..., None] | None:
    """A system call that Python lacks, None if this system does too; it raises the system's error."""
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
