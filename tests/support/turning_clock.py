"""A clock for the schedule that moves only where a test turns it, or where everybody sleeps."""

import threading

from colony_memory.schedule.loop import Clock


class TurningClock(Clock):
    """Time goes on to the next thing that is due, as soon as ``sleepers`` threads sleep and no message is left.

    Args:
        sleepers: How many threads sleep by this clock.
        until: How far it goes by itself; :meth:`turn` moves that.
        at: What happens at which second, in the thread that made the clock while that sleeps.
    """

    def __init__(self, *, sleepers=1, until=0.0, at=None):
        self.looks = 0
        self._awake = 0.0
        self._suspended = 0.0
        self._until = until
        self._sleepers = sleepers
        self._at = sorted((at or {}).items())
        self._owner = threading.get_ident()
        self._asleep = {}
        self._turned = threading.Condition()

    def now(self):
        """Seconds since it was made, those in suspend included."""
        return self._awake + self._suspended

    def suspend(self, seconds):
        """Have the machine sleep: time passes, and no sleep in a program gets any shorter."""
        self._suspended += seconds

    def turn(self, seconds):
        """Let so much time pass; returns when everybody sleeps again, with nothing due."""
        with self._turned:
            self._until = self._awake + seconds
            while not (self._all_asleep() and self._next() > self._until):
                self._turned.wait(0.001)
            self._awake = self._until

    def get(self, inbox, timeout):
        """Sleep until there is a message, or so much time has passed."""
        me = object()
        mine = threading.get_ident() == self._owner
        with self._turned:
            self.looks += 1
            deadline = self._awake + timeout
            self._asleep[me] = (deadline, inbox)
            try:
                while inbox.empty() and self._awake < deadline:
                    if mine and self._all_asleep() and self.happens():
                        continue
                    if self._all_asleep() and self._awake < self._next() <= self._until:
                        self._awake = self._next()
                        self._turned.notify_all()
                    else:
                        self._turned.wait(0.001)
                return None if inbox.empty() else inbox.get()
            finally:
                del self._asleep[me]
                self._turned.notify_all()

    def happens(self):
        """Whether something happened, while everybody slept."""
        if not self._at or self._at[0][0] > self._awake:
            return False
        self._at.pop(0)[1]()
        return True

    def _all_asleep(self):
        return len(self._asleep) == self._sleepers and all(inbox.empty() for _, inbox in self._asleep.values())

    def _next(self):
        return min([deadline for deadline, _ in self._asleep.values()] + [when for when, _ in self._at[:1]])
