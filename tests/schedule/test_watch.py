"""Backups until told to stop: the schedule on a clock of its own, the thread and the signals in earnest."""

from __future__ import annotations

import json
import math
import os
import queue
import random
import signal
import threading
import time
from datetime import timezone

import pytest
from turning_clock import TurningClock

from colony_memory import ColonyMemory, SnapshotInfo, save_folder
from colony_memory.exceptions import (
    BackupUncertain,
    ColonyMemoryError,
    QuotaExceeded,
    RateLimited,
    SnapshotCorrupt,
    VaultDenied,
    VaultUnavailable,
)
from colony_memory.schedule.last_run import only_one
from colony_memory.schedule.watch import Watch, mends_itself
from colony_memory.vaults.memory import MemoryVault

POSIX = pytest.mark.skipif(os.name == "nt", reason="signals of other systems end the process at once")
DOWN = VaultUnavailable("the vault is down")


def saved(snapshot_id, **changes):
    return SnapshotInfo(
        snapshot_id, "default", "2026-11-01T12:00:00Z", ["a.md"], 1, 10, "sha256:" + "0" * 64, **changes
    )


HANG = saved("this run hangs")


class Runs:
    """What one run after the other comes to, the last one for ever, and when each was."""

    def __init__(self, *outcomes):
        self.outcomes = list(outcomes)
        self.times = []
        self.told = []
        self.hanging = queue.SimpleQueue()
        self.watch = self.clock = None

    def __call__(self):
        self.times.append(self.clock.now())
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        if callable(outcome):
            outcome = outcome()
        if outcome is HANG:
            outcome = self.clock.get(self.hanging, math.inf)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def go(self, *, stop=None, at=(), save=None, on_run=None, **options):
        """Watch on a clock that goes by itself; ``at`` is what happens at which second."""
        at = dict(at)
        if stop is not None:
            at[stop] = lambda: self.watch.stop("stop()")
        self.clock = TurningClock(sleepers=2, until=math.inf, at=at)
        self.watch = Watch(save or self, on_run=on_run or self.told.append, clock=self.clock, **options)
        try:
            return self.watch.run()
        finally:
            self.busy = self.watch.busy
            self.hanging.put(saved("left behind"))

    @property
    def lines(self):
        return [each.message for each in self.told]

    @property
    def next_in(self):
        return [each.next_run and (each.next_run - each.when).total_seconds() for each in self.told]


@pytest.fixture(autouse=True)
def no_chance(monkeypatch):
    monkeypatch.setattr(random, "uniform", lambda low, high: high)


# The schedule.


def test_a_run_now_then_every_so_often_and_one_at_the_end():
    runs = Runs(saved("a"), saved("a", reused=True))
    ended = runs.go(every=900, stop=2000)
    assert runs.times == [0, 900, 1800, 2000]
    assert runs.lines == [
        "saved a",
        "unchanged since a",
        "unchanged since a",
        "unchanged since a (last backup, on stop())",
    ]
    assert runs.next_in == [900, 900, 900, None]
    assert all(each.ok and each.snapshot_id == "a" and each.pid == os.getpid() for each in runs.told)
    assert all(each.when.tzinfo is timezone.utc for each in runs.told)
    assert (ended.last, ended.error) == (runs.told[-1], None)
    assert not runs.busy


def test_an_outage_is_tried_again_later_and_later_for_ever():
    runs = Runs(saved("a"), *[DOWN] * 12, saved("b"))
    runs.go(every=900, stop=9000)
    gaps = [later - earlier for earlier, later in zip(runs.times, runs.times[1:], strict=False)]
    assert gaps[:10] == [900, 30, 60, 120, 240, 480, 900, 900, 900, 900]
    assert runs.lines[1] == "failed: the vault is down"
    assert (runs.told[1].ok, runs.told[1].snapshot_id) == (False, None)
    assert runs.next_in[1] == 30


def test_a_success_begins_the_count_of_errors_anew():
    runs = Runs(DOWN, DOWN, saved("a"), DOWN, saved("b"))
    runs.go(every=900, stop=1100)
    assert runs.times == [0, 30, 90, 990, 1020, 1100]


def test_no_retry_waits_longer_than_an_hour():
    runs = Runs(saved("a"), DOWN)
    runs.go(every=86_400, stop=86_400 + 40_000)
    gaps = [later - earlier for earlier, later in zip(runs.times, runs.times[1:], strict=False)]
    assert gaps[1:-1] == [30, 60, 120, 240, 480, 960, 1920, *[3600] * 10]


