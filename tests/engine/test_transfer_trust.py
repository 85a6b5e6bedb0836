"""Trust goes along, and a source bends nothing: what a client would not restore it does not take in."""

import json
import warnings
from dataclasses import replace
from datetime import timedelta

import pytest
from transfers import LARGE, POINTER, VERSIONS, backend_of, fake, files, filled, hours_later

from colony_memory import (
    ColonyMemory,
    ColonyMemoryWarning,
    ConflictDetected,
    Ed25519Signer,
    RollbackDetected,
    UntrustedSnapshot,
)
from colony_memory._engine import prune
from colony_memory._format.pointer import read_pointer, write_pointer
from colony_memory.export import Export
from colony_memory.signing import sign_manifest
from colony_memory.testing import FaultyVault
from colony_memory.transfer import ExportVault, copy, read_export, write_export
from colony_memory.witness import FileWitness

pytest.importorskip("cryptography")

SIGNER, STRANGER = Ed25519Signer(bytes(range(32))), Ed25519Signer(bytes(32))


def signed(versions=VERSIONS, **options):
    return filled(versions, signer=SIGNER, **options)


def pinned(vault, **options):
    """A client that accepts what the signer signed, and cannot sign itself."""
    return ColonyMemory(backend=vault, trusted_issuers=SIGNER.did_key, **options)


def unsigned(exported, *, signer=None):
    found = dict(exported.files)
    (name,) = (each for each in found if each.endswith("manifest.json"))
    raw = json.loads(found[name])
    del raw["signature"]
    if signer is not None:
        raw["signature"] = sign_manifest(raw, signer)
    found[name] = json.dumps(raw)
    return Export(exported.label, exported.snapshot_id, found)


# --- export and import


def test_a_file_is_verified_offline_against_the_signer():
    source, ids = signed()
    exported = read_export(write_export("default", ids[2], source.export_snapshot().files))
    memory = pinned(ExportVault(exported))
    report = memory.verify(snapshot_id=ids[2])
    assert report
    assert report.snapshots[0].trust == "ok"
    assert memory.restore(snapshot_id=ids[2]) == VERSIONS[2]
    for made in (unsigned(exported), unsigned(exported, signer=STRANGER)):
        memory = pinned(ExportVault(made))
        assert not memory.verify(snapshot_id=ids[2])
        with pytest.raises(UntrustedSnapshot):
            memory.restore(snapshot_id=ids[2])
        with pytest.raises(UntrustedSnapshot):
            memory.export_snapshot(snapshot_id=ids[2])


def test_nothing_is_brought_into_a_signed_label_without_the_key(vault):
    signed([{"own": "memory"}], vault=vault)
    source, _ = signed([{"later": "memory"}])
    before = dict(vault.files)
    for keyless in (ColonyMemory(backend=vault), pinned(vault)):
        with pytest.raises(ConflictDetected, match=r"only a client that signs may do.*signer="):
            keyless.import_snapshot(source.export_snapshot())
        with pytest.raises(ConflictDetected, match=r"only a client that signs may do.*signer="):
            copy(source, keyless)
    assert vault.files == before
    assert pinned(vault).restore() == {"own": "memory"}


def test_a_pointer_that_is_not_trusted_is_left_alone(vault):
    filled([{"own": "memory"}], vault=vault)
    source, _ = signed()
    before = vault.files[POINTER]
    with pytest.raises(UntrustedSnapshot, match="older than signing"):
        ColonyMemory(backend=vault, signer=SIGNER).import_snapshot(source.export_snapshot())
    assert vault.files[POINTER] == before


def test_an_import_into_a_label_that_was_rolled_back_is_refused(tmp_path):
    vault, witness = fake(), FileWitness(tmp_path / "witness.json")
    memory = ColonyMemory(backend=vault, signer=SIGNER, witness=witness)
    memory.backup({"a": "1"})
    old = dict(vault.files)
    memory.backup({"a": "2"})
    vault.files = old
    source, _ = signed()
    again = ColonyMemory(backend=vault, signer=SIGNER, witness=witness)
    with pytest.raises(RollbackDetected):
        again.import_snapshot(source.export_snapshot())
    assert read_pointer(vault.files[POINTER], label="default").generation == 1
    with pytest.raises(RollbackDetected):
        copy(again, filled([])[0])


