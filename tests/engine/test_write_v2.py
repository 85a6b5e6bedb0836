"""Saving in format 2: what it goes on from, what it costs, and what it refuses."""

import random
import time
import warnings

import pytest
from chains import growing
from faces import PlainVault

from colony_memory import ColonyMemory, ColonyMemoryError, ColonyMemoryWarning, QuotaExceeded
from colony_memory.capture import Capture
from colony_memory.shell.app.compare import preview_capture
from colony_memory.shell.app.options import BackupOptions
from colony_memory.snapshot import read_manifest
from colony_memory.testing import FakeVault, FaultyVault
from colony_memory.vaults.local import LocalVault

HISTORY = growing(30)


@pytest.fixture
def vault():
    return FakeVault(operations_per_hour=None)


def packs_of(vault, info):
    text = vault.files[f"cmem.{info.label}.{info.snapshot_id}.manifest.json"]
    return read_manifest(text, label=info.label, snapshot_id=info.snapshot_id).packs


class Listed(LocalVault):
    """A directory that looks at all files, as vaults do that cannot look up a few."""

    vault_look_up_files = None


@pytest.mark.parametrize("kind", [LocalVault, Listed])
@pytest.mark.parametrize("lost", ["the base", "the parent's manifest", "its own pack"])
def test_what_is_removed_while_it_is_written_is_not_built_on(tmp_path, kind, lost):
    vault = FaultyVault(kind(tmp_path, create=True))
    mem = ColonyMemory(backend=vault, format=2)
    infos = [mem.backup(documents) for documents in HISTORY[:2]]

    def remove():
        made = sorted(path.name for path in tmp_path.glob("cmem.*.manifest.json"))
        names = {
            "the base": f"cmem.default.{infos[0].snapshot_id}.k0.json",
            "the parent's manifest": f"cmem.default.{infos[1].snapshot_id}.manifest.json",
            "its own pack": made[-1].replace("manifest", "k0"),
        }
        (tmp_path / names[lost]).unlink()

    vault.hook("list", remove)
    info = mem.backup(HISTORY[2])
    assert info.format == "colony-memory/2"
    manifest = read_manifest(
        (tmp_path / f"cmem.default.{info.snapshot_id}.manifest.json").read_text(),
        label="default",
        snapshot_id=info.snapshot_id,
    )
    assert manifest.packs == (info.snapshot_id,)
    assert ColonyMemory(backend=LocalVault(tmp_path)).restore() == HISTORY[2]


def test_what_is_not_trusted_is_no_parent(vault):
    pytest.importorskip("cryptography")
    from colony_memory import Ed25519Signer

    ColonyMemory(backend=vault, format=2).backup(HISTORY[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColonyMemoryWarning)
        mem = ColonyMemory(backend=vault, format=2, signer=Ed25519Signer.generate(), accept_legacy_pointer=True)
        info = mem.backup(HISTORY[1])
    assert packs_of(vault, info) == (info.snapshot_id,)
    assert len(packs_of(vault, mem.backup(HISTORY[2]))) == 2
    assert mem.restore() == HISTORY[2]


def test_a_base_that_is_stored_wrong_is_noticed(vault):
    class Rotting(FakeVault):
        def vault_upload_file_if(self, filename, content, **condition):
            raise AssertionError("files of snapshots are written without condition")

        def vault_upload_file(self, filename, content):
            reply = super().vault_upload_file(filename, content)
            self.files[filename] = content.replace("a", "b", 1)
            return reply

    with pytest.raises(ColonyMemoryError, match="read back, it holds another text"):
        ColonyMemory(backend=Rotting(), format=2).backup(HISTORY[0])


def test_a_preview_knows_of_the_packs_that_a_full_vault_lets_go():
    clock, chance = [time.time()], random.Random(1)
    vault = FakeVault(operations_per_hour=None, quota_bytes=40_000, clock=lambda: clock[0])
    mem = ColonyMemory(backend=vault, format=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColonyMemoryWarning)
        for _ in range(6):
            clock[0] += 2 * 3600
            documents = {"MEMORY.md": chance.randbytes(8_000).hex()}
            plan = preview_capture(mem, Capture(documents, ()), BackupOptions(prune_keep=5)).plan
            assert plan.problem is None
            mem.backup(documents, prune_keep=5)
    assert plan.needed_bytes > plan.available_bytes


def test_too_many_files_is_a_full_vault():
    vault = FakeVault(max_files=4)
    mem = ColonyMemory(backend=vault, format=2)
    mem.backup(HISTORY[0])
    with pytest.raises(QuotaExceeded):
        mem.backup(HISTORY[1])
    assert ColonyMemory(backend=vault).restore() == HISTORY[0]
    assert len(vault.files) == 3


def test_a_vault_without_conditions_is_refused(vault):
    with pytest.raises(ColonyMemoryError, match="conditional writes"):
        ColonyMemory(backend=PlainVault(vault), format=2).backup(HISTORY[0])
    assert not vault.files
