"""The asynchronous hosted vault, where it differs: many calls at once, cancelled ones, its connections."""

import asyncio
import sys

import pytest

pytest.importorskip("httpx")

import colony_sdk
import httpx
from hosted import server

from colony_memory.exceptions import ColonyMemoryError
from colony_memory.vaults.colony import AsyncColonyVault, transport

__all__ = ["server"]

pytestmark = pytest.mark.usefixtures("one_tls_context")


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
            writes = (vault.vault_upload_file_if("0.json", "new", if_match="0" * 63 + str(n)) for n in range(4))
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


@pytest.mark.skipif(sys.version_info < (3, 11), reason="the limit of Python 3.10 loses it")
def test_a_cancellation_that_comes_with_the_answer_is_not_lost(server, monkeypatch):
    """As where a limit of the caller's is over in that very moment: nothing else is asked then."""

    async def receive(*asked):
        reply = await received(*asked)
        asyncio.get_running_loop().call_soon(asking[0].cancel)
        return reply

    async def ask_twice(vault):
        await vault.vault_status()
        await vault.vault_status()

    async def run():
        async with AsyncColonyVault("col_test", base_url=server.url) as vault:
            await vault.vault_status()
            monkeypatch.setattr(transport, "_receive", receive)
            asking.append(asyncio.create_task(ask_twice(vault)))
            with pytest.raises(asyncio.CancelledError):
                await asking[0]

    received, asking = transport._receive, []
    asyncio.run(run())


def test_it_closes_what_it_opened_and_opens_it_again_and_a_given_client_stays_open(server):
    async def run():
        vault = AsyncColonyVault("col_test", base_url=server.url)
        await vault.aclose()
        await vault.vault_upload_file("x.json", "x")
        own = vault._http
        assert own is vault._client()._client
        await vault.aclose()
        assert own.is_closed
        assert (await vault.vault_get_file("x.json"))["content"] == "x"
        await vault.aclose()
        async with httpx.AsyncClient() as pool:
            client = colony_sdk.AsyncColonyClient("col_test", base_url=server.url, client=pool)
            async with AsyncColonyVault(client=client) as vault:
                await vault.vault_list_prefix("x")
                own = vault._http
            assert own.is_closed
            assert not pool.is_closed
            assert (await client.vault_get_file("x.json"))["content"] == "x"

    asyncio.run(run())


@pytest.mark.parametrize("told", [5, True, "write_vault", {"name": "write_vault"}, None, [None, 5, {"name": "vote"}]])
def test_a_reply_that_does_not_say_what_the_account_may_do(server, monkeypatch, told):
    async def reply(*_, **__):
        return {"capabilities": told}

    monkeypatch.setattr(AsyncColonyVault, "_request", reply)
    assert asyncio.run(AsyncColonyVault("col_test", base_url=server.url).vault_may_write()) is None


def test_without_httpx_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(ColonyMemoryError, match=r"colony-memory\[async\]"):
        AsyncColonyVault("col_test")
