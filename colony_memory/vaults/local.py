"""A vault in a local directory: one file on disk for each file of the vault.

An upload writes a temporary file beside its target, syncs it, renames it over the target and syncs the directory. So a
crash or a power cut leaves either the old text or the new one, and what was acknowledged stays. A lock of the operating
system keeps uploads and deletions apart, between threads and between processes; reads take none.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from colony_memory._os.files import TEMP_PREFIX, Files, locked_in, make_directory, open_files
from colony_memory._os.paths import UnfitFile, name_kind, real_path
from colony_memory._values import Value
from colony_memory.exceptions import ColonyMemoryWarning, QuotaExceeded, VaultDenied, VaultError, VaultUnavailable
from colony_memory.vaults import _files as files
from colony_memory.vaults._files import MARKER, MOST_BYTES, Mark, MarkedVault

__all__ = ["LocalVault"]

_LOCK_FILE = ".lock"
_TEMP_LIFETIME = 3600.0  # seconds after which a temporary file can only be what a crash left
_LOCK_PATIENCE = 30.0


class LocalVault(MarkedVault):
    """A directory as a vault, made with ``create=True``: for its owner alone (0700, files 0600), with a marker in it.

    A directory with neither the marker nor any file of a snapshot, such as the mount point of a disk that is not
    mounted, is no vault, and every call raises :class:`~colony_memory.VaultMissing`.

    Hidden files, subdirectories and anything else that is not a plain file are not part of the vault. If they bear the
    name of a snapshot's file, reads raise and listings warn. A file that a sync service has taken away, leaving a
    placeholder, is listed without a size, and reading it raises :class:`~colony_memory.VaultUnavailable`. What root
    writes belongs to the directory's owner. Bytes that are no longer UTF-8 come back as U+FFFD.

    Args:
        path: The directory.
        create: Make it a vault if it is none yet. Not for a program that runs again and again: while the disk is not
            mounted, it would start another vault beside it.
        quota_bytes: Most bytes that all files may take together; None for as many as the disk holds.
        max_file_bytes: Most bytes that one file may take; None for no limit.
        format: With ``create``: 1 or 2, the format in which clients write there by default. If not given, that of the
            vault that is there; for a new one 2, or 1 if zstd is not installed.

    Attributes:
        path: The directory.
        snapshot_format: That format, by the marker, which every call reads.

    Raises:
        ValueError: The path is empty or not a directory, a limit is below 1, or there is no such format.
        VaultError: With ``create``: the vault cannot be made.
        ColonyMemoryError: Format 2 was asked for, and zstd is not installed.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        create: bool = False,
        quota_bytes: int | None = None,
        max_file_bytes: int | None = None,
        format: Literal[1, 2] | None = None,  # noqa: A002 - the word for it
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
        self._cleared = 0.0
        try:
            usable = stat.S_ISDIR(self.path.stat().st_mode)
        except OSError as error:  # any other error is for the call that needs the directory
            usable = not isinstance(error, NotADirectoryError)
        if not usable:
            raise ValueError(f"{self.path} is not a directory")
        if create:
            self._make(format)
        elif format is not None:
            raise ValueError("a format is for a vault that is being made")

    def __repr__(self) -> str:
        return f"LocalVault({str(self.path)!r})"

    def identity(self) -> str:
        """Identity of the vault, wherever it is moved to: the id in its marker; without one, its real path."""
        with self._opened() as directory:
            known = self._marker(directory).id
        return f"vault:{known}" if known else f"file:{real_path(self.path)}"

    def require(self) -> None:
        with self._opened():
            pass

    # --- the five methods

    def vault_status(self) -> dict[str, int]:
        """Bytes and number of files.

        Without a quota, ``available_bytes`` is the disk's free space, and ``quota_bytes`` that plus the used bytes.
        """
        with self._opened() as directory:
            contents = _scan(directory)
            quota = self._quota_bytes or contents.used + self._free()
        return files.describe_room(quota, contents.used, len(contents.files))

    def vault_get_file(self, filename: str) -> dict[str, Any]:
        """One file with its ``content`` and ``etag``; VaultUnavailable has the code ``"UNFIT_FILE"`` if it is too
        large or not a plain file, and ``"ELSEWHERE"`` if a sync service has only a placeholder of it.
        """
        with self._opened(filename) as directory:
            file = directory.read(filename, limit=MOST_BYTES)
            if file is None:
                raise _absent(directory, filename)
        return {
            **_describe(filename, len(file.data), file.facts.st_mtime),
            "content": file.data.decode("utf-8", "replace"),
            "etag": files.etag_of(file.data),
        }

    def vault_upload_file(self, filename: str, content: str) -> dict[str, Any]:
        return self.vault_upload_file_if(filename, content)

    def vault_delete_file(self, filename: str) -> dict[str, Any]:
        with self._opened(filename) as directory, self._locked(directory):
            try:
                directory.remove(filename)
            except FileNotFoundError:
                raise _absent(directory, filename) from None
        return {}

    # --- optional methods

    def vault_upload_file_if(
        self, filename: str, content: str, *, if_match: str | None = None, if_none_match: str | None = None
    ) -> dict[str, Any]:
        """No other upload or deletion through a :class:`LocalVault`, in any process, comes between check and write."""
        files.check_none_match(if_none_match)
        files.refuse_odd_name(self.path, filename)
        data = files.encode_text(self.path, filename, content, min(MOST_BYTES, self._max_file_bytes or MOST_BYTES))
        with self._opened(filename, needed=len(data)) as directory, self._locked(directory):
            missing = _absent(directory, filename) if directory.look(filename) is None else None
            if missing is not None and missing.code == files.ELSEWHERE:
                raise missing
            if if_match is not None or if_none_match is not None:
                current = directory.read(filename, limit=MOST_BYTES)
                etag = None if current is None else files.etag_of(current.data)
                if etag != if_match or (etag is not None and if_none_match is not None):
                    state = "is not there" if etag is None else "has changed" if if_none_match is None else "is there"
                    raise VaultError(
                        f"{self.path / filename} {state}: not written", status=412, code="PRECONDITION_FAILED"
                    )
            if self._quota_bytes is not None:
                contents = _scan(directory)
                free = self._quota_bytes - contents.used + (contents.files.get(filename, (0, None))[0] or 0)
                if len(data) > free:
                    room = f"{max(0, free)} of {self._quota_bytes} left for it"
                    msg = f"{filename} takes {len(data)} bytes; {self.path} has {room}"
                    raise VaultError(msg, status=400, code="QUOTA_EXCEEDED")
            now = time.time()
            if abs(now - self._cleared) > _TEMP_LIFETIME:  # since it looks at every name
                for name, facts in directory.entries(lambda name: name.startswith(TEMP_PREFIX)):
                    if stat.S_ISREG(facts.st_mode) and facts.st_mtime < now - _TEMP_LIFETIME:
                        with contextlib.suppress(OSError):  # a leftover is no reason for an upload to fail
                            directory.clear(name)
                self._cleared = now
            directory.replace(filename, data)
            written = directory.look(filename)
        return {**_describe(filename, len(data), written and written.st_mtime), "etag": files.etag_of(data)}

    def vault_free_bytes(self) -> int | None:
        """The free bytes of the disk; None with a quota, which only a look at all files can compare."""
        if self._quota_bytes is not None:
            return None
        with self._opened():
            return self._free()

    def vault_list_prefix(self, prefix: str) -> dict[str, Any]:
        """Names, sizes in bytes and times of the last upload, sorted by name; and the current time as ``now``.

        The times of files are from the hosts that wrote them: if a clock was wrong, one may lie in the future.
        """
        with self._opened() as directory:
            return _list(directory, _scan(directory, prefix))

    def vault_look_up_files(self, filenames: Sequence[str]) -> dict[str, Any]:
        with self._opened() as directory:
            # In a large directory, a fraction of the work of listing all.
            places = ((name, *files.placeholders_of(name)) for name in filenames if files.is_plain_name(name))
            entries = (
                next(((name, facts) for name in names if (facts := directory.look(name)) is not None), None)
                for names in places
            )
            return _list(directory, _classify(filter(None, entries)))

    # --- on disk

    @contextlib.contextmanager
    def _opened(self, filename: str | None = None, *, needed: int | None = None) -> Iterator[Files]:
        """The directory, once it has proven to be a vault; errors name the file."""
        if filename is not None:
            files.refuse_odd_name(self.path, filename)
        with _errors_named(self.path / (filename or ""), needed=needed), contextlib.ExitStack() as opened:
            try:
                directory = opened.enter_context(open_files(self.path, keep_owner=True))
            except FileNotFoundError:
                raise files.no_vault(self.path, _WHY_MISSING) from None
            with _errors_named(self.path / MARKER):
                self.snapshot_format = self._marker(directory).require(
                    self.path, used=lambda: _holds_snapshots(directory), why_missing=_WHY_MISSING
                )
            yield directory

    def _marker(self, directory: Files) -> Mark:
        try:
            file = directory.read(MARKER, limit=files.MARKER_BYTES)
        except UnfitFile as error:
            return Mark(error.strerror)
        return files.read_marker(None if file is None else file.data, self.path)

    def _make(self, wanted: Literal[1, 2] | None) -> None:
        files.check_format(wanted)
        with _errors_named(self.path):
            if self.path.is_symlink() and not self.path.exists():
                # Its target is made by whoever made the link, or comes with its disk.
                raise VaultUnavailable(f"{self.path} is a link to nothing: no vault is made there")
            make_directory(self.path, keep_owner=True)
            with open_files(self.path, keep_owner=True) as directory, _errors_named(self.path / MARKER):
                marker = self._marker(directory)
                if not marker.is_fine(wanted):  # without the lock, which a read-only vault cannot give
                    with self._locked(directory):
                        marker = self._marker(directory)
                        if not marker.is_fine(wanted):
                            marker = marker.renewed(wanted, used=lambda: _holds_snapshots(directory))
                            directory.replace(MARKER, marker.data)
                self.snapshot_format = marker.snapshots

    def _locked(self, directory: Files) -> contextlib.AbstractContextManager[int]:
        """Keep out all other uploads and deletions, of this process and of others."""
        return locked_in(directory, _LOCK_FILE, patience=_LOCK_PATIENCE, brief=True)

    def _free(self) -> int:
        import shutil

        return shutil.disk_usage(self.path).free


