"""Pure: the catalogue in a pointer: a row for each live snapshot, with its summary and the digest of its manifest.

It is cut into pages, newest rows first. A page is opened when something asks for its rows. While they stay the same,
its text is carried over unread: a backup opens and writes only the first page, however many snapshots there are. A page
that does not hold what it says ends the catalogue. A snapshot without a row is known by its manifest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, pairwise
from typing import NamedTuple, overload

from colony_memory._format.json import canonical
from colony_memory._format.names import id_order
from colony_memory._format.payload import pack, unpack
from colony_memory._format.rows import (
    MAX_VALUES,
    MAX_WEIGHT,
    Entry,
    count_values,
    few_lines,
    raw_rows,
    read_rows,
    weight,
)

__all__ = ["MAX_CATALOG_CHARS", "PAGE_ROWS", "Catalog", "Entry", "few_lines", "read_single"]

#: Characters that the catalogue may take in the pointer; the oldest pages that do not fit are left out.
MAX_CATALOG_CHARS = 400_000
#: Rows of a page. With more it takes longer to write anew, with fewer its frame weighs more.
PAGE_ROWS = 48
# About the plain bytes of a row. A page grows until its rows outweigh the names that the next one has to repeat.
_ROW_CHARS = 400
_HEAD = re.compile(r"([1-9][0-9]{0,7}):([1-9][0-9]{0,5}):", re.ASCII)
_PLAIN = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=:"
_OLD_HEAD = re.compile(r"([0-9]{1,8}):", re.ASCII)


class _Page(NamedTuple):
    """A page as the pointer has it: its text, and how many bytes and JSON values it says it unpacks to."""

    text: str
    size: int
    values: int


class Catalog(Sequence[Entry]):
    """Rows, newest first. Pages are opened one by one, no further than the rows that are asked for.

    Attributes:
        damage: What is wrong with the page that ended it; None if nothing is wrong with any page opened so far.
    """

    def __init__(self, label: str, pages: Iterable[_Page] = (), opened: Iterable[tuple[Entry, ...]] = ()) -> None:
        self.damage: str | None = None
        self._label = label
        self._pages, self._opened = list(pages), list(opened)  # rows of the first pages
        self._grown: tuple[Entry, Catalog] | None = None
        self._known: dict[str, Entry] = {}  # the rows of so many pages, by id
        self._counted = 0

    @classmethod
    def of(cls, label: str, entries: Iterable[Entry] | None) -> Catalog:
        """The catalogue of these rows, in any order."""
        return cls(label).following(entries or ())

    @classmethod
    def read(cls, label: str, texts: Sequence[object]) -> Catalog:
        """The catalogue that a pointer has, with its first page open."""
        out, damage = cls(label), None
        size = values = 0
        for place, text in enumerate(texts, 1):
            head = _HEAD.match(text) if isinstance(text, str) and _is_plain(text) else None
            size, values = size + int(head[1]) if head else 0, values + int(head[2]) if head else 0
            if not isinstance(text, str) or not head or size > MAX_WEIGHT or values > MAX_VALUES:
                damage = f"page {place} is malformed, or larger than a catalogue may be"
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
        """The row of a snapshot, or None; no page is opened beyond the place where it would stand."""
        place, wanted = 0, id_order(snapshot_id)
        while (rows := self._open(place)) is not None and id_order(rows[-1].snapshot_id) > wanted:
            place += 1
        return self._rows().get(snapshot_id)

    def knows(self, snapshot_id: str) -> bool:
        """Whether a page that is open lists it."""
        return snapshot_id in self._rows()

    def _rows(self) -> dict[str, Entry]:
        """The rows of all pages that are open, by id."""
        for rows in self._opened[self._counted :]:
            self._known |= {entry.snapshot_id: entry for entry in rows}
        self._counted = len(self._opened)
        return self._known

    def adding(self, entry: Entry) -> Catalog:
        """The catalogue with one more row, or with another row for the same snapshot."""
        if self._grown is None or self._grown[0] != entry:
            self._grown = (entry, self._grow(entry))
        return self._grown[1]

    def _grow(self, entry: Entry) -> Catalog:
        front, own = self.front, entry.snapshot_id
        if front and id_order(own) <= id_order(front[0].snapshot_id):
            return self.following([entry, *(other for other in self if other.snapshot_id != own)])
        kept = 1 if front and len(front) < _rows_per_page(front) else 0
        made = _write_pages((entry, *front) if kept else (entry,))
        if not made:
            return Catalog(self._label)  # older rows would stand behind one that is left out
        pages, rows = zip(*made, strict=True)
        return Catalog(self._label, (*pages, *self._pages[kept:]), (*rows, *self._opened[kept:]))

    def following(self, entries: Iterable[Entry]) -> Catalog:
        """The catalogue of these rows, which keeps every page of this one that stays as it is.

        Pages left with few rows are joined with their neighbours.
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
            _lay_out(pieces, rows[begin:at])
        _lay_out(pieces, rows[at:])
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
        """Whether it may have had to leave out older snapshots: it comes near a bound, or is damaged.

        A writer that looks at all snapshots lists what fits, so a catalogue far from every bound lacks none.
        """
        list(self)  # damage shows when a page is opened
        chars = sum(len(page.text) for page in self._pages)
        size = sum(page.size for page in self._pages)
        values = sum(page.values for page in self._pages)
        near = 4 * chars > MAX_CATALOG_CHARS or 4 * size > MAX_WEIGHT or 4 * values > MAX_VALUES
        return near or self.damage is not None

    def texts(self) -> list[str]:
        """The text of each page: as many of the newest as a pointer may have."""
        out, chars, size, values = list[str](), 0, 0, 0
        for page in self._pages:
            chars, size, values = chars + len(page.text), size + page.size, values + page.values
            if chars > MAX_CATALOG_CHARS or size > MAX_WEIGHT or values > MAX_VALUES:
                break
            out.append(page.text)
        return out

    def _open(self, place: int) -> tuple[Entry, ...] | None:
        """The rows of a page; None beyond the last one that can be read."""
        while len(self._opened) <= place:
            if len(self._opened) == len(self._pages):
                return None
            page = self._pages[len(self._opened)]
            try:
                rows = _read_page(page, self._label)
                above = self._opened[-1][-1:] if self._opened else ()
                if not rows or not _is_newest_first((*above, *rows)):
                    raise ValueError("its rows are not in order")
            except ValueError as error:
                self.damage = f"page {len(self._opened) + 1} is damaged: {error}"
                del self._pages[len(self._opened) :]
                return None
            self._opened.append(rows)
        return self._opened[place]


