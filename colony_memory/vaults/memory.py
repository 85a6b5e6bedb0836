"""A vault in memory, which ends with the process, and an export as a read-only vault."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from operator import is_, itemgetter
from typing import TYPE_CHECKING, Any

from colony_memory._format import LATEST_FORMAT
from colony_memory._format.names import latest_filename, manifest_filename
from colony_memory._ownfiles import read_own, save_own
from colony_memory.exceptions import ColonyMemoryError, SnapshotCorrupt, VaultDenied, VaultError
from colony_memory.export import Export, read_export, write_export
from colony_memory.vaults._files import check_none_match, describe_room, etag_of, time_at

if TYPE_CHECKING:
    import os

__all__ = [
    "MAX_EXPORT_BYTES",
    "UNLIMITED_BYTES",
    "ExportVault",
    "MemoryVault",
    "load_export",
    "parse_export",
    "save_export",
]


#: The quota that a vault without one reports: 1 PiB, so that every sum with it still fits any integer.
UNLIMITED_BYTES = 2**50
#: Most bytes of an export file that are read.
MAX_EXPORT_BYTES = 512 * 2**20


# A file's entry is the reply to a get; a listing has these values of it.
_FACTS = ("filename", "content_size", "created_at", "updated_at")
_CONTENT, _SIZE = itemgetter("content"), itemgetter("content_size")


class MemoryVault:
    """A thread-safe vault that keeps its files in a dict.

    Args:
        quota_bytes: Bytes that all files together may take, in UTF-8. None: no limit, and
            :data:`UNLIMITED_BYTES` is reported.
        max_file_bytes: Bytes that one file may take, in UTF-8. None: no limit.
        clock: Source of ``created_at`` and ``updated_at``, in seconds since the epoch.

    Attributes:
        files: Name to text. It may be read and changed directly, for instance to damage a file, as may every argument
            above: sizes, etags and ``updated_at`` follow on the next call that looks.
    """

    def __init__(
        self,
        *,
        quota_bytes: int | None = None,
        max_file_bytes: int | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.files: dict[str, str] = {}
        self.quota_bytes = quota_bytes
        self.max_file_bytes = max_file_bytes
        self.clock = clock
        self._known: dict[str, dict[str, Any]] = {}
        self._lock = threading.RLock()

    def vault_status(self) -> dict[str, Any]:
        with self._lock:
            self._enter("status", "")
            return self._status()

    def vault_list_files(self) -> dict[str, Any]:
        with self._lock:
            self._enter("list", "")
            return self._listing("")

    def vault_list_prefix(self, prefix: str) -> dict[str, Any]:
        with self._lock:
            self._enter("list", prefix)
            return self._listing(prefix)

    def vault_get_file(self, filename: str) -> dict[str, Any]:
        with self._lock:
            self._enter("get", filename)
            return dict(self._find(filename))

    def vault_upload_file(self, filename: str, content: str) -> dict[str, Any]:
        with self._lock:
            self._enter("upload", filename)
            return self._upload(filename, content)

    def vault_upload_file_if(
        self, filename: str, content: str, *, if_match: str | None = None, if_none_match: str | None = None
    ) -> dict[str, Any]:
        check_none_match(if_none_match)
        with self._lock:
            self._enter("upload", filename)
            return self._upload(filename, content, if_match=if_match, absent=if_none_match == "*")

    def vault_delete_file(self, filename: str) -> dict[str, Any]:
        with self._lock:
            self._enter("delete", filename)
            self._admit_delete(filename)
            self._find(filename)
            del self.files[filename], self._known[filename]
            return {}

    # For subclasses to override; called with the lock held.

    def _enter(self, verb: str, filename: str) -> None:
        """Called at the start of every call."""

    def _refusal(self, status: int, code: str | None, message: str) -> Exception:
        """The exception for a refusal."""
        return VaultError(message, status=status, code=code)

    def _encode(self, filename: str, content: str) -> bytes:
        """The text in UTF-8, whose bytes count; or a refusal if it is not valid Unicode."""
        try:
            return content.encode("utf-8")
        except UnicodeEncodeError as error:
            raise self._refusal(422, None, f"{filename}: the content is not valid Unicode text") from error

    def _admit_upload(self, filename: str, size: int) -> None:
        """Refuse a file that does not fit."""
        limit, quota = self.max_file_bytes, self.quota_bytes
        if limit is not None and size > limit:
            raise self._refusal(400, "QUOTA_EXCEEDED", f"{filename}: {size} bytes, a file may have {limit}")
        if quota is not None:
            replaced = self._entry(filename)
            free = quota - self._used_bytes() + (0 if replaced is None else replaced["content_size"])
            if size > free:
                raise self._refusal(400, "QUOTA_EXCEEDED", f"{filename}: {size} bytes, {max(0, free)} are free")

    def _admit_delete(self, filename: str) -> None:
        """Refuse to delete. This vault never does."""

    def _status(self) -> dict[str, Any]:
        quota = UNLIMITED_BYTES if self.quota_bytes is None else self.quota_bytes
        return describe_room(quota, self._used_bytes(), len(self.files))

    def _upload(
        self, filename: str, content: str, *, if_match: str | None = None, absent: bool = False
    ) -> dict[str, Any]:
        data = self._encode(filename, content)
        self._admit_upload(filename, len(data))
        old = self._entry(filename)
        if absent and old is not None:
            raise self._refusal(412, "PRECONDITION_FAILED", f"{filename} exists")
        if if_match is not None and (old is None or old["etag"] != if_match):
            raise self._refusal(412, "PRECONDITION_FAILED", f"{filename} is not the file that was read")
        self.files[filename] = content
        return _describe(self._note(filename, content, data))

    # Shared with subclasses.

    def _used_bytes(self) -> int:
        # Text that was changed from outside is another object, or in another place: a quick test, for every call.
        known = self._known.values()
        if len(known) != len(self.files) or not all(map(is_, map(_CONTENT, known), self.files.values())):
            self._known = {name: self._find(name) for name in self.files}
        return sum(map(_SIZE, self._known.values()))

    def _listing(self, prefix: str) -> dict[str, Any]:
        names = sorted(name for name in self.files if name.startswith(prefix))
        items = [_describe(self._find(name)) for name in names]
        return {"items": items, "total": len(items), "has_more": False}

    def _find(self, filename: str) -> dict[str, Any]:
        entry = self._entry(filename)
        if entry is None:
            raise self._refusal(404, "NOT_FOUND", f"no such file: {filename}")
        return entry

    def _entry(self, filename: str) -> dict[str, Any] | None:
        content = self.files.get(filename)
        known = self._known.get(filename)
        if content is None:
            self._known.pop(filename, None)
            return None
        if known is not None and known["content"] is content:
            return known
        # Put into the dict from outside, where even text that UTF-8 cannot encode gets in.
        return self._note(filename, content, content.encode("utf-8", "surrogatepass"))

    def _note(self, filename: str, content: str, data: bytes) -> dict[str, Any]:
        known, now = self._known.get(filename), time_at(self.clock())
        entry = self._known[filename] = {
            "filename": filename,
            "content_size": len(data),
            "created_at": now if known is None else known["created_at"],
            "updated_at": now,
            "content": content,
            "etag": etag_of(data),
        }
        return entry


def _describe(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: entry[name] for name in _FACTS}


class ExportVault(MemoryVault):
    """The one snapshot of an export, ``snapshot_id`` of ``label``, as untrusted as the content of any vault.

    Its pointer is made here and signed by nobody, so a client that pins issuers asks for the snapshot by its id:
    ``mem.restore(label=vault.label, snapshot_id=vault.snapshot_id)``.
    """

    def __init__(self, exported: Export) -> None:
        super().__init__()
        self.label, self.snapshot_id = exported.label, exported.snapshot_id
        self.unlimited = True  # it takes nothing, so no room in it is told
        pointer = {
            "format": LATEST_FORMAT,
            "label": self.label,
            "snapshot_id": self.snapshot_id,
            "manifest_file": manifest_filename(self.label, self.snapshot_id),
            "updated_at": "",
        }
        self.files = {**exported.files, latest_filename(self.label): json.dumps(pointer)}

    def _admit_upload(self, filename: str, size: int) -> None:  # noqa: ARG002 - whatever its size
        self._admit_delete(filename)

    def _admit_delete(self, filename: str) -> None:
        msg = f"{filename}: an export can only be read; import it into a vault first"
        raise VaultDenied(msg, status=403, code="READ_ONLY")


def save_export(exported: Export, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write an export file, for its owner alone (0600), whole or not at all; on disk when this returns."""
    data = write_export(exported.label, exported.snapshot_id, exported.files).encode("ascii")
    save_own(path, data, "an export file", overwrite=overwrite)


def load_export(path: str | os.PathLike[str]) -> Export:
    """Read an export file, which anyone may have made. Its content is checked when it is restored or imported.

    Raises:
        SnapshotCorrupt: It is no export, is cut short, or holds files that are not of its snapshot.
        UnsupportedFormat: A newer version wrote it.
        ColonyMemoryError: It cannot be read, or is larger than :data:`MAX_EXPORT_BYTES`.
    """
    name, data = read_own(path, "an export file", MAX_EXPORT_BYTES)
    return parse_export(data, name=name)


def parse_export(data: bytes, *, name: str = "the export") -> Export:
    """The export in the bytes of a file, which is called ``name`` in errors. See :func:`load_export`."""
    if len(data) > MAX_EXPORT_BYTES:
        raise ColonyMemoryError(f"{name} is larger than {MAX_EXPORT_BYTES} bytes: it is not an exported snapshot")
    try:
        return read_export(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise SnapshotCorrupt(f"{name}: not an exported snapshot: it is not UTF-8") from error
    except SnapshotCorrupt as error:
        raise type(error)(f"{name}: {error.message}", file=error.file, hint=error.hint) from error
