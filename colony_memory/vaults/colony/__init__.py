"""The hosted vault: one set of verbs over two ways to send, with the SDK's client for its token and address.

Requests are sent by this package: the SDK's synchronous client follows redirects, with the token, to whatever host
they name. Every failure is raised as an error of this package, and no message holds the key or the token. A 404 proves
that a file is not there only if the vault itself says so of that file.
"""

from __future__ import annotations

import functools
import inspect
import math
import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from colony_memory._boundary import drive, require_as_meant, translate
from colony_memory.exceptions import ColonyMemoryError, Hint, RateLimited, VaultError, VaultUnavailable, bad_argument
from colony_memory.vaults._files import check_none_match
from colony_memory.vaults.colony.transport import (
    Refused,
    Reply,
    Request,
    Unanswered,
    build_request,
    check_shape,
    check_text,
    delay_before_retry,
    file_path,
    is_plain,
    read_reply,
    transmit,
    transmit_async,
    whole_number,
)

if TYPE_CHECKING:
    import httpx
    from typing_extensions import Self

__all__ = ["AsyncColonyVault", "ColonyVault"]

_HOUR = 3600.0
# From here on a reset is in seconds since the epoch, below in seconds from now.
_EPOCH_FROM = 1_000_000_000
_PREFIX_CHARS = 255
_TOKENS_KNOWN = 8
# Exceptions of the SDK's code over a reply that it does not expect.
_MISUNDERSTOOD = (AssertionError, LookupError, RecursionError, TypeError)


class Budget:
    """Uploads and deletes left this hour, as the latest reply to one of them said."""

    def __init__(self) -> None:
        self._latest: tuple[int | None, float, bool] = None, 0.0, False  # count, its end, True if that end was stated

    def note(self, left: int | None, reset: float | None) -> None:
        """Keep a count until its reset, in seconds from now or since the epoch; for an hour if that is not stated."""
        wait = _HOUR if reset is None else reset if reset < _EPOCH_FROM else reset - time.time()
        self._latest = left, time.monotonic() + min(wait, _HOUR), reset is not None

    def left(self) -> int | None:
        """The count, None if there is none or its hour is over."""
        left, until, _ = self._latest
        return left if time.monotonic() < until else None

    def reset(self) -> int | None:
        """Whole seconds until all of them are back, None if there is no count or no stated reset."""
        left, until, is_stated = self._latest
        wait = until - time.monotonic()
        return math.ceil(wait) if is_stated and left is not None and wait > 0 else None


