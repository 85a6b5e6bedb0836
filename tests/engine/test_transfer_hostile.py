"""A source is whoever's it is: what comes out of it bends nothing at the destination."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace

import pytest
from transfers import LARGE, POINTER, VERSIONS, backend_of, files, filled, hours_later

from colony_memory import ColonyMemory, ColonyMemoryWarning, ConflictDetected, Ed25519Signer
from colony_memory._format.pointer import read_pointer, write_pointer
from colony_memory.testing import FaultyVault
from colony_memory.transfer import copy
from colony_memory.witness import FileWitness


def rewritten(memory, signer=None, **changes):
    pointer = read_pointer(files(memory)[POINTER], label="default")
    files(memory)[POINTER] = write_pointer(replace(pointer, **changes), signer=signer)
    return pointer


def test_a_count_at_its_end_is_not_taken_over(vault, tmp_path):
    """It would stay there, and every later write would look like a rollback to a witness."""
    source, _ = filled()
    rewritten(source, generation=2**53 - 2)
    memory = ColonyMemory(backend=vault, witness=FileWitness(tmp_path / "witness.json"))
    copy(source, memory)
    assert read_pointer(vault.files[POINTER], label="default").generation == 1
    memory.backup({"own": "memory"}, on_conflict="continue")
    assert memory.restore() == {"own": "memory"}


@pytest.mark.parametrize("changed", ["row", "count", "removed", "more"])
def test_a_signed_pointer_that_says_something_else_is_not_copied(vault, changed):
    """The destination pins nobody, so that any signature would pass, and what the catalogue says would be believed."""
    pytest.importorskip("cryptography")
    stranger = Ed25519Signer(bytes(32))
    source, ids = filled(VERSIONS, signer=stranger)
    pointer = read_pointer(files(source)[POINTER], label="default")
    first = pointer.entries[0]
    changes = {
        "row": {"entries": (replace(first, info=replace(first.info, byte_size=1)), *pointer.entries[1:])},
        "count": {"generation": 2**53 - 2},
        "removed": {"removed": (ids[0],)},
        "more": {"entries": (*pointer.entries, replace(first, info=replace(first.info, snapshot_id="x")))},
    }[changed]
    rewritten(source, stranger, **changes)
    with pytest.warns(ColonyMemoryWarning, match="not signed here"):
        copy(ColonyMemory(backend=backend_of(source)), ColonyMemory(backend=vault))
    made = read_pointer(vault.files[POINTER], label="default")
    assert not made.signed
    assert made.generation < 10
    assert made.entries[0].info.byte_size == first.info.byte_size
    assert ColonyMemory(backend=vault).restore() == VERSIONS[2]


def test_what_the_source_deleted_is_not_copied(vault):
    """Neither what is to be deleted, nor what was put back after the pointer went back from it."""
    source, ids = filled()
    kept = dict(files(source))
    source.delete_snapshot(label="default", snapshot_id=ids[2])
    files(source).update({name: text for name, text in kept.items() if ids[2] in name})
    rewritten(source, removed=(ids[0],), entries=read_pointer(files(source)[POINTER], label="default").entries[:1])
    report = copy(source, ColonyMemory(backend=vault))
    assert ([info.snapshot_id for info in report.copied], report.left_out) == ([ids[1]], {})


def test_a_pin_goes_along_once(vault):
    source, ids = filled()
    source.pin(snapshot_id=ids[0])
    memory = ColonyMemory(backend=vault)
    copy(source, memory)
    assert [info.pinned for info in memory.list_snapshots()] == [False, False, True]
    memory.unpin(snapshot_id=ids[0])
    copy(source, memory)
    assert not any(info.pinned for info in memory.list_snapshots())


def test_a_backup_under_way_is_left_to_the_next_copy():
    """A signed pointer that does not list it yet could not be copied as it is, and nobody else would be believed."""
    pytest.importorskip("cryptography")
    signer = Ed25519Signer(bytes(range(32)))
    source, _ = filled(VERSIONS[:1], signer=signer)
    memory, _ = filled([])
    reader = ColonyMemory(backend=backend_of(source))
    faulty = FaultyVault(backend_of(source))
    reports = []
    faulty.hook("upload", lambda: reports.append(copy(reader, memory)), match=POINTER)
    info = ColonyMemory(backend=faulty, signer=signer).backup(LARGE)
    assert reports[0]
    pinned = ColonyMemory(backend=backend_of(memory), trusted_issuers=signer.did_key)
    assert pinned.restore() == VERSIONS[0]
    memory = ColonyMemory(backend=backend_of(memory), signer=signer)
    assert copy(reader, memory).latest == {"default": info.snapshot_id}
    assert pinned.restore() == LARGE
    assert pinned.verify()


def test_what_another_history_left_is_taken_as_it_is_once_it_is_old(tmp_path):
    """A copy that was killed: what it had written is of the source's history, which the signed label is not."""
    pytest.importorskip("cryptography")
    signer = Ed25519Signer(bytes(range(32)))
    source, ids = filled(VERSIONS[:1], signer=signer)
    memory, _ = filled([{"own": "memory"}], signer=signer)
    for name, text in files(source).items():
        if ids[0] in name:
            backend_of(memory).vault_upload_file(name, text)
    again = ColonyMemory(backend=backend_of(memory), signer=signer)
    assert "no catalogue lists it" in next(iter(copy(source, again).left_out.values()))
    hours_later(backend_of(memory))
    report = copy(source, again)
    assert (bool(report), [info.snapshot_id for info in report.already]) == (True, ids)
    assert again.verify()
    assert len(again.list_snapshots()) == 2


