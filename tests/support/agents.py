"""An agent's memory for tests of the schedule, and waiting for what a thread does."""

import threading
import time


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


def wait_until(condition, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to this"
        time.sleep(0.002)


def timers():
    return [each for each in threading.enumerate() if each.name.startswith("colony-memory-autobackup")]


def end_of_timers():
    for thread in timers():
        thread.join(20)
        assert not thread.is_alive()