class Hosted:
    """The verbs, over a client of the SDK and the ways of subclasses to send and to pause."""

    _connect: Callable[..., Any]
    _transmit: Callable[[Request, Any, float], Coroutine[Any, Any, Reply]]
    _pause: Callable[[float], Coroutine[Any, Any, None]]

    def __init__(
        self, api_key: str | None = None, *, base_url: str | None = None, client: Any = None, timeout: float = 30.0
    ) -> None:
        if timeout <= 0:
            raise ValueError(f"timeout must be above 0, not {timeout!r}")
        if client is None:
            api_key = (api_key or os.environ.get("COLONY_API_KEY", "")).strip()
            base_url = (base_url or os.environ.get("COLONY_BASE_URL", "")).strip()
            if not api_key:
                raise ColonyMemoryError(
                    "no vault: no API key is given, nor set as COLONY_API_KEY", hint=Hint("open", "api_key")
                )
            require_as_meant("the API key", api_key)
            parts = urlsplit(base_url)
            if base_url and (parts.scheme not in {"http", "https"} or not parts.hostname or "@" in parts.netloc):
                # Not repeated, since it may be a key that was set in the wrong place.
                raise bad_argument(
                    "the hosted vault's address must begin with http:// or https://, and hold no user name and "
                    "password",
                    hint=Hint("open", "base_url"),
                )
        elif api_key is not None or base_url is not None:
            raise ValueError("give a client=, or what to make one of (api_key=, base_url=), not both")
        self._budget = Budget()
        self._api_key, self._base_url = api_key, base_url
        self._user_client: Any = client
        self._sdk_client: Any = None
        self._timeout = timeout if client is None else getattr(client, "timeout", timeout)
        self._tokens: deque[str] = deque(maxlen=_TOKENS_KNOWN)  # not the last alone: a service may repeat an old one
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        base_url = self.identity().removeprefix("colony:")
        return f"{type(self).__name__}({f'base_url={base_url!r}' if base_url else ''})"

    def identity(self) -> str:
        """The identity of the vault: its address. Its account shows in the history of a label."""
        return f"colony:{(self._base_url if self._user_client is None else self._user_client.base_url) or ''}"

    async def vault_status(self) -> Any:
        return await self._request("asking for the quota", "GET", "/vault/status")

    async def vault_list_files(self) -> Any:
        return await self._request("listing the vault", "GET", "/vault/files", shape="listing")

    async def vault_list_prefix(self, prefix: str) -> Any:
        """The files whose names start with the literal ``prefix``, of at most 255 characters."""
        if len(prefix) > _PREFIX_CHARS:
            raise ValueError(f"a prefix may have {_PREFIX_CHARS} characters, not {len(prefix)}")
        check_text(prefix)
        path = f"/vault/files?{urlencode({'prefix': prefix})}"
        return await self._request(f"listing {prefix}*", "GET", path, shape="listing")

    async def vault_get_file(self, filename: str) -> Any:
        return await self._request(f"reading {filename}", "GET", file_path(filename), shape="content")

    async def vault_delete_file(self, filename: str) -> Any:
        return await self._request(f"deleting {filename}", "DELETE", file_path(filename), shape="nothing")

    async def vault_upload_file(self, filename: str, content: str) -> Any:
        return await self._request(f"writing {filename}", "PUT", file_path(filename), body={"content": content})

    async def vault_upload_file_if(
        self, filename: str, content: str, *, if_match: str | None = None, if_none_match: str | None = None
    ) -> Any:
        check_none_match(if_none_match)
        path = file_path(filename)
        if if_match is not None:
            if_match = if_match.strip('"')
            if '"' in if_match or not is_plain(if_match):
                raise VaultError(f"not an etag of {filename}: {if_match!r}", status=400, code="INVALID_INPUT")
        # A conditional upload is sent once: a second request would meet the result of the first.
        again = if_match is None and if_none_match is None
        options: dict[str, Any] = {"body": {"content": content}, "if_match": if_match, "if_none_match": if_none_match}
        return await self._request(f"writing {filename}", "PUT", path, again=again, **options)

    async def vault_operations_left(self) -> int | None:
        """Uploads and deletes left this hour by the latest reply to one of them, None if that is not known."""
        return self._budget.left()

    async def vault_operations_reset(self) -> int | None:
        """Seconds until all of them are back, None if that reply did not say."""
        return self._budget.reset()

    async def vault_may_write(self) -> bool | None:
        """True if the account may upload, which takes 10 karma; None if the service does not tell."""
        reply = await self._request("asking what the account may do", "GET", "/me/capabilities")
        listed = reply.get("result", reply).get("capabilities")
        for capability in listed if isinstance(listed, list) else ():
            if isinstance(capability, dict) and capability.get("name") == "write_vault":
                return capability.get("allowed") is not False
        return None

    async def _request(
        self, doing: str, method: str, path: str, *, shape: str = "facts", again: bool = True, **options: Any
    ) -> Any:
        """Send a request with the client's token, after a 401 once more with a new one, and read the reply."""
        client = self._client()
        retry = client.retry if again else None
        counted = method in {"PUT", "DELETE"}
        try:
            token = await self._token(doing)
            reply = await self._send(client, build_request(client.base_url + path, token, method, **options), retry)
            if reply.status == 401:
                token = await self._token(doing, rejected=token)
                reply = await self._send(client, build_request(client.base_url + path, token, method, **options), retry)
            if counted:
                counts = (whole_number(reply.headers.get(f"x-ratelimit-{fact}")) for fact in ("remaining", "reset"))
                self._budget.note(*counts)
            return check_shape(shape, read_reply(reply))
        except ColonyMemoryError:
            raise
        except Exception as exc:  # noqa: BLE001 - one place for every failure, as for the SDK's
            error = self._translate(exc, doing, of_file=shape in {"content", "nothing"})
        if counted and isinstance(error, RateLimited):
            self._budget.note(0 if error.retry_after is not None else None, error.retry_after)
        raise error from None

    async def _send(self, client: Any, request: Request, retry: Any) -> Reply:
        """Send, and send again for as long as ``retry`` (None for once) and the replies allow."""
        attempt = 0
        while True:
            reply = await self._transmit(request, client, self._timeout)
            delay = None if retry is None else delay_before_retry(reply, attempt, retry)
            if delay is None:
                return reply
            await self._pause(delay)
            attempt += 1

    async def _token(self, doing: str, *, rejected: str | None = None) -> str:
        """The client's token, a new one if it is still the one that was rejected."""
        client = self._client()
        try:
            token = await _ask_token(client)
            if token == rejected:
                client.refresh_token()
                token = await _ask_token(client)
        except Exception as exc:  # noqa: BLE001 - as above
            error = self._translate(exc, doing)
        else:
            if isinstance(token, str) and is_plain(token):
                if token not in self._tokens:
                    self._tokens.append(token)
                return token
            error = VaultUnavailable(f"{doing} failed: the service gave no valid token")
        raise error from None

    def _client(self) -> Any:
        if self._user_client is not None:
            return self._user_client
        with self._lock:
            if self._sdk_client is None:
                address = {"base_url": self._base_url} if self._base_url else {}
                self._sdk_client = self._connect(self._api_key or "", **address)
            return self._sdk_client

    def _translate(self, error: Exception, doing: str, *, of_file: bool = False) -> ColonyMemoryError:
        """An error of this package, to be raised outside the handler: the original may hold key and token."""
        if isinstance(error, ColonyMemoryError):
            return error
        status, code, text = getattr(error, "status", None), getattr(error, "code", None), str(error)
        if status == 404 and not (of_file and getattr(error, "own", False)):
            msg = f"{doing} failed: the answer is a 404, and not the vault's: is its address right?"
            return VaultUnavailable(msg, hint=Hint("open", "base_url"))
        if isinstance(error, Unanswered):
            return VaultUnavailable(f"{doing} failed: {self._redact(text)}")
        if isinstance(error, _MISUNDERSTOOD):
            return VaultUnavailable(f"{doing} failed: the reply was not understood ({type(error).__name__})")
        clean, clean_code = self._redact(text), self._redact(code) if isinstance(code, str) else code
        if (clean, clean_code) != (text, code):
            error = Refused(clean, status, clean_code, getattr(error, "retry_after", None))
        return translate(error, doing)

    def _redact(self, text: str) -> str:
        secrets = [*self._tokens, self._api_key, getattr(self._user_client, "api_key", None)]
        known = sorted({secret for secret in secrets if isinstance(secret, str) and secret}, key=len, reverse=True)
        for secret in known:
            # A host's name is in lower case, however it was written.
            text = re.sub(re.escape(secret), "***", text, flags=re.IGNORECASE)
        return text