_WHY_MISSING = "or the disk that it is on is not mounted"


class _Contents(Value):
    # Size in bytes and modification time of every file of the vault, by name; both None for one that is elsewhere.
    files: dict[str, tuple[int | None, float | None]]
    strays: dict[str, str]  # entries that have the name of a snapshot's file and are not one, with the reason

    @property
    def used(self) -> int:
        return sum(size or 0 for size, _ in self.files.values())


def _scan(directory: Files, prefix: str = "") -> _Contents:
    """Every file whose name starts with ``prefix``, and every placeholder of one."""

    def wanted(name: str) -> bool:
        return name.startswith(prefix) or (
            not files.is_ours(name) and (files.absent_file(name) or "").startswith(prefix)
        )

    return _classify(directory.entries(wanted))


def _classify(entries: Iterable[tuple[str, os.stat_result]]) -> _Contents:
    present: dict[str, tuple[int | None, float | None]] = {}
    elsewhere: dict[str, tuple[None, None]] = {}
    strays: dict[str, str] = {}
    for name, facts in entries:
        absent, kind = files.absent_file(name), name_kind(facts.st_mode)
        if absent is not None:
            if absent != MARKER:
                elsewhere[absent] = None, None
        elif kind is None and files.is_plain_name(name):
            present[name] = facts.st_size, facts.st_mtime
        elif files.is_ours(name):
            strays[name] = f"{kind}, not a plain file" if kind else "not a name that a file of a vault may have"
    return _Contents({**elsewhere, **present}, strays)


