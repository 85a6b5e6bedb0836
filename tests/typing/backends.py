"""What a type checker takes for a vault and for a signer. Checked by mypy, never called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colony_memory import (
    AsyncColonyMemory,
    AsyncVaultBackend,
    ColonyMemory,
    Ed25519Signer,
    Signer,
    VaultBackend,
    open_vault,
)
from colony_memory.vaults import (
    ConditionalUpload,
    FileLookup,
    FreeSpace,
    OperationBudget,
    OperationReset,
    PrefixListing,
)

if TYPE_CHECKING:
    from colony_sdk import AsyncColonyClient, ColonyClient
    from typing_extensions import assert_type  # noqa: TC004 - never called

    from colony_memory.client import VaultBackend as ClientVaultBackend


class DictVault:
    """Five methods, as anyone would write them."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}

    def vault_status(self) -> dict[str, int]:
        return {"quota_bytes": 0}

    def vault_list_files(self) -> list[str]:
        return sorted(self.files)

    def vault_get_file(self, filename: str) -> dict[str, str]:
        return {"content": self.files[filename]}

    def vault_upload_file(self, filename: str, content: str) -> dict[str, object]:
        self.files[filename] = content
        return {"content_size": len(content)}

    def vault_delete_file(self, filename: str) -> None:
        del self.files[filename]


class AsyncDictVault:
    """The same as coroutines."""

    async def vault_status(self) -> dict[str, int]:
        return {}

    async def vault_list_files(self) -> list[str]:
        return []

    async def vault_get_file(self, filename: str) -> dict[str, str]:
        return {"content": filename}

    async def vault_upload_file(self, filename: str, content: str) -> dict[str, object]:
        return {"filename": filename, "content_size": len(content)}

    async def vault_delete_file(self, filename: str) -> None:
        return None


class ReadOnly:
    """Not enough of them."""

    def vault_get_file(self, filename: str) -> dict[str, str]:
        return {"content": filename}


class Hardware:
    """A key that never leaves its hardware."""

    did_key = "did:key:z6MkehRgf7yJbgaGfYsdoAsKdBPE3dj2CYhowQdcjqSJgvVd"

    def sign(self, message: bytes) -> bytes:
        return message[:64]


class Mute:
    """Signs for nobody."""

    def sign(self, message: bytes) -> bytes:
        return message[:64]


def vaults() -> None:
    ColonyMemory(backend=DictVault())
    ColonyMemory(backend=open_vault("memory:"))
    ColonyMemory("col_key", base_url="https://example.org")
    AsyncColonyMemory(backend=AsyncDictVault())
    AsyncColonyMemory(backend=DictVault())
    ColonyMemory(backend=ReadOnly())  # type: ignore[arg-type]
    AsyncColonyMemory(backend=ReadOnly())  # type: ignore[arg-type]
    one: VaultBackend = DictVault()
    same: ClientVaultBackend = one
    other: AsyncVaultBackend = AsyncDictVault()
    not_one: AsyncVaultBackend = ReadOnly()  # type: ignore[assignment]
    not_async: AsyncVaultBackend = DictVault()  # type: ignore[assignment]
    assert_type(open_vault("memory:"), VaultBackend)
    print(one, same, other, not_one, not_async)


def clients(client: ColonyClient, async_client: AsyncColonyClient) -> None:
    ColonyMemory(backend=client)
    AsyncColonyMemory(backend=async_client)


def capabilities(backend: VaultBackend) -> None:
    if isinstance(backend, ConditionalUpload):
        backend.vault_upload_file_if("x", "y", if_match="z")
    if isinstance(backend, PrefixListing):
        backend.vault_list_prefix("x")
    if isinstance(backend, FileLookup):
        backend.vault_look_up_files(["x", "y"])
    if isinstance(backend, OperationBudget):
        assert_type(backend.vault_operations_left(), int | None)
    if isinstance(backend, OperationReset):
        assert_type(backend.vault_operations_reset(), int | None)
    if isinstance(backend, FreeSpace):
        assert_type(backend.vault_free_bytes(), int | None)


def signers() -> None:
    ColonyMemory(backend=DictVault(), signer=Hardware())
    ColonyMemory(backend=DictVault(), signer=Ed25519Signer(bytes(32)))
    ColonyMemory(backend=DictVault(), signer=Mute())  # type: ignore[arg-type]
    signer: Signer = Ed25519Signer(bytes(32))
    assert_type(signer.did_key, str)
    assert_type(signer.sign(b""), bytes)
    mem = ColonyMemory(backend=DictVault())
    mem.signer = Hardware()
    mem.signer = None
    assert_type(mem.signer, None)
