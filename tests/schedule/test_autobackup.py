"""Backup on a timer, at exit and on SIGTERM: the schedule on a clock of its own, the endings in real processes."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import math
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import weakref
from datetime import datetime, timezone
from typing import ClassVar

import pytest

from colony_memory import AsyncColonyMemory, ColonyMemory, Retention
from colony_memory.exceptions import RateLimited, VaultUnavailable
from colony_memory.schedule import autobackup as module
from colony_memory.schedule.autobackup import Autobackup
from colony_memory.testing import AsyncFakeVault, FakeVault, FaultyVault, VaultServer
from colony_memory.vaults.local import LocalVault
from colony_memory.vaults.memory import MemoryVault

on_posix = pytest.mark.skipif(os.name == "nt", reason="signals of other systems end the process at once")
FOREVER = math.inf


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


class Memory:
    """What an agent has in mind; counts how often it was collected, and by which threads."""

    def __init__(self, **documents):
        self.documents = documents or {"MEMORY.md": "first"}
        self.calls = 0
        self.threads = []
        self.error = None

    def __call__(self):
        self.calls += 1
        self.threads.append(threading.current_thread())
        if self.error is not None:
            raise self.error
        return self.documents


@pytest.fixture
def vault():
    return FaultyVault(MemoryVault())


@pytest.fixture
def mem(vault):
    return ColonyMemory(backend=vault)


@pytest.fixture
def memory():
    return Memory()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def sigterm():
    """Calls of a handler that was there before; the one of the test run is put back."""
    received = []
    before = signal.signal(signal.SIGTERM, lambda signum, frame: received.append(signum))
    yield received
    signal.signal(signal.SIGTERM, before)


def wait_until(condition, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to this"
        time.sleep(0.002)


def let_pass(auto, clock, seconds):
    """Move the clock, and return when the timer's thread has done all that is due by then."""
    clock.now += seconds
    auto._requests.put(None)
    settled = module._Request(module._WATCH, 20.0)
    auto._requests.put(settled)
    assert settled.wait()


def end_of(auto):
    auto._thread.join(20)
    assert not auto._thread.is_alive()


# The timer.


def test_the_timer_saves_and_unchanged_memory_writes_nothing(mem, vault, memory):
    with Autobackup(mem, memory, every=0.01) as auto:
        assert auto.running
        wait_until(lambda: memory.calls >= 4)
        assert auto.last_snapshot.reused
        assert [verb for verb, _ in vault.calls].count("upload") == 3  # part, manifest, pointer
        memory.documents = {"MEMORY.md": "second"}
        calls = memory.calls
        wait_until(lambda: memory.calls >= calls + 2)
        assert mem.restore() == {"MEMORY.md": "second"}
    assert not auto.running
    assert len(mem.list_snapshots()) == 2
    assert auto.last_snapshot.snapshot_id == mem.latest().snapshot_id
    assert auto.last_error is None
    assert auto.last_success.tzinfo is timezone.utc
    assert 0 <= (datetime.now(timezone.utc) - auto.last_success).total_seconds() < 20


def test_the_first_backup_comes_after_the_first_interval_and_the_next_after_another(mem, memory, clock):
    with Autobackup(mem, memory, every=900, clock=clock) as auto:
        let_pass(auto, clock, 899)
        assert memory.calls == 0
        assert (auto.last_success, auto.last_snapshot, auto.last_error) == (None, None, None)
        let_pass(auto, clock, 1)
        assert memory.calls == 1
        let_pass(auto, clock, 899)
        assert memory.calls == 1
        let_pass(auto, clock, 1)
        assert memory.calls == 2


def test_only_the_final_backup_where_the_interval_never_ends(mem, memory, clock):
    with Autobackup(mem, memory, every=FOREVER, clock=clock) as auto:
        let_pass(auto, clock, 1e12)
        assert memory.calls == 0
    assert mem.restore() == {"MEMORY.md": "first"}


def test_collect_runs_in_the_timer_thread_and_for_backup_now_in_the_caller(mem, memory):
    with Autobackup(mem, memory, every=FOREVER) as auto:
        auto.backup_now()
        timer = auto._thread
    assert memory.threads == [threading.current_thread(), timer]
    assert timer.daemon
    timer.join(5)
    assert not timer.is_alive()


def test_options_reach_the_backup(mem, memory):
    with Autobackup(mem, memory, every=FOREVER, label=" Notes ", prune_keep=2) as auto:
        for number in range(4):
            memory.documents = {"MEMORY.md": f"text {number}"}
            assert auto.backup_now().label == "notes"
    assert len(mem.list_snapshots(label="notes")) == 2
    assert mem.list_snapshots(label="default") == []


# The end of the block.


def test_leaving_saves_what_is_there_then(mem, memory):
    with Autobackup(mem, memory) as auto:
        memory.documents = {"MEMORY.md": "last words"}
    assert mem.restore() == {"MEMORY.md": "last words"}
    assert auto.last_snapshot.head


