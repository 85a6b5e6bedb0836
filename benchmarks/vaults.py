"""Vaults to measure over. They stand on nothing but the standard library, since both releases use them."""

from __future__ import annotations

import threading
import time
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

READS = ("vault_status", "vault_list_files", "vault_list_prefix", "vault_get_file")


class Missing(Exception):
    """There is no such file, told as the SDK's exception tells it."""

    status, code = 404, "NOT_FOUND"


class MeteredVault:
    """The five methods over a dict; counts calls, and takes ``delay`` seconds for each.

    Attributes:
        files: Name to text.
        delay: Seconds that a call takes.
        quota: Bytes that it says it takes.
        calls: Methods that were called, in order.
        most_at_once: Calls that were under way at the same time, at most.
    """

    def __init__(self, files: dict[str, str] | None = None, *, delay: float = 0, quota: int = 10_000_000) -> None:
        self.files = {} if files is None else files
        self.delay, self.quota = delay, quota
        self.calls: list[str] = []
        self.most_at_once = 0
        self._at_once = 0
        self._times: dict[str, str] = {}
        self._lock = threading.Lock()

    def _enter(self, method: str) -> None:
        with self._lock:
            self.calls.append(method)
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        if self.delay:
            time.sleep(self.delay)
        with self._lock:
            self._at_once -= 1

    def _describe(self, filename: str) -> dict[str, Any]:
        when = self._times.get(filename, "2026-01-01T00:00:00Z")
        return {"filename": filename, "content_size": len(self.files[filename]), "updated_at": when}

    def vault_status(self) -> dict[str, Any]:
        """As the hosted vault has it: zeros before the first write."""
        self._enter("vault_status")
        used, quota = sum(map(len, self.files.values())), self.quota if self.files else 0
        return {
            "quota_bytes": quota,
            "used_bytes": used,
            "available_bytes": max(0, quota - used),
            "file_count": len(self.files),
        }

    def vault_list_files(self) -> dict[str, Any]:
        """All files without content."""
        self._enter("vault_list_files")
        items = [self._describe(name) for name in sorted(self.files)]
        return {"items": items, "total": len(items), "has_more": False}

    def vault_get_file(self, filename: str) -> dict[str, Any]:
        """One file."""
        self._enter("vault_get_file")
        if filename not in self.files:
            raise Missing(filename)
        return {**self._describe(filename), "content": self.files[filename]}

    def vault_upload_file(self, filename: str, content: str) -> dict[str, Any]:
        """Write one file."""
        self._enter("vault_upload_file")
        self.files[filename] = content
        self._times[filename] = datetime.now(timezone.utc).isoformat()
        return self._describe(filename)

    def vault_delete_file(self, filename: str) -> dict[str, Any]:
        """Remove one file."""
        self._enter("vault_delete_file")
        if filename not in self.files:
            raise Missing(filename)
        del self.files[filename]
        return {}


class FolderVault:
    """The five methods over a folder: nothing that was written stays in memory, and a read gives a new text."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def vault_status(self) -> dict[str, Any]:
        """No quota."""
        return {"quota_bytes": 0, "used_bytes": 0, "available_bytes": 0, "file_count": 0}

    def vault_list_files(self) -> dict[str, Any]:
        """All files without content."""
        items = [{"filename": p.name, "content_size": p.stat().st_size} for p in sorted(self.folder.iterdir())]
        return {"items": items, "total": len(items), "has_more": False}

    def vault_get_file(self, filename: str) -> dict[str, Any]:
        """One file."""
        path = self.folder / filename
        if not path.exists():
            raise Missing(filename)
        return {"filename": filename, "content": path.read_text(encoding="utf-8")}

    def vault_upload_file(self, filename: str, content: str) -> dict[str, Any]:
        """Write one file."""
        (self.folder / filename).write_text(content, encoding="utf-8")
        return {"filename": filename, "content_size": len(content)}

    def vault_delete_file(self, filename: str) -> dict[str, Any]:
        """Remove one file."""
        (self.folder / filename).unlink()
        return {}


def full_vault() -> Any:
    """A vault with what the hosted one has, conditional upload and prefix listing, metered as the other is."""
    from colony_memory.vaults.memory import MemoryVault  # this package's alone

    class Metered(MemoryVault):
        def __init__(self) -> None:
            super().__init__()
            self.delay, self.calls = 0.0, list[str]()

        def __getattribute__(self, name: str) -> Any:
            found = super().__getattribute__(name)
            if not name.startswith("vault_"):
                return found

            def called(*args: Any, **kwargs: Any) -> Any:
                self.calls.append(name)
                if self.delay:
                    time.sleep(self.delay)
                return found(*args, **kwargs)

            return called

    return Metered()


def count(calls: list[str]) -> dict[str, int]:
    """Reads, and writes, which the hosted vault limits: uploads and deletes."""
    reads = sum(call in READS for call in calls)
    return {"reads": reads, "writes": len(calls) - reads}
