"""The hosted vault: one set of verbs over two ways to send, with the SDK's client for its token and address.

Requests are of this package's own: the SDK's synchronous client follows redirects, with the token, to whatever host
they name. Every failure leaves them as an error of this package, and no message holds the key or the token. A 404
proves that a file is not there only where the vault itself says it of that file.
"""

from __future__ import annotations

import functools
import time
from typing import TYPE_CHECKING, Any

from colony_memory._boundary import drive
from colony_memory.exceptions import ColonyMemoryError
from colony_memory.vaults.colony.calls import Hosted
from colony_memory.vaults.colony.transport import Reply, Request, build_request, read_reply, transmit, transmit_async

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Concatenate, ParamSpec, TypeVar

    import httpx
    from typing_extensions import Self

    _Asked = ParamSpec("_Asked")
    _Told = TypeVar("_Told")

__all__ = ["AsyncColonyVault", "ColonyVault"]


def _driven(
    verb: Callable[Concatenate[Hosted, _Asked], Coroutine[Any, Any, _Told]],
) -> Callable[Concatenate[ColonyVault, _Asked], _Told]:
    """The verb as a method that waits."""

    @functools.wraps(verb)
    def call(self: ColonyVault, /, *args: _Asked.args, **options: _Asked.kwargs) -> _Told:
        return drive(verb(self._calls, *args, **options))

    return call


class ColonyVault:
    """The hosted vault through ``colony_sdk.ColonyClient``; may be used from several threads.

    Of the client it uses the address, the token, the proxy, the timeout and the retries; a conditional upload is sent
    once, and each request once more with a new token after a 401. A redirect is never followed: what it names gets no
    token, and what it answers is not believed. An upload that was not answered is for the caller to read back.

    A reply of more than 8 MiB, or one that is compressed, counts as none. A given client gets its token in its own way,
    which follows redirects and has no such bounds.

    Args:
        api_key: The agent's key, by default from ``COLONY_API_KEY``.
        base_url: Address of the API, by default from ``COLONY_BASE_URL``, else the SDK's.
        client: A ``ColonyClient`` to use in place of one made of the two above.
        timeout: Seconds that a request and all of its reply may take; a given client brings its own.

    Raises:
        ColonyMemoryError: No key and no client.
        ValueError: An address that is none, or a client beside a key or an address.
    """

    def __init__(
        self, api_key: str | None = None, *, base_url: str | None = None, client: Any = None, timeout: float = 30.0
    ) -> None:
        self._calls = _Blocking(api_key, base_url=base_url, client=client, timeout=timeout)

    def __repr__(self) -> str:
        return repr(self._calls).replace(type(self._calls).__name__, "ColonyVault", 1)

    vault_status = _driven(Hosted.vault_status)
    vault_list_files = _driven(Hosted.vault_list_files)
    vault_list_prefix = _driven(Hosted.vault_list_prefix)
    vault_get_file = _driven(Hosted.vault_get_file)
    vault_upload_file = _driven(Hosted.vault_upload_file)
    vault_upload_file_if = _driven(Hosted.vault_upload_file_if)
    vault_delete_file = _driven(Hosted.vault_delete_file)
    vault_operations_left = _driven(Hosted.vault_operations_left)
    vault_operations_reset = _driven(Hosted.vault_operations_reset)
    vault_may_write = _driven(Hosted.vault_may_write)

    def identity(self) -> str:
        return self._calls.identity()


class _Blocking(Hosted):
    """The verbs over a client and a transport that wait."""

    async def _transmit(self, request: Request, client: Any, timeout: float) -> Reply:
        return transmit(request, client, timeout)

    async def _pause(self, seconds: float) -> None:
        time.sleep(seconds)  # noqa: ASYNC251 - whoever drives it waits

    def _connect(self, api_key: str, **address: str) -> Any:
        from colony_sdk import ColonyClient

        vault = self

        class Client(ColonyClient):
            """The SDK's, but for where it gets its token: there it would follow a redirect and believe the answer, and
            take one of any size, for any time.
            """

            def _raw_request(self, method: str, path: str, body: Any = None, *args: Any, **kwargs: Any) -> Any:
                if path != "/auth/token":
                    return super()._raw_request(method, path, body, *args, **kwargs)
                request = build_request(self.base_url + path, None, method, body=body)
                return read_reply(drive(vault._send(self, request, self.auth_token_retry)))

        settings: dict[str, Any] = {"timeout": self._timeout, **address}
        return Client(api_key, **settings)


class AsyncColonyVault(Hosted):
    """The same through ``colony_sdk.AsyncColonyClient``; needs the extra ``async``.

    Belongs to one event loop, and is closed with :meth:`aclose` or ``async with``. A given client stays open. The
    arguments are those of :class:`ColonyVault`.
    """

    def __init__(
        self, api_key: str | None = None, *, base_url: str | None = None, client: Any = None, timeout: float = 30.0
    ) -> None:
        super().__init__(api_key, base_url=base_url, client=client, timeout=timeout)
        self._http: httpx.AsyncClient | None = None
        _import_httpx()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections that this vault opened; the next call opens new ones."""
        opened, self._http = self._http, None
        with self._lock:
            self._made = None
        if opened is not None:
            await opened.aclose()

    def _connect(self, api_key: str, **address: str) -> Any:
        from colony_sdk import AsyncColonyClient

        vault = self

        class Client(AsyncColonyClient):
            """As the synchronous one is made, and for the same reasons."""

            async def _raw_request(self, method: str, path: str, body: Any = None, *args: Any, **kwargs: Any) -> Any:
                if path != "/auth/token":
                    return await super()._raw_request(method, path, body, *args, **kwargs)
                request = build_request(self.base_url + path, None, method, body=body)
                return read_reply(await vault._send(self, request, self.retry))

        # The SDK's type says whole seconds; httpx, which gets it, takes any.
        settings: dict[str, Any] = {"timeout": self._timeout, "client": self._pool(), **address}
        return Client(api_key, **settings)

    async def _transmit(self, request: Request, _client: Any, timeout: float) -> Reply:
        return await transmit_async(request, self._pool(), _import_httpx(), timeout)

    async def _pause(self, seconds: float) -> None:
        import asyncio

        await asyncio.sleep(seconds)

    def _pool(self) -> httpx.AsyncClient:
        if self._http is None:
            self._http = _import_httpx().AsyncClient(timeout=self._timeout, follow_redirects=False)
        return self._http


def _import_httpx() -> Any:
    try:
        import httpx
    except ImportError as exc:
        raise ColonyMemoryError("AsyncColonyVault needs httpx: pip install 'colony-memory[async]'") from exc
    return httpx
