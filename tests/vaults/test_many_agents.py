"""Many agents at once: what one of them costs does not depend on how many others there are."""

import random
from collections import Counter

import pytest

from colony_memory import ColonyMemory, LifecycleEvent, RateLimited
from colony_memory.testing import FakeVault, VaultServer
from colony_memory.vaults.colony import ColonyVault

_WORDS = [f"{random.Random(number).getrandbits(40):x}" for number in range(2000)]


def memory_of(agent, turn):
    drawn = random.Random(agent)
    notes = [" ".join(drawn.choices(_WORDS, k=200)) for _ in range(4)]
    return {f"notes/{n}.md": text for n, text in enumerate(notes)} | {"MEMORY.md": f"agent {agent:06} turn {turn:06}"}


def live(vault, agent, *, label="default", turns=2):
    """A short life: an agent that boots, saves as often, also what has not changed, and boots again; what it cost."""
    told = []
    for _ in range(2):
        mem = ColonyMemory(backend=vault, format=1, on_event=told.append)
        mem.restore(label=label, default={})
        for turn in range(turns):
            for _ in range(2):
                mem.backup(memory_of(agent, turn), label=label, prune_keep=2)
    verbs = [event for event in told if isinstance(event, LifecycleEvent)]
    assert not any(event.action == "fault" for event in verbs)
    calls = tuple(sum(getattr(event, kind) for event in verbs) for kind in ("reads", "writes", "deletes"))
    return calls, sum(event.bytes_read + event.bytes_written for event in verbs)


def assert_flat(spent):
    """The same calls for every agent, and bytes that differ by what compresses a little better or worse."""
    calls, sizes = zip(*spent, strict=True)
    assert len(set(calls)) == 1
    assert max(sizes) <= 1.05 * min(sizes)


@pytest.mark.once
@pytest.mark.parametrize("layout", ["labels", "prefixes"])
def test_agents_in_one_bucket_cost_the_same_each(layout):
    pytest.importorskip("obstore")
    from object_server import ObjectServer

    from colony_memory.vaults.objects import ObjectVault

    lives, requests = [], []
    for count in (3, 20):
        with ObjectServer() as server:
            shared = ObjectVault(server.store("agents"), create=True) if layout == "labels" else None
            for agent in range(count):
                vault = shared or ObjectVault(server.store(f"agents/{agent:06}"), create=True)
                before, sent = Counter(server.calls), sum(server.bytes.values())
                lives.append(live(vault, agent, label=f"agent-{agent:06}" if shared else "default"))
                asked = tuple(sorted((Counter(server.calls) - before).items()))
                if agent:  # the first of all opens the shared vault, which reads its marker
                    requests.append((asked, sum(server.bytes.values()) - sent))
    assert_flat(lives)
    assert_flat(requests)


@pytest.mark.once
def test_agents_that_share_an_account_share_its_hour(monkeypatch):
    """Who is refused for the hour tries again in the next."""
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # the SDK waits for a minute before it tells
    now, left, hours = [1_800_000_000.0], list(range(8)), 0
    with VaultServer(FakeVault(quota_bytes=10**9, clock=lambda: now[0], operations_per_hour=9)) as server:
        mem = ColonyMemory(backend=ColonyVault("col_test", base_url=server.url))
        while left:
            again = []
            for agent in left:
                try:
                    mem.backup({"MEMORY.md": f"agent {agent}"}, label=f"agent-{agent:06}")
                except RateLimited:
                    again.append(agent)
            left, hours, now[0] = again, hours + 1, now[0] + 3600
        restored = [mem.restore(label=f"agent-{agent:06}") for agent in range(8)]
    assert restored == [{"MEMORY.md": f"agent {agent}"} for agent in range(8)]
    assert hours == 3
