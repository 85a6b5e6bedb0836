"""Chains of packs from vault to vault, and what is relied upon of those that are there."""

from __future__ import annotations

import asyncio
import re

import pytest
from chains import growing
from faces import PlainVault
from transfers import POINTER, backend_of, fake, files, hours_later

from colony_memory import AsyncColonyMemory, ColonyMemory, ColonyMemoryError, ConflictDetected, SnapshotCorrupt
from colony_memory._format.names import manifest_filename, pack_filename
from colony_memory._format.pointer import read_pointer
from colony_memory._format.v2 import chain as chains
from colony_memory._format.v2 import zstd as door
from colony_memory.snapshot import read_manifest
from colony_memory.testing import AsyncFakeVault
from colony_memory.transfer import copy, load_export, save_export

HISTORY = growing(8)


@pytest.fixture(autouse=True)
def _small_chains(monkeypatch):
    monkeypatch.setattr(chains, "MAX_PACKS", 3)
    monkeypatch.setattr(chains, "_pays", lambda *_: True)


def filled(states=HISTORY, *, vault=None, wire=2, **options):
    memory = ColonyMemory(backend=vault if vault is not None else fake(), format=wire, **options)
    return memory, [memory.backup(documents).snapshot_id for documents in states]


def packs_of(memory, snapshot_id):
    text = files(memory)[manifest_filename("default", snapshot_id)]
    return read_manifest(text, label="default", snapshot_id=snapshot_id).packs


def contents(memory):
    new = ColonyMemory(backend=backend_of(memory))
    return [new.restore(snapshot_id=info.snapshot_id) for info in reversed(new.list_snapshots())]


def copied(source, destination, face, **options):
    if face == "sync":
        return copy(ColonyMemory(backend=source), ColonyMemory(backend=destination), **options)
    ends = [AsyncColonyMemory(backend=AsyncFakeVault(each)) for each in (source, destination)]

    async def inside():
        return await copy(*ends, **options)

    return asyncio.run(inside())


@pytest.mark.parametrize("face", ["sync", "async"])
def test_a_copy_of_mixed_formats_is_the_same_bytes(face):
    vault = fake()
    for n, documents in enumerate(HISTORY):
        ColonyMemory(backend=vault, format=1 + bool(n % 3)).backup(documents)
    there = fake()
    report = copied(vault, there, face)
    assert (len(report.copied), bool(report)) == (8, True)
    assert {**there.files, POINTER: ""} == {**vault.files, POINTER: ""}
    again = copied(vault, there, face)
    assert (len(again.copied), len(again.already)) == (0, 8)
    assert contents(ColonyMemory(backend=there)) == HISTORY
    assert ColonyMemory(backend=there).verify()
    rows = [read_pointer(each.files[POINTER], label="default").entries for each in (vault, there)]
    assert rows[0] == rows[1]


def test_an_export_stands_alone_in_an_empty_vault(tmp_path):
    source, ids = filled()
    save_export(source.export_snapshot(snapshot_id=ids[5]), tmp_path / "one.json")
    memory = ColonyMemory(backend=fake())
    info = memory.import_snapshot(load_export(tmp_path / "one.json"))
    assert (info.snapshot_id, info.reused, bool(info.head)) == (ids[5], False, True)
    assert memory.restore() == HISTORY[5]
    assert memory.import_snapshot(load_export(tmp_path / "one.json")).reused
    assert ColonyMemory(backend=backend_of(memory), format=2).backup(HISTORY[6]).format == "colony-memory/2"
    assert memory.verify()


@pytest.mark.parametrize("old", [False, True])
def test_a_pack_that_nobody_needs_is_refused_until_it_is_pruned(old):
    source, ids = filled(HISTORY[:2])
    exported = source.export_snapshot(snapshot_id=ids[1])
    memory, _ = filled([{"own": "memory"}], wire=1)
    vault = backend_of(memory)
    base = pack_filename("default", ids[0], 0)
    vault.vault_upload_file(base, exported.files[base])
    if old:
        hours_later(vault)
        memory.backup({"own": "newer memory"})
    before = {name: text for name, text in vault.files.items() if name != POINTER}
    with pytest.raises(ConflictDetected, match=r"no committed snapshot needs them.*prune, and try again"):
        memory.import_snapshot(exported)
    assert {name: text for name, text in vault.files.items() if name != POINTER} == before
    hours_later(vault)
    memory.backup({"own": "newest memory"})
    memory.prune(label="default", keep=1)
    assert base not in vault.files
    memory.import_snapshot(exported)
    assert memory.restore(snapshot_id=ids[1]) == HISTORY[1]


def test_another_content_under_the_name_of_a_pack_is_never_relied_on():
    source, ids = filled(HISTORY[:3])
    memory = ColonyMemory(backend=fake())
    source.copy_to(memory)
    exported = source.export_snapshot(snapshot_id=ids[2])
    memory.delete_snapshot(label="default", snapshot_id=ids[2])
    base = pack_filename("default", ids[0], 0)
    files(memory)[base] = files(memory)[base].replace('"data": "', '"data": "AAAA', 1)[: len(files(memory)[base])]
    hours_later(backend_of(memory))
    with pytest.raises(ConflictDetected, match="something else"):
        memory.import_snapshot(exported)


def test_a_vault_without_conditions_takes_format_1_only():
    source, ids = filled(HISTORY[:3])
    plain = ColonyMemory(backend=PlainVault(fake()))
    source.backup({"MEMORY.md": "of format 1"})
    mixed = ColonyMemory(backend=backend_of(source))
    mixed.backup({"MEMORY.md": "of format 1 too"})
    with pytest.raises(ColonyMemoryError, match="conditional writes"):
        plain.import_snapshot(source.export_snapshot(snapshot_id=ids[0]))
    report = mixed.copy_to(plain)
    assert len(report.left_out) == 4
    assert all("conditional writes" in why for why in report.left_out.values())
    assert plain.restore() == {"MEMORY.md": "of format 1 too"}


def test_without_zstd_chains_are_copied_by_the_digests_of_their_bytes(monkeypatch):
    source, ids = filled(HISTORY[:5])
    exported, memory = source.export_snapshot(), ColonyMemory(backend=fake())
    top = pack_filename("default", ids[1], 0)
    files(source)[top] = files(source)[top].replace("A", "B", 1)

    def missing():
        raise ImportError

    monkeypatch.setattr(door, "_zstd", missing)
    report = ColonyMemory(backend=backend_of(source)).copy_to(memory)
    assert {name.split(".")[2] for name in report.left_out} == {
        each for each in ids if ids[1] in packs_of(source, each)
    }
    with pytest.raises(SnapshotCorrupt, match=re.escape(door.WANTED)):
        memory.import_snapshot(exported)
    monkeypatch.undo()
    assert len(contents(memory)) == len(report.copied) > 0


# --- what a failure leaves


def test_each_pack_is_read_and_unpacked_about_once(monkeypatch):
    monkeypatch.setattr(chains, "MAX_PACKS", 16)
    source, ids = filled(growing(60))
    unpacked, unpack = [], chains.decompress
    monkeypatch.setattr(chains, "decompress", lambda *args, **kwargs: unpacked.append(1) or unpack(*args, **kwargs))
    backend_of(source).calls.clear()
    memory = ColonyMemory(backend=fake())
    assert len(ColonyMemory(backend=backend_of(source)).copy_to(memory).copied) == 60
    read = [name for verb, name in backend_of(source).calls if verb == "get" and ".k" in name]
    assert len(read) == len({*read}) == 60
    assert sum(len(packs_of(source, each)) for each in ids) > 500
    assert len(unpacked) < 2.5 * 60
