from __future__ import annotations

import http.client
import json
import logging
import socket
import threading
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from colony_sdk import (
    ColonyAPIError,
    ColonyAuthError,
    ColonyClient,
    ColonyNetworkError,
    ColonyRateLimitError,
    ColonyServerError,
    ColonyValidationError,
    RetryConfig,
)
from faces import Clock

from colony_memory.testing import FakeVault, VaultServer

if TYPE_CHECKING:
    from collections.abc import Iterator

ONCE = RetryConfig(max_retries=0)


@pytest.fixture(autouse=True)
def _sdk_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLONY_SDK_NO_TOKEN_CACHE", "1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def server() -> Iterator[VaultServer]:
    with VaultServer() as running:
        yield running


def connect(server: VaultServer, **options: Any) -> ColonyClient:
    options = {"retry": ONCE, "auth_token_retry": ONCE, "timeout": 5, **options}
    return ColonyClient(options.pop("api_key", "col_test"), base_url=server.url, **options)


@pytest.fixture
def client(server: VaultServer) -> ColonyClient:
    return connect(server)


def ask(
    server: VaultServer,
    method: str,
    path: str,
    *,
    token: str | None = None,
    body: object = None,
    headers: dict[str, str] | None = None,
) -> tuple[int, http.client.HTTPMessage, Any]:
    address = urlsplit(server.url)
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=5)
    try:
        sent = dict(headers or {})
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        raw = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        connection.request(method, path if path.startswith("http") else address.path + path, raw, sent)
        reply = connection.getresponse()
        text = reply.read()
        return reply.status, reply.headers, json.loads(text) if text else None
    finally:
        connection.close()


# What the API does.


def test_the_five_methods_through_the_sdk(server: VaultServer, client: ColonyClient) -> None:
    assert client.vault_status() == {"quota_bytes": 0, "used_bytes": 0, "available_bytes": 0, "file_count": 0}
    uploaded = client.vault_upload_file("notes/día 1 #2 50%.md", "hi 🧠\r\n\x00")
    assert uploaded == server.vault.vault_list_files()["items"][0]
    got = client.vault_get_file("notes/día 1 #2 50%.md")
    assert got == {**uploaded, "content": "hi 🧠\r\n\x00", "etag": got["etag"]}
    assert client.vault_list_files() == {"items": [uploaded], "total": 1, "has_more": False}
    assert client.vault_status()["file_count"] == 1
    assert client.vault_delete_file("notes/día 1 #2 50%.md") == {}
    assert server.vault.files == {}
    path = "/vault/files/notes/día 1 #2 50%.md"
    assert server.calls == [
        ("POST", "/auth/token"),
        ("GET", "/vault/status"),
        ("PUT", path),
        ("GET", path),
        ("GET", "/vault/files"),
        ("GET", "/vault/status"),
        ("DELETE", path),
    ]


def test_the_bucket_and_its_headers() -> None:
    clock = Clock(1_767_225_600.5)
    with VaultServer(FakeVault(operations_per_hour=3, clock=clock)) as server:
        client = connect(server)
        client.vault_upload_file("a.md", "x")
        assert client.last_rate_limit is not None
        assert client.last_rate_limit.limit == 3
        assert client.last_rate_limit.remaining == 2
        assert client.last_rate_limit.reset == 1_767_229_201
        client.vault_get_file("a.md")
        assert client.last_rate_limit.limit is None  # reads are of another bucket
        client.vault_delete_file("a.md")
        assert client.last_rate_limit.remaining == 1
        client.vault_upload_file("a.md", "x")
        clock.now += 1000
        with pytest.raises(ColonyRateLimitError) as caught:
            client.vault_upload_file("a.md", "y")
        assert (caught.value.status, caught.value.code, caught.value.retry_after) == (429, "RATE_LIMIT", 2600)
        status, headers, body = ask(server, "DELETE", "/vault/files/a.md", token=client.get_auth_token())
        assert (status, headers["Retry-After"], headers["X-RateLimit-Remaining"]) == (429, "2600", "0")
        assert body["detail"]["code"] == "RATE_LIMIT"
        assert server.vault.files == {"a.md": "x"}
        server.vault.operations_per_hour = None
        status, headers, _ = ask(server, "DELETE", "/vault/files/a.md", token=client.get_auth_token())
        assert (status, headers["X-RateLimit-Limit"], headers["Content-Length"]) == (204, None, None)


