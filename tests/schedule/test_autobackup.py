"""Backup on a timer and at the end of the block, on a clock that a test turns."""

from __future__ import annotations

import atexit
import gc
import logging
import math
import signal
import threading
import time
import weakref
from datetime import datetime, timedelta, timezone

import pytest
from agents import end_of_timers, timers, wait_until

from colony_memory import AsyncColonyMemory, ColonyMemory, Retention
from colony_memory.exceptions import ConflictDetected, RateLimited, VaultUnavailable
from colony_memory.schedule.autobackup import Autobackup
from colony_memory.testing import AsyncFakeVault, FakeVault

FOREVER = math.inf


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
        clock.turn(899)
        assert memory.calls == 0
        assert (auto.last_success, auto.last_snapshot, auto.last_error) == (None, None, None)
        clock.turn(1)
        assert memory.calls == 1
        clock.turn(899)
        assert memory.calls == 1
        clock.turn(1)
        assert memory.calls == 2


def test_only_the_final_backup_where_the_interval_never_ends(mem, memory, clock):
    with Autobackup(mem, memory, every=FOREVER, clock=clock):
        clock.turn(86_400)
        assert memory.calls == 0
    assert mem.restore() == {"MEMORY.md": "first"}


def test_collect_runs_in_the_timer_thread_and_for_backup_now_in_the_caller(mem, memory):
    with Autobackup(mem, memory, every=FOREVER) as auto:
        auto.backup_now()
        (timer,) = timers()
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


# A machine that was suspended, and clocks that are set.


def test_time_in_suspend_counts(mem, memory, clock):
    with Autobackup(mem, memory, every=3600, clock=clock):
        clock.turn(10)
        clock.suspend(8 * 3600)
        clock.turn(30)
        assert memory.calls == 1
        clock.turn(3580)
        assert memory.calls == 1
        clock.turn(30)
        assert memory.calls == 2


def test_a_retry_and_a_rate_limit_pass_in_suspend_too(mem, vault, memory, clock):
    with Autobackup(mem, memory, every=3600, clock=clock) as auto:
        vault.fail("*", RateLimited("wait", retry_after=3000.0), times=1)
        clock.turn(3600)
        clock.suspend(3000)
        clock.turn(30)
        assert (memory.calls, auto.last_error) == (2, None)


def test_it_tells_when_the_next_backup_is_due(mem, memory, clock):
    auto = Autobackup(mem, memory, every=900, clock=clock)
    assert auto.next_run is None

    def is_in(seconds):
        return abs(auto.next_run - datetime.now(timezone.utc) - timedelta(seconds=seconds)) < timedelta(seconds=60)

    with auto:
        assert is_in(900)
        clock.turn(600)
        assert is_in(300)
        memory.error = RateLimited("wait", retry_after=7200.0)
        clock.turn(300)
        assert is_in(7200)
    assert auto.next_run is None
    with Autobackup(mem, memory, every=FOREVER) as auto:
        assert auto.next_run is None


# Another writer.


@pytest.mark.parametrize("option", ["raise", "continue"])
def test_a_conflict_is_told_and_the_timer_goes_on(mem, vault, memory, clock, caplog, option):
    conflict = ConflictDetected("another client saved in between", theirs="20260101T000000000000Z-abcdef")

    class Contended:
        def __init__(self):
            self.options = []

        def backup(self, documents, *, label, on_conflict):
            self.options.append(on_conflict)
            if len(self.options) == 1:
                raise conflict
            return documents

    contended = Contended()
    with Autobackup(contended, memory, every=900, clock=clock, on_conflict=option) as auto:
        clock.turn(900)
        assert auto.last_error is conflict
        assert "backup of label 'default' failed: ConflictDetected: another client saved in between" in caplog.text
        clock.turn(30)
        assert auto.last_error is None
    assert contended.options == [option] * 3