def _list(directory: Files, contents: _Contents) -> dict[str, Any]:
    """The listing; warns of strays, and of files that are elsewhere."""
    away = [name for name, (size, _) in contents.files.items() if size is None]
    messages = [f"{str(directory.path / name)!r}: {what}; it is passed over" for name, what in contents.strays.items()]
    if away:
        of = f"{len(away)} files, such as that of {min(away)}"
        messages.append(f"{directory.path}: a sync service has placeholders in place of {of}: have it download them")
    for message in messages:
        warnings.warn(message, ColonyMemoryWarning, stacklevel=2)
    items = [_describe(name, *facts) for name, facts in sorted(contents.files.items())]
    return {"items": items, "total": len(items), "has_more": False, "now": files.time_at(time.time())}


def _describe(filename: str, size: int | None, modified: float | None) -> dict[str, Any]:
    if size is None:
        return {"filename": filename}
    time_at = None if modified is None else files.time_at(modified)
    return {"filename": filename, "content_size": size, "updated_at": time_at}


def _holds_snapshots(directory: Files) -> bool:
    """True if there is a file of a snapshot, here or elsewhere."""
    return any(
        files.absent_file(name) or (files.is_ours(name) and not stat.S_ISDIR(facts.st_mode))
        for name, facts in directory.entries()
    )


def _absent(directory: Files, filename: str) -> VaultError:
    """The error for a file that is not there; it is elsewhere if a sync service has a placeholder of it."""
    for name in files.placeholders_of(filename):
        if directory.look(name) is not None:
            return VaultUnavailable(
                f"{directory.path / filename} is elsewhere: a sync service has only the placeholder {name!r} here; "
                "have it download the file, and try again",
                code=files.ELSEWHERE,
            )
    return files.no_such_file(directory.path, filename)


@contextlib.contextmanager
def _errors_named(place: Path, *, needed: int | None = None) -> Iterator[None]:
    """Turn errors of the operating system into this package's, naming the place."""
    try:
        yield
    except UnfitFile as exc:
        # Not "from exc": whoever catches this must not take it for a file that is missing.
        raise VaultUnavailable(f"{exc.filename}: {exc.strerror}", code=files.UNFIT_FILE) from None
    except OSError as exc:
        msg = f"{place}: {exc.strerror or type(exc).__name__}"
        if exc.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise QuotaExceeded(msg, needed=needed) from exc
        if exc.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
            raise VaultDenied(msg, status=403) from exc
        raise VaultUnavailable(msg) from exc
