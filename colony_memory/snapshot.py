"""Pure: snapshots as vault files: builds those of format ``colony-memory/1``, and reads those of every format.

SNAPSHOT-FORMAT.md is the law. Ids and times are arguments; nothing here reads a clock or a vault.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from colony_memory._boundary import corrupt
from colony_memory._format import FORMAT, FORMAT_2, LATEST_FORMAT, MAX_BYTES
from colony_memory._format import manifest as v1
from colony_memory._format.json import encode_documents, exact_documents, load_object, printable
from colony_memory._format.manifest import BuiltSnapshot, Manifest, SnapshotInfo, finish
from colony_memory._format.names import (
    TEXT,
    expect,
    id_time,
    is_cortex_file,
    is_place,
    latest_filename,
    manifest_filename,
    new_id,
    part_filename,
    read_stamp,
    require_id,
    require_label,
    sanitize_label,
)
from colony_memory._format.payload import measure, pack, sha256, tree_of
from colony_memory.exceptions import Hint, UnsupportedFormat, bad_argument
from colony_memory.trust import OPEN

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from colony_memory._format.manifest import Beside

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

#: Base64 characters in one part file.
PART_CHARS = 700_000
#: Bytes that a vault file may have.
MAX_FILE_BYTES = 1_000_000


def digest(documents: Mapping[str, str]) -> str:
    """The ``plaintext_sha256`` of documents."""
    return measure(encode_documents(documents))[1]


def build(
    documents: dict[str, str],
    *,
    label: str,
    snapshot_id: str,
    created_at: str,
    max_bytes: int = MAX_BYTES,
    **fields: Unpack[Beside],
) -> BuiltSnapshot:
    """Serialise documents into vault files.

    The id is from :func:`new_id`, ``created_at`` is ``YYYY-MM-DDThh:mm:ssZ``; a ``signer`` signs the manifest, and
    ``previous`` has the ``snapshot_id`` and ``manifest_sha256`` of the snapshot before this one.

    Raises:
        ValueError: The documents are no mapping of strings, empty or too large, or the id is bad.
    """
    documents = exact_documents(documents)
    label, snapshot_id = sanitize_label(label), require_id(snapshot_id)
    packed = pack(encode_documents(documents))
    if packed.size > max_bytes:
        msg = f"the documents are {packed.size} bytes, more than the {max_bytes} that this client takes"
        raise bad_argument(msg, hint=Hint("open", "max_bytes"))
    blob, files = packed.blob, dict[str, str]()
    for seq, start in enumerate(range(0, len(blob), PART_CHARS)):
        part = {"format": FORMAT, "snapshot_id": snapshot_id, "seq": seq, "b64": blob[start : start + PART_CHARS]}
        files[part_filename(label, snapshot_id, seq)] = json.dumps(part)
    raw = {
        "format": FORMAT,
        "snapshot_id": snapshot_id,
        "label": label,
        "created_at": created_at,
        "codec": v1.CODEC,
        # For people and listings: the payload has the names as they are.
        "doc_names": [printable(name) for name in sorted(documents)],
        "plaintext_sha256": packed.sha256,
        "part_count": len(files),
        "part_files": list(files),
        "byte_size": packed.size,
        "blob_chars": len(blob),
        "tree": tree_of(documents),
    }
    return finish(raw, files, fields)


def read_manifest(text: str, *, label: str, snapshot_id: str) -> Manifest:
    """Read the text of a manifest file, which must be of the label and id in its name; else SnapshotCorrupt."""
    file = manifest_filename(label, snapshot_id)
    with corrupt(f"manifest {file} is not readable", file):
        raw = load_object(text)
    return _checked(raw, sha256(text.encode("utf-8", "surrogatepass")), label=label, snapshot_id=snapshot_id)


def info_from_manifest(manifest: dict[str, Any]) -> SnapshotInfo:
    """The summary of a manifest that was read from JSON; SnapshotCorrupt if a field is missing or wrong."""
    return _checked(manifest, "").info


def parse(
    manifest: dict[str, Any],
    parts: Mapping[str, str | None],
    *,
    verify_signature: bool = False,
    label: str | None = None,
    snapshot_id: str | None = None,
    max_bytes: int = MAX_BYTES,
) -> dict[str, str]:
    """The documents in a manifest, read from JSON, and its part files, whose texts are given by name.

    A missing part is left out, or None. The manifest must be of this ``label`` and ``snapshot_id``, if given; its
    signature, if there is one, is checked only with ``verify_signature``.

    Raises:
        UnsupportedFormat: The manifest is of another format or codec.
        SnapshotCorrupt: The bytes are not what the manifest says; ``file`` names the file at fault.
        UntrustedSnapshot: The signature does not verify.
    """
    checked = _checked(manifest, "", label=label, snapshot_id=snapshot_id)
    OPEN.judge(manifest, verify=verify_signature)
    from colony_memory._format.v2.build import read_documents

    return read_documents(checked, dict(parts), max_bytes=max_bytes)


def _checked(
    raw: Mapping[str, Any], digest_of_file: str, *, label: str | None = None, snapshot_id: str | None = None
) -> Manifest:
    file = None if label is None or snapshot_id is None else manifest_filename(label, snapshot_id)
    name, check_manifest, codecs = file or "the manifest", v1.check_manifest, [v1.CODEC]
    if raw.get("format") == FORMAT_2:
        from colony_memory._format.v2.build import CODEC, SEALED_CODEC, check_manifest

        codecs = [CODEC, SEALED_CODEC]
    with corrupt(f"{name} is not a manifest of this snapshot", file):
        for key, supported in (("format", (FORMAT, FORMAT_2)), ("codec", codecs)):
            if expect(raw, key, TEXT) not in supported:
                kind = "snapshot format" if key == "format" else key
                msg = f"unsupported {kind}: {raw[key][:80]!r} in {name}; a newer colony-memory may read it"
                raise UnsupportedFormat(msg, file=file)
        own_id, own_label = expect(raw, "snapshot_id", TEXT), expect(raw, "label", TEXT)
        if snapshot_id not in (None, own_id) or label not in (None, own_label):
            raise ValueError(f"it is the one of label {own_label[:80]!r}, id {own_id[:80]!r}")
        if not is_place(own_label, own_id):
            raise ValueError(f"{own_label[:80]!r} and {own_id[:80]!r} are no label and id")
        return check_manifest(raw, digest_of_file)


def created(info: SnapshotInfo) -> datetime:
    """The time when a snapshot was made: ``created_at``, else the time in its id, else the beginning of time."""
    return read_stamp(info.created_at) or id_time(info.snapshot_id) or datetime.min.replace(tzinfo=timezone.utc)
