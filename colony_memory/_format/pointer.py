"""Pure: the ``latest`` pointer of a label, its generation and its catalogue of the live snapshots.

0.1.1 writes a pointer of five fields. This package adds ``generation``, one more with every write, and ``catalog``:
a summary of each snapshot with the digest of its manifest, so that a listing needs no manifest. A writer that signs
adds ``signature``. Without one that the reader trusts the others are hints: what the vault lists decides which
snapshots there are.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from colony_memory._format.json import canonical, load_object
from colony_memory._format.names import id_order, latest_filename, manifest_filename, require_id
from colony_memory._format.payload import Packed, pack, unpack
from colony_memory.exceptions import SnapshotCorrupt
from colony_memory.signing import sign_manifest
from colony_memory.snapshot import LATEST_FORMAT, SnapshotInfo

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from colony_memory.signing import Signer

#: Characters that the catalogue may take in the pointer; the oldest entries are left out beyond it.
MAX_CATALOG_CHARS = 400_000
_MAX_CATALOG_BYTES = 16 * 2**20
# What a JSON reader of any language holds exactly.
_MAX_COUNT = 2**53
# File names hold six digits.
_MAX_PARTS = 1_000_000
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


@dataclass(frozen=True)
class Entry:
    """One snapshot in the catalogue.

    Attributes:
        info: The summary.
        manifest_sha256: Digest of the manifest file.
        shrunk_at: When the first snapshot of less than half its size followed, ``YYYY-MM-DDThh:mm:ssZ``.
    """

    info: SnapshotInfo
    manifest_sha256: str
    shrunk_at: str | None = None


@dataclass(frozen=True)
class Pointer:
    """What a pointer says.

    Attributes:
        label: The label.
        snapshot_id: The snapshot that ``restore`` gives.
        updated_at: When it was written, ``YYYY-MM-DDThh:mm:ssZ``.
        generation: Writes of this pointer by this package; 0 where 0.1.1 wrote it.
        entries: The catalogue, or None where there is none that can be read.
        went_back_from: Newest snapshot that it named before, where that was deleted; None where it names its newest.
        raw: The JSON object as it was read, which is what a signature covers; empty for one that is to be written.
    """

    label: str
    snapshot_id: str
    updated_at: str
    generation: int = 0
    entries: tuple[Entry, ...] | None = None
    went_back_from: str | None = None
    raw: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def signed(self) -> bool:
        """Whether it carries a signature, of whatever worth."""
        return self.raw.get("signature") is not None

    @property
    def manifest_file(self) -> str:
        """Name of the manifest that the pointer names."""
        return manifest_filename(self.label, self.snapshot_id)

    def entry(self, snapshot_id: str) -> Entry | None:
        """The catalogue's entry of a snapshot, or None."""
        return next((entry for entry in self.entries or () if entry.info.snapshot_id == snapshot_id), None)

    def moved(self, snapshot_id: str, *, updated_at: str, entries: Iterable[Entry], above: int = 0) -> Pointer:
        """The pointer of the next generation, and of one above ``above``."""
        kept = tuple(sorted(entries, key=lambda entry: id_order(entry.info.snapshot_id), reverse=True))
        # Whoever can write to a vault that nobody signs can set any count: at the end of it, it stays there.
        generation = min(max(self.generation, above) + 1, _MAX_COUNT - 1)
        # What a pointer without a generation says is not proven.
        named = (self.snapshot_id, self.went_back_from or snapshot_id) if self.generation else ()
        newest = max([snapshot_id, *named], key=id_order)
        back = None if newest == snapshot_id else newest
        return Pointer(self.label, snapshot_id, updated_at, generation, kept, back)


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
        named = require_id(raw.get("snapshot_id"))
        if raw.get("manifest_file") != manifest_filename(label, named):
            raise ValueError("manifest_file is not the one of the snapshot")
    except ValueError as error:
        msg = f"pointer {file} is not readable: {error}"
        raise SnapshotCorrupt(msg, file=file) from error
    updated_at, generation, catalog = raw.get("updated_at"), raw.get("generation"), raw.get("catalog")
    return Pointer(
        label=label,
        snapshot_id=named,
        updated_at=updated_at if isinstance(updated_at, str) else "",
        generation=generation if type(generation) is int and 0 < generation < _MAX_COUNT else 0,
        entries=_read_catalog(catalog, label) if isinstance(catalog, str) else None,
        went_back_from=_read_id(raw.get("went_back_from")),
        raw=raw,
    )