def test_leaving_by_an_exception_saves_too(mem, memory):
    with pytest.raises(KeyError, match="the agent"), Autobackup(mem, memory):
        memory.documents = {"MEMORY.md": "last words"}
        raise KeyError("the agent")
    assert mem.restore() == {"MEMORY.md": "last words"}


def test_a_failing_final_backup_does_not_raise_and_is_always_told(mem, vault, memory, caplog):
    with Autobackup(mem, memory) as auto:
        memory.error = OSError("no disk")
        for _ in range(4):
            auto.backup_now()
        caplog.clear()
    assert str(auto.last_error) == "no disk"
    assert auto.last_success is None
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage() == (
        "the final backup of label 'default' failed: OSError: no disk (error 5 in a row, last success: none)"
    )


@pytest.mark.parametrize("where", ["collect", "vault"])
def test_a_final_backup_that_hangs_is_not_waited_for(mem, vault, memory, where, caplog):
    gate, entered = threading.Event(), threading.Event()

    def hang():
        entered.set()
        gate.wait(20)

    def collect():
        if where == "collect" and memory.calls:
            hang()
        return memory()

    with Autobackup(mem, collect, every=FOREVER, final_timeout=0.1) as auto:
        first = auto.backup_now()
        memory.documents = {"MEMORY.md": "second"}
        if where == "vault":
            vault.hook("upload", hang, match="manifest")
        left = time.monotonic()
    assert 0.1 <= time.monotonic() - left < 10
    assert entered.is_set()
    assert isinstance(auto.last_error, TimeoutError)
    assert "the final backup was not done within 0.1 s" in caplog.text
    assert ColonyMemory(backend=vault).latest() == first
    gate.set()
    end_of(auto)
    # A backup that was begun is ended; documents that came too late are not saved.
    expected = {"MEMORY.md": "second"} if where == "vault" else {"MEMORY.md": "first"}
    assert ColonyMemory(backend=vault).restore() == expected


def test_a_final_backup_does_not_begin_after_its_time(mem, vault, memory):
    gate = threading.Event()
    vault.hook("upload", lambda: gate.wait(20))
    with Autobackup(mem, memory, every=0.01, final_timeout=0.05) as auto:
        wait_until(lambda: memory.calls == 1)
    gate.set()
    end_of(auto)
    assert memory.calls == 1
    assert auto.last_error is None
    assert mem.restore() == {"MEMORY.md": "first"}


def test_a_final_backup_waits_for_one_in_another_thread(mem, vault, memory):
    inside, gate = threading.Event(), threading.Event()

    def hold():
        inside.set()
        gate.wait(20)

    vault.hook("upload", hold)
    with Autobackup(mem, memory, every=FOREVER) as auto:
        other = threading.Thread(target=auto.backup_now)
        other.start()
        assert inside.wait(20)
        memory.documents = {"MEMORY.md": "second"}
        threading.Timer(0.05, gate.set).start()
    other.join(20)
    assert memory.calls == 2
    assert mem.restore() == {"MEMORY.md": "second"}


def test_nothing_stays_behind(memory, monkeypatch):
    class Saved:
        def backup(self, documents, *, label):
            return documents

    registered = []
    monkeypatch.setattr(module.atexit, "register", registered.append)
    monkeypatch.setattr(module.atexit, "unregister", registered.remove)
    handler = signal.getsignal(signal.SIGTERM)
    gc.collect()
    gc.disable()
    try:
        auto = Autobackup(Saved(), memory)
        with auto:
            assert len(registered) == 1
            assert signal.getsignal(signal.SIGTERM) is not handler
            thread = auto._thread
        thread.join(20)
        assert auto.last_snapshot == memory.documents
        gone = weakref.ref(auto)
        del auto
        assert gone() is None
    finally:
        gc.enable()
    assert registered == []
    assert signal.getsignal(signal.SIGTERM) is handler


# Misuse.


def test_leaving_again_does_nothing(mem, memory):
    with Autobackup(mem, memory, final_timeout=20.0) as auto:
        pass
    end_of(auto)
    auto._final_timeout = 0.05
    auto.__exit__()
    assert auto.last_error is None
    assert memory.calls == 1


def test_it_is_entered_once(mem, memory):
    auto = Autobackup(mem, memory)
    assert not auto.running
    with pytest.raises(RuntimeError, match="inside the with block"):
        auto.backup_now()
    with auto, pytest.raises(RuntimeError, match="entered once"):
        auto.__enter__()
    with pytest.raises(RuntimeError, match="entered once"):
        auto.__enter__()
    with pytest.raises(RuntimeError, match="inside the with block"):
        auto.backup_now()
    assert memory.calls == 1


def test_collect_cannot_ask_for_a_backup(mem):
    def collect():
        return auto.backup_now()

    with Autobackup(mem, collect, every=FOREVER) as auto:
        assert auto.backup_now() is None
        assert "collect() must not call backup_now()" in str(auto.last_error)
        auto.last_error = None
    assert "collect() must not call backup_now()" in str(auto.last_error)


