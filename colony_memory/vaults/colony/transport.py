"""One request sent and its reply read, over the standard library or httpx, within bounds for the whole of it.

A vault that sends a byte a second, one ``100 Continue`` after the other, or headers without end keeps every single read
short. So there is one deadline from the connection to the last byte, and one count of all bytes that come. Replies are
asked for uncompressed, and none is unpacked: what is compressed all the same says nothing that can be read.
"""

from __future__ import annotations

import functools
import http.client
import io
import socket
import sys
import time
import urllib.request
from typing import TYPE_CHECKING, Any

from colony_memory.vaults.colony.requests import Reply, Request, Unanswered

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable

#: Bytes of a reply: the largest file of the hosted vault with every byte of it escaped, and a listing of 40,000 files.
MOST_BYTES = 8 * 2**20
# What headers, and the sizes of chunks of a thousand bytes, may take beside them.
_MOST_BESIDE = 2**20
_LATE = "the answer was not complete in time"
_TOO_LARGE = f"the answer is larger than {MOST_BYTES} bytes"


class _Limit:
    """What one request may still take."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self._left = MOST_BYTES + _MOST_BESIDE

    def seconds(self) -> float:
        """Time until the deadline."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError(_LATE)
        return left

    def count(self, number: int) -> None:
        """Bytes that came."""
        self._left -= number
        if self._left < 0:
            raise Unanswered(_TOO_LARGE)


class _Limited(http.client.HTTPConnection):
    """A connection on which everything together keeps within a limit."""

    def __init__(self, *args: Any, limit: _Limit, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._limit = limit
        self.response_class = self._response  # type: ignore[assignment]
        self._create_connection = self._reach  # where the class has what opens its socket

    def _response(self, sock: socket.socket, *args: Any, **kwargs: Any) -> http.client.HTTPResponse:
        return http.client.HTTPResponse(_Source(sock, self._limit), *args, **kwargs)  # type: ignore[arg-type]

    def _reach(self, address: tuple[str, int], *_: Any) -> socket.socket:
        # Each of a host's addresses within the deadline of all.
        error: OSError = TimeoutError(_LATE)
        for found in socket.getaddrinfo(*address, type=socket.SOCK_STREAM):
            try:
                return socket.create_connection((str(found[4][0]), address[1]), self._limit.seconds())
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


class _Source:
    """What a response takes for its socket: it asks for nothing but the file."""

    def __init__(self, sock: socket.socket, limit: _Limit) -> None:
        self._sock, self._limit = sock, limit

    def makefile(self, _mode: str) -> io.BufferedReader:
        """All that comes."""
        return io.BufferedReader(_Reads(self._sock, self._limit))


class _Reads(io.RawIOBase):
    def __init__(self, sock: socket.socket, limit: _Limit) -> None:
        self._sock, self._limit = sock, limit
        self._raw = sock.makefile("rb", buffering=0)

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


class _Http(urllib.request.HTTPHandler):
    def __init__(self, limit: _Limit) -> None:
        super().__init__()
        self._limit = limit

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Limited, req, limit=self._limit)  # type: ignore[arg-type]


class _Https(urllib.request.HTTPSHandler):
    """Reads the certificates when they are first needed, once for all: it takes longer than a call takes on its way."""

    def __init__(self, limit: _Limit) -> None:
        urllib.request.AbstractHTTPHandler.__init__(self)
        self._limit = limit

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_LimitedTls, req, limit=self._limit, context=tls_context())  # type: ignore[arg-type]


@functools.cache
def tls_context() -> ssl.SSLContext:
    """The certificates that this machine trusts, read once."""
    import ssl

    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def handlers(seconds: float) -> tuple[urllib.request.BaseHandler, ...]:
    """What makes an opener of urllib keep one deadline, and one count of bytes, for all that it is to open."""
    limit = _Limit(seconds)
    return _Http(limit), _Https(limit)


def transmit(request: Request, client: Any, timeout: float) -> Reply:
    """Send a request by the client's proxy, if it has one, and wait that long for all of its reply."""
    call = urllib.request.Request(request.url, request.body, dict(request.headers), method=request.method)  # noqa: S310
    proxy = getattr(client, "proxy", None)
    # HTTP and nothing else, and no redirect is followed: it is a reply like any other.
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler({"http": proxy, "https": proxy} if proxy else None),
        urllib.request.UnknownHandler(),
        *handlers(timeout),
    ):
        opener.add_handler(handler)
    try:
        with opener.open(call, timeout=timeout) as reply:
            return Reply(reply.status, _body(reply), {name.lower(): value for name, value in reply.headers.items()})
    except (OSError, http.client.HTTPException) as exc:
        raise Unanswered(_describe(exc)) from exc


def _body(reply: http.client.HTTPResponse) -> bytes:
    # Asked for before it is read: that much memory is taken at once. Without a length, one more shows that there is
    # more, and with one, only asking for all of it shows what is missing.
    body = b"" if (reply.length or 0) > MOST_BYTES else reply.read(MOST_BYTES + 1 if reply.length is None else None)
    if (reply.length or 0) > MOST_BYTES or len(body) > MOST_BYTES:
        raise Unanswered(_TOO_LARGE)
    return body


async def transmit_async(request: Request, pool: Any, errors: Any, timeout: float) -> Reply:
    """The same over httpx: a client of it, and the module, for its errors."""
    try:
        return await _within(timeout, _receive(request, pool))
    except (errors.HTTPError, errors.InvalidURL) as exc:
        why = _describe(exc)
    except TimeoutError:
        why = _LATE
    # Outside of what was raised, which has the request, and that the token.
    raise Unanswered(why)


async def _receive(request: Request, pool: Any) -> Reply:
    headers = {"Accept-Encoding": "identity", **request.headers}
    pieces, left = list[bytes](), MOST_BYTES
    async with pool.stream(request.method, request.url, headers=headers, content=request.body) as reply:
        async for piece in reply.aiter_raw():
            left -= len(piece)
            if left < 0:
                raise Unanswered(_TOO_LARGE)
            pieces.append(piece)
        return Reply(reply.status_code, b"".join(pieces), dict(reply.headers))


async def _within(seconds: float, work: Awaitable[Reply]) -> Reply:
    import asyncio

    if sys.version_info >= (3, 11):
        async with asyncio.timeout(seconds):
            return await work
    try:
        return await asyncio.wait_for(work, seconds)
    except asyncio.TimeoutError:
        raise TimeoutError(_LATE) from None


def _describe(error: Exception) -> str:
    reason = getattr(error, "reason", error)
    if isinstance(reason, OSError) and reason.strerror:
        return reason.strerror  # what people know it by
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
