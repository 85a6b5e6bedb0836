"""Pure: reading the files of a snapshot of format 1, with every field checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from colony_memory._format.constants import FORMAT, MAX_BYTES
from colony_memory._format.json import decode_documents, load_object, printable
from colony_memory._format.manifest import Manifest, summarize
from colony_memory._format.names import is_digest, manifest_filename, part_filename, read_filename
from colony_memory._format.payload import sha256, unpack
from colony_memory.exceptions import Hint, SnapshotCorrupt, UnsupportedFormat

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CODEC = "gzip+base64"
# What a JSON reader of any language holds exactly.
_LARGEST = 2**53 - 1


def check_manifest(
    raw: Mapping[str, Any], digest_of_file: str, *, label: str | None = None, snapshot_id: str | None = None
) -> Manifest:
    """Check every field of a manifest of format 1 that came out of a vault.

    Args:
        raw: The JSON object.
        digest_of_file: Digest of the file's text.
        label: Label that it must name.
        snapshot_id: Id that it must name.

    Raises:
        UnsupportedFormat: It is of another format or codec.
        SnapshotCorrupt: Something in it is not as the format demands.
    """
    file = None if label is None or snapshot_id is None else manifest_filename(label, snapshot_id)
    name = file or "the manifest"

    def wrong(what: str) -> SnapshotCorrupt:
        return SnapshotCorrupt(f"{name} is not a manifest of this snapshot: {what}", file=file)

    def number(key: str) -> int:
        value = raw.get(key)
        if type(value) is not int or not 0 <= value <= _LARGEST:
            raise wrong(f"{key} should be a count")
        return value

    def text(key: str) -> str:
        value = raw.get(key)
        if not isinstance(value, str):
            raise wrong(f"{key} should be a string")
        return value

    if text("format") != FORMAT:
        msg = f"unsupported snapshot format: {raw['format'][:80]!r} in {name}; a newer colony-memory may read it"
        raise UnsupportedFormat(msg, file=file)
    if text("codec") != CODEC:
        msg = f"unsupported codec: {raw['codec'][:80]!r} in {name}; a newer colony-memory may read it"
        raise UnsupportedFormat(msg, file=file)
    own_id, own_label = text("snapshot_id"), text("label")
    asked = (own_id if snapshot_id is None else snapshot_id, own_label if label is None else label)
    if (own_id, own_label) != asked:
        raise wrong(f"it is the one of label {own_label[:80]!r}, id {own_id[:80]!r}")
    if read_filename(f"cmem.{own_label}.{own_id}.manifest.json") is None:
        raise wrong(f"{own_label[:80]!r} and {own_id[:80]!r} are no label and id")
    if not is_digest(text("plaintext_sha256")):
        raise wrong("plaintext_sha256 should be 'sha256:' and 64 hex digits")
    names = raw.get("doc_names")
    if not isinstance(names, list) or not all(isinstance(doc, str) for doc in names):
        raise wrong("doc_names should be a list of strings")
    # Compared with names that are made here: a manifest cannot send anyone to files that are not its own.
    count, listed = number("part_count"), raw.get("part_files")
    if not isinstance(listed, list) or len(listed) != count or not count:
        raise wrong("part_files and part_count differ")
    if any(name != part_filename(own_label, own_id, seq) for seq, name in enumerate(listed)):
        raise wrong("part_files names files that are not its own")
    number("byte_size")
    text("created_at")
    return Manifest(summarize(raw), raw, digest_of_file, tuple(listed), number("blob_chars"))


def read_documents(manifest: Manifest, parts: dict[str, str | None], *, max_bytes: int = MAX_BYTES) -> dict[str, str]:
    """The documents of a checked manifest; the parts are used up, to free memory.

    See :func:`colony_memory.snapshot.parse`.
    """
    info, file = manifest.info, manifest_filename(manifest.info.label, manifest.info.snapshot_id)
    if info.byte_size > max_bytes:
        msg = f"{file} says {info.byte_size} bytes, more than the {max_bytes} that this client takes"
        raise SnapshotCorrupt(msg, file=file, hint=Hint("open", "max_bytes"))
    try:
        plaintext = unpack(_chunks(manifest, parts), size=info.byte_size)
    except ValueError as error:
        if isinstance(error, SnapshotCorrupt):
            raise
        msg = f"the parts of {file} do not unpack: {error}"
        raise SnapshotCorrupt(msg, file=file) from error
    if sha256(plaintext) != info.plaintext_sha256:
        msg = f"integrity check failed: the parts of {file} hold different text (plaintext sha256 mismatch)"
        raise SnapshotCorrupt(msg, file=file)
    try:
        documents = decode_documents(plaintext, at_most=len(info.doc_names))
    except ValueError as error:
        msg = f"the parts of {file} do not hold documents: {error}"
        raise SnapshotCorrupt(msg, file=file) from error
    if sorted(map(printable, documents)) != sorted(map(printable, info.doc_names)):
        msg = f"{file} lists other documents than its parts hold"
        raise SnapshotCorrupt(msg, file=file)
    return documents


def _chunks(manifest: Manifest, parts: dict[str, str | None]) -> Iterator[str]:
    """The base64 text of each part, once that is proven to be this part of this snapshot."""
    info, total = manifest.info, 0
    for seq, file in enumerate(manifest.part_files):
        text = parts.pop(file, None)
        if text is None:
            msg = f"missing part file: {file}"
            raise SnapshotCorrupt(msg, file=file)
        try:
            part = load_object(text)
        except ValueError as error:
            msg = f"part file {file} is damaged: {error}"
            raise SnapshotCorrupt(msg, file=file) from error
        chunk = part.get("b64")
        place = (part.get("format"), part.get("snapshot_id"), part.get("seq"), type(part.get("seq")))
        if place != (FORMAT, info.snapshot_id, seq, int) or not isinstance(chunk, str):
            msg = f"part file {file} is not part {seq} of this snapshot"
            raise SnapshotCorrupt(msg, file=file)
        total += len(chunk)
        yield chunk
    if total != manifest.blob_chars:
        msg = f"the parts hold {total} characters, not the {manifest.blob_chars} that the manifest says"
        raise ValueError(msg)
