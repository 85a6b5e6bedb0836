"""Many agents at once: what one of them costs does not depend on how many others there are."""

import random
from collections import Counter
from datetime import timedelta

import pytest

from colony_memory import ColonyMemory, LifecycleEvent, RateLimited
from colony_memory.testing import FakeVault, VaultServer
from colony_memory.vaults.colony import ColonyVault

_WORDS = [f"{random.Random(number).getrandbits(40):x}" for number in range(2000)]


def memory_of(agent, turn, *, words=200):
    drawn = random.Random(agent)
    notes = [" ".join(drawn.choices(_WORDS, k=words)) for _ in range(4)]
    return {f"notes/{n}.md": text for n, text in enumerate(notes)} | {"MEMORY.md": f"agent {agent:06} turn {turn:06}"}


def live(vault, agent, *, label, turns=3, keep=2, format=1, words=200):  # noqa: A002 - the word for it
    """A short life: an agent that boots, saves as often, also what has not changed, and boots again."""
    told = []
    for _ in range(2):
        mem = ColonyMemory(backend=vault, format=format, on_event=told.append)
        mem.restore(label=label, default={})
        for turn in range(turns):
            for _ in range(2):
                mem.backup(memory_of(agent, turn, words=words), label=label, prune_keep=keep)
    return [event for event in told if isinstance(event, LifecycleEvent)]


def costs(events):
    return Counter(
        {kind: sum(getattr(event, kind) for event in events) for kind in ("reads", "writes", "deletes")}
    ), sum(event.bytes_read + event.bytes_written for event in events)


def assert_flat(lives, others):
    """The same calls for every agent, and bytes that differ by what compresses a little better or worse."""
    assert {tuple(sorted(costs(events)[0].items())) for events in (*lives, *others)} == {
        tuple(sorted(costs(lives[0])[0].items()))
    }
    sizes = [costs(events)[1] for events in (*lives, *others)]
    assert max(sizes) <= 1.05 * min(sizes)
    assert not any(event.action == "fault" for events in (*lives, *others) for event in events)


# One bucket


def live_in_bucket(server, count, layout, **options):
    """The lives of so many agents in one bucket, and what each cost there."""
    from colony_memory.vaults.objects import ObjectVault

    shared = ObjectVault(server.store("agents"), create=True) if layout == "labels" else None
    lives, spent = [], []
    for agent in range(count):
        vault = shared or ObjectVault(server.store(f"agents/{agent:06}"), create=True)
        before, bytes_before = Counter(server.calls), sum(server.bytes.values())
        lives.append(live(vault, agent, label=f"agent-{agent:06}" if shared else "default", **options))
        spent.append((Counter(server.calls) - before, sum(server.bytes.values()) - bytes_before))
    return lives, spent


def assert_bucket_is_flat(server, few, many, layout, **options):
    one, spent_of_few = live_in_bucket(server, few, layout, **options)
    server.objects.clear()
    server.times.clear()
    others, spent_of_many = live_in_bucket(server, many, layout, **options)
    assert_flat(one, others)
    # The first of all opens the shared vault, which reads its marker.
    assert len({tuple(sorted(calls.items())) for calls, _ in (*spent_of_few[1:], *spent_of_many[1:])}) == 1
    sizes = [size for _, size in (*spent_of_few[1:], *spent_of_many[1:])]
    assert max(sizes) <= 1.05 * min(sizes)
    return spent_of_many[-1]


@pytest.mark.once
@pytest.mark.parametrize("layout", ["labels", "prefixes"])
def test_agents_in_one_bucket_cost_the_same_each(layout):
    pytest.importorskip("obstore")
    from object_server import ObjectServer

    with ObjectServer() as server:
        assert_bucket_is_flat(server, 3, 20, layout, turns=2)


@pytest.mark.long
@pytest.mark.parametrize("format", [1, 2])
@pytest.mark.parametrize("layout", ["labels", "prefixes"])
def test_a_thousand_agents_in_one_bucket_cost_the_same_each(layout, format, capsys):  # noqa: A002
    pytest.importorskip("obstore")
    if format == 2:
        pytest.importorskip("needs_zstd")
    from object_server import ObjectServer

    with ObjectServer() as server:
        calls, size = assert_bucket_is_flat(server, 5, 1000, layout, format=format)
        stored = len(server.objects), sum(map(len, server.objects.values()))
    with capsys.disabled():
        print(f"\n{layout}, format {format}: each of 1,000 agents {dict(calls)}, {size} B; stored {stored}")


