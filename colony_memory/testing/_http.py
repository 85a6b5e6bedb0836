"""HTTP for the emulator: requests in, replies out, one request a connection."""

from __future__ import annotations

import json
import logging
import socketserver
import sys
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from colony_memory.testing.fake import error_envelope

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from email.message import Message

__all__ = ["BASE", "Listener", "Reply", "Request", "encode", "ok", "refuse", "refuse_method", "tear"]

#: Where the API begins.
BASE = "/api/v1"

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Request:
    """A request that was read whole; ``path`` is decoded and begins after :data:`BASE`, "" outside it."""

    method: str
    path: str
    query: str
    headers: Message
    body: bytes

    @property
    def bearer(self) -> str:
        """The token it came with, or ``""``."""
        scheme, _, token = str(self.headers.get("Authorization", "")).partition(" ")
        return token if scheme == "Bearer" else ""

    @property
    def fields(self) -> dict[str, Any]:
        """Its JSON object; empty where the body is something else."""
        try:
            body = json.loads(self.body)
        except ValueError:
            return {}
        return body if isinstance(body, dict) else {}


@dataclass(frozen=True)
class Reply:
    """A reply. ``body`` None: none at all; ``sent``: how many bytes of it really go out, None for all."""

    status: int
    body: bytes | None
    headers: Mapping[str, str] = field(default_factory=dict)
    sent: int | None = None


class Listener(ThreadingHTTPServer):
    """Listens on a free port of 127.0.0.1. A reply of None closes the connection without one."""

    # Not daemons: server_close() waits for every request under way.
    daemon_threads = False
    request_queue_size = 128

    def __init__(self, respond: Callable[[Request], Reply | None]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.respond = respond

    def server_bind(self) -> None:
        """Bind without looking the host's name up, which may wait for a name server."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        """Log what the request died of; its connection is closed."""
        _logger.error("a request was not answered", exc_info=sys.exc_info())


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 10.0  # so that a client that sends nothing cannot keep the server from closing
    server: Listener

    def handle(self) -> None:
        try:
            super().handle()
        except ConnectionError as error:
            _logger.debug("the client went away: %s", error)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        _logger.debug(format, *args)

    def _serve(self) -> None:
        self.close_connection = True
        address = urlsplit(self.path)
        path = unquote(address.path)
        path = path[len(BASE) :] if path.startswith(f"{BASE}/") else ""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        reply = self.server.respond(Request(self.command, path, address.query, self.headers, body))
        if reply is None:
            return
        headers = {"Content-Type": "application/json", "Connection": "close", **reply.headers}
        if reply.body is not None:
            headers["Content-Length"] = str(len(reply.body))
        self.send_response(reply.status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write((reply.body or b"")[: reply.sent])

    do_GET = do_PUT = do_POST = do_DELETE = _serve  # noqa: N815


def encode(value: object) -> bytes:
    """A JSON body."""
    return json.dumps(value).encode()


def ok(value: object, headers: Mapping[str, str] | None = None) -> Reply:
    """200 with a JSON body."""
    return Reply(200, encode(value), headers or {})


def refuse(status: int, code: str | None, message: str, *, retry_after: int | None = None) -> Reply:
    """An error in the API's envelope."""
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return Reply(status, encode(error_envelope(status, code, message)), headers)


def refuse_method() -> Reply:
    """405: the path is known and the method is not."""
    return refuse(405, "METHOD_NOT_ALLOWED", "no such method here")


def tear(reply: Reply, *, whole: bool) -> Reply:
    """Half of a reply's body, announced as the whole or as what it is; no body counts as ``{}``."""
    body = reply.body or b"{}"
    status = 200 if reply.body is None else reply.status
    half = len(body) // 2
    return Reply(status, body if whole else body[:half], reply.headers, sent=half)
