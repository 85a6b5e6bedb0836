"""Every fault that a hosted vault can show, at every request of a boot and of a shutdown, through the real clients.

A boot never starts empty unless the vault is proven empty; a shutdown never costs the memory that was saved before.
"""

import asyncio
import functools
import time
import warnings

import pytest
from counts import TRIED

from colony_memory import (
    AsyncColonyMemory,
    ColonyMemory,
    ColonyMemoryError,
    ColonyMemoryWarning,
    RateLimited,
    VaultError,
)
from colony_memory.testing import FakeVault, VaultServer

pytestmark = [pytest.mark.exhaustive, pytest.mark.usefixtures("one_tls_context")]

OLD, NEW, EMPTY = {"MEMORY.md": "two years of notes"}, {"MEMORY.md": "two years and a day"}, {"fresh": "start"}
# Seconds: when a client gives up where requests stall and where they do not, when a stalled one arrives, and when it
# surely has.
TIMEOUT, PATIENCE, STALLED, LATE = 0.25, 10.0, 0.4, 0.3

# Everything in the table of errors, and the ways in which a connection breaks.
FAULTS = {
    "400": ("status", {"status": 400, "code": "INVALID_INPUT"}),
    "401": ("expired", {}),
    "401 for good": ("status", {"status": 401, "code": "AUTH_INVALID_TOKEN", "times": None}),
    "403": ("status", {"status": 403, "code": "KARMA_TOO_LOW"}),
    "404 by something in between": ("status", {"status": 404}),
    "409": ("status", {"status": 409, "code": "CONFLICT"}),
    "410": ("status", {"status": 410, "code": "GONE"}),
    "412": ("status", {"status": 412, "code": "PRECONDITION_FAILED"}),
    "422": ("status", {"status": 422}),
    "429": ("status", {"status": 429, "code": "RATE_LIMIT", "retry_after": 3600, "times": None}),
    "500": ("status", {"status": 500}),
    "503": ("status", {"status": 503}),
    "applied, then 500": ("applied", {"then": "status", "status": 500}),
    "applied, then dropped": ("applied", {}),
    "dropped": ("drop", {}),
    "dropped from then on": ("drop", {"times": None}),
    "garbage": ("garbage", {}),
    "applied, then garbage": ("garbage", {"applied": True}),
    "torn": ("torn", {}),
    "torn, with its own length": ("torn", {"declared": "sent"}),
    "stalled": ("delay", {"seconds": STALLED}),
}


def no_retries(timeout):
    from colony_sdk import RetryConfig

    return {"retry": RetryConfig(max_retries=0), "timeout": timeout}


def colony_vault(url, timeout=PATIENCE):
    from colony_sdk import ColonyClient, RetryConfig

    from colony_memory.vaults.colony import ColonyVault

    client = ColonyClient("col_test", base_url=url, auth_token_retry=RetryConfig(max_retries=0), **no_retries(timeout))
    return ColonyMemory(backend=ColonyVault(client=client, timeout=timeout))


def plain_client(url, timeout):
    from colony_sdk import ColonyClient, RetryConfig

    client = ColonyClient("col_test", base_url=url, auth_token_retry=RetryConfig(max_retries=0), **no_retries(timeout))
    return ColonyMemory(backend=client)


class Awaiting:
    """An asynchronous client over HTTP, opened and closed around each verb."""

    def __init__(self, url, timeout, *, plain):
        self.url, self.timeout, self.plain = url, timeout, plain

    def __getattr__(self, name):
        def call(*args, **kwargs):
            async def run():
                from colony_sdk import AsyncColonyClient

                from colony_memory.vaults.colony import AsyncColonyVault

                async with AsyncColonyClient("col_test", base_url=self.url, **no_retries(self.timeout)) as client:
                    if self.plain:
                        return await getattr(AsyncColonyMemory(backend=client), name)(*args, **kwargs)
                    async with AsyncColonyVault(client=client, timeout=self.timeout) as vault:
                        return await getattr(AsyncColonyMemory(backend=vault), name)(*args, **kwargs)

            return asyncio.run(run())

        return call


CLIENTS = {
    "ColonyVault": colony_vault,
    "ColonyClient": plain_client,
    "AsyncColonyVault": functools.partial(Awaiting, plain=False),
    "AsyncColonyClient": functools.partial(Awaiting, plain=True),
}


