"""Pure: the catalogue in a pointer: pages of rows, opened on demand, carried over unread, the oldest in page files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, count, groupby, pairwise, takewhile
from typing import Any

from colony_memory._format.json import canonical, load_object, peak_weight
from colony_memory._format.names import COUNT, DIGEST, expect, id_order, is_id, page_filename, read_filename
from colony_memory._format.payload import pack, sha256, unpack
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
from colony_memory._values import NamedTuple, pattern

__all__ = ["MAX_CATALOG_CHARS", "PAGE_ROWS", "Catalog", "Entry", "few_lines"]

#: Characters that the catalogue may take in the pointer; the oldest pages that do not fit are left out.
MAX_CATALOG_CHARS = 400_000
#: Characters of pages at which the oldest move to page files, of those that then stay, and of one such file.
SPILL_CHARS, STAY_CHARS, FILE_CHARS = 300_000, 120_000, 200_000
#: Most page files for a reader, most before a writer joins them, and most memory for reading one.
MAX_FILES, MANY_FILES, MAX_FILE_WEIGHT = 64, 32, 8 * 2**20
#: Limit of bytes and JSON values of all pages together, as a multiple of that of the pages in the pointer.
IN_FILES = 4
_FILE_FORMAT = "colony-memory/pages/1"
#: Rows of a page. With more it takes longer to rewrite, with fewer its frame weighs more.
PAGE_ROWS = 48
# Approximate plain bytes of a row. A page grows until its rows outweigh the names that the next one repeats.
_ROW_CHARS = 400
_HEAD = pattern(r"([1-9][0-9]{0,7}):([1-9][0-9]{0,5}):", re.ASCII)
_FILE_HEAD = pattern(r'"([1-9][0-9]{0,7}):([1-9][0-9]{0,5}):', re.ASCII)
_PLAIN = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=:"


class PageFile(NamedTuple):
    """A page file as a pointer lists it, with its digest, the newest snapshot in it and its number of pages."""

    file: str
    sha256: str
    newest: str
    pages: int


class _Page(NamedTuple):
    """A stored page: its text, the bytes and JSON values that it declares to unpack to, and its page file."""

    text: str
    size: int
    values: int
    file: PageFile | None = None


class Catalog(Sequence[Entry]):
    """Rows, newest first. Pages are opened one by one, only as far as the requested rows."""

    def __init__(
        self,
        label: str,
        pages: Iterable[_Page] = (),
        opened: Iterable[tuple[Entry, ...]] = (),
        unread: tuple[PageFile, ...] = (),
    ) -> None:
        self.damage: str | None = None  # the fault of the page or file at which it breaks off
        self._label = label
        self._pages, self._opened = list(pages), list(opened)  # rows of the opened pages, the first ones
        self._unread = unread  # page files after these pages
        self._added: tuple[Entry, Catalog] | None = None
        self._by_id: dict[str, Entry] = {}  # rows of the first pages by id
        self._indexed = 0  # number of these pages

    @classmethod
    def of(cls, label: str, entries: Iterable[Entry] | None) -> Catalog:
        return cls(label).following(entries or ())

    @classmethod
    def read(
        cls, label: str, texts: Sequence[object], older: object = None, files: Mapping[str, str | None] | None = None
    ) -> Catalog:
        """The catalogue of a pointer, with its first page opened; unread from the first page file that is not given."""
        out, listed, damage, where = cls(label), list[PageFile](), None, ""
        try:
            listed.extend(_read_older(older, label))
        except ValueError as error:
            damage = str(error)
        try:
            out._append(texts)
            for index, file in enumerate(listed):
                if files is None or file.file not in files:
                    out._unread = tuple(listed[index:])
                    break
                where = f"page file {file.file} "
                out._append(_read_file(file, files[file.file], label), file)
        except ValueError as error:
            damage = f"{where}{error}"
        out._open(0)
        out.damage = out.damage or damage
        return out

    def _append(self, texts: Sequence[object], file: PageFile | None = None) -> None:
        # Checked with every page, since whoever holds the vault chooses their number.
        size, values = sum(page.size for page in self._pages), sum(page.values for page in self._pages)
        for number, text in enumerate(texts, len(self._pages) + 1):
            head = _HEAD.match(text) if isinstance(text, str) and _is_plain(text) else None
            if head is not None:
                size, values = size + int(head[1]), values + int(head[2])
            if head is None or max(size / MAX_WEIGHT, values / MAX_VALUES) > (1 if file is None else IN_FILES):
                raise ValueError(f"page {number} is malformed, or larger than a catalogue may be")
            self._pages.append(_Page(str(text), int(head[1]), int(head[2]), file))

    @property
    def unread(self) -> tuple[str, ...]:
        return tuple(file.file for file in self._unread)

    @property
    def files(self) -> tuple[str, ...]:
        return (*dict.fromkeys(page.file.file for page in self._pages if page.file is not None), *self.unread)

    def _runs(self) -> list[tuple[PageFile | None, list[_Page]]]:
        """Runs of pages, with their page file if that stays as it is, else None; first the pointer's, perhaps empty."""
        out: list[tuple[PageFile | None, list[_Page]]] = [(None, [])]
        for file, run in groupby(self._pages, key=lambda page: page.file):
            pages = [*run]
            if file is not None and len(pages) == file.pages:
                out.append((file, pages))
            elif out[-1][0] is None:
                out[-1][1].extend(pages)
            else:
                out.append((None, pages))
        return out

    def spilled(self, file_id: str) -> tuple[Catalog, dict[str, str]]:
        """The catalogue with its oldest pages in page files if a pointer would have too many; texts of new files."""
        runs = self._runs()
        joins = len(runs) + len(self._unread) > MANY_FILES
        (_, inline), *others = [(None, [page._replace(file=None) for page in self._pages])] if joins else runs
        spills = _chars(inline) > SPILL_CHARS
        if not joins and not spills and all(file is not None for file, _ in others):
            return self, {}
        total = len(self._pages)
        list(self)  # opens all pages; a damaged one ends the catalogue
        if len(self._pages) < total:
            return self.spilled(file_id)
        fits = [chars <= STAY_CHARS for chars in accumulate(len(page.text) for page in inline)]
        kept = max(1, sum(fits)) if spills else len(inline)
        out, texts = inline[:kept], dict[str, str]()
        for file, pages in [(None, inline[kept:]), *others]:
            for piece in _by_size(pages) if file is None else ():
                name = page_filename(self._label, file_id, len(texts))
                raw = {"format": _FILE_FORMAT, "label": self._label, "pages": [page.text for page in piece]}
                texts[name] = json.dumps(raw)
                newest = self._opened[len(out)][0].snapshot_id
                new = PageFile(name, sha256(texts[name].encode("ascii")), newest, len(piece))
                out += [page._replace(file=new) for page in piece]
            out += pages if file is not None else ()
        return Catalog(self._label, out, self._opened, self._unread), texts

    def stored(self) -> tuple[list[str], list[dict[str, Any]]]:
        """The text of each page in the pointer, and its list of page files, as far as they fit there."""
        (_, inline), *runs = self._runs()
        chars = accumulate(len(page.text) for page in inline)
        fit = sum(room <= MAX_CATALOG_CHARS and share <= 1 for room, share in zip(chars, _shares(inline), strict=True))
        if fit < len(inline):
            return [page.text for page in inline[:fit]], []
        older, shares, at = list[PageFile](), _shares(self._pages), len(inline)
        for file, pages in runs:
            at += len(pages)
            if file is None or shares[at - 1] > IN_FILES:
                break
            older.append(file)
        else:
            older += self._unread
        return [page.text for page in inline], [file._asdict() for file in older[:MAX_FILES]]

    @property
    def front(self) -> tuple[Entry, ...]:
        return self._open(0)

    def _rows_of_pages(self) -> Iterator[tuple[Entry, ...]]:
        return takewhile(bool, map(self._open, count()))

    def __iter__(self) -> Iterator[Entry]:
        return chain.from_iterable(self._rows_of_pages())

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return bool(self.front)

    def __getitem__(self, index: Any) -> Any:
        return tuple(self)[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    def find(self, snapshot_id: str) -> Entry | None:
        """The row of a snapshot, or None; opens no page beyond the one where it would be."""
        wanted = id_order(snapshot_id)
        for rows in self._rows_of_pages():
            if id_order(rows[-1].snapshot_id) <= wanted:
                break
        return self._rows().get(snapshot_id)

    def knows(self, snapshot_id: str) -> bool:
        return snapshot_id in self._rows()

    def _rows(self) -> dict[str, Entry]:
        for rows in self._opened[self._indexed :]:
            self._by_id |= {entry.snapshot_id: entry for entry in rows}
        self._indexed = len(self._opened)
        return self._by_id

    def adding(self, entry: Entry) -> Catalog:
        """The catalogue with one more row, or with a new row for a snapshot that it has."""
        if self._added is None or self._added[0] != entry:
            self._added = (entry, self._grow(entry))
        return self._added[1]

    def _grow(self, entry: Entry) -> Catalog:
        front, snapshot_id = self.front, entry.snapshot_id
        if front and id_order(snapshot_id) <= id_order(front[0].snapshot_id):
            return self.following([entry, *(row for row in self if row.snapshot_id != snapshot_id)])
        replaced = 1 if front and len(front) < _rows_per_page(front) else 0
        written = _write_pages((entry, *front) if replaced else (entry,))
        if not written:
            return Catalog(self._label)  # older rows would follow one that is left out
        pages, rows = zip(*written, strict=True)
        return Catalog(self._label, (*pages, *self._pages[replaced:]), (*rows, *self._opened[replaced:]), self._unread)

    def following(self, entries: Iterable[Entry]) -> Catalog:
        """The catalogue of these rows: unchanged pages are kept, those with few remaining rows are joined."""
        if isinstance(entries, Catalog):
            return entries
        by_id = {entry.snapshot_id: entry for entry in entries}
        rows = tuple(by_id[snapshot_id] for snapshot_id in sorted(by_id, key=id_order, reverse=True))
        old_pages: dict[str, tuple[_Page, tuple[Entry, ...]]] = {}
        pieces, at = list[tuple[Entry, ...]](), 0
        for old_rows, old_page in zip(self._rows_of_pages(), self._pages, strict=False):
            old_pages[old_rows[0].snapshot_id] = old_page, old_rows
            oldest, begin = id_order(old_rows[-1].snapshot_id), at
            while at < len(rows) and id_order(rows[at].snapshot_id) >= oldest:
                at += 1
            _lay_out(pieces, rows[begin:at])
        _lay_out(pieces, rows[at:])
        is_behind = self._unread and (not rows or id_order(rows[-1].snapshot_id) > id_order(self._unread[0].newest))
        out = Catalog(self._label, unread=self._unread if is_behind else ())
        for piece in pieces:
            page, page_rows = old_pages.get(piece[0].snapshot_id, (None, ()))
            written = [(page, page_rows)] if page is not None and piece == page_rows else _write_pages(piece)
            out._pages += [page for page, _ in written]
            out._opened += [rows for _, rows in written]
            if sum(len(rows) for _, rows in written) < len(piece):
                out._unread = ()
                break  # a row is too large: the older ones are left out with it
        return out

    @property
    def may_lack(self) -> bool:
        """True if older snapshots may have been left out: it comes near a limit, or is damaged."""
        list(self)  # damage shows when a page is opened
        inline = self._runs()[0][1]
        shares = max(_shares(inline), default=0.0), max(_shares(self._pages), default=0.0) / IN_FILES
        near = _chars(inline) > SPILL_CHARS or 4 * max(shares) > 1
        return near or bool(self._unread) or self.damage is not None

    def _open(self, index: int) -> tuple[Entry, ...]:
        while len(self._opened) <= index:
            if len(self._opened) == len(self._pages):
                return ()
            page = self._pages[len(self._opened)]
            try:
                rows = _read_page(page, self._label)
                previous = self._opened[-1][-1:] if self._opened else ()
                orders = [id_order(entry.snapshot_id) for entry in (*previous, *rows)]
                if not rows or not all(newer > older for newer, older in pairwise(orders)):
                    raise ValueError("its rows are not in order")
            except ValueError as error:
                self.damage = f"page {len(self._opened) + 1} is damaged: {error}"
                del self._pages[len(self._opened) :]
                self._unread = ()
                return ()
            self._opened.append(rows)
        return self._opened[index]


def _chars(pages: Iterable[_Page]) -> int:
    return sum(len(page.text) for page in pages)


def _shares(pages: Sequence[_Page]) -> list[float]:
    """Fractions of a pointer's limits that the first pages take: the first one, the first two, and so on."""
    sizes, values = accumulate(page.size for page in pages), accumulate(page.values for page in pages)
    return [max(size / MAX_WEIGHT, number / MAX_VALUES) for size, number in zip(sizes, values, strict=True)]


def weight_of_file(text: str) -> int:
    """Bytes that the rows of a page file may take in memory, by what its pages declare."""
    return sum(5 * int(size) + 100 * int(values) for size, values in _FILE_HEAD.findall(text))


def _read_older(older: Any, label: str) -> Iterator[PageFile]:
    """The page files that a pointer lists. ValueError, after those before it: an entry is wrong."""
    seen = set[str]()
    for row in older if isinstance(older, list) else [] if older is None else [older]:
        name = row.get("file") if isinstance(row, dict) and len(seen) < MAX_FILES else None
        file = read_filename(name) if isinstance(name, str) and name not in seen else None
        if file is None or (file.kind, file.label) != ("page", label) or not is_id(row.get("newest")):
            raise ValueError("what is said of page files is malformed")
        if not 0 < expect(row, "pages", COUNT) < MAX_VALUES:
            raise ValueError("a page file has too many pages")
        seen.add(row["file"])
        yield PageFile(row["file"], expect(row, "sha256", DIGEST), row["newest"], row["pages"])


def _read_file(file: PageFile, text: str | None, label: str) -> list[object]:
    if text is None or sha256(text.encode("utf-8", "surrogatepass")) != file.sha256:
        raise ValueError("cannot be read, or is not the one that the pointer names")
    if peak_weight(text) > MAX_FILE_WEIGHT:
        raise ValueError("is larger than one may be")
    raw = load_object(text)
    pages: Any = raw.get("pages")
    is_one = (raw.get("format"), raw.get("label")) == (_FILE_FORMAT, label) and isinstance(pages, list)
    if not is_one or len(pages) != file.pages:
        raise ValueError("is no file of that many pages of this label")
    return list(pages)


def _by_size(pages: Sequence[_Page]) -> Iterator[list[_Page]]:
    piece, chars = list[_Page](), 0
    for page in pages:
        if piece and chars + len(page.text) > FILE_CHARS:
            yield piece
            piece, chars = [], 0
        piece.append(page)
        chars += len(page.text)
    if piece:
        yield piece


def _is_plain(text: str) -> bool:
    """True if a page takes one byte a character in a pointer, and so may be copied unread."""
    return text.isascii() and not text.encode("ascii").translate(None, _PLAIN)


def _rows_per_page(rows: Sequence[Entry]) -> int:
    names = rows[0].info.doc_names
    return PAGE_ROWS if rows[-1].info.doc_names != names else max(PAGE_ROWS, sum(map(len, names)) // _ROW_CHARS)


def _lay_out(pieces: list[tuple[Entry, ...]], rows: tuple[Entry, ...]) -> None:
    """Append rows: the first few to the last page if there is room, else all to new pages, the first not full."""
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
    """The page of these rows, or several if one would be too large; they end before a row too large for any page."""
    plain = canonical(raw_rows(rows))
    values, packed = count_values(plain), pack([plain], digests=True)
    text = f"{packed.size}:{values}:{packed.blob}"
    if weight(plain) <= MAX_WEIGHT and values <= MAX_VALUES and len(text) <= MAX_CATALOG_CHARS:
        return [(_Page(text, packed.size, values), rows)]
    if len(rows) == 1:
        return []
    half = len(rows) // 2
    newer = _write_pages(rows[:half])
    return newer + (_write_pages(rows[half:]) if sum(len(part) for _, part in newer) == half else [])


def _read_page(page: _Page, label: str) -> tuple[Entry, ...]:
    plain = unpack([page.text.rpartition(":")[2]], size=page.size)
    if count_values(plain) != page.values:
        raise ValueError("it does not hold as many values as it says")
    return read_rows(plain, label)
