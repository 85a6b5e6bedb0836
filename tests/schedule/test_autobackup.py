"""Backup on a timer and at the end of the block, on a clock that a test turns."""

import logging
import math
import threading
import time

import pytest
from agents import end_of_timers
from faces import AsyncFakeVault

from colony_memory import AsyncColonyMemory, ColonyMemory, Retention
from colony_memory.exceptions import ColonyMemoryError, RateLimited
from colony_memory.schedule.autobackup import Autobackup
from colony_memory.testing import FakeVault

FOREVER = math.inf


def test_options_reach_the_backup(mem, memory):
    with Autobackup(mem, memory, every=FOREVER, label=" Notes ", prune_keep=2) as auto:
        for number in range(4):
            memory.documents = {"MEMORY.md": f"text {number}"}
            assert auto.backup_now().label == "notes"
    assert len(mem.list_snapshots(label="notes")) == 2
    assert mem.list_snapshots(label="default") == []


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


def test_a_log_that_raises_ends_no_backups(mem, memory, monkeypatch):
    class Broken(logging.Handler):
        def emit(self, record):
            raise ValueError("no log")

    handler, logger, told = Broken(), logging.getLogger("colony_memory"), []
    monkeypatch.setattr(threading, "excepthook", told.append)
    logger.addHandler(handler)
    try:
        with Autobackup(mem, memory) as auto:
            memory.error = OSError("no disk")
            assert auto.backup_now() is None
            memory.error, memory.documents = None, {"MEMORY.md": "at the end"}
    finally:
        logger.removeHandler(handler)
    assert mem.restore() == {"MEMORY.md": "at the end"}
    assert [str(each.exc_value) for each in told] == ["no log"]


# The end of the block.


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


# Misuse.


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


def test_where_no_thread_can_be_started_it_is_refused(mem, memory, monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(ColonyMemoryError, match="no backups can be made alongside"), Autobackup(mem, memory):
        pass
    assert memory.calls == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"every": 0}, "every must be"),
        ({"every": math.nan}, "every must be"),
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


# Rate limits.


def test_no_backup_is_made_while_a_rate_limit_surely_holds(mem, vault, memory, clock, caplog):
    with Autobackup(mem, memory, every=60, clock=clock) as auto:
        vault.fail("*", RateLimited("wait", retry_after=600.0), times=1)
        clock.turn(60)
        clock.suspend(599)
        assert auto.backup_now() is None
        caplog.clear()
    assert (memory.calls, vault.count) == (1, 1)
    assert isinstance(auto.last_error, RateLimited)
    assert [r.getMessage().partition(" (")[0] for r in caplog.records] == [
        "the final backup of label 'default' failed: RateLimited: the vault's rate limit holds for 1 s more"
    ]
