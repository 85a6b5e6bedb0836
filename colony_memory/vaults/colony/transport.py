"""The vault's API: its requests, how they are sent, and how replies are read.

A vault that sends a byte a second, one ``100 Continue`` after the other, or headers without end keeps every single read
short. So there is one deadline from the connection to the last byte, and one count of all received bytes. Replies are
requested uncompressed, and none is unpacked: one that is compressed all the same cannot be read.
"""

from __future__ import annotations

import functools
import http.client
import io
import json
import socket
import sys
import time
import urllib.request
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from colony_memory._values import Value, field
from colony_memory._version import __version__
from colony_memory.exceptions import VaultError

if TYPE_CHECKING:
    import ssl

_MOST_DIGITS = 12
_ROUTER_WORDS = frozenset({"", "Not Found"})  # a web framework's words for an address that it does not serve
# Most objects and lists in a reply, since each takes up to a hundred times its bytes; in a small one none are counted.
_MOST_NODES, _FEW_BYTES = 400_000, 2**20


class Request(Value):
    """A request; the token is in its headers, so that its repr leaves them out."""

    method: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | None = field(default=None, repr=False)


class Reply(Value):
    """A reply; ``headers`` by lower-case name."""

    status: int
    body: bytes
    headers: Mapping[str, str]


