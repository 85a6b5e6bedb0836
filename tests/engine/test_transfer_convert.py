"""Snapshots that change their format on the way: what stays, who vouches for them, and what is refused."""

from __future__ import annotations

import warnings

import pytest
from chains import growing
from transfers import backend_of, fake, files

from colony_memory import ColonyMemory, ColonyMemoryError, ColonyMemoryWarning, Ed25519Signer, UntrustedSnapshot
from colony_memory._format.names import manifest_filename
from colony_memory._format.v2 import chain as chains
from colony_memory.snapshot import read_manifest
from colony_memory.transfer import copy

HISTORY = growing(8)
FORMATS = [1, 2]


@pytest.fixture(autouse=True)
def _small_chains(monkeypatch):
    monkeypatch.setattr(chains, "MAX_PACKS", 3)
    monkeypatch.setattr(chains, "_pays", lambda *_: True)


@pytest.fixture
def keys():
    pytest.importorskip("cryptography")
    return [Ed25519Signer(bytes([n]) * 32) for n in range(3)]


def filled(wire, *, signer=None, states=HISTORY):
    memory = ColonyMemory(backend=fake(), format=wire, signer=signer)
    ids = [
        memory.backup(docs, note=f"note {n}", tags=["a", "b"], incomplete=["x"] if n == 2 else None).snapshot_id
        for n, docs in enumerate(states)
    ]
    return memory, ids


def manifests(memory):
    return {
        info.snapshot_id: read_manifest(
            files(memory)[manifest_filename(info.label, info.snapshot_id)],
            label=info.label,
            snapshot_id=info.snapshot_id,
        )
        for info in memory.list_snapshots()
    }


def told(info):
    return {
        key: getattr(info, key)
        for key in (
            "snapshot_id", "label", "created_at", "byte_size", "plaintext_sha256", "note", "tags", "incomplete",
            "parent_id", "signed",
        )
    }  # fmt: skip


@pytest.mark.parametrize("wire", FORMATS)
def test_what_is_said_of_a_snapshot_stays(wire):
    source, ids = filled(3 - wire)
    memory = ColonyMemory(backend=fake())
    report = source.copy_to(memory, format=wire)
    assert [info.snapshot_id for info in report.copied] == ids
    assert {info.format for info in memory.list_snapshots()} == {f"colony-memory/{wire}"}
    assert [told(info) for info in memory.list_snapshots()] == [told(info) for info in source.list_snapshots()]
    assert [memory.restore(snapshot_id=each) for each in ids] == HISTORY
    assert memory.verify()
    before, after = manifests(source), manifests(memory)
    assert all(
        after[each].converted[-1]
        == {"format": f"colony-memory/{3 - wire}", "manifest_sha256": before[each].sha256, "issuer": None}
        for each in ids
    )
    assert all(after[each].stream == before[each].stream for each in ids)
    again = source.copy_to(memory, format=wire)
    assert (len(again.copied), len(again.already), bool(again)) == (0, 8, True)


def test_chains_are_made_of_what_is_converted_and_go_on_the_next_night():
    source, _ = filled(1, states=HISTORY[:3])
    memory = ColonyMemory(backend=fake())
    source.copy_to(memory, format=2)
    ids = [source.backup(docs).snapshot_id for docs in HISTORY[3:5]]
    assert len(source.copy_to(memory, format=2).copied) == 2
    packs = [len(manifests(memory)[info.snapshot_id].packs) for info in reversed(memory.list_snapshots())]
    assert packs == [1, 2, 3, 2, 3]
    assert memory.restore(snapshot_id=ids[1]) == HISTORY[4]


