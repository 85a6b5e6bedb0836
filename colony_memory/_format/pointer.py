"""Pure: the ``latest`` pointer of a label, its generation and its catalogue of the live snapshots.

0.1.1 writes a pointer of five fields. This package adds ``generation``, one more with every write; ``stream``, drawn
once for a label and the same ever after; ``catalog``, a summary of each snapshot with the digest of its manifest, so
that a listing needs no manifest; ``removed``, what is to be deleted and must not be listed again; and ``arriving``, how
far what is being brought there from elsewhere goes. A writer that signs adds ``signature``. Without one that the reader
trusts all of them are hints.

A pointer may name nothing: its label was emptied on purpose. Its ``snapshot_id`` is empty then, which no snapshot is
called, so that 0.1.1 finds no snapshot.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from colony_memory._format.constants import FORMAT
from colony_memory._format.head import write_head
from colony_memory._format.json import canonical, load_object
from colony_memory._format.names import id_order, latest_filename, manifest_filename, require_id
from colony_memory._format.payload import Packed, pack, unpack
from colony_memory._format.tags import read_tags
from colony_memory.exceptions import SnapshotCorrupt
from colony_memory.signing import sign_manifest
from colony_memory.snapshot import LATEST_FORMAT, SnapshotInfo

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from colony_memory.signing import Signer

#: Characters that the catalogue may take in the pointer; the oldest entries are left out beyond it.
MAX_CATALOG_CHARS = 400_000
_MAX_CATALOG_BYTES = 16 * 2**20
# JSON values in a catalogue. Read by Python each takes up to a hundred bytes, whatever it took in the file.
_MAX_VALUES = 500_000
# What a JSON reader of any language holds exactly.
_MAX_COUNT = 2**53
# File names hold six digits.
_MAX_PARTS = 1_000_000
# Lines of what is missing that a catalogue repeats; the manifest has all of them.
_SHOWN_LINES = 20
_CATALOG_FORMAT = "colony-memory/catalog/1"
_ROW = (
    ("snapshot_id", str),
    ("manifest_sha256", str),
    ("created_at", str),
    ("part_count", int),
    ("byte_size", int),
    ("plaintext_sha256", str),
    ("signed", bool),
    ("issuer", (str, type(None))),
    ("format", str),
    ("stored_bytes", int),
    ("parent_id", (str, type(None))),
    ("encrypted", bool),
    ("shrunk_at", (str, type(None))),
)
# What a row may have behind these, so that most rows stay short. Newer writers may have more behind them.
_MORE = (("note", (str, type(None))), ("incomplete", list), ("tags", list), ("packs", list))


@dataclass(frozen=True)
class Entry:
    """One snapshot in the catalogue.

    Attributes:
        info: The summary.
        manifest_sha256: Digest of the manifest file.
        shrunk_at: When the first snapshot of less than half its bytes or documents followed, ``YYYY-MM-DDThh:mm:ssZ``.
        packs: Ids of the packs of a chain, base first; empty in format 1, and where the row does not tell.
    """

    info: SnapshotInfo
    manifest_sha256: str
    shrunk_at: str | None = None
    packs: tuple[str, ...] = ()

    @property
    def snapshot_id(self) -> str:
        """Id of the snapshot."""
        return self.info.snapshot_id


@dataclass(frozen=True)
class Pointer:
    """What a pointer says.

    Attributes:
        label: The label.
        snapshot_id: The snapshot that ``restore`` gives, None where the pointer names nothing.
        updated_at: When it was written, ``YYYY-MM-DDThh:mm:ssZ``.
        generation: Writes of this pointer by this package; 0 where 0.1.1 wrote it.
        stream: 16 hex digits that were drawn with the label's first pointer, None where 0.1.1 wrote it.
        entries: The catalogue, or None where there is none that can be read.
        removed: Ids that are to be deleted, or were.
        went_back_from: Newest snapshot that it named before, where that was deleted; None where it names its newest.
        arriving: Newest snapshot that was to be brought there from elsewhere; None where none is newer than the named.
        raw: The JSON object as it was read, which is what a signature covers; empty for one that is to be written.
    """

    label: str
    snapshot_id: str | None
    updated_at: str = ""
    generation: int = 0
    stream: str | None = None
    entries: tuple[Entry, ...] | None = None
    removed: tuple[str, ...] = ()
    went_back_from: str | None = None
    arriving: str | None = None
    raw: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def signed(self) -> bool:
        """Whether it carries a signature, of whatever worth."""
        return self.raw.get("signature") is not None

    @property
    def head(self) -> str:
        """``generation:digest``, or empty where it has no generation or does not list what it names."""
        named = None if self.snapshot_id is None else self.entry(self.snapshot_id)
        if not self.generation or (self.snapshot_id is not None and named is None):
            return ""
        try:
            return write_head(self.generation, named.manifest_sha256 if named else None)
        except ValueError:
            return ""  # the catalogue gives a digest of no such form

    def entry(self, snapshot_id: str) -> Entry | None:
        """The catalogue's entry of a snapshot, or None."""
        return next((entry for entry in self.entries or () if entry.info.snapshot_id == snapshot_id), None)

    def took_out(self, snapshot_id: str) -> bool:
        """Whether it says that a snapshot was deleted: by name, or since the pointer went back over it."""
        back = id_order(self.snapshot_id or "") < id_order(snapshot_id) <= id_order(self.went_back_from or "")
        return back or snapshot_id in self.removed

    def brings(self, snapshot_id: str) -> bool:
        """Whether it says that a snapshot that it does not list yet may be there all the same."""
        return id_order(self.snapshot_id or "") < id_order(snapshot_id) <= id_order(self.arriving or "")

    def follow(
        self,
        snapshot_id: str | None,
        *,
        updated_at: str,
        entries: Iterable[Entry],
        stream: str,
        removed: Iterable[str] = (),
        arriving: str | None = None,
        above: int = 0,
        before: str | None = None,
    ) -> Pointer:
        """The pointer of the next generation, and of one above ``above``.

        ``before`` is the latest until now, where this pointer has no generation: what such a one says is not proven.
        """
        kept = tuple(sorted(entries, key=lambda entry: id_order(entry.info.snapshot_id), reverse=True))
        # Whoever can write to a vault that nobody signs can set any count: at the end of it, it stays there.
        generation = min(max(self.generation, above) + 1, _MAX_COUNT - 1)
        named = (self.snapshot_id, self.went_back_from) if self.generation else (before,)
        newest = max(filter(None, (snapshot_id, *named)), key=id_order, default=None)
        back = None if newest == snapshot_id else newest
        if id_order(arriving or "") <= id_order(snapshot_id or ""):
            arriving = None
        gone = tuple(sorted(removed))
        return Pointer(self.label, snapshot_id, updated_at, generation, stream, kept, gone, back, arriving)


