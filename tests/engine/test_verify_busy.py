"""Verifying a label in which others are at work."""

from __future__ import annotations

import pytest

from colony_memory import ColonyMemory, PruneIncomplete
from colony_memory._format.v2.zstd import is_installed
from colony_memory.testing import FakeVault, FaultyVault

FORMATS = [1, pytest.param(2, marks=pytest.mark.skipif(not is_installed(), reason="needs zstd"))]


@pytest.fixture(params=FORMATS)
def wire(request):
    return request.param


@pytest.fixture
def vault():
    return FaultyVault(FakeVault(operations_per_hour=None))


@pytest.fixture
def mem(vault, wire):
    mem = ColonyMemory(backend=vault, format=wire)
    for number in range(4):
        mem.backup({"m": f"{number}"})
    return mem


def test_another_client_removes_what_is_being_verified(mem, vault, wire):
    """Each time that it looks again."""
    other = ColonyMemory(backend=vault.vault, format=wire)

    def save():
        other.backup({"m": f"{vault.count}"}, prune_keep=2)

    vault.hook("get", save, match=".manifest", times=None)
    assert mem.verify()


def test_a_snapshot_that_goes_while_its_files_are_read_is_not_damaged(vault):
    mem = ColonyMemory(backend=vault, format=1)
    old = mem.backup({"m": "old"}).snapshot_id
    mem.backup({"m": "new"})
    faulty = FaultyVault(vault.vault)
    faulty.fail("delete", ConnectionResetError("gone"))
    with pytest.raises(PruneIncomplete):
        ColonyMemory(backend=faulty).prune(keep=1)  # the pointer lists it no more

    def go_on():
        for name in ("manifest", "p0"):
            vault.vault.vault_delete_file(f"cmem.default.{old}.{name}.json")

    vault.hook("get", go_on, match=f"{old}.p0")
    assert mem.verify()