def test_there_and_back_and_what_was_saved_in_between():
    source, ids = filled(2, states=HISTORY[:3])
    between = ColonyMemory(backend=fake())
    source.copy_to(between, format=1)
    between.backup(HISTORY[3])
    back = ColonyMemory(backend=fake())
    between.copy_to(back, format=2)
    assert back.verify()
    assert back.restore() == HISTORY[3]
    assert [len(found.converted) for found in reversed(manifests(back).values())] == [2, 2, 2, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = source.copy_to(back, format=2)
    assert {name.split(".")[2] for name in report.left_out} == {*ids}  # their manifests are others


def test_a_mixed_label_converts_what_is_of_the_other_format_alone():
    source = ColonyMemory(backend=fake())
    for n, docs in enumerate(HISTORY):
        ColonyMemory(backend=backend_of(source), format=1 + n % 2).backup(docs)
    for wire in FORMATS:
        memory = ColonyMemory(backend=fake())
        assert source.copy_to(memory, format=wire)
        assert memory.verify()
        assert [bool(found.converted) for found in manifests(memory).values()].count(True) == 4
        assert [memory.restore(snapshot_id=info.snapshot_id) for info in reversed(memory.list_snapshots())] == HISTORY


# --- who vouches for it


@pytest.mark.parametrize("wire", FORMATS)
def test_what_was_signed_is_signed_by_the_destination(wire, keys):
    source, ids = filled(3 - wire, signer=keys[0])
    memory = ColonyMemory(backend=fake(), signer=keys[1], trusted_issuers=[key.did_key for key in keys[:2]])
    assert copy(source, memory, format=wire)
    reader = ColonyMemory(backend=backend_of(memory), trusted_issuers=keys[1].did_key)
    assert [reader.restore(snapshot_id=each) for each in ids] == HISTORY
    assert reader.verify()
    assert {found.converted[-1]["issuer"] for found in manifests(memory).values()} == {keys[0].did_key}


@pytest.mark.parametrize("wire", FORMATS)
def test_what_was_signed_is_not_converted_without_a_signer(wire, keys):
    source, _ = filled(3 - wire, signer=keys[0], states=HISTORY[:2])
    reader, memory = ColonyMemory(backend=backend_of(source)), ColonyMemory(backend=fake())
    report = reader.copy_to(memory, format=wire)
    assert len(report.left_out) == 2
    assert all("takes a signer" in why for why in report.left_out.values())
    assert files(memory) == {}
    with pytest.raises(UntrustedSnapshot, match="takes a signer"):
        memory.import_snapshot(source.export_snapshot(), format=wire)
    assert files(memory) == {}


def test_what_the_destination_would_refuse_is_not_signed_for_it(keys):
    """Neither what a stranger signed, nor what nobody did: a signature is no way around who is trusted."""
    for signer in (keys[2], None):
        source, _ = filled(2, signer=signer, states=HISTORY[:2])
        memory = ColonyMemory(backend=fake(), signer=keys[1])
        assert len(copy(ColonyMemory(backend=backend_of(source)), memory, format=1).left_out) == 2
        assert files(memory) == {}
        with pytest.raises(UntrustedSnapshot):
            memory.import_snapshot(ColonyMemory(backend=backend_of(source)).export_snapshot(), format=1)


def test_what_nobody_signed_stays_unsigned(keys):
    source, _ = filled(2, states=HISTORY[:2])
    memory = ColonyMemory(backend=fake(), signer=keys[1], require_signature=False)
    assert source.copy_to(memory, format=1)
    assert not any(info.signed for info in memory.list_snapshots())


def test_a_retired_key_vouches_for_no_more_than_it_is_trusted_for(keys):
    source, ids = filled(2, signer=keys[1], states=HISTORY[:2])
    trusted = {keys[1].did_key: ids[0], keys[2].did_key: None}
    memory = ColonyMemory(backend=fake(), signer=keys[1], trusted_issuers=trusted)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColonyMemoryWarning)
        report = ColonyMemory(backend=backend_of(source)).copy_to(memory, format=1)
    assert [name.split(".")[2] for name in report.left_out] == ids[1:]


def test_what_is_there_in_the_other_format_is_not_rewritten():
    source, _ = filled(2, states=HISTORY[:2])
    memory = ColonyMemory(backend=fake())
    source.copy_to(memory)
    before = dict(files(memory))
    report = source.copy_to(memory, format=1)
    assert all("is there already, in colony-memory/2" in why for why in report.left_out.values())
    assert len(report.left_out) == 2
    assert files(memory) == before


@pytest.mark.parametrize("number", [0, 3, "2", True])
def test_a_format_that_is_none_is_refused(number):
    source, _ = filled(2, states=HISTORY[:1])
    memory = ColonyMemory(backend=fake())
    with pytest.raises(ValueError, match="format must be 1 or 2"):
        source.copy_to(memory, format=number)
    with pytest.raises(ValueError, match="format must be 1 or 2"):
        memory.import_snapshot(source.export_snapshot(), format=number)


def test_what_is_encrypted_is_copied_as_it_is_and_never_converted():
    pyrage = pytest.importorskip("pyrage")
    key = pyrage.x25519.Identity.generate()
    options = {"encrypt_to": str(key.to_public()), "identities": str(key)}
    source = ColonyMemory(backend=fake(), **options)
    ids = [source.backup(docs).snapshot_id for docs in HISTORY[:3]]
    for reader in (ColonyMemory(backend=backend_of(source)), source):
        memory = ColonyMemory(backend=fake())
        assert len(copy(reader, memory, format=1).left_out) == 3
        assert files(memory) == {}
        assert copy(reader, memory)
        opened = ColonyMemory(backend=backend_of(memory), **options)
        assert [opened.restore(snapshot_id=each) for each in ids] == HISTORY[:3]
    plain, _ = filled(1, states=HISTORY[:2])
    with pytest.raises(ColonyMemoryError, match="in the clear"):
        plain.copy_to(ColonyMemory(backend=fake(), **options), format=2)
