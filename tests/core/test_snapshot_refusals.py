import base64
import gzip
import hashlib
import json
import tracemalloc

import pytest
from snapshot_files import ID, LABEL, MANIFEST, MEMORY, built, fields, restored

from colony_memory import snapshot
from colony_memory.exceptions import SnapshotCorrupt, UnsupportedFormat, UntrustedSnapshot


def manifest_with(**changed):
    return json.dumps({**fields(built(MEMORY, part_chars=64)), **changed})


P0, P1 = f"cmem.{LABEL}.{ID}.p0.json", f"cmem.{LABEL}.{ID}.p1.json"
COUNT = len(built(MEMORY, part_chars=64).files) - 1


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"format": None}, "format should be a string"),
        ({"codec": 1}, "codec should be a string"),
        ({"created_at": 7}, "created_at should be a string"),
        ({"plaintext_sha256": "sha256:" + "0" * 63}, "plaintext_sha256 should be"),
        ({"plaintext_sha256": "sha256:" + "A" * 64}, "plaintext_sha256 should be"),
        ({"plaintext_sha256": "sha256:" + "0" * 64 + "\n"}, "plaintext_sha256 should be"),
        ({"doc_names": "MEMORY.md"}, "doc_names should be a list of strings"),
        ({"doc_names": ["MEMORY.md", 1]}, "doc_names should be a list of strings"),
        ({"byte_size": -1}, "byte_size should be a count"),
        ({"byte_size": True}, "byte_size should be a count"),
        ({"blob_chars": None}, "blob_chars should be a count"),
        ({"part_count": float(COUNT)}, "part_count should be a count"),
        ({"part_count": 2**53 - 1}, "part_files and part_count differ"),
        ({"byte_size": 2**53}, "byte_size should be a count"),
        ({"part_count": 0, "part_files": []}, "part_files and part_count differ"),
        ({"part_files": None}, "part_files and part_count differ"),
        ({"part_files": [P0]}, "part_files and part_count differ"),
        ({"part_count": 2, "part_files": [P0, P0]}, "part_files names files that are not its own"),
        ({"part_count": 2, "part_files": [P1, P0]}, "part_files names files that are not its own"),
        ({"part_count": 1, "part_files": [[P0]]}, "part_files names files that are not its own"),
    ],
)
def test_a_manifest_that_is_wrong_is_named(changed, what):
    with pytest.raises(SnapshotCorrupt) as caught:
        snapshot.read_manifest(manifest_with(**changed), label=LABEL, snapshot_id=ID)
    assert str(caught.value).startswith(f"{MANIFEST} is not a manifest of this snapshot: {what}")
    assert caught.value.file == MANIFEST
    assert type(caught.value) is SnapshotCorrupt


@pytest.mark.parametrize("key", sorted({*fields(built(MEMORY))} - {"tree"}))
def test_every_field_is_needed(key):
    raw = fields(built(MEMORY))
    del raw[key]
    with pytest.raises(SnapshotCorrupt):
        snapshot.read_manifest(json.dumps(raw), label=LABEL, snapshot_id=ID)
    with pytest.raises(SnapshotCorrupt) as caught:
        snapshot.info_from_manifest(raw)
    assert caught.value.file is None
    assert "the manifest" in str(caught.value)


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"format": "colony-memory/3"}, "unsupported snapshot format: 'colony-memory/3'"),
        ({"format": "x" * 100_000}, "unsupported snapshot format: 'xxx"),
        ({"codec": "zstd"}, "unsupported codec: 'zstd'"),
        ({"codec": "\ud800" * 100}, "unsupported codec: "),
        ({"format": "colony-memory/3", "part_files": [], "part_count": 0}, "unsupported snapshot format"),
    ],
)
def test_another_format_is_unsupported_and_not_broken(changed, what):
    with pytest.raises(UnsupportedFormat, match=what) as caught:
        snapshot.read_manifest(manifest_with(**changed), label=LABEL, snapshot_id=ID)
    assert caught.value.file == MANIFEST
    assert len(str(caught.value)) < 1000
    str(caught.value).encode("utf-8")


@pytest.mark.parametrize("text", ["", "{", "null", "[]", "\x00", '{"format":1,"format":2}', "[" * 100_000, "\ud800"])
def test_a_manifest_that_is_no_json_object_is_named(text):
    with pytest.raises(SnapshotCorrupt, match=f"manifest {MANIFEST} is not readable") as caught:
        snapshot.read_manifest(text, label=LABEL, snapshot_id=ID)
    assert caught.value.file == MANIFEST


def part_with(**changed):
    return json.dumps({**json.loads(built(MEMORY, part_chars=64).files[P1]), **changed})


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[]", "part file .* is damaged: a JSON object was expected"),
        ('{"seq":1,"seq":1}', "part file .* is damaged: a key is there twice"),
        (part_with(format="colony-memory/2"), "part file .* is not part 1 of this snapshot"),
        (part_with(seq=True), "part file .* is not part 1 of this snapshot"),
        (part_with(b64=None), "part file .* is not part 1 of this snapshot"),
        ("{}", "part file .* is not part 1 of this snapshot"),
    ],
)
def test_a_part_that_is_wrong_is_named(text, what):
    made = built(MEMORY, part_chars=64)
    parts = {**made.files, P1: text}
    with pytest.raises(SnapshotCorrupt, match=what) as caught:
        snapshot.parse(fields(made), parts)
    assert caught.value.file == P1
    assert P1 in str(caught.value)


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"blob_chars": 0}, r"the parts hold \d+ characters, not the 0 that the manifest says"),
        ({"doc_names": []}, "do not hold its documents: there are more than the 0 documents that the manifest lists"),
        ({"doc_names": ["MEMORY.md"]}, "there are more than the 1 documents that the manifest lists"),
        ({"doc_names": [*fields(built(MEMORY))["doc_names"][1:], "x"]}, "lists other documents than its parts hold"),
        ({"doc_names": [*fields(built(MEMORY))["doc_names"], "more"]}, "lists other documents than its parts hold"),
    ],
)
def test_a_manifest_that_does_not_match_its_parts_is_named(changed, what):
    made = built(MEMORY, part_chars=64)
    with pytest.raises(SnapshotCorrupt, match=what) as caught:
        snapshot.parse({**fields(made), **changed}, made.files)
    assert caught.value.file == MANIFEST
    assert MANIFEST in str(caught.value)