# --- copy


def test_a_signed_label_stays_signed_without_the_key(vault):
    source, ids = signed()
    assert copy(ColonyMemory(backend=backend_of(source)), ColonyMemory(backend=vault)).latest == {"default": ids[2]}
    assert vault.files == files(source)
    memory = pinned(vault)
    assert memory.restore() == VERSIONS[2]
    assert memory.verify()
    assert len(copy(ColonyMemory(backend=backend_of(source)), ColonyMemory(backend=vault)).already) == 3
    source.backup({"MEMORY.md": "version 3"})
    with pytest.raises(ConflictDetected, match="only a client that signs may do"):
        copy(ColonyMemory(backend=backend_of(source)), ColonyMemory(backend=vault))
    assert len(copy(source, ColonyMemory(backend=vault, signer=SIGNER)).copied) == 1
    assert pinned(vault).verify()


def test_the_key_signs_the_pointer_anew(vault, tmp_path):
    source, ids = signed(witness=FileWitness(tmp_path / "witness.json"))
    memory = ColonyMemory(backend=vault, signer=SIGNER, witness=FileWitness(tmp_path / "witness.json"))
    assert copy(source, memory)
    pointer = read_pointer(vault.files[POINTER], label="default")
    assert pointer.signed
    before = read_pointer(files(source)[POINTER], label="default").generation
    assert (pointer.snapshot_id, pointer.generation) == (ids[2], before + 3)
    fresh = pinned(vault, witness=FileWitness(tmp_path / "witness.json"))
    assert fresh.restore() == VERSIONS[2]
    assert fresh.verify()
    assert fresh.latest().snapshot_id == ids[2]


def test_what_is_not_trusted_is_left_out_on_either_side():
    source, ids = signed()
    name = f"cmem.default.{ids[1]}.manifest.json"
    files(source)[name] = unsigned(source.export_snapshot(snapshot_id=ids[1])).files[name]
    memory, _ = filled([])
    with pytest.warns(ColonyMemoryWarning, match="not signed here"):
        assert list(copy(pinned(backend_of(source)), memory).left_out) == [name]
    signing = ColonyMemory(backend=fake(), signer=SIGNER)
    assert list(copy(ColonyMemory(backend=backend_of(source)), signing).left_out) == [name]
    assert len(memory.list_snapshots()) == len(signing.list_snapshots()) == 2
    with pytest.raises(ConflictDetected, match="only a client that signs"):  # it would refuse what it could write
        copy(ColonyMemory(backend=backend_of(source)), pinned(fake()))


def test_a_source_whose_pointer_is_not_trusted_gives_what_is_signed(vault):
    source, ids = signed()
    raw = json.loads(files(source)[POINTER])
    del raw["signature"]
    files(source)[POINTER] = json.dumps(raw)
    with pytest.warns(ColonyMemoryWarning, match="own signatures"):
        report = copy(pinned(backend_of(source)), ColonyMemory(backend=vault, signer=SIGNER))
    assert report.latest == {"default": ids[2]}
    assert pinned(vault).restore() == VERSIONS[2]


def test_a_pointer_of_a_lower_generation_is_not_copied_as_it_is(vault):
    filled([{"own": str(n)} for n in range(3)], vault=vault)
    source, ids = signed(VERSIONS[:2])
    with pytest.warns(ColonyMemoryWarning, match="not signed here"):
        copy(ColonyMemory(backend=backend_of(source)), ColonyMemory(backend=vault))
    pointer = read_pointer(vault.files[POINTER], label="default")
    assert (pointer.snapshot_id, pointer.signed, pointer.generation) == (ids[1], False, 5)


