"""What the faces share: one client's session, how each face runs a verb of the engine, and what arguments mean."""

from __future__ import annotations

import os
from functools import wraps
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, ParamSpec, TypeVar

from colony_memory._format import FORMAT, FORMAT_2
from colony_memory.exceptions import ColonyMemoryError, Hint
from colony_memory.vaults import VaultBackend

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from colony_memory._engine.session import Session
    from colony_memory._engine.store import Vault
    from colony_memory.signing import Signer

__all__ = ["Awaiting", "Blocking", "awaited", "require_key", "require_vault", "wire_of"]

_T = TypeVar("_T")
_P = ParamSpec("_P")
_NO_VAULT = "no vault: no API key is given, nor set as COLONY_API_KEY, and no other vault either"


class Face:
    """One session. Its verbs bear the face's name, which Python's own errors tell."""

    _name: ClassVar[str]
    _session: Session

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if not cls.__module__.startswith(f"{__package__}."):
            return  # a face itself, or a class of somebody else
        for name, member in vars(cls).items():
            if hasattr(member, "__code__"):
                member.__module__, member.__qualname__ = str(__package__), f"{cls._name}.{name}"

    def _begin(
        self,
        vault: Vault,
        *,
        format: int | None,  # noqa: A002 - the word for it
        encrypt_to: object,
        identities: object,
        **options: Any,
    ) -> None:
        """Make the session over this vault; ``options`` are those that it takes as they are."""
        from colony_memory._engine.session import Session

        # First: the extra that encrypts brings what format 2 takes, and its name is the one to tell.
        keys = _keys(encrypt_to, identities)
        self._session = Session(vault, wire=wire_of(format, encrypt_to), **keys, **options)

    @property
    def signer(self) -> Signer | None:
        """What this client signs with."""
        return self._session.signer

    @signer.setter
    def signer(self, signer: Signer | None) -> None:
        self._session.signer = signer

    def to_progenly_export(self, documents: dict[str, str]) -> dict[str, Any]:
        """Shape documents as the ``memory`` of a Progenly merge: ``{"memory", "memory_format"}``."""
        from colony_memory._format.json import exact_documents

        return {"memory": exact_documents(documents), "memory_format": FORMAT}

    def _session_of(self, argument: str, other: Face) -> Session:
        """The session of another client of the same face."""
        if not isinstance(other, Blocking if isinstance(self, Blocking) else Awaiting):
            raise ValueError(f"{argument} must be of type {self._name}, not {type(other).__name__}")  # noqa: TRY004
        return other._session


class Blocking(Face):
    """A face whose verbs return."""

    _name = "ColonyMemory"

    def _run(
        self,
        verb: Callable[Concatenate[Session, _P], Coroutine[Any, Any, _T]],
        /,
        *arguments: _P.args,
        **options: _P.kwargs,
    ) -> _T:
        from colony_memory._boundary import drive
        from colony_memory._engine.store import Changed, Unanswered, to_public

        try:
            return drive(verb(self._session, *arguments, **options))
        except (Changed, Unanswered) as error:
            raise to_public(error) from error


class Awaiting(Face):
    """A face whose verbs are awaited."""

    _name = "AsyncColonyMemory"

    async def _run(
        self,
        verb: Callable[Concatenate[Session, _P], Coroutine[Any, Any, _T]],
        /,
        *arguments: _P.args,
        **options: _P.kwargs,
    ) -> _T:
        import asyncio

        from colony_memory._engine.store import Changed, Unanswered, to_public

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            raise ColonyMemoryError(
                "an asynchronous memory needs the event loop of asyncio, and none runs here: with another loop, such "
                "as trio's, use a synchronous one in a thread"
            ) from None
        try:
            return await verb(self._session, *arguments, **options)
        except (Changed, Unanswered) as error:
            raise to_public(error) from error


def awaited(method: Callable[Concatenate[Any, _P], _T]) -> Callable[Concatenate[Any, _P], Coroutine[Any, Any, _T]]:
    """A verb of the blocking face as that of the other, which has its own way to run what it asks of the engine."""
    code, name = method.__code__, method.__name__
    own = FunctionType(code, method.__globals__, name, method.__defaults__)
    own.__kwdefaults__, own.__annotations__ = method.__kwdefaults__, method.__annotations__
    own.__module__, own.__qualname__ = str(__package__), f"{Awaiting._name}.{name}"  # noqa: SLF001 - of this file

    @wraps(own)
    async def run(*arguments: _P.args, **options: _P.kwargs) -> _T:
        return await own(*arguments, **options)  # type: ignore[no-any-return]

    run.__doc__ = f"See :meth:`ColonyMemory.{name}`."
    return run  # whose first argument is the client


def wire_of(number: int | None, encrypt_to: object = None) -> str | None:
    """The wire format of that number, None for what the vault is for. What is encrypted is of format 2."""
    if number is None and encrypt_to is None:
        return None
    from colony_memory.vaults._files import check_format

    if number == 1 and encrypt_to is not None:
        raise ValueError("format 1 cannot be encrypted: leave the format out, or give 2")
    number = 2 if number is None else number
    check_format(number)
    return FORMAT_2 if number == 2 else FORMAT


def require_key(api_key: str | None) -> str:
    """The key of the hosted vault that is given or set, else a ColonyMemoryError."""
    key = api_key or os.environ.get("COLONY_API_KEY")
    if not key:
        raise ColonyMemoryError(_NO_VAULT, hint=Hint("open", "api_key"))
    return key


def require_vault(backend: object) -> None:
    """Raise a ValueError where an object lacks a method of a vault."""
    missing = [name for name in vars(VaultBackend) if name.startswith("vault_") and not hasattr(backend, name)]
    if missing:
        raise ValueError(f"{type(backend).__name__} is not a vault: it has no {missing[0]}()")


def _keys(encrypt_to: object, identities: object) -> dict[str, Any]:
    if encrypt_to is None and identities is None:
        return {}
    from colony_memory.encryption import read_identities, read_recipients

    recipients = read_recipients(encrypt_to)
    return {"recipients": recipients, "identities": read_identities(identities, recipients)}
