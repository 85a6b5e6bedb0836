"""What a memory is based on: the events that change it, and one writer for all threads and tasks of a client."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from colony_memory import AsyncColonyMemory, ColonyMemory, open_vault
from colony_memory._engine import basis as events
from colony_memory._engine.basis import Basis
from colony_memory.testing import FakeVault, FaultyVault

BASE = {"MEMORY.md": "one\ntwo\nthree\n"}
S1, S2, S3 = (f"2026010{day}T000000000000Z-aaaaaa" for day in (1, 2, 3))
FULL = Basis(S1, "f" * 16, "tree", frozenset({S1}), pending=(S2,), refused=(S3,), origin="0" * 16)


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (lambda b: events.restored(b, S2, listed=[S1, S2]), Basis(S2, listed=frozenset({S1, S2}), origin="0" * 16)),
        (lambda b: events.saved(b, S2, tree="t"), Basis(S2, tree="t", origin="0" * 16)),
        (lambda b: events.saved(b, S1, listed=[S1]).pending, (S2,)),
        (events.lost, Basis()),
        (lambda b: events.settled(b, S3), FULL),
        (lambda b: events.settled(b, S3, stream=b.stream), FULL),
        (lambda b: events.settled(b, S3, stream="e" * 16), Basis()),
        (lambda b: events.settled(b, S2).own, frozenset({S2})),
        (lambda b: events.settled(events.reverted(b, S3), S2).reverted, False),
        (lambda b: events.pending(b, S3).pending, (S2, S3)),
        (lambda b: events.pending(b, S2).pending, (S2,)),
        (lambda b: events.with_refused(b, S2).pending, ()),
        (lambda b: events.with_refused(b, S2).refused, (S3, S2)),
        (lambda b: events.with_merged(b, S3).merged, (S3,)),
        (lambda b: events.withdrawn(b, S2).pending, ()),
        (lambda b: (events.reverted(b, S3).snapshot_id, events.reverted(b, S3).reverted), (S1, True)),
    ],
)  # fmt: skip
def test_what_an_event_leaves(event, expected):
    assert event(FULL) == expected


@pytest.mark.parametrize(
    ("basis", "latest", "listed", "conflict"),
    [
        (Basis(), S2, False, False),
        (FULL, None, True, False),
        (FULL, S1, True, False),
        (FULL, S2, True, False),
        (FULL, S3, True, True),
        (FULL, S3, False, True),
        (Basis(S2, listed=frozenset({S1, S2})), S1, False, False),
        (Basis(S2, listed=frozenset({S1, S2})), S1, True, True),
        (events.reverted(Basis(S2), S2), S2, True, False),
        (events.reverted(Basis(), S2), S3, True, True),
    ],
)
def test_what_is_a_conflict(basis, latest, listed, conflict):
    assert events.is_conflict(basis, latest, listed=listed) is conflict


def test_threads_of_one_client_are_one_writer():
    mem = ColonyMemory(backend=open_vault("memory:"), format=1)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: mem.backup({**BASE, "n.md": str(n)}), range(24)))
    assert all(info.head and info.diverged_from is None for info in found)
    assert len(mem.list_snapshots()) == 24


def test_tasks_of_one_client_are_one_writer_in_every_loop():
    mem = AsyncColonyMemory(backend=open_vault("memory:"), format=1)

    async def save(first):
        return await asyncio.gather(*(mem.backup({**BASE, "n.md": str(n)}) for n in range(first, first + 6)))

    with ThreadPoolExecutor(2) as pool:
        found = [info for infos in pool.map(lambda first: asyncio.run(save(first)), (0, 6)) for info in infos]
    assert len({info.snapshot_id for info in found if info.head and info.diverged_from is None}) == 12


def test_what_was_called_off_keeps_nobody_waiting():
    vault = FaultyVault(FakeVault())
    mem, begun, go = AsyncColonyMemory(backend=vault), threading.Event(), threading.Event()

    def wait():
        begun.set()
        go.wait(10)

    async def agent():
        vault.hook("upload", wait, match=".manifest.")
        first = asyncio.ensure_future(mem.backup(BASE))
        await asyncio.to_thread(begun.wait, 10)
        waiting = asyncio.ensure_future(mem.backup({**BASE, "a.md": "waits"}))
        await asyncio.sleep(0.05)
        waiting.cancel()  # while it waits for the lock
        first.cancel()  # while a thread of it is at work, whose end it waits for
        await asyncio.sleep(0.05)
        assert waiting.done()
        assert not first.done()
        go.set()
        assert [type(each) for each in await asyncio.gather(first, waiting, return_exceptions=True)] == [
            asyncio.CancelledError
        ] * 2
        return await asyncio.wait_for(mem.backup({**BASE, "a.md": "last"}), 5)

    assert asyncio.run(agent()).head


def test_a_verb_that_a_listener_begins_goes_on():
    vault, seen = FakeVault(), []

    def listen(event):
        if getattr(event, "action", "") == "upload" and not begun.is_set():
            begun.set()
            seen.append(mem.backup({"MEMORY.md": "from the listener"}))

    mem, begun = ColonyMemory(backend=vault, on_event=listen), threading.Event()
    mem.backup(BASE)
    assert len(seen) == 1
    assert mem._session.writers == {}