# --- a source is whoever's it is


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
    source, ids = filled(VERSIONS, signer=STRANGER)
    pointer = read_pointer(files(source)[POINTER], label="default")
    first = pointer.entries[0]
    changes = {
        "row": {"entries": (replace(first, info=replace(first.info, byte_size=1)), *pointer.entries[1:])},
        "count": {"generation": 2**53 - 2},
        "removed": {"removed": (ids[0],)},
        "more": {"entries": (*pointer.entries, replace(first, info=replace(first.info, snapshot_id="x")))},
    }[changed]
    rewritten(source, STRANGER, **changes)
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
    source._run(prune.pin, label="default", snapshot_id=ids[0], lasts=timedelta(days=3000))
    memory = ColonyMemory(backend=vault)
    copy(source, memory)
    assert [info.pinned for info in memory.list_snapshots()] == [False, False, True]
    assert [info.pinned_until for info in memory.list_snapshots()] == [
        None,
        None,
        source.list_snapshots()[2].pinned_until,
    ]
    memory.unpin(snapshot_id=ids[0])
    copy(source, memory)
    assert not any(info.pinned for info in memory.list_snapshots())


def test_a_backup_under_way_is_left_to_the_next_copy():
    """A signed pointer that does not list it yet could not be copied as it is, and nobody else would be believed."""
    source, _ = filled(VERSIONS[:1], signer=SIGNER)
    memory, _ = filled([])
    keyless = ColonyMemory(backend=backend_of(source))
    faulty = FaultyVault(backend_of(source))
    reports = []
    faulty.hook("upload", lambda: reports.append(copy(keyless, memory)), match=POINTER)
    info = ColonyMemory(backend=faulty, signer=SIGNER).backup(LARGE)
    assert reports[0]
    reader = pinned(backend_of(memory))
    assert reader.restore() == VERSIONS[0]
    memory = ColonyMemory(backend=backend_of(memory), signer=SIGNER)
    assert copy(keyless, memory).latest == {"default": info.snapshot_id}
    assert reader.restore() == LARGE
    assert reader.verify()


def test_what_another_history_left_is_taken_as_it_is_once_it_is_old(tmp_path):
    """A copy that was killed: what it had written is of the source's history, which the signed label is not."""
    source, ids = filled(VERSIONS[:1], signer=SIGNER)
    memory, _ = filled([{"own": "memory"}], signer=SIGNER)
    for name, text in files(source).items():
        if ids[0] in name:
            backend_of(memory).vault_upload_file(name, text)
    again = ColonyMemory(backend=backend_of(memory), signer=SIGNER)
    assert "no catalogue lists it" in next(iter(copy(source, again).left_out.values()))
    hours_later(backend_of(memory))
    report = copy(source, again)
    assert (bool(report), [info.snapshot_id for info in report.already]) == (True, ids)
    assert again.verify()
    assert len(again.list_snapshots()) == 2


@pytest.mark.parametrize("how", ["copy", "import"])
def test_a_signed_label_that_was_emptied_takes_another_history(vault, how):
    memory, ids = filled(VERSIONS, vault=vault, signer=SIGNER)
    source, brought = filled(VERSIONS[:2], signer=SIGNER)
    for each in reversed(ids):
        memory.delete_snapshot(label="default", snapshot_id=each)
    if how == "copy":
        assert copy(source, memory)
    else:
        brought = [memory.import_snapshot(source.export_snapshot()).snapshot_id]
    reader = pinned(vault)
    assert reader.restore() == VERSIONS[1]
    assert {info.snapshot_id for info in reader.list_snapshots()} == {*brought}
    assert reader.verify()


@pytest.mark.parametrize("lost", ["the vault lost the pointer", "0.1.1 wrote the pointer"])
@pytest.mark.parametrize("seen", [False, True])
def test_an_import_of_another_history_outlives_the_pointer_that_listed_it(vault, lost, seen, tmp_path):
    """To who has seen the label, nothing but the signed catalogue tells it from what a stranger put beside: it is told
    of, kept, and listed anew. Who has not takes it for the label's own.
    """
    witness = FileWitness(tmp_path / "witness.json") if seen else None
    brought = filled([{"MEMORY.md": "of another history"}], signer=SIGNER)[0].export_snapshot()
    filled([{"MEMORY.md": f"own {n}"} for n in range(2)], vault=vault, signer=SIGNER, witness=witness)

    def client():
        return ColonyMemory(backend=vault, signer=SIGNER, witness=witness)

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
