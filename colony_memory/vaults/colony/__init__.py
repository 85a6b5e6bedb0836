"""The hosted vault: the SDK's client, and what the API has besides the client's methods.

Conditional upload and listing by prefix are requests of this package's own, with the client's token and address.
:class:`ColonyVault` and :class:`AsyncColonyVault` are one set of verbs over two ways to send. Every failure leaves
them as an error of this package, and no message holds the key or the token.

**What counts as absence.** A 404 proves that a file is not there only where the vault itself says it of that file. A
wrong address, a proxy or a missing token service answer 404 too; that is :class:`VaultUnavailable`.
"""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

from colony_memory._engine.drive import drive
from colony_memory.exceptions import ColonyMemoryError
from colony_memory.vaults.colony.calls import Calls
from colony_memory.vaults.colony.requests import Reply, Request, Unanswered

if TYPE_CHECKING:
    from collections.abc import Callable

    import httpx
    from typing_extensions import Self

__all__ = ["AsyncColonyVault", "ColonyVault"]


class ColonyVault:
    """The hosted vault through ``colony_sdk.ColonyClient``; may be used from several threads.

    The five methods are the client's own, with its retries. Requests of this class's own are sent once, and once
    more with a new token after a 401: an upload that was not answered is for the caller to read back. Replies that
    the client was told to keep (``enable_cache``) are dropped before each call, as they may be older than the vault.

    Args:
        api_key: The agent's key, by default from ``COLONY_API_KEY``.
        base_url: Address of the API, by default from ``COLONY_BASE_URL``, else the SDK's.
        client: A ``ColonyClient`` to use in place of one made of the two above.
        timeout: Seconds to wait for the vault; a given client brings its own.

    Raises:
        ColonyMemoryError: No key and no client.
        ValueError: An address that is none, or a client beside a key or an address.
    """

    def __init__(
        self, api_key: str | None = None, *, base_url: str | None = None, client: Any = None, timeout: float = 30.0
    ) -> None:
        self._calls = Calls(_connect, _transmit, api_key=api_key, base_url=base_url, client=client, timeout=timeout)

    def __repr__(self) -> str:
        return f"ColonyVault({self._calls.address})"

    def vault_status(self) -> Any:
        """Quota in bytes and number of files; all zero before the first upload."""
        return drive(self._calls.delegate("vault_status"))

    def vault_list_files(self) -> Any:
        """Every file's name, size and times."""
        return drive(self._calls.delegate("vault_list_files"))

    def vault_get_file(self, filename: str) -> Any:
        """One file with ``content`` and ``etag``; a VaultError with ``status`` 404 where it is not there."""
        return drive(self._calls.delegate("vault_get_file", filename))

    def vault_upload_file(self, filename: str, content: str) -> Any:
        """Create or replace one file, whole or not at all."""
        return drive(self._calls.delegate("vault_upload_file", filename, content))

    def vault_delete_file(self, filename: str) -> Any:
        """Remove one file; a VaultError with ``status`` 404 where it is not there."""
        return drive(self._calls.delegate("vault_delete_file", filename))

    def vault_upload_file_if(
        self, filename: str, content: str, *, if_match: str | None = None, if_none_match: str | None = None
    ) -> Any:
        """Upload if the file still has the etag ``if_match``, or is not there (``if_none_match="*"``).

        Raises:
            VaultError: ``status`` 412: the condition failed and nothing was written.
            VaultUnavailable: No answer; it may have been written.
            ValueError: ``if_none_match`` is something else.
        """
        return drive(self._calls.upload_if(filename, content, if_match, if_none_match))

    def vault_list_prefix(self, prefix: str) -> Any:
        """The files whose names start with the literal ``prefix``, of at most 255 characters."""
        return drive(self._calls.list_prefix(prefix))

    def vault_operations_left(self) -> int | None:
        """Uploads and deletes left this hour by the latest reply to one of them, None where it is not known."""
        return self._calls.budget.left()


