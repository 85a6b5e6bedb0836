"""The hosted vault in tests: both of its faces with plain methods, and servers that answer as told."""

import asyncio
import contextlib
import threading

import colony_sdk
import pytest

from colony_memory.testing import FakeVault, VaultServer
from colony_memory.testing.server import Listener, Reply
from colony_memory.vaults.colony import AsyncColonyVault, ColonyVault

FACES = ("waiting", "on a loop")
NO_RETRY = colony_sdk.RetryConfig(max_retries=0)


class Bridge:
    """Coroutines as plain methods, all on one loop in a thread of its own."""

    pool = None  # of a given client, which stays open

    def __init__(self, vault):
        self._vault, self._loop = vault, asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def __repr__(self):
        return repr(self._vault)

    def _run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    def close(self):
        self._run(self._vault.aclose())
        if self.pool is not None:
            self._run(self.pool.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _plain(name):
    return lambda self, *given, **options: self._run(getattr(self._vault, name)(*given, **options))


for method in {name for name in dir(AsyncColonyVault) if name.startswith("vault_")} - {"vault_may_write"}:
    setattr(Bridge, method, _plain(method))


def opener(request, face):
    """Opens hosted vaults of a face, which are closed after the test."""
    if face == "waiting":
        return ColonyVault
    pytest.importorskip("httpx")

    def opened(*given, **options):
        vault = Bridge(AsyncColonyVault(*given, **options))
        request.addfinalizer(vault.close)
        return vault

    return opened


@pytest.fixture(params=FACES)
def open_hosted(request):
    return opener(request, request.param)


@pytest.fixture
def connect(open_hosted):
    """Opens one over a client of the SDK that sends nothing twice."""

    def connect(base_url, *, api_key="col_test", timeout=5):
        options = {"base_url": base_url, "timeout": timeout, "retry": NO_RETRY}
        if open_hosted is ColonyVault:
            return ColonyVault(client=colony_sdk.ColonyClient(api_key, **options, auth_token_retry=NO_RETRY))
        import httpx

        pool = httpx.AsyncClient(timeout=timeout, verify=False)  # loading certificates takes longer than a test
        vault = open_hosted(client=colony_sdk.AsyncColonyClient(api_key, **options, client=pool))
        vault.pool = pool
        return vault

    return connect


@pytest.fixture
def server():
    with VaultServer(FakeVault(operations_per_hour=None)) as server:
        yield server


@contextlib.contextmanager
def answering(respond):
    """A server that answers every request as told; its address."""
    listener = Listener(respond)
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.002})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.server_address[1]}/api/v1"
    finally:
        listener.shutdown()
        listener.server_close()
        thread.join()


def with_token(respond):
    """Answer the token's request as the vault does, and the others as told."""

    def answer(request):
        if request.path == "/auth/token":
            return Reply(200, b'{"access_token": "token-of-the-day"}')
        return respond(request)

    return answer
