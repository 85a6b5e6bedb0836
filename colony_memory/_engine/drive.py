"""Running a verb without an event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

_T = TypeVar("_T")


def drive(verb: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine that never suspends to its end."""
    try:
        verb.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    verb.close()
    raise RuntimeError("the backend of a ColonyMemory must not be asynchronous: use AsyncColonyMemory")
