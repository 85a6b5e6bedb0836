"""Backup on a timer inside of an event loop, and the ways in which that ends."""

import asyncio
import math
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from agents import end_of_timers
from faces import AsyncFakeVault

from colony_memory import AsyncColonyMemory, ColonyMemory
from colony_memory.exceptions import VaultUnavailable
from colony_memory.schedule import autobackup
from colony_memory.schedule.autobackup import AsyncAutobackup
from colony_memory.vaults.memory import MemoryVault

on_posix = pytest.mark.skipif(os.name == "nt", reason="signals of other systems end the process at once")
FOREVER = math.inf


@pytest.fixture
def amem(vault):
    return AsyncColonyMemory(backend=AsyncFakeVault(vault))


@pytest.fixture(autouse=True)
def nothing_stays():
    before = {name: signal.getsignal(name) for name in (signal.SIGTERM, signal.SIGINT)}
    yield
    end_of_timers()
    assert {name: signal.getsignal(name) for name in before} == before


def saved(vault):
    return ColonyMemory(backend=vault.vault).restore()


async def until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "it did not come to this"
        await asyncio.sleep(0.002)


@pytest.mark.parametrize("kind", ["plain", "coroutine"])
def test_it_saves_on_the_timer_and_at_the_end_in_the_event_loop(amem, vault, memory, kind):
    async def collect():
        await asyncio.sleep(0)
        return memory()

    async def agent():
        async with amem.autobackup(collect if kind == "coroutine" else memory, every=0.01, prune_keep=2) as auto:
            assert isinstance(auto, AsyncAutobackup)
            assert auto.running
            await until(lambda: memory.calls >= 3)
            assert auto.last_snapshot.reused
            memory.documents = {"MEMORY.md": "last words"}
        assert not auto.running
        assert auto.last_error is None
        assert auto.last_snapshot == await amem.latest()
        assert set(memory.threads) == {threading.current_thread()}

    asyncio.run(agent())
    assert saved(vault) == {"MEMORY.md": "last words"}


def test_backup_now_and_errors_are_as_in_the_other_one(amem, vault, memory):
    async def agent():
        auto = amem.autobackup(memory, every=FOREVER)
        with pytest.raises(RuntimeError, match="inside the with block"):
            await auto.backup_now()
        async with auto:
            with pytest.raises(RuntimeError, match="entered only once"):
                await auto.__aenter__()
            assert (await auto.backup_now()).doc_names == ["MEMORY.md"]
            for error in (OSError("no disk"), SystemExit(3)):
                memory.error = error
                assert await auto.backup_now() is None
                assert auto.last_error is error
            memory.error = None
            for nothing in ({}, None):
                memory.documents = nothing
                assert await auto.backup_now() is None
                assert "nothing was saved" in str(auto.last_error)
            vault.fail("*", VaultUnavailable("no network"), times=1)
            memory.documents = {"MEMORY.md": "second"}
            assert await auto.backup_now() is None
            assert isinstance(auto.last_error, VaultUnavailable)
        assert auto.last_error is None

    asyncio.run(agent())
    assert saved(vault) == {"MEMORY.md": "second"}


def test_what_every_backup_would_refuse_is_refused_at_once(amem, memory):
    with pytest.raises(TypeError, match="prune_kep"):
        amem.autobackup(memory, prune_kep=3)
    with pytest.raises(ValueError, match="the one for ColonyMemory"):
        AsyncAutobackup(ColonyMemory(backend=MemoryVault()), memory)


# Cancelling.


def test_a_cancelled_agent_is_saved_and_more_cancels_wait_for_that(amem, vault, memory):
    entered = asyncio.Event

    async def main():
        inside, gate = entered(), entered()

        async def collect():
            inside.set()
            await gate.wait()
            return memory()

        async def agent():
            async with amem.autobackup(collect, every=FOREVER, final_timeout=60):
                await asyncio.sleep(3600)

        task = asyncio.create_task(agent())
        await asyncio.sleep(0)
        for _ in range(5):
            task.cancel()
            await asyncio.wait_for(inside.wait(), 20)
            await asyncio.sleep(0)
        assert not task.done()
        gate.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert saved(vault) == {"MEMORY.md": "first"}


def test_what_cancels_every_task_does_not_cost_the_final_backup(amem, vault, memory):
    """The end of asyncio.run cancels the backup on the timer too."""
    began = threading.Event()

    async def collect():
        if not began.is_set():
            began.set()
            await asyncio.sleep(3600)
        return memory()

    async def agent():
        async with amem.autobackup(collect, every=0.001):
            await asyncio.sleep(3600)

    async def main():
        task = asyncio.create_task(agent())
        await until(began.is_set)
        assert not task.done()

    before = signal.getsignal(signal.SIGINT)
    asyncio.run(main())
    signal.signal(signal.SIGINT, before)  # asyncio.run cannot put it back where the block outlives the main task
    assert saved(vault) == {"MEMORY.md": "first"}


