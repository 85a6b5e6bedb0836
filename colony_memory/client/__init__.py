"""The facade: :class:`ColonyMemory` and :class:`AsyncColonyMemory`, the same verbs for both worlds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from colony_memory._boundary import is_coroutine
from colony_memory._format import MAX_BYTES
from colony_memory.client._face import Awaiting, awaited, require_key, require_vault
from colony_memory.client._verbs import Verbs
from colony_memory.vaults import AsyncVaultBackend, VaultBackend

if TYPE_CHECKING:
    import os
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from colony_memory._engine.transfer import CopyReport
    from colony_memory.encryption import Passphrase
    from colony_memory.reports import Event, LifecycleEvent
    from colony_memory.schedule.autobackup import AsyncAutobackup
    from colony_memory.signing import Signer
    from colony_memory.witness import Witness

__all__ = ["AsyncColonyMemory", "AsyncVaultBackend", "ColonyMemory", "VaultBackend"]

_Identity: TypeAlias = "str | os.PathLike[str] | Passphrase"


class ColonyMemory(Verbs):
    """An agent's memory as snapshots in a vault.

    >>> from colony_memory import ColonyMemory, open_vault
    >>> mem = ColonyMemory(backend=open_vault("memory:"))
    >>> info = mem.backup({"MEMORY.md": "two years of notes"})
    >>> mem.restore()
    {'MEMORY.md': 'two years of notes'}

    Works inside a running event loop too; :class:`AsyncColonyMemory` has the same verbs as coroutines. May be used
    from several threads, as far as the backend may.

    Every verb raises a :class:`ColonyMemoryError` for whatever goes wrong with the vault or what is in it, and a
    :class:`ValueError` for a bad argument. Labels name independent series of snapshots: ``a-z``, ``0-9``, ``_`` and
    ``-``; case and outer blanks are folded, anything else is refused.

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
        format: 1 or 2, what to write, by default what the vault is for: 2 in a new directory or object store, else 1.
            2 keeps every state in little room, needs the extra ``zstd`` and a vault that writes on condition, and is
            not read by 0.1.1. Both are read, whatever is written.
        encrypt_to: Whom to encrypt to: ``age1…`` recipients, SSH public keys, a :class:`Passphrase`, or several of
            these. Takes format 2.
        identities: What opens encrypted snapshots: ``AGE-SECRET-KEY-1…``, SSH private keys, key files that hold these,
            a :class:`Passphrase`, or several. Without one a client that encrypts stores each snapshot whole.
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


class AsyncColonyMemory(Awaiting):
    """:class:`ColonyMemory` as coroutines, over ``colony_sdk.AsyncColonyClient`` or any asynchronous vault.

    A plain vault works too: its calls then run in threads. A cancelled verb leaves what a crash at that place leaves.
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

    backup = awaited(Verbs.backup)
    restore = awaited(Verbs.restore)
    merge = awaited(Verbs.merge)
    salvage = awaited(Verbs.salvage)
    list_snapshots = awaited(Verbs.list_snapshots)
    latest = awaited(Verbs.latest)
    verify = awaited(Verbs.verify)
    diff = awaited(Verbs.diff)
    history = awaited(Verbs.history)
    search = awaited(Verbs.search)
    inspect = awaited(Verbs.inspect)
    status = awaited(Verbs.status)
    prune = awaited(Verbs.prune)
    plan_prune = awaited(Verbs.plan_prune)
    delete_snapshot = awaited(Verbs.delete_snapshot)
    pin = awaited(Verbs.pin)
    unpin = awaited(Verbs.unpin)
    tag = awaited(Verbs.tag)
    rewrite = awaited(Verbs.rewrite)
    export_snapshot = awaited(Verbs.export_snapshot)
    import_snapshot = awaited(Verbs.import_snapshot)

    async def copy_to(
        self,
        destination: AsyncColonyMemory,
        *,
        labels: str | Iterable[str] | None = None,
        progress: Callable[[int, int], object] | None = None,
        dry_run: bool = False,
    ) -> CopyReport:
        """See :meth:`ColonyMemory.copy_to`."""
        from colony_memory._engine.transfer import copy

        return await self._run(
            copy, self._session_of("destination", destination), labels=labels, progress=progress, dry_run=dry_run
        )

    def autobackup(
        self,
        collect: Callable[[], dict[str, str] | Awaitable[dict[str, str]]],
        *,
        every: float = 900.0,
        label: str = "default",
        final_timeout: float = 10.0,
        **backup_options: Any,
    ) -> AsyncAutobackup:
        """See :meth:`ColonyMemory.autobackup`; ``collect`` may be a coroutine function, called in the event loop."""
        from colony_memory.schedule.autobackup import AsyncAutobackup

        return AsyncAutobackup(self, collect, every=every, label=label, final_timeout=final_timeout, **backup_options)
