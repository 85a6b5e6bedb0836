"""Fakes and checks for tests of code that keeps memory in a vault; public, and used by this package's own tests.

- :class:`FakeVault`: the hosted vault in memory, with its limits, replies and refusals.
- :class:`FaultyVault`: any vault, with faults that strike by method and by counting calls.
- :class:`VaultServer`: the hosted vault over HTTP on loopback, for tests through the real ``ColonyClient``.
- :class:`VaultBackendTests`: the conformance suite. A new vault's test is a subclass with a fixture ``vault``.

Only :class:`VaultBackendTests` needs pytest, and only while it runs.
"""

from colony_memory.testing.conformance import VaultBackendTests
from colony_memory.testing.fake import FakeVault
from colony_memory.testing.faults import FaultyVault
from colony_memory.testing.server import VaultServer

__all__ = ["FakeVault", "FaultyVault", "VaultBackendTests", "VaultServer"]
