"""How each verb ended and what it cost, as ``on_event`` is told, on both facades."""

from __future__ import annotations

import asyncio
import threading

import pytest

from colony_memory import (
    AsyncColonyMemory,
    ColonyMemory,
    ColonyMemoryError,
    LifecycleEvent,
    RateLimited,
    SnapshotNotFound,
)
from colony_memory._engine.observe import tally
from colony_memory.testing import FakeVault, FaultyVault
from colony_memory.testing.faults import ProcessDied

SECRET = "col_this-is-the-key"
SMALL = {"MEMORY.md": "two years of notes"}


class Ended(list):
    """Keeps what it is told of verbs."""

    def append(self, event):
        if isinstance(event, LifecycleEvent):
            super().append(event)


def counted(vault):
    """A vault, and the calls that reach it."""
    faulty = FaultyVault(vault)
    return faulty, faulty.calls


def kinds(calls):
    """How many calls read, wrote and deleted."""
    methods = [method for method, _ in calls]
    writes = sum(method.startswith("upload") for method in methods)
    return len(methods) - writes - methods.count("delete"), writes, methods.count("delete")


def sizes(vault, names):
    return sum(len(vault.vault_get_file(name)["content"].encode()) for name in names)


def test_what_a_backup_cost(open_memory, vault):
    faulty, calls = counted(vault)
    told = Ended()
    mem = open_memory(faulty, on_event=told.append)
    info = mem.backup({"a.md": "ä" * 40, "b.md": "b"})
    (event,) = told
    assert (event.action, event.verb, event.label, event.snapshot_id) == (
        "created",
        "backup",
        "default",
        info.snapshot_id,
    )
    assert (event.reads, event.writes, event.deletes) == kinds(calls)
    assert event.calls == len(calls)
    assert event.bytes_written == sizes(vault, [name for method, name in calls if method.startswith("upload")])
    assert (event.count, event.documents, event.plain_bytes) == (1, 2, info.byte_size)
    assert event.stored_bytes == info.stored_bytes
    assert event.seconds > 0
    assert event


def test_what_a_backup_removes_is_told_before_it_and_costs_nothing_of_its_own(open_memory, vault):
    told = Ended()
    mem = open_memory(vault, on_event=told.append)
    mem.backup({"n": "0"})
    mem.backup({"n": "1"}, prune_keep=1)
    assert [(event.action, event.verb, event.count, event.calls > 0) for event in told[1:]] == [
        ("pruned", "backup", 1, False),
        ("created", "backup", 1, True),
    ]


def test_a_verification_says_whether_it_holds(open_memory, vault):
    told = Ended()
    mem = open_memory(vault, on_event=told.append)
    info = mem.backup(SMALL)
    mem.verify()
    vault.vault_delete_file(f"cmem.default.{info.snapshot_id}.p0.json")
    mem.verify()
    assert [(event.action, event.count, event.ok, bool(event)) for event in told[1:]] == [
        ("verified", 1, True, True),
        ("verified", 1, False, False),
    ]


@pytest.mark.parametrize("error", [ConnectionError(SECRET), TimeoutError(SECRET), RuntimeError(SECRET)])
def test_a_fault_has_a_name_and_no_words(open_memory, error):
    vault = FaultyVault(FakeVault(operations_per_hour=None))
    told = Ended()
    mem = open_memory(vault, on_event=told.append)
    vault.fail("upload", error, times=None)
    with pytest.raises(ColonyMemoryError) as raised:
        mem.backup(SMALL)
    (event,) = told
    assert (event.action, event.verb, event.ok, event.error) == ("fault", "backup", False, type(raised.value).__name__)
    assert event.writes > 0
    assert SECRET not in repr(event)


@pytest.mark.parametrize(
    ("code", "told_code"), [("RATE_LIMIT", "RATE_LIMIT"), (f"leaked {SECRET}", None), ("A" * 65, None), (7, None)]
)
def test_a_code_is_told_only_if_it_is_one(open_memory, code, told_code):
    vault = FaultyVault(FakeVault(operations_per_hour=None))
    vault.fail("get", RateLimited("slow down", status=429, code=code, retry_after=3), times=None)
    told = Ended()
    with pytest.raises(ColonyMemoryError):
        open_memory(vault, on_event=told.append).restore()
    assert [(event.status, event.code) for event in told] == [(429, told_code)]


def test_nothing_saved_yet_is_a_fault_only_where_it_raises(open_memory, vault):
    told = Ended()
    mem = open_memory(vault, on_event=told.append)
    assert mem.restore(default=None) is None
    assert told == []
    with pytest.raises(SnapshotNotFound):
        mem.restore()
    with pytest.raises(ValueError, match="empty"):
        mem.backup({})
    with pytest.raises(SnapshotNotFound):
        mem.pin(snapshot_id="20261127T081500000000Z-0a1b2c")
    assert [(event.verb, event.error) for event in told] == [
        ("restore", "SnapshotNotFound"),
        ("backup", "ValueError"),
        ("pin", "SnapshotNotFound"),
    ]


async def _coroutine(event):
    raise AssertionError


@pytest.mark.parametrize("listener", [7, "print", _coroutine])
def test_what_cannot_listen_is_refused(open_memory, vault, listener):
    with pytest.raises(ValueError, match="on_event must be a"):
        open_memory(vault, on_event=listener)


def test_verbs_at_once_are_counted_apart():
    """In threads and in tasks: each event has the calls of its own verb and no other's."""
    alone = Ended()
    ColonyMemory(backend=FakeVault(operations_per_hour=None), on_event=alone.append).backup(SMALL, label="a0")
    expected = alone[0].calls

    told = Ended()
    mem = ColonyMemory(backend=FakeVault(operations_per_hour=None), on_event=told.append)
    threads = [threading.Thread(target=mem.backup, args=(SMALL,), kwargs={"label": f"a{n}"}) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [event.calls for event in told] == [expected] * 8

    async def all_at_once():
        amem = AsyncColonyMemory(backend=FakeVault(operations_per_hour=None), on_event=told.append)
        await asyncio.gather(*(amem.backup(SMALL, label=f"a{n}") for n in range(8)))

    told.clear()
    asyncio.run(all_at_once())
    assert [event.calls for event in told] == [expected] * 8


@pytest.mark.filterwarnings("ignore::colony_memory.ColonyMemoryWarning")
@pytest.mark.parametrize("how", ["before", "after", "died"])
def test_each_verb_is_told_of_once_whatever_fails(vault, how):
    """A fault before each call, after each that was applied, and the end of the process there: one event, or none."""
    documents = {"n": "1"}
    ColonyMemory(backend=vault).backup({"n": "0"})
    for skip in range(12):
        faulty = FaultyVault(vault)
        told = Ended()
        mem = ColonyMemory(backend=faulty, on_event=told.append)
        mem.restore()
        told.clear()
        if how == "died":
            faulty.stop_after(skip + 1, applied=bool(skip % 2))
        else:
            faulty.fail("*", ConnectionError("reset"), times=1, skip=skip, after=how == "after")
        documents["n"] += "1"
        before = len(faulty.calls)
        try:
            mem.backup(documents, prune_keep=2)
        except ColonyMemoryError as error:
            ended = [("fault", type(error).__name__)]
        except ProcessDied:
            ended = []
        else:
            ended = [("created", None)]
        assert [(event.action, event.error) for event in told if event.action != "pruned"] == ended
        assert sum(event.calls for event in told) in (0, len(faulty.calls) - before)
        assert tally() is None
