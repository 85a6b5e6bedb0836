"""Pure: what a backend's replies say, checked, and the files of one label as a listing shows them."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from colony_memory._boundary import unwrap
from colony_memory._format.json import load_object
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
from colony_memory._values import NamedTuple, cached_property, dataclass, field, replace
from colony_memory.exceptions import VaultError, VaultUnavailable

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Mapping, Sequence


class ListedFile(NamedTuple):
    """A file in a listing."""

    size: int | None  # bytes, None where the vault does not tell
    time: datetime | object = None  # of the last write, as the vault tells it; of most files nobody asks for it

    @property
    def updated(self) -> datetime | None:
        """The vault's time of the last write, None where it does not tell."""
        return self.time if isinstance(self.time, datetime) else moment(self.time)


@dataclass(frozen=True)
class Listing:
    """The files whose names start with ``prefix``; ``complete`` is false where the vault cut the list.

    ``clock`` is the time at which it was made, where the vault says so. ``written`` is a later time at which a file is
    taken to be written.
    """

    prefix: str
    files: Mapping[str, ListedFile]
    complete: bool = True
    clock: datetime | None = None
    written: datetime | None = None

    @cached_property
    def now(self) -> datetime | None:
        """Newest time that the vault shows of any of them, None where it shows none."""
        shown = max(filter(None, (stored.updated for stored in self.files.values())), default=None)
        return shown if None in (shown, self.written) else max(shown, self.written)  # type: ignore[type-var]

    @property
    def reached(self) -> datetime | None:
        """The same, but nothing that is still to come: in a directory that was written to while a clock was wrong, one
        file would make all others look old, those of this minute too.
        """
        return self.now if None in (self.now, self.clock) else min(self.now, self.clock)  # type: ignore[type-var]

    def need_complete(self, doing: str) -> None:
        """Raise a VaultError where the list is cut, since then nothing can be said of what it does not name."""
        if not self.complete:
            why = f"the vault's list of {self.prefix}* is cut short, so files that matter may be hidden"
            raise VaultError(f"{doing} is refused: {why}")


def read_listing(reply: Any, prefix: str, *, only: Container[str] | None = None) -> Listing:
    """A reply that lists files, of which those whose names start so are taken, or only certain ones of them."""
    reply, complete, clock = unwrap(reply), True, None
    items = reply
    if isinstance(reply, dict):
        clock = moment(reply.get("now"))
        items = reply["items"] if reply.get("items") is not None else reply.get("files")
        total = reply.get("total")
        complete = not reply.get("has_more") and not reply.get("next_cursor")
        if isinstance(items, list) and isinstance(total, int) and total > len(items):
            complete = False
    if not isinstance(items, list):
        # An empty vault answers with an empty list; a torn reply must not read as one.
        raise VaultUnavailable(f"listing {prefix}* failed: the reply has no list of files, try again")
    files = {}
    for item in items:
        entry = item if isinstance(item, dict) else {"filename": item}
        name = entry.get("filename") or entry.get("name")
        if not isinstance(name, str):
            raise VaultUnavailable(f"listing {prefix}* failed: the reply has a file name that is no string, try again")
        if name.startswith(prefix) and (only is None or name in only):
            size = entry.get("content_size")
            files[name] = ListedFile(size if isinstance(size, int) else None, entry.get("updated_at"))
    return Listing(prefix, files, complete, clock)