class AsyncColonyVault:
    """The same through ``colony_sdk.AsyncColonyClient``; needs the extra ``async``.

    Belongs to one event loop, and is closed with :meth:`aclose` or ``async with``. A given client stays open. The
    arguments are those of :class:`ColonyVault`.
    """

    def __init__(
        self, api_key: str | None = None, *, base_url: str | None = None, client: Any = None, timeout: float = 30.0
    ) -> None:
        self._calls = Calls(
            self._connect, self._transmit, api_key=api_key, base_url=base_url, client=client, timeout=timeout
        )
        self._http: httpx.AsyncClient | None = None
        _import_httpx()

    def __repr__(self) -> str:
        return f"AsyncColonyVault({self._calls.address})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections that this vault opened; the next call opens new ones."""
        opened, self._http = self._http, None
        self._calls.forget()
        if opened is not None:
            await opened.aclose()

    async def vault_status(self) -> Any:
        """See :meth:`ColonyVault.vault_status`."""
        return await self._calls.delegate("vault_status")

    async def vault_list_files(self) -> Any:
        """See :meth:`ColonyVault.vault_list_files`."""
        return await self._calls.delegate("vault_list_files")

    async def vault_get_file(self, filename: str) -> Any:
        """See :meth:`ColonyVault.vault_get_file`."""
        return await self._calls.delegate("vault_get_file", filename)

    async def vault_upload_file(self, filename: str, content: str) -> Any:
        """See :meth:`ColonyVault.vault_upload_file`."""
        return await self._calls.delegate("vault_upload_file", filename, content)

    async def vault_delete_file(self, filename: str) -> Any:
        """See :meth:`ColonyVault.vault_delete_file`."""
        return await self._calls.delegate("vault_delete_file", filename)

    async def vault_upload_file_if(
        self, filename: str, content: str, *, if_match: str | None = None, if_none_match: str | None = None
    ) -> Any:
        """See :meth:`ColonyVault.vault_upload_file_if`."""
        return await self._calls.upload_if(filename, content, if_match, if_none_match)

    async def vault_list_prefix(self, prefix: str) -> Any:
        """See :meth:`ColonyVault.vault_list_prefix`."""
        return await self._calls.list_prefix(prefix)

    async def vault_operations_left(self) -> int | None:
        """See :meth:`ColonyVault.vault_operations_left`."""
        return self._calls.budget.left()

    def _connect(self, api_key: str, timeout: float, **address: str) -> Any:
        from colony_sdk import AsyncColonyClient

        # The SDK's type says whole seconds; httpx, which gets it, takes any.
        settings: dict[str, Any] = {"timeout": timeout, "client": self._pool(timeout), **address}
        return AsyncColonyClient(api_key, **settings)

    async def _transmit(self, request: Request, _client: Any, timeout: float) -> Reply:
        errors = _import_httpx()
        try:
            reply = await self._pool(timeout).request(
                request.method, request.url, headers=dict(request.headers), content=request.body
            )
        except (errors.HTTPError, errors.InvalidURL) as exc:
            raise Unanswered(_describe(exc)) from exc
        return Reply(reply.status_code, reply.content, dict(reply.headers))

    def _pool(self, timeout: float) -> httpx.AsyncClient:
        if self._http is None:
            self._http = _import_httpx().AsyncClient(timeout=timeout)
        return self._http


def _import_httpx() -> Any:
    try:
        import httpx
    except ImportError as exc:
        raise ColonyMemoryError("AsyncColonyVault needs httpx: pip install 'colony-memory[async]'") from exc
    return httpx


def _connect(api_key: str, timeout: float, **address: str) -> Any:
    from colony_sdk import ColonyClient

    settings: dict[str, Any] = {"timeout": timeout, **address}
    return ColonyClient(api_key, **settings)


def _transmit(request: Request, client: Any, timeout: float) -> Reply:
    call = urllib.request.Request(request.url, request.body, dict(request.headers), method=request.method)  # noqa: S310
    send: Callable[..., Any] = urllib.request.urlopen
    if proxy := getattr(client, "proxy", None):
        send = urllib.request.build_opener(urllib.request.ProxyHandler({"http": proxy, "https": proxy})).open
    try:
        try:
            reply = send(call, timeout=timeout)
        except urllib.error.HTTPError as exc:
            reply = exc
        with reply:
            return Reply(reply.status, reply.read(), {name.lower(): value for name, value in reply.headers.items()})
    except (OSError, http.client.HTTPException) as exc:
        raise Unanswered(_describe(exc)) from exc


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
