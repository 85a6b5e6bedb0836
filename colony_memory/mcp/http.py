"""The server on a port of this machine, for hosts that connect: behind a token, and for nobody beyond loopback.

A web page that a browser of this machine shows can send requests to loopback too, also under a name of its own that
leads here. So a request must name this address as its host, come from no page, and bear the token.
"""

from __future__ import annotations

import hmac
import secrets
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings

from colony_memory._keyfile import read_key_file, write_key_file
from colony_memory.exceptions import ColonyMemoryError

if TYPE_CHECKING:
    import os
    from collections.abc import Awaitable, Callable, MutableMapping

    from colony_memory.mcp.server import MemoryServer

    Scope = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
    Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
    App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK = "127.0.0.1"
PATH = "/mcp"
_BYTES = 32
_SHORTEST = 32
#: Bytes of a request: arguments are small.
_MOST_BYTES = 2**18
#: Seconds that connections have at the end.
_LAST = 5


def new_token() -> str:
    """A token that nobody guesses."""
    return secrets.token_urlsafe(_BYTES)


def read_token(path: str | os.PathLike[str]) -> tuple[str, bool]:
    """The token in a file, and whether it was made now: where there is no such file, one is made for its owner alone.

    Raises:
        ColonyMemoryError: It is open to others, cannot be read or made, or holds no token.
    """
    place = Path(path)
    if not place.exists() and not place.is_symlink():
        token = new_token()
        write_key_file(place, f"{token}\n".encode("ascii"))
        return token, True
    text = read_key_file(place).decode("ascii", "replace").strip()
    if len(text) < _SHORTEST or not text.isprintable() or not text.isascii() or " " in text:
        raise ColonyMemoryError(
            f"{str(place)!r} holds no token: at least {_SHORTEST} letters, digits and signs on a line"
        )
    return text, False


def listen(port: int) -> socket.socket:
    """A socket on loopback; 0 takes a port that is free.

    Raises:
        ValueError: The port cannot be had.
    """
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((LOOPBACK, port))
        found.listen(64)
    except (OSError, OverflowError) as error:
        found.close()
        raise ValueError(f"port {port} cannot be had: {getattr(error, 'strerror', None) or error}") from error
    return found


class Guard:
    """Lets through what names this address as its host, comes from no page of another, and bears the token."""

    def __init__(self, app: App, *, token: str, port: int) -> None:
        self._app = app
        self._token = token.encode("ascii")
        self._hosts = frozenset(f"{name}:{port}".encode("ascii") for name in (LOOPBACK, "localhost"))
        self._origins = frozenset(b"http://" + host for host in self._hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await _answer(send, *refusal)
        else:
            await send({"type": "websocket.close", "code": 1008})

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        given: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            given.setdefault(name.lower(), []).append(value)
        if len(given.get(b"host", [])) != 1 or given[b"host"][0].lower() not in self._hosts:
            return 421, "the host of this request is not this server"
        if any(each.lower() not in self._origins for each in given.get(b"origin", [])):
            return 403, "requests from a page are not answered"
        kind, _, token = given.get(b"authorization", [b""])[0].partition(b" ")
        ours = hmac.compare_digest(token.strip(), self._token)
        if len(given.get(b"authorization", [])) != 1 or kind.lower() != b"bearer" or not ours:
            return 401, "the token of this server is needed: Authorization: Bearer TOKEN"
        return None if scope["type"] == "http" else (403, "no web sockets here")


async def _answer(send: Send, status: int, text: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"cache-control", b"no-store")]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": f"{text}\n".encode()})


def application(server: MemoryServer, *, token: str, port: int) -> App:
    """The server as an ASGI application."""
    hosts = [f"{name}:{port}" for name in (LOOPBACK, "localhost")]
    # The library looks at host and origin too.
    settings = TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=[f"http://{host}" for host in hosts])
    app: Any = server.streamable_http_app(
        streamable_http_path=PATH, max_request_body_size=_MOST_BYTES, transport_security=settings
    )
    return Guard(app, token=token, port=port)


def serve_http(server: MemoryServer, at: socket.socket, *, token: str) -> None:
    """Serve until SIGINT or SIGTERM comes, which is raised again then."""
    config = uvicorn.Config(
        application(server, token=token, port=at.getsockname()[1]),
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        ws="none",
        lifespan="on",
        limit_concurrency=100,
        timeout_graceful_shutdown=_LAST,
    )
    uvicorn.Server(config).run(sockets=[at])
