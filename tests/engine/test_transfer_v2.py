"""Chains of packs from vault to vault, what is relied upon of those that are there, and what lies is refused."""

import json
import re
from pathlib import Path

import pytest
from chains import LABEL, build_all, build_at, growing, sealed, snapshot_id
from faces import PlainVault
from transfers import POINTER, backend_of, fake, files, hours_later, nothing_uploaded

from colony_memory import ColonyMemory, ColonyMemoryError, ConflictDetected, SnapshotCorrupt, UntrustedSnapshot
from colony_memory._format.names import latest_filename, manifest_filename, pack_filename
from colony_memory._format.pointer import read_pointer
from colony_memory._format.v2 import chain as chains
from colony_memory._format.v2 import zstd as door
from colony_memory.export import Export
from colony_memory.snapshot import MAX_BYTES, read_manifest
from colony_memory.transfer import copy

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


def test_a_copy_of_mixed_formats_is_the_same_bytes():
    vault = fake()
    for n, documents in enumerate(HISTORY):
        ColonyMemory(backend=vault, format=1 + bool(n % 3)).backup(documents)
    there, seen = fake(), []
    source, memory = ColonyMemory(backend=vault), ColonyMemory(backend=there)
    report = copy(source, memory, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(n, 8) for n in range(1, 9)]
    assert (len(report.copied), bool(report)) == (8, True)
    assert {**there.files, POINTER: ""} == {**vault.files, POINTER: ""}
    again = copy(source, memory)
    assert (len(again.copied), len(again.already)) == (0, 8)
    assert contents(ColonyMemory(backend=there)) == HISTORY
    assert ColonyMemory(backend=there).verify()
    rows = [read_pointer(each.files[POINTER], label="default").entries for each in (vault, there)]
    assert rows[0] == rows[1]


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
    files(memory)[base] = files(memory)[base].replace('"data":"', '"data":"AAAA', 1)[: len(files(memory)[base])]
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


# --- what lies

FOLDER = Path(__file__).parents[1] / "vectors" / "v2"
#: Those that no key is needed for.
VECTORS = [path for path in sorted(FOLDER.glob("*.json")) if not path.stem.startswith("sealed")]
REFUSED = (SnapshotCorrupt, UntrustedSnapshot)


@pytest.mark.filterwarnings("ignore::colony_memory.ColonyMemoryWarning")
@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_a_vector_is_brought_or_refused_as_it_is_read(path):
    pytest.importorskip("cryptography")
    vector = json.loads(path.read_text(encoding="ascii"))
    asked, found = vector["request"], vector["files"]
    if asked["snapshot_id"] is None:
        pytest.skip("it is about the pointer")
    found = {name: text for name, text in found.items() if name != latest_filename(asked["label"])}
    source, there = fake(), fake()
    source.files.update(found)
    options = {"max_bytes": asked.get("max_bytes", MAX_BYTES), "trusted_issuers": asked["trusted_issuers"]}
    memory = ColonyMemory(backend=there, **options)
    if vector["expect"] == "ok":
        ColonyMemory(backend=there).import_snapshot(ColonyMemory(backend=source).export_snapshot(**placed(asked)))
        # Of some, JSON cannot tell the text.
        right = vector.get("documents") or ColonyMemory(backend=source).restore(**placed(asked))
        assert memory.restore(**placed(asked)) == right
        return
    with nothing_uploaded(there), pytest.raises(REFUSED):
        memory.import_snapshot(Export(asked["label"], asked["snapshot_id"], found))
    report = copy(ColonyMemory(backend=source), memory)
    assert manifest_filename(asked["label"], asked["snapshot_id"]) in report.left_out
    assert not any(asked["snapshot_id"] in name for name in there.files)


def placed(asked):
    return {"label": asked["label"], "snapshot_id": asked["snapshot_id"]}


def lies(lie):
    """Files of an honest chain with one more snapshot on top, and that one lies; vectors have more."""
    files, built = build_all(HISTORY[:4])
    top = build_at(4, {"MEMORY.md": "the last"} | HISTORY[3], built[-1].chain)
    files = {**files, **top.files}
    raw = json.loads(files[top.manifest_file])
    if lie == "sizes of packs below":
        return sealed(files, top, pack_bytes=[[raw["pack_bytes"][0][0] + 1], *raw["pack_bytes"][1:]])
    if lie == "bytes of the memory":
        return sealed(files, top, byte_size=raw["byte_size"] - 1)
    stranger = build_at(4, {"MEMORY.md": "of another history"}, None, stream="f" * 16)
    own = pack_filename(LABEL, snapshot_id(4), 0)
    return {**files, own: stranger.files[own]}


@pytest.mark.filterwarnings("ignore::colony_memory.ColonyMemoryWarning")
@pytest.mark.parametrize("lie", ["sizes of packs below", "bytes of the memory", "a pack of another history"])
def test_what_lies_is_left_out_and_what_is_below_it_is_not(lie):
    source, there, lying = fake(), fake(), lies(lie)
    source.files.update(lying)
    memory = ColonyMemory(backend=there, max_bytes=10**6)
    report = copy(ColonyMemory(backend=source), memory)
    assert not report
    assert [*report.left_out] == [manifest_filename(LABEL, snapshot_id(4))]
    assert not any(snapshot_id(4) in name for name in there.files)
    new = ColonyMemory(backend=there)
    assert [new.restore(snapshot_id=snapshot_id(n)) for n in range(4)] == HISTORY[:4]
    needed = {name: text for name, text in lying.items() if ".k" in name or snapshot_id(4) in name}
    with nothing_uploaded(there), pytest.raises(SnapshotCorrupt):
        memory.import_snapshot(Export(LABEL, snapshot_id(4), needed))
