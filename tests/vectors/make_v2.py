"""Write the vectors of format 2 that are not there yet: python tests/vectors/make_v2.py

What is there stays as it is: a vector stands for bytes that are stored somewhere, and another libzstd writes others.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import age_keys
from age_files import locked_by
from chains import LABEL, build_all, build_at, growing, manifest_at, resealed, sealed, snapshot_id, vault_of
from frames import compress

from colony_memory._format import age
from colony_memory._format.age import Lock, Recipients
from colony_memory._format.catalog import Entry
from colony_memory._format.json import canonical
from colony_memory._format.lineage import Lineage
from colony_memory._format.names import pack_filename
from colony_memory._format.payload import sha256
from colony_memory._format.pointer import Pointer, write_pointer
from colony_memory._format.v2 import chain, state
from colony_memory._format.v2.zstd import _zstd, with_lead
from colony_memory.signing import Ed25519Signer

PLACE = Path(__file__).parent / "v2"
SIGNER, STRANGER = Ed25519Signer(bytes(range(32))), Ed25519Signer(bytes(range(32, 64)))
SECRET = age_keys.SECRET
RECIPIENT, STRANGER_RECIPIENT, STRANGER_SECRET = age_keys.RECIPIENT, age_keys.OTHER_RECIPIENT, age_keys.OTHER_SECRET
OPENS = {"identities": [SECRET]}
AWKWARD = {
    "": "the empty name",
    "a\nb": "c",
    "a": "b\nc",
    "CASE": "1",
    "case": "2",
    "cafe\u0301": "decomposed",
    "café": "composed",
    "😀": "after U+FFFF",
    "\uffff": "before U+10000",
    "\ud83d": "half of a pair",
    "two halves": "\ude00\ud83d",
    "nul": "\0",
    "ends": "\r\n\ufeff\u2028",
    "empty": "",
}
#: Would be one character each in a file of JSON escapes.
PAIR = {"a": "\ud83d\ude00", "\ud83d\ude00": "b"}
PUT = b'{"drop":[],"move":{},"put":{"a":1}}\nb'
LOOSE = b'{"bytes":["a"],"drop":[],"move":{},"put":{"a":1}}\nb'
UNKNOWN = b'{"bytes":["b"],"drop":[],"move":{},"put":{"a":1}}\nb'
NO_PLACE = b'{"bytes":["a"],"drop":[],"move":{},"put":{".colony-memory/folder.json":2,"a":1}}\n{}b'
RECORD = ".colony-memory/folder.json"


def folder(**files: bytes) -> dict[str, str]:
    """A folder with files that are no text."""
    spelled = {name: base64.b64encode(data).decode() for name, data in files.items()}
    record = {"empty_dirs": ["é"], "executable": [], "files": spelled, "format": "colony-memory/folder/1"}
    return {"MEMORY.md": "One line.\n", RECORD: canonical(record).decode()}


TAKEN = b'{"drop":[],"move":{},"put":{"b":[1,[0,3],[2,1],2],"c":[],"d":[[0,3]]}}\n<>!'
TAKES = {"a": "b", "b": "<a\nbb>!", "c": "", "d": "a\nb"}
LONG = " ".join(f"{n * n:x}" for n in range(2000))
IN_PART = [
    {"a": "left", "long": LONG, "z": "right"},
    {"a": "left and on", "long": f"before {LONG[:6000]} between {LONG[6000:]}", "z": "right"},
    {"a": "left and on", "b": "new", "long": f"before {LONG[5000:6000]} between {LONG[6000:]}", "z": "right"},
    {"long": f"before {LONG[5000:6000]} between, as ever, {LONG[6000:]} behind", "y": "right", "b": "told anew"},
]
BINARY = bytes(range(256))
FOLDERS = [
    folder(a=BINARY, b=b"\xffb"),
    folder(a=b"\xff" + BINARY, c=b"\xffb"),
    folder(**{"a": b"\xff" + BINARY, "empty": b"", 'é"\ud83d': b"\xfe"}),
    folder(**{"a": BINARY, "MEMORY.md": b"\xff"}),
]
HISTORY = [
    {"MEMORY.md": "One line.\n", "old name.md": "It is moved later, and stays the same.\n", "gone.md": "not for long"},
    {"MEMORY.md": "One line.\nAnd one more.\n", "new name.md": "It is moved later, and stays the same.\n"},
    {"MEMORY.md": "One line, told anew.\nAnd one more.\n", "new name.md": "It is moved later, and stays the same.\n"},
]


def pointer_to(files: dict[str, str], n: int) -> dict[str, str]:
    """The files with a pointer that names and lists a snapshot."""
    manifest = manifest_at(files, n)
    pointer = Pointer(
        LABEL, snapshot_id(n), "2026-01-02T00:00:00Z", 1, "0" * 16, (Entry(manifest.info, manifest.sha256),)
    )
    return {**files, f"cmem.{LABEL}.latest.json": write_pointer(pointer)}


def without(files: dict[str, str], name: str) -> dict[str, str]:
    return {each: text for each, text in files.items() if each != name}


def replaced(files: dict[str, str], name: str, old: str, new: str) -> dict[str, str]:
    assert files[name].count(old) == 1
    return {**files, name: files[name].replace(old, new)}


def two(**changes: Any) -> dict[str, str]:
    """A base and a patch of one letter, the file of the patch changed, every digest right."""
    files = vault_of(compress(PUT, b""), compress(PUT, b"a\nb"))
    top = pack_filename(LABEL, snapshot_id(1), 0)
    return resealed(files, top, {**json.loads(files[top]), **changes})


def padded(sealed: bytes, stanzas: list[bytes]) -> bytes:
    """An age file with more stanzas, right in all else: what it is encrypted to opens it in a reader without bounds."""
    head, _, rest = sealed.partition(b"\n--- ")
    share = head.split(b"\n")[1].split(b" ")[2]
    wrapped = _unpadded(head.split(b"\n")[2])
    five = ["qpzry9x8gf2tvdw0s3jn54khce6mua7l".index(char) for char in SECRET.lower().rpartition("1")[2]][:-6]
    number = 0
    for each in five:
        number = number << 5 | each
    private = X25519PrivateKey.from_private_bytes((number >> (5 * len(five) - 256)).to_bytes(32, "big"))
    shared = private.exchange(X25519PublicKey.from_public_bytes(_unpadded(share)))
    salt = _unpadded(share) + private.public_key().public_bytes_raw()
    key = _derived(shared, salt, b"age-encryption.org/v1/X25519")
    file_key = ChaCha20Poly1305(key).decrypt(bytes(12), wrapped, None)
    made = b"\n".join((head, *stanzas)) + b"\n---"
    mac = hmac.digest(_derived(file_key, b"", b"header"), made, "sha256")
    return made + b" " + base64.b64encode(mac).rstrip(b"=") + b"\n" + rest.partition(b"\n")[2]


def _unpadded(text: bytes) -> bytes:
    return base64.b64decode(text + b"=" * (-len(text) % 4))


def _derived(secret: bytes, salt: bytes, info: bytes) -> bytes:
    return HKDF(SHA256(), 32, salt, info).derive(secret)


def encrypted() -> dict[str, tuple[str, dict[str, Any]]]:
    """Vectors of what is encrypted; ``without`` is the verdict of a reader without a key, where that is another."""
    lock, words = Lock((RECIPIENT,)), Recipients((RECIPIENT,), "correct horse")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chain, "_pays", lambda *_: True)
        files, built = build_all(HISTORY, lock=lock, note="private", incomplete=["sock: is a socket"])
        signed, _ = build_all(HISTORY, lock=lock, signer=SIGNER)
        patch.setattr(age._age().passphrase, "encrypt", lambda plain, text: locked_by(text, plain))
        spoken, spoken_built = build_all(HISTORY, lock=words.lock())
        patch.setattr(chain, "PACK_CHARS", 400)
        sliced, _ = build_all(HISTORY, lock=lock)
    names = [pack_filename(LABEL, snapshot_id(n), 0) for n in range(3)]
    top = json.loads(files[names[2]])
    age_file = base64.b64decode(top["data"])
    key = base64.b64encode(locked_by("correct horse", b"AGE-SECRET-KEY-1", claimed=30)).decode()
    flood = b"age-encryption.org/v1\n" + b"-> X25519 AAAA\nAAAA\n" * 2000 + b"--- x\n"
    zeros = compress(b'{"drop":[],"move":{},"put":{"a":%d}}\n' % 2**24 + b"\0" * 2**24, b"")

    def with_pack(data: bytes) -> dict[str, str]:
        text = json.dumps({**top, "data": base64.b64encode(data).decode()})
        sizes = [*manifest_at(files, 2).pack_bytes[:-1], [len(text)]]
        return sealed({**files, names[2]: text}, built[2], pack_bytes=sizes, pack_sha256=sha256(text.encode()))

    def ok(files: dict[str, str], n: int = 2, **more: Any) -> dict[str, Any]:
        return {"files": files, "n": n, "documents": HISTORY[n], "without": "encrypted", **OPENS, **more}

    def no(files: dict[str, str], expect: str = "corrupt", **more: Any) -> dict[str, Any]:
        return {"files": files, "n": 2, "expect": expect, **OPENS, **more}

    closed = {"without": "encrypted"}
    grease = [b"-> x-grease", b""] * (63 - age_file.partition(b"\n--- ")[0].count(b"\n-> "))
    full = [
        *grease,
        b"-> x-grease " + b"a" * (16_384 - len(padded(age_file, grease).partition(b"\n--- ")[0]) - 65),
        b"",
    ]
    return {
        "sealed_base": ("a base alone, encrypted", ok(pointer_to(build_at(0, HISTORY[0], lock=lock).files, 0), 0)),
        "sealed_patches": ("an encrypted base and two patches", ok(pointer_to(files, 2), latest=True)),
        "sealed_many_files": ("encrypted packs of many files", ok(sliced)),
        "sealed_signed": ("encrypted, and signed by whom the reader pins", ok(signed, trusted=SIGNER)),
        "sealed_passphrase": ("a key that a passphrase opens", ok(spoken, identities=None, passphrase="correct horse")),
        "sealed_passphrase_too": ("the same, opened by a recipient's key", ok(spoken)),
        "sealed_no_identity": ("no key", no(files, "encrypted", identities=None)),
        "sealed_other_identity": ("another key", no(files, "encrypted", identities=[STRANGER_SECRET])),
        "sealed_passphrase_wrong": (
            "another passphrase", no(spoken, "encrypted", identities=None, passphrase="wrong")
        ),
        "sealed_unsigned_with_trust": ("not signed, where the reader pins", no(files, "untrusted", trusted=SIGNER)),
        "sealed_pack_missing": ("an encrypted pack is not there", no(without(files, names[1]))),
        "sealed_pack_damaged": (
            "one letter of an encrypted pack is another one", no(replaced(files, names[1], '"seq":0', '"seq":1'))
        ),
        "sealed_digest_in_the_clear": (
            "a manifest that tells the digest of what is encrypted",
            no(sealed(files, built[2], plaintext_sha256="sha256:" + "0" * 64)),
        ),
        "sealed_tree_in_the_clear": (
            "a tree beside what is encrypted",
            no(sealed(files, built[2], tree="sha256:" + "0" * 64)),
        ),
        "sealed_size_in_the_clear": ("the same with the size", no(sealed(files, built[2], byte_size=1))),
        "sealed_missing": ("a manifest without what is sealed", no(sealed(files, built[2], sealed=...))),
        "sealed_of_another": (
            "what is sealed is of another snapshot",
            no(sealed(files, built[2], sealed=json.loads(files[built[1].manifest_file])["sealed"]), **closed),
        ),
        "sealed_wrong": (
            "what is sealed lacks a field",
            no(sealed(files, built[2], sealed=base64.b64encode(lock.seal(b"{}")).decode()), **closed),
        ),
        "sealed_pack_cut": ("an age file that is cut short", no(with_pack(age_file[:-1]), **closed)),
        "sealed_pack_altered": (
            "an age file whose last byte is another",
            no(with_pack(age_file[:-1] + bytes([age_file[-1] ^ 1])), **closed),
        ),
        "sealed_pack_in_the_clear": ("a pack that is not encrypted", no(with_pack(compress(PUT, b"")), **closed)),
        "sealed_pack_for_another": (
            "a pack that is encrypted to somebody else",
            no(with_pack(Lock((STRANGER_RECIPIENT,)).seal(compress(PUT, b""))), "encrypted"),
        ),
        "sealed_header_long": ("an age file with too long a header", no(with_pack(flood), **closed)),
        "sealed_header_bytes": (
            "a header of more bytes than the bound, right in all else",
            no(with_pack(padded(age_file, [b"-> x-grease " + b"a" * 16_384, b""])), **closed),
        ),
        "sealed_header_stanzas": (
            "a header of more stanzas than the bound, right in all else",
            no(with_pack(padded(age_file, [b"-> x-grease", b""] * 64)), **closed),
        ),
        "sealed_header_full": (
            "a header of as many bytes and stanzas as the bounds are",
            ok(with_pack(padded(age_file, full))),
        ),
        "sealed_work": (
            "a passphrase that is to be worked on too long",
            no(sealed(spoken, spoken_built[2], passphrase_key=key), identities=None, passphrase="x", **closed),
        ),
        "sealed_bomb": ("more text than the reader takes", no(with_pack(lock.seal(zeros)), max_bytes=2**20, **closed)),
    }  # fmt: skip


def vectors() -> dict[str, tuple[str, dict[str, Any]]]:
    """Each vector by name: its comment, and what it holds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chain, "_pays", lambda *_: True)  # a base of so little would take no more
        files, built = build_all(HISTORY)
        signed, signed_built = build_all(HISTORY, signer=SIGNER)
        folders, _ = build_all(FOLDERS)
        patch.setattr(state, "WHOLE", 100)
        patch.setattr(state, "_LARGE", 400)
        in_part, _ = build_all(IN_PART)
        patch.undo()
        patch.setattr(chain, "_pays", lambda *_: True)
        patch.setattr(chain, "MAX_PACKS", 3)
        folded, _ = build_all(growing(6))
        patch.setattr(chain, "PACK_CHARS", 40)
        sliced, _ = build_all(HISTORY)
    names = [pack_filename(LABEL, snapshot_id(n), 0) for n in range(3)]
    assert [*manifest_at(files, 2).part_files] == names
    packer = _zstd().ZstdCompressor(options={_zstd().CompressionParameter.content_size_flag: 0})
    no_size = packer.compress(PUT) + packer.flush()
    zeros = b'{"drop":[],"move":{},"put":{"a":%d}}\n' % 2**24 + b"\0" * 2**24
    same = compress(b'{"drop":[],"move":{},"put":{}}\n', b"a\nb")
    twice = compress(b'{"drop":[],"move":{},"put":{"a":1,"a":1}}\nbb', b"")

    def ok(files: dict[str, str], n: int, documents: dict[str, str], **more: Any) -> dict[str, Any]:
        return {"files": files, "n": n, "documents": documents, **more}

    def no(files: dict[str, str], n: int = 0, expect: str = "corrupt", **more: Any) -> dict[str, Any]:
        return {"files": files, "n": n, "expect": expect, **more}

    honest = manifest_at(build_at(1, TAKES).files, 1).raw
    facts = {key: honest[key] for key in ("plaintext_sha256", "byte_size", "doc_count", "tree")}
    taken = vault_of(compress(PUT), compress(TAKEN), **facts)

    def lead_is(lead: bytes) -> dict[str, Any]:
        return no(vault_of(compress(PUT), with_lead(lead, compress(PUT))), 1)

    def takes(what: bytes, most: int = 10**6) -> dict[str, Any]:
        content = b'{"drop":[],"move":{},"put":{"a":[' + what + b"]}}\n"
        return no(vault_of(compress(PUT), compress(content)), 1, max_bytes=most)

    return {
        "base": ("a base alone", ok(pointer_to(build_at(0, HISTORY[0]).files, 0), 0, HISTORY[0], latest=True)),
        "patches": ("a base and two patches: put, move, drop", ok(pointer_to(files, 2), 2, HISTORY[2], latest=True)),
        "patches_older": ("an older state of the same chain", ok(pointer_to(files, 2), 1, HISTORY[1])),
        "folds": ("a base and packs that were folded", ok(folded, 5, growing(6)[5])),
        "many_files": ("packs of many files each", ok(sliced, 2, HISTORY[2])),
        "awkward": ("names and texts of every kind", ok(build_at(0, AWKWARD).files, 0, AWKWARD)),
        "bytes": ("files of a record: one is longer, one is moved", ok(folders, 1, FOLDERS[1])),
        "bytes_named": ("files of a record with names of every kind", ok(folders, 2, FOLDERS[2])),
        "bytes_as_text": ("a record that names a document as a file", ok(folders, 3, FOLDERS[3])),
        "bytes_without_record": ("a file that no record is there for", no(vault_of(compress(LOOSE)))),
        "bytes_no_place": ("a record without a place for files", no(vault_of(compress(NO_PLACE)))),
        "line_bytes_unknown": ("bytes that are not put", no(vault_of(compress(UNKNOWN)))),
        "prefix_in_part": ("a prefix that is parts of the state below", ok(in_part, 3, IN_PART[3])),
        "prefix_of_nothing": (
            "a prefix that is no part of the state below",
            ok(vault_of(compress(PUT), with_lead(b"", compress(PUT))), 1, {"a": "b"}),
        ),
        "prefix_beyond": ("a prefix of more than is below", lead_is(b"1 3")),
        "prefix_no_numbers": ("a prefix that is told in another way", lead_is(b"1 2 ")),
        "prefix_odd": ("a prefix whose last part has no size", lead_is(b"1")),
        "taken": ("contents that take over what is below", ok(taken, 1, TAKES)),
        "taken_beyond": ("a content that takes more than is below", takes(b"[1,3]")),
        "taken_nothing": ("a content that takes nothing from somewhere", takes(b"[1,0]")),
        "taken_no_place": ("a content that takes from nowhere", takes(b"[[1],2]")),
        "taken_without_end": ("a content that takes the same again and again", takes(b"[0,3]," * 900 + b"1", 1000)),
        "short_prefix": (
            "a state of less than 8 bytes is no prefix",
            ok(vault_of(compress(PUT, b""), compress(PUT, b"a\nb")), 1, {"a": "b"}),
        ),
        "many_packs": (
            "as many packs as a reader takes",
            ok(vault_of(compress(PUT, b""), *[same] * 63), 63, {"a": "b"}),
        ),
        "extra_fields": (
            "unknown fields in a manifest",
            ok(sealed(files, built[2], of_a_later_version=[1]), 2, HISTORY[2]),
        ),
        "signed": ("signed by whom the reader pins", ok(signed, 2, HISTORY[2], trusted=SIGNER)),
        "signed_by_stranger": ("signed by another key", no(signed, 2, "untrusted", trusted=STRANGER)),
        "unsigned_with_trust": ("not signed, where the reader pins", no(files, 2, "untrusted", trusted=SIGNER)),
        "signed_altered": (
            "the digest of the top pack was changed after signing",
            no(sealed(signed, signed_built[2], pack_sha256="sha256:" + "0" * 64), 2, "untrusted"),
        ),
        "codec_unknown": ("another codec", no(sealed(files, built[2], codec="age+zstd+base64"), 2, "unsupported")),
        "doc_names": ("a manifest with names", no(sealed(files, built[2], doc_names=["MEMORY.md"]), 2)),
        "part_files": ("a manifest with a part", no(sealed(files, built[2], part_count=1, part_files=[names[2]]), 2)),
        "packs_cycle": (
            "a pack twice in the chain",
            no(sealed(files, built[2], packs=[snapshot_id(0), snapshot_id(2), snapshot_id(2)]), 2),
        ),
        "packs_foreign": (
            "the last pack is not the snapshot's own",
            no(sealed(files, built[2], packs=[snapshot_id(0), snapshot_id(2), snapshot_id(1)]), 2),
        ),
        "packs_too_many": ("more packs than a reader takes", no(vault_of(compress(PUT, b""), *[same] * 64), 64)),
        "pack_bytes_differ": (
            "a size that is not the file's",
            no(sealed(files, built[2], pack_bytes=[[len(files[name]) + 1] for name in names]), 2),
        ),
        "pack_missing": ("a pack in the middle is not there", no(without(files, names[1]), 2)),
        "base_missing": ("the base is not there", no(without(files, names[0]), 2)),
        "pack_not_json": ("a pack that is cut short", no({**files, names[1]: files[names[1]][:-1]}, 2)),
        "base_damaged": (
            "one letter of the base is another one",
            no(replaced(files, names[0], '"seq":0', '"seq":1'), 2),
        ),
        "packs_swapped": (
            "two packs in each other's place",
            no({**files, names[0]: files[names[1]], names[1]: files[names[0]]}, 2),
        ),
        "pack_seq": ("a file that says another number", no(two(seq=1), 1)),
        "pack_of": ("a file that says another count", no(two(of=2), 1)),
        "below_other": ("a pack that stands on another one", no(two(below=snapshot_id(7)), 1)),
        "below_digest": ("a pack that stands on other content", no(two(below_sha256="sha256:" + "0" * 64), 1)),
        "below_missing": (
            "a pack that stands on nothing, and is not the base",
            no(two(below=None, below_sha256=None), 1),
        ),
        "base64_padding": ("base64 with padding inside", no(two(data="QQ==QQ=="), 1)),
        "frame_none": ("what is no zstd frame", no(vault_of(b"no frame"))),
        "frame_cut": ("a frame that is cut short", no(vault_of(compress(PUT, b"")[:-1]))),
        "frame_two": ("two frames", no(vault_of(compress(PUT, b""), same * 2), 1)),
        "frame_no_size": ("a frame that does not tell its size", no(vault_of(no_size))),
        "bomb": ("more text than the reader takes", no(vault_of(compress(zeros, b"")), max_bytes=2**20)),
        "line_missing": ("no line feed", no(vault_of(compress(b"{}", b"")))),
        "line_key_missing": ("a line without drop", no(vault_of(compress(b'{"move":{},"put":{"a":1}}\nb', b"")))),
        "line_key_twice": ("a document twice in a line", no(vault_of(twice))),
        "line_less_text": ("less text than the line says", no(vault_of(compress(PUT[:-1], b"")))),
        "line_more_text": ("more text than the line says", no(vault_of(compress(PUT + b"b", b"")))),
        "line_drop_unknown": (
            "a document is dropped that is not there",
            no(vault_of(compress(PUT, b""), compress(b'{"drop":["b"],"move":{},"put":{}}\n', b"")), 1),
        ),
        "line_move_twice": (
            "two documents become one",
            no(vault_of(compress(b'{"drop":[],"move":{},"put":{"a":0,"b":0}}\n', b""),
                        compress(b'{"drop":[],"move":{"a":"c","b":"c"},"put":{}}\n', b"")), 1),
        ),
        "text_not_utf8": ("a text that is not UTF-8", no(vault_of(compress(PUT[:-1] + b"\xff", b"")))),
        "sha256_mismatch": ("packs that hold another memory", no(vault_of(compress(PUT[:-1] + b"c", b"")))),
        "byte_size_differs": ("a size that is not the memory's", no(vault_of(compress(PUT, b""), byte_size=10))),
        "pair": ("both halves of a pair, as two code points", ok(build_at(0, PAIR).files, 0, PAIR)),
        "rewrites": (
            "a snapshot that stands for another one",
            ok(build_at(1, HISTORY[1], lineage=Lineage(rewrites=snapshot_id(0))).files, 1, HISTORY[1]),
        ),
        "tree": ("the digest of names and contents, of any name and text", ok(build_at(0, AWKWARD).files, 0, AWKWARD)),
        "tree_of_another": (
            "a tree that is not the memory's",
            no(sealed(files, built[2], tree=manifest_at(files, 1).tree), 2),
        ),
        "tree_no_digest": ("a tree that is no digest", no(sealed(files, built[2], tree="sha256:0"), 2)),
        "doc_count_differs": ("a count that is not the memory's", no(vault_of(compress(PUT, b""), doc_count=2))),
    }  # fmt: skip


def main() -> None:
    """Write what is not there."""
    PLACE.mkdir(exist_ok=True)
    for name, (comment, what) in {**vectors(), **encrypted()}.items():
        path = PLACE / f"{name}.json"
        if path.exists():
            continue
        trusted, documents = what.get("trusted"), what.get("documents")
        request = {
            "label": LABEL,
            "snapshot_id": None if what.get("latest") else snapshot_id(what["n"]),
            "trusted_issuers": trusted and [trusted.did_key],
        }
        for field in ("identities", "passphrase"):
            if what.get(field) is not None:
                request[field] = what[field]
        if "max_bytes" in what:
            request["max_bytes"] = what["max_bytes"]
        vector = {"name": name, "comment": comment, "made_by": "make_v2.py", "files": what["files"], "request": request}
        vector["expect"] = what.get("expect", "ok")
        if "without" in what:
            vector["expect_without"] = what["without"]
        if documents is PAIR:
            plain = json.dumps(documents, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
            vector["documents_sha256"] = hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()
        elif documents is not None:
            vector["documents"] = documents
        path.write_text(json.dumps(vector, indent=1) + "\n", encoding="ascii")
        print(path.name)


if __name__ == "__main__":
    main()