async def _ask_token(client: Any, *, again: bool = True) -> Any:
    try:
        token = client.get_auth_token()
        return await token if inspect.isawaitable(token) else token
    except AssertionError:  # the SDK's own, if another thread has just given its token up
        if not again:
            raise
        return await _ask_token(client, again=False)


def _driven(verb: Callable[..., Any]) -> Callable[..., Any]:
    """The verb as a blocking method."""

    @functools.wraps(verb)
    def call(*args: Any, **options: Any) -> Any:
        return drive(verb(*args, **options))

    return call


class ColonyVault(Hosted):
    """The hosted vault through ``colony_sdk.ColonyClient``; may be used from several threads.

    Of the client it uses the address, the token, the proxy, the timeout and the retries; a conditional upload is sent
    once, and each request once more with a new token after a 401. A redirect is never followed. An upload without a
    reply is for the caller to read back. A reply of more than 8 MiB, or one that is compressed, counts as none. A
    given client gets its token in its own way, which follows redirects and has no such limits.

    Args:
        api_key: The agent's key, by default from ``COLONY_API_KEY``.
        base_url: Address of the API, by default from ``COLONY_BASE_URL``, else the SDK's.
        client: A ``ColonyClient`` to use in place of one made of the two above.
        timeout: Seconds that a request and all of its reply may take; a given client brings its own.

    Raises:
        ColonyMemoryError: No key and no client.
        ValueError: An address that is none, or a client beside a key or an address.
    """

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

    async def _transmit(self, request: Request, client: Any, timeout: float) -> Reply:
        return transmit(request, client, timeout)

    async def _pause(self, seconds: float) -> None:
        time.sleep(seconds)  # noqa: ASYNC251 - the caller blocks

    def _connect(self, api_key: str, **address: str) -> Any:
        from colony_sdk import ColonyClient

        vault = self

        class Client(ColonyClient):
            """The SDK's, except for requests of a token, which would follow redirects and take replies of any size."""

            def _raw_request(self, method: str, path: str, body: Any = None, *args: Any, **kwargs: Any) -> Any:
                if path != "/auth/token":
                    return super()._raw_request(method, path, body, *args, **kwargs)
                request = build_request(self.base_url + path, None, method, body=body)
                return read_reply(drive(vault._send(self, request, self.auth_token_retry)))

        settings: dict[str, Any] = {"timeout": self._timeout, **address}
        return Client(api_key, **settings)


class AsyncColonyVault(Hosted):
    """The same through ``colony_sdk.AsyncColonyClient``; needs the extra ``async``.

    It belongs to one event loop, and :meth:`aclose` or ``async with`` closes it, but not a client that was given. The
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
            self._sdk_client = None
        if opened is not None:
            await opened.aclose()

    def _connect(self, api_key: str, **address: str) -> Any:
        from colony_sdk import AsyncColonyClient

        vault = self

        class Client(AsyncColonyClient):
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
