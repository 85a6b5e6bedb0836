"""An export or a vault of chains that lies is refused before anything is written, within bounds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from chains import LABEL, build_all, build_at, growing, manifest_at, sealed, snapshot_id
from frames import compress
from transfers import fake, nothing_uploaded

from colony_memory import ColonyMemory, SnapshotCorrupt, UntrustedSnapshot
from colony_memory._format.names import latest_filename, manifest_filename, pack_filename
from colony_memory._format.v2.build import read_chain
from colony_memory._format.v2.chain import Below, write_pack
from colony_memory.export import Export
from colony_memory.snapshot import MAX_BYTES
from colony_memory.transfer import copy

pytest.importorskip("cryptography")

FOLDER = Path(__file__).parents[1] / "vectors" / "v2"
#: Those that no key is needed for.
VECTORS = [path for path in sorted(FOLDER.glob("*.json")) if not path.stem.startswith("sealed")]
pytestmark = pytest.mark.filterwarnings("ignore::colony_memory.ColonyMemoryWarning")
REFUSED = (SnapshotCorrupt, UntrustedSnapshot)


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_a_vector_is_brought_or_refused_as_it_is_read(path):
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


HISTORY = growing(4)


def lies():
    """Files of honest chains with one more snapshot on top, whose manifest or pack lies, by what the lie is."""
    files, built = build_all(HISTORY)
    top = build_at(4, {"MEMORY.md": "the last"} | HISTORY[-1], built[-1].chain)
    files = {**files, **top.files}
    raw = json.loads(files[top.manifest_file])
    sizes, packs = raw["pack_bytes"], raw["packs"]
    own = pack_filename(LABEL, snapshot_id(4), 0)
    yield "sizes of packs below", sealed(files, top, pack_bytes=[[sizes[0][0] + 1], *sizes[1:]])
    yield "more files of a pack below", sealed(files, top, pack_bytes=[[*sizes[0], 1], *sizes[1:]])
    yield "packs below in another order", sealed(files, top, packs=[packs[1], packs[0], *packs[2:]])
    yield "a pack left out", sealed(files, top, packs=packs[1:], pack_bytes=sizes[1:], levels=raw["levels"][1:])
    yield "another pack on top", sealed(files, top, pack_sha256=top.chain.links[-2].pack.sha256)
    yield "bytes of the memory", sealed(files, top, byte_size=raw["byte_size"] - 1)
    yield "count of documents", sealed(files, top, doc_count=raw["doc_count"] + 1)
    chain, _ = read_chain(manifest_at(files, 3), dict(files))
    run = b"".join(chain.state.run())
    below = Below(chain.links[-1].pack.pack_id, chain.links[-1].pack.sha256)
    large = b'{"drop":[],"move":{},"put":{"large":%d}}\n' % (2 * 10**6) + bytes(2 * 10**6)
    for what, content, prefix, on in (
        ("a bomb", large, run, below),
        ("a bomb of its prefix", large, b"another prefix", below),
        ("a wrong below", b'{"drop":[],"move":{},"put":{}}\n', run, Below(packs[0], below.sha256)),
        ("a cycle", b'{"drop":[],"move":{},"put":{}}\n', run, Below(snapshot_id(4), below.sha256)),
    ):
        pack, texts = write_pack(LABEL, snapshot_id(4), compress(content, prefix), on)
        assert [*texts] == [own]
        yield what, sealed({**files, **texts}, top, pack_sha256=pack.sha256, pack_bytes=[*sizes[:-1], list(pack.sizes)])
    stranger = build_at(4, {"MEMORY.md": "of another history"}, None, stream="f" * 16)
    yield "a pack of another history", {**files, own: stranger.files[own]}
    other = build_at(4, {"MEMORY.md": "of another label"}, None, label="other")
    yield "a pack of another label", {**files, own: next(iter(other.files.values()))}


LIES = dict(lies())


@pytest.mark.parametrize("lie", LIES)
def test_what_lies_is_left_out_and_what_is_below_it_is_not(lie):
    source, there = fake(), fake()
    source.files.update(LIES[lie])
    memory = ColonyMemory(backend=there, max_bytes=10**6)
    report = copy(ColonyMemory(backend=source), memory)
    assert [*report.left_out] == [manifest_filename(LABEL, snapshot_id(4))]
    assert not any(snapshot_id(4) in name for name in there.files)
    new = ColonyMemory(backend=there)
    assert [new.restore(snapshot_id=snapshot_id(n)) for n in range(4)] == HISTORY
    needed = {name: text for name, text in LIES[lie].items() if ".k" in name or snapshot_id(4) in name}
    with nothing_uploaded(there), pytest.raises(SnapshotCorrupt):
        memory.import_snapshot(Export(LABEL, snapshot_id(4), needed))


def test_a_name_twice_in_an_export_is_no_export():
    from colony_memory.export import read_export, write_export

    files, built = build_all(HISTORY[:1])
    text = write_export(LABEL, snapshot_id(0), files)
    name = json.dumps(built[0].manifest_file)
    with pytest.raises(SnapshotCorrupt, match="twice"):
        read_export(text.replace(name, name + ': "", ' + name, 1))
