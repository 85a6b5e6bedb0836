"""Verbs that hand out one vault call at a time, so that a test may put the calls of several clients in any order."""

import threading
from types import coroutine
from typing import Any

from colony_memory._engine.store import Vault

Call = tuple[str, tuple[Any, ...], tuple[tuple[str, Any], ...]]


class Stepped(Vault):
    """A vault whose calls suspend: whoever drives the coroutine applies them."""

    async def _call(self, method, *args, **kwargs):
        return await step((method, args, tuple(sorted(kwargs.items()))))

    def new_lock(self):
        return threading.Lock()

    async def acquire(self, lock):
        assert lock.acquire(blocking=False), "each client runs one verb at a time here"

    async def compute(self, function, *args, **kwargs):
        return function(*args, **kwargs)

    async def gather(self, names, on_read=lambda name: None, read=None):
        return [await (read or self.get)(name) for name in names]


@coroutine
def step(call):
    """Hand out a call, and go on with what comes back."""
    reply = yield call
    if isinstance(reply, Exception):
        raise reply
    return reply
