"""The reader in `examples/reader`, written from SNAPSHOT-FORMAT.md alone, says of a vault what this package says."""

import hashlib
import json
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from colony_memory import (
    ColonyMemory,
    DecryptionError,
    SnapshotCorrupt,
    SnapshotNotFound,
    UnsupportedFormat,
    UntrustedSnapshot,
    open_vault,
)

pytest.importorskip("cryptography")
pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(shutil.which("node") is None, reason="there is no node"),
    pytest.mark.skipif(shutil.which("zstd") is None, reason="there is no zstd"),
    pytest.mark.filterwarnings("ignore::colony_memory.exceptions.ColonyMemoryWarning"),
]

ROOT = Path(__file__).parents[2]
READER = ROOT / "examples" / "reader"
VECTORS = sorted((ROOT / "tests" / "vectors").glob("*/*.json"))
KINDS = {
    SnapshotNotFound: "absent",
    UnsupportedFormat: "unsupported",
    SnapshotCorrupt: "corrupt",
    UntrustedSnapshot: "untrusted",
    DecryptionError: "encrypted",
}
MARKER = '{"format":"colony-memory/vault/1","id":"8f3b0c6d5e4a49718293a4b5c6d7e8f9"}'
PAIR = "\ud83d" + "\ude00"
AWKWARD = {
    "a\nb": "c",
    "": "the empty name",
    "nul\0": "\0\x01\x1f\x7f\u2028",
    "\ud83d": "half \ude00\ud83d and " + PAIR + "\ude00",
    PAIR: "a pair that is two",
    "\U0001f600": "one that is one",
    "\uffff": "before the emoji by code point, behind it by unit",
    "\\ud83d": "no surrogate",
    '"[/': "escapes " * 50,
    "nfc \u00e9": "e\u0301",
    "crlf": "a\r\nb\ufeff",
}

# Reads a request a line; one process is enough for all.
ASKED = """
import { createInterface } from "node:readline";
import { canonical } from "./json.mjs";
import { readSnapshot } from "./latest.mjs";
import { readIssuers } from "./read.mjs";
import { Directory, foldLabel } from "./vault.mjs";
for await (const line of createInterface({ input: process.stdin })) {
  const { vault, label, id, issuers, maxBytes } = JSON.parse(line);
  let said;
  try {
    const asked = { label: foldLabel(label), id, issuers: readIssuers(issuers), ...(maxBytes ? { maxBytes } : {}) };
    const { memory } = readSnapshot(new Directory(vault), asked);
    said = { kind: "ok", plain: Buffer.from(canonical(memory), "latin1").toString("hex") };
  } catch (error) {
    said = { kind: error.kind ?? `${error.stack}` };
  }
  console.log(JSON.stringify(said));
}
"""


class Reader:
    def __init__(self):
        self.process = subprocess.Popen(
            ["node", "--input-type=module", "-e", ASKED],
            cwd=READER,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="ascii",
        )

    def __call__(self, vault, label="default", **asked):
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        request = {"vault": str(vault), "label": label, "id": None, "issuers": None, **asked}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        said = json.loads(self.process.stdout.readline())
        if said["kind"] != "ok":
            return said["kind"], None
        return "ok", json.loads(bytes.fromhex(said["plain"]).decode("utf-8", "surrogatepass"))


@pytest.fixture(scope="module")
def read():
    reader = Reader()
    yield reader
    assert reader.process.stdin is not None
    assert reader.process.stdout is not None
    reader.process.stdin.close()
    assert reader.process.wait() == 0
    reader.process.stdout.close()


def by_package(vault, issuers=None, **asked):
    memory = ColonyMemory(backend=open_vault(vault.as_uri()), trusted_issuers=issuers)
    try:
        return "ok", memory.restore(**asked)
    except tuple(KINDS) as error:
        return next(kind for each, kind in KINDS.items() if isinstance(error, each)), None


def laid(at, files):
    at.mkdir()
    (at / ".cmem-vault.json").write_text(MARKER, encoding="ascii")
    for name, text in files.items():
        (at / name).write_bytes(text.encode("utf-8", "surrogatepass"))
    return at