def test_chance_shortens_the_wait_by_a_half_at_most(monkeypatch):
    asked = []
    monkeypatch.setattr(random, "uniform", lambda *span: asked.append(span) or span[0])
    runs = Runs(DOWN, DOWN, RateLimited("slow down", retry_after=70), saved("a"))
    runs.go(every=900, stop=120)
    assert runs.times == [0, 15, 45, 115, 120]
    assert set(asked) == {(0.5, 1.0)}


@pytest.mark.parametrize(("asked", "next_at"), [(2000, 2000), (10, 30), (1e9, 86_400), (None, 30), (-5, 30)])
def test_what_the_vault_asks_for_is_kept(asked, next_at):
    runs = Runs(RateLimited("slow down", retry_after=asked), saved("a"))
    runs.go(every=900, stop=next_at + 1)
    assert runs.times == [0, next_at, next_at + 1]


@pytest.mark.parametrize("error", [ValueError("no such folder"), KeyError("x"), VaultDenied("revoked"), SystemExit(3)])
def test_once_under_way_nothing_ends_it(error):
    runs = Runs(saved("a"), error, saved("b"))
    ended = runs.go(every=900, stop=1000)
    assert runs.times == [0, 900, 930, 1000]
    assert ended.error is None


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no such folder"),
        SnapshotCorrupt("x"),
        VaultDenied("wrong key"),
        TypeError("x"),
        ColonyMemoryError("x"),
    ],
)
def test_what_does_not_mend_itself_is_raised_by_the_first_run(error, tmp_path):
    runs = Runs(error)
    with pytest.raises(type(error)) as caught:
        runs.go(state=tmp_path / "state.json")
    assert caught.value is error
    assert (runs.times, runs.told) == ([0], [])
    (noted,) = json.loads((tmp_path / "state.json").read_text())["runs"]
    assert (noted["ok"], noted["next_run"]) == (False, None)


@pytest.mark.parametrize(
    "error", [DOWN, RateLimited("x"), BackupUncertain("x", snapshot_id="a"), QuotaExceeded("full", needed=2)]
)
def test_what_may_mend_itself_is_tried_again_from_the_first_run_on(error):
    assert mends_itself(error)
    runs = Runs(error, saved("a"))
    assert runs.go(stop=50).error is None
    assert runs.times == [0, 30, 50]


def test_an_error_is_one_line_with_its_kind_where_it_was_not_foreseen():
    runs = Runs(DOWN, OSError(5, "Input/output\nerror"), SystemExit(), VaultUnavailable("a\r\n  b"), saved("a"))
    runs.go(stop=500)
    assert runs.lines[1:4] == ["failed: OSError: [Errno 5] Input/output error", "failed: SystemExit", "failed: a b"]


def test_what_is_left_out_is_named_and_is_no_success_and_no_error():
    left_out = tuple(f"{name}: link" for name in "abcde")
    runs = Runs(saved("x", incomplete=left_out[:1]), saved("x", reused=True, incomplete=left_out))
    ended = runs.go(every=900, stop=950)
    assert runs.times == [0, 900, 950]
    assert runs.lines[:2] == [
        "saved x; 1 left out: a: link",
        "unchanged since x; 5 left out: a: link; b: link; c: link; and 2 more",
    ]
    assert not any(each.ok for each in runs.told)
    assert {each.snapshot_id for each in runs.told} == {"x"}
    assert ended.error is None


# Time and what takes it.


def test_a_run_that_hangs_is_told_each_interval_and_ends_when_it_ends():
    runs = Runs(saved("a"), HANG, saved("b"))

    runs.go(every=900, at={3000: lambda: runs.hanging.put(saved("late"))}, stop=4000)
    assert runs.lines == [
        "saved a",
        "failed: not done after 900 s, still waiting",
        "failed: not done after 1800 s, still waiting",
        "saved late",
        "saved b",
        "saved b (last backup, on stop())",
    ]
    assert runs.times == [0, 900, 3900, 4000]
    assert runs.told[1].next_run is None


def test_a_short_interval_leaves_a_run_a_minute_before_it_is_told():
    runs = Runs(saved("a"), HANG)
    runs.go(every=1, stop=130, final_timeout=0.05)
    assert runs.lines[1:3] == [f"failed: not done after {seconds} s, still waiting" for seconds in (60, 120)]


