"""The hosted vault: the SDK's client, and what the API has besides the client's methods.

Conditional upload and listing by prefix are requests of this module's own, with the client's token and address.
:class:`ColonyVault` and :class:`AsyncColonyVault` are one set of verbs over two ways to send. Every failure leaves
them as an error of this package, and no message holds the key or the token.

**What counts as absence.** A 404 proves that a file is not there only where the vault itself says it of that file. A
wrong address, a proxy or a missing token service answer 404 too; that is :class:`VaultUnavailable`.
"""

from __future__ import annotations

import contextlib
import http.client
import inspect
import json
import os
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

from colony_memory._boundary import translate
from colony_memory._drive import drive
from colony_memory._version import __version__
from colony_memory.exceptions import ColonyMemoryError, RateLimited, VaultError, VaultUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import NoReturn

    import httpx
    from typing_extensions import Self

__all__ = ["AsyncColonyVault", "ColonyVault"]

_HOUR = 3600.0
_EPOCH_FROM = 1_000_000_000
"""A reset from here on is in seconds since the epoch, one below in seconds from now."""
_PREFIX_CHARS = 255
_COUNTED = frozenset({"vault_upload_file", "vault_upload_file_if", "vault_delete_file"})
_OF_ONE_FILE = frozenset({"vault_get_file", "vault_delete_file"})
_ROUTER_WORDS = frozenset({"", "Not Found"})
"""What a web framework says of an address that it does not serve."""
_MISUNDERSTOOD = (AssertionError, LookupError, RecursionError, TypeError)
"""What the SDK stumbles into where a reply is something else than it expects."""


@dataclass(frozen=True)
class _Request:
    method: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True)
class _Reply:
    """What came back; ``headers`` by lower-case name."""

    status: int
    body: bytes
    headers: Mapping[str, str]


