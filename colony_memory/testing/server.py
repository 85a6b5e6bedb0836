"""The hosted vault over HTTP on loopback, for tests through the real ``ColonyClient``: a request a connection."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import secrets
import socketserver
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

from colony_memory._values import NamedTuple
from colony_memory.testing.fake import FakeVault, error_envelope
from colony_memory.testing.faults import Injection

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["VaultServer"]


#: The path at which the API begins.
BASE = "/api/v1"

_logger = logging.getLogger(__name__)


class Reply(NamedTuple):
    """A reply. ``body``: None for none at all; ``sent``: bytes of it that really go out, None for all."""

    status: int
    body: bytes | None
    headers: Mapping[str, str] = {}
    sent: int | None = None


class Listener(ThreadingHTTPServer):
    """Listens on a free port of 127.0.0.1. A reply of None closes the connection without one."""

    # Not daemons: server_close() waits for every request under way.
    daemon_threads = False
    request_queue_size = 128

    def __init__(self, respond: Callable[[Request], Reply | None]) -> None:
        super().__init__(("127.0.0.1", 0), Request)
        self.respond = respond

    def server_bind(self) -> None:
        """Bind without looking up the host's name, which may wait for a name server."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        """Log the error of a request, at a lower level if the client went away; its connection is closed."""
        error = sys.exc_info()
        level = logging.DEBUG if isinstance(error[1], ConnectionError) else logging.ERROR
        _logger.log(level, "a request was not answered", exc_info=error)


class Request(BaseHTTPRequestHandler):
    """A request; once it was read, ``path`` is decoded and without :data:`BASE`, "" if it is outside of that."""

    protocol_version = "HTTP/1.1"
    timeout = 10.0  # so that a client that sends nothing cannot keep the server from closing
    server: Listener

    def log_message(self, *args: Any) -> None:
        _logger.debug(*args)

    def _serve(self) -> None:
        self.close_connection = True
        self.method, address = self.command, urlsplit(self.path)
        path, self.query = unquote(address.path), address.query
        self.path = path[len(BASE) :] if path.startswith(f"{BASE}/") else ""
        self.bearer = self.headers.get("Authorization", "").removeprefix("Bearer ")
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        reply = self.server.respond(self)
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

    def field(self, name: str) -> Any:
        """A field of its JSON object, None if the body is something else."""
        try:
            body = json.loads(self.body)
        except ValueError:
            return None
        return body.get(name) if isinstance(body, dict) else None


def ok(value: object, headers: Mapping[str, str] | None = None) -> Reply:
    """200 with a JSON body."""
    return Reply(200, json.dumps(value).encode(), headers or {})


def refuse(status: int, code: str | None, message: str, *, retry_after: int | None = None) -> Reply:
    """An error in the API's envelope."""
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return Reply(status, json.dumps(error_envelope(status, code, message)).encode(), headers)


_FILES = "/vault/files/"
_ROUTES = {
    "/auth/token": ("POST",),
    "/me/capabilities": ("GET",),
    "/vault/files": ("GET",),
    "/vault/status": ("GET",),
    _FILES: ("GET", "PUT", "DELETE"),
}
_TOKEN_SECONDS = 24 * 3600
_METHODS = ("GET", "PUT", "DELETE", "POST", "*")
_GARBAGE = b"<!doctype html><title>Please wait</title>"

# The options of each kind of fault, with their defaults.
_OPTIONS: dict[str, dict[str, Any]] = {
    "applied": {"then": "drop", "status": 503, "code": None, "retry_after": None},
    "delay": {"seconds": 0.1},
    "drop": {},
    "expired": {},
    "garbage": {"applied": False},
    "status": {"status": 503, "code": None, "retry_after": None},
    "torn": {"declared": "whole"},
}
_CHOICES = {"then": ("drop", "status"), "declared": ("whole", "sent")}


