"""Pure: the manifest of a snapshot of format 2, every field checked.

It has the fields of format 1 that 0.1.1 asks for, and of them ``part_count`` 0 and ``part_files`` empty, so that 0.1.1
finds nothing to delete with it; that client refuses to restore another format than its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from colony_memory._format import FORMAT_2
from colony_memory._format.manifest import Manifest, summarize
from colony_memory._format.names import pack_filename
from colony_memory._format.v1 import Fields, is_place
from colony_memory._format.v2.chain import MAX_READ_PACKS
from colony_memory._values import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

CODEC = "zstd+base64"
#: Of what is encrypted by age.
SEALED_CODEC = "zstd+age+base64"
#: Files that a snapshot may need: whoever reads one asks for all of them at once.
MAX_FILES = 10_000


@dataclass(frozen=True)
class ChainManifest(Manifest):
    """A manifest of format 2; ``part_files`` are all files that it needs, base first, ``blob_chars`` their bytes.

    Attributes:
        pack_bytes: Bytes of each file of each pack.
        pack_sha256: Digest of the last pack.
        levels: How often what each pack holds was folded.
        on_base: Snapshots that were made on the base before it.
        sealed: base64 of what is told to those alone who hold a key, empty where nothing is encrypted.
        passphrase_key: base64 of a key that a passphrase opens, empty where there is none.
    """

    pack_bytes: tuple[tuple[int, ...], ...] = ()
    pack_sha256: str = ""
    levels: tuple[int, ...] = ()
    on_base: int = 0
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
    fields = Fields(raw, label, snapshot_id)
    fields.one_of("format", (FORMAT_2,), "snapshot format")
    fields.one_of("codec", (CODEC, SEALED_CODEC), "codec")
    own_label, own_id = fields.place()
    encrypted = raw["codec"] == SEALED_CODEC
    if encrypted and (raw.get("plaintext_sha256"), fields.count("byte_size"), fields.tree()) != ("", 0, ""):
        raise fields.wrong("it tells what is to be encrypted")
    for key in ("pack_sha256",) if encrypted else ("plaintext_sha256", "pack_sha256"):
        fields.digest(key)
    if fields.count("part_count") or raw.get("part_files") != [] or raw.get("doc_names") != []:
        raise fields.wrong("it has parts or names of format 1")
    packs = fields.items("packs", str)
    if not 1 <= len(packs) <= MAX_READ_PACKS or packs[-1] != own_id or len({*packs}) < len(packs):
        raise fields.wrong(f"packs should be up to {MAX_READ_PACKS} ids, each once, its own the last")
    if not all(is_place(own_label, each) for each in packs):
        raise fields.wrong("packs names what is no id")
    sizes = tuple(fields.counts(each, "pack_bytes") for each in fields.items("pack_bytes", list))
    levels = fields.counts(raw.get("levels"), "levels")
    if not len(sizes) == len(levels) == len(packs) or not all(sizes):
        raise fields.wrong("packs, pack_bytes and levels differ")
    if sum(map(len, sizes)) > MAX_FILES:
        raise fields.wrong(f"it needs more than {MAX_FILES} files")
    fields.text("created_at")
    for key in ("byte_size",) if encrypted else ("byte_size", "doc_count"):
        fields.count(key)
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
        on_base=fields.count("on_base"),
        tree=fields.tree(),
        sealed=fields.text("sealed") if encrypted else "",
        passphrase_key=fields.text("passphrase_key") if encrypted and "passphrase_key" in raw else "",
    )


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