class Refused(Exception):
    """A reply that says no, with the attributes of the SDK's errors."""

    def __init__(self, message: str, status: int | None, code: str | None, retry_after: float | None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.retry_after = retry_after


class _Unanswered(Exception):
    """No reply, or one that says nothing."""


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
        self._calls = _Calls(_connect, _transmit, api_key=api_key, base_url=base_url, client=client, timeout=timeout)

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
        self._calls = _Calls(
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

    async def _transmit(self, request: _Request, _client: Any, timeout: float) -> _Reply:
        errors = _import_httpx()
        try:
            reply = await self._pool(timeout).request(
                request.method, request.url, headers=dict(request.headers), content=request.body
            )
        except (errors.HTTPError, errors.InvalidURL) as exc:
            raise _Unanswered(_describe(exc)) from exc
        return _Reply(reply.status_code, reply.content, dict(reply.headers))

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


def _transmit(request: _Request, client: Any, timeout: float) -> _Reply:
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
            return _Reply(reply.status, reply.read(), {name.lower(): value for name, value in reply.headers.items()})
    except (OSError, http.client.HTTPException) as exc:
        raise _Unanswered(_describe(exc)) from exc


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


class _Calls:
    """The verbs of both vaults, over a client and a transport that may or may not be coroutines."""

    def __init__(
        self,
        connect: Callable[..., Any],
        transmit: Callable[[_Request, Any, float], Any],
        *,
        api_key: str | None,
        base_url: str | None,
        client: Any,
        timeout: float,
    ) -> None:
        if timeout <= 0:
            raise ValueError(f"timeout must be above 0, not {timeout!r}")
        if client is None:
            api_key = (api_key or os.environ.get("COLONY_API_KEY", "")).strip()
            base_url = (base_url or os.environ.get("COLONY_BASE_URL", "")).strip()
            if not api_key:
                raise ColonyMemoryError("no vault: give api_key=, set COLONY_API_KEY, or give another one as backend=")
            _check_address(base_url)
        elif api_key is not None or base_url is not None:
            raise ValueError("give a client=, or what to make one of (api_key=, base_url=), not both")
        self.budget = _Budget()
        self._connect, self._transmit = connect, transmit
        self._api_key, self._base_url = api_key, base_url
        self._given: Any = client
        self._made: Any = None
        self._timeout = timeout if client is None else getattr(client, "timeout", timeout)
        self._latest_token = ""
        self._lock = threading.Lock()

    @property
    def address(self) -> str:
        """The base URL as an argument in a repr."""
        base_url = self._base_url if self._given is None else self._given.base_url
        return f"base_url={base_url!r}" if base_url else ""

    def forget(self) -> None:
        """Drop the client that was made here; the next call makes another."""
        with self._lock:
            self._made = None

    async def delegate(self, method: str, *args: str) -> Any:
        """Call one of the SDK's own five methods."""
        if args:
            _check_name(args[0])
        doing = _tell(method, args[0] if args else "")
        client = self._client()
        # First, so that a token that cannot be had does not look like a file that is not there.
        await self._token(doing)
        getattr(client, "clear_cache", lambda: None)()
        with self.budget.watch() as undisturbed:
            try:
                reply = check_shape(method, await _settle(getattr(client, method)(*args)))
                limit = client.last_rate_limit if undisturbed() else None
            except Exception as exc:  # noqa: BLE001 - whatever the SDK lets out leaves as an error of this package
                self._fail(exc, method, doing)
        if method in _COUNTED:
            self.budget.note(getattr(limit, "remaining", None), getattr(limit, "reset", None))
        return reply

    async def upload_if(self, filename: str, content: str, if_match: str | None, if_none_match: str | None) -> Any:
        """Upload under a condition, or without one as the SDK does."""
        if if_none_match not in {None, "*"}:
            raise ValueError(f"if_none_match must be None or '*', not {if_none_match!r}")
        if if_match is None and if_none_match is None:
            return await self.delegate("vault_upload_file", filename, content)
        _check_name(filename)
        if if_match is not None:
            if_match = if_match.strip('"')
            if '"' in if_match or not _is_plain(if_match):
                raise VaultError(f"not an etag of {filename}: {if_match!r}", status=400, code="INVALID_INPUT")
        what = {"filename": filename, "content": content, "if_match": if_match, "if_none_match": if_none_match}
        return await self._request("vault_upload_file_if", filename, what)

    async def list_prefix(self, prefix: str) -> Any:
        """List the names under a prefix."""
        if len(prefix) > _PREFIX_CHARS:
            raise ValueError(f"a prefix may have {_PREFIX_CHARS} characters, not {len(prefix)}")
        _check_text(prefix)
        return await self._request("vault_list_prefix", prefix, {"prefix": prefix})

    async def _request(self, method: str, name: str, what: Mapping[str, str | None]) -> Any:
        """Send a request of our own."""
        doing = _tell(method, name)
        client = self._client()
        token = await self._token(doing)
        try:
            reply: _Reply = await self._send(client, token, what)
            if reply.status == 401:
                token = await self._token(doing, rejected=token)
                reply = await self._send(client, token, what)
            if method in _COUNTED:
                remaining, reset = (_whole(reply.headers.get(f"x-ratelimit-{fact}")) for fact in ("remaining", "reset"))
                self.budget.note(remaining, reset)
            return check_shape(method, read_reply(reply))
        except Exception as exc:  # noqa: BLE001 - one place for every failure, as for the SDK's
            self._fail(exc, method, doing)

    async def _send(self, client: Any, token: str, what: Mapping[str, str | None]) -> Any:
        return await _settle(self._transmit(build_request(client.base_url, token, **what), client, self._timeout))

    async def _token(self, doing: str, *, rejected: str | None = None) -> str:
        """The client's token, a new one if it is still the one that was rejected."""
        client = self._client()
        try:
            token = await _ask_token(client)
            if token == rejected:
                client.refresh_token()
                token = await _ask_token(client)
        except Exception as exc:  # noqa: BLE001 - as above
            self._fail(exc, "get_auth_token", doing)
        if not isinstance(token, str) or not _is_plain(token):
            raise VaultUnavailable(f"{doing} failed: what the service gave as a token is none")
        self._latest_token = token
        return token

    def _client(self) -> Any:
        if self._given is not None:
            return self._given
        with self._lock:
            if self._made is None:
                address = {"base_url": self._base_url} if self._base_url else {}
                self._made = self._connect(self._api_key, self._timeout, **address)
            return self._made

    def _fail(self, error: Exception, method: str, doing: str) -> NoReturn:
        """Raise what went wrong as an error of this package, without the key and the token."""
        if isinstance(error, ColonyMemoryError):
            raise error
        text = str(error)
        clean, cause = self._redact(text), error
        status = getattr(error, "status", None)
        unanswered = None
        if status == 404 and not (method in _OF_ONE_FILE and _speaks_of_a_file(error)):
            unanswered = "the answer is a 404, and not the vault's; is base_url (or COLONY_BASE_URL) right?"
        elif isinstance(error, _Unanswered):
            unanswered = clean
        elif isinstance(error, _MISUNDERSTOOD):
            unanswered = f"the reply was not understood ({type(error).__name__})"
        elif clean != text:
            error = Refused(clean, status, getattr(error, "code", None), getattr(error, "retry_after", None))
        told = VaultUnavailable(f"{doing} failed: {unanswered}") if unanswered else translate(error, doing)
        if method in _COUNTED and isinstance(told, RateLimited):
            self.budget.note(0 if told.retry_after is not None else None, told.retry_after)
        # A cause that holds the key or the token would be printed with the traceback.
        raise told from (cause if clean == text else None)

    def _redact(self, text: str) -> str:
        for secret in (self._latest_token, self._api_key, getattr(self._given, "api_key", None)):
            text = text.replace(secret, "***") if secret else text
        return text


class _Budget:
    """Uploads and deletes left, as the latest reply to one of them said."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left: int | None = None
        self._until = 0.0
        self._begun = self._running = 0

    @contextlib.contextmanager
    def watch(self) -> Iterator[Callable[[], bool]]:
        """Tell whether a call was alone so far: the SDK keeps the headers of one reply, whichever came last."""
        with self._lock:
            self._begun += 1
            self._running += 1
            number, alone = self._begun, self._running == 1
        try:
            yield lambda: alone and self._begun == number
        finally:
            with self._lock:
                self._running -= 1

    def note(self, left: int | None, reset: float | None) -> None:
        """Keep a count until its reset: seconds from now, or since the epoch; an hour where that is not said."""
        wait = _HOUR if reset is None else reset if reset < _EPOCH_FROM else reset - time.time()
        with self._lock:
            self._left = left
            self._until = time.monotonic() + min(wait, _HOUR)

    def left(self) -> int | None:
        """The count, None where there is none or its hour is over."""
        with self._lock:
            return self._left if time.monotonic() < self._until else None


def build_request(
    base_url: str,
    token: str,
    *,
    filename: str | None = None,
    content: str | None = None,
    if_match: str | None = None,
    if_none_match: str | None = None,
    prefix: str | None = None,
) -> _Request:
    """The request that uploads ``content`` to ``filename`` under a condition, or lists the names under ``prefix``."""
    headers = {
        "Accept": "application/json",
        "Authorization": f"Bearer {token}",
        "User-Agent": f"colony-memory/{__version__}",
    }
    if filename is None:
        return _Request("GET", f"{base_url}/vault/files?{urlencode({'prefix': prefix or ''})}", headers)
    headers["Content-Type"] = "application/json"
    if if_match is not None:
        headers["If-Match"] = f'"{if_match}"'
    if if_none_match is not None:
        headers["If-None-Match"] = if_none_match
    body = json.dumps({"content": content}).encode()
    return _Request("PUT", f"{base_url}/vault/files/{quote(filename, safe='/')}", headers, body)


def read_reply(reply: _Reply) -> Any:
    """The JSON of a success, together with the etag of what was written where the headers have it.

    Raises:
        Refused: The vault said no.
        _Unanswered: A success whose body is torn.
    """
    try:
        data = json.loads(reply.body)
    except (ValueError, RecursionError) as exc:
        if 200 <= reply.status < 300:
            raise _Unanswered("the reply is torn") from exc
        data = None
    if 200 <= reply.status < 300:
        etag = reply.headers.get("etag", "").strip('"')
        return {**data, "etag": etag} if etag and isinstance(data, dict) and "filename" in data else data
    detail = data.get("detail") if isinstance(data, dict) else None
    message, code = detail, None
    if isinstance(detail, dict):
        message, code = detail.get("message"), detail.get("code")
    elif isinstance(detail, list):
        message = "; ".join(str(item.get("msg")) for item in detail if isinstance(item, dict))
    if not isinstance(code, str):
        code = "PRECONDITION_FAILED" if reply.status == 412 else None
    said = f"HTTP {reply.status}" + (f", {message}" if isinstance(message, str) and message else "")
    raise Refused(said, reply.status, code, _whole(reply.headers.get("retry-after")))


def check_shape(method: str, reply: Any) -> Any:
    """The reply, if it has what the method owes; the SDK gives ``{}`` for a body that is empty or torn.

    Raises:
        _Unanswered: It has not.
    """
    bare = reply.get("result", reply) if isinstance(reply, dict) else reply
    if method == "vault_delete_file":
        return reply
    if method in {"vault_list_files", "vault_list_prefix"}:
        good = isinstance(bare.get("items", bare.get("files")) if isinstance(bare, dict) else bare, list)
    else:
        good = isinstance(bare, dict) and bool(bare)
    if method == "vault_get_file":
        good = good and isinstance(bare.get("content"), str)
    if not good:
        raise _Unanswered("the reply is torn, or not a vault's")
    return reply


def _tell(method: str, name: str) -> str:
    return {
        "vault_status": "asking for the quota",
        "vault_list_files": "listing the vault",
        "vault_list_prefix": f"listing {name}*",
        "vault_get_file": f"reading {name}",
        "vault_delete_file": f"deleting {name}",
    }.get(method, f"writing {name}")


def _speaks_of_a_file(error: Exception) -> bool:
    """Whether a 404 has the body of the vault's own, rather than a router's or a proxy's."""
    body = getattr(error, "response", None)
    detail = body.get("detail") if isinstance(body, dict) else None
    return isinstance(detail, dict) or (isinstance(detail, str) and detail not in _ROUTER_WORDS)


def _check_address(base_url: str) -> None:
    parts = urlsplit(base_url)
    if base_url and (parts.scheme not in {"http", "https"} or not parts.hostname or "@" in parts.netloc):
        # Not repeated: what stands there may be a key that was set in the wrong place.
        raise ValueError("base_url (or COLONY_BASE_URL) must be an http(s) address without user name or password")


def _check_name(filename: str) -> None:
    """Refuse a name that would make the address of something else."""
    if any(part in {"", ".", ".."} for part in filename.split("/")):
        raise VaultError(f"not a name of a vault file: {filename!r}", status=400, code="INVALID_INPUT")
    _check_text(filename)


def _check_text(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as exc:
        raise VaultError(f"not valid Unicode: {text!r}", status=400, code="INVALID_INPUT") from exc


def _is_plain(text: str) -> bool:
    """Whether a text can stand in a header."""
    return bool(text) and text.isascii() and text.isprintable()


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None


async def _ask_token(client: Any) -> Any:
    try:
        return await _settle(client.get_auth_token())
    except AssertionError:  # the SDK's own, where another thread gave its token up at this moment
        return await _settle(client.get_auth_token())


async def _settle(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value
