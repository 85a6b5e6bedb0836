"""Which packs a prune may delete, by what it is told of them, and what it reads for that."""

from __future__ import annotations

import time
import warnings
from dataclasses import replace

import pytest
from chains import growing
from transfers import POINTER

from colony_memory import ColonyMemory, ColonyMemoryWarning, Ed25519Signer
from colony_memory._format.names import manifest_filename
from colony_memory._format.pointer import read_pointer, write_pointer
from colony_memory._format.v2 import chain as chains
from colony_memory._format.v2.build import build as build_chain
from colony_memory.export import Export
from colony_memory.snapshot import read_manifest
from colony_memory.testing import FakeVault

HISTORY = growing(8)


@pytest.fixture(autouse=True)
def _small_chains(monkeypatch):
    monkeypatch.setattr(chains, "MAX_PACKS", 3)
    monkeypatch.setattr(chains, "_pays", lambda *_: True)


class Saved:
    """A label of format 2, and two hours later."""

    def __init__(self, states=HISTORY, **options):
        self.now = time.time() - 7200
        self.vault = FakeVault(operations_per_hour=None, clock=lambda: self.now)
        mem = ColonyMemory(backend=self.vault, format=2, **options)
        self.ids = [mem.backup(documents).snapshot_id for documents in states]
        self.needs = {
            each: read_manifest(self.vault.files[self.file(each)], label="default", snapshot_id=each).packs
            for each in self.ids
        }
        self.now = time.time()
        self.vault.calls.clear()

    @staticmethod
    def file(snapshot_id):
        return manifest_filename("default", snapshot_id)

    def prune(self, keep, **options):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ColonyMemoryWarning)
            return ColonyMemory(backend=self.vault, **options).prune(label="default", keep=keep)

    def packs(self):
        return {name.split(".")[2] for name in self.vault.files if ".k" in name}

    def reads(self):
        return [name for verb, name in self.vault.calls if verb == "get"]


def test_a_prune_reads_the_pointer_and_the_newest_alone():
    saved = Saved()
    assert saved.prune(4) == 4
    newest = saved.ids[-1]
    own = [f"cmem.default.{each}.k0.json" for each in saved.needs[newest]]
    assert sorted(saved.reads()) == sorted([POINTER, saved.file(newest), *own])
    assert [verb for verb, _ in saved.vault.calls].count("list") == 2
    assert saved.packs() == {pack for each in saved.ids[4:] for pack in saved.needs[each]}
    mem = ColonyMemory(backend=saved.vault)
    assert [mem.restore(snapshot_id=each) for each in saved.ids[4:]] == HISTORY[4:]


def test_a_damaged_manifest_that_is_listed_keeps_what_it_was_listed_with():
    saved = Saved()
    file = saved.file(saved.ids[5])
    text = saved.vault.files[file]
    saved.vault.files[file] = "x" * len(text)
    saved.prune(4)
    assert saved.packs() == {pack for each in saved.ids[4:] for pack in saved.needs[each]}
    saved.vault.files[file] = text
    assert ColonyMemory(backend=saved.vault).restore(snapshot_id=saved.ids[5]) == HISTORY[5]


def test_what_is_not_listed_is_read_and_one_that_cannot_be_keeps_every_pack():
    saved = Saved()
    stranger = "20250101T000000000000Z-abcdef"
    saved.vault.files[saved.file(stranger)] = "not JSON"
    saved.prune(4)
    assert len(saved.packs()) == 8


def test_whom_nobody_trusts_tells_nothing():
    """Who pins issuers takes no unsigned catalogue's word for what a snapshot does not need."""
    pytest.importorskip("cryptography")
    signer = Ed25519Signer(bytes(range(32)))
    saved = Saved(signer=signer)
    pointer = read_pointer(saved.vault.files[POINTER], label="default")
    lies = tuple(replace(entry, packs=entry.packs[-1:]) for entry in pointer.entries)
    saved.vault.files[POINTER] = write_pointer(replace(pointer, entries=lies))
    saved.prune(4, signer=signer, accept_legacy_pointer=True)
    assert {pack for each in saved.ids[4:] for pack in saved.needs[each]} <= saved.packs()
    mem = ColonyMemory(backend=saved.vault)
    assert [mem.restore(snapshot_id=each) for each in saved.ids[4:]] == HISTORY[4:]


def test_another_snapshot_that_came_back_under_an_id_is_read_anew():
    """A client may have read what went by its id before, and has other packs."""
    saved = Saved(HISTORY[:2])
    mem = ColonyMemory(backend=saved.vault)
    at = saved.ids[1]
    base = build_chain(dict(HISTORY[1]), label="default", snapshot_id=at, created_at="2026-06-01T00:00:00Z")
    pruner = ColonyMemory(backend=saved.vault)
    pruner.export_snapshot(snapshot_id=saved.ids[1])  # it knows the manifest from now on
    mem.delete_snapshot(label="default", snapshot_id=saved.ids[1])
    mem.import_snapshot(Export("default", at, base.files))
    again = read_manifest(saved.vault.files[saved.file(saved.ids[1])], label="default", snapshot_id=saved.ids[1])
    assert again.packs != saved.needs[saved.ids[1]]
    saved.now += 7200
    mem.backup({"MEMORY.md": "next"})
    pruner.prune(label="default", keep=2)
    assert ColonyMemory(backend=saved.vault).restore(snapshot_id=saved.ids[1]) == HISTORY[1]


def test_beside_a_pointer_that_was_emptied_a_chain_is_no_restore_point_that_may_lose_what_it_needs():
    """What a catalogue of nothing does not list may need what is being deleted, as beside any other."""
    saved = Saved(HISTORY[:2])
    mem, kept = ColonyMemory(backend=saved.vault), dict(saved.vault.files)
    for each in reversed(saved.ids):
        mem.delete_snapshot(label="default", snapshot_id=each)
    pointer = read_pointer(saved.vault.files[POINTER], label="default")
    assert (pointer.snapshot_id, pointer.entries) == (None, ())
    saved.vault.files[POINTER] = write_pointer(replace(pointer, removed=(), went_back_from=None))
    for name in (n for n in kept if saved.ids[1] in n or (saved.ids[0] in n and ".k" in n)):
        saved.vault.vault_upload_file(name, kept[name])
    saved.now += 7200
    saved.vault.vault_upload_file("cmem.default.20990101T000000000000Z-abcdef.p0.json", "{}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColonyMemoryWarning)
        assert ColonyMemory(backend=saved.vault).list_snapshots() == []
