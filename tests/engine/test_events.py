"""What ``on_event`` is told of files, on both facades; how verbs end is in test_lifecycle_events."""

from __future__ import annotations

import threading
import time

import pytest

from colony_memory import ColonyMemory, ColonyMemoryError, Event, PruneIncomplete
from colony_memory.testing import FakeVault, FaultyVault

pytestmark = pytest.mark.usefixtures("small_parts")

SMALL = {"MEMORY.md": "small"}
LARGE = {"MEMORY.md": "".join(map(chr, range(0x4E00, 0x4E80)))}


class Files(list):
    """Keeps what it is told of files."""

    def append(self, event):
        if isinstance(event, Event):
            super().append(event)


def events_of(run):
    """The events of one verb, and what it returned."""
    told = Files()
    return told, run(told.append)


def part(info, seq):
    return f"cmem.default.{info.snapshot_id}.p{seq}.json"


def manifest(info):
    return f"cmem.default.{info.snapshot_id}.manifest.json"


def counted(action, *names, total=None):
    return [Event(action, name, done, total or len(names)) for done, name in enumerate(names, 1)]


def names(told):
    return sorted(event.name for event in told)


def test_a_backup_tells_of_every_file_in_order(open_memory, vault):
    told, info = events_of(lambda tell: open_memory(vault, on_event=tell).backup(LARGE))
    assert info.part_count > 2
    parts = [part(info, seq) for seq in range(info.part_count)]
    assert told == counted("upload", *parts, manifest(info))


def test_a_backup_that_writes_nothing_tells_of_what_it_reads_to_prove_it(open_memory, vault):
    first = open_memory(vault).backup(SMALL)
    told = Files()
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
    told = Files()

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
    told = Files()
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
    threads, told = set(), Files()

    def tell(event):
        threads.add(threading.current_thread())
        told.append(event)

    assert ColonyMemory(backend=vault, on_event=tell).restore() == LARGE
    assert [event.done for event in told] == list(range(1, info.part_count + 2))
    assert threads == {threading.current_thread()}
