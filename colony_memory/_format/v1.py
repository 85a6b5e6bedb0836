"""Pure: reading the files of a snapshot of format 1, with every field checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from colony_memory._format import FORMAT, MAX_BYTES
from colony_memory._format.json import decode_documents, load_object, printable
from colony_memory._format.manifest import Manifest, summarize
from colony_memory._format.names import COUNT, DIGEST, TEXT, TEXTS, TREE, expect, manifest_filename, part_filename
from colony_memory._format.payload import Spend, check_tree, digests_of, sha256, spend_freely, unpack
from colony_memory.exceptions import Hint, SnapshotCorrupt

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CODEC = "gzip+base64"


def check_manifest(raw: Mapping[str, Any], digest_of_file: str) -> Manifest:
    """A manifest whose format, codec, label and id have been checked. A ValueError says what is wrong."""
    expect(raw, "plaintext_sha256", DIGEST)
    expect(raw, "doc_names", TEXTS)
    # Compared with names that are made here: a manifest cannot send anyone to files that are not its own.
    count, listed = expect(raw, "part_count", COUNT), raw.get("part_files")
    if not isinstance(listed, list) or len(listed) != count or not count:
        raise ValueError("part_files and part_count differ")
    if any(name != part_filename(raw["label"], raw["snapshot_id"], seq) for seq, name in enumerate(listed)):
        raise ValueError("part_files names files that are not its own")
    expect(raw, "byte_size", COUNT)
    expect(raw, "created_at", TEXT)
    chars, tree = expect(raw, "blob_chars", COUNT), expect(raw, "tree", TREE) or ""
    return Manifest(summarize(raw), raw, digest_of_file, tuple(listed), chars, tree=tree)


def read_documents(
    manifest: Manifest, parts: dict[str, str | None], *, max_bytes: int = MAX_BYTES, spend: Spend = spend_freely
) -> dict[str, str]:
    """The documents of a checked manifest; the parts are used up. See :func:`colony_memory.snapshot.parse`."""
    info, file = manifest.info, manifest_filename(manifest.info.label, manifest.info.snapshot_id)
    if info.byte_size > max_bytes:
        msg = f"{file} says {info.byte_size} bytes, more than the {max_bytes} that this client takes"
        raise SnapshotCorrupt(msg, file=file, hint=Hint("open", "max_bytes"))
    spend(info.byte_size)
    try:
        plaintext = unpack(_chunks(manifest, parts), size=info.byte_size)
        if sha256(plaintext) != info.plaintext_sha256:
            msg = f"integrity check failed: the parts of {file} hold different text (plaintext sha256 mismatch)"
            raise SnapshotCorrupt(msg, file=file)
        documents = decode_documents(plaintext, at_most=len(info.doc_names))
    except SnapshotCorrupt:
        raise
    except ValueError as error:
        raise SnapshotCorrupt(f"the parts of {file} do not hold its documents: {error}", file=file) from error
    if sorted(map(printable, documents)) != sorted(map(printable, info.doc_names)):
        raise SnapshotCorrupt(f"{file} lists other documents than its parts hold", file=file)
    check_tree(manifest.tree, digests_of(documents), file=file)
    return documents


def _chunks(manifest: Manifest, parts: dict[str, str | None]) -> Iterator[str]:
    info, total = manifest.info, 0
    for seq, file in enumerate(manifest.part_files):
        text = parts.pop(file, None)
        if text is None:
            raise SnapshotCorrupt(f"missing part file: {file}", file=file)
        try:
            part = load_object(text)
        except ValueError as error:
            raise SnapshotCorrupt(f"part file {file} is damaged: {error}", file=file) from error
        chunk = part.get("b64")
        place = (part.get("format"), part.get("snapshot_id"), part.get("seq"), type(part.get("seq")))
        if place != (FORMAT, info.snapshot_id, seq, int) or not isinstance(chunk, str):
            raise SnapshotCorrupt(f"part file {file} is not part {seq} of this snapshot", file=file)
        total += len(chunk)
        yield chunk
    if total != manifest.blob_chars:
        raise ValueError(f"the parts hold {total} characters, not the {manifest.blob_chars} that the manifest says")
