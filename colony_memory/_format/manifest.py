"""Pure: a snapshot's summary, its manifest in either format and its tags; and how documents of format 1 are read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from colony_memory._boundary import corrupt
from colony_memory._format import FORMAT, FORMAT_2, MAX_BYTES
from colony_memory._format.json import decode_documents, load_object, printable
from colony_memory._format.lineage import Lineage, read_lineage
from colony_memory._format.names import COUNT, DIGEST, TEXT, TEXTS, TREE, expect, manifest_filename, part_filename
from colony_memory._format.payload import Spend, check_tree, digests_of, sha256, spend_freely, unpack
from colony_memory._values import Value, cached_property, field, pattern
from colony_memory.exceptions import Hint, SnapshotCorrupt
from colony_memory.signing import Signer, sign_manifest
from colony_memory.trust import previous_of

if TYPE_CHECKING:
    from typing import TypedDict

    from colony_memory._format.age import Lock
    from colony_memory._format.v2.build import Facts
    from colony_memory._format.v2.chain import Chain

    class Beside(TypedDict, total=False):
        previous: Mapping[str, str] | None
        stream: str | None
        note: str | None
        incomplete: Iterable[str]
        tags: Iterable[str]
        lineage: Lineage
        ruined: int
        signer: Signer | None


#: The codec of format 1.
CODEC = "gzip+base64"
MAX_TAGS = 20
#: Most characters of a note.
MAX_NOTE = 1000
# As stored: a lone surrogate is written in six characters.
_LONGEST_NOTE = 6 * MAX_NOTE
# Most characters of all lines about what is missing: whoever holds the vault can write them, and every face shows them.
_MOST_LACKING = 2**20
# ASCII, so that no two look alike, and without characters that need quotes in a shell or in a list of tags.
_TAG = pattern(r"[A-Za-z0-9][A-Za-z0-9._:/@+=-]{0,63}")


def check_tags(tags: str | Iterable[str]) -> tuple[str, ...]:
    if not isinstance(tags, Iterable):
        raise ValueError(f"tags must be strings, not {tags!r}")  # noqa: TRY004 - one type for bad arguments
    valid = set()
    for tag in [tags] if isinstance(tags, str) else tags:
        if not is_tag(tag):
            allowed = "1 to 64 letters, digits or any of ._:/@+=- of ASCII, and begin with a letter or a digit"
            raise ValueError(f"{tag!r} is not a tag: it must have {allowed}")
        valid.add(tag)
    if len(valid) > MAX_TAGS:
        raise ValueError(f"a snapshot has at most {MAX_TAGS} tags, not {len(valid)}")
    return tuple(sorted(valid))


def read_tags(value: object) -> tuple[str, ...]:
    listed = value if isinstance(value, list) else []
    return tuple(sorted({tag for tag in listed[:MAX_TAGS] if is_tag(tag)}))


def read_note(value: object) -> str | None:
    """A note from a file of a vault, cut to what a writer may write; None if it is not a string."""
    if not isinstance(value, str):
        return None
    return value if len(value) <= _LONGEST_NOTE else f"{value[:MAX_NOTE]}…"


def read_word(value: str) -> str:
    """A time or an issuer from a file of a vault, cut: neither is ever that long."""
    return value[:MAX_NOTE]


def read_lacking(lines: Iterable[str]) -> tuple[str, ...]:
    out, room = list[str](), _MOST_LACKING
    lines = tuple(lines)
    for line in lines:
        room -= len(line)
        if room < 0:
            return (*out, f"and {len(lines) - len(out)} more")
        out.append(line)
    return tuple(out)


def is_tag(value: object) -> bool:
    return isinstance(value, str) and _TAG.fullmatch(value) is not None


class SnapshotInfo(Value):
    """A stored snapshot, as far as it is known without its documents."""

    snapshot_id: str  #: Its id, which is unique and sorts by time.
    label: str  #: Its label.
    created_at: str  #: When it was saved, by the writer's clock: ``YYYY-MM-DDThh:mm:ssZ``.
    #: Names of the documents, sorted by code point, with lone surrogates written as escapes. Format 2 keeps them with
    #: the content: there the list is empty, unless this client has just saved or read the snapshot.
    doc_names: list[str]
    part_count: int  #: Number of part files.
    byte_size: int  #: Bytes of the documents as canonical JSON.
    plaintext_sha256: str  #: ``sha256:`` and the hex digest of those bytes: equal memories have equal digests.
    signed: bool = False  #: True if it carries a signature, which is checked when it is restored or verified.
    issuer: str | None = None  #: The did:key that the signature names.
    format: str = FORMAT  #: Wire format.
    stored_bytes: int = 0  #: Bytes that its files take in the vault; 0 if the vault does not say.
    parent_id: str | None = None  #: Id of the snapshot before it, as its writer saw it.
    reused: bool = False  #: True if ``backup`` found the memory unchanged and wrote nothing.
    #: The label's head, ``generation:digest``, if this is the latest snapshot, which ``restore`` returns; else empty.
    head: str = ""
    encrypted: bool = False  #: True if a key is needed to read it.
    #: Id of another writer's snapshot that ``backup`` met and moved on from, or merged with.
    diverged_from: str | None = None
    note: str | None = None  #: The remark that its writer stored with it.
    pinned: bool = False  #: True if every retention keeps it until it is unpinned.
    #: Lines about what its writer had to leave out, each with the reason; empty if nothing is missing.
    incomplete: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()  #: Names under which ``backup`` kept another writer's text beside this one's.
    tags: tuple[str, ...] = ()  #: The tags that its writer filed it under, sorted.
    #: Id of the latest snapshot before it, if ``backup`` found this one to hold less than half as many bytes or
    #: documents. In a list, id of the one before it, as long as backups keep that because so much less followed it, or
    #: a document of it was ruined.
    shrunk_from: str | None = None
    #: Number of the documents; None if that is encrypted and this client has not opened it.
    doc_count: int | None = None
    #: 16 hex digits of where it comes from: drawn for a folder on a host, or derived for a host. None if its writer had
    #: none.
    origin: str | None = None
    #: Ids of the snapshots that it is directly based on: those that its writer had, saved or merged. None if that is
    #: not known, as from 0.1.1: it counts as based on all that was listed before it.
    based_on: tuple[str, ...] | None = None
    refused: bool = False  #: True if it met a conflict, and did not become the latest.
    rewrites: str | None = None  #: Id of the snapshot that it stands for, if it was rewritten.
    #: Time at which its pin ends by itself, as one of ``guard`` does; None if it does not, or there is none.
    pinned_until: str | None = None

    def __post_init__(self) -> None:
        if self.doc_count is None and not self.encrypted and (self.doc_names or self.format == FORMAT):
            object.__setattr__(self, "doc_count", len(self.doc_names))


def _count_files(packs: tuple[str, ...], names: Iterable[str]) -> int:
    return max(1, sum(f".{packs[0]}.k" in name for name in names)) if packs else 1


class BuiltSnapshot(Value):
    """A snapshot as vault files, in the order in which to write them: the manifest comes last."""

    info: SnapshotInfo
    manifest_file: str
    files: dict[str, str] = field(default_factory=dict)  # text of each new file by name
    manifest_sha256: str = ""
    inherited: tuple[str, ...] = ()  # names of the files of earlier snapshots that it needs
    packs: tuple[str, ...] = ()  # ids of the packs of its chain, from the base to its own; empty in format 1
    public: SnapshotInfo | None = None  # the summary without what is encrypted; None if nothing is
    tree: str = ""  # digest of its names and their contents
    chain: Chain | None = None  # the chain that the next snapshot may extend, in format 2
    facts: Facts | None = None  # its encrypted facts, None without encryption
    lock: Lock | None = None  # the lock that it is encrypted with

    @property
    def base_files(self) -> int:
        return _count_files(self.packs, (*self.inherited, *self.files))

    @property
    def listed(self) -> SnapshotInfo:
        return self.public or self.info


class Manifest(Value):
    """A manifest with every field checked."""

    info: SnapshotInfo
    raw: Mapping[str, Any]  # the JSON object as it was read, which the signature covers
    sha256: str  # of the file's text
    part_files: tuple[str, ...]  # in order
    blob_chars: int  # base64 characters in all parts together
    packs: tuple[str, ...] = ()  # ids of the packs of its chain, from the base to its own; empty in format 1
    tree: str = ""  # digest of its names and their contents; empty if it has none, or that is encrypted

    @property
    def base_files(self) -> int:
        return _count_files(self.packs, self.part_files)

    @property
    def stream(self) -> str | None:
        stream = self.raw.get("stream")
        return stream if isinstance(stream, str) else None

    @cached_property
    def lineage(self) -> Lineage:
        return read_lineage(self.raw)

    @property
    def ruined(self) -> int:
        return 0 if self.info.encrypted else read_ruined(self.raw)


def read_ruined(raw: Mapping[str, Any]) -> int:
    count = raw.get("ruined")
    return count if type(count) is int and count > 0 else 0


def finish(raw: dict[str, Any], files: dict[str, str], extras: Beside) -> BuiltSnapshot:
    """Complete and sign a manifest that describes its content, and make the snapshot of it and of its other files."""
    previous, note, lineage = extras.get("previous"), extras.get("note"), extras.get("lineage")
    more = {
        "previous": None if previous is None else dict(previous),
        "stream": extras.get("stream"),
        "note": None if note is None else printable(note),
        "incomplete": [printable(line) for line in extras.get("incomplete", ())] or None,
        "tags": list(extras.get("tags", ())) or None,
        **(Lineage() if lineage is None else lineage).raw(),
        "ruined": extras.get("ruined") or None,
    }
    signer = extras.get("signer")
    raw.update({key: value for key, value in more.items() if value is not None})
    if signer is not None:
        raw["signature"] = sign_manifest(raw, signer)
    name, text = manifest_filename(raw["label"], raw["snapshot_id"]), json.dumps(raw, separators=(",", ":"))
    files[name] = text
    info = summarize(raw, stored_bytes=sum(map(len, files.values())))  # all of it is ASCII
    return BuiltSnapshot(info, name, files, sha256(text.encode("ascii")), tree=raw.get("tree", ""))


def summarize(raw: Mapping[str, Any], *, stored_bytes: int = 0) -> SnapshotInfo:
    signature, previous = raw.get("signature"), previous_of(raw)
    issuer = signature.get("key_id") if isinstance(signature, dict) else None
    left_out, lineage = raw.get("incomplete"), read_lineage(raw)
    # Anything but a list still says that something was left out.
    lines = left_out if isinstance(left_out, list) else [] if left_out is None else ["unknown"]
    encrypted = raw["format"] == FORMAT_2 and "age" in raw["codec"].split("+")
    # Format 1 has a name for each document.
    count = None if encrypted else len(raw["doc_names"]) if raw["format"] == FORMAT else raw["doc_count"]
    return SnapshotInfo(
        snapshot_id=raw["snapshot_id"],
        label=raw["label"],
        created_at=read_word(raw["created_at"]),
        doc_names=[printable(name) for name in raw["doc_names"]],
        part_count=raw["part_count"],
        byte_size=raw["byte_size"],
        plaintext_sha256=raw["plaintext_sha256"],
        signed=signature is not None,
        issuer=read_word(issuer) if isinstance(issuer, str) else None,
        format=raw["format"],
        stored_bytes=stored_bytes,
        parent_id=None if previous is None else previous[0],
        note=read_note(raw.get("note")),
        incomplete=read_lacking(map(str, lines)),
        tags=read_tags(raw.get("tags")),
        encrypted=encrypted,
        doc_count=count,
        **lineage.facts,
    )


def require_size(size: int, max_bytes: int, file: str) -> None:
    if size > max_bytes:
        msg = f"{file} says {size} bytes, more than the {max_bytes} that this client takes"
        raise SnapshotCorrupt(msg, file=file, hint=Hint("open", "max_bytes"))


def check_manifest(raw: Mapping[str, Any], digest_of_file: str) -> Manifest:
    """Check a manifest whose format, codec, label and id have been checked. ValueError: another field is wrong."""
    expect(raw, "plaintext_sha256", DIGEST)
    expect(raw, "doc_names", TEXTS)
    # Compared with names made here, so that a manifest cannot send anyone to files of others.
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
    """The documents of a checked manifest; consumes the parts. See :func:`colony_memory.snapshot.parse`."""
    info, file = manifest.info, manifest_filename(manifest.info.label, manifest.info.snapshot_id)
    require_size(info.byte_size, max_bytes, file)
    spend(info.byte_size)
    with corrupt(f"the parts of {file} do not hold its documents", file):
        plaintext = unpack(_chunks(manifest, parts), size=info.byte_size)
        if sha256(plaintext) != info.plaintext_sha256:
            msg = f"integrity check failed: the parts of {file} hold different text (plaintext sha256 mismatch)"
            raise SnapshotCorrupt(msg, file=file)
        documents = decode_documents(plaintext, at_most=len(info.doc_names))
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
        with corrupt(f"part file {file} is damaged", file):
            part = load_object(text)
        chunk = part.get("b64")
        place = (part.get("format"), part.get("snapshot_id"), part.get("seq"), type(part.get("seq")))
        if place != (FORMAT, info.snapshot_id, seq, int) or not isinstance(chunk, str):
            raise SnapshotCorrupt(f"part file {file} is not part {seq} of this snapshot", file=file)
        total += len(chunk)
        yield chunk
    if total != manifest.blob_chars:
        raise ValueError(f"the parts hold {total} characters, not the {manifest.blob_chars} that the manifest says")
