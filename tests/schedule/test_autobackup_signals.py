"""SIGTERM, SIGINT and SIGHUP in a process that makes backups beside its own work."""

import asyncio
import math
import os
import signal
import threading

import pytest
from agents import end_of_timers, wait_until

from colony_memory import ColonyMemory
from colony_memory.schedule.autobackup import Autobackup
from colony_memory.vaults.memory import MemoryVault

on_posix = pytest.mark.skipif(os.name == "nt", reason="signals of other systems end the process at once")
FOREVER = math.inf


@on_posix
def test_whoever_presses_ctrl_c_again_does_not_wait(mem, memory):
    gate = threading.Event()

    def collect():
        os.kill(os.getpid(), signal.SIGINT)
        gate.wait(20)
        return memory()

    with pytest.raises(KeyboardInterrupt), Autobackup(mem, collect, every=FOREVER, final_timeout=60):
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            gate.set()
    end_of_timers()


def test_blocks_that_are_left_in_another_order_give_the_handlers_back(mem, memory, sigterm):
    before = signal.getsignal(signal.SIGTERM)
    first = Autobackup(mem, memory, every=FOREVER)
    second = Autobackup(mem, memory, every=FOREVER, label="second")
    first.__enter__()
    second.__enter__()
    first.__exit__()
    signal.raise_signal(signal.SIGTERM)
    assert sigterm == [signal.SIGTERM]
    second.__exit__()
    assert signal.getsignal(signal.SIGTERM) is before


def interrupted(number, *, also=lambda: None):
    """A memory whose first event is that this process gets a signal, as it may while the agent itself saves."""
    events = []

    def interrupt(event):
        events.append(event)
        if len(events) == 1:
            also()
            signal.raise_signal(number)
            signal.raise_signal(number)  # a second one changes nothing

    return ColonyMemory(backend=MemoryVault(), on_event=interrupt)


def test_where_no_thread_starts_any_more_the_signal_is_passed_on(memory, sigterm, monkeypatch):
    def fail(self):
        raise RuntimeError("can't start new thread")

    mem = interrupted(signal.SIGTERM, also=lambda: monkeypatch.setattr(threading.Thread, "start", fail))
    with mem.autobackup(memory, every=FOREVER):
        mem.backup({"MEMORY.md": "of the agent"})
        monkeypatch.undo()
        assert sigterm == [signal.SIGTERM] * 2
        assert memory.calls == 0


def test_sigterm_lets_a_backup_of_the_agent_finish_first(memory, sigterm):
    mem = interrupted(signal.SIGTERM)
    with mem.autobackup(memory, every=FOREVER):
        info = mem.backup({"MEMORY.md": "of the agent"})
        wait_until(lambda: sigterm)
        assert sigterm == [signal.SIGTERM]
        assert mem.restore() == {"MEMORY.md": "first"}
        assert mem.restore(snapshot_id=info.snapshot_id) == {"MEMORY.md": "of the agent"}


def test_sigterm_saves_and_calls_the_former_handler_and_the_timer_goes_on(mem, memory, sigterm, clock):
    with Autobackup(mem, memory, every=900, clock=clock) as auto:
        signal.raise_signal(signal.SIGTERM)
        assert sigterm == [signal.SIGTERM]
        assert mem.restore() == {"MEMORY.md": "first"}
        assert auto.running
        memory.documents = {"MEMORY.md": "second"}
        clock.turn(900)
        assert mem.restore() == {"MEMORY.md": "second"}
        memory.documents = {"MEMORY.md": "third"}
        signal.raise_signal(signal.SIGTERM)
        assert mem.restore() == {"MEMORY.md": "third"}
    assert sigterm == [signal.SIGTERM] * 2
    signal.raise_signal(signal.SIGTERM)
    assert sigterm == [signal.SIGTERM] * 3
    assert memory.calls == 4


def test_a_late_answer_to_sigterm_does_not_spare_the_next_wait(mem, memory, sigterm):
    gate = threading.Event()
    collected = memory

    def collect():
        gate.wait(20)
        return collected()

    with Autobackup(mem, collect, every=FOREVER, final_timeout=3.0) as auto:
        signal.raise_signal(signal.SIGTERM)
        assert isinstance(auto.last_error, TimeoutError)
        assert sigterm == [signal.SIGTERM]
        gate.set()
        wait_until(lambda: auto.last_error is None)
        memory.documents = {"MEMORY.md": "second"}
    assert mem.restore() == {"MEMORY.md": "second"}


@on_posix
def test_ctrl_c_while_sigterm_waits_does_not_disarm_it(mem, memory, sigterm):
    gate = threading.Event()

    def collect():
        if not gate.is_set():
            os.kill(os.getpid(), signal.SIGINT)
            gate.wait(20)
        return memory()

    with Autobackup(mem, collect, every=FOREVER, final_timeout=60):
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        assert sigterm == []
        gate.set()
        signal.raise_signal(signal.SIGTERM)
        assert sigterm == [signal.SIGTERM]


def test_a_handler_that_was_set_meanwhile_is_left_alone(mem, memory, sigterm):
    theirs = []
    with Autobackup(mem, memory, every=FOREVER):
        ours = signal.getsignal(signal.SIGTERM)

        def chained(signum, frame):
            theirs.append(signum)
            ours(signum, frame)

        signal.signal(signal.SIGTERM, chained)
    assert signal.getsignal(signal.SIGTERM) is chained
    # It still calls ours, which passes on and does nothing else.
    signal.raise_signal(signal.SIGTERM)
    assert theirs == sigterm == [signal.SIGTERM]
    assert memory.calls == 1


def test_sigterm_is_left_alone_in_other_threads(mem, memory, sigterm):
    handler = signal.getsignal(signal.SIGTERM)
    seen = []

    def agent():
        with Autobackup(mem, memory, every=FOREVER) as auto:
            seen.append(signal.getsignal(signal.SIGTERM))
            seen.append(auto.backup_now())

    thread = threading.Thread(target=agent)
    thread.start()
    thread.join(20)
    assert seen[0] is handler
    assert seen[1].doc_names == ["MEMORY.md"]
    assert memory.calls == 2


def test_a_block_left_in_another_thread_passes_the_signal_on(mem, memory, sigterm):
    auto = Autobackup(mem, memory, every=FOREVER)
    auto.__enter__()
    thread = threading.Thread(target=auto.__exit__)
    thread.start()
    thread.join(20)
    signal.raise_signal(signal.SIGTERM)
    assert sigterm == [signal.SIGTERM]
    assert memory.calls == 1


@on_posix
def test_an_event_loop_keeps_its_handler(mem, memory, sigterm):
    async def agent():
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        with Autobackup(mem, memory, every=FOREVER):
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.wait_for(stop.wait(), 20)
            assert mem.restore() == {"MEMORY.md": "first"}
            memory.documents = {"MEMORY.md": "said goodbye"}

    asyncio.run(agent())
    assert mem.restore() == {"MEMORY.md": "said goodbye"}
