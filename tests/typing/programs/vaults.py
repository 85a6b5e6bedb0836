"""Vaults of one's own, sync and async, with and without what is optional; and the suite that tests them."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TypedDict

from colony_memory import AsyncColonyMemory, AsyncVaultBackend, ColonyMemory, VaultBackend, VaultError
from colony_memory.testing import VaultBackendTests
from colony_memory.vaults import ConditionalUpload, PrefixListing


class Quota(TypedDict):
    quota_bytes: int
    used_bytes: int
    available_bytes: int
    file_count: int


class Entry(TypedDict):
    filename: str
    content_size: int


class File(Entry):
    content: str
    etag: str


class Listing(TypedDict):
    items: list[Entry]
    total: int


class Missing(Exception):
    status = 404
    code = "NOT_FOUND"


class DictVault:
    """Keeps files in a dictionary, and says precisely what it returns."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}

    def vault_status(self) -> Quota:
        used = sum(len(text.encode()) for text in self.files.values())
        return {
            "quota_bytes": 10**7,
            "used_bytes": used,
            "available_bytes": 10**7 - used,
            "file_count": len(self.files),
        }

    def vault_list_files(self) -> Listing:
        return self.vault_list_prefix("")

    def vault_get_file(self, filename: str) -> File:
        if filename not in self.files:
            raise Missing(filename)
        content = self.files[filename]
        return {**self._entry(filename), "content": content, "etag": self._etag(filename) or ""}

    def vault_upload_file(self, filename: str, content: str) -> Entry:
        self.files[filename] = content
        return self._entry(filename)

    def vault_delete_file(self, filename: str) -> None:
        if self.files.pop(filename, None) is None:
            raise Missing(filename)

    def vault_upload_file_if(
        self, filename: str, content: str, *, if_match: str | None = None, if_none_match: str | None = None
    ) -> Entry:
        etag = self._etag(filename)
        if (if_match is not None and etag != if_match) or (if_none_match is not None and etag is not None):
            raise VaultError(f"{filename} has changed", status=412, code="PRECONDITION_FAILED")
        return self.vault_upload_file(filename, content)

    def vault_list_prefix(self, prefix: str) -> Listing:
        items = [self._entry(name) for name in sorted(self.files) if name.startswith(prefix)]
        return {"items": items, "total": len(items)}

    def _entry(self, filename: str) -> Entry:
        return {"filename": filename, "content_size": len(self.files[filename].encode())}

    def _etag(self, filename: str) -> str | None:
        content = self.files.get(filename)
        return None if content is None else hashlib.sha256(content.encode()).hexdigest()


class LaterVault:
    """The same as coroutines."""

    def __init__(self) -> None:
        self._vault = DictVault()

    async def vault_status(self) -> Quota:
        await asyncio.sleep(0)
        return self._vault.vault_status()

    async def vault_list_files(self) -> Listing:
        return self._vault.vault_list_files()

    async def vault_get_file(self, filename: str) -> File:
        return self._vault.vault_get_file(filename)

    async def vault_upload_file(self, filename: str, content: str) -> Entry:
        return self._vault.vault_upload_file(filename, content)

    async def vault_delete_file(self, filename: str) -> None:
        self._vault.vault_delete_file(filename)


class TestDictVault(VaultBackendTests):
    """With pytest, a fixture ``vault`` gives each test a new one."""


def what_it_can(backend: VaultBackend) -> list[str]:
    can: list[str] = []
    if isinstance(backend, ConditionalUpload):
        can.append("conditional uploads")
    if isinstance(backend, PrefixListing):
        can.append("prefix listings")
    return can


async def use(backend: AsyncVaultBackend) -> dict[str, str]:
    async with AsyncColonyMemory(backend=backend) as memory:
        await memory.backup({"MEMORY.md": "later"})
        both = await asyncio.gather(memory.restore(), memory.restore(default=None))
        assert both[0] == both[1]
        return dict(both[0])


def main() -> None:
    backend: VaultBackend = DictVault()
    memory = ColonyMemory(backend=backend)
    memory.backup({"MEMORY.md": "mine"})
    assert memory.restore() == {"MEMORY.md": "mine"}
    TestDictVault().test_text_comes_back_exactly(DictVault())
    TestDictVault().test_conditional_upload_has_one_winner(DictVault())
    assert what_it_can(backend) == ["conditional uploads", "prefix listings"]
    assert asyncio.run(use(LaterVault())) == {"MEMORY.md": "later"}


if __name__ == "__main__":
    main()