def test_etags_and_conditions(server: VaultServer, client: ColonyClient) -> None:
    token = client.get_auth_token()

    def put(text: str, **headers: str) -> tuple[int, str | None]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        status, found, body = ask(
            server, "PUT", "/vault/files/p.json", token=token, body={"content": text}, headers=named
        )
        if status == 200:
            assert "content" not in body
        else:
            assert body["detail"]["code"] == ("PRECONDITION_FAILED" if status == 412 else "INVALID_INPUT")
        return status, found["ETag"]

    status, first = put("one", If_None_Match="*")
    assert status == 200
    assert first is not None
    got = client.vault_get_file("p.json")
    assert first == f'"{got["etag"]}"'
    assert ask(server, "GET", "/vault/files/p.json", token=token)[1]["ETag"] == first
    assert put("two", If_None_Match="*") == (412, None)
    assert put("two", If_Match='"0"') == (412, None)
    assert put("two", If_Match=got["etag"]) == (412, None)  # an etag goes in quotes
    assert put("two", If_Match='"') == (412, None)
    assert put("two", If_None_Match=first) == (400, None)
    assert server.vault.files == {"p.json": "one"}
    assert put("two", If_Match=first)[0] == 200
    assert put("three", If_Match=first) == (412, None)
    assert put("three", If_None_Match="*") == (412, None)
    assert server.vault.files == {"p.json": "two"}


def test_unknown_routes_methods_and_bodies(server: VaultServer, client: ColonyClient) -> None:
    token = client.get_auth_token()
    outside = f"http://127.0.0.1:{urlsplit(server.url).port}/vault/status"
    requests: list[tuple[int, str, str, object]] = [
        (404, "GET", "/nowhere", None),
        (404, "GET", outside, None),
        (405, "POST", "/vault/files/a.md/append", {"content": "x"}),
        (405, "DELETE", "/vault/files", None),
        (405, "GET", "/auth/token", None),
        (422, "PUT", "/vault/files/a.md", {"content": 1}),
        (422, "PUT", "/vault/files/a.md", ["content"]),
        (422, "PUT", "/vault/files/a.md", b"{"),
        (422, "PUT", "/vault/files/a.md", None),
    ]
    for status, method, path, body in requests:
        found, _, reply = ask(server, method, path, token=token, body=body)
        assert (found, type(reply["detail"])) == (status, list if status == 422 else dict)
    assert server.vault.files == {}


# Faults.


def test_the_kinds_are_sorted_and_documented() -> None:
    assert list(VaultServer.KINDS) == sorted(VaultServer.KINDS)
    for kind in VaultServer.KINDS:
        assert f"``{kind}``" in (VaultServer.fault.__doc__ or "")


def test_every_kind_can_be_injected_and_strikes_once(server: VaultServer, client: ColonyClient) -> None:
    client.vault_upload_file("a.md", "x")
    for kind in VaultServer.KINDS:
        fault = server.fault("GET", kind)
        try:
            client.vault_get_file("a.md")
        except (ColonyAPIError, OSError, http.client.HTTPException, ValueError):
            assert kind not in ("delay", "expired")
        else:
            assert kind in ("delay", "expired")
        assert fault.fired == 1
        assert client.vault_get_file("a.md")["content"] == "x"


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
@pytest.mark.parametrize(
    ("kind", "options", "applied", "error"),
    [
        ("drop", {}, False, http.client.RemoteDisconnected),
        ("status", {"status": 412}, False, ColonyAPIError),
        ("status", {"status": 422}, False, ColonyValidationError),
        ("status", {"status": 500}, False, ColonyServerError),
        ("status", {"status": 429, "retry_after": 7200}, False, ColonyRateLimitError),
        ("applied", {}, True, http.client.RemoteDisconnected),
        ("applied", {"then": "status"}, True, ColonyServerError),
        ("applied", {"then": "status", "status": 429, "retry_after": 9}, True, ColonyRateLimitError),
        ("garbage", {}, False, json.JSONDecodeError),
        ("garbage", {"applied": True}, True, json.JSONDecodeError),
        ("torn", {}, True, http.client.IncompleteRead),
        ("torn", {"declared": "sent"}, True, json.JSONDecodeError),
    ],
)
def test_what_each_kind_does_and_how_the_sdk_tells_it(
    server: VaultServer, client: ColonyClient, method: str, kind: str, options: Any, applied: bool, error: Any
) -> None:
    server.vault.files["a.md"] = "old"
    client.get_auth_token()
    server.fault(method, kind, code="CODE", **options) if kind == "status" else server.fault(method, kind, **options)
    with pytest.raises(error) as caught:
        client.vault_upload_file("a.md", "x" * 500_000) if method == "PUT" else client.vault_delete_file("a.md")
    assert getattr(caught.value, "retry_after", None) == options.get("retry_after")
    if kind == "status":
        assert (type(caught.value), caught.value.status) == (error, options["status"])
        assert caught.value.code == (None if options["status"] == 422 else "CODE")
    assert (server.vault.files.get("a.md") != "old") is applied


def test_a_delay_is_answered_late_or_applied_unheard(server: VaultServer, client: ColonyClient) -> None:
    client.get_auth_token()
    server.fault("GET", "delay", seconds=0.05)
    began = time.monotonic()
    client.vault_status()
    assert time.monotonic() - began >= 0.05
    impatient = connect(server, timeout=0.05)
    fault = server.fault("PUT", "delay", seconds=0.3)
    with pytest.raises((TimeoutError, ColonyNetworkError)):
        impatient.vault_upload_file("a.md", "x" * 900_000)
    for _ in range(200):
        if server.vault.files:
            break
        time.sleep(0.01)
    assert (fault.fired, len(server.vault.files)) == (1, 1)


