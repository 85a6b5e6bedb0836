"""An agent's own tests, with the fakes."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager

from colony_memory import ColonyMemory, QuotaExceeded, RateLimited, VaultUnavailable
from colony_memory.testing import FakeVault, FaultyVault, VaultServer
from colony_memory.testing.faults import ProcessDied


class Clock:
    def __init__(self) -> None:
        self.now = 1.8e9

    def __call__(self) -> float:
        return self.now


@contextmanager
def hosted() -> Generator[ColonyMemory, None, None]:
    os.environ["COLONY_SDK_NO_TOKEN_CACHE"] = "1"
    with VaultServer(FakeVault(operations_per_hour=None)) as server:
        server.fault("PUT", "applied", path="latest")
        yield ColonyMemory("col_test", base_url=server.url)


def test_an_outage_is_no_first_start() -> None:
    faulty = FaultyVault(FakeVault())
    faulty.fail("get", TimeoutError, match="latest", times=1)
    faulty.fail("list", lambda: OSError("no route"))
    try:
        ColonyMemory(backend=faulty).restore(default={})
    except VaultUnavailable as error:
        assert error.status is None or error.status >= 0
    else:
        raise AssertionError("it started empty")
    faulty.heal()
    assert ColonyMemory(backend=faulty).restore(default={}) == {}
    assert ("list", "") in faulty.calls or faulty.count > 0


def test_a_kill_at_each_call() -> None:
    for n in range(1, 8):
        vault = FakeVault(operations_per_hour=None)
        ColonyMemory(backend=vault).backup({"MEMORY.md": "before"})
        dying = FaultyVault(vault)
        dying.stop_after(n, applied=n % 2 == 0)
        try:
            ColonyMemory(backend=dying).backup({"MEMORY.md": "after"})
        except ProcessDied as died:
            assert died.call == n
        assert ColonyMemory(backend=vault).restore()["MEMORY.md"] in {"before", "after"}


def test_limits() -> None:
    clock = Clock()
    small = FakeVault(quota_bytes=100, operations_per_hour=2, clock=clock)
    memory = ColonyMemory(backend=small)
    try:
        memory.backup({"MEMORY.md": "text"})
    except (QuotaExceeded, RateLimited) as error:
        assert error.message
    assert not small.files
    small.karma_ok = False
    clock.now += 3600
    assert small.calls[0][0] in {"status", "list", "get", "upload", "delete"}


def main() -> None:
    test_an_outage_is_no_first_start()
    test_a_kill_at_each_call()
    test_limits()
    with hosted() as memory:
        memory.backup({"MEMORY.md": "over HTTP"})
        assert memory.restore() == {"MEMORY.md": "over HTTP"}


if __name__ == "__main__":
    main()
