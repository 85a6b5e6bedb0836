"""Export and import: byte for byte, with the trust decision of a restore, and nothing lost."""

import json
import time
from datetime import timedelta

import pytest
from faces import PlainVault
from transfers import PART_CHARS, POINTER, backend_of, fake, files, filled, hours_later, nothing_uploaded

from colony_memory import (
    ColonyMemory,
    ColonyMemoryWarning,
    ConflictDetected,
    QuotaExceeded,
    SnapshotCorrupt,
    SnapshotNotFound,
    VaultError,
    snapshot,
)
from colony_memory._engine import files as engine_files
from colony_memory._format.pointer import read_pointer
from colony_memory.export import Export
from colony_memory.testing import FaultyVault
from colony_memory.testing.faults import ProcessDied
from colony_memory.vaults._files import time_at


@pytest.fixture(autouse=True)
def _three_parts(monkeypatch):
    monkeypatch.setattr(snapshot, "PART_CHARS", PART_CHARS)


# --- export


def test_nothing_to_export_is_told():
    memory, _ = filled([])
    with pytest.raises(SnapshotNotFound, match="nothing is saved yet under label 'default'"):
        memory.export_snapshot()
    memory, _ = filled()
    with pytest.raises(SnapshotNotFound, match="no snapshot 'other'"):
        memory.export_snapshot(snapshot_id="other")
    for wrong in ({"label": "a b"}, {"snapshot_id": "../x"}):
        with pytest.raises(ValueError, match=r"a b|snapshot id"):
            memory.export_snapshot(**wrong)


def test_a_file_that_no_vault_can_hold_is_not_exported():
    memory, ids = filled()
    name = f"cmem.default.{ids[0]}.p0.json"
    files(memory)[name] = files(memory)[name][:-1] + ', "note": "\ud800"}'
    with pytest.raises(SnapshotCorrupt, match="surrogate"):
        memory.export_snapshot(snapshot_id=ids[0])


def test_a_snapshot_that_goes_while_it_is_read_was_not_there():
    memory, ids = filled()
    vault = FaultyVault(backend_of(memory))
    victim = ColonyMemory(backend=backend_of(memory))
    vault.hook(
        "get", lambda: victim.delete_snapshot(label="default", snapshot_id=ids[1]), match=f"{ids[1]}.p0", times=1
    )
    with pytest.raises(SnapshotNotFound, match="while it was read"):
        ColonyMemory(backend=vault).export_snapshot(snapshot_id=ids[1])


# --- import


@pytest.mark.parametrize("spoil", [lambda files: files.pop(POINTER), lambda files: files.update({POINTER: "?"})])
def test_a_pointer_that_is_lost_is_made_anew(vault, spoil):
    source, ids = filled()
    memory, own = filled([{"own": "memory"}, {"own": "newer"}], vault=vault)
    spoil(vault.files)
    two_hours = timedelta(hours=2)
    memory._session.now = lambda before=memory._session.now: before() + two_hours
    for name in list(vault.files):  # long there, so that no backup under way can be about to point to them
        backend = vault.vault if isinstance(vault, PlainVault) else vault
        entry = backend._known.get(name)
        if entry is not None and name in vault.files:
            entry["updated_at"] = time_at(time.time() - two_hours.total_seconds())
    memory.import_snapshot(source.export_snapshot(snapshot_id=ids[0]))
    pointer = read_pointer(vault.files[POINTER], label="default")
    assert pointer.snapshot_id == own[1]
    assert {entry.info.snapshot_id for entry in pointer.entries} == {*own, ids[0]}


def test_an_export_of_another_label_is_refused():
    source, _ = filled(label="work")
    exported = source.export_snapshot(label="work")
    memory, _ = filled([])
    with pytest.raises(ValueError, match="cannot be imported as 'home': restore it, and back that up under 'home'"):
        memory.import_snapshot(exported, label="home")
    assert memory.import_snapshot(exported, label=" Work ").label == "work"
    with pytest.raises(ValueError, match="must be of type Export, not str"):
        memory.import_snapshot("work.json")


def changed(exported, name, text):
    found = {**exported.files, name: text}
    return Export(exported.label, exported.snapshot_id, {key: value for key, value in found.items() if value})


