"""A host that is frozen in the middle of a write, and whose clock does not know of it once it goes on."""

from __future__ import annotations

import pytest

from colony_memory import ColonyMemory, ColonyMemoryError
from colony_memory._format.v2.zstd import is_installed
from colony_memory.testing import FakeVault, FaultyVault

FORMATS = [1, pytest.param(2, marks=pytest.mark.skipif(not is_installed(), reason="needs zstd"))]


class Hosts:
    """One that is frozen for hours before it writes a manifest; others pin and prune meanwhile, and move no pointer."""

    def __init__(self, wire):
        self.hours = 0
        self.fake = FakeVault(operations_per_hour=None, clock=lambda: 1.8e9 + 3600 * self.hours)
        self.wire = wire
        self.before = self.client().backup({"m": "before"}).snapshot_id

    def client(self):
        return ColonyMemory(backend=self.fake, format=self.wire)

    def frozen(self):
        vault = FaultyVault(self.fake)

        def hours_later():
            self.hours += 3
            self.client().pin(snapshot_id=self.before)
            self.client().prune(keep=5)

        vault.hook("upload", hours_later, match=".manifest.json")
        return ColonyMemory(backend=vault, format=self.wire)


def _until_it_says_so(call):
    """What is done again is done, and what was said to be done is."""
    try:
        return call()
    except ColonyMemoryError:
        return call()


@pytest.mark.parametrize("wire", FORMATS)
def test_a_backup_that_was_frozen_is_saved_when_it_says_so(wire):
    hosts = Hosts(wire)
    mem = hosts.frozen()
    info = _until_it_says_so(lambda: mem.backup({"m": "frozen"}))
    assert hosts.client().restore(snapshot_id=info.snapshot_id) == {"m": "frozen"}
    assert hosts.client().restore() == {"m": "frozen"}


@pytest.mark.parametrize("wire", FORMATS)
def test_an_import_that_was_frozen_is_there_when_it_says_so(wire):
    hosts = Hosts(wire)
    elsewhere = ColonyMemory(backend=FakeVault(operations_per_hour=None), format=wire)
    elsewhere.backup({"m": "exported"})
    mem, exported = hosts.frozen(), elsewhere.export_snapshot()
    info = _until_it_says_so(lambda: mem.import_snapshot(exported))
    assert hosts.client().restore(snapshot_id=info.snapshot_id) == {"m": "exported"}