# The end of the block, again.


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
    end_of_timers()
    # A backup that was begun is ended; documents that came too late are not saved.
    expected = {"MEMORY.md": "second"} if where == "vault" else {"MEMORY.md": "first"}
    assert ColonyMemory(backend=vault).restore() == expected


def test_a_final_backup_does_not_begin_after_its_time(mem, vault, memory):
    gate = threading.Event()
    vault.hook("upload", lambda: gate.wait(20))
    with Autobackup(mem, memory, every=0.01, final_timeout=0.05) as auto:
        wait_until(lambda: memory.calls == 1)
    gate.set()
    end_of_timers()
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
    monkeypatch.setattr(atexit, "register", registered.append)
    monkeypatch.setattr(atexit, "unregister", registered.remove)
    handler = signal.getsignal(signal.SIGTERM)
    try:
        auto = Autobackup(Saved(), memory)
        with auto:
            assert len(registered) == 1
            assert signal.getsignal(signal.SIGTERM) is not handler
            (thread,) = timers()
        thread.join(20)
        assert auto.last_snapshot == memory.documents
        gone = weakref.ref(auto)
        del auto
        gc.collect()
        assert gone() is None
    finally:
        pass
    assert registered == []
    assert signal.getsignal(signal.SIGTERM) is handler


# Misuse.


def test_leaving_again_does_nothing(mem, memory):
    with Autobackup(mem, memory, final_timeout=20.0) as auto:
        pass
    end_of_timers()
    auto.__exit__()
    assert auto.last_error is None
    assert memory.calls == 1


def test_it_is_entered_once(mem, memory):
    auto = Autobackup(mem, memory)
    assert not auto.running
    with pytest.raises(RuntimeError, match="inside the with block"):
        auto.backup_now()
    with auto, pytest.raises(RuntimeError, match="entered only once"):
        auto.__enter__()
    with pytest.raises(RuntimeError, match="entered only once"):
        auto.__enter__()
    with pytest.raises(RuntimeError, match="inside the with block"):
        auto.backup_now()
    assert memory.calls == 1


def test_collect_cannot_ask_for_a_backup(mem):
    refused = []

    def collect():
        try:
            return auto.backup_now()
        except RuntimeError as error:
            refused.append(str(error))
            raise

    with Autobackup(mem, collect, every=FOREVER) as auto:
        assert auto.backup_now() is None
    assert refused == ["collect() must not call backup_now(): its result is being waited for"] * 2


@pytest.mark.parametrize("fails", [False, True])
def test_where_no_thread_can_be_started_the_final_backup_is_made_in_the_one_that_leaves(
    mem, memory, monkeypatch, caplog, fails
):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with Autobackup(mem, memory, every=0.01) as auto:
        assert (auto.running, auto.next_run, memory.calls) == (True, None, 0)
        if fails:
            memory.documents = {}
        assert "nothing is saved in between" in caplog.text
    assert memory.threads == [threading.current_thread()]
    assert not auto.running
    if fails:
        assert isinstance(auto.last_error, ValueError)
    else:
        assert mem.restore() == memory.documents


def test_where_no_thread_can_be_started_a_backup_that_holds_the_block_is_not_waited_for_for_ever(
    mem, memory, monkeypatch, caplog
):
    monkeypatch.setattr(threading.Thread, "start", lambda self: (_ for _ in ()).throw(RuntimeError("no threads")))
    with Autobackup(mem, memory, final_timeout=0.01) as auto:
        auto._loop._lock.acquire()  # another thread's backup_now() hangs
    assert isinstance(auto.last_error, TimeoutError)
    assert memory.calls == 0


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
        ({"tags": "two words"}, "not a tag"),
        ({"note": "x" * 1001}, "note must"),
        ({"incomplete": "a line"}, "incomplete must"),
    ],
)
def test_what_every_backup_would_refuse_is_refused_at_once(mem, memory, arguments, says):
    with pytest.raises(ValueError, match=says):
        Autobackup(mem, arguments.pop("collect", memory), **arguments)


