import contextlib
import http.client
import json
import logging
import socket
import threading
import time
from urllib.parse import urlsplit

import pytest
from colony_sdk import (
    ColonyAPIError,
    ColonyClient,
    ColonyRateLimitError,
    ColonyServerError,
    ColonyValidationError,
    RetryConfig,
)
from faces import Clock

from colony_memory.testing import FakeVault, VaultServer

ONCE = RetryConfig(max_retries=0)


@pytest.fixture
def server():
    with VaultServer() as running:
        yield running


def connect(server, **options):
    options = {"retry": ONCE, "auth_token_retry": ONCE, "timeout": 5, **options}
    return ColonyClient(options.pop("api_key", "col_test"), base_url=server.url, **options)


@pytest.fixture
def client(server):
    return connect(server)


def ask(server, method, path, *, token, body=None, headers=None):
    address = urlsplit(server.url)
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=5)
    raw = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
    where = path if path.startswith("http") else address.path + path
    with contextlib.closing(connection):
        connection.request(method, where, raw, {"Authorization": f"Bearer {token}", **(headers or {})})
        reply = connection.getresponse()
        text = reply.read()
        return reply.status, reply.headers, json.loads(text) if text else None


# What the API does.


def test_the_five_methods_through_the_sdk(server, client):
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


def test_the_bucket_and_its_headers():
    clock = Clock(1_767_225_600.5)
    with VaultServer(FakeVault(operations_per_hour=2, clock=clock)) as server:
        client = connect(server)
        client.vault_upload_file("a.md", "x")
        assert client.last_rate_limit is not None
        told = client.last_rate_limit
        assert (told.limit, told.remaining, told.reset) == (2, 1, 1_767_229_201)
        client.vault_get_file("a.md")
        assert client.last_rate_limit.limit is None  # reads are of another bucket
        client.vault_upload_file("a.md", "x")
        clock.now += 1000
        with pytest.raises(ColonyRateLimitError) as caught:
            client.vault_upload_file("a.md", "y")
        assert (caught.value.status, caught.value.code, caught.value.retry_after) == (429, "RATE_LIMIT", 2600)
        server.vault.operations_per_hour = None
        status, headers, _ = ask(server, "DELETE", "/vault/files/a.md", token=client.get_auth_token())
        assert (status, headers["X-RateLimit-Limit"], headers["Content-Length"]) == (204, None, None)


def test_etags_and_conditions(server, client):
    server.vault.files["p.json"] = "one"
    etag = client.vault_get_file("p.json")["etag"]
    for status, name, condition in (
        (412, "If-None-Match", "*"),
        (412, "If-Match", '"0"'),
        (412, "If-Match", etag),  # an etag goes in quotes
        (412, "If-Match", '"'),
        (400, "If-None-Match", f'"{etag}"'),
        (200, "If-Match", f'"{etag}"'),
        (412, "If-Match", f'"{etag}"'),
    ):
        token, before, body = client.get_auth_token(), server.vault.files["p.json"], {"content": "two"}
        asked = ask(server, "PUT", "/vault/files/p.json", token=token, body=body, headers={name: condition})
        assert (asked[0], asked[1]["ETag"] is None) == (status, status != 200)
        assert server.vault.files["p.json"] == ("two" if status == 200 else before)


def test_unknown_routes_methods_and_bodies(server, client):
    token = client.get_auth_token()
    outside = f"http://127.0.0.1:{urlsplit(server.url).port}/vault/status"
    for status, method, path in (
        (404, "GET", "/nowhere"),
        (404, "GET", outside),
        (405, "POST", "/vault/files/a.md/append"),
        (405, "DELETE", "/vault/files"),
        (405, "GET", "/auth/token"),
    ):
        assert ask(server, method, path, token=token)[0] == status
    for body in ({"content": 1}, ["content"], b"{", None):
        found, _, reply = ask(server, "PUT", "/vault/files/a.md", token=token, body=body)
        assert (found, type(reply["detail"])) == (422, list)
    assert server.vault.files == {}


# Faults.


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
def test_what_each_kind_does_and_how_the_sdk_tells_it(server, client, method, kind, options, applied, error):
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


def test_faults_that_make_no_sense_are_refused(server):
    bad = [
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


def test_it_leaves_no_thread_and_no_port():
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


def test_closing_does_not_wait_for_a_delay_and_leaves_no_request():
    class Slow(FakeVault):
        def vault_status(self):
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


def test_a_request_that_breaks_the_vault_is_logged_and_not_answered(server, client, caplog):
    client.get_auth_token()
    server.vault.files["a.md"] = 7
    with caplog.at_level(logging.ERROR), pytest.raises(http.client.RemoteDisconnected):
        client.vault_get_file("a.md")
    assert [record.name for record in caplog.records if record.exc_info] == ["colony_memory.testing.server"]