@pytest.mark.parametrize("stop", [1000, 500])
def test_the_last_backup_is_bounded_where_a_run_or_itself_hangs(stop):
    runs = Runs(saved("a"), HANG)
    ended = runs.go(every=900, final_timeout=0.05, stop=stop)
    assert runs.times == [0, min(stop, 900)]
    assert isinstance(ended.error, VaultUnavailable)
    assert ended.last.message == "failed: not done within 0.05 s (last backup, on stop())"
    assert runs.busy


def test_after_a_run_under_way_there_is_one_more():
    runs = Runs(HANG, saved("b"))
    ended = runs.go(at={10: lambda: (runs.watch.stop("SIGTERM"), runs.hanging.put(saved("a")))})
    assert runs.times == [0, 10]
    assert runs.lines == ["saved b (last backup, on SIGTERM)"]
    assert ended.error is None


def test_the_last_backup_is_made_although_the_vault_was_away():
    runs = Runs(saved("a"), DOWN, saved("b"))
    assert runs.go(every=900, stop=910).error is None
    assert runs.times == [0, 900, 910]


def test_an_error_of_the_last_backup_is_its_result():
    runs = Runs(saved("a"), DOWN)
    ended = runs.go(every=900, stop=910)
    assert ended.error is DOWN
    assert ended.last.message == "failed: the vault is down (last backup, on stop())"


def test_the_last_backup_keeps_to_a_rate_limit():
    runs = Runs(saved("a"), RateLimited("slow down", retry_after=600))
    ended = runs.go(every=900, stop=1000)
    assert runs.times == [0, 900]
    assert isinstance(ended.error, RateLimited)
    assert ended.error.retry_after == 500
    assert ended.last.message == "failed: the vault's rate limit holds for 500 s more (last backup, on stop())"


def test_to_stop_twice_changes_nothing():
    runs = Runs(saved("a"))
    stop = {40: lambda: (runs.watch.stop("SIGTERM"), runs.watch.stop("SIGHUP"))}
    runs.go(at=stop)
    assert runs.times == [0, 40]
    assert runs.lines[-1] == "saved a (last backup, on SIGTERM)"


def test_time_in_suspend_counts():
    runs = Runs(saved("a"))
    runs.go(every=10_000, at={100: lambda: runs.clock.suspend(20_000)}, stop=200)
    assert len(runs.times) == 3
    assert 20_100 <= runs.times[1] <= 20_130


@pytest.mark.parametrize("name", ["every", "final_timeout"])
@pytest.mark.parametrize("value", [0, -1, math.inf, math.nan, "900", True, None])
def test_bad_arguments(name, value):
    with pytest.raises(ValueError, match=name):
        Watch(lambda: saved("a"), **{name: value})


# What is on disk.


def test_each_result_is_in_the_state_file(tmp_path):
    state = tmp_path / "deep" / "state.json"
    seen = []

    def look(run):
        seen.append(json.loads(state.read_text())["runs"][-1]["message"] == run.message)

    Runs(saved("a"), DOWN).go(stop=1000, on_run=look, state=state)
    assert seen == [True] * 5
    log = json.loads(state.read_text())
    assert log["runs"][-1]["next_run"] is None
    assert ([run["ok"] for run in log["runs"]], log["failed_since"]) == ([True, *[False] * 4], 4)


def test_a_state_file_that_cannot_be_written_is_told_and_nothing_more(tmp_path):
    (tmp_path / "state.json").mkdir()
    runs = Runs(saved("a"))
    assert runs.go(state=tmp_path / "state.json", stop=10).error is None
    for line in runs.lines:
        assert line.startswith("saved a")
        assert f"this could not be noted in {tmp_path / 'state.json'}: a directory, not a plain file" in line
    assert [each.name for each in tmp_path.iterdir() if each.suffix == ".tmp"] == []


def test_a_second_watch_of_the_same_state_is_refused(tmp_path):
    state = tmp_path / "state.json"
    runs = Runs(saved("a"))
    with only_one(state), pytest.raises(ColonyMemoryError, match="another watch or run of this vault and label"):
        runs.go(state=state)
    assert (runs.times, state.exists()) == ([], False)
    runs.go(state=state, stop=1)
    assert runs.times == [0, 1]