def test_tags_that_can_be_read_but_once_are_those_of_every_backup(mem, clock):
    states = iter("12")
    with Autobackup(mem, lambda: {"a.md": next(states)}, clock=clock, tags=iter(("b", "a"))) as auto:
        auto.backup_now()
    assert [info.tags for info in mem.list_snapshots()] == [("a", "b")] * 2


def test_an_unknown_option_is_refused_at_once(mem, memory):
    with pytest.raises(TypeError, match="prune_kep"):
        Autobackup(mem, memory, prune_kep=3)


def test_coroutines_are_refused(mem, memory):
    async def collect():
        return {"MEMORY.md": "text"}

    with pytest.raises(ValueError, match="the one for ColonyMemory is another"):
        Autobackup(AsyncColonyMemory(backend=AsyncFakeVault(FakeVault())), memory)
    with pytest.raises(ValueError, match=r"autobackup\(\) of an AsyncColonyMemory"):
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
        clock.turn(900)
        first = auto.last_success
        vault.fail("*", VaultUnavailable("no network"))
        clock.turn(900)
        assert isinstance(auto.last_error, VaultUnavailable)
        assert (auto.last_success, auto.last_snapshot.snapshot_id) == (first, mem_latest(mem, vault))
        clock.turn(30)
        assert isinstance(auto.last_error, VaultUnavailable)
        vault.heal()
        clock.turn(60)
        assert auto.last_error is None
        assert auto.last_success > first


def mem_latest(mem, vault):
    return ColonyMemory(backend=vault.vault).latest().snapshot_id


def test_after_an_error_the_wait_doubles_up_to_the_interval(mem, memory, clock):
    memory.error = OSError("no disk")
    with Autobackup(mem, memory, every=900, clock=clock) as auto:
        for number, wait in enumerate([900, 30, 60, 120, 240, 480, 900, 900, 900]):
            clock.turn(wait - 1)
            assert memory.calls == number
            clock.turn(1)
            assert memory.calls == number + 1
        memory.error = None
        clock.turn(900)
        assert auto.last_error is None
        memory.error = OSError("no disk again")
        clock.turn(900)
        calls = memory.calls
        clock.turn(30)
        assert memory.calls == calls + 1


def test_a_short_interval_is_not_lengthened_by_an_error(mem, memory, clock):
    memory.error = OSError("no disk")
    with Autobackup(mem, memory, every=7, clock=clock):
        for number in range(40):
            clock.turn(7)
            assert memory.calls == number + 1


def test_backup_now_moves_the_timer(mem, memory, clock):
    with Autobackup(mem, memory, every=900, clock=clock) as auto:
        clock.turn(600)
        auto.backup_now()
        clock.turn(899)
        assert memory.calls == 1
        memory.error = OSError("no disk")
        auto.backup_now()
        clock.turn(30)
        assert memory.calls == 3
        memory.error = None


def test_the_log_warns_of_the_first_error_and_then_ever_more_rarely(mem, memory, clock, caplog):
    caplog.set_level(logging.DEBUG, "colony_memory.schedule.autobackup")
    memory.error = RateLimited("too many")
    with Autobackup(mem, memory, every=30, clock=clock):
        for _ in range(20):
            clock.turn(30)
        warned = [int(r.getMessage().split("error ")[1].split()[0]) for r in caplog.records if r.levelname == "WARNING"]
        assert warned == [1, 2, 4, 8, 16]
        assert {r.name for r in caplog.records} == {"colony_memory.schedule.autobackup"}
        assert sum("in a row" in r.getMessage() for r in caplog.records) == 20
        assert not any(r.exc_info for r in caplog.records)
        caplog.clear()
        memory.error = None
        clock.turn(30)
        assert [r.getMessage() for r in caplog.records] == ["backups of label 'default' work again, after 20 errors"]
        memory.error = ZeroDivisionError("a bug of the agent's")
        caplog.clear()
        clock.turn(30)
        (record,) = caplog.records
        assert record.levelname == "WARNING"
        assert record.exc_info[1] is memory.error
        memory.error = None