def read_pointer(text: str, *, label: str) -> Pointer:
    """Read the text of a pointer file.

    A catalogue that cannot be read is left out, since it is only a hint.

    Raises:
        SnapshotCorrupt: It is not a pointer of this label.
    """
    file = latest_filename(label)
    try:
        raw = load_object(text)
        if raw.get("format") != LATEST_FORMAT or raw.get("label") != label:
            msg = f"it is not a pointer of label {label!r}"
            raise ValueError(msg)
        named = None if raw.get("snapshot_id") == "" else require_id(raw.get("snapshot_id"))
        if raw.get("manifest_file") != _manifest_file(label, named):
            raise ValueError("manifest_file is not the one of the snapshot")
    except ValueError as error:
        msg = f"pointer {file} is not readable: {error}"
        raise SnapshotCorrupt(msg, file=file) from error
    updated_at, generation, catalog = raw.get("updated_at"), raw.get("generation"), raw.get("catalog")
    removed, stream = raw.get("removed"), raw.get("stream")
    return Pointer(
        label=label,
        snapshot_id=named,
        updated_at=updated_at if isinstance(updated_at, str) else "",
        generation=generation if type(generation) is int and 0 < generation < _MAX_COUNT else 0,
        stream=stream if isinstance(stream, str) and is_stream(stream) else None,
        entries=_read_catalog(catalog, label) if isinstance(catalog, str) else None,
        removed=tuple(filter(None, map(_read_id, removed))) if isinstance(removed, list) else (),
        went_back_from=_read_id(raw.get("went_back_from")),
        arriving=_read_id(raw.get("arriving")),
        raw=raw,
    )


