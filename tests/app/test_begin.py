"""A start: with what was saved, or as a proven first one, and in no other way."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta, timezone

import pytest

from colony_memory import (
    ColonyMemory,
    ColonyMemoryError,
    SnapshotCorrupt,
    VaultMissing,
    VaultUnavailable,
    save_folder,
)
from colony_memory.app.run import begin
from colony_memory.testing import FaultyVault
from colony_memory.vaults.local import LocalVault
from colony_memory.vaults.memory import MemoryVault


@pytest.fixture
def vault():
    return MemoryVault()


@pytest.fixture
def memory(vault):
    return ColonyMemory(backend=vault)


def saved(vault, documents, **options):
    memory = ColonyMemory(backend=vault)
    memory._session.now = lambda: datetime.now(timezone.utc) + timedelta(minutes=1)
    return memory.backup(documents, **options)


def test_a_first_start_makes_the_folder_and_leaves_what_is_there(vault, memory, tmp_path):
    saved(vault, {"MEMORY.md": "of another"}, label="other")
    assert begin(memory, tmp_path / "a" / "b").restored is None
    assert list((tmp_path / "a" / "b").iterdir()) == []
    (tmp_path / "a" / "b" / "seed.md").write_text("hello")
    assert begin(memory, tmp_path / "a" / "b").restored is None
    assert (tmp_path / "a" / "b" / "seed.md").read_text() == "hello"
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="file"):
        begin(memory, tmp_path / "file")


def test_no_fault_is_a_first_start(vault, tmp_path):
    saved(vault, {"MEMORY.md": "two years"})
    faulty = FaultyVault(vault)
    for verb in ("get", "*"):
        failing = faulty.fail(verb, VaultUnavailable("down"), times=None)
        with pytest.raises(VaultUnavailable):
            begin(ColonyMemory(backend=faulty), tmp_path / "new")
        assert failing.fired
        faulty.heal()
    for each in vault.vault_list_files()["items"]:
        if "latest" not in each["filename"]:
            vault.vault_upload_file(each["filename"], "{}")
    with pytest.raises(SnapshotCorrupt):
        begin(ColonyMemory(backend=vault), tmp_path / "new")
    with pytest.raises(VaultMissing):
        begin(ColonyMemory(backend=LocalVault(tmp_path / "away")), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_folder_that_holds_the_vault_is_refused(tmp_path):
    LocalVault(tmp_path / "vault", create=True)
    with pytest.raises(ValueError, match="each backup would hold all the ones before"):
        begin(ColonyMemory(backend=LocalVault(tmp_path / "vault")), tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX")
@pytest.mark.parametrize("above", [False, True], ids=["the folder", "the directory above"])
def test_a_link_that_took_the_place_of_the_folder_gets_nothing(tmp_path, above):
    memory = ColonyMemory(backend=LocalVault(tmp_path / "vault", create=True))
    place, private = tmp_path / "home" / "memory", tmp_path / "other" / "memory"
    for each in (place, private):
        each.mkdir(parents=True)
    (place / "MEMORY.md").write_text("two years")
    save_folder(memory, place)
    begin(memory, place)
    gone = place.parent if above else place
    gone.rename(tmp_path / "gone")
    gone.symlink_to(private.parent if above else private)
    for _ in range(2):
        with pytest.raises(ColonyMemoryError, match="a link stands there"):
            begin(memory, place)
    assert list(private.iterdir()) == []
    save_folder(memory, tmp_path / "gone" / "memory" if above else tmp_path / "gone")
    (private / "MEMORY.md").write_text("two years")
    save_folder(memory, place)  # which is meant
    assert begin(memory, place).failed is None