def test_a_thread_that_cannot_start_leaves_nothing(mem, memory, monkeypatch):
    auto = Autobackup(mem, memory)
    monkeypatch.setattr(threading.Thread, "start", lambda self: (_ for _ in ()).throw(RuntimeError("no threads")))
    with pytest.raises(RuntimeError, match="no threads"):
        auto.__enter__()
    assert not auto.running
    monkeypatch.undo()
    with auto:
        pass
    assert memory.calls == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"every": 0}, "every must be"),
        ({"every": -1}, "every must be"),
        ({"every": math.nan}, "every must be"),
        ({"every": True}, "every must be"),
        ({"every": "900"}, "every must be"),
        ({"final_timeout": 0}, "final_timeout must be"),
        ({"final_timeout": math.inf}, "final_timeout must be"),
        ({"label": "My notes!"}, "label"),
        ({"collect": {"MEMORY.md": "text"}}, "collect must be a function"),
        ({"prune_keep": -1}, "count"),
        ({"prune_keep": 3, "retention": Retention(keep_last=3)}, "not both"),
        ({"on_conflict": "ignore"}, "on_conflict must be"),
    ],
)
def test_what_every_backup_would_refuse_is_refused_at_once(mem, memory, arguments, says):
    with pytest.raises(ValueError, match=says):
        Autobackup(mem, arguments.pop("collect", memory), **arguments)


def test_an_unknown_option_is_refused_at_once(mem, memory):
    with pytest.raises(TypeError, match="prune_kep"):
        Autobackup(mem, memory, prune_kep=3)


def test_coroutines_are_refused(mem, memory):
    async def collect():
        return {"MEMORY.md": "text"}

    with pytest.raises(ValueError, match="use a task"):
        Autobackup(AsyncColonyMemory(backend=AsyncFakeVault(FakeVault())), memory)
    with pytest.raises(ValueError, match="use a task"):
        Autobackup(mem, collect)


# Errors.


@pytest.mark.parametrize(
    ("returned", "says"),
    [
        ({}, "not an empty dict"),
        (None, "not a NoneType"),
        ([("MEMORY.md", "text")], "not a list"),
        ("", "not a str"),
        ({"MEMORY.md": b"text"}, "'MEMORY.md' must be a string"),
        ({1: "text"}, "names must be strings"),
    ],
)
def test_what_is_no_memory_is_never_saved(mem, vault, memory, returned, says):
    memory.documents = returned
    with Autobackup(mem, memory, every=FOREVER) as auto:
        assert auto.backup_now() is None
        assert isinstance(auto.last_error, ValueError)
        assert says in str(auto.last_error)
    assert memory.calls == 2
    assert vault.count == 0


def test_the_dict_of_collect_is_copied_at_once(memory):
    class Saved:
        def backup(self, documents, *, label):
            return documents

    with Autobackup(Saved(), memory, every=FOREVER) as auto:
        saved = auto.backup_now()
    assert saved == memory.documents
    assert saved is not memory.documents


def test_the_documents_are_those_of_the_moment_of_collect(mem, vault, memory):
    def change():
        memory.documents["later.md"] = "text"

    vault.hook("get", change)
    with Autobackup(mem, memory, every=FOREVER) as auto:
        assert auto.backup_now().doc_names == ["MEMORY.md"]
    assert sorted(mem.restore()) == ["MEMORY.md", "later.md"]


def test_errors_are_kept_until_the_next_success(mem, vault, memory, clock):
    with Autobackup(mem, memory, every=900, clock=clock) as auto:
        let_pass(auto, clock, 900)
        first = auto.last_success
        vault.fail("*", VaultUnavailable("no network"))
        let_pass(auto, clock, 900)
        assert isinstance(auto.last_error, VaultUnavailable)
        assert (auto.last_success, auto.last_snapshot.snapshot_id) == (first, mem_latest(mem, vault))
        let_pass(auto, clock, 30)
        assert isinstance(auto.last_error, VaultUnavailable)
        vault.heal()
        let_pass(auto, clock, 60)
        assert auto.last_error is None
        assert auto.last_success > first


def mem_latest(mem, vault):
    return ColonyMemory(backend=vault.vault).latest().snapshot_id


def test_after_an_error_the_wait_doubles_up_to_the_interval(mem, memory, clock):
    memory.error = OSError("no disk")
    with Autobackup(mem, memory, every=900, clock=clock) as auto:
        for number, wait in enumerate([900, 30, 60, 120, 240, 480, 900, 900, 900]):
            let_pass(auto, clock, wait - 1)
            assert memory.calls == number
            let_pass(auto, clock, 1)
            assert memory.calls == number + 1
        memory.error = None
        let_pass(auto, clock, 900)
        assert auto.last_error is None
        memory.error = OSError("no disk again")
        let_pass(auto, clock, 900)
        calls = memory.calls
        let_pass(auto, clock, 30)
        assert memory.calls == calls + 1


def test_a_short_interval_is_not_lengthened_by_an_error(mem, memory, clock):
    memory.error = OSError("no disk")
    with Autobackup(mem, memory, every=7, clock=clock) as auto:
        for number in range(40):
            let_pass(auto, clock, 7)
            assert memory.calls == number + 1


