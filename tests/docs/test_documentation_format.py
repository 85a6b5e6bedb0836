"""SNAPSHOT-FORMAT.md says what the code does: its example, byte by byte, and its table, by the vectors."""

import base64
import json
import re

import pytest
from documentation_pages import FORMAT, ROOT, read, read_blocks

from colony_memory import ColonyMemory, Ed25519Signer, open_vault
from colony_memory._format.json import canonical, encode_documents
from colony_memory._format.payload import sha256, unpack
from colony_memory._format.pointer import read_pointer
from colony_memory.capture._metadata import dump_metadata, load_metadata
from colony_memory.snapshot import build, digest

VECTORS = ROOT / "tests" / "vectors"


def example():
    """The files of the example: each name and the block behind it."""
    text = read(FORMAT)[read(FORMAT).index("## 16. Example") :]
    return dict(re.findall(r"^`(cmem\.[^`]+)`:\n\n```json\n(.*?)\n```$", text, re.MULTILINE | re.DOTALL))


def example_blocks(language):
    return [block.text for block in read_blocks(FORMAT) if "Example" in block.heading and block.language == language]


def test_the_example_of_the_format_restores_and_is_signed():
    pytest.importorskip("cryptography")
    vault = open_vault("memory:")
    for name, text in example().items():
        vault.vault_upload_file(name, text)
    assert len(example()) == 3
    memory = ColonyMemory(backend=vault)
    documents = json.loads(example_blocks("json")[0])
    assert memory.restore(verify=False) == documents
    (listed,) = memory.list_snapshots()
    assert listed.head
    assert listed.stored_bytes == sum(len(text) for name, text in example().items() if "latest" not in name)
    assert memory.verify().snapshots[0].signature == "ok"
    signer = Ed25519Signer(bytes(range(32)))
    assert listed.issuer == signer.did_key
    report = ColonyMemory(backend=vault, signer=signer).verify()
    assert report
    assert report.pointer == "ok"


def test_the_example_of_the_format_is_what_is_written():
    part, manifest_file, latest = example()
    manifest = json.loads(example()[manifest_file])
    documents = json.loads(example_blocks("json")[0])
    plain = b"".join(encode_documents(documents))
    assert bytes.fromhex("".join(example_blocks("text")[0].split())) == plain
    assert digest(documents) == manifest["plaintext_sha256"] == sha256(plain)
    assert unpack([json.loads(example()[part])["b64"]], size=len(plain)) == plain
    built = build(
        documents,
        label="default",
        snapshot_id=manifest["snapshot_id"],
        created_at=manifest["created_at"],
        previous=manifest["previous"],
    )
    written = json.loads(built.files[built.manifest_file])
    # What a compressor gives is not fixed, and so its length and the signature over it are not either. A tree may lack.
    for each in (manifest, written):
        each.pop("blob_chars")
        each.pop("signature", None)
        each.pop("tree", None)
    assert written == manifest
    assert list(built.files) == [part, manifest_file]

    pointer = read_pointer(example()[latest], label="default")
    assert pointer.generation == 42
    assert pointer.entries
    assert pointer.entries[0].manifest_sha256 == sha256(example()[manifest_file].encode())
    (page,) = json.loads(example()[latest])["catalog"]
    size, values, blob = page.split(":")
    plain = unpack([blob], size=int(size))
    assert plain == example_blocks("json")[-1].strip().encode()
    assert sum(plain.count(sign) for sign in b",:[{") == int(values)
    assert canonical(json.loads(example_blocks("json")[-1])) == example_blocks("json")[-1].strip().encode()


def test_the_folder_of_the_format_is_one():
    (text,) = (block.text.strip() for block in read_blocks(FORMAT) if "colony-memory/folder/1" in block.text)
    assert dump_metadata(load_metadata(text)) == text
    assert load_metadata(text).files["face.png"] == base64.b64decode("iVBORw==")


@pytest.mark.parametrize(("folder", "heading"), [("v1", "## 11. Reading"), ("pages", "## 8. Pointer")])
def test_what_the_format_says_of_each_vector_is_what_it_expects(folder, heading):
    results = {"documents": "ok", "absent": "not_found"}
    vectors = {path.stem: json.loads(read(path)) for path in (VECTORS / folder).glob("*.json")}
    section = read(FORMAT).partition(heading)[2].partition("\n## ")[0].partition("| found |")[2]
    rows = re.findall(r"^\|[^|]*\| *(\w+)[^|]*\|([^|]*)\|$", section, re.MULTILINE)
    told = {
        name: results.get(result, result) for result, names in rows for name in re.findall(r"`([a-z0-9_]+)`", names)
    }
    assert told == {name: vector["expect"] for name, vector in vectors.items()}
    assert len(told) >= 20
