"""The facade: :class:`ColonyMemory` and :class:`AsyncColonyMemory`, the same verbs for both worlds.

The files ``_saving``, ``_reading``, ``_keeping`` and ``_carrying`` have the verbs of one concern each, for both. There
is no logic in them: a verb passes its arguments on to the engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from colony_memory._arguments import is_coroutine
from colony_memory._format.constants import MAX_BYTES
from colony_memory.client._carrying import AsyncCarrying, Carrying
from colony_memory.client._face import require_key, require_vault
from colony_memory.client._keeping import AsyncKeeping, Keeping
from colony_memory.client._reading import AsyncReading, Reading
from colony_memory.client._saving import AsyncSaving, Saving
from colony_memory.vaults import AsyncVaultBackend, VaultBackend

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping

    from colony_memory.encryption import Passphrase
    from colony_memory.reports import Event, LifecycleEvent
    from colony_memory.signing import Signer
    from colony_memory.witness import Witness

__all__ = ["AsyncColonyMemory", "AsyncVaultBackend", "ColonyMemory", "VaultBackend"]

_Identity: TypeAlias = "str | os.PathLike[str] | Passphrase"


class ColonyMemory(Saving, Reading, Keeping, Carrying):
    """An agent's memory as snapshots in a vault.

    >>> from colony_memory import ColonyMemory, open_vault
    >>> mem = ColonyMemory(backend=open_vault("memory:"))
    >>> info = mem.backup({"MEMORY.md": "two years of notes"})
    >>> mem.restore()
    {'MEMORY.md': 'two years of notes'}

    Works inside a running event loop too; :class:`AsyncColonyMemory` has the same verbs as coroutines. May be used
    from several threads, as far as the backend may.

    Every verb raises :class:`ColonyMemoryError` or a leaf of it for whatever goes wrong with the vault or what is in
    it, and :class:`ValueError` for a bad argument. Labels name independent series of snapshots: ``a-z``, ``0-9``,
    ``_`` and ``-``; case and outer blanks are folded, anything else is refused.

    Args:
        api_key: Key of the hosted vault, by default from ``COLONY_API_KEY``.
        base_url: Address of the hosted vault, by default from ``COLONY_BASE_URL``, else the SDK's.
        backend: Another vault: anything with the five methods of :class:`VaultBackend`.
        signer: Signs every snapshot that this client writes, and the pointer, such as :class:`Ed25519Signer`. With it
            the client accepts what this key signed, and nothing else.
        trusted_issuers: did:key of each signer to accept, in place of the own one; for keys that were replaced a
            mapping of each to the id of the last snapshot that it is trusted for, None for all.
        require_signature: Whether to refuse what nobody signed; by default where a signer or an issuer is given.
        accept_legacy_pointer: Accept pointers without a signature for good, where 0.1.1 writes to the same label.
        witness: Keeps outside of the vault how far each label has come, such as :class:`FileWitness`, so that a vault
            that was set back to an older state is noticed.
        format: 1 or 2, what to write, by default what the vault is for: 2 in a new directory or object store, 1 in the
            hosted vault and every other. 2 keeps every state in little room, needs the extra ``zstd`` and a vault that
            writes on condition, and is not read by 0.1.1. Both are read, whatever is written.
        encrypt_to: Whom to encrypt to: ``age1…`` recipients, SSH public keys, a :class:`Passphrase`, or several of
            these. Whoever holds one of their private keys, or the passphrase, reads it. Takes format 2.
        identities: What opens encrypted snapshots: ``AGE-SECRET-KEY-1…``, SSH private keys, key files that hold these,
            a :class:`Passphrase`, or several of these. Without one a client that encrypts stores each snapshot whole,
            since it cannot read the one before.
        max_bytes: Bytes of plain text that a snapshot may hold, written or read.
        on_event: Called with an :class:`Event` for every file that is written, read or deleted, and with a
            :class:`LifecycleEvent` when a verb has ended. What it raises is logged and changes nothing.
    """

    def __init__(
        self,
        api_key: str | None = None,
        *,
        base_url: str | None = None,
        backend: VaultBackend | None = None,
        signer: Signer | None = None,
        trusted_issuers: str | Iterable[str] | Mapping[str, str | None] | None = None,
        require_signature: bool | None = None,
        accept_legacy_pointer: bool = False,
        witness: Witness | None = None,
        format: Literal[1, 2] | None = None,  # noqa: A002 - the word for it
        encrypt_to: str | Passphrase | Iterable[str | Passphrase] | None = None,
        identities: _Identity | Iterable[_Identity] | None = None,
        max_bytes: int = MAX_BYTES,
        on_event: Callable[[Event | LifecycleEvent], None] | None = None,
    ) -> None:
        if backend is None:
            from colony_memory.vaults.colony import ColonyVault

            backend = ColonyVault(require_key(api_key), base_url=base_url)
        require_vault(backend)
        if is_coroutine(getattr(backend, "vault_get_file", None)):
            raise ValueError("this backend is asynchronous: use AsyncColonyMemory")
        from colony_memory._engine.faces import SyncVault

        self._begin(
            SyncVault(backend),
            signer=signer,
            trusted_issuers=trusted_issuers,
            require_signature=require_signature,
            accept_legacy_pointer=accept_legacy_pointer,
            witness=witness,
            max_bytes=max_bytes,
            format=format,
            encrypt_to=encrypt_to,
            identities=identities,
            on_event=on_event,
        )


class AsyncColonyMemory(AsyncSaving, AsyncReading, AsyncKeeping, AsyncCarrying):
    """:class:`ColonyMemory` as coroutines, over ``colony_sdk.AsyncColonyClient`` or any asynchronous vault.

    A plain vault works too: its calls then run in threads. A cancelled verb leaves what a crash at that place leaves; a
    call in a thread that changes the vault is waited for first.
    Belongs to one event loop; ``async with`` closes the connection that it opened itself. Arguments and errors are
    those of :class:`ColonyMemory`. The hosted vault needs the extra ``async``.
    """

    def __init__(
        self,
        api_key: str | None = None,
        *,
        base_url: str | None = None,
        backend: AsyncVaultBackend | VaultBackend | None = None,
        signer: Signer | None = None,
        trusted_issuers: str | Iterable[str] | Mapping[str, str | None] | None = None,
        require_signature: bool | None = None,
        accept_legacy_pointer: bool = False,
        witness: Witness | None = None,
        format: Literal[1, 2] | None = None,  # noqa: A002 - the word for it
        encrypt_to: str | Passphrase | Iterable[str | Passphrase] | None = None,
        identities: _Identity | Iterable[_Identity] | None = None,
        max_bytes: int = MAX_BYTES,
        on_event: Callable[[Event | LifecycleEvent], None] | None = None,
    ) -> None:
        self._own: Any = None
        if backend is None:
            from colony_memory.vaults.colony import AsyncColonyVault

            backend = self._own = AsyncColonyVault(require_key(api_key), base_url=base_url)
        require_vault(backend)
        from colony_memory._engine.faces import AsyncVault

        self._begin(
            AsyncVault(backend),
            signer=signer,
            trusted_issuers=trusted_issuers,
            require_signature=require_signature,
            accept_legacy_pointer=accept_legacy_pointer,
            witness=witness,
            max_bytes=max_bytes,
            format=format,
            encrypt_to=encrypt_to,
            identities=identities,
            on_event=on_event,
        )

    async def aclose(self) -> None:
        """Close the connection, where this client opened it."""
        if self._own is not None:
            await self._own.aclose()

    async def __aenter__(self) -> AsyncColonyMemory:  # noqa: PYI034 - typing.Self is of 3.11
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()