def write_pointer(pointer: Pointer, *, signer: Signer | None = None) -> str:
    """The text of a pointer file, signed where there is a signer."""
    raw: dict[str, Any] = {
        "format": LATEST_FORMAT,
        "label": pointer.label,
        "snapshot_id": pointer.snapshot_id or "",
        "manifest_file": _manifest_file(pointer.label, pointer.snapshot_id),
        "updated_at": pointer.updated_at,
        "generation": pointer.generation,
    }
    if pointer.stream is not None:
        raw["stream"] = pointer.stream
    if pointer.removed:
        raw["removed"] = list(pointer.removed)
    if pointer.went_back_from is not None:
        raw["went_back_from"] = pointer.went_back_from
    if pointer.arriving is not None:
        raw["arriving"] = pointer.arriving
    entries = list(pointer.entries or ())
    catalog, values = _write_catalog(entries)
    while catalog.size > _MAX_CATALOG_BYTES or len(catalog.blob) > MAX_CATALOG_CHARS or values > _MAX_VALUES:
        # Newest first: the oldest half goes, and is read from the manifests where someone asks.
        entries = entries[: len(entries) // 2]
        catalog, values = _write_catalog(entries)
    raw["catalog"] = f"{catalog.size}:{catalog.blob}"
    if signer is not None:
        raw["signature"] = sign_manifest(raw, signer)
    return json.dumps(raw)


def is_stream(text: str) -> bool:
    """Whether this may be the identity of a label's history: 16 hex digits."""
    return len(text) == 16 and all(char in "0123456789abcdef" for char in text)


def _manifest_file(label: str, snapshot_id: str | None) -> str:
    return "" if snapshot_id is None else manifest_filename(label, snapshot_id)


def _read_id(value: object) -> str | None:
    try:
        return require_id(value)
    except ValueError:
        return None


def _write_catalog(entries: Collection[Entry]) -> tuple[Packed, int]:
    """The catalogue, and about how many JSON values it holds."""
    names: list[list[str]] = []
    rows = []
    for entry in entries:
        docs = list(entry.info.doc_names)
        if docs not in names[-1:]:
            names.append(docs)  # most snapshots have the names of the one before
        known = {"manifest_sha256": entry.manifest_sha256, "shrunk_at": entry.shrunk_at}
        row = [known[key] if key in known else getattr(entry.info, key) for key, _ in _ROW]
        more = [entry.info.note, list(few_lines(entry.info.incomplete)), list(entry.info.tags), list(entry.packs)]
        while more and not more[-1] and more[-1] != "":
            more.pop()  # what all read as nothing
        rows.append([len(names) - 1, *row, *more])
    plain = canonical({"format": _CATALOG_FORMAT, "names": names, "snapshots": rows})
    return pack([plain]), _count_values(plain)


def few_lines(left_out: tuple[str, ...]) -> tuple[str, ...]:
    """What a snapshot lacks as a catalogue tells it: where that is much, the last line counts the rest.

    >>> few_lines(tuple(f"{n}.md: is a socket" for n in range(30)))[-1]
    'and 11 more'
    """
    if len(left_out) <= _SHOWN_LINES:
        return left_out
    return (*left_out[: _SHOWN_LINES - 1], f"and {len(left_out) - _SHOWN_LINES + 1} more")


def _count_values(plain: bytes | bytearray) -> int:
    """No fewer than the JSON values in the text: each stands behind a comma, a colon or an opening bracket."""
    return sum(map(plain.count, (b",", b":", b"[", b"{")))


def _read_catalog(text: str, label: str) -> tuple[Entry, ...] | None:
    try:
        size, _, blob = text.partition(":")
        if not size.isdecimal() or len(size) > 8 or int(size) > _MAX_CATALOG_BYTES:
            return None
        plain = unpack([blob], size=int(size))
        # Inflated it may be a thousand times as long as the file, and as values ten times that.
        if _count_values(plain) > _MAX_VALUES:
            return None
        raw = load_object(plain.decode("utf-8", "surrogatepass"))
        if raw.get("format") != _CATALOG_FORMAT:
            return None
        names = raw["names"]
        for docs in names:
            if type(docs) is not list or not all(isinstance(name, str) for name in docs):
                return None
        return tuple(_read_row(row, names, label) for row in raw["snapshots"])
    except (ValueError, KeyError, TypeError, IndexError):
        return None


def _fewest(values: dict[str, Any]) -> int:
    """The fewest parts that a snapshot may have."""
    return 1 if values["format"] == FORMAT else 0


def _read_row(row: list[Any], names: list[list[str]], label: str) -> Entry:
    values: dict[str, Any] = {}
    columns = (*_ROW, *_MORE[: max(0, len(row) - 1 - len(_ROW))])
    for (key, kind), value in zip(columns, row[1 : len(_ROW) + len(_MORE) + 1], strict=True):
        if not isinstance(value, kind) or (kind is int and (type(value) is not int or not 0 <= value < _MAX_COUNT)):
            msg = f"{key} is wrong"
            raise TypeError(msg)
        values[key] = value
    require_id(values["snapshot_id"])
    place, missing = row[0], values.get("incomplete", [])
    if type(place) is not int or place < 0 or not _fewest(values) <= values["part_count"] <= _MAX_PARTS:
        raise ValueError("a count is wrong")
    if not all(isinstance(line, str) for line in missing):
        raise TypeError("incomplete is wrong")
    values["incomplete"], values["tags"] = tuple(missing), read_tags(values.get("tags"))
    digest, shrunk_at = values.pop("manifest_sha256"), values.pop("shrunk_at")
    packs = tuple(map(require_id, values.pop("packs", ())))
    if packs and packs[-1] != values["snapshot_id"]:
        raise ValueError("packs is wrong")
    # One list for all snapshots of the same names: a copy for each would grow with rows times names.
    return Entry(SnapshotInfo(label=label, doc_names=names[place], **values), digest, shrunk_at, packs)