def test_an_expired_token_is_invalid_from_then_on(server: VaultServer, client: ColonyClient) -> None:
    token = client.get_auth_token()
    server.fault("PUT", "expired")
    client.vault_upload_file("a.md", "x")
    assert client.get_auth_token() != token
    assert ask(server, "GET", "/vault/status", token=token)[0] == 401
    server.fault("PUT", "expired", times=None)
    with pytest.raises(ColonyAuthError) as caught:
        client.vault_upload_file("a.md", "y")
    assert caught.value.code == "AUTH_INVALID_TOKEN"
    assert server.vault.files == {"a.md": "x"}


def test_method_path_skip_and_times(server: VaultServer, client: ColonyClient) -> None:
    client.get_auth_token()
    fault = server.fault("*", "status", path="b.md", skip=1, times=2, status=500)
    seen = ""
    for name in "abbabbab":
        try:
            client.vault_upload_file(f"{name}.md", "x")
            seen += "."
        except ColonyServerError:
            seen += "x"
    assert seen == "..x.x..."
    assert fault.fired == 2
    every = server.fault("PUT", "status", times=None, status=500)
    for _ in range(3):
        with pytest.raises(ColonyServerError):
            client.vault_upload_file("a.md", "x")
    assert client.vault_list_files()["total"] == 2
    server.heal()
    client.vault_upload_file("a.md", "x")
    assert every.fired == 3


def test_faults_that_make_no_sense_are_refused(server: VaultServer) -> None:
    bad: list[tuple[str, str, dict[str, Any], str]] = [
        ("PATCH", "drop", {}, "PATCH"),
        ("GET", "explode", {}, "explode"),
        ("GET", "drop", {"seconds": 1}, "seconds"),
        ("GET", "applied", {"then": "smile"}, "smile"),
        ("GET", "torn", {"declared": "nothing"}, "nothing"),
        ("GET", "drop", {"times": 0}, "times"),
        ("GET", "drop", {"skip": -1}, "skip"),
    ]
    for method, kind, options, named in bad:
        with pytest.raises(ValueError, match=named):
            server.fault(method, kind, **options)


# Running it.


def test_it_leaves_no_thread_and_no_port() -> None:
    before = set(threading.enumerate())
    server = VaultServer()
    with pytest.raises(RuntimeError, match="not running"):
        _ = server.url
    with server:
        assert server.url.startswith("http://127.0.0.1:")
        assert server.url.endswith("/api/v1")
        port = urlsplit(server.url).port
        with pytest.raises(RuntimeError, match="running already"):
            server.start()
        connect(server).vault_upload_file("a.md", "x")
    assert set(threading.enumerate()) == before
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port or 0)) != 0
    server.close()  # once more does nothing
    with server:
        assert connect(server).vault_get_file("a.md")["content"] == "x"


def test_closing_does_not_wait_for_a_delay_and_leaves_no_request() -> None:
    class Slow(FakeVault):
        def vault_status(self) -> dict[str, Any]:
            time.sleep(0.15)
            return super().vault_status()

    before = set(threading.enumerate())
    server = VaultServer(Slow())
    server.start()
    began = time.monotonic()
    client = connect(server)
    client.get_auth_token()
    fault = server.fault("GET", "delay", seconds=30)
    caller = threading.Thread(target=client.vault_status)
    caller.start()
    while not fault.fired:
        time.sleep(0.005)
    server.close()
    assert set(threading.enumerate()) <= {*before, caller}
    caller.join()
    assert time.monotonic() - began < 5


def test_a_request_that_breaks_the_vault_is_logged_and_not_answered(
    server: VaultServer, client: ColonyClient, caplog: pytest.LogCaptureFixture
) -> None:
    client.get_auth_token()
    server.vault.files["a.md"] = 7  # type: ignore[assignment]
    with caplog.at_level(logging.ERROR), pytest.raises(http.client.RemoteDisconnected):
        client.vault_get_file("a.md")
    assert [record.name for record in caplog.records if record.exc_info] == ["colony_memory.testing.server"]


def test_a_client_that_goes_away_is_no_error(server: VaultServer, caplog: pytest.LogCaptureFixture) -> None:
    import struct

    address = urlsplit(server.url)
    with caplog.at_level(logging.DEBUG, logger="colony_memory.testing.server"):
        with socket.create_connection((str(address.hostname), address.port)) as gone:
            gone.sendall(b"PUT /api/v1/vault/files/a.md HTTP/1.1\r\nContent-Length: 9\r\n\r\n")
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # reset, not end
        for _ in range(200):
            if "went away" in caplog.text:
                break
            time.sleep(0.01)
    assert "went away" in caplog.text
    assert connect(server).vault_status()["file_count"] == 0
