"""Snapshots of format 2 where zstd is not installed: they are listed, told of and left alone."""

import re

import pytest
from chains import growing
from no_zstd import lose_zstd

from colony_memory import ColonyMemory, ColonyMemoryError, ColonyMemoryWarning, UnsupportedFormat
from colony_memory._format.v2.zstd import WANTED
from colony_memory.testing import FakeVault

HISTORY = growing(4)


@pytest.fixture
def saved():
    vault = FakeVault(operations_per_hour=None)
    ids = [ColonyMemory(backend=vault, format=2).backup(documents).snapshot_id for documents in HISTORY[:3]]
    with lose_zstd():
        yield vault, ids
    assert ColonyMemory(backend=vault).verify()


def test_reading_and_writing_say_what_to_install(saved):
    vault, ids = saved
    with pytest.raises(UnsupportedFormat, match=re.escape(WANTED)):
        ColonyMemory(backend=vault).restore()
    with pytest.raises(ColonyMemoryError, match=re.escape(WANTED)):
        ColonyMemory(backend=vault, format=2)
    assert [info.snapshot_id for info in ColonyMemory(backend=vault).list_snapshots()] == ids[::-1]


def test_what_cannot_be_read_is_not_called_damaged(saved):
    report = ColonyMemory(backend=saved[0]).verify()
    assert not report
    assert {(check.manifest, check.parts, check.digest) for check in report.snapshots} == {
        ("ok", "unchecked", "unchecked")
    }
    assert all(WANTED in check.problem for check in report.snapshots)


def test_a_prune_leaves_them_and_says_so(saved):
    vault, ids = saved
    mem = ColonyMemory(backend=vault)
    for n in range(3):
        mem.backup({"MEMORY.md": f"of format 1, {n}"})
    assert [info.format for info in mem.plan_prune(keep=1).remove] == ["colony-memory/1"] * 2
    assert len(mem.plan_prune(keep=1).unread) == 3
    with pytest.warns(ColonyMemoryWarning, match="3 snapshots of a format that this client cannot read"):
        assert mem.prune(keep=1) == 2
    assert [info.snapshot_id for info in mem.list_snapshots()][1:] == ids[::-1]


def test_what_is_named_is_deleted_unless_the_next_latest_is_not_known_to_restore(saved):
    vault, ids = saved
    mem = ColonyMemory(backend=vault)
    mem.delete_snapshot(label="default", snapshot_id=ids[1])
    before = dict(vault.files)
    with pytest.raises(UnsupportedFormat, match=f"{ids[0]} of label 'default' would be the latest"):
        mem.delete_snapshot(label="default", snapshot_id=ids[2])
    assert vault.files == before
    assert [info.snapshot_id for info in mem.list_snapshots()] == [ids[2], ids[0]]
