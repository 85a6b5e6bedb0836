"""The thread under every schedule, and the clock that it goes by."""

from __future__ import annotations

import math
import queue
import sys
import threading
import time

import pytest
from agents import wait_until

from colony_memory.schedule.loop import Clock, Loop


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


@pytest.mark.skipif(sys.platform != "linux", reason="of Linux")
def test_boottime_counts_a_suspend_in_which_the_wall_clock_is_set_back(monkeypatch):
    machine = Machine(monkeypatch, boottime=True)
    clock = Clock()
    machine.suspend(28_800)
    machine.wall -= 86_400
    assert clock.now() == 28_800


def test_the_clock_gives_a_message_or_nothing():
    inbox = queue.SimpleQueue()
    assert Clock().get(inbox, 0.001) is None
    inbox.put("message")
    assert Clock().get(inbox, 30) == "message"


def make_loop(run, *, first=math.inf, told=None):
    return Loop(
        run, name="loop", every=math.inf, first=first, longest_retry=30.0, tell=([] if told is None else told).append
    )


def end(loop):
    loop.ask(20.0, end=True)
    wait_until(lambda: not any(each.name == "loop" for each in threading.enumerate()))


def test_what_was_waited_for_in_vain_is_not_waited_for_again():
    gate, entered = threading.Event(), threading.Event()
    loop = make_loop(lambda: entered.set() or gate.wait(20))
    loop.start()
    assert loop.ask(0.01) is False
    assert entered.wait(20)
    assert loop.busy_for is not None
    assert loop.post(60.0).left() == 0
    gate.set()
    wait_until(lambda: loop.busy_for is None)
    assert loop.post(60.0).left() > 0
    end(loop)


def test_a_run_whose_time_is_over_before_it_can_begin_is_not_made():
    gate, runs = threading.Event(), []
    loop = make_loop(lambda: runs.append(0) or gate.wait(20))
    loop.start()
    other = threading.Thread(target=loop.run_here)
    other.start()
    wait_until(lambda: runs)
    request = loop.post(0.01)
    wait_until(lambda: request.done)
    assert loop.give_up(request)
    gate.set()
    other.join(20)
    end(loop)
    assert len(runs) == 2  # that one, and the one at the end


def test_whoever_asks_after_the_end_gets_an_answer_at_once():
    runs, answered = [], threading.Event()
    loop = make_loop(lambda: runs.append(0))
    loop.start()
    end(loop)
    assert loop.ask(20.0) is True
    loop.post(20.0, then=answered.set)
    assert answered.is_set()
    assert len(runs) == 1
    assert not loop.running
    assert loop.next_run is None


def test_the_end_is_not_waited_for_where_its_time_is_over():
    told = []
    loop = make_loop(lambda: 1, told=told)
    loop.start()
    assert loop.ask(0.0, end=True) is False
    wait_until(lambda: not any(each.name == "loop" for each in threading.enumerate()))
    assert told == []


def test_an_outcome_tells_everything():
    told, results = [], [ValueError("x"), 1, 2]

    def run():
        result = results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    loop = make_loop(run, first=0.0, told=told)
    loop.start()
    wait_until(lambda: told)
    failed = told[0]
    assert (type(failed.error), failed.result, failed.failures, failed.final) == (ValueError, None, 1, False)
    assert 29 < failed.next_in <= 30
    assert loop.run_here() == 1
    assert (told[1].result, told[1].failures, told[1].next_in) == (1, 1, math.inf)
    end(loop)
    assert (told[2].result, told[2].final, told[2].failures) == (2, True, 0)
    assert loop.last_result == 2
    assert loop.last_success >= told[1].when
