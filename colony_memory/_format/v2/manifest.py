"""Pure: the manifest of a snapshot of format 2, every field checked.

It has the fields of format 1 that 0.1.1 asks for, and of them ``part_count`` 0 and ``part_files`` empty, so that 0.1.1
finds nothing to delete with it; that client refuses to restore another format than its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from colony_memory._format.constants import FORMAT_2
from colony_memory._format.manifest import Manifest, summarize
from colony_memory._format.names import is_digest, manifest_filename, pack_filename, read_filename
from colony_memory._format.v2.chain import MAX_READ_PACKS
from colony_memory.exceptions import SnapshotCorrupt, UnsupportedFormat

if TYPE_CHECKING:
    from collections.abc import Mapping

CODEC = "zstd+base64"
#: Of what is encrypted by age.
SEALED_CODEC = "zstd+age+base64"
#: Files that a snapshot may need: whoever reads one asks for all of them at once.
MAX_FILES = 10_000
# What a JSON reader of any language holds exactly.
_LARGEST = 2**53 - 1


@dataclass(frozen=True)
class ChainManifest(Manifest):
    """A manifest of format 2; ``part_files`` are all files that it needs, base first, ``blob_chars`` their bytes.

    Attributes:
        pack_bytes: Bytes of each file of each pack.
        pack_sha256: Digest of the last pack.
        levels: How often what each pack holds was folded.
        on_base: Snapshots that were made on the base before it.
        doc_count: Number of documents; 0 where that is encrypted.
        sealed: base64 of what is told to those alone who hold a key, empty where nothing is encrypted.
        passphrase_key: base64 of a key that a passphrase opens, empty where there is none.
    """

    pack_bytes: tuple[tuple[int, ...], ...] = ()
    pack_sha256: str = ""
    levels: tuple[int, ...] = ()
    on_base: int = 0
    doc_count: int = 0
    sealed: str = ""
    passphrase_key: str = ""


def check_manifest(
    raw: Mapping[str, Any], sha256: str, *, label: str | None = None, snapshot_id: str | None = None
) -> ChainManifest:
    """Check every field of a manifest of format 2 that came out of a vault.

    Args:
        raw: The JSON object.
        sha256: Digest of the file's text.
        label: Label that it must be of.
        snapshot_id: Id that it must be of.

    Raises:
        UnsupportedFormat: Another format or codec.
        SnapshotCorrupt: Anything that is not as the format says.
    """
    file = None if label is None or snapshot_id is None else manifest_filename(label, snapshot_id)
    check = _Check(raw, file)
    for key, known in (("format", (FORMAT_2,)), ("codec", (CODEC, SEALED_CODEC))):
        if check.text(key) not in known:
            msg = f"unsupported {key}: {raw[key][:80]!r} in {check.name}; a newer colony-memory may read it"
            raise UnsupportedFormat(msg, file=file)
    own_id, own_label = check.text("snapshot_id"), check.text("label")
    asked = (own_id if snapshot_id is None else snapshot_id, own_label if label is None else label)
    if (own_id, own_label) != asked:
        raise check.wrong(f"it is the one of label {own_label[:80]!r}, id {own_id[:80]!r}")
    if not _is_place(own_label, own_id):
        raise check.wrong(f"{own_label[:80]!r} and {own_id[:80]!r} are no label and id")
    encrypted = raw["codec"] == SEALED_CODEC
    if encrypted and (raw.get("plaintext_sha256"), check.number("byte_size")) != ("", 0):
        raise check.wrong("it tells what is to be encrypted")
    for key in ("pack_sha256",) if encrypted else ("plaintext_sha256", "pack_sha256"):
        if not is_digest(raw.get(key)):
            raise check.wrong(f"{key} should be 'sha256:' and 64 hex digits")
    if check.number("part_count") or raw.get("part_files") != [] or raw.get("doc_names") != []:
        raise check.wrong("it has parts or names of format 1")
    packs = check.items("packs", str)
    if not 1 <= len(packs) <= MAX_READ_PACKS or packs[-1] != own_id or len({*packs}) < len(packs):
        raise check.wrong(f"packs should be up to {MAX_READ_PACKS} ids, each once, its own the last")
    if not all(_is_place(own_label, each) for each in packs):
        raise check.wrong("packs names what is no id")
    sizes = tuple(check.counts(each, "pack_bytes") for each in check.items("pack_bytes", list))
    levels = check.counts(raw.get("levels"), "levels")
    if not len(sizes) == len(levels) == len(packs) or not all(sizes):
        raise check.wrong("packs, pack_bytes and levels differ")
    if sum(map(len, sizes)) > MAX_FILES:
        raise check.wrong(f"it needs more than {MAX_FILES} files")
    check.text("created_at")
    check.number("byte_size")
    # Derived, not trusted: a manifest cannot send anyone to files of another label.
    files = tuple(
        pack_filename(own_label, each, seq) for each, of in zip(packs, sizes, strict=True) for seq in range(len(of))
    )
    return ChainManifest(
        info=summarize(raw),
        raw=raw,
        sha256=sha256,
        part_files=files,
        blob_chars=sum(map(sum, sizes)),
        packs=packs,
        pack_bytes=sizes,
        pack_sha256=raw["pack_sha256"],
        levels=levels,
        on_base=check.number("on_base"),
        doc_count=0 if encrypted else check.number("doc_count"),
        sealed=check.text("sealed") if encrypted else "",
        passphrase_key=check.text("passphrase_key") if encrypted and "passphrase_key" in raw else "",
    )


@dataclass(frozen=True)
class _Check:
    """Fields of a JSON object, or an error that says which one is wrong."""

    raw: Mapping[str, Any]
    file: str | None

    @property
    def name(self) -> str:
        return self.file or "the manifest"

    def wrong(self, what: str) -> SnapshotCorrupt:
        return SnapshotCorrupt(f"{self.name} is not a manifest of this snapshot: {what}", file=self.file)

    def text(self, key: str) -> str:
        value = self.raw.get(key)
        if not isinstance(value, str):
            raise self.wrong(f"{key} should be a string")
        return value

    def number(self, key: str) -> int:
        return self.counts([self.raw.get(key)], key)[0]

    def counts(self, value: object, key: str) -> tuple[int, ...]:
        if not isinstance(value, list) or not all(type(each) is int and 0 <= each <= _LARGEST for each in value):
            raise self.wrong(f"{key} should be made of counts")
        return tuple(value)

    def items(self, key: str, kind: type) -> tuple[Any, ...]:
        value = self.raw.get(key)
        if not isinstance(value, list) or not all(isinstance(each, kind) for each in value):
            raise self.wrong(f"{key} should be a list of {kind.__name__}")
        return tuple(value)


def _is_place(label: str, snapshot_id: str) -> bool:
    return read_filename(f"cmem.{label}.{snapshot_id}.manifest.json") is not None


def raw_manifest(codec: str = CODEC, **facts: Any) -> dict[str, Any]:
    """The JSON object of a manifest, with what is the same in every one."""
    return {
        "format": FORMAT_2,
        **facts,
        "codec": codec,
        "doc_names": [],
        "part_count": 0,
        "part_files": [],
    }
