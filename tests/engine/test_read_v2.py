"""Snapshots of format 2 in a vault: every verb that looks, and which packs a deletion or a prune leaves."""

import time
import warnings
from dataclasses import replace

import pytest
from chains import growing
from transfers import POINTER

from colony_memory import ColonyMemory, ColonyMemoryWarning, Ed25519Signer, SnapshotCorrupt
from colony_memory._format.names import manifest_filename, pack_filename
from colony_memory._format.pointer import read_pointer, write_pointer
from colony_memory._format.v2 import chain as chains
from colony_memory._format.v2.build import build as build_chain
from colony_memory.export import Export
from colony_memory.snapshot import read_manifest
from colony_memory.testing import FakeVault

HOUR = 3600


@pytest.fixture(autouse=True)
def _small_chains(monkeypatch):
    monkeypatch.setattr(chains, "MAX_PACKS", 3)
    monkeypatch.setattr(chains, "_pays", lambda *_: True)


HISTORY = growing(8)


class Saved:
    """A vault in which a client of format 2 saved a history, hours ago."""

    def __init__(self, states=HISTORY, *, age=2 * HOUR, **options):
        self.history, self.now = states, time.time() - age
        self.vault = FakeVault(operations_per_hour=None, clock=lambda: self.now)
        writer = ColonyMemory(backend=self.vault, format=2, **options)
        self.infos = [writer.backup(documents) for documents in states]
        self.ids = [info.snapshot_id for info in self.infos]
        self.needs = {
            each: read_manifest(self.vault.files[self.file(each)], label="default", snapshot_id=each).packs
            for each in self.ids
        }
        self.now = time.time()
        self.vault.calls.clear()
        self.mem = ColonyMemory(backend=self.vault)

    @staticmethod
    def file(snapshot_id):
        return manifest_filename("default", snapshot_id)

    def prune(self, keep, **options):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ColonyMemoryWarning)
            return ColonyMemory(backend=self.vault, **options).prune(label="default", keep=keep)

    def packs(self):
        return {name.split(".")[2] for name in self.vault.files if ".k" in name}

    def needed(self, numbers):
        return {pack for n in numbers for pack in self.needs[self.ids[n]]}

    def reads(self):
        return [name for verb, name in self.vault.calls if verb == "get"]

    def check(self, numbers):
        """These restore, and all that there is is whole."""
        mem = ColonyMemory(backend=self.vault)
        assert {info.snapshot_id for info in mem.list_snapshots()} >= {self.ids[n] for n in numbers}
        for n in numbers:
            assert mem.restore(snapshot_id=self.ids[n]) == self.history[n]
        assert mem.verify()


def test_every_verb_that_looks():
    saved = Saved()
    mem = saved.mem
    assert mem.restore() == HISTORY[-1]
    assert mem.restore(names="notes/*") == {n: t for n, t in HISTORY[-1].items() if n.startswith("notes/")}
    saved.check(range(8))
    listed = mem.list_snapshots()
    assert [info.snapshot_id for info in listed] == saved.ids[::-1]
    assert [info.stored_bytes for info in reversed(listed)] == [info.stored_bytes for info in saved.infos]
    assert (mem.latest().snapshot_id, mem.latest().format) == (saved.ids[-1], "colony-memory/2")
    assert mem.diff(*saved.ids[-2:])
    assert mem.inspect().labels[0].snapshots == 8
    assert not mem.inspect().labels[0].orphans
    assert mem.plan_prune(keep=2).remove


def test_a_damaged_base_is_told_of_all_that_stand_on_it():
    saved = Saved(HISTORY[:3])
    mem = saved.mem
    last = mem.backup({"MEMORY.md": "of format 1"})
    base = pack_filename("default", saved.ids[0], 0)
    saved.vault.files[base] = saved.vault.files[base].replace('"seq":0', '"seq":1')
    report = ColonyMemory(backend=saved.vault).verify()
    assert {check.snapshot_id for check in report.snapshots if check.parts == "bad"} == {*saved.ids}
    assert all(base in check.problem for check in report.snapshots if check.parts == "bad")
    with pytest.raises(SnapshotCorrupt) as raised:
        mem.restore(snapshot_id=saved.ids[2])
    assert raised.value.file == base
    assert last.snapshot_id == report.latest


@pytest.mark.parametrize("spoil", [lambda files, name: files.pop(name), lambda files, name: files.update({name: "{}"})])
def test_a_snapshot_whose_packs_are_not_all_there_is_not_listed(spoil):
    saved = Saved(HISTORY[:4])
    spoil(saved.vault.files, pack_filename("default", saved.ids[2], 0))
    mem = saved.mem
    with pytest.warns(ColonyMemoryWarning, match="needs"):
        listed = mem.prune(keep=9) or mem.list_snapshots()
    assert saved.ids[2] not in {info.snapshot_id for info in listed}