def test_each_vector_gets_its_verdict(read, tmp_path):
    wrong = {}
    for path in VECTORS:
        vector = json.loads(path.read_text(encoding="ascii"))
        request = vector["request"]
        vault = laid(tmp_path / f"{path.parent.name}-{path.stem}", vector["files"])
        asked = {"id": request["snapshot_id"], "issuers": request["trusted_issuers"]}
        kind, documents = read(vault, request["label"], **asked, maxBytes=request.get("max_bytes"))
        expect = vector.get("expect_without", vector["expect"])  # it has no key
        expected = {"not_found": "absent"}.get(expect, expect)
        right = kind == expected
        if right and kind == "ok" and "documents" in vector:
            right = documents == vector["documents"]
        elif right and kind == "ok":
            plain = json.dumps(documents, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
            right = hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest() == vector["documents_sha256"]
        if not right:
            wrong[path.stem] = (expected, kind)
    assert not wrong
    assert len(VECTORS) > 90


def signed_vault(at):
    from colony_memory import Ed25519Signer

    signer = Ed25519Signer(bytes(range(32)))
    memory = ColonyMemory(backend=open_vault(at.as_uri(), create=True, format=1), signer=signer)
    noise = random.Random(1)
    ids = [memory.backup({**AWKWARD, "n": str(n), "noise": noise.randbytes(2000).hex()}).snapshot_id for n in range(4)]
    return at, ids, signer.did_key


def test_what_this_package_writes_is_read(read, tmp_path, monkeypatch):
    monkeypatch.setattr("colony_memory.snapshot.PART_CHARS", 1001)
    vault, ids, did = signed_vault(tmp_path / "vault")
    assert len(list(vault.glob("*.p*.json"))) > 12
    for issuers in (None, [did]):
        assert read(vault, issuers=issuers) == by_package(vault, issuers)
        assert read(vault, issuers=issuers)[0] == "ok"
        for each in ids:
            assert read(vault, id=each, issuers=issuers) == by_package(vault, issuers, snapshot_id=each)
    assert read(vault, issuers=[f"{did}@{ids[1]}"], id=ids[2])[0] == "untrusted"
    assert read(vault, issuers=[f"{did}@{ids[2]}"], id=ids[2])[0] == "ok"
    assert read(vault, "another")[0] == "absent"


def edited(path, **changes):
    raw = {**json.loads(path.read_text(encoding="utf-8")), **changes}
    path.write_text(json.dumps({key: value for key, value in raw.items() if value is not ...}), encoding="utf-8")


def test_what_is_altered_is_judged_alike(read, tmp_path):
    whole, ids, did = signed_vault(tmp_path / "whole")
    latest = "cmem.default.latest.json"
    newest, oldest = (f"cmem.default.{each}" for each in (ids[3], ids[0]))
    foreign = "cmem.default.zz-old.manifest.json"
    edits = {
        "nothing": lambda at: None,
        "unsigned pointer": lambda at: edited(at / latest, signature=...),
        "pointer to another": lambda at: edited(
            at / latest, snapshot_id=ids[0], manifest_file=f"{oldest}.manifest.json", signature=...
        ),
        "pointer to nothing, unsigned": lambda at: edited(at / latest, snapshot_id="", manifest_file="", signature=...),
        "pointer half empty": lambda at: edited(at / latest, snapshot_id=""),
        "newest manifest gone": lambda at: (at / f"{newest}.manifest.json").unlink(),
        "no pointer, newest part gone": lambda at: ((at / latest).unlink(), (at / f"{newest}.p0.json").unlink()),
        "no pointer, another format": lambda at: (
            (at / latest).unlink(),
            edited(at / f"{newest}.manifest.json", format="colony-memory/9"),
        ),
        "signature dropped": lambda at: edited(at / f"{newest}.manifest.json", signature=...),
        "signature null": lambda at: edited(at / f"{newest}.manifest.json", signature=None),
        "signature false": lambda at: edited(at / f"{newest}.manifest.json", signature=False),
        "blob_chars": lambda at: edited(at / f"{newest}.manifest.json", blob_chars=1, signature=...),
        "doc_names in another order": lambda at: edited(
            at / f"{newest}.manifest.json",
            doc_names=json.loads((at / f"{newest}.manifest.json").read_text())["doc_names"][::-1],
            signature=...,
        ),
        "a count that is a float": lambda at: edited(at / f"{newest}.manifest.json", part_count=1.0, signature=...),
        "a count that is true": lambda at: edited(at / f"{newest}.manifest.json", part_count=True, signature=...),
        "another id's file": lambda at: shutil.copy(at / f"{newest}.manifest.json", at / foreign),
        "only the pointer": lambda at: [each.unlink() for each in at.glob("cmem.*[0-9]Z*")],
        "a mark before it": lambda at: (at / f"{newest}.manifest.json").write_bytes(
            b"\xef\xbb\xbf" + (at / f"{newest}.manifest.json").read_bytes()
        ),
    }
    for n, (name, edit) in enumerate(edits.items()):
        vault = tmp_path / f"altered-{n}"
        shutil.copytree(whole, vault)
        edit(vault)
        for issuers in (None, [did], ["did:key:z6MkneMkZqwqRiU5mJzSG3kDwzt9P8C59N4NGTfBLfSGE7c7"]):
            assert read(vault, issuers=issuers) == by_package(vault, issuers), (name, issuers)


def test_an_older_pointer_is_found_out_alike(read, tmp_path):
    from colony_memory import Ed25519Signer

    at = tmp_path / "vault"
    memory = ColonyMemory(backend=open_vault(at.as_uri(), create=True), signer=Ed25519Signer(bytes(range(32))))
    did = Ed25519Signer(bytes(range(32))).did_key
    memory.backup({"n": "0"})
    pointer = (at / "cmem.default.latest.json").read_bytes()
    for n in (1, 2):
        memory.backup({"n": str(n)})
    (at / "cmem.default.latest.json").write_bytes(pointer)
    assert read(at, issuers=[did]) == ("untrusted", None) == by_package(at, [did])
    assert read(at) == ("ok", {"n": "0"}) == by_package(at)


def test_what_is_signed_may_hold_any_integer_and_no_other_number(read, tmp_path):
    from colony_memory import Ed25519Signer
    from colony_memory.signing import sign_manifest
    from colony_memory.snapshot import build

    signer = Ed25519Signer(bytes(range(32)))
    built = build({"a": "b"}, label="default", snapshot_id="20260101T000000000000Z-000000", created_at="now")
    plain = json.loads(built.files[built.manifest_file])
    # Sorted as they are: escaped, the quote would come behind the bracket.
    plain |= {
        "[": 2**53 + 1,
        '"': -(2**70),
        "\ud83d": 0,
        "\uffff": "\udfff",
        "\U0001f600": [True, None, "\x7f/\u2028\x1f"],
    }
    signed = json.dumps({**plain, "signature": sign_manifest(plain, signer)})
    for n, (text, kind) in enumerate(
        [
            (signed, "ok"),
            (signed.replace(' "\\ud83d": 0,', ' "\\ud83d": -0,'), "ok"),
            (signed.replace(' "\\ud83d": 0,', ' "\\ud83d": 0.0,'), "untrusted"),
            (signed.replace(' "\\ud83d": 0,', ' "\\ud83d": 0e0,'), "untrusted"),
            (signed.replace(str(2**53 + 1), str(2**53)), "untrusted"),
        ]
    ):
        vault = laid(tmp_path / str(n), {**built.files, built.manifest_file: text})
        for issuers in (None, [signer.did_key]):
            asked = {"issuers": issuers, "id": built.info.snapshot_id}
            assert read(vault, **asked)[0] == kind == by_package(vault, issuers, snapshot_id=asked["id"])[0], n


def test_chains_are_read_at_every_state(read, tmp_path):
    from chains import build_all, growing, snapshot_id

    from colony_memory import Ed25519Signer

    signer = Ed25519Signer(bytes(range(32)))
    history = [*growing(24), AWKWARD, {**AWKWARD, "one": "more"}]
    files, _ = build_all(history, signer=signer)
    vault = laid(tmp_path / "vault", files)
    for n, documents in enumerate(history):
        assert read(vault, id=snapshot_id(n), issuers=[signer.did_key]) == ("ok", documents)
    # Without a pointer the newest is taken.
    assert read(vault) == ("ok", history[-1])


def run(*arguments):
    command = ["node", str(READER / "read.mjs"), *map(str, arguments)]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", check=False)


def test_the_command_writes_the_documents(tmp_path):
    documents = {"MEMORY.md": "# memory\r\n", "notes/日記.md": "今日は🌤\n", "empty": ""}
    memory = ColonyMemory(backend=open_vault((tmp_path / "vault").as_uri(), create=True))
    memory.backup(documents)
    done = run(tmp_path / "vault", " Default ", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    written = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    found = {path.relative_to(tmp_path / "out").as_posix(): path.read_bytes().decode() for path in written}
    assert found == documents
    assert run(tmp_path / "vault", "default", tmp_path / "out").returncode == 2
    assert run(tmp_path / "vault", "other", tmp_path / "new").returncode == 3
    assert run(tmp_path, "default", tmp_path / "new").returncode == 5
    memory.backup({"../up": "and away"})
    done = run(tmp_path / "vault", "default", tmp_path / "new")
    assert (done.returncode, (tmp_path / "up").exists(), (tmp_path / "new").exists()) == (2, False, False)
    assert json.loads(run(tmp_path / "vault", "default", "-").stdout) == {"../up": "and away"}