@pytest.mark.parametrize("how", ["copy", "import"])
def test_a_signed_label_that_was_emptied_takes_another_history(vault, how):
    pytest.importorskip("cryptography")
    signer = Ed25519Signer(bytes(range(32)))
    memory, ids = filled(VERSIONS, vault=vault, signer=signer)
    source, brought = filled(VERSIONS[:2], signer=signer)
    for each in reversed(ids):
        memory.delete_snapshot(label="default", snapshot_id=each)
    if how == "copy":
        assert copy(source, memory)
    else:
        brought = [memory.import_snapshot(source.export_snapshot()).snapshot_id]
    pinned = ColonyMemory(backend=vault, trusted_issuers=signer.did_key)
    assert pinned.restore() == VERSIONS[1]
    assert {info.snapshot_id for info in pinned.list_snapshots()} == {*brought}
    assert pinned.verify()


@pytest.mark.parametrize("lost", ["the vault lost the pointer", "0.1.1 wrote the pointer"])
@pytest.mark.parametrize("seen", [False, True])
def test_an_import_of_another_history_outlives_the_pointer_that_listed_it(vault, lost, seen, tmp_path):
    """To who has seen the label, nothing but the signed catalogue tells it from what a stranger put beside: it is told
    of, kept, and listed anew. Who has not takes it for the label's own.
    """
    pytest.importorskip("cryptography")
    signer, witness = Ed25519Signer(bytes(range(32))), FileWitness(tmp_path / "witness.json") if seen else None
    brought = filled([{"MEMORY.md": "of another history"}], signer=signer)[0].export_snapshot()
    filled([{"MEMORY.md": f"own {n}"} for n in range(2)], vault=vault, signer=signer, witness=witness)

    def client():
        return ColonyMemory(backend=vault, signer=signer, witness=witness)

    def listed():
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            ids = {info.snapshot_id for info in client().list_snapshots()}
        assert brought.snapshot_id in ids or "export and import it" in " ".join(str(each.message) for each in told)
        return brought.snapshot_id in ids

    client().import_snapshot(brought)
    hours_later(vault)
    client().backup({"MEMORY.md": "on top"})
    assert listed()
    raw = json.loads(vault.files[POINTER])
    vault.vault_delete_file(POINTER)
    if lost == "0.1.1 wrote the pointer":
        added = ("generation", "stream", "catalog", "removed", "signature")
        vault.vault_upload_file(POINTER, json.dumps({key: raw[key] for key in raw if key not in added}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColonyMemoryWarning)  # of the pointer
        client().backup({"MEMORY.md": "next"})
        assert listed() != seen
        client().backup({"MEMORY.md": "the last"}, prune_keep=1 if seen else None)
    if seen:
        # It is neither counted nor removed by a retention, and given by its id.
        assert not listed()
        assert [name for name in client().plan_prune(keep=1).unread if brought.snapshot_id in name]
        hours_later(vault)
        again = client()
        again.import_snapshot(again.export_snapshot(snapshot_id=brought.snapshot_id))
    assert listed()
    assert client().verify()


def test_what_was_deleted_under_a_signed_pointer_is_not_brought_back_without_the_key(vault):
    pytest.importorskip("cryptography")
    signer = Ed25519Signer(bytes(range(32)))
    source, ids = filled(signer=signer)
    copy(ColonyMemory(backend=backend_of(source)), ColonyMemory(backend=vault))
    ColonyMemory(backend=vault, signer=signer).delete_snapshot(label="default", snapshot_id=ids[0])
    before = dict(vault.files)
    with pytest.raises(ConflictDetected, match="only a client that signs may do"):
        copy(ColonyMemory(backend=backend_of(source)), ColonyMemory(backend=vault))
    assert vault.files == before