def test_the_timer_outlives_whatever_collect_raises(mem, memory, clock):
    memory.error = SystemExit(3)
    with Autobackup(mem, memory, every=900, clock=clock) as auto:
        clock.turn(900)
        assert auto.last_error is memory.error
        assert auto.running
        memory.error = None
        clock.turn(30)
        assert auto.last_error is None


def test_ctrl_c_leaves_backup_now_and_the_timer_goes_on(mem, memory, clock):
    with Autobackup(mem, memory, every=900, clock=clock) as auto:
        memory.error = KeyboardInterrupt()
        with pytest.raises(KeyboardInterrupt):
            auto.backup_now()
        assert auto.last_error is None
        memory.error = None
        assert auto.backup_now() is not None
        clock.turn(900)
        assert memory.calls == 3


# Rate limits.


@pytest.mark.parametrize("kind", [RateLimited, VaultUnavailable])
def test_nothing_is_tried_before_retry_after_has_passed(mem, vault, memory, clock, kind):
    with Autobackup(mem, memory, every=60, clock=clock) as auto:
        vault.fail("*", kind("wait", retry_after=600.0), times=1)
        clock.turn(60)
        assert auto.last_error.retry_after == 600.0
        clock.turn(599)
        assert (memory.calls, vault.count) == (1, 1)
        clock.turn(1)
        assert memory.calls == 2
        assert auto.last_error is None


def test_a_retry_after_below_the_backoff_does_not_shorten_it(mem, vault, memory, clock):
    with Autobackup(mem, memory, every=900, clock=clock):
        vault.fail("*", RateLimited("wait", retry_after=1.0), times=1)
        clock.turn(900)
        clock.turn(29)
        assert memory.calls == 1
        clock.turn(1)
        assert memory.calls == 2


@pytest.mark.parametrize(("asked", "waits"), [(1e12, 86_400), (math.inf, 86_400), (math.nan, 30), (-5.0, 30)])
def test_a_senseless_retry_after_does_not_end_the_backups(mem, vault, memory, clock, asked, waits):
    with Autobackup(mem, memory, every=900, clock=clock):
        vault.fail("*", RateLimited("wait", retry_after=asked), times=1)
        clock.turn(900)
        clock.turn(waits - 1)
        assert memory.calls == 1
        clock.turn(1)
        assert memory.calls == 2


def test_no_backup_is_made_while_a_rate_limit_surely_holds(mem, vault, memory, clock, caplog):
    with Autobackup(mem, memory, every=60, clock=clock) as auto:
        vault.fail("*", RateLimited("wait", retry_after=600.0), times=1)
        clock.turn(60)
        clock.suspend(599)
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
        clock.turn(60)
        assert auto.last_error is error
        clock.suspend(later)
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

    with Autobackup(mem, collect, every=900, clock=clock) as auto:
        other = threading.Thread(target=auto.backup_now)
        other.start()
        assert inside.wait(20)
        looks = clock.looks
        clock.turn(3000)  # due, and it does not look again and again
        assert clock.looks - looks <= 3000 / 30
        gate.set()
        other.join(20)
        clock.turn(0)
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


def test_a_backup_of_the_main_thread_is_finished_before_the_final_one_is_waited_for():
    """They are one writer: the timer's thread would wait for what the signal's handler keeps from going on."""
    seen = []
    memory = ColonyMemory(backend=FakeVault(), on_event=lambda _: seen.append(auto._must_go_on()))
    auto = memory.autobackup(lambda: {"m": "x"})
    memory.backup({"m": "x"})
    assert seen[0]
    assert not auto._must_go_on()
