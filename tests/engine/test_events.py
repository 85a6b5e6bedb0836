"""What ``on_event`` is told of files, and of how each verb ended and what it cost, on both facades."""

import asyncio
import threading
import time

import pytest

from colony_memory import (
    AsyncColonyMemory,
    ColonyMemory,
    ColonyMemoryError,
    Event,
    LifecycleEvent,
    PruneIncomplete,
    RateLimited,
    SnapshotNotFound,
)
from colony_memory._engine.observe import tally
from colony_memory.testing import FakeVault, FaultyVault
from colony_memory.testing.faults import ProcessDied

pytestmark = pytest.mark.usefixtures("small_parts")

SMALL = {"MEMORY.md": "small"}
LARGE = {"MEMORY.md": "".join(map(chr, range(0x4E00, 0x4E80)))}


class Told(list):
    def __init__(self, kind):
        super().__init__()
        self.kind = kind

    def append(self, event):
        if isinstance(event, self.kind):
            super().append(event)


def events_of(run):
    told = Told(Event)
    return told, run(told.append)


def part(info, seq):
    return f"cmem.default.{info.snapshot_id}.p{seq}.json"


def manifest(info):
    return f"cmem.default.{info.snapshot_id}.manifest.json"


def counted(action, *names):
    return [Event(action, name, done, len(names)) for done, name in enumerate(names, 1)]


def names(told):
    return sorted(event.name for event in told)


def test_a_backup_tells_of_every_file_in_order(open_memory, vault):
    told, info = events_of(lambda tell: open_memory(vault, on_event=tell).backup(LARGE))
    assert info.part_count > 2
    parts = [part(info, seq) for seq in range(info.part_count)]
    assert told == counted("upload", *parts, manifest(info))


def test_a_backup_that_writes_nothing_tells_of_what_it_reads_to_prove_it(open_memory, vault):
    first = open_memory(vault).backup(SMALL)
    told = Told(Event)
    mem = open_memory(vault, on_event=told.append)
    assert mem.backup(SMALL).reused
    assert {event.action for event in told} == {"download"}
    assert names(told) == names(counted("download", manifest(first), part(first, 0)))
    told.clear()
    assert mem.backup(SMALL).reused
    assert told == []


def test_a_restore_tells_of_every_file(open_memory, vault):
    info = open_memory(vault).backup(LARGE)
    told, documents = events_of(lambda tell: open_memory(vault, on_event=tell).restore())
    assert documents == LARGE
    assert names(told) == names(counted("download", manifest(info), *(part(info, n) for n in range(info.part_count))))
    # What is read at once may come in any order; the count goes up all the same.
    assert [(event.action, event.done, event.total) for event in told] == [
        ("download", n, info.part_count + 1) for n in range(1, info.part_count + 2)
    ]


@pytest.mark.parametrize("at", [1, 2, 3])
def test_after_one_that_raises_a_verb_tells_of_no_more_files(open_memory, vault, caplog, at):
    told = Told(Event)

    def fail(event):
        told.append(event)
        if len(told) == at:
            raise RuntimeError("the terminal is gone")

    mem = open_memory(vault, on_event=fail)
    info = mem.backup(LARGE)
    assert len(told) == at
    # How the verb ended is told all the same, which fails in the same way here.
    assert [record.getMessage() for record in caplog.records] == [
        "on_event failed, which changes nothing here: RuntimeError('the terminal is gone')"
    ] * 2
    told.append(Event("download", "so that no later event fails", 1, 1))
    assert mem.restore() == LARGE
    assert len(told) > at + 1
    mem.delete_snapshot(label="default", snapshot_id=info.snapshot_id)
    assert len(caplog.records) == 2


def test_what_means_to_end_the_program_passes(vault):
    def interrupt(event):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ColonyMemory(backend=vault, on_event=interrupt).backup(SMALL)
    assert ColonyMemory(backend=vault).restore(default=None) is None


def test_no_delete_is_told_that_failed(open_memory):
    fake = FakeVault(operations_per_hour=None)
    mem = ColonyMemory(backend=fake)
    first, second, _ = [mem.backup({"n": str(n)}) for n in range(3)]
    vault = FaultyVault(fake)
    vault.fail("delete", ColonyMemoryError("no"), match=first.snapshot_id)
    told = Told(Event)
    with pytest.raises(PruneIncomplete):
        open_memory(vault, on_event=told.append).prune(label="default", keep=1)
    gone = [event for event in told if event.action == "delete"]
    assert [(event.name, event.done, event.total) for event in gone] == [
        (manifest(second), 1, 4),
        (part(second, 0), 2, 4),
    ]


def test_what_is_read_at_once_is_counted_up():
    """A slow vault is read in threads; events still come from the caller's, one after the other."""
    fake = FakeVault(operations_per_hour=None)
    info = ColonyMemory(backend=fake).backup(LARGE)
    vault = FaultyVault(fake)
    vault.hook("get", lambda: time.sleep(0.005), times=None)
    threads, told = set(), Told(Event)

    def tell(event):
        threads.add(threading.current_thread())
        told.append(event)

    assert ColonyMemory(backend=vault, on_event=tell).restore() == LARGE
    assert [event.done for event in told] == list(range(1, info.part_count + 2))
    assert threads == {threading.current_thread()}


# --- verbs ---

SECRET = "col_this-is-the-key"


def kinds(calls):
    methods = [method for method, _ in calls]
    writes = sum(method.startswith("upload") for method in methods)
    return len(methods) - writes - methods.count("delete"), writes, methods.count("delete")


def sizes(vault, names):
    return sum(len(vault.vault_get_file(name)["content"].encode()) for name in names)


def test_what_a_backup_cost(open_memory, vault):
    faulty = FaultyVault(vault)
    calls, told = faulty.calls, Told(LifecycleEvent)
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
    told = Told(LifecycleEvent)
    mem = open_memory(vault, on_event=told.append)
    mem.backup({"n": "0"})
    mem.backup({"n": "1"}, prune_keep=1)
    assert [(event.action, event.verb, event.count, event.calls > 0) for event in told[1:]] == [
        ("pruned", "backup", 1, False),
        ("created", "backup", 1, True),
    ]


def test_a_verification_says_whether_it_holds(open_memory, vault):
    told = Told(LifecycleEvent)
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
    told = Told(LifecycleEvent)
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
    told = Told(LifecycleEvent)
    with pytest.raises(ColonyMemoryError):
        open_memory(vault, on_event=told.append).restore()
    assert [(event.status, event.code) for event in told] == [(429, told_code)]


def test_nothing_saved_yet_is_a_fault_only_where_it_raises(open_memory, vault):
    told = Told(LifecycleEvent)
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
    alone = Told(LifecycleEvent)
    ColonyMemory(backend=FakeVault(operations_per_hour=None), on_event=alone.append).backup(SMALL, label="a0")
    expected = alone[0].calls

    told = Told(LifecycleEvent)
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
        told = Told(LifecycleEvent)
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
