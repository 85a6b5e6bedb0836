"""Pure: the ``latest`` pointer of a label, its generation and its catalogue of the live snapshots."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from colony_memory._boundary import corrupt
from colony_memory._format import LATEST_FORMAT, names
from colony_memory._format.catalog import Catalog, Entry
from colony_memory._format.json import load_object, peak_weight
from colony_memory._format.lineage import Unmerged, raw_unmerged, read_unmerged
from colony_memory._format.names import id_order
from colony_memory._values import Value, cached_property, field
from colony_memory.exceptions import SnapshotCorrupt
from colony_memory.signing import Signer, sign_manifest

# Largest `peak_weight` of a pointer: several times that of the largest catalogue with 100,000 removed ids.
_MOST_WEIGHT = 64 * 2**20


class Pointer(Value):
    label: str
    snapshot_id: str | None  # the snapshot that restore gives, None if the pointer names none
    updated_at: str = ""  # when it was written, YYYY-MM-DDThh:mm:ssZ
    generation: int = 0  # number of its writes by this package; 0 if 0.1.1 wrote it
    stream: str | None = None  # 16 hex digits drawn with the label's first pointer, None if 0.1.1 wrote it
    # The catalogue, read only as far as it is used; None if there is none that can be read
    entries: Sequence[Entry] | None = None
    removed: tuple[str, ...] = ()  # ids of snapshots that are to be deleted, or were
    # The newest snapshot that it named before, if that was deleted, or that was about to be copied in from elsewhere;
    # None if it names its newest
    went_back_from: str | None = None
    unmerged: tuple[Unmerged, ...] = ()  # snapshots that no latest is based on: overtaken, or refused
    # Bytes of each document of the snapshot that it names, in the order of its row's names, 0 for one that holds
    # nothing but NUL; empty if they are not known
    doc_bytes: tuple[int, ...] = ()
    # The JSON object as it was read, which the signature covers; empty for a pointer that is yet to be written
    raw: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def signed(self) -> bool:
        return self.raw.get("signature") is not None

    @property
    def head(self) -> str:
        """``generation:digest``; empty without a generation, or if the catalogue lacks the snapshot that it names."""
        named = None if self.snapshot_id is None else self.entry(self.snapshot_id)
        if not self.generation or (self.snapshot_id is not None and named is None):
            return ""
        try:
            return names.write_head(self.generation, named.manifest_sha256 if named else None)
        except ValueError:
            return ""  # the digest in the catalogue is malformed

    def entry(self, snapshot_id: str) -> Entry | None:
        if isinstance(self.entries, Catalog):
            return self.entries.find(snapshot_id)
        return next((entry for entry in self.entries or () if entry.info.snapshot_id == snapshot_id), None)

    @property
    def catalog(self) -> Catalog:
        """The rows as this package writes them; empty if there is no catalogue that can be read."""
        return self.entries if isinstance(self.entries, Catalog) else Catalog.of(self.label, self.entries)

    @cached_property
    def rows(self) -> Mapping[str, Entry]:
        return {entry.snapshot_id: entry for entry in self.entries or ()}

    @cached_property
    def gone(self) -> frozenset[str]:
        return frozenset(self.removed)

    def took_out(self, snapshot_id: str) -> bool:
        """True if it tells that a snapshot was deleted: by its id, or because the pointer went back past it."""
        back = id_order(self.snapshot_id or "") < id_order(snapshot_id) <= id_order(self.went_back_from or "")
        return back or snapshot_id in self.gone

    def follow(
        self,
        snapshot_id: str | None,
        *,
        updated_at: str,
        entries: Iterable[Entry],
        stream: str,
        removed: Iterable[str] = (),
        coming: str | None = None,
        unmerged: Iterable[Unmerged] = (),
        doc_bytes: tuple[int, ...] | None = None,
        above: int = 0,
        before: str | None = None,
    ) -> Pointer:
        """The next pointer; ``coming`` is about to be copied in, ``before`` the latest if this pointer proves none."""
        catalog = self.catalog.following(entries)
        # In a vault without signatures any writer can set any count: once at its maximum, it stays there.
        generation = min(max(self.generation, above) + 1, names.LARGEST)
        earlier = (self.snapshot_id, self.went_back_from) if self.generation else (before,)
        newest = max(filter(None, (snapshot_id, *earlier, coming)), key=id_order, default=None)
        back = None if newest == snapshot_id else newest
        gone = tuple(sorted(removed))
        if doc_bytes is None:
            doc_bytes = self.doc_bytes if snapshot_id == self.snapshot_id else ()
        return Pointer(
            self.label, snapshot_id, updated_at, generation, stream, catalog, gone, back, tuple(unmerged), doc_bytes
        )


def read_pointer(
    text: str, *, label: str, strict: bool = False, files: Mapping[str, str | None] | None = None
) -> Pointer:
    """Read a pointer file. Unless ``strict``, a damaged catalogue is read as far as it goes: it is only a hint."""
    file = names.latest_filename(label)
    with corrupt(f"pointer {file} is not readable", file):
        if peak_weight(text) > _MOST_WEIGHT:
            raise ValueError("it is larger than one may be")
        raw = load_object(text)
        if raw.get("format") != LATEST_FORMAT or raw.get("label") != label:
            raise ValueError(f"it is not a pointer of label {label!r}")
        named = None if raw.get("snapshot_id") == "" else names.require_id(raw.get("snapshot_id"))
        if raw.get("manifest_file") != _manifest_file(label, named):
            raise ValueError("manifest_file is not the one of the snapshot")
    updated_at, generation, back = raw.get("updated_at"), raw.get("generation"), raw.get("went_back_from")
    removed, stream, listed = raw.get("removed"), raw.get("stream"), raw.get("catalog")
    doc_bytes: Any = raw.get("doc_bytes")
    pages = Catalog.read(label, listed, raw.get("older"), files) if isinstance(listed, list) else None
    if strict:
        damage = None if listed is None else "it is no list of pages"
        if pages is not None:
            len(pages)  # opens every page
            damage = pages.damage
        if damage is not None:
            raise SnapshotCorrupt(f"the catalogue in {file} is not readable: {damage}", file=file)
    return Pointer(
        label=label,
        snapshot_id=named,
        updated_at=updated_at if isinstance(updated_at, str) else "",
        generation=generation if names.is_count(generation) else 0,
        stream=stream if names.is_hex16(stream) else None,
        entries=pages if pages or listed == [] else None,
        removed=tuple(filter(names.is_id, removed)) if isinstance(removed, list) else (),
        went_back_from=back if names.is_id(back) else None,
        unmerged=read_unmerged(raw.get("unmerged")),
        doc_bytes=tuple(doc_bytes) if names.COUNTS[0](doc_bytes) else (),
        raw=raw,
    )


def write_pointer(pointer: Pointer, *, signer: Signer | None = None) -> str:
    raw: dict[str, Any] = {
        "format": LATEST_FORMAT,
        "label": pointer.label,
        "snapshot_id": pointer.snapshot_id or "",
        "manifest_file": _manifest_file(pointer.label, pointer.snapshot_id),
        "updated_at": pointer.updated_at,
        "generation": pointer.generation,
    }
    catalog, older = pointer.catalog.stored()
    more = {
        "stream": pointer.stream,
        "removed": pointer.removed,
        "went_back_from": pointer.went_back_from,
        "unmerged": raw_unmerged(pointer.unmerged),
        "doc_bytes": pointer.doc_bytes,
        "older": older,
    }
    raw |= {key: value for key, value in more.items() if value} | {"catalog": catalog}
    if signer is not None:
        raw["signature"] = sign_manifest(raw, signer)
    return json.dumps(raw)


def _manifest_file(label: str, snapshot_id: str | None) -> str:
    return "" if snapshot_id is None else names.manifest_filename(label, snapshot_id)
