"""Pure: reading the files of a snapshot of format 1, with every field checked.

The fields of a manifest that came out of a vault, each as its format demands or an error that names it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from colony_memory._format import FORMAT, MAX_BYTES
from colony_memory._format.json import decode_documents, load_object, printable
from colony_memory._format.manifest import Manifest, summarize
from colony_memory._format.names import is_digest, manifest_filename, part_filename, read_filename
from colony_memory._format.payload import Spend, check_tree, digests_of, read_tree, sha256, spend_freely, unpack
from colony_memory._values import dataclass
from colony_memory.exceptions import Hint, SnapshotCorrupt, UnsupportedFormat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import TypeGuard


# What a JSON reader of any language holds exactly.
_LARGEST = 2**53 - 1


@dataclass(frozen=True)
class Fields:
    """A manifest's JSON object, and the label and the id that it must name, None where that is not known.

    Its methods raise :class:`SnapshotCorrupt` unless they say otherwise.
    """

    raw: Mapping[str, Any]
    label: str | None
    snapshot_id: str | None

    @property
    def file(self) -> str | None:
        if self.label is None or self.snapshot_id is None:
            return None
        return manifest_filename(self.label, self.snapshot_id)

    @property
    def name(self) -> str:
        return self.file or "the manifest"

    def wrong(self, what: str) -> SnapshotCorrupt:
        return SnapshotCorrupt(f"{self.name} is not a manifest of this snapshot: {what}", file=self.file)

    def one_of(self, key: str, known: tuple[str, ...], what: str) -> str:
        """A text that is one of those known here."""
        value = self.text(key)
        if value not in known:
            msg = f"unsupported {what}: {value[:80]!r} in {self.name}; a newer colony-memory may read it"
            raise UnsupportedFormat(msg, file=self.file)
        return value

    def place(self) -> tuple[str, str]:
        own_id, own_label = self.text("snapshot_id"), self.text("label")
        if self.snapshot_id not in (None, own_id) or self.label not in (None, own_label):
            raise self.wrong(f"it is the one of label {own_label[:80]!r}, id {own_id[:80]!r}")
        if not is_place(own_label, own_id):
            raise self.wrong(f"{own_label[:80]!r} and {own_id[:80]!r} are no label and id")
        return own_label, own_id

    def expect(self, key: str, is_right: Callable[[Any], bool], what: str) -> Any:
        value = self.raw.get(key)
        if not is_right(value):
            raise self.wrong(f"{key} should be {what}")
        return value

    def text(self, key: str) -> str:
        return str(self.expect(key, lambda value: isinstance(value, str), "a string"))

    def digest(self, key: str) -> str:
        return str(self.expect(key, is_digest, "'sha256:' and 64 hex digits"))

    def tree(self) -> str:
        try:
            return read_tree(self.raw)
        except ValueError as error:
            raise self.wrong(str(error)) from error

    def count(self, key: str) -> int:
        return int(self.expect(key, _is_count, "a count"))

    def counts(self, value: object, key: str) -> tuple[int, ...]:
        if not isinstance(value, list) or not all(map(_is_count, value)):
            raise self.wrong(f"{key} should be made of counts")
        return tuple(value)

    def items(self, key: str, kind: type) -> tuple[Any, ...]:
        named = "strings" if kind is str else f"{kind.__name__}s"

        def is_right(value: object) -> bool:
            return isinstance(value, list) and all(isinstance(each, kind) for each in value)

        return tuple(self.expect(key, is_right, f"a list of {named}"))


def is_place(label: str, snapshot_id: str) -> bool:
    return read_filename(f"cmem.{label}.{snapshot_id}.manifest.json") is not None


def _is_count(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 <= value <= _LARGEST


CODEC = "gzip+base64"


def check_manifest(
    raw: Mapping[str, Any], digest_of_file: str, *, label: str | None = None, snapshot_id: str | None = None
) -> Manifest:
    fields = Fields(raw, label, snapshot_id)
    fields.one_of("format", (FORMAT,), "snapshot format")
    fields.one_of("codec", (CODEC,), "codec")
    own_label, own_id = fields.place()
    fields.digest("plaintext_sha256")
    fields.items("doc_names", str)
    # Compared with names that are made here: a manifest cannot send anyone to files that are not its own.
    count, listed = fields.count("part_count"), raw.get("part_files")
    if not isinstance(listed, list) or len(listed) != count or not count:
        raise fields.wrong("part_files and part_count differ")
    if any(name != part_filename(own_label, own_id, seq) for seq, name in enumerate(listed)):
        raise fields.wrong("part_files names files that are not its own")
    fields.count("byte_size")
    fields.text("created_at")
    chars = fields.count("blob_chars")
    return Manifest(summarize(raw), raw, digest_of_file, tuple(listed), chars, tree=fields.tree())


def read_documents(
    manifest: Manifest, parts: dict[str, str | None], *, max_bytes: int = MAX_BYTES, spend: Spend = spend_freely
) -> dict[str, str]:
    """The documents of a checked manifest; the parts are used up, to free memory.

    See :func:`colony_memory.snapshot.parse`.
    """
    info, file = manifest.info, manifest_filename(manifest.info.label, manifest.info.snapshot_id)
    if info.byte_size > max_bytes:
        msg = f"{file} says {info.byte_size} bytes, more than the {max_bytes} that this client takes"
        raise SnapshotCorrupt(msg, file=file, hint=Hint("open", "max_bytes"))
    spend(info.byte_size)
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
    check_tree(manifest.tree, digests_of(documents), file=file)
    return documents


def _chunks(manifest: Manifest, parts: dict[str, str | None]) -> Iterator[str]:
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
