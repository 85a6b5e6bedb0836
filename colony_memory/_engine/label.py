"""Pure: a backend's replies, checked, and the files of one label as a listing shows them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from colony_memory._boundary import unwrap
from colony_memory._format.json import load_object, shown
from colony_memory._format.names import (
    id_order,
    id_time,
    latest_filename,
    manifest_filename,
    pin_filename,
    read_filename,
    require_label,
    stamp,
)
from colony_memory._values import NamedTuple, Value, cached_property, field, replace
from colony_memory.exceptions import VaultError, VaultUnavailable


class ListedFile(NamedTuple):
    size: int | None  # bytes, None where the vault does not tell
    time: datetime | object = None  # of the last write, as the vault tells it; parsed on demand, as most are not used

    @property
    def updated(self) -> datetime | None:
        return self.time if isinstance(self.time, datetime) else moment(self.time)


class Listing(Value):
    prefix: str  # common to the names of all its files
    files: Mapping[str, ListedFile]
    complete: bool = True  # the vault listed everything
    clock: datetime | None = None  # time of the listing, where the vault tells it
    written: datetime | None = None  # a later time at which a write is assumed

    @cached_property
    def now(self) -> datetime | None:
        """Newest time of any file, or ``written``; None where the vault shows no times."""
        times = (*(file.updated for file in self.files.values()), self.written)
        return max(filter(None, times), default=None) if any(times[:-1]) else None

    @property
    def reached(self) -> datetime | None:
        # Capped at the vault's own time: one file with a time in the future would make all others look old.
        return self.now if None in (self.now, self.clock) else min(self.now, self.clock)  # type: ignore[type-var]


def require_complete(listing: Listing | LabelFiles, what: str, doing: str) -> None:
    """Raises VaultError if the list is cut short: that a file is not in it then proves nothing."""
    if not listing.complete:
        raise VaultError(f"{doing} is refused: the vault's list of {what} is cut short, and may hide files that matter")


def read_listing(reply: Any, prefix: str, *, only: Container[str] | None = None) -> Listing:
    """The files of a listing reply that start with the prefix, and of these those in ``only`` if that is given."""
    reply = unwrap(reply)
    fields = reply if isinstance(reply, dict) else {"items": reply}
    items = fields["items"] if fields.get("items") is not None else fields.get("files")
    if not isinstance(items, list):
        # An empty vault answers with an empty list; a torn reply must not pass for one.
        raise VaultUnavailable(f"listing {prefix}* failed: the reply has no list of files, try again")
    total = fields.get("total")
    is_cut = fields.get("has_more") or fields.get("next_cursor") or (isinstance(total, int) and total > len(items))
    files = {}
    for item in items:
        entry = item if isinstance(item, dict) else {"filename": item}
        name = entry.get("filename") or entry.get("name")
        if not isinstance(name, str):
            raise VaultUnavailable(f"listing {prefix}* failed: the reply has a file name that is no string, try again")
        if name.startswith(prefix) and (only is None or name in only):
            size = entry.get("content_size")
            files[name] = ListedFile(size if isinstance(size, int) else None, entry.get("updated_at"))
    return Listing(prefix, files, not is_cut, moment(fields.get("now")))


def moment(text: object) -> datetime | None:
    """A time as the vault writes it, None if it is none. Without a zone it is UTC."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)


def proves(reply: Any, name: str, size: int, doing: str) -> bool:
    """True if the reply to an upload names the file and its size; a wrong name or size is a VaultError."""
    if not isinstance(reply, dict):
        return False
    named, stored = reply.get("filename", reply.get("name")), reply.get("content_size")
    if isinstance(named, str) and named != name:
        raise VaultError(f"{doing} failed: the vault says that it stored {named[:300]!r}")
    if type(stored) is int and stored != size:
        raise VaultError(f"{doing} failed: the vault stored {stored} bytes of {size}")
    return isinstance(named, str) and type(stored) is int


# Names in a message, at most.
_NAMED = 8
#: Files younger than this may belong to a backup, an import or a deletion that is under way.
GRACE = timedelta(hours=1)