@pytest.mark.parametrize("where", ["collect", "vault"])
def test_a_final_backup_that_hangs_is_cancelled_after_its_time(memory, where, caplog):
    cancelled = []

    async def hang():
        try:
            await asyncio.sleep(3600)
        finally:
            cancelled.append(where)

    class Hanging(AsyncFakeVault):
        async def vault_get_file(self, name):
            await hang()

    async def collect():
        if where == "collect":
            await hang()
        return memory()

    async def agent():
        memory = AsyncColonyMemory(backend=Hanging(MemoryVault()))
        async with memory.autobackup(collect, every=FOREVER, final_timeout=1) as auto:
            pass
        assert isinstance(auto.last_error, TimeoutError)
        await until(lambda: cancelled)

    asyncio.run(agent())
    assert "the final backup was not done within 1 s" in caplog.text
    assert cancelled == [where]


# The loop goes away.


def test_a_coroutine_that_is_thrown_away_ends_without_a_backup_and_says_so(amem, memory, caplog):
    async def agent():
        async with amem.autobackup(memory, every=FOREVER):
            await asyncio.sleep(3600)

    event_loop = asyncio.new_event_loop()
    coroutine = agent()
    event_loop.run_until_complete(_step(coroutine))
    event_loop.close()
    coroutine.close()
    end_of_timers()
    assert "no final backup was made" in caplog.text
    assert memory.calls == 0


async def _step(coroutine):
    coroutine.send(None)


def test_an_event_loop_that_is_closed_during_the_final_backup_ends_the_thread(amem, memory, caplog):
    inside = threading.Event()

    async def collect():
        inside.set()
        await asyncio.sleep(3600)

    async def agent():
        async with amem.autobackup(collect, every=FOREVER, final_timeout=60):
            pass

    event_loop, coroutine = asyncio.new_event_loop(), agent()
    event_loop.create_task(coroutine)
    event_loop.run_until_complete(until(inside.is_set))
    event_loop.close()
    coroutine.close()
    end_of_timers()
    assert "the final backup of label 'default' failed: ColonyMemoryError: the event loop was closed" in caplog.text


# Signals.


@on_posix
@pytest.mark.parametrize("how", ["handler", "add_signal_handler"])
def test_sigterm_saves_while_the_agent_goes_on_and_then_calls_the_former_handler(amem, vault, memory, sigterm, how):
    async def agent():
        stop = asyncio.Event()
        steps = 0
        if how == "add_signal_handler":
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)

        async def collect():
            nonlocal steps
            if not memory.calls:
                for _ in range(5):
                    await asyncio.sleep(0.001)
                    steps += 1
            return memory()

        async with amem.autobackup(collect, every=FOREVER) as auto:
            os.kill(os.getpid(), signal.SIGTERM)
            if how == "handler":
                await until(lambda: sigterm)
                assert (steps, saved(vault)) == (5, {"MEMORY.md": "first"})
            else:
                await asyncio.wait_for(stop.wait(), 20)
            assert auto.running
            memory.documents = {"MEMORY.md": "said goodbye"}
        if how == "add_signal_handler":
            asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)
            signal.signal(signal.SIGTERM, lambda *args: None)

    before = signal.getsignal(signal.SIGTERM)
    asyncio.run(agent())
    signal.signal(signal.SIGTERM, before)
    assert saved(vault) == {"MEMORY.md": "said goodbye"}


@on_posix
def test_a_signal_that_comes_just_before_the_loop_sleeps_is_sent_again(amem, vault, memory, sigterm, monkeypatch):
    sent = []

    def send_again(number):
        sent.append(number)
        if len(sent) == 3:
            os.kill(os.getpid(), number)

    monkeypatch.setattr(autobackup, "send_again", send_again)

    async def agent():
        async with amem.autobackup(memory, every=FOREVER):
            os.kill(os.getpid(), signal.SIGTERM)
            await until(lambda: sigterm)

    asyncio.run(agent())
    assert sigterm == [signal.SIGTERM]
    assert sent == [signal.SIGTERM] * 3


@on_posix
def test_ctrl_c_of_asyncio_run_saves_twice_and_interrupts(amem, vault, memory):
    seen = []

    async def agent():
        async with amem.autobackup(memory, every=FOREVER):
            try:
                os.kill(os.getpid(), signal.SIGINT)
                await asyncio.sleep(20)
            finally:
                seen.append(memory.calls)
                memory.documents = {"MEMORY.md": "said goodbye"}

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(agent())
    assert seen == [1]
    assert saved(vault) == {"MEMORY.md": "said goodbye"}


BEGIN = """
import asyncio, os, signal, sys, time
from colony_memory import AsyncColonyMemory
from colony_memory.vaults.local import LocalVault

mem = AsyncColonyMemory(backend=LocalVault(sys.argv[1], create=True))
memory = {"MEMORY.md": "first"}
"""


def run(script, path):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", BEGIN + script, str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@on_posix
def test_a_blocked_event_loop_does_not_hold_the_process(tmp_path):
    done = run(
        """
async def main():
    async with mem.autobackup(lambda: memory, every=900, final_timeout=0.2):
        os.kill(os.getpid(), signal.SIGTERM)
        any(time.sleep(0.05) for _ in range(1200))

asyncio.run(main())
""",
        tmp_path / "vault",
    )
    assert done.returncode == -signal.SIGTERM
    assert "the final backup was not done within 0.2 s" in done.stderr