def test_a_pack_of_less_than_an_hour_stays_until_a_later_prune():
    """Another client may be building on it this very moment."""
    saved = Saved(age=0)
    saved.prune(1)
    assert len(saved.packs()) == 8
    saved.now += 2 * HOUR
    saved.mem.backup({"MEMORY.md": "later"})
    saved.mem.prune(keep=2)
    assert saved.packs() == saved.needed([7])
    saved.check([7])


@pytest.mark.parametrize("text", ["{}", "not JSON", '{"format": "colony-memory/9"}'])
def test_a_manifest_that_cannot_be_read_keeps_every_pack(text):
    saved = Saved()
    saved.vault.files[saved.file("20250101T000000000000Z-abcdef")] = text
    saved.prune(1)
    assert len(saved.packs()) == 8


def test_what_the_pointer_lists_is_asked_for_at_once(monkeypatch):
    saved = Saved()
    writer = ColonyMemory(backend=saved.vault, format=2)
    writer.backup({**saved.history[-1], "one": "more"})
    asked, reader = [], ColonyMemory(backend=saved.vault, format=2)
    inner = reader._session.vault.get_many

    async def get_many(names, *args, **bounds):
        asked.append([*names])
        return await inner(asked[-1], *args, **bounds)

    monkeypatch.setattr(reader._session.vault, "get_many", get_many)
    newest = writer.latest().snapshot_id
    for verb in (reader.restore, lambda: reader.backup({"another": "memory"}, on_conflict="continue")):
        asked.clear()
        packs = {name for name in saved.vault.files if ".k" in name}
        verb()
        together = next(names for names in asked if saved.file(newest) in names)
        assert pack_filename("default", newest, 0) in together
        assert len(together) > 2
        assert not [name for names in asked if names is not together for name in names if name in packs]


def test_all_files_of_a_large_base_are_asked_for_with_the_manifest(monkeypatch):
    monkeypatch.setattr(chains, "PACK_CHARS", 400)
    vault = FakeVault(operations_per_hour=None)
    writer, history = ColonyMemory(backend=vault, format=2), growing(4)
    for documents in history:
        writer.backup(documents)
    mem, batches = ColonyMemory(backend=vault), []
    real = mem._session.vault.gather

    async def gather(names, *more):
        batches.append([*names])
        return await real(names, *more)

    monkeypatch.setattr(mem._session.vault, "gather", gather)
    assert mem.restore() == history[-1]
    assert [len(batch) > 4 for batch in batches if batch] == [True]
    assert {*batches[0]} == {name for name in batches[0] if name in vault.files}


def test_a_prune_reads_the_pointer_and_the_newest_alone():
    saved = Saved()
    assert saved.prune(4) == 4
    newest = saved.ids[-1]
    own = [f"cmem.default.{each}.k0.json" for each in saved.needs[newest]]
    assert sorted(saved.reads()) == sorted([POINTER, saved.file(newest), *own])
    assert [verb for verb, _ in saved.vault.calls].count("list") == 2
    assert saved.packs() == saved.needed(range(4, 8))
    mem = ColonyMemory(backend=saved.vault)
    assert [mem.restore(snapshot_id=each) for each in saved.ids[4:]] == HISTORY[4:]


def test_a_damaged_manifest_that_is_listed_keeps_what_it_was_listed_with():
    saved = Saved()
    file = saved.file(saved.ids[5])
    text = saved.vault.files[file]
    saved.vault.files[file] = "x" * len(text)
    saved.prune(4)
    assert saved.packs() == saved.needed(range(4, 8))
    saved.vault.files[file] = text
    assert ColonyMemory(backend=saved.vault).restore(snapshot_id=saved.ids[5]) == HISTORY[5]


def test_whom_nobody_trusts_tells_nothing():
    """Who pins issuers takes no unsigned catalogue's word for what a snapshot does not need."""
    pytest.importorskip("cryptography")
    signer = Ed25519Signer(bytes(range(32)))
    saved = Saved(signer=signer)
    pointer = read_pointer(saved.vault.files[POINTER], label="default")
    lies = tuple(replace(entry, packs=entry.packs[-1:]) for entry in pointer.entries)
    saved.vault.files[POINTER] = write_pointer(replace(pointer, entries=lies))
    saved.prune(4, signer=signer, accept_legacy_pointer=True)
    assert saved.needed(range(4, 8)) <= saved.packs()
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