class LabelFiles(Value):
    label: str
    files: Mapping[str, ListedFile] = field(default_factory=dict)  # size and time of each, by name
    complete: bool = True  # the vault listed everything
    manifests: tuple[str, ...] = ()  # ids of the snapshots that have a manifest, newest first
    parts: Mapping[str, Mapping[int, str]] = field(default_factory=dict)  # names of part files by id and number
    packs: Mapping[str, Mapping[int, str]] = field(default_factory=dict)  # names of pack files, likewise
    pins: frozenset[str] = frozenset()  # ids of pinned snapshots
    listing: Listing | None = None  # the listing, which may span other labels too
    pages: tuple[str, ...] = ()  # names of the page files of catalogues
    named: frozenset[str] | None = None  # the pages that the believed pointer names, None where none is believed
    pin_ends: Mapping[str, datetime] = field(default_factory=dict)  # times at which pins expire, by id, if they do

    def pinned(self, snapshot_id: str) -> dict[str, Any]:
        end = self.pin_ends.get(snapshot_id)
        return {"pinned": snapshot_id in self.pins, "pinned_until": end and stamp(end)}

    def as_of(self, moment: datetime) -> LabelFiles:
        """The label as a listing would show it after a write at some time, by which ages are told."""
        return self if self.listing is None else replace(self, listing=replace(self.listing, written=moment))

    @cached_property
    def ids(self) -> frozenset[str]:
        return frozenset((*self.manifests, *self.parts, *self.packs, *self.pins))

    @property
    def orphans(self) -> dict[str, tuple[str, ...]]:
        complete = set(self.manifests)
        return {key: tuple(parts.values()) for key, parts in self.parts.items() if key not in complete}

    def owned(self, snapshot_id: str) -> list[str]:
        """Listed files named after a snapshot that no other needs, so not its packs; its manifest comes first."""
        first = (manifest_filename(self.label, snapshot_id), pin_filename(self.label, snapshot_id))
        return [name for name in (*first, *self.parts.get(snapshot_id, {}).values()) if name in self.files]

    def size(self, names: Iterable[str]) -> int | None:
        sizes = [self.files[name].size for name in names]
        return None if None in sizes else sum(size or 0 for size in sizes)

    def written(self, names: Iterable[str]) -> list[datetime] | None:
        """Times at which these files were written, by the vault's clock; None where it lacks any of them."""
        times = [self.files[name].updated for name in names]
        return [moment for moment in times if moment is not None] or None if None not in times else None

    def is_of_one_time(self, names: Iterable[str]) -> bool:
        """True if these files were written within a grace period of each other, as far as the vault tells."""
        written = self.written(names)
        return written is None or max(written) - min(written) < GRACE

    def is_old(self, snapshot_id: str, *, now: datetime) -> bool:
        """True if every file of a snapshot was written longer ago than the grace period."""
        return self.is_aged(snapshot_id, [*self.owned(snapshot_id), *self.pack(snapshot_id)], now=now)

    def pack(self, pack_id: str) -> tuple[str, ...]:
        return tuple(self.packs.get(pack_id, {}).values())

    def is_aged(self, snapshot_id: str, names: Sequence[str], *, now: datetime) -> bool:
        # By the vault's clock, which is at least at the newest time that it shows, future ones excepted: a host's may
        # be ahead, so that an upload of this minute would look old. Where the vault tells no times, by those in ids:
        # the newest one counts as the present, unless the host's clock is behind it.
        written = self.written(names)
        if written is not None and self.listing is not None and self.listing.reached is not None:
            return self.listing.reached - max(written) > GRACE
        since = id_time(snapshot_id)
        times = [moment for moment in map(id_time, self.ids) if moment is not None]
        return since is not None and min(now, max(times, default=since)) - since > GRACE


def labels_there(names: Collection[str], wanted: str | None) -> str:
    others = sorted(set(names) - {wanted})
    return f"; there {'is' if len(others) == 1 else 'are'} {few(others)}" if others else ""


def few(names: Sequence[str]) -> str:
    rest = f" and {len(names) - _NAMED} more" if names[_NAMED:] else ""
    return ", ".join(map(shown, names[:_NAMED])) + rest


def read_labels(listing: Listing, seen: Iterable[str] = ()) -> dict[str, LabelFiles]:
    """The labels of a listing, and those ``seen`` before, of which it may have no file."""
    files = defaultdict[str, dict[str, ListedFile]](dict, {label: {} for label in seen})
    kinds = defaultdict[tuple[str, str], list[Any]](list)
    for name, stored in listing.files.items():
        file = read_filename(name)
        if file is not None:
            files[file.label][name] = stored
            kinds[file.label, file.kind].append((file.seq, file.snapshot_id, name))

    def numbered(label: str, kind: str) -> dict[str, dict[int, str]]:
        found = defaultdict[str, dict[int, str]](dict)
        for seq, key, name in sorted(kinds[label, kind]):
            found[key][seq] = name
        return dict(found)

    return {
        label: LabelFiles(
            label,
            listed,
            listing.complete,
            manifests=tuple(sorted((key for _, key, _ in kinds[label, "manifest"]), key=id_order, reverse=True)),
            parts=numbered(label, "part"),
            packs=numbered(label, "pack"),
            pins=frozenset(key for _, key, _ in kinds[label, "pin"]),
            listing=listing,
            pages=tuple(name for _, _, name in kinds[label, "page"]),
        )
        for label, listed in sorted(files.items())
    }


def read_label(listing: Listing, label: str) -> LabelFiles:
    return read_labels(listing).get(label) or LabelFiles(require_label(label), complete=listing.complete)


def has_pointer(files: LabelFiles) -> bool:
    return latest_filename(files.label) in files.files


_PIN = "colony-memory/pin/1"


def pin_text(label: str, snapshot_id: str, until: datetime | None = None) -> str:
    end = {} if until is None else {"until": stamp(until)}
    return json.dumps({"format": _PIN, "label": label, "snapshot_id": snapshot_id, **end})


def read_end(text: str) -> datetime | None:
    try:
        return moment(load_object(text).get("until"))
    except ValueError:
        return None