def test_backup_now_moves_the_timer(mem, memory, clock):
    with Autobackup(mem, memory, every=900, clock=clock) as auto:
        let_pass(auto, clock, 600)
        auto.backup_now()
        let_pass(auto, clock, 899)
        assert memory.calls == 1
        memory.error = OSError("no disk")
        auto.backup_now()
        let_pass(auto, clock, 30)
        assert memory.calls == 3
        memory.error = None


def test_the_log_warns_of_the_first_error_and_then_ever_more_rarely(mem, memory, clock, caplog):
    caplog.set_level(logging.DEBUG, "colony_memory.schedule.autobackup")
    memory.error = RateLimited("too many")
    with Autobackup(mem, memory, every=30, clock=clock) as auto:
        for _ in range(20):
            let_pass(auto, clock, 30)
        warned = [int(r.getMessage().split("error ")[1].split()[0]) for r in caplog.records if r.levelname == "WARNING"]
        assert warned == [1, 2, 4, 8, 16]
        assert {r.name for r in caplog.records} == {"colony_memory.schedule.autobackup"}
        assert sum("in a row" in r.getMessage() for r in caplog.records) == 20
        assert not any(r.exc_info for r in caplog.records)
        caplog.clear()
        memory.error = None
        let_pass(auto, clock, 30)
        assert [r.getMessage() for r in caplog.records] == ["backups of label 'default' work again, after 20 errors"]
        memory.error = ZeroDivisionError("a bug of the agent's")
        caplog.clear()
        let_pass(auto, clock, 30)
        (record,) = caplog.records
        assert record.levelname == "WARNING"
        assert record.exc_info[1] is memory.error
        memory.error = None


def test_the_timer_outlives_whatever_collect_raises(mem, memory, clock):
    memory.error = SystemExit(3)
    with Autobackup(mem, memory, every=900, clock=clock) as auto:
        let_pass(auto, clock, 900)
        assert auto.last_error is memory.error
        assert auto.running
        memory.error = None
        let_pass(auto, clock, 30)
        assert auto.last_error is None


def test_ctrl_c_leaves_backup_now_and_the_timer_goes_on(mem, memory, clock):
    with Autobackup(mem, memory, every=900, clock=clock) as auto:
        memory.error = KeyboardInterrupt()
        with pytest.raises(KeyboardInterrupt):
            auto.backup_now()
        assert auto.last_error is None
        memory.error = None
        assert auto.backup_now() is not None
        let_pass(auto, clock, 900)
        assert memory.calls == 3


# Rate limits.


@pytest.mark.parametrize("kind", [RateLimited, VaultUnavailable])
def test_nothing_is_tried_before_retry_after_has_passed(mem, vault, memory, clock, kind):
    with Autobackup(mem, memory, every=60, clock=clock) as auto:
        vault.fail("*", kind("wait", retry_after=600.0), times=1)
        let_pass(auto, clock, 60)
        assert auto.last_error.retry_after == 600.0
        let_pass(auto, clock, 599)
        assert (memory.calls, vault.count) == (1, 1)
        let_pass(auto, clock, 1)
        assert memory.calls == 2
        assert auto.last_error is None


def test_a_retry_after_below_the_backoff_does_not_shorten_it(mem, vault, memory, clock):
    with Autobackup(mem, memory, every=900, clock=clock) as auto:
        vault.fail("*", RateLimited("wait", retry_after=1.0), times=1)
        let_pass(auto, clock, 900)
        let_pass(auto, clock, 29)
        assert memory.calls == 1
        let_pass(auto, clock, 1)
        assert memory.calls == 2


@pytest.mark.parametrize(("asked", "waits"), [(1e12, 86_400), (math.inf, 86_400), (math.nan, 30), (-5.0, 30)])
def test_a_senseless_retry_after_does_not_end_the_backups(mem, vault, memory, clock, asked, waits):
    with Autobackup(mem, memory, every=900, clock=clock) as auto:
        vault.fail("*", RateLimited("wait", retry_after=asked), times=1)
        let_pass(auto, clock, 900)
        let_pass(auto, clock, waits - 1)
        assert memory.calls == 1
        let_pass(auto, clock, 1)
        assert memory.calls == 2


def test_no_backup_is_made_while_a_rate_limit_surely_holds(mem, vault, memory, clock, caplog):
    with Autobackup(mem, memory, every=60, clock=clock) as auto:
        vault.fail("*", RateLimited("wait", retry_after=600.0), times=1)
        let_pass(auto, clock, 60)
        clock.now += 599
        assert auto.backup_now() is None
        caplog.clear()
    assert (memory.calls, vault.count) == (1, 1)
    assert isinstance(auto.last_error, RateLimited)
    assert [r.getMessage() for r in caplog.records] == [
        "no backup of label 'default': the vault's rate limit holds for 1 s"
    ]


@pytest.mark.parametrize(
    ("error", "later"),
    [
        (RateLimited("wait", retry_after=600.0), 600),
        (RateLimited("wait"), 1),
        (VaultUnavailable("down", retry_after=600.0), 1),
    ],
)
def test_the_final_backup_is_tried_where_it_may_succeed(mem, vault, memory, clock, error, later):
    with Autobackup(mem, memory, every=60, clock=clock) as auto:
        vault.fail("*", error, times=1)
        let_pass(auto, clock, 60)
        assert auto.last_error is error
        clock.now += later
    assert auto.last_error is None
    assert mem.restore() == {"MEMORY.md": "first"}


