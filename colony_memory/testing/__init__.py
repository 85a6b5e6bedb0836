"""Fakes and checks for tests of code that keeps memory in a vault; public, and used by this package's own tests.

- :class:`FakeVault`: the hosted vault in memory, with its limits, replies and refusals.
  :class:`AsyncFakeVault` puts any vault behind coroutines.
- :class:`FaultyVault`: any vault, with faults that strike by method and by counting calls.
- :class:`VaultServer`: the hosted vault over HTTP on loopback, for tests through the real ``ColonyClient``.
- :class:`VaultBackendTests`: the conformance suite. A new vault's test is a subclass with a fixture ``vault``.
  :class:`UnmadeVaultTests` is for vaults that somebody has to make first, with a fixture ``unmade``.

Only :class:`VaultBackendTests` needs pytest, and only while it runs.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from colony_memory.testing.conformance import UnmadeVaultTests, VaultBackendTests
    from colony_memory.testing.fake import AsyncFakeVault, FakeVault
    from colony_memory.testing.faults import FaultyVault
    from colony_memory.testing.server import VaultServer

__all__ = ["AsyncFakeVault", "FakeVault", "FaultyVault", "UnmadeVaultTests", "VaultBackendTests", "VaultServer"]

_HOMES = {
    "conformance": ("UnmadeVaultTests", "VaultBackendTests"),
    "fake": ("AsyncFakeVault", "FakeVault"),
    "faults": ("FaultyVault",),
    "server": ("VaultServer",),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
