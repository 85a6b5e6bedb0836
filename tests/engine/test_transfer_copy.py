"""Copy from vault to vault: every byte, every label, and what is left out is named."""

import json
import warnings

import pytest
from faces import PlainVault, with_zstd
from transfers import LARGE, PART_CHARS, POINTER, VERSIONS, backend_of, fake, files, filled, no_pointers

from colony_memory import (
    ColonyMemory,
    ColonyMemoryWarning,
    ConflictDetected,
    Ed25519Signer,
    QuotaExceeded,
    RateLimited,
    VaultError,
    snapshot,
)
from colony_memory._boundary import drive
from colony_memory._engine.label import read_labels
from colony_memory._format.pointer import read_pointer
from colony_memory.testing import FakeVault, FaultyVault, VaultServer
from colony_memory.transfer import copy
from colony_memory.vaults.local import LocalVault


@pytest.fixture(autouse=True)
def _three_parts(monkeypatch):
    monkeypatch.setattr(snapshot, "PART_CHARS", PART_CHARS)


def test_every_face_moves_snapshots(open_memory, vault):
    source, ids = filled()
    there, middle = open_memory(backend_of(source)), open_memory(vault)
    destination = getattr(middle, "memory", middle)
    exported = there.export_snapshot()
    assert exported == there.export_snapshot(snapshot_id=ids[2])
    planned = middle.import_snapshot(exported, dry_run=True)
    assert (planned.snapshot_id, planned.head, planned.reused, vault.files) == (ids[2], "", False, {})
    info = middle.import_snapshot(exported)
    assert middle.import_snapshot(exported, dry_run=True).reused
    before = dict(vault.files)
    planned = there.copy_to(destination, dry_run=True)
    assert vault.files == before
    assert (info.snapshot_id, bool(info.head), info.reused) == (ids[2], True, False)
    report = there.copy_to(destination)
    assert [info.snapshot_id for info in report.copied] == ids[:2]
    assert [info.snapshot_id for info in report.already] == ids[2:]
    assert (planned.copied, planned.already, planned.dry_run) == (report.copied, report.already, True)
    assert report
    assert not report.dry_run
    assert report.latest == {"default": ids[2]}
    assert no_pointers(vault.files) == no_pointers(files(source))
    assert ColonyMemory(backend=vault).restore() == VERSIONS[2]


# --- copy


@with_zstd
def test_a_dry_run_of_a_copy_is_refused_as_the_copy_would_be(tmp_path):
    source = ColonyMemory(backend=LocalVault(tmp_path / "a", create=True), format=2)
    for text in ("one", "one two", "one two three"):
        source.backup({"a": text * 50})
    small = LocalVault(tmp_path / "b", create=True, quota_bytes=300)
    with pytest.raises(QuotaExceeded, match="nothing was copied"):
        copy(source, ColonyMemory(backend=small), dry_run=True)
    there, seen = LocalVault(tmp_path / "c", create=True), []
    planned = copy(source, ColonyMemory(backend=there, on_event=seen.append), dry_run=True)
    assert (len(planned.copied), planned.left_out, planned.latest) == (3, {}, {})
    assert there.vault_list_files()["items"] == []
    assert not [event for event in seen if event.action != "fault"]


def test_only_the_labels_asked_for_are_copied():
    source, _ = filled()
    files(source)["foreign.txt"] = "not ours"
    for label in ("work", "home"):
        filled([{"a": label}], label=label, vault=backend_of(source))
    for labels, wanted in (
        ("work", {"work"}),
        (["home", " Work"], {"home", "work"}),
        (None, {"default", "home", "work"}),
    ):
        memory, _ = filled([])
        report = copy(source, memory, labels=labels)
        assert {info.label for info in memory.list_snapshots()} == set(report.latest) == wanted
        assert "foreign.txt" not in files(memory)


def test_the_pointer_names_what_it_named_where_it_came_from(vault):
    source, ids = filled()
    pointer = read_pointer(files(source)[POINTER], label="default")
    old = {"snapshot_id": ids[1], "manifest_file": f"cmem.default.{ids[1]}.manifest.json"}
    files(source)[POINTER] = json.dumps({**json.loads(files(source)[POINTER]), **old})
    memory = ColonyMemory(backend=vault)
    assert copy(source, memory).latest == {"default": ids[1]}
    assert memory.restore() == LARGE
    assert read_pointer(vault.files[POINTER], label="default").generation > pointer.generation