# One at a time.


def test_backups_never_overlap(mem, memory):
    inside, most, lock = 0, 0, threading.Lock()

    def collect():
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        time.sleep(0.002)
        with lock:
            inside -= 1
        return memory()

    with Autobackup(mem, collect, every=0.001) as auto:
        others = [threading.Thread(target=lambda: [auto.backup_now() for _ in range(10)]) for _ in range(3)]
        for thread in others:
            thread.start()
        for thread in others:
            thread.join(20)
        calls = memory.calls
        wait_until(lambda: memory.calls > calls)
    assert memory.calls > 30
    assert most == 1
    assert len(mem.list_snapshots()) == 1


def test_the_timer_rests_while_a_backup_is_under_way(mem, memory, clock):
    inside, gate = threading.Event(), threading.Event()

    def collect():
        inside.set()
        gate.wait(20)
        return memory()

    class Requests(queue.SimpleQueue):
        waits: ClassVar[list[float]] = []

        def get(self, timeout=None):
            self.waits.append(timeout)
            return super().get(timeout=timeout)

    auto = Autobackup(mem, collect, every=900, clock=clock)
    auto._requests = Requests()
    with auto:
        other = threading.Thread(target=auto.backup_now)
        other.start()
        assert inside.wait(20)
        clock.now += 900  # due now
        looks = len(Requests.waits)
        auto._requests.put(None)
        wait_until(lambda: len(Requests.waits) > looks)
        assert Requests.waits[-1] == module._PIECE  # it is woken, and does not look again and again
        gate.set()
        other.join(20)
        let_pass(auto, clock, 0)
        assert memory.calls == 1


def test_backup_now_after_the_block_was_left_meanwhile_saves_nothing(mem, vault, memory):
    inside, gate = threading.Event(), threading.Event()

    def collect():
        inside.set()
        gate.wait(20)
        return memory()

    with Autobackup(mem, collect, every=FOREVER, final_timeout=0.05) as auto:
        other = threading.Thread(target=auto.backup_now)
        other.start()
        assert inside.wait(20)
    gate.set()
    other.join(20)
    assert "only after the block was left" in str(auto.last_error)
    assert vault.count == 0


# SIGTERM in this process, with a handler that was there before.


def test_sigterm_saves_and_calls_the_former_handler_and_the_timer_goes_on(mem, memory, sigterm, clock):
    with Autobackup(mem, memory, every=900, clock=clock) as auto:
        signal.raise_signal(signal.SIGTERM)
        assert sigterm == [signal.SIGTERM]
        assert mem.restore() == {"MEMORY.md": "first"}
        assert auto.running
        memory.documents = {"MEMORY.md": "second"}
        let_pass(auto, clock, 900)
        assert mem.restore() == {"MEMORY.md": "second"}
        memory.documents = {"MEMORY.md": "third"}
        signal.raise_signal(signal.SIGTERM)
        assert mem.restore() == {"MEMORY.md": "third"}
    assert sigterm == [signal.SIGTERM] * 2
    signal.raise_signal(signal.SIGTERM)
    assert sigterm == [signal.SIGTERM] * 3
    assert memory.calls == 4


def test_the_former_handler_may_exit(mem, memory, sigterm):
    signal.signal(signal.SIGTERM, lambda signum, frame: sys.exit(7))
    with pytest.raises(SystemExit) as caught, Autobackup(mem, memory, every=FOREVER):
        signal.raise_signal(signal.SIGTERM)
    assert caught.value.code == 7
    assert memory.calls == 2
    assert mem.restore() == {"MEMORY.md": "first"}


def test_a_hanging_backup_is_waited_for_once_where_the_former_handler_exits(mem, sigterm, monkeypatch):
    signal.signal(signal.SIGTERM, lambda signum, frame: sys.exit(7))
    gate, waits = threading.Event(), []
    wait = module._Request.wait

    def measured_wait(request):
        waits.append(request.left())
        return wait(request)

    monkeypatch.setattr(module._Request, "wait", measured_wait)
    with pytest.raises(SystemExit), Autobackup(mem, lambda: gate.wait(20), every=FOREVER, final_timeout=0.1) as auto:
        signal.raise_signal(signal.SIGTERM)
    assert len(waits) == 2
    assert 0 < waits[0] <= 0.1
    assert waits[1] == 0
    gate.set()
    end_of(auto)


def test_a_late_answer_to_sigterm_does_not_spare_the_next_wait(mem, memory, sigterm):
    gate = threading.Event()
    collected = memory

    def collect():
        gate.wait(20)
        return collected()

    with Autobackup(mem, collect, every=FOREVER, final_timeout=0.05) as auto:
        signal.raise_signal(signal.SIGTERM)
        assert isinstance(auto.last_error, TimeoutError)
        assert sigterm == [signal.SIGTERM]
        gate.set()
        wait_until(lambda: auto.last_error is None)
        auto._final_timeout = 20.0
        memory.documents = {"MEMORY.md": "second"}
    assert mem.restore() == {"MEMORY.md": "second"}


