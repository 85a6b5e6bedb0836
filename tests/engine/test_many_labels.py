"""Lists of many labels: each file name is read once, and what is gone is no empty vault."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from colony_memory import ColonyMemory, ColonyMemoryWarning, SnapshotCorrupt
from colony_memory._engine import label as labels
from colony_memory.testing import FakeVault


@pytest.mark.parametrize("verb", ["list_snapshots", "inspect"])
def test_the_name_of_each_file_is_read_once(verb, monkeypatch):
    vault = FakeVault()
    memory = ColonyMemory(backend=vault)
    for number in range(20):
        memory.backup({"a.md": "x"}, label=f"l{number}")
    counted, read = SimpleNamespace(calls=0), labels.read_filename

    def count(name):
        counted.calls += 1
        return read(name)

    monkeypatch.setattr(labels, "read_filename", count)
    getattr(ColonyMemory(backend=vault), verb)()
    assert counted.calls == len(vault.files)


def test_a_pointer_whose_snapshots_are_gone_is_no_empty_vault():
    vault = FakeVault()
    info = ColonyMemory(backend=vault).backup({"a.md": "x"})
    del vault.files[f"cmem.default.{info.snapshot_id}.manifest.json"]
    with (
        pytest.warns(ColonyMemoryWarning, match="which is not there"),
        pytest.raises(SnapshotCorrupt, match="which is not there"),
    ):
        ColonyMemory(backend=vault).list_snapshots()
    ColonyMemory(backend=vault).backup({"b.md": "y"}, label="other")
    with pytest.warns(ColonyMemoryWarning, match="which is not there"):
        assert [each.label for each in ColonyMemory(backend=vault).list_snapshots()] == ["other"]
