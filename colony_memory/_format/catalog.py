"""Pure: the catalogue in a pointer, which gives of each live snapshot a summary and the digest of its manifest.

It is cut into pages, the newest rows first. A page is opened when something asks for its rows, and is carried over as
the text that it is while they stay the same: a backup opens and writes the first page, however many snapshots there
are. A page that does not hold what it says ends the catalogue. Snapshots without a row are known by their manifests.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, pairwise, product
from operator import attrgetter
from typing import Any, NamedTuple, overload

from colony_memory._format.constants import FORMAT
from colony_memory._format.json import canonical, load_object
from colony_memory._format.manifest import SnapshotInfo
from colony_memory._format.names import id_order, require_id
from colony_memory._format.payload import pack, unpack
from colony_memory._format.tags import read_tags

#: Characters that the catalogue may take in the pointer; the oldest pages are left out beyond it.
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
# A page of more rows takes longer to write anew, one of fewer has more beside its rows.
PAGE_ROWS = 48
# About the plain bytes of a row. A page grows until its rows outweigh the names that the next one has to repeat.
_ROW_CHARS = 400
_FORMAT = "colony-memory/catalog/1"
_HEAD = re.compile(r"([1-9][0-9]{0,7}):([1-9][0-9]{0,5}):", re.ASCII)
_PLAIN = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=:"
_OLD_HEAD = re.compile(r"([0-9]{1,8}):", re.ASCII)
_TEXT, _PERHAPS, _COUNT, _FLAG = (str,), (str, type(None)), (int,), (bool,)
_ROW: tuple[tuple[str, tuple[type, ...]], ...] = (
    ("info.snapshot_id", _TEXT),
    ("manifest_sha256", _TEXT),
    ("info.created_at", _PERHAPS),
    ("info.part_count", _COUNT),
    ("info.byte_size", _COUNT),
    ("info.plaintext_sha256", _TEXT),
    ("info.signed", _FLAG),
    ("info.issuer", _PERHAPS),
    ("info.format", _TEXT),
    ("info.stored_bytes", _COUNT),
    ("info.parent_id", (*_PERHAPS, bool)),
    ("info.encrypted", _FLAG),
    ("shrunk_at", _PERHAPS),
)
_CREATED, _PARENT = 3, 11
_WIDTH = len(_ROW) + 1
_VALUES = attrgetter(*(key for key, _ in _ROW))
# Every row of types that are right, before which stands the place of its names.
_SHAPES = frozenset(product(_COUNT, *(kinds for _, kinds in _ROW)))


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


class _Page(NamedTuple):
    """A page as the pointer has it: its text, the bytes and the JSON values that it says it inflates to."""

    text: str
    size: int
    values: int


class Catalog(Sequence[Entry]):
    """Rows, newest first, whose pages are opened on the way to what is asked for.

    Attributes:
        damage: What is wrong with the page that ended it, as far as it was opened; None where nothing is.
    """

    def __init__(self, label: str, pages: Iterable[_Page] = (), opened: Iterable[tuple[Entry, ...]] = ()) -> None:
        self.damage: str | None = None
        self._label = label
        self._pages, self._opened = list(pages), list(opened)  # the rows of the first so many pages
        self._grown: tuple[Entry, Catalog] | None = None

    @classmethod
    def of(cls, label: str, entries: Iterable[Entry] | None) -> Catalog:
        """The catalogue of these rows, in any order."""
        return cls(label).following(entries or ())

    @classmethod
    def read(cls, label: str, texts: Sequence[object]) -> Catalog:
        """What a pointer has, with the first page open."""
        out, damage = cls(label), None
        size = values = 0
        for place, text in enumerate(texts, 1):
            head = _HEAD.match(text) if isinstance(text, str) and _is_plain(text) else None
            size, values = size + int(head[1]) if head else 0, values + int(head[2]) if head else 0
            if not isinstance(text, str) or not head or size > _MAX_CATALOG_BYTES or values > _MAX_VALUES:
                damage = f"page {place} is no page, or says that it is larger than a catalogue may be"
                break
            out._pages.append(_Page(text, int(head[1]), int(head[2])))
        out._open(0)
        out.damage = out.damage or damage
        return out

    @property
    def front(self) -> tuple[Entry, ...]:
        """The rows of the first page."""
        return self._open(0) or ()

    def __iter__(self) -> Iterator[Entry]:
        for place in count():
            rows = self._open(place)
            if rows is None:
                return
            yield from rows

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return bool(self.front)

    @overload
    def __getitem__(self, index: int) -> Entry: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Entry]: ...
    def __getitem__(self, index: int | slice) -> Entry | Sequence[Entry]:
        return tuple(self)[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Catalog({tuple(self)!r})"

    def find(self, snapshot_id: str) -> Entry | None:
        """The row of a snapshot, or None; no page is opened behind the place where it would stand."""
        for entry in self:
            if entry.info.snapshot_id == snapshot_id:
                return entry
            if entry.info.snapshot_id < snapshot_id and id_order(entry.info.snapshot_id) < id_order(snapshot_id):
                return None
        return None

    def knows(self, snapshot_id: str) -> bool:
        """Whether a page that is open lists it."""
        return any(entry.info.snapshot_id == snapshot_id for rows in self._opened for entry in rows)

    def adding(self, entry: Entry) -> Catalog:
        """The catalogue with a row more, or another one for the same snapshot."""
        if self._grown is None or self._grown[0] != entry:
            self._grown = (entry, self._with(entry))
        return self._grown[1]

    def _with(self, entry: Entry) -> Catalog:
        front, own = self.front, entry.snapshot_id
        if front and id_order(own) <= id_order(front[0].snapshot_id):
            return self.following([entry, *(other for other in self if other.snapshot_id != own)])
        kept = 1 if front and len(front) < _room(front) else 0
        made = _write_pages((entry, *front) if kept else (entry,))
        if not made:
            return Catalog(self._label)  # older rows would stand behind one that is left out
        pages, rows = zip(*made, strict=True)
        return Catalog(self._label, (*pages, *self._pages[kept:]), (*rows, *self._opened[kept:]))

    def following(self, entries: Iterable[Entry]) -> Catalog:
        """The catalogue of these rows, with each page of this one that stays as it is.

        Pages of few rows are joined with their neighbours.
        """
        if isinstance(entries, Catalog):
            return entries
        there = {entry.snapshot_id: entry for entry in entries}
        rows = tuple(there[each] for each in sorted(there, key=id_order, reverse=True))
        same: dict[str, tuple[_Page, tuple[Entry, ...]]] = {}
        pieces, at = list[tuple[Entry, ...]](), 0
        for place in count():
            old = self._open(place)
            if old is None:
                break
            same[old[0].snapshot_id] = self._pages[place], old
            oldest, begin = id_order(old[-1].snapshot_id), at
            while at < len(rows) and id_order(rows[at].snapshot_id) >= oldest:
                at += 1
            _put(pieces, rows[begin:at])
        _put(pieces, rows[at:])
        out = Catalog(self._label)
        for piece in pieces:
            page, known = same.get(piece[0].snapshot_id, (None, ()))
            made = [(page, known)] if page is not None and piece == known else _write_pages(piece)
            out._pages += [page for page, _ in made]
            out._opened += [rows for _, rows in made]
            if sum(len(rows) for _, rows in made) < len(piece):
                break  # a row that is too large: the older ones are left out with it
        return out

    @property
    def may_lack(self) -> bool:
        """Whether there may be older snapshots that it had to leave out: it is not far from a bound, or was damaged.

        A writer that looks at all snapshots lists what fits, so a catalogue that is far from every bound lacks none.
        """
        list(self)  # damage shows where a page is opened
        chars = sum(len(page.text) for page in self._pages)
        size = sum(page.size for page in self._pages)
        values = sum(page.values for page in self._pages)
        near = 4 * chars > MAX_CATALOG_CHARS or 4 * size > _MAX_CATALOG_BYTES or 4 * values > _MAX_VALUES
        return near or self.damage is not None

    def texts(self) -> list[str]:
        """The pages, as many of the newest as a pointer may have."""
        out, chars, size, values = list[str](), 0, 0, 0
        for page in self._pages:
            chars, size, values = chars + len(page.text), size + page.size, values + page.values
            if chars > MAX_CATALOG_CHARS or size > _MAX_CATALOG_BYTES or values > _MAX_VALUES:
                break
            out.append(page.text)
        return out

    def _open(self, place: int) -> tuple[Entry, ...] | None:
        """The rows of a page, None behind the last one that can be read."""
        while len(self._opened) <= place:
            if len(self._opened) == len(self._pages):
                return None
            page = self._pages[len(self._opened)]
            try:
                rows = _read_page(page, self._label)
                above = self._opened[-1][-1:] if self._opened else ()
                if not rows or not _is_newest_first((*above, *rows)):
                    raise ValueError("its rows are not in order")
            except (ValueError, KeyError, TypeError, IndexError) as error:
                self.damage = f"page {len(self._opened) + 1} is damaged: {error}"
                del self._pages[len(self._opened) :]
                return None
            self._opened.append(rows)
        return self._opened[place]


def read_single(text: str, label: str) -> tuple[Entry, ...]:
    """A catalogue that is not cut into pages, as it was written before.

    Raises:
        ValueError: It is none.
    """
    head = _OLD_HEAD.match(text)
    if not head or int(head[1]) > _MAX_CATALOG_BYTES:
        raise ValueError("it says that it is larger than a catalogue may be, or nothing of its size")
    try:
        return _read_rows(unpack([text[head.end() :]], size=int(head[1])), label)
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError(str(error)) from error


def few_lines(left_out: tuple[str, ...]) -> tuple[str, ...]:
    """What a snapshot lacks as a catalogue tells it: where that is much, the last line counts the rest.

    >>> few_lines(tuple(f"{n}.md: is a socket" for n in range(30)))[-1]
    'and 11 more'
    """
    if len(left_out) <= _SHOWN_LINES:
        return left_out
    return (*left_out[: _SHOWN_LINES - 1], f"and {len(left_out) - _SHOWN_LINES + 1} more")


def _is_plain(text: str) -> bool:
    """Whether a page takes as many bytes in a pointer as it has characters: it may be written again unread."""
    return text.isascii() and not text.encode("ascii").translate(None, _PLAIN)


def _is_newest_first(rows: Sequence[Entry]) -> bool:
    orders = [id_order(entry.info.snapshot_id) for entry in rows]
    return all(newer > older for newer, older in pairwise(orders))


def _room(rows: Sequence[Entry]) -> int:
    """Rows that a page takes which has these."""
    names = rows[0].info.doc_names
    if rows[-1].info.doc_names != names:
        return PAGE_ROWS
    return max(PAGE_ROWS, sum(map(len, names)) // _ROW_CHARS)


def _put(pieces: list[tuple[Entry, ...]], rows: tuple[Entry, ...]) -> None:
    """Put rows behind those of earlier pages: the first few on the last page where there is room, else on pages of
    their own, of which all but the first are full.
    """
    if not rows:
        return
    room = _room(rows)
    first = len(rows) % room or room
    for begin, end in pairwise((0, *range(first, len(rows) + 1, room))):
        piece = rows[begin:end]
        if pieces and len(pieces[-1]) + len(piece) <= _room((*pieces[-1], *piece)):
            pieces[-1] += piece
        else:
            pieces.append(piece)


def _write_pages(rows: tuple[Entry, ...]) -> list[tuple[_Page, tuple[Entry, ...]]]:
    """The page of these rows, or several where it is too large for one; a row that is too large ends them."""
    plain = canonical(_raw_page(rows))
    values, packed = _count_values(plain), pack([plain], digests=True)
    text = f"{packed.size}:{values}:{packed.blob}"
    if packed.size <= _MAX_CATALOG_BYTES and values <= _MAX_VALUES and len(text) <= MAX_CATALOG_CHARS:
        return [(_Page(text, packed.size, values), rows)]
    if len(rows) == 1:
        return []
    half = len(rows) // 2
    newer = _write_pages(rows[:half])
    return newer + (_write_pages(rows[half:]) if sum(len(made) for _, made in newer) == half else [])


def _raw_page(entries: Iterable[Entry]) -> dict[str, Any]:
    names: list[list[str]] = []
    rows = []
    for entry in entries:
        info = entry.info
        if not names or info.doc_names != names[-1]:
            names.append(list(info.doc_names))  # most snapshots have the names of the one before
        more = [info.note, list(few_lines(info.incomplete)), list(info.tags), list(entry.packs)]
        while more and not more[-1] and more[-1] != "":
            more.pop()  # what all read as nothing
        rows.append([len(names) - 1, *_VALUES(entry), *more])
    for place, row in enumerate(rows):
        # What another value tells: an id and a time that repeat it are a tenth of what a row takes.
        if row[_CREATED] == _time_in(row[1]):
            row[_CREATED] = None
        if place + 1 < len(rows) and row[_PARENT] == rows[place + 1][1]:
            row[_PARENT] = True
    return {"format": _FORMAT, "names": names, "snapshots": rows}


def _time_in(own: str) -> str | None:
    """The time in an id as ``created_at`` has it, None where it has none."""
    if not id_order(own)[0]:
        return None
    return f"{own[:4]}-{own[4:6]}-{own[6:8]}T{own[9:11]}:{own[11:13]}:{own[13:15]}Z"


def _count_values(plain: bytes | bytearray) -> int:
    """No fewer than the JSON values in the text: each stands behind a comma, a colon or an opening bracket."""
    return sum(map(plain.count, (b",", b":", b"[", b"{")))


def _read_page(page: _Page, label: str) -> tuple[Entry, ...]:
    plain = unpack([page.text.rpartition(":")[2]], size=page.size)
    if _count_values(plain) != page.values:
        raise ValueError("it does not hold as many values as it says")
    return _read_rows(plain, label)


def _read_rows(plain: bytes | bytearray, label: str) -> tuple[Entry, ...]:
    # Inflated it may be a thousand times as long as the file, and as values ten times that.
    if _count_values(plain) > _MAX_VALUES:
        raise ValueError("it holds too many values")
    raw = load_object(plain.decode("utf-8", "surrogatepass"))
    if raw.get("format") != _FORMAT:
        raise ValueError("it is not of this format")
    names = raw["names"]
    for docs in names:
        if type(docs) is not list or not all(isinstance(name, str) for name in docs):
            raise TypeError("names is wrong")
    rows = raw["snapshots"]
    return tuple(_read_row(row, rows[place : place + 1], names, label) for place, row in enumerate(rows, 1))


def _read_row(row: list[Any], below: list[list[Any]], names: list[list[str]], label: str) -> Entry:
    if tuple(map(type, row[:_WIDTH])) not in _SHAPES:
        raise TypeError("a row is wrong")
    place, own, sha256, created_at, parts, size, plain_sha256, signed, issuer, wire, stored, *rest = row[:_WIDTH]
    parent_id, encrypted, shrunk_at = rest
    # A snapshot of format 1 has a part at least.
    if place < 0 or not (wire == FORMAT) <= parts <= _MAX_PARTS or not 0 <= size < _MAX_COUNT > stored >= 0:
        raise ValueError("a count is wrong")
    require_id(own)
    created_at = _time_in(own) if created_at is None else created_at
    if type(parent_id) is bool:
        parent_id = require_id(below[0][1]) if parent_id else False
    if created_at is None or parent_id is False:
        raise TypeError("a row is wrong")
    # What a row may have behind these, so that most rows stay short. Newer writers may have more behind them.
    note, missing, tags, packs = (*row[_WIDTH : _WIDTH + 4], *_NO_MORE[max(0, len(row) - _WIDTH) :])
    if not isinstance(note, (str, type(None))) or not all(type(each) is list for each in (missing, tags, packs)):
        raise TypeError("a row is wrong")
    if not all(isinstance(line, str) for line in missing):
        raise TypeError("incomplete is wrong")
    packs = tuple(map(require_id, packs))
    if packs and packs[-1] != own:
        raise ValueError("packs is wrong")
    info = SnapshotInfo(
        own,
        label,
        created_at,
        names[place],  # one list for all snapshots of the same names: a copy for each would grow with rows times names
        parts,
        size,
        plain_sha256,
        signed,
        issuer,
        wire,
        stored,
        parent_id,
        encrypted=encrypted,
        note=note,
        incomplete=tuple(missing),
        tags=read_tags(tags) if tags else (),
    )
    return Entry(info, sha256, shrunk_at, packs)


_NO_MORE: tuple[Any, ...] = (None, [], [], [])
