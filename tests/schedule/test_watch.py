"""Backups until told to stop: the schedule on a clock of its own, the thread and the signals in earnest."""

import json
import math
import os
import queue
import random
import signal
import threading
import time

import pytest
from turning_clock import TurningClock

from colony_memory import SnapshotInfo
from colony_memory.exceptions import ColonyMemoryError, ColonyMemoryWarning, RateLimited, VaultUnavailable
from colony_memory.schedule.last_run import alone
from colony_memory.schedule.loop import Clock
from colony_memory.schedule.watch import Watch

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

    def go(self, *, stop=None, at=(), save=None, **options):
        """Watch on a clock that goes by itself; ``at`` is what happens at which second."""
        at = dict(at)
        if stop is not None:
            at[stop] = lambda: self.watch.stop("stop()")
        self.clock = TurningClock(sleepers=2, until=math.inf, at=at)
        self.watch = Watch(save or self, on_run=lambda run, error: self.told.append(run), clock=self.clock, **options)
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


def test_an_outage_is_tried_again_later_and_later_for_ever():
    runs = Runs(saved("a"), *[DOWN] * 12, saved("b"))
    runs.go(every=900, stop=9000)
    gaps = [later - earlier for earlier, later in zip(runs.times, runs.times[1:], strict=False)]
    assert gaps[:10] == [900, 30, 60, 120, 240, 480, 900, 900, 900, 900]
    assert runs.lines[1] == "failed: the vault is down"
    assert (runs.told[1].ok, runs.told[1].snapshot_id) == (False, None)
    assert runs.next_in[1] == 30


def test_an_error_is_one_line_with_its_kind_where_it_was_not_foreseen():
    runs = Runs(DOWN, OSError(5, "Input/output\nerror"), SystemExit(), VaultUnavailable("a\r\n  b"), saved("a"))
    runs.go(stop=500)
    assert runs.lines[1:4] == ["failed: OSError: [Errno 5] Input/output error", "failed: SystemExit", "failed: a b"]


def test_what_is_left_out_is_named_and_is_no_success_and_no_error():
    left_out = tuple(f"{name}: link" for name in "abcde")
    runs = Runs(saved("x", incomplete=left_out[:1]), saved("x", reused=True, incomplete=left_out))
    runs.go(every=900, stop=950)
    assert runs.times == [0, 900, 950]
    assert runs.lines[:2] == [
        "saved x; 1 left out: a: link",
        "unchanged since x; 5 left out: a: link; b: link; c: link; and 2 more",
    ]
    assert not any(each.ok for each in runs.told)
    assert {each.snapshot_id for each in runs.told} == {"x"}
    assert runs.watch.last_error is None


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


@pytest.mark.parametrize("stop", [1000, 500])
def test_the_last_backup_is_bounded_where_a_run_or_itself_hangs(stop):
    runs = Runs(saved("a"), HANG)
    last = runs.go(every=900, final_timeout=0.05, stop=stop)
    assert runs.times == [0, min(stop, 900)]
    assert isinstance(runs.watch.last_error, VaultUnavailable)
    assert last.message == "failed: not done within 0.05 s (last backup, on stop())"
    assert runs.busy


def test_the_last_backup_keeps_to_a_rate_limit():
    runs = Runs(saved("a"), RateLimited("slow down", retry_after=600))
    last = runs.go(every=900, stop=1000)
    assert runs.times == [0, 900]
    assert isinstance(runs.watch.last_error, RateLimited)
    assert runs.watch.last_error.retry_after == 500
    assert last.message == "failed: the vault's rate limit holds for 500 s more (last backup, on stop())"


@pytest.mark.parametrize("name", ["every", "final_timeout"])
@pytest.mark.parametrize("value", [0, -1, math.inf, math.nan, "900", True, None])
def test_bad_arguments(name, value):
    with pytest.raises(ValueError, match=name):
        Watch(lambda: saved("a"), **{name: value})


# What is on disk.


