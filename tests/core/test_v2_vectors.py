"""The vectors of format 2, read from their files alone: decoding, and whose signature it is."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import needs_zstd  # noqa: F401 - skips this module where there is none
import pytest

from colony_memory import DecryptionError, SnapshotCorrupt, UnsupportedFormat, UntrustedSnapshot
from colony_memory._format.age import Identities
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
REFUSALS = {"corrupt": SnapshotCorrupt, "unsupported": UnsupportedFormat, "untrusted": UntrustedSnapshot} | {
    "encrypted": DecryptionError
}


def read(vector, identities=None):
    files, request = vector["files"], vector["request"]
    label, snapshot_id = request["label"], request["snapshot_id"]
    if snapshot_id is None:
        snapshot_id = read_pointer(files[latest_filename(label)], label=label).snapshot_id
    text = files[manifest_filename(label, snapshot_id)]
    manifest = check_manifest(load_object(text), sha256(text.encode()), label=label, snapshot_id=snapshot_id)
    read_trust(request["trusted_issuers"], None, accept_legacy_pointer=False, signer=None).judge(manifest.raw)
    texts = {name: files.get(name) for name in manifest.part_files}
    bound = request.get("max_bytes", MAX_BYTES)
    return read_documents(manifest, texts, max_bytes=bound, identities=identities)


def identities_of(request):
    secrets, passphrase = request.get("identities", ()), request.get("passphrase")
    if not secrets and passphrase is None:
        return None
    pytest.importorskip("pyrage")
    return Identities(secrets, [passphrase] if passphrase else ())


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_a_vector_is_read_as_it_says(path):
    vector = json.loads(path.read_text(encoding="ascii"))
    assert vector["name"] == path.stem
    identities = identities_of(vector["request"])
    if vector["expect"] == "ok":
        documents = read(vector, identities)
        if "documents_sha256" in vector:  # of what JSON escapes cannot tell apart
            plain = json.dumps(documents, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
            assert hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest() == vector["documents_sha256"]
        else:
            assert documents == vector["documents"]
        return
    with pytest.raises(REFUSALS[vector["expect"]]) as raised:
        read(vector, identities)
    assert type(raised.value) is REFUSALS[vector["expect"]]


@pytest.mark.parametrize(
    "path", [path for path in VECTORS if path.stem.startswith("sealed")], ids=lambda path: path.stem
)
def test_a_vector_that_is_encrypted_has_a_verdict_without_a_key(path):
    vector = json.loads(path.read_text(encoding="ascii"))
    expected = vector.get("expect_without", vector["expect"])
    with pytest.raises(REFUSALS[expected]):
        read(vector)


def test_every_answer_is_there():
    assert {json.loads(path.read_text(encoding="ascii"))["expect"] for path in VECTORS} == {"ok", *REFUSALS}


def test_the_format_says_what_each_is():
    text = (Path(__file__).parents[2] / "SNAPSHOT-FORMAT.md").read_text(encoding="utf-8")
    section = text[text.index("## 19. Format `colony-memory/2`") :]
    told = re.findall(r"`(\w+)`", section[section.index("| found | result | vectors |") :])
    assert sorted(told) == [path.stem for path in VECTORS]