def test_nothing_that_is_wrong_is_imported():
    source, ids = filled()
    exported = source.export_snapshot(snapshot_id=ids[1])
    part, manifest = f"cmem.default.{ids[1]}.p1.json", f"cmem.default.{ids[1]}.manifest.json"
    vault = fake()
    memory = ColonyMemory(backend=vault)
    with nothing_uploaded(vault):
        for name, text in (
            (part, None),
            (part, "{}"),
            (part, exported.files[part].replace("b64", "b46")),
            (manifest, exported.files[manifest].replace("sha256:", "sha256:0", 1)),
            (f"cmem.default.{ids[1]}.p9.json", "{}"),
        ):
            with pytest.raises(SnapshotCorrupt) as caught:
                memory.import_snapshot(changed(exported, name, text))
            assert caught.value.file in (name, manifest)
        with pytest.raises(SnapshotCorrupt, match="max_bytes"):
            ColonyMemory(backend=vault, max_bytes=10).import_snapshot(exported)
    assert memory.import_snapshot(exported).head


def test_what_does_not_fit_is_refused_before_the_first_write():
    source, ids = filled()
    exported = source.export_snapshot(snapshot_id=ids[1])
    size = sum(map(len, exported.files.values()))
    memory, _ = filled([{"a": "b"}])
    vault = backend_of(memory)
    vault.quota_bytes = sum(map(len, vault.files.values())) + size - 1
    with nothing_uploaded(vault), pytest.raises(QuotaExceeded, match=r"does not fit: it takes.*prune") as caught:
        memory.import_snapshot(exported)
    assert caught.value.needed == size
    vault.quota_bytes = 10 * size
    with pytest.MonkeyPatch.context() as patch, nothing_uploaded(vault):
        patch.setattr(engine_files, "MAX_FILE_BYTES", 100)
        with pytest.raises(QuotaExceeded, match="a vault file holds 100"):
            memory.import_snapshot(exported)
    assert memory.import_snapshot(exported)


@pytest.mark.parametrize("place", ["p1", "manifest"])
def test_another_content_under_the_same_id_is_refused(vault, place):
    source, ids = filled()
    exported = source.export_snapshot(snapshot_id=ids[1])
    memory = ColonyMemory(backend=vault)
    vault.files[f"cmem.default.{ids[1]}.{place}.json"] = "another"
    before = dict(vault.files)
    with pytest.raises(ConflictDetected, match="something else") as caught:
        memory.import_snapshot(exported)
    assert (caught.value.theirs, caught.value.snapshot_id) == (ids[1], None)
    assert vault.files == before


def test_another_client_that_writes_the_same_id_first_is_noticed():
    source, ids = filled()
    exported = source.export_snapshot(snapshot_id=ids[1])
    manifest = f"cmem.default.{ids[1]}.manifest.json"
    vault = FaultyVault(fake())
    vault.hook("upload", lambda: vault.vault.files.update({manifest: "another"}), match=manifest)
    with pytest.raises(ConflictDetected, match="something else"):
        ColonyMemory(backend=vault).import_snapshot(exported)
    assert vault.vault.files[manifest] == "another"
    assert POINTER not in vault.vault.files


def test_a_whole_snapshot_that_nobody_committed_is_not_relied_upon_before_it_is_old(vault):
    source, ids = filled()
    exported = source.export_snapshot(snapshot_id=ids[1])
    memory, _ = filled([{"own": "memory"}], vault=vault)
    for name, text in exported.files.items():
        backend_of(memory).vault_upload_file(name, text)
    with pytest.raises(ConflictDetected, match="being removed"):
        memory.import_snapshot(exported)
    hours_later(vault)
    assert memory.import_snapshot(exported).reused
    assert read_pointer(vault.files[POINTER], label="default").entry(ids[1])


def test_what_is_being_removed_is_not_listed_again(vault):
    source, ids = filled()
    exported = source.export_snapshot(snapshot_id=ids[0])
    memory, _ = filled([{"own": "memory"}], vault=vault)
    memory.import_snapshot(exported)
    faulty = FaultyVault(vault)
    faulty.stop_after(3 if not isinstance(vault, PlainVault) else 5, applied=True)
    with pytest.raises(ProcessDied):
        ColonyMemory(backend=faulty).delete_snapshot(label="default", snapshot_id=ids[0])
    assert ids[0] in read_pointer(vault.files[POINTER], label="default").removed
    with pytest.raises(ConflictDetected, match="being removed"):
        memory.import_snapshot(exported)
    hours_later(vault)
    with pytest.raises(ConflictDetected, match=r"to make way, delete it.*delete_snapshot"):
        memory.import_snapshot(exported)
    memory.delete_snapshot(label="default", snapshot_id=ids[0])
    assert not memory.import_snapshot(exported).reused
    pointer = read_pointer(vault.files[POINTER], label="default")
    assert (pointer.entry(ids[0]) is not None, pointer.removed) == (True, ())