class Refused(Exception):
    """A refusal, like the SDK's errors; ``own`` if it is in the vault's own words, not a router's or a proxy's."""

    def __init__(
        self, message: str, status: int | None, code: str | None, retry_after: float | None, *, own: bool = False
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.retry_after, self.own = status, code, retry_after, own


class Unanswered(Exception):
    """No reply, or none that can be read."""


def file_path(filename: str) -> str:
    if any(part in {"", ".", ".."} for part in filename.split("/")):
        raise VaultError(f"not a name of a vault file: {filename!r}", status=400, code="INVALID_INPUT")
    check_text(filename)
    return f"/vault/files/{quote(filename, safe='/')}"


def build_request(
    url: str,
    token: str | None,
    method: str = "GET",
    *,
    body: object = None,
    if_match: str | None = None,
    if_none_match: str | None = None,
) -> Request:
    """A request of the API: ``body`` is sent as JSON, ``if_match`` as an etag in its quotes."""
    headers = {"Accept": "application/json", "User-Agent": f"colony-memory/{__version__}"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    if body is not None:
        headers["Content-Type"] = "application/json"
    if if_match is not None:
        headers["If-Match"] = f'"{if_match}"'
    if if_none_match is not None:
        headers["If-None-Match"] = if_none_match
    return Request(method, url, headers, None if body is None else json.dumps(body).encode())


def read_reply(reply: Reply) -> Any:
    """The JSON of a successful reply, with the etag of a written file if the headers have it."""
    good = 200 <= reply.status < 300
    if good and not reply.body:
        return {}
    try:
        if len(reply.body) > _FEW_BYTES and reply.body.count(b"{") + reply.body.count(b"[") > _MOST_NODES:
            raise ValueError("it holds too much")
        data = json.loads(reply.body)
    except (ValueError, RecursionError) as exc:
        if good:
            raise Unanswered("the reply is torn") from exc
        data = None
    if good:
        etag = reply.headers.get("etag", "").strip('"')
        return {"etag": etag, **data} if etag and isinstance(data, dict) and "filename" in data else data
    text = f"HTTP {reply.status}"
    if 300 <= reply.status < 400:
        # The body of a redirect is not believed, and so not read.
        raise Refused(text, reply.status, None, None)
    detail = data.get("detail") if isinstance(data, dict) else None
    message, code = detail, None
    if isinstance(detail, dict):
        message, code = detail.get("message"), detail.get("code")
    elif isinstance(detail, list):
        message = "; ".join(str(item.get("msg")) for item in detail if isinstance(item, dict))
    if not isinstance(code, str):
        code = "PRECONDITION_FAILED" if reply.status == 412 else None
    text += f", {message}" if isinstance(message, str) and message else ""
    own = isinstance(detail, dict) or (isinstance(detail, str) and detail not in _ROUTER_WORDS)
    raise Refused(text, reply.status, code, whole_number(reply.headers.get("retry-after")), own=own)


def delay_before_retry(reply: Reply, attempt: int, retry: Any) -> float | None:
    """Seconds until a request is sent again, None if it is not; by the rules of the SDK's ``RetryConfig``."""
    if attempt >= retry.max_retries or reply.status not in retry.retry_on:
        return None
    header = reply.headers.get("retry-after")
    wait = whole_number(header)
    if wait is None:
        # A date, or a number beyond all bounds: nothing to go by, and no leave to be quick.
        return None if header else min(retry.base_delay * 2**attempt, retry.max_delay)
    return None if wait > retry.max_retry_after else float(wait)


def check_shape(shape: str, reply: Any) -> Any:
    """The reply, if it has the expected shape; the SDK gives ``{}`` for a body that is empty or torn."""
    bare = reply.get("result", reply) if isinstance(reply, dict) else reply
    good = shape == "nothing" or (isinstance(bare, dict) and bool(bare))
    if shape == "listing":
        good = isinstance(bare.get("items", bare.get("files")) if isinstance(bare, dict) else bare, list)
    if not good or (shape == "content" and not isinstance(bare.get("content"), str)):
        raise Unanswered("the reply is torn, or not a vault's")
    return reply


def check_text(text: str) -> None:
    """Check a text. VaultError: UTF-8 cannot hold it."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as exc:
        raise VaultError(f"not valid Unicode: {text!r}", status=400, code="INVALID_INPUT") from exc


def is_plain(text: str) -> bool:
    return bool(text) and text.isascii() and text.isprintable()


def whole_number(text: str | None) -> int | None:
    """The number in a header; None if there is none, or one that no clock and no count reaches."""
    if text is None or not text.isascii() or not text.isdigit() or len(text) > _MOST_DIGITS:
        return None
    return int(text)


#: Most bytes of a reply: the hosted vault's largest file with every byte escaped, or a listing of 40,000 files.
MOST_BYTES = 8 * 2**20
# Bytes in addition for the headers, and for the sizes of chunks of a thousand bytes.
_MOST_OVERHEAD = 2**20
_LATE = "the answer was not complete in time"
_TOO_LARGE = f"the answer is larger than {MOST_BYTES} bytes"


class _Limit:
    """The remaining time and bytes of one request."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self._remaining = MOST_BYTES + _MOST_OVERHEAD

    def seconds(self) -> float:
        """Time until the deadline."""
        remaining = self._end - time.monotonic()
        if remaining <= 0:
            raise TimeoutError(_LATE)
        return remaining

    def count(self, number: int) -> None:
        """Subtract received bytes."""
        self._remaining -= number
        if self._remaining < 0:
            raise Unanswered(_TOO_LARGE)


class _Limited(http.client.HTTPConnection):
    """A connection on which all calls together keep within a limit."""

    def __init__(self, *args: Any, limit: _Limit, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._limit = limit
        self.response_class = self._response  # type: ignore[assignment]
        self._create_connection = self._reach  # the class's hook to open its socket

    def _response(self, sock: socket.socket, *args: Any, **kwargs: Any) -> http.client.HTTPResponse:
        return http.client.HTTPResponse(_Source(sock, self._limit), *args, **kwargs)  # type: ignore[arg-type]

    def _reach(self, address: tuple[str, int], *_: Any) -> socket.socket:
        # All addresses of a host share one deadline.
        error: OSError = TimeoutError(_LATE)
        for info in socket.getaddrinfo(*address, type=socket.SOCK_STREAM):
            try:
                return socket.create_connection((str(info[4][0]), address[1]), self._limit.seconds())
            except OSError as exc:
                error = exc
        raise error

    def send(self, data: Any) -> None:
        """Send, all of it in time."""
        if self.sock is None:
            self.connect()
        self.sock.settimeout(self._limit.seconds())
        super().send(data)


class _LimitedTls(_Limited, http.client.HTTPSConnection):
    """The same over TLS."""


class _Source(io.RawIOBase):
    """A stand-in for the socket of a response, which uses nothing but its file."""

    def __init__(self, sock: socket.socket, limit: _Limit) -> None:
        self._sock, self._limit = sock, limit
        self._raw = sock.makefile("rb", buffering=0)

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int | None:
        self._sock.settimeout(self._limit.seconds())
        number = self._raw.readinto(into)
        self._limit.count(number or 0)
        return number

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Handler(urllib.request.AbstractHTTPHandler):
    http_request = https_request = urllib.request.AbstractHTTPHandler.do_request_

    def __init__(self, limit: _Limit) -> None:
        super().__init__()
        self._limit = limit

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Limited, req, limit=self._limit)  # type: ignore[arg-type]

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_LimitedTls, req, limit=self._limit, context=tls_context())  # type: ignore[arg-type]


@functools.cache
def tls_context() -> ssl.SSLContext:
    """Made on first use, once for all: reading the certificates takes longer than a call's round trip."""
    import ssl

    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def transmit(request: Request, client: Any, timeout: float) -> Reply:
    """Send a request, by the client's proxy if it has one, and wait ``timeout`` seconds at most for the whole reply."""
    call = urllib.request.Request(request.url, request.body, dict(request.headers), method=request.method)  # noqa: S310
    proxy = getattr(client, "proxy", None)
    # HTTP and nothing else. No redirect is followed: it is a reply like any other.
    opener, limit = urllib.request.OpenerDirector(), _Limit(timeout)
    for handler in (
        urllib.request.ProxyHandler({"http": proxy, "https": proxy} if proxy else None),
        urllib.request.UnknownHandler(),
        _Handler(limit),
    ):
        opener.add_handler(handler)
    try:
        with opener.open(call, timeout=timeout) as reply:
            # The length is checked first, since a read allocates all of it. Without a length, one byte more than may be
            # shows that there is too much; with one, only a read to the end shows that something is missing.
            most = MOST_BYTES + 1 if reply.length is None else None
            body = b"" if (reply.length or 0) > MOST_BYTES else reply.read(most)
            if (reply.length or 0) > MOST_BYTES or len(body) > MOST_BYTES:
                raise Unanswered(_TOO_LARGE)
            return Reply(reply.status, body, {name.lower(): value for name, value in reply.headers.items()})
    except (OSError, http.client.HTTPException) as exc:
        raise Unanswered(_describe(exc)) from exc


async def transmit_async(request: Request, pool: Any, errors: Any, timeout: float) -> Reply:
    """The same over httpx: ``pool`` is its client, ``errors`` the module, for its exceptions."""
    import asyncio

    try:
        if sys.version_info >= (3, 11):
            async with asyncio.timeout(timeout):  # wait_for() loses a cancellation that comes with the answer
                return await _receive(request, pool)
        return await asyncio.wait_for(_receive(request, pool), timeout)
    except (errors.HTTPError, errors.InvalidURL) as exc:
        why = _describe(exc)
    except asyncio.TimeoutError:
        why = _LATE
    # Outside the handler: the exception has the request, and that the token.
    raise Unanswered(why)


async def _receive(request: Request, pool: Any) -> Reply:
    headers = {"Accept-Encoding": "identity", **request.headers}
    pieces, remaining = list[bytes](), MOST_BYTES
    async with pool.stream(request.method, request.url, headers=headers, content=request.body) as reply:
        async for piece in reply.aiter_raw():
            remaining -= len(piece)
            if remaining < 0:
                raise Unanswered(_TOO_LARGE)
            pieces.append(piece)
        return Reply(reply.status_code, b"".join(pieces), dict(reply.headers))


def _describe(error: Exception) -> str:
    reason = getattr(error, "reason", error)
    if isinstance(reason, OSError) and reason.strerror:
        return reason.strerror  # the system's words, which people know
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