# ColonyVault goes through ColonyClient too. By themselves the plain clients are tried with what they tell differently.
PLAIN = ("401", "404 by something in between", "412", "429", "503", "applied, then dropped", "garbage", "torn")
# No status of these is named anywhere: each is a refusal, as a 400 is, and one client shows that.
ANY_REFUSAL = ("409", "410", "422")


@pytest.fixture(params=sorted(CLIENTS))
def connect(request):
    fault = request.node.callspec.params.get("fault", PLAIN[0])
    if "Client" in request.param and fault not in PLAIN:
        pytest.skip("tried through ColonyVault")
    if "Async" in request.param and fault in ANY_REFUSAL:
        pytest.skip("tried through ColonyVault, and as a 400")
    if "Async" in request.param:
        pytest.importorskip("httpx")
    # Only where it is to happen: on a busy machine a short one passes by itself.
    return functools.partial(CLIENTS[request.param], timeout=TIMEOUT if fault == "stalled" else PATIENCE)


@pytest.fixture(scope="module")
def shared_server():
    with VaultServer(FakeVault(operations_per_hour=None)) as server:
        yield server


@pytest.fixture
def server(shared_server):
    shared_server.heal()
    shared_server.vault.files.clear()
    return shared_server


def schedules(server, fault, prepare):
    kind, options = FAULTS[fault]
    options = {"times": 1, **options}
    skip, struck = 0, True
    while struck:
        server.heal()
        server.vault.files.clear()
        prepare()
        injection = server.fault("*", kind, skip=skip, **options)
        TRIED[f"requests that fail: {fault}"] += 1
        yield injection
        struck = injection.fired > 0
        skip += 1
        assert skip < 40


@pytest.mark.parametrize("saved", [True, False])
@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_a_boot_starts_empty_only_where_nothing_is_saved(server, connect, fault, saved):
    saver = ColonyMemory(backend=server.vault)
    prepare = (lambda: saver.backup(OLD, skip_unchanged=False)) if saved else lambda: None
    for injection in schedules(server, fault, prepare):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ColonyMemoryWarning)
                got = connect(server.url).restore(default=EMPTY)
        except VaultError:
            assert injection.fired
        else:
            assert got == (OLD if saved else EMPTY)


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_a_shutdown_never_costs_what_was_saved(server, connect, fault):
    saver = ColonyMemory(backend=server.vault)

    def prepare():
        for docs in ({"MEMORY.md": "older still"}, OLD):
            saver.backup(docs, skip_unchanged=False)

    for injection in schedules(server, fault, prepare):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ColonyMemoryWarning)
                connect(server.url).backup(NEW, prune_keep=1)
            done = True
        except ColonyMemoryError:
            assert injection.fired
            done = False
        server.heal()
        if fault == "stalled":
            time.sleep(LATE)  # what was given up on arrives after all
        found = ColonyMemory(backend=server.vault)
        assert found.restore() in ([NEW] if done else [NEW, OLD])
        listed = [found.restore(snapshot_id=info.snapshot_id) for info in found.list_snapshots()]
        assert NEW in listed or OLD in listed
    # What a healthy server serves of it is the same, which is seen once.
    assert connect(server.url).restore() == found.restore()


def test_a_rate_limit_says_how_long(server, connect):
    server.fault("PUT", "status", status=429, code="RATE_LIMIT", retry_after=1800, times=None)
    with pytest.raises(RateLimited, match="1800 s") as caught:
        connect(server.url).backup(NEW)
    assert caught.value.retry_after == 1800
    assert not server.vault.files


def test_a_wrong_address_is_not_an_empty_vault(server, connect):
    for path in ("/v9", "/vault/v9"):
        with pytest.raises(VaultError):
            connect(server.url + path).restore(default=EMPTY)


def test_a_backup_leaves_the_hours_operations_for_the_next_one():
    """Deleting what a retention gave up comes out of the same bucket as uploads: the next backup comes first."""
    with VaultServer(FakeVault(operations_per_hour=60)) as server:
        mem = colony_vault(server.url)
        saved = 0
        for n in range(30):
            try:
                mem.backup({"n": str(n)}, prune_keep=2)
                saved += 1
            except RateLimited:
                break
        # 60 operations: 3 for each backup, and 2 to delete one, as long as 3 are left for the next backup.
        assert saved >= 13
        assert ColonyMemory(backend=server.vault).restore() == {"n": str(saved - 1)}