def test_memory_that_vanished_does_not_age_out(tmp_path):
    memory, mem = tmp_path / "memory", ColonyMemory(backend=MemoryVault())
    memory.mkdir()
    (memory / "MEMORY.md").write_text("two years of notes\n" * 100)
    runs = Runs(None)

    def save():
        return save_folder(mem, memory, prune_keep=1)

    def empty():
        (memory / "MEMORY.md").unlink()

    def remove():
        memory.rmdir()

    def begin_anew():
        memory.mkdir()
        (memory / "MEMORY.md").write_text("hello\n")

    def go_on():
        (memory / "MEMORY.md").write_text("hello again\n")

    at = {1000: empty, 2000: remove, 20_000: begin_anew, 25_000: go_on}
    assert runs.go(save=save, at=at, stop=30_000).error is None
    assert f"failed: {str(memory)!r}: nothing to back up" in runs.lines
    assert f"failed: {str(memory)!r}: no such file or directory" in runs.lines
    whole = runs.told[0].snapshot_id
    assert len({each.snapshot_id for each in runs.told if each.ok}) == 3
    # Two small ones were saved with a retention of one: what they shrank from is still there.
    assert mem.restore(snapshot_id=whole)["MEMORY.md"].startswith("two years")
    assert mem.restore()["MEMORY.md"] == "hello again\n"


# Threads and signals.


def run_apart(watch):
    ended = []
    thread = threading.Thread(target=lambda: ended.append(watch.run()))
    thread.start()
    return thread, ended


def test_in_a_thread_it_runs_until_stop_and_takes_no_signals():
    before = signal.getsignal(signal.SIGTERM)
    mem, ran, threads = ColonyMemory(backend=MemoryVault()), threading.Event(), set()

    def save():
        threads.add(threading.current_thread().name)
        return mem.backup({"MEMORY.md": "first"})

    watch = Watch(save, every=0.01, on_run=lambda run: run.message.startswith("unchanged") and ran.set())
    thread, ended = run_apart(watch)
    assert ran.wait(20)
    assert signal.getsignal(signal.SIGTERM) is before
    watch.stop()
    thread.join(20)
    assert ended[0].last.ok
    assert not watch.busy
    assert threads == {"colony-memory-watch"}
    assert mem.latest().snapshot_id == ended[0].last.snapshot_id


def test_a_run_that_hangs_does_not_keep_the_end_waiting():
    let_go, began = threading.Event(), threading.Event()

    def save():
        began.set()
        let_go.wait(20)
        return saved("late")

    watch = Watch(save, final_timeout=0.05)
    thread, ended = run_apart(watch)
    assert began.wait(20)
    watch.stop()
    thread.join(20)
    assert isinstance(ended[0].error, VaultUnavailable)
    assert watch.busy
    let_go.set()


def test_where_no_thread_can_be_started_it_raises_and_leaves_nothing(monkeypatch):
    before = signal.getsignal(signal.SIGTERM)

    def fail(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fail)
    with pytest.raises(RuntimeError, match="start new thread"):
        Runs(saved("a")).go()
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_handlers_of_the_caller_are_put_back_and_not_called():
    called = []
    mine = lambda number, frame: called.append(number)  # noqa: E731
    before = signal.signal(signal.SIGTERM, mine)
    try:
        runs = Runs(saved("a"))
        runs.go(at={5: lambda: [signal.raise_signal(signal.SIGTERM) for _ in range(300)]})
        assert signal.getsignal(signal.SIGTERM) is mine
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (called, runs.times) == ([], [0, 5])


@POSIX
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_signals_stop_it_and_are_given_back(name):
    number = getattr(signal, name)
    before = signal.getsignal(number)
    runs = Runs(saved("a"))
    runs.go(at={5: lambda: os.kill(os.getpid(), number)})
    assert runs.lines == ["saved a", f"saved a (last backup, on {name})"]
    assert signal.getsignal(number) == before


@POSIX
def test_a_signal_wakes_a_wait_at_once():
    def kill_later(run):
        if run.next_run is not None:
            threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGTERM)).start()

    began = time.monotonic()
    ended = Watch(lambda: saved("a"), every=3600, on_run=kill_later).run()
    assert ended.last.message.endswith("on SIGTERM)")
    assert time.monotonic() - began < 10


@POSIX
def test_a_signal_that_is_ignored_stays_so():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        runs = Runs(saved("a"))
        runs.go(at={5: lambda: os.kill(os.getpid(), signal.SIGHUP)}, stop=50)
        assert runs.times == [0, 50]
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@POSIX
def test_a_second_interrupt_ends_it_at_once():
    def interrupt():
        os.kill(os.getpid(), signal.SIGINT)
        return HANG

    runs = Runs(saved("a"), interrupt)
    with pytest.raises(KeyboardInterrupt):
        runs.go(at={5: interrupt}, final_timeout=60)
    assert runs.times == [0, 5]
    assert runs.busy
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