@on_posix
@pytest.mark.parametrize("when", ["inside", "leaving"])
def test_a_second_sigterm_during_the_final_backup_changes_nothing(mem, memory, sigterm, when):
    def collect():
        if when == "leaving" or memory.calls == 0:
            for _ in range(3):
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(0.005)
        return memory()

    with Autobackup(mem, collect, every=FOREVER) as auto:
        if when == "inside":
            signal.raise_signal(signal.SIGTERM)
            assert sigterm == [signal.SIGTERM]
            assert memory.calls == 1
    assert sigterm == [signal.SIGTERM]
    assert auto.last_error is None
    assert mem.restore() == {"MEMORY.md": "first"}


def test_ctrl_c_while_sigterm_waits_does_not_disarm_it(mem, memory, sigterm):
    with Autobackup(mem, memory, every=FOREVER) as auto:
        ask = auto._ask
        auto._ask = lambda kind, timeout: (_ for _ in ()).throw(KeyboardInterrupt)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        assert sigterm == []
        auto._ask = ask
        signal.raise_signal(signal.SIGTERM)
        assert sigterm == [signal.SIGTERM]


def test_sigterm_lets_a_backup_of_the_main_thread_finish_first(mem, memory, sigterm):
    order = []

    def collect():
        order.append(threading.current_thread() is threading.main_thread())
        documents = memory()
        if len(order) == 1:
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)  # a second one changes nothing
            assert sigterm == []
            memory.documents = {"MEMORY.md": "second"}
        return documents

    with Autobackup(mem, collect, every=FOREVER) as auto:
        first = auto.backup_now()
        assert sigterm == [signal.SIGTERM]
        assert order == [True, False]
        assert mem.restore() == {"MEMORY.md": "second"}
        assert mem.restore(snapshot_id=first.snapshot_id) == {"MEMORY.md": "first"}
        signal.raise_signal(signal.SIGTERM)
        assert sigterm == [signal.SIGTERM] * 2


@on_posix
def test_sigterm_does_not_wait_for_a_backup_of_the_main_thread_that_hangs(mem, memory, sigterm, caplog):
    seen = []

    def collect():
        if not seen:
            seen.append("interrupted")
            signal.raise_signal(signal.SIGTERM)
            wait_until(lambda: sigterm)
            seen.append("passed on")
        return memory()

    with Autobackup(mem, collect, every=FOREVER, final_timeout=0.1) as auto:
        begin = time.monotonic()
        assert auto.backup_now() is not None
        assert 0.1 <= time.monotonic() - begin < 10
        assert seen == ["interrupted", "passed on"]
        assert "does not wait any longer" in caplog.text
        signal.raise_signal(signal.SIGTERM)
        assert sigterm == [signal.SIGTERM] * 2
        assert memory.calls == 2


def test_the_watch_stays_quiet_where_the_signal_is_dealt_with(mem, memory, sigterm):
    with Autobackup(mem, memory, every=FOREVER) as auto:
        request = module._Request(module._WATCH, 0.0)
        with auto._lock:
            auto._requests.put(request)
            wait_until(lambda: request.done)
    assert sigterm == []
    assert not auto._overdue


def test_where_no_handler_was_there_the_process_dies_of_the_signal(mem, memory, sigterm, monkeypatch):
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    killed = []
    with Autobackup(mem, memory, every=FOREVER):
        monkeypatch.setattr(module.os, "kill", lambda *args: killed.append((*args, signal.getsignal(signal.SIGTERM))))
        signal.raise_signal(signal.SIGTERM)
        monkeypatch.undo()
    assert killed == [(os.getpid(), signal.SIGTERM, signal.SIG_DFL)]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_an_ignored_sigterm_stays_ignored(mem, memory, sigterm):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with Autobackup(mem, memory):
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN


def test_a_handler_that_is_not_of_python_is_left_alone(mem, memory, monkeypatch):
    monkeypatch.setattr(module.signal, "getsignal", lambda signum: None)
    monkeypatch.setattr(module.signal, "signal", lambda *args: pytest.fail("it was replaced"))
    with Autobackup(mem, memory):
        pass
    assert memory.calls == 1


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


def test_two_blocks_save_both(mem, memory, sigterm):
    other = Memory(notes="text")
    with Autobackup(mem, memory, every=FOREVER), Autobackup(mem, other, every=FOREVER, label="other"):
        signal.raise_signal(signal.SIGTERM)
        assert mem.restore() == {"MEMORY.md": "first"}
        assert mem.restore(label="other") == {"notes": "text"}
    assert sigterm == [signal.SIGTERM]


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


def test_another_process_saves_nothing(mem, memory, sigterm, monkeypatch):
    """As after a fork: the real one is below."""
    own = os.getpid()
    with Autobackup(mem, memory, every=FOREVER) as auto:
        monkeypatch.setattr(module.os, "getpid", lambda: own + 1)
        assert not auto.running
        with pytest.raises(RuntimeError, match="in the process that entered it"):
            auto.backup_now()
        signal.raise_signal(signal.SIGTERM)
        assert sigterm == [signal.SIGTERM]
    assert memory.calls == 0
    monkeypatch.undo()
    auto._ask(module._END, 20.0)
    end_of(auto)