def forged(plaintext, names, *, compress=gzip.compress):
    """A snapshot whose numbers are all right, of any plain text."""
    blob = base64.b64encode(compress(plaintext)).decode()
    part = {"format": snapshot.FORMAT, "snapshot_id": ID, "seq": 0, "b64": blob}
    raw = fields(built(MEMORY)) | {
        "doc_names": names,
        "plaintext_sha256": "sha256:" + hashlib.sha256(plaintext).hexdigest(),
        "byte_size": len(plaintext),
        "blob_chars": len(blob),
        "part_count": 1,
        "part_files": [P0],
        "tree": None,
    }
    return {P0: json.dumps(part), MANIFEST: json.dumps(raw)}


@pytest.mark.parametrize(
    ("plaintext", "documents"),
    [
        (b"{}", {}),
        (b' { "a" : "x" ,\n"B":"\\u0079" } ', {"a": "x", "B": "y"}),
        (b'{"a":"\xed\xa0\xbd"}', {"a": "\ud83d"}),
    ],
)
def test_json_of_another_spelling_is_read(plaintext, documents):
    assert restored(forged(plaintext, sorted(documents))) == documents


@pytest.mark.parametrize("signature", ["x", False, 0, [], {}, {"alg": "none"}, {"alg": "ed25519"}])
def test_a_signature_of_another_shape_is_not_taken_for_none(signature):
    made = built(MEMORY)
    raw = {**fields(made), "signature": signature}
    with pytest.raises(UntrustedSnapshot):
        snapshot.parse(raw, made.files, verify_signature=True)
    assert snapshot.parse(raw, made.files) == MEMORY


@pytest.mark.parametrize(
    ("label", "snapshot_id"),
    [
        ("Work", ID),
        ("-", ID),
        ("work-", ID),
        ("../work", ID),
        ("", ID),
        (LABEL, "../x"),
        (LABEL, "_"),
        (LABEL, "a" * 65),
    ],
)
def test_a_manifest_of_no_label_or_no_id_is_none_whoever_asks(label, snapshot_id):
    raw = {**fields(built(MEMORY)), "label": label, "snapshot_id": snapshot_id}
    raw["part_files"] = [snapshot.part_filename(label, snapshot_id, 0)]
    with pytest.raises(SnapshotCorrupt, match="are no label and id"):
        snapshot.info_from_manifest(raw)


def test_a_list_of_parts_costs_no_more_than_it_is_long():
    raw = {**fields(built(MEMORY)), "part_count": 300_000, "part_files": [""] * 300_000}
    tracemalloc.start()
    try:
        with pytest.raises(SnapshotCorrupt, match="part_files names files that are not its own"):
            snapshot.info_from_manifest(raw)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_documents_that_the_manifest_does_not_list_are_never_built():
    """Small documents take many times the memory of the plain text, and that many times that of the vault's files."""
    plain = ("{" + ",".join(f'"{number:x}":""' for number in range(80_000)) + "}").encode()
    files = forged(plain, ["0", "1"])
    tracemalloc.start()
    try:
        with pytest.raises(SnapshotCorrupt, match="more than the 2 documents that the manifest lists"):
            restored(files)
        assert tracemalloc.get_traced_memory()[1] < 4 * len(plain)
    finally:
        tracemalloc.stop()


def test_parse_binds_to_what_was_asked_for():
    made = built(MEMORY)
    assert snapshot.parse(fields(made), made.files, label=LABEL, snapshot_id=ID) == MEMORY
    assert snapshot.parse(fields(made), made.files, label=LABEL) == MEMORY
    for asked in (
        {"label": "other"},
        {"label": ""},
        {"snapshot_id": "other"},
        {"snapshot_id": ""},
        {"label": LABEL, "snapshot_id": "other"},
    ):
        with pytest.raises(SnapshotCorrupt, match="it is the one of label 'work'") as caught:
            snapshot.parse(fields(made), made.files, **asked)
        assert (caught.value.file is None) == (len(asked) < 2)


def test_no_more_than_max_bytes_is_read():
    made = built(MEMORY)
    size = made.info.byte_size
    assert snapshot.parse(fields(made), made.files, max_bytes=size) == MEMORY
    with pytest.raises(
        SnapshotCorrupt, match=f"says {size} bytes, more than the {size - 1} that this client takes"
    ) as caught:
        snapshot.parse(fields(made), made.files, max_bytes=size - 1)
    assert caught.value.file == MANIFEST


def test_a_size_that_is_too_large_to_hold_is_refused_before_reading():
    with pytest.raises(SnapshotCorrupt, match="more than the 268435456 that this client takes"):
        snapshot.parse({**fields(built(MEMORY)), "byte_size": 2**53 - 1}, {})
