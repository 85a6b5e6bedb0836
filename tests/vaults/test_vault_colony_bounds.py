"""Whatever answers in the hosted vault's place: each call ends in time, within the memory of a few large files."""

import contextlib
import functools
import gzip
import itertools
import json
import socket
import threading
import time
import tracemalloc

import pytest
from hosted import FACES, open_hosted, opener

from colony_memory.exceptions import VaultUnavailable
from colony_memory.vaults.colony import transport
from colony_memory.vaults.colony.transport import Reply, Request, Unanswered, read_reply

__all__ = ["open_hosted"]

pytestmark = pytest.mark.usefixtures("one_tls_context")

# Seconds that a call may take, that a test waits for it on a busy machine, and the most that anybody waits here.
TIMEOUT, PATIENCE, LONGEST = 0.3, 6.0, 60.0
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
PLAIN = b"x" * 65536


def slowly(data, start=b""):
    """The start at once, then the data again and again, a byte at a time."""
    yield start
    for byte in itertools.cycle(data):
        yield None
        yield bytes([byte])


def forever(data, start=b""):
    yield start
    yield from itertools.repeat(data)


@functools.cache
def zipped():
    body = gzip.compress(b"[" + b" " * 2**25 + b"]")
    return [HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body) + body]


@functools.cache
def listing_of(piece):
    body = b'{"items":[' + piece * (transport.MOST_BYTES // len(piece) - 20) + b'{"filename":"x"}]}'
    return [HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body]


# What is sent; None for a moment's pause. A body that ends is followed by silence.
ANSWERS = {
    "nothing": list,
    "a status line, byte by byte": lambda: slowly(b"HTTP/1.1 200 OK"),
    "headers without end": lambda: forever(b"X-More: " + b"x" * 1000 + b"\r\n", HEAD),
    "headers, byte by byte": lambda: slowly(b"X-More: x\r\n", HEAD),
    "a header without end": lambda: forever(PLAIN, HEAD + b"X-More: "),
    "100 Continue without end": lambda: forever(b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
    "100 Continue, byte by byte": lambda: slowly(b"HTTP/1.1 100 Continue\r\n\r\n"),
    "half of a body": lambda: [HEAD + b"Content-Length: 9000\r\n\r\n" + PLAIN[:4500]],
    "a body, byte by byte": lambda: slowly(b" ", HEAD + b"Content-Length: 9000\r\n\r\n"),
    "a body without end": lambda: forever(PLAIN, HEAD + b"\r\n"),
    "a body of a terabyte": lambda: forever(PLAIN, HEAD + b"Content-Length: 1099511627776\r\n\r\n"),
    "a chunk of a terabyte": lambda: forever(PLAIN, HEAD + b"Transfer-Encoding: chunked\r\n\r\n10000000000\r\n"),
    "chunks without end": lambda: forever(b"10000\r\n" + PLAIN + b"\r\n", HEAD + b"Transfer-Encoding: chunked\r\n\r\n"),
    "chunks of a byte": lambda: forever(b"1\r\nx\r\n" * 999, HEAD + b"Transfer-Encoding: chunked\r\n\r\n"),
    "gzip of a thousandth": zipped,
    "a listing of empty lists": lambda: listing_of(b"[],"),
    "a listing of objects": lambda: listing_of(b'{"a":{}},'),
    "lists in lists": lambda: listing_of(b"["),
}  # fmt: skip


@contextlib.contextmanager
def answering(answer, *, also_token=False):
    """A server that sends this to every request but, unless it is to, that for the token; its address."""
    listener, closing = socket.create_server(("127.0.0.1", 0)), threading.Event()

    def serve(connection):
        with connection, contextlib.suppress(OSError):
            connection.settimeout(LONGEST)
            asked = b""
            while b"\r\n\r\n" not in asked:
                asked += connection.recv(65536)
            if b"/auth/token" in asked.partition(b"\r\n")[0] and not also_token:
                body = json.dumps({"access_token": "token"}).encode()
                connection.sendall(HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                return
            for data in answer():
                if closing.wait(0.02 if data is None else 0):
                    return
                connection.sendall(data or b"")
            closing.wait(LONGEST)

    def accept():
        with contextlib.suppress(OSError):
            while True:
                threads.append(threading.Thread(target=serve, args=(listener.accept()[0],)))
                threads[-1].start()

    threads = [threading.Thread(target=accept)]
    threads[0].start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/api/v1"
    finally:
        closing.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for thread in threads:
            thread.join()


WAYS = [*itertools.product(FACES, (False, True))]


@pytest.mark.parametrize(
    ("kind", "face", "also_token"),
    [
        pytest.param(kind, *way, marks=[] if way == WAYS[number % 4] else pytest.mark.exhaustive)
        for number, kind in enumerate(ANSWERS)
        for way in WAYS
    ],
)
def test_every_call_ends(request, kind, face, also_token):
    ANSWERS[kind]()  # made before it is measured
    with answering(ANSWERS[kind], also_token=also_token) as url:
        vault = opener(request, face)("col_test", base_url=url, timeout=TIMEOUT)
        tracemalloc.start()
        began = time.monotonic()
        try:
            with pytest.raises(VaultUnavailable) as raised:
                vault.vault_list_files()
            assert time.monotonic() - began < PATIENCE
            assert tracemalloc.get_traced_memory()[1] < 8 * transport.MOST_BYTES
        finally:
            tracemalloc.stop()
        assert len(str(raised.value)) < 1000


def test_a_file_as_large_as_the_vault_takes_comes_whole_however_it_is_written(open_hosted):
    content = "\u0001" * 1_000_000
    body = json.dumps({"filename": "x.json", "content": content}).encode()
    assert 6_000_000 < len(body) < transport.MOST_BYTES
    for answer in (
        HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body,
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n",
    ):
        with answering(lambda answer=answer: [answer]) as url:
            vault = open_hosted("col_test", base_url=url, timeout=LONGEST)
            assert vault.vault_get_file("x.json")["content"] == content


def test_all_addresses_of_a_host_have_one_deadline(monkeypatch):
    seen = []

    def refuse(address, seconds):
        seen.append((address, seconds))
        time.sleep(min(seconds, 0.15))
        raise TimeoutError("no answer")

    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"127.0.0.{n}", 1)) for n in range(1, 100)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    monkeypatch.setattr(socket, "create_connection", refuse)
    with pytest.raises(Unanswered):
        transport.transmit(Request("GET", "http://127.0.0.1:1/api/v1", {}), None, TIMEOUT)
    assert 1 < len(seen) < 9
    assert [address for address, _ in seen] == [(f"127.0.0.{n + 1}", 1) for n in range(len(seen))]


def test_a_listing_of_all_that_is_allowed_is_read():
    rows = b",".join(b'{"filename":"x"}' for _ in range(399_990))
    assert len(read_reply(Reply(200, b'{"items":[%s]}' % rows, {}))["items"]) == 399_990