@pytest.mark.long
@pytest.mark.parametrize("thrifty", [False, True])
@pytest.mark.parametrize("format", [1, 2])
def test_what_a_day_of_an_agent_costs(format, thrifty, capsys):  # noqa: A002
    """The figures of docs/object-stores.md: 2 boots and 24 saves of changed memory.

    With 72 of unchanged memory, and a retention in each save; or without, and one prune a day.
    """
    pytest.importorskip("obstore")
    if format == 2:
        pytest.importorskip("needs_zstd")
    from object_server import ObjectServer

    from colony_memory.vaults.objects import ObjectVault

    with ObjectServer() as server:
        vault, told = ObjectVault(server.store("agents/a"), create=True), []
        mem = ColonyMemory(backend=vault, format=format)
        for turn in range(60):
            server.now += timedelta(hours=1)
            mem.backup(memory_of(1, turn, words=2000), prune_keep=30)
        calls, moved = Counter(server.calls), Counter(server.bytes)
        for turn in range(24):
            if turn % 12 == 0:
                mem = ColonyMemory(backend=vault, format=format, on_event=told.append)
                mem.restore()
            for _ in range(1 if thrifty else 4):
                server.now += timedelta(hours=1 if thrifty else 0.25)
                info = mem.backup(memory_of(1, 100 + turn, words=2000), prune_keep=None if thrifty else 30)
        if thrifty:
            mem.prune(keep=30)
        calls, moved = Counter(server.calls) - calls, Counter(server.bytes) - moved
        stored = sum(map(len, server.objects.values()))
        assert len(mem.list_snapshots()) == 30
    with capsys.disabled():
        print(
            f"\nformat {format}, {thrifty=}: plain {info.byte_size} B; a day {dict(calls)}, bytes {dict(moved)}; "
            f"stored {stored} B in {len(server.objects)} objects"
        )


# The hosted vault, with its limits


def live_on_server(agent, **options):
    """An agent with an account of its own, whose hour has 60 uploads and deletions."""
    with VaultServer(FakeVault(), api_key="col_test") as server:
        vault = ColonyVault("col_test", base_url=server.url)
        events = live(vault, agent, label="default", **options)
        return events, Counter(method for method, _ in server.calls)


def assert_accounts_are_flat(few, many, **options):
    lives = [live_on_server(agent, **options) for agent in range(few)]
    others = [live_on_server(agent, **options) for agent in range(many)]
    assert_flat([events for events, _ in lives], [events for events, _ in others])
    assert {tuple(sorted(calls.items())) for _, calls in (*lives, *others)} == {tuple(sorted(lives[0][1].items()))}
    return others[-1][1]


@pytest.mark.once
def test_agents_with_accounts_of_their_own_cost_the_same_each():
    assert_accounts_are_flat(1, 4, turns=2)


def share_an_account(count, hour):
    """So many agents in one account: who is refused for the hour tries again in the next. How many hours it takes."""
    now = [1_800_000_000.0]
    with VaultServer(FakeVault(quota_bytes=10**9, clock=lambda: now[0], operations_per_hour=hour)) as server:
        vault = ColonyVault("col_test", base_url=server.url)
        left, hours = list(range(count)), 0
        while left:
            hours += 1
            again = []
            for agent in left:
                mem = ColonyMemory(backend=vault)
                try:
                    mem.backup({"MEMORY.md": f"agent {agent}"}, label=f"agent-{agent:06}")
                except RateLimited:
                    again.append(agent)
            left = again
            now[0] += 3600
        restored = [ColonyMemory(backend=vault).restore(label=f"agent-{agent:06}") for agent in range(count)]
    assert restored == [{"MEMORY.md": f"agent {agent}"} for agent in range(count)]
    return hours


@pytest.mark.once
def test_agents_that_share_an_account_share_its_hour(monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # the SDK waits for a minute before it tells
    assert share_an_account(8, 9) == 3
