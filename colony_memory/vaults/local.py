"""A vault in a local directory: one file on disk for each file of the vault.

An upload writes a temporary file beside its target, syncs it, renames it over the target and syncs the directory,
so that a crash or a power cut leaves the old text or the new text, and what was acknowledged stays. Uploads and
deletes of one directory exclude each other with a lock of the operating system, between threads and between
processes; the lock goes with the process that held it. Reads take no lock.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import shutil
import stat
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colony_memory._os import disk
from colony_memory._os.locks import locked
from colony_memory.exceptions import QuotaExceeded, VaultDenied, VaultError, VaultUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["LocalVault"]

_LOCK_FILE = ".lock"
_TEMP_PREFIX = ".tmp-"
_TEMP_LIFETIME = 3600.0
"""Seconds after which a temporary file can only be what a crash left."""
_LOCK_PATIENCE = 30.0
"""Seconds to wait for a lock that is held for milliseconds, unless its holder was stopped."""
_NAME_BYTES = 255
_READ_FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)


class LocalVault:
    """A directory as a vault.

    A directory that is not there yet is an empty vault; the first upload makes it, for its owner alone (0700, files
    0600). Hidden files, subdirectories and whatever else is no plain file are not part of the vault. Text is stored
    as its UTF-8 bytes and nothing else. A file that is no longer UTF-8 is damaged, not away: its text comes back
    with U+FFFD for every broken byte, so that the reader sees wrong content, as it would of any other damage. The
    ``etag`` is the SHA-256 of the bytes as they are on disk.

    Args:
        path: The directory.
        quota_bytes: Most bytes that all files may take together; None for what the disk holds.
        max_file_bytes: Most bytes that one file may take; None for no limit.

    Raises:
        ValueError: The path is empty or is no directory, or a limit is below 1.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, quota_bytes: int | None = None, max_file_bytes: int | None = None
    ) -> None:
        given = os.fspath(path)
        if not given or "\0" in given:
            raise ValueError(f"not a path of a directory: {given!r}")
        for name, limit in (("quota_bytes", quota_bytes), ("max_file_bytes", max_file_bytes)):
            if limit is not None and limit < 1:
                raise ValueError(f"{name} must be at least 1, not {limit!r}")
        # Absolute, so that a later change of the working directory does not move the vault.
        self.path = Path(os.path.abspath(given))  # noqa: PTH100 - resolve() would follow links
        self._quota_bytes = quota_bytes
        self._max_file_bytes = max_file_bytes
        if _is_something_else(self.path):
            raise ValueError(f"{self.path} is not a directory")

    def __repr__(self) -> str:
        return f"LocalVault({str(self.path)!r})"

    # --- the five methods

    def vault_status(self) -> dict[str, int]:
        """Bytes and number of files.

        Without a quota, ``available_bytes`` is what the disk has free and ``quota_bytes`` is that plus what is used.
        """
        with _told(self.path):
            files = self._scan()
            used = sum(size for size, _ in files.values())
            if self._quota_bytes is None:
                available = shutil.disk_usage(self._nearest_directory()).free
                quota = used + available
            else:
                quota = self._quota_bytes
                available = max(0, quota - used)
        return {"quota_bytes": quota, "used_bytes": used, "available_bytes": available, "file_count": len(files)}

    def vault_list_files(self) -> dict[str, Any]:
        """Every file's name, size in bytes and time of its last upload, by name."""
        return self.vault_list_prefix("")

    def vault_get_file(self, filename: str) -> dict[str, Any]:
        """One file with its ``content`` and ``etag``.

        Raises:
            VaultError: ``status`` 404: it is not there.
            VaultUnavailable: Something is there that is no plain file, or it cannot be read.
        """
        target = self._locate(filename)
        with _told(target):
            found = _read(target)
        if found is None:
            raise _missing(target)
        data, modified = found
        return {
            **_describe(filename, len(data), modified),
            "content": data.decode("utf-8", "replace"),
            "etag": _etag(data),
        }

    def vault_upload_file(self, filename: str, content: str) -> dict[str, Any]:
        """Create or replace one file, whole or not at all; on disk when this returns.

        Raises:
            VaultError: ``status`` 400: a name or text that cannot be stored, or a limit of this vault.
            QuotaExceeded: The disk is full.
        """
        return self.vault_upload_file_if(filename, content)

    def vault_delete_file(self, filename: str) -> dict[str, Any]:
        """Remove one file.

        Raises:
            VaultError: ``status`` 404: it is not there.
        """
        target = self._locate(filename)
        with _told(target):
            try:
                with self._locked():
                    target.unlink()
                    disk.sync_directory(self.path)
            except FileNotFoundError as exc:
                raise _missing(target) from exc
        return {}

    # --- what the hosted vault has besides

    def vault_upload_file_if(
        self, filename: str, content: str, *, if_match: str | None = None, if_none_match: str | None = None
    ) -> dict[str, Any]:
        """Like :meth:`vault_upload_file`, if the file still has the etag ``if_match``, or is not there (``"*"``).

        No other upload or delete through a :class:`LocalVault`, of any process, comes between look and write.

        Raises:
            ValueError: ``if_none_match`` is neither None nor ``"*"``.
            VaultError: ``status`` 412: the condition failed and nothing was written.
        """
        if if_none_match not in {None, "*"}:
            raise ValueError(f"if_none_match must be None or '*', not {if_none_match!r}")
        target = self._locate(filename)
        data = _encode(filename, content)
        with _told(target, needed=len(data)):
            disk.make_directory(self.path)
            with self._locked():
                if if_match is not None or if_none_match is not None:
                    _require(target, if_match=if_match, absent=if_none_match is not None)
                self._require_room(filename, len(data))
                self._clear_leftovers()
                self._replace(target, data)
                modified = target.stat().st_mtime
        return {**_describe(filename, len(data), modified), "etag": _etag(data)}

    def vault_list_prefix(self, prefix: str) -> dict[str, Any]:
        """Like :meth:`vault_list_files`, for names that start with the literal ``prefix``."""
        with _told(self.path):
            files = self._scan()
        items = [_describe(name, *files[name]) for name in sorted(files) if name.startswith(prefix)]
        return {"items": items, "total": len(items), "has_more": False}

    # --- on disk

    def _locate(self, filename: str) -> Path:
        if not _is_plain_name(filename):
            raise VaultError(f"not a name of a file in {self.path}: {filename!r}", status=400, code="INVALID_INPUT")
        return self.path / filename

    def _scan(self) -> dict[str, tuple[int, float]]:
        """Size in bytes and time of change of every file of the vault, by name."""
        files: dict[str, tuple[int, float]] = {}
        try:
            entries = os.scandir(self.path)
        except FileNotFoundError:
            return files
        with entries:
            for entry in entries:
                if not _is_plain_name(entry.name):
                    continue
                with contextlib.suppress(FileNotFoundError):  # deleted since the directory was read
                    facts = entry.stat()
                    if stat.S_ISREG(facts.st_mode):
                        files[entry.name] = facts.st_size, facts.st_mtime
        return files

    def _nearest_directory(self) -> Path:
        """The vault's directory, or the nearest one above it that exists."""
        return next((place for place in (self.path, *self.path.parents) if place.is_dir()), self.path)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep out every other upload and delete, of this process and of others."""
        with locked(self.path / _LOCK_FILE, patience=_LOCK_PATIENCE):
            yield

    def _require_room(self, filename: str, size: int) -> None:
        if self._max_file_bytes is not None and size > self._max_file_bytes:
            raise VaultError(
                f"{filename} takes {size} bytes; a file in {self.path} may take {self._max_file_bytes}",
                status=400,
                code="QUOTA_EXCEEDED",
            )
        if self._quota_bytes is not None:
            others = sum(used for name, (used, _) in self._scan().items() if name != filename)
            if others + size > self._quota_bytes:
                raise VaultError(
                    f"{filename} takes {size} bytes; {self.path} has {max(0, self._quota_bytes - others)} "
                    f"of {self._quota_bytes} left for it",
                    status=400,
                    code="QUOTA_EXCEEDED",
                )

    def _clear_leftovers(self) -> None:
        """Remove the temporary files of writers that died."""
        eldest = time.time() - _TEMP_LIFETIME
        with os.scandir(self.path) as entries:
            for entry in entries:
                if entry.name.startswith(_TEMP_PREFIX):
                    with contextlib.suppress(FileNotFoundError):
                        if entry.stat(follow_symlinks=False).st_mtime < eldest:
                            Path(entry.path).unlink()

    def _replace(self, target: Path, data: bytes) -> None:
        # What a crash leaves under this name is cleared by a later upload.
        disk.replace_file(target, data, temp=self.path / f"{_TEMP_PREFIX}{secrets.token_hex(8)}")


def _is_something_else(path: Path) -> bool:
    """Whether the path is, or lies below, something that is known to be no directory."""
    try:
        return not stat.S_ISDIR(path.stat().st_mode)
    except NotADirectoryError:
        return True
    except OSError:
        # Not there yet is well; that it cannot be looked at is told by the call that needs it.
        return False


def _is_plain_name(name: str) -> bool:
    """Whether the name is one plain component, visible and storable, on every platform."""
    if not name or name.startswith(".") or any(sign in name for sign in "/\\\0"):
        return False
    try:
        return len(name.encode("utf-8")) <= _NAME_BYTES
    except UnicodeEncodeError:
        return False


def _encode(filename: str, content: str) -> bytes:
    try:
        return content.encode("utf-8")
    except UnicodeEncodeError as exc:
        raise VaultError(
            f"{filename}: character {exc.start} of the text is half of a surrogate pair, which UTF-8 cannot hold",
            status=400,
            code="INVALID_INPUT",
        ) from exc


def _etag(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _describe(filename: str, size: int, modified: float) -> dict[str, Any]:
    try:
        when = datetime.fromtimestamp(modified, timezone.utc).isoformat(timespec="microseconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):  # a time on disk that no calendar has must not hide the file
        when = None
    return {"filename": filename, "content_size": size, "updated_at": when}


def _read(target: Path) -> tuple[bytes, float] | None:
    """A file's bytes and time of change, or None where there is nothing of that name."""
    try:
        descriptor = os.open(target, _READ_FLAGS)
    except FileNotFoundError as exc:
        if target.is_symlink():
            raise VaultUnavailable(f"{target} is a link to nothing") from exc
        return None
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise VaultUnavailable(f"{target} is not a plain file")
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            return stream.read(), facts.st_mtime
    finally:
        os.close(descriptor)


def _require(target: Path, *, if_match: str | None, absent: bool) -> None:
    found = _read(target)
    state = None
    if found is None:
        state = "is not there" if if_match is not None else None
    elif absent:
        state = "is there"
    elif _etag(found[0]) != if_match:
        state = "has changed"
    if state is not None:
        raise VaultError(f"{target} {state}: not written", status=412, code="PRECONDITION_FAILED")


def _missing(target: Path) -> VaultError:
    return VaultError(f"no such file in the vault: {target}", status=404, code="NOT_FOUND")


@contextlib.contextmanager
def _told(place: Path, *, needed: int | None = None) -> Iterator[None]:
    """Turn what the operating system says into this package's errors, naming the place."""
    try:
        yield
    except OSError as exc:
        msg = f"{place}: {exc.strerror or type(exc).__name__}"
        if exc.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise QuotaExceeded(msg, needed=needed) from exc
        if exc.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
            raise VaultDenied(msg, status=403) from exc
        raise VaultUnavailable(msg) from exc
