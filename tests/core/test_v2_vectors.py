"""The vectors of format 2, read from their files alone: decoding, and whose signature it is."""

from __future__ import annotations

import json
import re
from pathlib import Path

import needs_zstd  # noqa: F401 - skips this module where there is none
import pytest

from colony_memory import SnapshotCorrupt, UnsupportedFormat, UntrustedSnapshot
from colony_memory._format.json import load_object
from colony_memory._format.names import latest_filename, manifest_filename
from colony_memory._format.payload import sha256
from colony_memory._format.pointer import read_pointer
from colony_memory._format.v2.build import read_documents
from colony_memory._format.v2.manifest import check_manifest
from colony_memory.snapshot import MAX_BYTES
from colony_memory.trust import read_trust

pytest.importorskip("cryptography")

VECTORS = sorted((Path(__file__).parents[1] / "vectors" / "v2").glob("*.json"))
REFUSALS = {"corrupt": SnapshotCorrupt, "unsupported": UnsupportedFormat, "untrusted": UntrustedSnapshot}


def read(vector):
    files, request = vector["files"], vector["request"]
    label, snapshot_id = request["label"], request["snapshot_id"]
    if snapshot_id is None:
        snapshot_id = read_pointer(files[latest_filename(label)], label=label).snapshot_id
    text = files[manifest_filename(label, snapshot_id)]
    manifest = check_manifest(load_object(text), sha256(text.encode()), label=label, snapshot_id=snapshot_id)
    read_trust(request["trusted_issuers"], None, accept_legacy_pointer=False, signer=None).judge(manifest.raw)
    texts = {name: files.get(name) for name in manifest.part_files}
    return read_documents(manifest, texts, max_bytes=request.get("max_bytes", MAX_BYTES))


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_a_vector_is_read_as_it_says(path):
    vector = json.loads(path.read_text(encoding="ascii"))
    assert vector["name"] == path.stem
    if vector["expect"] == "ok":
        assert read(vector) == vector["documents"]
        return
    with pytest.raises(REFUSALS[vector["expect"]]) as raised:
        read(vector)
    assert type(raised.value) is REFUSALS[vector["expect"]]


def test_every_answer_is_there():
    assert {json.loads(path.read_text(encoding="ascii"))["expect"] for path in VECTORS} == {"ok", *REFUSALS}


def test_the_format_says_what_each_is():
    text = (Path(__file__).parents[2] / "SNAPSHOT-FORMAT.md").read_text(encoding="utf-8")
    section = text[text.index("## 19. Format `colony-memory/2`") :]
    told = re.findall(r"`(\w+)`", section[section.index("| found | result | vectors |") :])
    assert sorted(told) == [path.stem for path in VECTORS]