def test_a_state_file_that_cannot_be_written_is_told_and_nothing_more(tmp_path):
    (tmp_path / "state.json").mkdir()
    runs = Runs(saved("a"))
    with pytest.warns(ColonyMemoryWarning, match="cannot be read"):
        runs.go(state=tmp_path / "state.json", stop=10)
    assert runs.watch.last_error is None
    for line in runs.lines:
        assert line.startswith("saved a")
        assert f"this could not be noted in {tmp_path / 'state.json'}: a directory, not a plain file" in line
    assert [each.name for each in tmp_path.iterdir() if each.suffix == ".tmp"] == []


def test_a_second_watch_of_the_same_state_is_refused(tmp_path):
    state = tmp_path / "state.json"
    runs = Runs(saved("a"))
    with alone(state), pytest.raises(ColonyMemoryError, match="another watch or run of this vault and label"):
        runs.go(state=state)
    assert (runs.times, state.exists()) == ([], False)
    runs.go(state=state, stop=1)
    assert runs.times == [0, 1]


# Threads and signals.


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


# Beside something else.


def beside(*outcomes, made, told=None, **options):
    """A watch of these runs, the last one for ever, which releases ``made`` after each."""
    left = list(outcomes)

    def save():
        outcome = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def tell(run, error):
        told.append(run)
        made.release()

    return Watch(save, on_run=tell, every=3600, **options)


@pytest.mark.parametrize("error", [ValueError("no such folder"), KeyError("bug"), SystemExit(3)])
def test_what_the_first_run_fails_of_ends_nothing_beside(error):
    made, told = threading.Semaphore(0), []
    with beside(error, saved("a"), made=made, told=told) as watch:
        watch.save_now()
        assert made.acquire(timeout=20)
        last = watch.end("the end")
    assert [run.ok for run in told] == [False, True]
    assert last.ok
    assert not watch.busy


def test_a_limit_holds_what_is_asked_for_up_and_is_told():
    made, told = threading.Semaphore(0), []
    with beside(RateLimited("slow down", retry_after=600), made=made, told=told) as watch:
        for _ in range(2):
            watch.save_now()
            assert made.acquire(timeout=20)
        watch.end("the end")
    assert told[1].message.startswith("failed: the vault's rate limit holds for ")
    assert isinstance(watch.last_error, RateLimited)


@pytest.mark.parametrize("raised", [BrokenPipeError(), ValueError("no such folder"), SystemExit(3)])
def test_what_hearing_of_a_run_or_the_first_run_fails_of_is_raised(raised, tmp_path):
    def tell(run, error):
        raise raised

    def fail():
        raise raised

    state = tmp_path / "state.json"
    watch = Watch(lambda: saved("a"), on_run=tell) if isinstance(raised, OSError) else Watch(fail, state=state)
    with pytest.raises(type(raised)):
        watch.run()
    # No other run is due where that one has ended it.
    assert not state.exists() or json.loads(state.read_text())["last_failure"]["next_run"] is None


# The clock that every schedule goes by.


class Machine:
    """The clocks of a machine that can be suspended and set."""

    def __init__(self, monkeypatch, *, boottime):
        self.wall, self.awake, self.suspended = 1.8e9, 50.0, 0.0
        monkeypatch.setattr(time, "time", lambda: self.wall)
        monkeypatch.setattr(time, "monotonic", lambda: self.awake)
        if boottime:
            monkeypatch.setattr(time, "CLOCK_BOOTTIME", 7, raising=False)
            monkeypatch.setattr(time, "clock_gettime", lambda which: self.awake + self.suspended, raising=False)
        else:
            monkeypatch.delattr(time, "CLOCK_BOOTTIME", raising=False)

    def work(self, seconds):
        self.wall += seconds
        self.awake += seconds

    def suspend(self, seconds):
        self.wall += seconds
        self.suspended += seconds


@pytest.mark.parametrize("boottime", [True, False])
def test_the_clock_counts_suspend_and_ignores_a_wall_clock_that_is_set_back(monkeypatch, boottime):
    machine = Machine(monkeypatch, boottime=boottime)
    clock = Clock()
    assert clock.now() == 0
    machine.work(10)
    assert clock.now() == 10
    machine.suspend(28_800)
    assert clock.now() == 28_810
    machine.wall -= 86_400
    machine.work(30)
    assert clock.now() == 28_840
    machine.wall += 365 * 86_400
    assert clock.now() == 28_840 + 365 * 86_400
    before = clock.now()
    machine.wall -= 1e9
    assert clock.now() == before