def moment(text: object) -> datetime | None:
    """A time as the vault writes it, or None. Without a zone it is UTC."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)


def proves(reply: Any, name: str, size: int, doing: str) -> bool:
    """True if the reply to an upload names the file and its size."""
    if not isinstance(reply, dict):
        return False
    named, stored = reply.get("filename", reply.get("name")), reply.get("content_size")
    if isinstance(named, str) and named != name:
        raise VaultError(f"{doing} failed: the vault says that it stored {named[:300]!r}")
    if type(stored) is int and stored != size:
        raise VaultError(f"{doing} failed: the vault stored {stored} bytes of {size}")
    return isinstance(named, str) and type(stored) is int


# So many labels are named in an error.
_NAMED = 8
#: What is younger may be the work of a backup, an import or a deletion that is under way.
GRACE = timedelta(hours=1)


@dataclass(frozen=True)
class LabelFiles:
    label: str
    files: Mapping[str, ListedFile] = field(default_factory=dict)  # size and time of each, by name
    complete: bool = True  # the vault listed everything
    manifests: tuple[str, ...] = ()  # ids of the snapshots whose manifest is there, newest first
    # Names of the part files by id and number, whether or not a manifest stands beside them
    parts: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    # Names of the files of packs by id and number, whoever needs them
    packs: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    pins: frozenset[str] = frozenset()  # ids that are pinned
    listing: Listing | None = None  # the listing, which may be of other labels too
    pages: tuple[str, ...] = ()  # names of the page files of catalogues
    named: frozenset[str] | None = None  # those of them that the believed pointer names, None where there is none
    # When those of them end that end by themselves, as far as that was read
    pin_ends: Mapping[str, datetime] = field(default_factory=dict)

    def pinned(self, snapshot_id: str) -> dict[str, Any]:
        end = self.pin_ends.get(snapshot_id)
        until = None if end is None else stamp(end)
        return {"pinned": snapshot_id in self.pins, "pinned_until": until}

    @property
    def now(self) -> datetime | None:
        return None if self.listing is None else self.listing.now

    def as_of(self, moment: datetime) -> LabelFiles:
        """The same as a listing would show it after a file was written at a time, by which age is told."""
        return self if self.listing is None else replace(self, listing=replace(self.listing, written=moment))

    @cached_property
    def ids(self) -> frozenset[str]:
        return frozenset((*self.manifests, *self.parts, *self.packs, *self.pins))

    @property
    def orphans(self) -> dict[str, tuple[str, ...]]:
        there = set(self.manifests)
        return {each: tuple(found.values()) for each, found in self.parts.items() if each not in there}

    def owned(self, snapshot_id: str) -> list[str]:
        """Every file that is there, is named after the snapshot and is of use to no other, its manifest first."""
        first = (manifest_filename(self.label, snapshot_id), pin_filename(self.label, snapshot_id))
        return [name for name in (*first, *self.parts.get(snapshot_id, {}).values()) if name in self.files]

    def size(self, names: Iterable[str]) -> int | None:
        """Bytes of these files together, None where the vault does not tell all of them."""
        sizes = [self.files[name].size for name in names]
        return None if None in sizes else sum(size or 0 for size in sizes)

    def written(self, names: Iterable[str]) -> list[datetime] | None:
        """When these files were written, by the vault's clock; None where it does not tell of each."""
        times = [self.files[name].updated for name in names]
        return [moment for moment in times if moment is not None] or None if None not in times else None

    def is_of_one_time(self, names: Iterable[str]) -> bool:
        """True if these files were written within a grace period of each other, as far as the vault tells."""
        written = self.written(names)
        return written is None or max(written) - min(written) < GRACE

    def is_young(self, name: str) -> bool:
        """True if nothing in the listing is a grace period younger than this file, as far as the vault tells."""
        written = self.files[name].updated
        return written is None or self.now is None or self.now - written < GRACE

    def old_from(self, names: Iterable[str], *, now: datetime) -> datetime:
        """When these files are a grace period old, as far as the vault tells when they were written."""
        return max(self.written(names) or [now]) + GRACE

    def is_old(self, snapshot_id: str, *, now: datetime) -> bool:
        """True if every file of a snapshot was written longer ago than the grace period.

        The vault's clock tells, by the newest time that it shows and that is not to come: a host's own may be ahead,
        and an upload of this minute would look old. Where the vault tells no times, ids do, and of those none later
        than the host's ``now``.
        """
        return self._is_aged(snapshot_id, [*self.owned(snapshot_id), *self.pack(snapshot_id)], now)

    def pack(self, pack_id: str) -> tuple[str, ...]:
        return tuple(self.packs.get(pack_id, {}).values())

    def old_packs(self, *, now: datetime) -> dict[str, tuple[str, ...]]:
        """Packs that no writer builds on any more unless a manifest names them, by id; see :meth:`is_old`."""
        return {each: self.pack(each) for each in self.packs if self._is_aged(each, self.pack(each), now)}

    def _is_aged(self, snapshot_id: str, names: Sequence[str], now: datetime) -> bool:
        written = self.written(names)
        if written is not None and self.listing is not None and self.listing.reached is not None:
            return self.listing.reached - max(written) > GRACE
        since = id_time(snapshot_id)
        times = [moment for moment in map(id_time, self.ids) if moment is not None]
        return since is not None and min(now, max(times)) - since > GRACE

    def old_pages(self, *, now: datetime) -> list[str]:
        """Page files that no pointer names any more, and that no writer is about to name."""
        unnamed = [name for name in self.pages if name not in self.named] if self.named is not None else []
        return [name for name in unnamed if self._is_aged(name.split(".")[2], [name], now)]


def labels_there(names: Collection[str], wanted: str | None) -> str:
    others = sorted(set(names) - {wanted})
    if not others:
        return ""
    more = f" and {len(others) - _NAMED} more" if others[_NAMED:] else ""
    return f"; there {'is' if len(others) == 1 else 'are'} {', '.join(map(repr, others[:_NAMED]))}{more}"


def read_labels(listing: Listing) -> dict[str, LabelFiles]:
    """The labels in a listing, by name. Files that are not of this format belong to none."""
    found: dict[str, dict[str, ListedFile]] = {}
    ids: dict[tuple[str, str], list[str]] = {}
    numbered: dict[tuple[str, str], dict[str, dict[int, str]]] = {}
    for name, stored in listing.files.items():
        file = read_filename(name)
        if file is None:
            continue
        found.setdefault(file.label, {})[name] = stored
        if file.snapshot_id is None:
            continue
        key = file.label, file.kind
        if file.kind == "page":
            ids.setdefault(key, []).append(name)
        elif file.seq is None:
            ids.setdefault(key, []).append(file.snapshot_id)
        else:
            numbered.setdefault(key, {}).setdefault(file.snapshot_id, {})[file.seq] = name

    def in_order(label: str, kind: str) -> dict[str, dict[int, str]]:
        return {each: dict(sorted(files.items())) for each, files in numbered.get((label, kind), {}).items()}

    return {
        label: LabelFiles(
            label,
            files,
            listing.complete,
            tuple(sorted(ids.get((label, "manifest"), ()), key=id_order, reverse=True)),
            in_order(label, "part"),
            in_order(label, "pack"),
            frozenset(ids.get((label, "pin"), ())),
            listing,
            tuple(ids.get((label, "page"), ())),
        )
        for label, files in sorted(found.items())
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
    """When a pin ends, None where it does not, or tells no time."""
    try:
        return moment(load_object(text).get("until"))
    except ValueError:
        return None