@pytest.mark.parametrize("kind", ["found", "written"])
def test_what_another_client_removes_in_between_is_not_listed_again(kind):
    """Both what was relied upon and what was written is looked for again where the pointer has moved."""
    source, ids = filled()
    exported = source.export_snapshot(snapshot_id=ids[0])
    memory, _ = filled([{"own": "memory"}])
    other = ColonyMemory(backend=backend_of(memory))
    if kind == "found":
        memory.import_snapshot(exported)
        raw = json.loads(files(memory)[POINTER])
        hours_later(backend_of(memory))
        text = json.dumps({key: raw[key] for key in raw if key != "catalog"})
        backend_of(memory).vault_upload_file(POINTER, text)
    vault = FaultyVault(backend_of(memory))

    def remove():
        other.delete_snapshot(label="default", snapshot_id=ids[0])

    vault.hook("upload", remove, match=POINTER)
    with pytest.raises(ConflictDetected, match=r"another client removed .* while it was being written"):
        ColonyMemory(backend=vault).import_snapshot(exported)
    pointer = read_pointer(files(memory)[POINTER], label="default")
    assert pointer.entry(ids[0]) is None
    assert memory.import_snapshot(exported)


def test_a_pointer_is_left_to_the_backup_under_way():
    source, ids = filled()
    memory, _ = filled([])
    vault = FaultyVault(backend_of(memory))
    vault.fail("upload", ProcessDied(0), match=POINTER)
    with pytest.raises(ProcessDied):
        ColonyMemory(backend=vault).backup({"own": "memory"})
    assert POINTER not in files(memory)
    with pytest.raises(ConflictDetected, match="may be the work of a backup under way"):
        memory.import_snapshot(source.export_snapshot(snapshot_id=ids[0]))
    assert POINTER not in files(memory)
    with pytest.warns(ColonyMemoryWarning, match="no pointer"):
        assert memory.restore() == {"own": "memory"}


def test_after_a_long_upload_the_parts_are_looked_for():
    source, ids = filled()
    exported = source.export_snapshot(snapshot_id=ids[1])
    vault = FaultyVault(fake())
    memory = ColonyMemory(backend=vault)
    start = memory._session.now()
    part = f"cmem.default.{ids[1]}.p0.json"
    memory._session.now = lambda: start + timedelta(hours=len(vault.vault.files))
    read = vault.hook("get", lambda: vault.hook("list", lambda: vault.vault.files.pop(part)), match=part)
    with pytest.raises(VaultError, match="other clients removed parts"):
        memory.import_snapshot(exported)
    assert read.fired
    memory._session.now = lambda: start
    assert memory.import_snapshot(exported).head


def test_what_does_not_read_back_is_told():
    source, _ids = filled()
    vault = FaultyVault(fake())
    vault.lie("get", lambda reply: {**reply, "content": reply["content"] + " "}, match=".p0.")
    with pytest.raises(VaultError, match="read back, it holds another text"):
        ColonyMemory(backend=vault).import_snapshot(source.export_snapshot())
    assert POINTER not in vault.vault.files


def test_another_client_in_between_keeps_what_it_wrote(vault):
    source, ids = filled()
    faulty = FaultyVault(vault)
    other = ColonyMemory(backend=vault)
    # Before the pointer is written, or before it is looked at for the last time where conditions are not kept.
    verb, skipped = ("upload", 0) if not isinstance(vault, PlainVault) else ("get", 1)
    calls = []

    def write():
        calls.append(1)
        if len(calls) == skipped + 1:
            other.backup({"their": "memory"})

    faulty.hook(verb, write, match=POINTER, times=skipped + 1)
    info = ColonyMemory(backend=faulty).import_snapshot(source.export_snapshot(snapshot_id=ids[0]))
    assert not info.head
    assert other.restore() == {"their": "memory"}
    assert len(other.list_snapshots()) == 2


def test_a_pointer_that_never_stands_still_is_told():
    source, _ids = filled()
    vault = FaultyVault(fake())
    numbers = iter(range(100))
    vault.hook("upload", lambda: vault.vault.files.update({POINTER: f"{next(numbers)}"}), match=POINTER, times=None)
    memory = ColonyMemory(backend=vault)
    with pytest.raises(ConflictDetected, match="kept changing"):
        memory.import_snapshot(source.export_snapshot())
    vault.heal()
    with pytest.raises(ConflictDetected, match="to make way, delete it"):
        memory.import_snapshot(source.export_snapshot())
