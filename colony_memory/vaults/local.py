"""A vault in a local directory: one file on disk for each file of the vault.

An upload writes a temporary file beside its target, syncs it, renames it over the target and syncs the directory. So a
crash or a power cut leaves either the old text or the new one, and what was acknowledged stays. A lock of the operating
system keeps uploads and deletions in one directory apart, between threads and between processes; it goes with the
process that held it. Reads take no lock. All access goes through a descriptor of the directory, and follows no link in
it.
"""

from __future__ import annotations

import contextlib
import os
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colony_memory._os.files import make_directory, open_files
from colony_memory._os.locks import locked_in
from colony_memory._os.paths import UnfitFile, real_path
from colony_memory.exceptions import VaultError, VaultMissing, VaultUnavailable
from colony_memory.vaults._directory import (
    clear_leftovers,
    errors_named,
    holds_snapshots,
    is_something_else,
    look_at_marker,
    look_up,
    no_vault,
    refuse_placeholder,
    require_condition,
    require_vault,
    scan,
)
from colony_memory.vaults._files import (
    MARKER,
    MOST_BYTES,
    check_format,
    check_none_match,
    encode_text,
    etag_of,
    is_plain_name,
    marker_id,
    no_such_file,
    not_a_name,
    time_at,
    too_large,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Literal

    from colony_memory._os.files import Files
    from colony_memory.vaults._directory import Holdings

__all__ = ["LocalVault"]

_LOCK_FILE = ".lock"
_TEMP_LIFETIME = 3600.0
"""Seconds after which a temporary file can only be what a crash left."""
_LOCK_PATIENCE = 30.0
"""Seconds to wait for a lock that is held for milliseconds, unless its holder was stopped."""


class LocalVault:
    """A directory as a vault.

    A vault is made once, on purpose, with ``create=True``: the directory, for its owner alone (0700, files 0600), and
    a marker in it. A directory with neither the marker nor any file of a snapshot, such as the mount point of a disk
    that is not mounted, is no vault, and every call raises :class:`~colony_memory.VaultMissing`. A directory that has
    snapshots but no marker is an older vault, and works.

    Hidden files, subdirectories and anything else that is not a plain file are not part of the vault. If they bear the
    name of a snapshot's file, reads raise and listings warn. A file that a sync service has taken away, leaving a
    placeholder, is listed without a size, and reading it raises :class:`~colony_memory.VaultUnavailable`. What root
    writes belongs to the directory's owner.

    Text is stored as its UTF-8 bytes and nothing else. A file that is no longer UTF-8 counts as damaged, not as
    missing: its text comes back with U+FFFD for every broken byte, so that the reader sees wrong content, as it would
    after any other damage. The ``etag`` is the SHA-256 of the bytes on disk.

    Args:
        path: The directory.
        create: Make it a vault if it is none yet. Not for a program that runs again and again: while the disk is not
            mounted, it would start another vault beside it.
        quota_bytes: Most bytes that all files may take together; None for as many as the disk holds.
        max_file_bytes: Most bytes that one file may take; None for no limit.
        format: With ``create``: 1 or 2, the format in which clients write snapshots there unless told otherwise. By
            default that of the vault that is there; for a new one 2, or 1 if zstd is not installed.

    Attributes:
        path: The directory.
        snapshot_format: That format, as the marker last had it. Every call looks.

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
        self._marker = self.path / MARKER
        self._quota_bytes = quota_bytes
        self._max_file_bytes = max_file_bytes
        self.snapshot_format: Literal[1, 2] = 1
        self._cleared = 0.0
        if is_something_else(self.path):
            raise ValueError(f"{self.path} is not a directory")
        if create:
            self._make(format)
        elif format is not None:
            raise ValueError("a format is for a vault that is being made")

    def __repr__(self) -> str:
        return f"LocalVault({str(self.path)!r})"

    def exists(self) -> bool:
        """True if there is a vault, as far as can be seen: its disk may not be mounted.

        Raises:
            VaultError: Nobody can tell.
        """
        try:
            self.require()
        except VaultMissing:
            return False
        return True

    def require(self) -> None:
        """Go on only in a vault.

        Raises:
            VaultMissing: There is none.
            VaultError: Nobody can tell.
        """
        with self._opened():
            pass

    def identity(self) -> str:
        """What this vault is, wherever it is moved to: the id that its marker gives it; its real path without one.

        Raises:
            VaultMissing: There is none.
            VaultError: Nobody can tell.
        """
        known = None
        with self._opened() as directory, contextlib.suppress(UnfitFile):
            known = marker_id(look_at_marker(directory).data)
        return f"vault:{known}" if known else f"file:{real_path(self.path)}"

    # --- the five methods

    def vault_status(self) -> dict[str, int]:
        """Bytes and number of files.

        Without a quota, ``available_bytes`` is what the disk has free, and ``quota_bytes`` is that plus what is used.
        """
        with self._opened() as directory:
            held = scan(directory)
            if self._quota_bytes is None:
                import shutil

                available = shutil.disk_usage(self.path).free
                quota = held.used + available
            else:
                quota = self._quota_bytes
                available = max(0, quota - held.used)
        return {
            "quota_bytes": quota,
            "used_bytes": held.used,
            "available_bytes": available,
            "file_count": len(held.files),
        }

    def vault_list_files(self) -> dict[str, Any]:
        """Every file's name, size in bytes and time of its last upload, by name; and what time it is ``now``.

        Files bear the times of the hosts that wrote them, and one that was written while a clock was wrong may bear one
        that is to come.
        """
        return self.vault_list_prefix("")

    def vault_get_file(self, filename: str) -> dict[str, Any]:
        """One file with its ``content`` and ``etag``.

        Raises:
            VaultError: ``status`` 404: it is not there.
            VaultUnavailable: It cannot be read. With the ``code`` ``"UNFIT_FILE"``, what is there is too large or not
                a plain file; with ``"ELSEWHERE"``, a sync service keeps its place.
        """
        target = self._locate(filename)
        with self._opened(target) as directory:
            found = directory.read(filename, limit=MOST_BYTES)
            if found is None:
                refuse_placeholder(directory, filename)
        if found is None:
            raise no_such_file(self.path, filename)
        return {
            **_describe(filename, len(found.data), found.facts.st_mtime),
            "content": found.data.decode("utf-8", "replace"),
            "etag": etag_of(found.data),
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
        with self._opened(target) as directory, self._locked(directory):
            try:
                directory.remove(filename)
            except FileNotFoundError:
                refuse_placeholder(directory, filename)
                raise no_such_file(self.path, filename) from None
        return {}

    # --- what the hosted vault has besides

    def vault_upload_file_if(
        self, filename: str, content: str, *, if_match: str | None = None, if_none_match: str | None = None
    ) -> dict[str, Any]:
        """Like :meth:`vault_upload_file`, if the file still has the etag ``if_match``, or does not exist (``"*"``).

        No other upload or deletion through a :class:`LocalVault`, in any process, comes between the look and the write.

        Raises:
            ValueError: ``if_none_match`` is neither None nor ``"*"``.
            VaultError: ``status`` 412: the condition failed and nothing was written.
        """
        check_none_match(if_none_match)
        target = self._locate(filename)
        data = encode_text(filename, content)
        with self._opened(target, needed=len(data)) as directory, self._locked(directory):
            if directory.look(filename) is None:
                refuse_placeholder(directory, filename)
            if if_match is not None or if_none_match is not None:
                require_condition(directory, filename, if_match=if_match, absent=if_none_match is not None)
            self._require_room(directory, filename, len(data))
            if abs(time.time() - self._cleared) > _TEMP_LIFETIME:  # it looks at every name
                clear_leftovers(directory, older_than=_TEMP_LIFETIME)
                self._cleared = time.time()
            directory.replace(filename, data)
            facts = directory.look(filename)
        return {**_describe(filename, len(data), facts and facts.st_mtime), "etag": etag_of(data)}

    def vault_free_bytes(self) -> int | None:
        """What the disk has free; None with a quota, which only a look at all files can compare."""
        if self._quota_bytes is not None:
            return None
        with self._opened():
            import shutil

            return shutil.disk_usage(self.path).free

    def vault_list_prefix(self, prefix: str) -> dict[str, Any]:
        """Like :meth:`vault_list_files`, for names that start with the literal ``prefix``."""
        return self._list(partial(scan, prefix=prefix))

    def vault_look_up_files(self, filenames: Sequence[str]) -> dict[str, Any]:
        """Like :meth:`vault_list_files`, for those of these files that are there."""
        return self._list(partial(look_up, names=[name for name in filenames if is_plain_name(name)]))

    def _list(self, look: Callable[[Files], Holdings]) -> dict[str, Any]:
        with self._opened() as directory:
            held = look(directory)
            held.warn(directory)
        items = [_describe(name, *facts) for name, facts in sorted(held.files.items())]
        return {"items": items, "total": len(items), "has_more": False, "now": time_at(time.time())}

    # --- on disk

    def _locate(self, filename: str) -> Path:
        if not is_plain_name(filename):
            raise not_a_name(self.path, filename)
        return self.path / filename

    @contextlib.contextmanager
    def _opened(self, place: Path | None = None, *, needed: int | None = None) -> Iterator[Files]:
        """The directory, once it is known to be a vault; errors name ``place``."""
        with errors_named(place or self.path, needed=needed), contextlib.ExitStack() as opened:
            try:
                directory = opened.enter_context(open_files(self.path, keep_owner=True))
            except FileNotFoundError:
                raise no_vault(self.path) from None
            with errors_named(self._marker):
                self.snapshot_format = require_vault(directory)
            yield directory

    def _make(self, asked: Literal[1, 2] | None) -> None:
        check_format(asked)
        with errors_named(self.path):
            if self.path.is_symlink() and not self.path.exists():
                # Whoever made the link makes what it leads to, or its disk brings it.
                raise VaultUnavailable(f"{self.path} is a link to nothing: no vault is made there")
            make_directory(self.path, keep_owner=True)
            with open_files(self.path, keep_owner=True) as directory, errors_named(self._marker):
                marked = look_at_marker(directory)
                if marked.is_fine(asked):
                    self.snapshot_format = marked.snapshots
                    return  # without the lock, which a read-only vault cannot give
                with self._locked(directory):
                    marked = look_at_marker(directory)
                    if not marked.is_fine(asked):
                        name, used = os.urandom(16).hex(), partial(holds_snapshots, directory)
                        marked = marked.renewed(asked, name, used=used)
                        directory.replace(MARKER, marked.data)
                    self.snapshot_format = marked.snapshots

    def _locked(self, directory: Files) -> contextlib.AbstractContextManager[int]:
        """Keep out every other upload and delete, of this process and of others."""
        return locked_in(directory, _LOCK_FILE, patience=_LOCK_PATIENCE, brief=True)

    def _require_room(self, directory: Files, filename: str, size: int) -> None:
        most = min(MOST_BYTES, self._max_file_bytes or MOST_BYTES)
        if size > most:
            raise too_large(self.path, filename, size, most)
        if self._quota_bytes is not None:
            held = scan(directory)
            others = held.used - (held.files.get(filename, (0, None))[0] or 0)
            if others + size > self._quota_bytes:
                raise VaultError(
                    f"{filename} takes {size} bytes; {self.path} has {max(0, self._quota_bytes - others)} "
                    f"of {self._quota_bytes} left for it",
                    status=400,
                    code="QUOTA_EXCEEDED",
                )


def _describe(filename: str, size: int | None, modified: float | None) -> dict[str, Any]:
    if size is None:
        return {"filename": filename}
    return {
        "filename": filename,
        "content_size": size,
        "updated_at": None if modified is None else time_at(modified),
    }