def write_pointer(pointer: Pointer, *, signer: Signer | None = None) -> str:
    """The text of a pointer file, signed where there is a signer."""
    raw: dict[str, Any] = {
        "format": LATEST_FORMAT,
        "label": pointer.label,
        "snapshot_id": pointer.snapshot_id,
        "manifest_file": pointer.manifest_file,
        "updated_at": pointer.updated_at,
        "generation": pointer.generation,
    }
    if pointer.went_back_from is not None:
        raw["went_back_from"] = pointer.went_back_from
    entries = list(pointer.entries or ())
    catalog = _write_catalog(entries)
    while catalog.size > _MAX_CATALOG_BYTES or len(catalog.blob) > MAX_CATALOG_CHARS:
        # Newest first: the oldest half goes, and is read from the manifests where someone asks.
        entries = entries[: len(entries) // 2]
        catalog = _write_catalog(entries)
    raw["catalog"] = f"{catalog.size}:{catalog.blob}"
    if signer is not None:
        raw["signature"] = sign_manifest(raw, signer)
    return json.dumps(raw)


def _read_id(value: object) -> str | None:
    try:
        return require_id(value)
    except ValueError:
        return None


def _write_catalog(entries: Collection[Entry]) -> Packed:
    names: list[list[str]] = []
    rows = []
    for entry in entries:
        docs = list(entry.info.doc_names)
        if docs not in names[-1:]:
            names.append(docs)  # most snapshots have the names of the one before
        known = {"manifest_sha256": entry.manifest_sha256, "shrunk_at": entry.shrunk_at}
        row = [known[key] if key in known else getattr(entry.info, key) for key, _ in _ROW]
        rows.append([len(names) - 1, *row])
    return pack([canonical({"format": _CATALOG_FORMAT, "names": names, "snapshots": rows})])


def _read_catalog(text: str, label: str) -> tuple[Entry, ...] | None:
    try:
        size, _, blob = text.partition(":")
        if not size.isdecimal() or len(size) > 8 or int(size) > _MAX_CATALOG_BYTES:
            return None
        raw = load_object(unpack([blob], size=int(size)).decode("utf-8", "surrogatepass"))
        if raw.get("format") != _CATALOG_FORMAT:
            return None
        names = raw["names"]
        return tuple(_read_row(row, names, label) for row in raw["snapshots"])
    except (ValueError, KeyError, TypeError, IndexError):
        return None


def _read_row(row: list[Any], names: list[Any], label: str) -> Entry:
    values = {}
    for (key, kind), value in zip(_ROW, row[1:], strict=True):
        if not isinstance(value, kind) or (kind is int and (type(value) is not int or not 0 <= value < _MAX_COUNT)):  # type: ignore[arg-type]
            msg = f"{key} is wrong"
            raise TypeError(msg)
        values[key] = value
    require_id(values["snapshot_id"])
    place = row[0]
    if type(place) is not int or place < 0 or not 1 <= values["part_count"] <= _MAX_PARTS:
        raise ValueError("a count is wrong")
    doc_names = list(names[place])
    if not all(isinstance(name, str) for name in doc_names):
        raise TypeError("doc_names is wrong")
    digest, shrunk_at = values.pop("manifest_sha256"), values.pop("shrunk_at")
    return Entry(SnapshotInfo(label=label, doc_names=doc_names, **values), digest, shrunk_at)