class VaultServer:
    """An HTTP server on 127.0.0.1 that keeps to the API of the hosted vault.

    ::

        with VaultServer() as server:
            client = colony_sdk.ColonyClient("col_test", base_url=server.url)
            server.fault("PUT", "applied", path="latest")

    It knows ``POST /auth/token``, ``GET /vault/status``, ``GET /vault/files?prefix=``, ``GET``, ``PUT`` and
    ``DELETE /vault/files/{path}`` and ``GET /me/capabilities``, with the API's envelopes, ``ETag``, conditions and, for
    ``PUT`` and ``DELETE``, ``X-RateLimit-*``. Set ``COLONY_SDK_NO_TOKEN_CACHE=1`` around the SDK, which otherwise keeps
    tokens on disk.

    Args:
        vault: The vault to serve, by default a new :class:`FakeVault`.
        api_key: The key that ``/auth/token`` takes; any other gets a 401.
        clock: Seconds since the epoch, for the 24 hours of a token and for the vault made here.
    """

    KINDS: ClassVar[tuple[str, ...]] = tuple(_OPTIONS)  #: The kinds of fault, see :meth:`fault`.

    def __init__(
        self, vault: FakeVault | None = None, *, api_key: str = "col_test", clock: Callable[[], float] = time.time
    ) -> None:
        #: The vault that is served. It can be looked at and changed directly.
        self.vault = FakeVault(clock=clock) if vault is None else vault
        self.api_key = api_key
        self.clock = clock
        #: ``(method, path)`` of every request, the path decoded and without ``/api/v1``.
        self.calls: list[tuple[str, str]] = []
        self._faults: list[Injection] = []
        self._tokens: dict[str, float] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._listener: Listener | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        """Base address for the SDK, ending in ``/api/v1``, while it runs."""
        if self._listener is None:
            raise RuntimeError("the server is not running: use it in a with statement, or call start()")
        return f"http://127.0.0.1:{self._listener.server_address[1]}{BASE}"

    def start(self) -> None:
        """Listen on a free port. A server may be started again after :meth:`close`, with the same vault."""
        if self._listener is not None:
            raise RuntimeError("the server is running already")
        self._closing.clear()
        self._listener = Listener(self._respond)
        self._thread = threading.Thread(
            target=self._listener.serve_forever, kwargs={"poll_interval": 0.002}, name="vault-server"
        )
        self._thread.start()

    def close(self) -> None:
        """Stop, and wait for the requests under way. Does nothing if it is not running."""
        if self._listener is None or self._thread is None:
            return
        self._closing.set()
        self._listener.shutdown()
        self._listener.server_close()
        self._thread.join()
        self._listener = self._thread = None

    def expire_tokens(self) -> None:
        """Make every token issued so far invalid; the next ``/auth/token`` gives one that is valid."""
        self._tokens.clear()

    def fault(
        self, method: str, kind: str, *, path: str | None = None, times: int | None = 1, skip: int = 0, **options: Any
    ) -> Injection:
        """Make requests fail. If several faults fit a request, the first one given strikes.

        ============  ====================================================================================
        kind          what happens, and the options with their defaults
        ============  ====================================================================================
        ``applied``   Carried out; then the connection is closed without a reply (``then="drop"``) or an
                      error is sent (``then="status"``, and the options of that).
        ``delay``     Answered as ever, but after ``seconds=0.1``.
        ``drop``      The connection is closed without a reply, and nothing is carried out.
        ``expired``   401 AUTH_INVALID_TOKEN, and the request's token is invalid from now on.
        ``garbage``   200 with a page of HTML; carried out only with ``applied=True``.
        ``status``    An error and nothing carried out: ``status=503``, ``code=None``, ``retry_after=None``.
        ``torn``      Carried out; half of the body is sent, then the connection is closed. The length that was
                      announced is that of all (``declared="whole"``) or of the half (``declared="sent"``).
        ============  ====================================================================================

        Args:
            method: ``"GET"``, ``"PUT"``, ``"DELETE"``, ``"POST"`` (only ``/auth/token``) or ``"*"``.
            kind: One of :attr:`KINDS`.
            path: A part of the decoded path, such as a filename. None: every path, ``/auth/token`` included.
            times: Number of requests that it strikes, or None for all from now on.
            skip: Number of fitting requests that pass first.
            options: See above.

        Raises:
            ValueError: Unknown method, kind or option.
        """
        choices: list[tuple[str, Any, Iterable[str]]] = [("method", method, _METHODS), ("kind", kind, self.KINDS)]
        choices += [("option", option, _OPTIONS.get(kind, ())) for option in options]
        choices += [(option, options[option], allowed) for option, allowed in _CHOICES.items() if option in options]
        for name, value, allowed in choices:
            if value not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")
        fault = Injection(method, path, times, skip, (kind, {**_OPTIONS[kind], **options}))
        with self._lock:
            self._faults.append(fault)
        return fault

    def heal(self) -> None:
        """Forget every fault."""
        with self._lock:
            self._faults.clear()

    def _respond(self, request: Request) -> Reply | None:
        """The reply to a request, or None to close the connection without one."""
        with self._lock:
            self.calls.append((request.method, request.path))
            struck = next((f for f in self._faults if f.strike(request.method, request.path)), None)
        if struck is None:
            return self._answer(request)
        kind, options = struck.what
        if kind == "expired":
            self._tokens.pop(request.bearer, None)
            return _refuse_token()
        if kind == "delay":
            self._closing.wait(options["seconds"])
            return self._answer(request)
        if kind == "torn":
            answer = self._answer(request)
            body, status = answer.body or b"{}", 200 if answer.body is None else answer.status
            half = len(body) // 2
            return Reply(status, body if options["declared"] == "whole" else body[:half], answer.headers, sent=half)
        if options.get("applied") or kind == "applied":
            self._answer(request)
        if kind == "garbage":
            return Reply(200, _GARBAGE, {"Content-Type": "text/html"})
        if kind == "drop" or options.get("then") == "drop":
            return None
        return refuse(options["status"], options["code"], "injected fault", retry_after=options["retry_after"])

    def _answer(self, request: Request) -> Reply:
        from colony_sdk import ColonyAPIError

        method, path, vault = request.method, request.path, self.vault
        allowed = _ROUTES.get(_FILES if path.startswith(_FILES) else path)
        if allowed is None:
            return refuse(404, "NOT_FOUND", f"no such route below {BASE}")
        if method not in allowed:
            return refuse(405, "METHOD_NOT_ALLOWED", "no such method here")
        if path == "/auth/token":
            if request.field("api_key") != self.api_key:
                return refuse(401, "AUTH_INVALID_KEY", "unknown API key")
            token = secrets.token_urlsafe(24)
            self._tokens[token] = self.clock()
            return ok({"access_token": token, "token_type": "bearer"})
        issued = self._tokens.get(request.bearer)
        if issued is None or self.clock() >= issued + _TOKEN_SECONDS:
            return _refuse_token()
        try:
            reply = self._handle(request, path.removeprefix(_FILES))
        except ColonyAPIError as error:
            reply = refuse(error.status, error.code, str(error), retry_after=getattr(error, "retry_after", None))
        limit = vault.operations_per_hour
        if limit is None or method == "GET":
            return reply
        reset = math.ceil(vault.clock() + vault.seconds_to_reset())
        facts = {"Limit": limit, "Remaining": vault.vault_operations_left(), "Reset": reset}
        counted = {f"X-RateLimit-{name}": str(fact) for name, fact in facts.items()}
        return Reply(reply.status, reply.body, {**reply.headers, **counted})

    def _handle(self, request: Request, name: str) -> Reply:
        vault = self.vault
        if name == "/vault/status":
            return ok(vault.vault_status())
        if name == "/vault/files":
            prefix = parse_qs(request.query, keep_blank_values=True).get("prefix")
            return ok(vault.vault_list_prefix(prefix[0]) if prefix else vault.vault_list_files())
        if name == "/me/capabilities":
            return ok({"capabilities": [{"name": "write_vault", "allowed": vault.karma_ok}]})
        if request.method == "GET":
            found = vault.vault_get_file(name)
            return ok(found, {"ETag": f'"{found["etag"]}"'})
        if request.method == "DELETE":
            vault.vault_delete_file(name)
            return Reply(204, None)
        content = request.field("content")
        if not isinstance(content, str):
            return refuse(422, None, "content must be a string")
        if_match, if_none_match = request.headers.get("If-Match"), request.headers.get("If-None-Match")
        if if_none_match not in (None, "*"):
            return refuse(400, "INVALID_INPUT", "If-None-Match takes only *")
        if if_match is not None:
            # An etag without quotes is no etag, and so fits no file.
            quoted = len(if_match) > 1 and if_match[0] == if_match[-1] == '"'
            if_match = if_match[1:-1] if quoted else ""
        reply = vault.vault_upload_file_if(name, content, if_match=if_match, if_none_match=if_none_match)
        return ok(reply, {"ETag": f'"{hashlib.sha256(content.encode()).hexdigest()}"'})


def _refuse_token() -> Reply:
    return refuse(401, "AUTH_INVALID_TOKEN", "the token is missing, unknown or expired")