@pytest.mark.parametrize("pointer", [True, False])
@pytest.mark.parametrize("signs", [False, True])
def test_no_copy_makes_a_refused_save_the_latest(pointer, signs):
    if signs:
        pytest.importorskip("cryptography")
    source, signer = fake(), Ed25519Signer.generate() if signs else None
    a, b = ColonyMemory(backend=source), ColonyMemory(backend=source)
    a.backup({"m": "one\n"})
    b.restore()
    a.backup({"m": "one\ntwo\n"})
    with pytest.raises(ConflictDetected):
        b.backup({"m": "one\nthree\n"})
    if not pointer:
        del source.files[POINTER]
    there = ColonyMemory(backend=fake(), signer=signer, require_signature=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColonyMemoryWarning)
        ColonyMemory(backend=source, signer=signer, require_signature=False).copy_to(there)
        assert there.restore() == {"m": "one\ntwo\n"}
    assert len(there.list_snapshots()) == 3


def test_what_a_restore_gives_is_copied():
    """The pointer is an older one, and what it names is gone."""
    source = fake()
    mem = ColonyMemory(backend=source)
    old, before = mem.backup({"m": "one"}).snapshot_id, source.files[POINTER]
    mem.backup({"m": "one and two"})
    source.files[POINTER] = before
    for name in [name for name in source.files if old in name]:
        del source.files[name]
    there = ColonyMemory(backend=fake())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColonyMemoryWarning)
        assert ColonyMemory(backend=source).copy_to(there)
    assert there.restore() == {"m": "one and two"}


def test_a_snapshot_that_goes_while_others_are_copied_is_passed_over(vault):
    source, ids = filled()
    faulty = FaultyVault(backend_of(source))
    faulty.hook(
        "get", lambda: source.delete_snapshot(label="default", snapshot_id=ids[0]), match=f"{ids[0]}.manifest", times=1
    )
    report = copy(ColonyMemory(backend=faulty), ColonyMemory(backend=vault))
    assert report
    assert [info.snapshot_id for info in report.copied] == ids[1:]


def test_a_list_that_is_cut_is_not_copied_from_nor_to():
    source, _ = filled()
    for there, told in ((source, "copying is refused"), (filled([])[0], "bringing snapshots is refused")):
        vault = FaultyVault(backend_of(there))
        vault.lie("list", lambda reply: {**reply, "has_more": True})
        ends = {source: source, there: ColonyMemory(backend=vault)}
        with pytest.raises(VaultError, match=told):
            copy(ends[source], ends[there] if there is not source else filled([])[0])


# --- real vaults


def test_from_the_hosted_vault_to_a_directory_and_back(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshot, "PART_CHARS", 700)
    versions = [{"MEMORY.md": f"{n} " + "".join(map(chr, range(0x4E00, 0x4E00 + 700)))} for n in range(3)]
    with VaultServer(fake()) as server, VaultServer(fake()) as other:
        hosted = ColonyMemory("col_test", base_url=server.url)
        for documents in versions:
            hosted.backup(documents)
        local = ColonyMemory(backend=LocalVault(tmp_path / "vault", create=True))
        report = copy(hosted, local)
        assert report
        assert local.restore() == versions[2]
        assert [info.part_count for info in report.copied] == [3, 3, 3]
        back = ColonyMemory("col_test", base_url=other.url)
        assert copy(local, back)
        assert back.restore() == versions[2]
        assert no_pointers(other.vault.files) == no_pointers(server.vault.files)
        assert len(copy(hosted, back).already) == 3
    assert local.verify()


def test_an_hours_writes_end_a_copy_and_the_next_hour_goes_on():
    now = [1_800_000_000.0]
    versions = [{"a": f"version {n}"} for n in range(12)]
    source, ids = filled(versions)
    memory = ColonyMemory(backend=FakeVault(operations_per_hour=10, clock=lambda: now[0]))
    for done in (4, 7, 10):
        with pytest.raises(
            RateLimited, match=rf"needs 3; .*{done} of 12 snapshots are copied, and copying again goes on"
        ) as caught:
            copy(source, memory)
        assert caught.value.retry_after
        assert memory.restore() == versions[done - 1]
        assert len(read_pointer(files(memory)[POINTER], label="default").entries) == done
        assert not read_labels(drive(memory._session.vault.list("cmem.")))["default"].orphans
        now[0] += 3600
    report = copy(source, memory)
    assert (len(report.copied), len(report.already), report.latest) == (2, 10, {"default": ids[-1]})
    assert len(memory.list_snapshots()) == 12


def test_an_hour_that_the_vault_does_not_tell_of_ends_a_copy_too():
    """Nothing can be written any more, not even the pointer: what is there counts once it is an hour old."""
    now = [1_800_000_000.0]
    versions = [{"a": f"version {n}"} for n in range(12)]
    source, ids = filled(versions)
    memory = ColonyMemory(backend=PlainVault(FakeVault(operations_per_hour=10, clock=lambda: now[0])))
    for _ in range(2):
        with pytest.raises(RateLimited, match="copied"):
            copy(source, memory)
        now[0] += 3700
    report = copy(source, memory)
    assert (report.latest, report.left_out) == ({"default": ids[-1]}, {})
    assert len(report.already) == 10
    assert len(memory.list_snapshots()) == 12
    assert memory.restore() == versions[-1]