# Real processes.

BEGIN = """
import atexit, logging, os, signal, sys, threading, time, warnings
from colony_memory import ColonyMemory
from colony_memory.schedule.autobackup import Autobackup
from colony_memory.vaults.local import LocalVault

logging.basicConfig()
mem = ColonyMemory(backend=LocalVault(sys.argv[1], create=True))
memory = {"MEMORY.md": "first"}
collect = lambda: dict(memory)

def wait():
    print("ready", flush=True)
    any(time.sleep(0.05) for _ in range(1200))  # a signal just before a long sleep would not cut it short
"""


@pytest.fixture
def run(tmp_path):
    """Start a script with a local vault; it is killed at the end of the test, whatever happens."""
    started = []

    def start(script, *args, **environment):
        process = subprocess.Popen(
            [sys.executable, "-c", BEGIN + script, str(tmp_path / "vault"), *args],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def saved(tmp_path):
    return ColonyMemory(backend=LocalVault(tmp_path / "vault", create=True))


def end(process, *, ask=True):
    """Send SIGTERM as soon as the script is ready. Returns status, standard error, and seconds from there."""
    if ask:
        assert process.stdout.readline() == "ready\n", process.communicate()[1]
        process.send_signal(signal.SIGTERM)
    begin = time.monotonic()
    _, err = process.communicate(timeout=50)
    return process.returncode, err, time.monotonic() - begin


@on_posix
def test_a_process_dies_of_sigterm_and_its_memory_is_saved(run, saved):
    status, err, _ = end(
        run("""
with Autobackup(mem, collect, every=900):
    memory["MEMORY.md"] = "last words"
    wait()
""")
    )
    assert status == -signal.SIGTERM
    assert err == ""
    assert saved.restore() == {"MEMORY.md": "last words"}


@on_posix
def test_sigterm_interrupts_a_backup_of_the_main_thread(run, saved):
    status, err, _ = end(
        run("""
def collect():
    if threading.current_thread() is threading.main_thread():
        print("ready", flush=True)
        time.sleep(0.5)
        memory["MEMORY.md"] = "last words"
        return {"MEMORY.md": "first"}
    return memory

with Autobackup(mem, collect, every=900) as auto:
    auto.backup_now()
    memory["MEMORY.md"] = "too late"
    any(time.sleep(0.05) for _ in range(1200))  # a signal just before a long sleep would not cut it short
""")
    )
    assert status == -signal.SIGTERM
    assert err == ""
    assert saved.restore() == {"MEMORY.md": "last words"}
    assert len(saved.list_snapshots()) == 2


@on_posix
def test_sigterm_ends_a_backup_of_the_main_thread_that_hangs(run, saved):
    status, err, seconds = end(
        run("""
def collect():
    if threading.current_thread() is threading.main_thread():
        print("ready", flush=True)
        any(time.sleep(0.05) for _ in range(1200))  # a signal just before a long sleep would not cut it short
    return memory

with Autobackup(mem, collect, every=900, final_timeout=0.3) as auto:
    auto.backup_now()
""")
    )
    assert status == -signal.SIGTERM
    assert "does not wait any longer" in err
    assert seconds < 20


@on_posix
def test_a_former_handler_decides_how_the_process_ends(run, saved):
    status, err, _ = end(
        run("""
def shut_down(signum, frame):
    assert mem.restore() == {"MEMORY.md": "before the signal"}
    memory["MEMORY.md"] = "shut down in peace"
    sys.exit(3)

signal.signal(signal.SIGTERM, shut_down)
with Autobackup(mem, collect, every=900):
    memory["MEMORY.md"] = "before the signal"
    wait()
""")
    )
    assert (status, err) == (3, "")
    assert saved.restore() == {"MEMORY.md": "shut down in peace"}


EXITS = {
    "the end of the script": "",
    "sys.exit()": "sys.exit(5)",
    "an exception": "raise OSError('the agent')",
}


@pytest.mark.parametrize("how", EXITS)
def test_the_interpreter_exits_inside_the_block(run, saved, how):
    status, err, _ = end(
        run(f"""
auto = Autobackup(mem, collect, every=900)
auto.__enter__()
memory["MEMORY.md"] = "last words"
{EXITS[how]}
"""),
        ask=False,
    )
    assert status == {"sys.exit()": 5, "an exception": 1}.get(how, 0)
    assert err == "" or how == "an exception"
    assert saved.restore() == {"MEMORY.md": "last words"}


def test_the_interpreter_exits_while_a_daemon_thread_is_in_the_block(run, saved):
    status, err, _ = end(
        run("""
inside = threading.Event()

def agent():
    with Autobackup(mem, collect, every=0.05):
        memory["MEMORY.md"] = "last words"
        inside.set()
        any(time.sleep(0.05) for _ in range(1200))  # a signal just before a long sleep would not cut it short

threading.Thread(target=agent, daemon=True).start()
inside.wait()
sys.exit(0)
"""),
        ask=False,
    )
    assert (status, err) == (0, "")
    assert saved.restore() == {"MEMORY.md": "last words"}


def test_an_exit_handler_registered_later_has_its_last_words_saved(run, saved):
    status, err, _ = end(
        run("""
auto = Autobackup(mem, collect)
auto.__enter__()
atexit.register(lambda: memory.update({"MEMORY.md": "of the exit handler"}))
"""),
        ask=False,
    )
    assert (status, err) == (0, "")
    assert saved.restore() == {"MEMORY.md": "of the exit handler"}


@on_posix
@pytest.mark.parametrize("how", ["SIGTERM", "leaving", "exit"])
def test_a_collect_that_blocks_does_not_hold_the_process(run, saved, how):
    script = """
def collect():
    if memory["MEMORY.md"] == "blocks":
        any(time.sleep(0.05) for _ in range(1200))  # a signal just before a long sleep would not cut it short
    return dict(memory)

auto = Autobackup(mem, collect, every=900, final_timeout=0.3)
auto.__enter__()
auto.backup_now()
memory["MEMORY.md"] = "blocks"
"""
    script += {"SIGTERM": "wait()", "leaving": "auto.__exit__()", "exit": ""}[how]
    begin = time.monotonic()
    status, err, _ = end(run(script), ask=how == "SIGTERM")
    assert status == (-signal.SIGTERM if how == "SIGTERM" else 0)
    assert time.monotonic() - begin < 20
    assert "the final backup was not done within 0.3 s" in err
    assert saved.restore() == {"MEMORY.md": "first"}


def test_the_hosted_vault_at_the_exit_where_many_files_are_to_be_read(run):
    with VaultServer() as server:
        vault = ColonyMemory("col_test", base_url=server.url)
        for number in range(4):
            vault.backup({"MEMORY.md": f"text {number}"})
        # As an older client leaves it: every manifest has to be read.
        pointer = json.loads(server.vault.files["cmem.default.latest.json"])
        for name in ("generation", "catalog"):
            del pointer[name]
        server.vault.files["cmem.default.latest.json"] = json.dumps(pointer)
        server.fault("GET", "delay", seconds=0.005, times=None)
        script = """
mem = ColonyMemory("col_test", base_url=sys.argv[2])
auto = Autobackup(mem, collect, prune_keep=3)
auto.__enter__()
"""
        status, err, _ = end(run(script, server.url, COLONY_SDK_NO_TOKEN_CACHE="1", NO_PROXY="127.0.0.1"), ask=False)
        assert status == 0
        assert vault.restore() == {"MEMORY.md": "first"}, err


@on_posix
def test_a_vault_that_hangs_does_not_hold_the_process(run):
    with VaultServer() as server:
        vault = ColonyMemory("col_test", base_url=server.url)
        process = run(
            """
mem = ColonyMemory("col_test", base_url=sys.argv[2])
with Autobackup(mem, collect, every=900, final_timeout=0.3) as auto:
    assert auto.backup_now(), auto.last_error
    memory["MEMORY.md"] = "second"
    print("saved", flush=True)
    wait()
""",
            server.url,
            COLONY_SDK_NO_TOKEN_CACHE="1",
            NO_PROXY="127.0.0.1",
        )
        assert process.stdout.readline() == "saved\n", process.communicate()[1]
        before = vault.latest()
        server.fault("*", "delay", seconds=30, times=None)
        status, err, seconds = end(process)
        assert status == -signal.SIGTERM
        assert seconds < 15
        assert "the final backup was not done within 0.3 s" in err
        server._faults.clear()
        assert vault.latest() == before
        assert vault.restore() == {"MEMORY.md": "first"}


@on_posix
@pytest.mark.parametrize("how", ["exit", "end", "SIGTERM"])
def test_a_forked_child_saves_nothing(run, saved, how):
    child_end = {"exit": "sys.exit(4)", "end": "", "SIGTERM": "os.kill(os.getpid(), signal.SIGTERM)"}[how]
    process = run(f"""
warnings.simplefilter("ignore", DeprecationWarning)  # of fork() beside a thread

def collect():
    assert os.getpid() == parent, "collected in the child"
    return dict(memory)

parent = os.getpid()
with Autobackup(mem, collect, every=900) as auto:
    child = os.fork()
    if child == 0:
        memory["MEMORY.md"] = "of the child"
        assert not auto.running
        {child_end}
    else:
        status = os.waitpid(child, 0)[1]
        assert mem.latest() is None
        print(os.WEXITSTATUS(status), os.WTERMSIG(status), flush=True)
        memory["MEMORY.md"] = "of the parent"
""")
    out, err = process.communicate(timeout=50)
    assert (process.returncode, err) == (0, "")
    assert out == {"exit": "4 0\n", "end": "0 0\n", "SIGTERM": f"0 {int(signal.SIGTERM)}\n"}[how]
    assert saved.restore() == {"MEMORY.md": "of the parent"}
    assert len(saved.list_snapshots()) == 1
