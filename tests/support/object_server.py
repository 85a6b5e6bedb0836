"""An object store that speaks S3 on loopback: as much of it as obstore asks for, with faults on demand."""

from __future__ import annotations

import hashlib
import re
import threading
from collections import Counter
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

import pytest
from obstore.store import MemoryStore, S3Store

from colony_memory.vaults.objects import ObjectVault

BUCKET = "bucket"
KEY, SECRET = "AKIATHISISAKEY", "this-is-the-secret"


class ObjectServer:
    """S3 in a dict, as a context manager.

    Attributes:
        objects: Key to bytes; every key that a bucket can hold, also ones that no path is.
        calls: Requests by verb: ``GET``, ``HEAD``, ``PUT``, ``DELETE``, ``LIST``.
        bytes: Bytes of the bodies that came with them and of the answers to them, by verb.
        fault: Called with verb and key; what it returns, ``(status, body)``, is the answer. None: no fault;
            ``("applied", answer)``: this answer, and it is done all the same.
        conditions: How PUT takes a condition: ``"kept"``, ``"ignored"`` or ``"refused"`` (501).
        bulk: Whether several objects can be deleted with one request; else that is answered by a 501.
        page: Keys in one answer to LIST.
    """

    def __init__(self):
        self.objects = {}
        self.calls = Counter()
        self.bytes = Counter()
        self.fault = lambda verb, key: None
        self.conditions = "kept"
        self.bulk = True
        self.page = 1000
        self.now = datetime(2026, 1, 1, tzinfo=timezone.utc)
        self.times = {}
        self.lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"store": self}))
        self._server.daemon_threads = True
        # A client that hangs up early is what some tests are about.
        self._server.handle_error = lambda request, address: None
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *exc):
        self._server.shutdown()
        self._server.server_close()

    def environment(self):
        """The variables by which obstore finds this store."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }

    def store(self, prefix="agents/a", *, bucket=BUCKET, **config):
        return S3Store(
            bucket,
            prefix=prefix,
            endpoint=config.pop("endpoint", self.url),
            access_key_id=KEY,
            secret_access_key=SECRET,
            region="us-east-1",
            client_options={"allow_http": True, "timeout": config.pop("timeout", "20s")},
            retry_config={"max_retries": 0},
            **config,
        )


def error(status, code=""):
    """An answer that says no, as S3 words it."""
    return status, f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{SECRET}</Message></Error>".encode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer in one piece: in two, the second waits for the first to be acknowledged
    store: ObjectServer

    def do_GET(self):
        parts = urlsplit(self.path)
        query = parse_qs(parts.query, keep_blank_values=True)
        self._serve("LIST" if "list-type" in query else self.command, parts.path, query)

    do_HEAD = do_PUT = do_DELETE = do_POST = do_GET  # noqa: N815 - the names that http.server looks for

    def log_message(self, *args):
        pass

    def _serve(self, verb, path, query):
        store = self.store
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        bucket, _, key = unquote(path)[1:].partition("/")
        if verb == "POST" or (verb == "DELETE" and not key):
            verb, key = "DELETE", re.findall("<Key>(.*?)</Key>", body.decode()) if store.bulk else None
        with store.lock:
            store.calls[verb] += 1
            faults = (store.fault(verb, each) for each in (key if isinstance(key, list) else [key]))
            answer = next((each for each in faults if each is not None), None)
            if answer is not None and answer[0] == "applied":
                getattr(self, f"_{verb.lower()}")(key, body, query)
                answer = answer[1]
            if answer is None and bucket != BUCKET:
                answer = error(404, "NoSuchBucket")
            if answer is None:
                answer = getattr(self, f"_{verb.lower()}")(key, body, query)
        status, content, *headers = answer
        with store.lock:
            store.bytes[verb] += len(body) + (len(content) if verb != "HEAD" else 0)
        self.send_response(status)
        for name, value in headers[0].items() if headers else ():
            self.send_header(name, value)
        if not headers or "Content-Length" not in headers[0]:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if verb != "HEAD":
            self.wfile.write(content)

    def _facts(self, key):
        at = self.store.times.get(key, self.store.now)
        return {"ETag": _etag(self.store.objects[key]), "Last-Modified": f"{at:%a, %d %b %Y %H:%M:%S} GMT"}

    def _get(self, key, body, query):
        if key not in self.store.objects:
            return error(404, "NoSuchKey")
        return 200, self.store.objects[key], self._facts(key)

    _head = _get

    def _put(self, key, body, query):
        store, match, absent = self.store, self.headers.get("If-Match"), self.headers.get("If-None-Match")
        if (match or absent) and store.conditions == "refused":
            return error(501, "NotImplemented")
        if store.conditions == "kept":
            if match and key not in store.objects:
                return error(404, "NoSuchKey")
            if (absent and key in store.objects) or (match and match != _etag(store.objects[key])):
                return error(412, "PreconditionFailed")
        store.objects[key], store.times[key] = body, store.now
        return 200, b"", {"ETag": _etag(body)}

    def _delete(self, key, body, query):
        if key is None:
            return error(501, "NotImplemented")
        keys = [key] if isinstance(key, str) else key
        for each in keys:
            self.store.objects.pop(each, None)
        deleted = "".join(f"<Deleted><Key>{escape(each)}</Key></Deleted>" for each in keys)
        return 200, f"<DeleteResult>{deleted}</DeleteResult>".encode()

    def _list(self, key, body, query):
        store, prefix = self.store, query.get("prefix", [""])[0]
        after = query.get("continuation-token", [""])[0]
        keys = sorted(each for each in store.objects if each.startswith(prefix) and each > after)
        shown, cut = keys[: store.page], len(keys) > store.page
        rows = "".join(
            f"<Contents><Key>{escape(each)}</Key><Size>{len(store.objects[each])}</Size>"
            f"<LastModified>{store.times.get(each, store.now):%Y-%m-%dT%H:%M:%S.000Z}</LastModified>"
            f"<ETag>{escape(_etag(store.objects[each]))}</ETag></Contents>"
            for each in shown
        )
        token = f"<NextContinuationToken>{escape(shown[-1])}</NextContinuationToken>" if cut else ""
        return 200, (
            f"<ListBucketResult><IsTruncated>{str(cut).lower()}</IsTruncated>{token}{rows}</ListBucketResult>"
        ).encode()


def _etag(data):
    return f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'


class Versioned(MemoryStore):
    """A store that knows a state of an object by its version, as Google's does."""

    def get(self, path, **options):
        found = super().get(path, **options)
        return Found(found)

    def put(self, path, file, *, mode=None, **options):
        if isinstance(mode, dict):
            mode = {"e_tag": f'"{int(mode["version"]) - 100}"'}
        reply = super().put(path, file, mode=mode, **options)
        return {"e_tag": '"same"', "version": str(100 + int(reply["e_tag"].strip('"')))}


class Found:
    """What was read, with the facts to change."""

    def __init__(self, found):
        self._found = found
        self.meta = {**found.meta, "e_tag": '"same"', "version": str(100 + int(found.meta["e_tag"].strip('"')))}

    def bytes(self):
        return self._found.bytes()


@pytest.fixture(scope="module")
def running():
    with ObjectServer() as server:
        yield server


@pytest.fixture
def server(running):
    running.objects.clear()
    running.times.clear()
    running.fault, running.conditions, running.page = (lambda verb, key: None), "kept", 1000
    running.calls.clear()
    running.bytes.clear()
    return running


@pytest.fixture
def vault(server):
    made = ObjectVault(server.store(), create=True)
    server.calls.clear()
    return made
