"""Verbs that hand out one vault call at a time, so that a test may put the calls of several clients in any order."""

from __future__ import annotations

import threading
from types import coroutine
from typing import TYPE_CHECKING, Any

from colony_memory._engine.store import Vault

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

Call = tuple[str, tuple[Any, ...], tuple[tuple[str, Any], ...]]


class Stepped(Vault):
    """A vault whose calls suspend: whoever drives the coroutine applies them."""

    async def _call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        return await step((method, args, tuple(sorted(kwargs.items()))))

    def new_lock(self) -> threading.Lock:
        return threading.Lock()

    async def acquire(self, lock: threading.Lock) -> None:
        assert lock.acquire(blocking=False), "each client runs one verb at a time here"

    async def compute(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    async def gather(
        self, names: list[str], told: Callable[[str], None] = lambda name: None, read: Any = None
    ) -> list[Any]:
        return [await (read or self.get)(name) for name in names]


@coroutine
def step(call: Call) -> Generator[Call, Any, Any]:
    """Hand out a call, and go on with what comes back."""
    reply = yield call
    if isinstance(reply, Exception):
        raise reply
    return reply