def read_single(text: str, label: str) -> tuple[Entry, ...]:
    """The rows of a catalogue that is not cut into pages, as early versions wrote it.

    Raises:
        ValueError: It is not one.
    """
    head = _OLD_HEAD.match(text)
    if not head or int(head[1]) > MAX_WEIGHT:
        raise ValueError("its size is missing, or above the bound for catalogues")
    return read_rows(unpack([text[head.end() :]], size=int(head[1])), label)


def _is_plain(text: str) -> bool:
    """Whether a page takes one byte a character in a pointer, so that it may be written again unread."""
    return text.isascii() and not text.encode("ascii").translate(None, _PLAIN)


def _is_newest_first(rows: Sequence[Entry]) -> bool:
    orders = [id_order(entry.info.snapshot_id) for entry in rows]
    return all(newer > older for newer, older in pairwise(orders))


def _rows_per_page(rows: Sequence[Entry]) -> int:
    """How many rows a page takes that begins with these."""
    names = rows[0].info.doc_names
    if rows[-1].info.doc_names != names:
        return PAGE_ROWS
    return max(PAGE_ROWS, sum(map(len, names)) // _ROW_CHARS)


def _lay_out(pieces: list[tuple[Entry, ...]], rows: tuple[Entry, ...]) -> None:
    """Append rows to the pages laid out so far.

    The first few go onto the last page if there is room; else all go onto new pages, full but for the first.
    """
    if not rows:
        return
    most = _rows_per_page(rows)
    first = len(rows) % most or most
    for begin, end in pairwise((0, *range(first, len(rows) + 1, most))):
        piece = rows[begin:end]
        if pieces and len(pieces[-1]) + len(piece) <= _rows_per_page((*pieces[-1], *piece)):
            pieces[-1] += piece
        else:
            pieces.append(piece)


def _write_pages(rows: tuple[Entry, ...]) -> list[tuple[_Page, tuple[Entry, ...]]]:
    """The page of these rows, or several if they are too large for one; a row too large for any page ends them."""
    plain = canonical(raw_rows(rows))
    values, packed = count_values(plain), pack([plain], digests=True)
    text = f"{packed.size}:{values}:{packed.blob}"
    if weight(plain) <= MAX_WEIGHT and values <= MAX_VALUES and len(text) <= MAX_CATALOG_CHARS:
        return [(_Page(text, packed.size, values), rows)]
    if len(rows) == 1:
        return []
    half = len(rows) // 2
    newer = _write_pages(rows[:half])
    return newer + (_write_pages(rows[half:]) if sum(len(made) for _, made in newer) == half else [])


def _read_page(page: _Page, label: str) -> tuple[Entry, ...]:
    plain = unpack([page.text.rpartition(":")[2]], size=page.size)
    if count_values(plain) != page.values:
        raise ValueError("it does not hold as many values as it says")
    return read_rows(plain, label)
