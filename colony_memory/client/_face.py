"""The base of both faces: a session, the way each runs a verb of the engine, and the meaning of arguments."""

from __future__ import annotations

import os
from functools import wraps
from types import FunctionType
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeAlias, TypeVar

from colony_memory._boundary import is_coroutine
from colony_memory._format import FORMAT, FORMAT_2, MAX_BYTES
from colony_memory.exceptions import ColonyMemoryError, Hint
from colony_memory.vaults import AsyncVaultBackend, VaultBackend

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping

    from colony_memory._engine.session import Session
    from colony_memory._engine.store import Vault
    from colony_memory.encryption import Passphrase
    from colony_memory.reports import Event, LifecycleEvent
    from colony_memory.signing import Signer
    from colony_memory.witness import Witness

_Identity: TypeAlias = "str | os.PathLike[str] | Passphrase"
_ASYNC = "AsyncColonyMemory"
_T = TypeVar("_T")
_P = ParamSpec("_P")


class Memory:
    """One session: the arguments to open a client with, and all that is no verb."""

    def __init__(
        self,
        api_key: str | None = None,
        *,
        base_url: str | None = None,
        backend: VaultBackend | AsyncVaultBackend | None = None,
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
        from colony_memory._engine.session import Session

        key = api_key or os.environ.get("COLONY_API_KEY") or ""
        if backend is None and not key:
            msg = "no vault: no API key is given, nor set as COLONY_API_KEY, and no other vault either"
            raise ColonyMemoryError(msg, hint=Hint("open", "api_key"))
        names = () if backend is None else [name for name in vars(VaultBackend) if name.startswith("vault_")]
        for name in names:
            if not hasattr(backend, name):
                raise ValueError(f"{type(backend).__name__} is not a vault: it has no {name}()")
        vault = self._open(backend, key, base_url)
        # First: the extra that encrypts includes the one for format 2, and is the one to name in an error.
        keys = dict[str, Any]()
        if encrypt_to is not None or identities is not None:
            from colony_memory.encryption import read_identities, read_recipients

            keys["recipients"] = read_recipients(encrypt_to)
            keys["identities"] = read_identities(identities, keys["recipients"])
        self._session = Session(
            vault,
            signer=signer,
            trusted_issuers=trusted_issuers,
            require_signature=require_signature,
            accept_legacy_pointer=accept_legacy_pointer,
            witness=witness,
            max_bytes=max_bytes,
            wire=wire_of(format, encrypt_to),
            on_event=on_event,
            **keys,
        )

    def _open(self, backend: Any, key: str, base_url: str | None) -> Vault:
        raise NotImplementedError

    @property
    def signer(self) -> Signer | None:
        """The signer of this client."""
        return self._session.signer

    @signer.setter
    def signer(self, signer: Signer | None) -> None:
        self._session.signer = signer

    def to_progenly_export(self, documents: dict[str, str]) -> dict[str, Any]:
        """Shape documents as the ``memory`` of a Progenly merge: ``{"memory", "memory_format"}``."""
        from colony_memory._format.json import exact_documents

        return {"memory": exact_documents(documents), "memory_format": FORMAT}

    def _session_of(self, argument: str, other: Memory) -> Session:
        kind, name = (Blocking, "ColonyMemory") if isinstance(self, Blocking) else (Awaiting, _ASYNC)
        if not isinstance(other, kind):
            raise ValueError(f"{argument} must be of type {name}, not {type(other).__name__}")  # noqa: TRY004
        return other._session


class Blocking(Memory):
    """The face whose verbs block."""

    def _open(self, backend: Any, key: str, base_url: str | None) -> Vault:
        if backend is None:
            from colony_memory.vaults.colony import ColonyVault

            backend = ColonyVault(key, base_url=base_url)
        if is_coroutine(getattr(backend, "vault_get_file", None)):
            raise ValueError("this backend is asynchronous: use AsyncColonyMemory")
        from colony_memory._engine.store import Vault

        return Vault(backend)

    def _run(
        self,
        verb: Callable[Concatenate[Session, _P], Coroutine[Any, Any, _T]],
        /,
        *arguments: _P.args,
        **options: _P.kwargs,
    ) -> _T:
        from colony_memory._boundary import drive
        from colony_memory._engine.store import Changed, Unanswered, Unreadable, to_public

        try:
            return drive(verb(self._session, *arguments, **options))
        except (Changed, Unanswered, Unreadable) as error:
            raise to_public(error) from error.__cause__


class Awaiting(Memory):
    """The face whose verbs are awaited."""

    _own: Any = None

    def _open(self, backend: Any, key: str, base_url: str | None) -> Vault:
        if backend is None:
            from colony_memory.vaults.colony import AsyncColonyVault

            backend = self._own = AsyncColonyVault(key, base_url=base_url)
        from colony_memory._engine.store import AsyncVault

        return AsyncVault(backend)

    async def _run(
        self,
        verb: Callable[Concatenate[Session, _P], Coroutine[Any, Any, _T]],
        /,
        *arguments: _P.args,
        **options: _P.kwargs,
    ) -> _T:
        import asyncio

        from colony_memory._engine.store import Changed, Unanswered, Unreadable, to_public

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            raise ColonyMemoryError(
                "an asynchronous memory needs the event loop of asyncio, and none runs here: with another loop, such "
                "as trio's, use a synchronous one in a thread"
            ) from None
        try:
            return await verb(self._session, *arguments, **options)
        except (Changed, Unanswered, Unreadable) as error:
            raise to_public(error) from error.__cause__


def awaited(method: Callable[Concatenate[Any, _P], _T]) -> Callable[Concatenate[Any, _P], Coroutine[Any, Any, _T]]:
    """A verb of the blocking face as a coroutine of the other, which runs the engine in its own way."""
    code, name = method.__code__, method.__name__
    own = FunctionType(code, method.__globals__, name, method.__defaults__)
    own.__kwdefaults__, own.__annotations__ = method.__kwdefaults__, method.__annotations__
    own.__module__, own.__qualname__ = str(__package__), f"{_ASYNC}.{name}"

    @wraps(own)
    async def run(*arguments: _P.args, **options: _P.kwargs) -> _T:
        return await own(*arguments, **options)  # type: ignore[no-any-return]

    run.__doc__ = f"See :meth:`ColonyMemory.{name}`."
    return run  # its first argument is the client


def wire_of(number: int | None, encrypt_to: object = None) -> str | None:
    """The wire format of that number, None for the vault's default. Encryption takes format 2."""
    if number is None and encrypt_to is None:
        return None
    from colony_memory.vaults._files import check_format

    if number == 1 and encrypt_to is not None:
        raise ValueError("format 1 cannot be encrypted: leave the format out, or give 2")
    number = 2 if number is None else number
    check_format(number)
    return FORMAT_2 if number == 2 else FORMAT
