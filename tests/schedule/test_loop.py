"""The thread under every schedule, and the clock that it goes by."""

import time

import pytest

from colony_memory.schedule.loop import Clock


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
