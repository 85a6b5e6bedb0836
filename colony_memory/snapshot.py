"""Pure: the snapshot format ``colony-memory/1``; documents to vault files and back.

SNAPSHOT-FORMAT.md is the law. A snapshot is a *manifest* and *parts*: the documents as canonical JSON, gzip, base64,
cut into slices that a vault file holds. Ids and times are arguments; nothing here reads a clock or a vault.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from colony_memory._format.constants import FORMAT, FORMAT_2, MAX_BYTES
from colony_memory._format.json import decode_documents, encode_documents, load_object, printable
from colony_memory._format.names import (
    is_cortex_file,
    is_digest,
    latest_filename,
    manifest_filename,
    new_id,
    part_filename,
    read_filename,
    require_id,
    require_label,
    sanitize_label,
)
from colony_memory._format.payload import pack, sha256, unpack
from colony_memory._format.tags import read_tags
from colony_memory.exceptions import Hint, SnapshotCorrupt, UnsupportedFormat, bad_argument
from colony_memory.signing import sign_manifest
from colony_memory.trust import OPEN, previous_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from colony_memory.signing import Signer

__all__ = [
    "FORMAT",
    "LATEST_FORMAT",
    "MAX_BYTES",
    "MAX_FILE_BYTES",
    "PART_CHARS",
    "BuiltSnapshot",
    "Manifest",
    "SnapshotInfo",
    "build",
    "info_from_manifest",
    "is_cortex_file",
    "latest_filename",
    "manifest_filename",
    "new_id",
    "parse",
    "part_filename",
    "read_manifest",
    "require_id",
    "require_label",
    "sanitize_label",
]

LATEST_FORMAT = "colony-memory/latest/1"

#: Base64 characters in one part file.
PART_CHARS = 700_000
#: Bytes that a vault file may have.
MAX_FILE_BYTES = 1_000_000

_CODEC = "gzip+base64"
# What a JSON reader of any language holds exactly.
_LARGEST = 2**53 - 1


@dataclass(frozen=True)
class SnapshotInfo:
    """What is known of a stored snapshot without reading its documents.

    Attributes:
        snapshot_id: Id, unique and sortable by time.
        label: Stream that it belongs to.
        created_at: Time of the writer's clock, ``YYYY-MM-DDThh:mm:ssZ``.
        doc_names: Names of the documents, sorted by code point, lone surrogates spelled as escapes.
        part_count: Number of part files.
        byte_size: Bytes of the documents as canonical JSON.
        plaintext_sha256: ``sha256:`` and the hex digest of those bytes: equal memory has an equal digest.
        signed: Whether it carries a signature (checked when it is restored or verified).
        issuer: did:key that the signature names.
        format: Wire format.
        stored_bytes: Bytes that its files take in the vault; 0 where the vault does not tell.
        parent_id: Id of the snapshot before it, as its writer saw it.
        reused: ``backup`` found the memory unchanged and wrote nothing.
        head: ``generation:digest`` of the label where this is its latest snapshot, which ``restore`` gives; else empty.
        encrypted: Whether a key is needed to read it.
        diverged_from: Id of another writer's snapshot that ``backup`` met and moved on from, or merged with.
        note: What its writer had to say of it.
        pinned: Kept by every retention until it is unpinned.
        incomplete: What its writer had to leave out and why, one line each; empty where it holds everything.
        merged: Names under which ``backup`` kept another writer's text beside this one's.
        tags: What its writer filed it under, sorted.
        shrunk_from: Id of the latest before it, where ``backup`` found this to hold less than half of its bytes or
            documents.
    """

    snapshot_id: str
    label: str
    created_at: str
    doc_names: list[str]
    part_count: int
    byte_size: int
    plaintext_sha256: str
    signed: bool = False
    issuer: str | None = None
    format: str = FORMAT
    stored_bytes: int = 0
    parent_id: str | None = None
    reused: bool = False
    head: str = ""
    encrypted: bool = False
    diverged_from: str | None = None
    note: str | None = None
    pinned: bool = False
    incomplete: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    shrunk_from: str | None = None


@dataclass(frozen=True)
class BuiltSnapshot:
    """A snapshot as vault files, in the order in which they are to be written: parts, then the manifest.

    Attributes:
        info: The summary.
        manifest_file: Name of the manifest.
        files: Text of each file by its name.
        manifest_sha256: Digest of the manifest.
        inherited: Names of the files that it needs and that were written for others.
        packs: Ids of the packs of a chain, base first, the last the snapshot's own; empty in format 1.
        public: The summary as anyone may have it, where some of it is encrypted.
    """

    info: SnapshotInfo
    manifest_file: str
    files: dict[str, str] = field(default_factory=dict)
    manifest_sha256: str = ""
    inherited: tuple[str, ...] = ()
    packs: tuple[str, ...] = ()
    public: SnapshotInfo | None = None

    @property
    def listed(self) -> SnapshotInfo:
        """The summary as a catalogue has it."""
        return self.public or self.info


@dataclass(frozen=True)
class Manifest:
    """A manifest whose every field was checked.

    Attributes:
        info: The summary.
        raw: The JSON object as it was read, which is what a signature covers.
        sha256: ``sha256:`` and the hex digest of the file's text.
        part_files: Names of the parts, in order.
        blob_chars: Base64 characters in all parts together.
        packs: Ids of the packs of a chain, base first, the last the snapshot's own; empty in format 1.
    """

    info: SnapshotInfo
    raw: Mapping[str, Any]
    sha256: str
    part_files: tuple[str, ...]
    blob_chars: int
    packs: tuple[str, ...] = ()

    @property
    def stream(self) -> str | None:
        """Identity of the history that its writer added it to, None where it names none."""
        stream = self.raw.get("stream")
        return stream if isinstance(stream, str) else None

    @property
    def converted(self) -> tuple[dict[str, str | None], ...]:
        """What it was made from where that was of another format, oldest first, as whoever made it says."""
        told = self.raw.get("converted")
        rows = [each for each in told if isinstance(each, dict)] if isinstance(told, list) else []
        keys = ("format", "manifest_sha256", "issuer")
        return tuple({key: each[key] if isinstance(each.get(key), str) else None for key in keys} for each in rows)


def check_documents(documents: object) -> None:
    """Raise a ValueError that names the document unless this is a non-empty mapping of strings to strings."""
    if not isinstance(documents, dict) or not documents:
        raise ValueError("documents must be a non-empty {name: text} mapping; there is nothing to back up")
    for name, text in documents.items():
        if not isinstance(name, str):
            msg = f"document names must be strings, {name!r} is a {type(name).__name__}"
            raise ValueError(msg)  # noqa: TRY004 - published behaviour
        if not isinstance(text, str):
            msg = f"document {name!r} must be a string, not {type(text).__name__}"
            raise ValueError(msg)  # noqa: TRY004 - published behaviour


def digest(documents: Mapping[str, str]) -> str:
    """The ``plaintext_sha256`` of documents."""
    hasher = hashlib.sha256()
    for piece in encode_documents(documents):
        hasher.update(piece)
    return "sha256:" + hasher.hexdigest()


def build(
    documents: dict[str, str],
    *,
    label: str,
    snapshot_id: str,
    created_at: str,
    signer: Signer | None = None,
    previous: Mapping[str, str] | None = None,
    stream: str | None = None,
    note: str | None = None,
    incomplete: Iterable[str] = (),
    tags: Iterable[str] = (),
    converted: Iterable[Mapping[str, str | None]] = (),
    max_bytes: int = MAX_BYTES,
) -> BuiltSnapshot:
    """Serialise documents into vault files.

    Args:
        documents: ``{name: text}``, not empty.
        label: Stream; folded with :func:`sanitize_label`.
        snapshot_id: Id, from :func:`new_id`.
        created_at: Time, ``YYYY-MM-DDThh:mm:ssZ``.
        signer: Signs the manifest.
        previous: ``{"snapshot_id", "manifest_sha256"}`` of the snapshot before this one.
        stream: Identity of the label's history, see :mod:`colony_memory._format.pointer`.
        note: What to say of it.
        incomplete: What had to be left out and why, one line each.
        tags: What to file it under.
        converted: What it was made from where that was of another format, oldest first: ``{"format",
            "manifest_sha256", "issuer"}``.
        max_bytes: Refuse more plain text than this, which could not be restored with the same setting.

    Raises:
        ValueError: Not a mapping of strings, empty, too large, or a bad id.
    """
    check_documents(documents)
    label, snapshot_id = sanitize_label(label), require_id(snapshot_id)
    packed = pack(encode_documents(documents))
    if packed.size > max_bytes:
        msg = f"the documents are {packed.size} bytes, more than the {max_bytes} that this client takes"
        raise bad_argument(msg, hint=Hint("open", "max_bytes"))
    blob = packed.blob

    files: dict[str, str] = {}
    for seq, start in enumerate(range(0, len(blob), PART_CHARS)):
        part = {"format": FORMAT, "snapshot_id": snapshot_id, "seq": seq, "b64": blob[start : start + PART_CHARS]}
        files[part_filename(label, snapshot_id, seq)] = json.dumps(part)

    raw: dict[str, Any] = {
        "format": FORMAT,
        "snapshot_id": snapshot_id,
        "label": label,
        "created_at": created_at,
        "codec": _CODEC,
        # For people and listings: the payload has the names as they are.
        "doc_names": [printable(name) for name in sorted(documents)],
        "plaintext_sha256": packed.sha256,
        "part_count": len(files),
        "part_files": list(files),
        "byte_size": packed.size,
        "blob_chars": len(blob),
    }
    finish_manifest(
        raw,
        previous=previous,
        stream=stream,
        note=note,
        incomplete=incomplete,
        tags=tags,
        converted=converted,
        signer=signer,
    )
    manifest_file, text = manifest_filename(label, snapshot_id), json.dumps(raw)
    files[manifest_file] = text
    info = summarize(raw, stored_bytes=sum(map(len, files.values())))  # all of it is ASCII
    return BuiltSnapshot(info, manifest_file, files, sha256(text.encode("utf-8", "surrogatepass")))


def finish_manifest(
    raw: dict[str, Any],
    *,
    previous: Mapping[str, str] | None,
    stream: str | None,
    note: str | None,
    incomplete: Iterable[str],
    tags: Iterable[str],
    converted: Iterable[Mapping[str, str | None]],
    signer: Signer | None,
) -> None:
    """Add to a manifest what it says beside its content, whatever its format, and sign it."""
    if previous is not None:
        raw["previous"] = dict(previous)
    if stream is not None:
        raw["stream"] = stream
    if note is not None:
        raw["note"] = printable(note)
    left_out = [printable(line) for line in incomplete]
    if left_out:
        raw["incomplete"] = left_out
    if tags:
        raw["tags"] = list(tags)
    made_from = [dict(each) for each in converted]
    if made_from:
        raw["converted"] = made_from
    if signer is not None:
        raw["signature"] = sign_manifest(raw, signer)


def read_manifest(text: str, *, label: str, snapshot_id: str) -> Manifest:
    """Read the text of a manifest file and bind it to the label and id in the file's name.

    Raises:
        UnsupportedFormat: Another format or codec.
        SnapshotCorrupt: Anything that is not as the format says.
    """
    file = manifest_filename(label, snapshot_id)
    try:
        raw = load_object(text)
    except ValueError as error:
        msg = f"manifest {file} is not readable: {error}"
        raise SnapshotCorrupt(msg, file=file) from error
    return _manifest(raw, sha256(text.encode("utf-8", "surrogatepass")), label=label, snapshot_id=snapshot_id)


def info_from_manifest(manifest: dict[str, Any]) -> SnapshotInfo:
    """The summary of a manifest that was read from JSON.

    Raises:
        UnsupportedFormat: Another format or codec.
        SnapshotCorrupt: A field is missing or wrong.
    """
    return _manifest(manifest, "").info


def parse(
    manifest: dict[str, Any],
    parts: Mapping[str, str | None],
    *,
    verify_signature: bool = False,
    label: str | None = None,
    snapshot_id: str | None = None,
    max_bytes: int = MAX_BYTES,
) -> dict[str, str]:
    """The documents of a manifest and the texts of its part files.

    Args:
        manifest: The manifest, read from JSON.
        parts: Text of each part file by name; missing, or None, where it is not there.
        verify_signature: Check the signature if there is one.
        label: Label that the manifest must be of.
        snapshot_id: Id that the manifest must be of.
        max_bytes: Bytes of plain text to accept at most.

    Raises:
        UnsupportedFormat: Another format or codec.
        SnapshotCorrupt: Bytes are not what the manifest says; ``file`` names the one.
        UntrustedSnapshot: The signature does not verify.
    """
    checked = _manifest(manifest, "", label=label, snapshot_id=snapshot_id)
    OPEN.judge(manifest, verify=verify_signature)
    from colony_memory._format.formats import format_of

    return format_of(checked.info.format).read(checked, dict(parts), max_bytes=max_bytes)


def read_documents(manifest: Manifest, parts: dict[str, str | None], *, max_bytes: int = MAX_BYTES) -> dict[str, str]:
    """The documents of a checked manifest of format 1; the parts are used up, to free memory. See :func:`parse`."""
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
    """The base64 of each part, checked to be that part of that snapshot."""
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


def _manifest(
    raw: Mapping[str, Any], digest_of_file: str, *, label: str | None = None, snapshot_id: str | None = None
) -> Manifest:
    """Check every field of a manifest that came out of a vault, as its format has them."""
    if raw.get("format") == FORMAT_2:
        from colony_memory._format.v2.manifest import check_manifest

        return check_manifest(raw, digest_of_file, label=label, snapshot_id=snapshot_id)
    return _check_manifest(raw, digest_of_file, label, snapshot_id)


def _check_manifest(
    raw: Mapping[str, Any], digest_of_file: str, label: str | None, snapshot_id: str | None
) -> Manifest:
    """Check every field of a manifest of format 1."""
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
    if text("codec") != _CODEC:
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
    # Derived, not trusted: a manifest cannot send anyone to files that are not its own.
    count, listed = number("part_count"), raw.get("part_files")
    if not isinstance(listed, list) or len(listed) != count or not count:
        raise wrong("part_files and part_count differ")
    if any(name != part_filename(own_label, own_id, seq) for seq, name in enumerate(listed)):
        raise wrong("part_files names files that are not its own")
    number("byte_size")
    text("created_at")
    return Manifest(summarize(raw), raw, digest_of_file, tuple(listed), number("blob_chars"))


def _lines(left_out: object) -> tuple[str, ...]:
    """What is missing; what is no list still says that something is."""
    if left_out is None:
        return ()
    return tuple(map(str, left_out)) if isinstance(left_out, list) else ("unknown",)


def summarize(raw: Mapping[str, Any], *, stored_bytes: int = 0) -> SnapshotInfo:
    """The summary of a manifest whose fields were checked or just written."""
    signature, previous = raw.get("signature"), previous_of(raw)
    issuer = signature.get("key_id") if isinstance(signature, dict) else None
    note, left_out = raw.get("note"), raw.get("incomplete")
    return SnapshotInfo(
        snapshot_id=raw["snapshot_id"],
        label=raw["label"],
        created_at=raw["created_at"],
        doc_names=[printable(name) for name in raw["doc_names"]],
        part_count=raw["part_count"],
        byte_size=raw["byte_size"],
        plaintext_sha256=raw["plaintext_sha256"],
        signed=signature is not None,
        issuer=issuer if isinstance(issuer, str) else None,
        format=raw["format"],
        stored_bytes=stored_bytes,
        parent_id=None if previous is None else previous[0],
        note=note if isinstance(note, str) else None,
        incomplete=_lines(left_out),
        tags=read_tags(raw.get("tags")),
        encrypted=raw["format"] == FORMAT_2 and "age" in raw["codec"].split("+"),
    )
