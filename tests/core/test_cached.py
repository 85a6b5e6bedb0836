"""Properties that are worked out once."""

from __future__ import annotations

import threading
from pathlib import Path

import colony_memory
from colony_memory._values import cached_property


class Number:
    def __init__(self, work):
        self.work = work

    @cached_property
    def value(self):
        return self.work()


def test_it_is_worked_out_once():
    made = []
    number = Number(lambda: made.append(1) or len(made))
    assert (number.value, number.value) == (1, 1)
    assert isinstance(Number.value, cached_property)


def test_no_instance_waits_for_another_one():
    """A lock that they share would never be free in a process that was forked while a thread held it."""
    begun, end = threading.Event(), threading.Event()

    def take_long():
        begun.set()
        return end.wait(60)

    slow = threading.Thread(target=lambda: Number(take_long).value)
    quick = threading.Thread(target=lambda: Number(int).value)
    slow.start()
    assert begun.wait(60)
    quick.start()
    quick.join(5)
    waits = quick.is_alive()
    end.set()
    for each in (slow, quick):
        each.join()
    assert not waits


def test_the_package_uses_no_other():
    folder = Path(colony_memory.__file__).parent
    using = [
        path.name for path in folder.rglob("*.py") if "functools import cached_property" in path.read_text("utf-8")
    ]
    assert using == ["_values.py"]
