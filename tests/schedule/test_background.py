"""A watch in the background of a command: nothing that it fails of ends it, and its end is bounded."""

from __future__ import annotations

import threading

import pytest

from colony_memory import ColonyMemory
from colony_memory.schedule import watch as module
from colony_memory.schedule.watch import BackgroundWatch, Watch
from colony_memory.vaults.memory import MemoryVault


class Saving:
    """What one run after the other comes to; ``made`` is released once for each."""

    def __init__(self, *outcomes):
        self.outcomes = list(outcomes)
        self.made = threading.Semaphore(0)
        self.told = []

    def __call__(self):
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        if callable(outcome):
            outcome = outcome()
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def tell(self, run):
        self.told.append(run)
        self.made.release()

    def watch(self, **options):
        return Watch(self, on_run=self.tell, background=True, **{"every": 3600, **options})


def info(name="a.md"):
    return ColonyMemory(backend=MemoryVault()).backup({name: "x"})


def test_where_nothing_was_started_nothing_is_saved():
    saving = Saving(info())
    with BackgroundWatch(saving.watch(), final_timeout=10) as background:
        pass
    background._thread.join(20)
    assert saving.told == []
    assert not background.busy


@pytest.mark.parametrize("error", [ValueError("no such folder"), KeyError("bug"), SystemExit(3)])
def test_what_the_first_run_fails_of_ends_nothing(error):
    saving = Saving(error, info())
    with BackgroundWatch(saving.watch(), final_timeout=10) as background:
        background.go()
        assert saving.made.acquire(timeout=20)
        ended = background.end("the end")
    assert [run.ok for run in saving.told] == [False, True]
    assert ended.last.ok


def test_a_limit_holds_what_is_asked_for_up_and_is_told():
    from colony_memory.exceptions import RateLimited

    saving = Saving(RateLimited("slow down", retry_after=600))
    watch = saving.watch()
    with BackgroundWatch(watch, final_timeout=10) as background:
        background.go()
        assert saving.made.acquire(timeout=20)
        watch.save_now()
        assert saving.made.acquire(timeout=20)
        ended = background.end("the end")
    assert saving.told[1].message.startswith("failed: the vault's rate limit holds for ")
    assert isinstance(ended.error, RateLimited)


def test_a_watch_that_does_not_answer_is_left(monkeypatch):
    monkeypatch.setattr(module, "_GRACE", 0.01)
    let_go = threading.Event()

    class Deaf:
        busy = False

        def stop(self, reason):
            pass

        def run(self):
            let_go.wait(20)
            raise RuntimeError("can't start new thread")

    with BackgroundWatch(Deaf(), final_timeout=0.01) as background:
        background.go()
        ended = background.end("the end")
        assert (ended.last.ok, ended.last.message) == (False, "failed: not done within 0.01 s")
        assert background.busy
        let_go.set()
        background._thread.join(20)
        ended = background.end("the end")
    assert ended.last.message == "failed: RuntimeError: can't start new thread"
    assert isinstance(ended.error, RuntimeError)
