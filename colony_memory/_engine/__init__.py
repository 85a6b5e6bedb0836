"""Every verb, written once, as ``async def`` over :class:`colony_memory._engine.store.Vault`.

The synchronous facade drives these over a vault that never suspends; the asynchronous one awaits them. A verb's module
is loaded when it is first used: an agent that boots to restore does not wait for the code that prunes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from colony_memory._engine import (
        backup,
        history,
        inspect,
        keep,
        load,
        prune,
        restore,
        rewrite,
        salvage,
        transfer,
        verify,
    )

__all__ = [
    "backup",
    "history",
    "inspect",
    "keep",
    "load",
    "prune",
    "restore",
    "rewrite",
    "salvage",
    "transfer",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    from importlib import import_module

    return import_module(f"{__name__}.{name}")
