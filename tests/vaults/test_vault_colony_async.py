"""The asynchronous hosted vault: the same scenarios and the same conformance suite, on an event loop."""

import asyncio
import sys
import threading

import pytest

pytest.importorskip("httpx")

import colony_sdk
import httpx
from test_vault_colony import (
    ETAG,
    NO_RETRY,
    HostedVaultScenarios,
    RedirectScenarios,
    environment,
    server,
)

from colony_memory.exceptions import ColonyMemoryError
from colony_memory.testing import VaultBackendTests
from colony_memory.vaults.colony import AsyncColonyVault

__all__ = ["environment", "server"]

pytestmark = pytest.mark.usefixtures("one_tls_context")


class Bridge:
    """Coroutines as plain methods, all on one loop in a thread of its own."""

    def __init__(self, loop, vault):
        self._loop = loop
        self._vault = vault

    def __repr__(self):
        return repr(self._vault)

    def _run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    def close(self):
        self._run(self._vault.aclose())


def plain(name):
    return lambda self, *given, **options: self._run(getattr(self._vault, name)(*given, **options))


for method in {name for name in dir(AsyncColonyVault) if name.startswith("vault_")} - {"vault_may_write"}:
    setattr(Bridge, method, plain(method))


@pytest.fixture(scope="module")
def loop():
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


class TestScenarios(HostedVaultScenarios):
    @pytest.fixture
    def connect(self, loop):
        opened = []

        def connect(base_url, *, api_key="col_test", timeout=5):
            pool = httpx.AsyncClient(timeout=timeout, verify=False)  # loading certificates takes longer than a test
            client = colony_sdk.AsyncColonyClient(
                api_key, base_url=base_url, timeout=timeout, client=pool, retry=NO_RETRY
            )
            vault = Bridge(loop, AsyncColonyVault(client=client))
            opened.append((pool, vault))
            return vault

        yield connect
        for pool, vault in opened:
            vault.close()
            vault._run(pool.aclose())


class TestRedirects(RedirectScenarios):
    @pytest.fixture
    def connect(self, loop):
        opened = []

        def connect(base_url):
            opened.append(Bridge(loop, AsyncColonyVault("col_test", base_url=base_url)))
            return opened[-1]

        yield connect
        for vault in opened:
            vault.close()


class TestConformance(VaultBackendTests):
    @pytest.fixture
    def vault(self, server, loop):
        vault = Bridge(loop, AsyncColonyVault("col_test", base_url=server.url))
        yield vault
        vault.close()


def test_many_calls_at_once_with_an_expired_token(server):
    async def run():
        async with AsyncColonyVault("col_test", base_url=server.url) as vault:
            await asyncio.gather(*(vault.vault_upload_file(f"{n}.json", str(n)) for n in range(8)))
            server.expire_tokens()
            found = await asyncio.gather(*(vault.vault_get_file(f"{n}.json") for n in range(8)))
            assert [file["content"] for file in found] == list("01234567")
            server.expire_tokens()
            found = await asyncio.gather(*(vault.vault_list_prefix(f"{n}.") for n in range(8)))
            assert [listing["total"] for listing in found] == [1] * 8
            writes = (vault.vault_upload_file_if("0.json", "new", if_match=ETAG[:-1] + str(n)) for n in range(4))
            refused = await asyncio.gather(*writes, return_exceptions=True)
            assert [error.status for error in refused] == [412] * 4

    asyncio.run(run())


def test_a_cancelled_call_is_cancelled(server):
    async def run():
        async with AsyncColonyVault("col_test", base_url=server.url) as vault:
            await vault.vault_status()
            server.fault("GET", "delay", path="/vault/files", seconds=5, times=None)
            for call in (vault.vault_list_files, lambda: vault.vault_list_prefix("x")):
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(call(), 0.1)
            server.heal()
            assert (await vault.vault_list_prefix("x"))["total"] == 0

    asyncio.run(run())


def test_it_closes_what_it_opened_and_opens_it_again(server):
    async def run():
        vault = AsyncColonyVault("col_test", base_url=server.url)
        await vault.aclose()
        await vault.vault_upload_file("x.json", "x")
        await vault.vault_list_prefix("x")
        pool = vault._http
        assert pool is vault._client()._client
        await vault.aclose()
        assert pool.is_closed
        assert (await vault.vault_get_file("x.json"))["content"] == "x"
        assert vault._http is not pool
        await vault.aclose()

    asyncio.run(run())


def test_a_given_client_stays_open(server):
    async def run():
        async with httpx.AsyncClient() as pool:
            client = colony_sdk.AsyncColonyClient("col_test", base_url=server.url, client=pool)
            async with AsyncColonyVault(client=client) as vault:
                await vault.vault_upload_file("x.json", "x")
                await vault.vault_list_prefix("x")
                own = vault._http
            assert own.is_closed
            assert not pool.is_closed
            assert (await client.vault_get_file("x.json"))["content"] == "x"

    asyncio.run(run())


def test_without_httpx_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(ColonyMemoryError, match=r"colony-memory\[async\]"):
        AsyncColonyVault("col_test")
