"""Pure: the rows of a catalogue, one for each snapshot, and the JSON text of a page of them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from operator import attrgetter
from typing import Any

from colony_memory._format import FORMAT
from colony_memory._format.json import load_object
from colony_memory._format.lineage import read_lineage
from colony_memory._format.manifest import SnapshotInfo, read_lacking, read_note, read_tags, read_word
from colony_memory._format.names import id_order, is_count, require_id
from colony_memory._values import Value, pattern

#: Most JSON values in a catalogue. Read by Python, each takes up to a hundred bytes, however short in the file.
MAX_VALUES = 500_000
#: Most bytes of a catalogue, and of memory for the text of one page.
MAX_WEIGHT = 16 * 2**20
_BEYOND = pattern(rb"[\xf0-\xf4]")
# The number of a part has six digits in a file name.
_MAX_PARTS = 1_000_000
# Most lines in a row about what was left out; the manifest has all.
_SHOWN_LINES = 20
_FORMAT = "colony-memory/catalog/1"
_TEXT, _OPTIONAL, _COUNT, _BOOL = (str,), (str, type(None)), (int,), (bool,)
_ROW: tuple[tuple[str, tuple[type, ...]], ...] = (
    ("info.snapshot_id", _TEXT),
    ("manifest_sha256", _TEXT),
    ("info.created_at", _OPTIONAL),
    ("info.part_count", _COUNT),
    ("info.byte_size", _COUNT),
    ("info.plaintext_sha256", _TEXT),
    ("info.signed", _BOOL),
    ("info.issuer", _OPTIONAL),
    ("info.format", _TEXT),
    ("info.stored_bytes", _COUNT),
    ("info.parent_id", (*_OPTIONAL, bool)),
    ("info.encrypted", _BOOL),
    ("shrunk_at", _OPTIONAL),
)
_CREATED, _PARENT = 3, 11
_WIDTH = len(_ROW) + 1
_VALUES = attrgetter(*(key for key, _ in _ROW))
# Every valid sequence of types. The index of the row's names comes first.
_SHAPES = frozenset(product(_COUNT, *(kinds for _, kinds in _ROW)))
# Note, lines about what was left out, tags, packs and further facts, for a row without them.
_NO_MORE: tuple[Any, ...] = (None, [], [], [], {})


class Entry(Value):
    info: SnapshotInfo  # the summary
    manifest_sha256: str  # digest of the manifest file
    # When a snapshot with less than half its bytes or documents, or one that ruined a document of it, last followed,
    # YYYY-MM-DDThh:mm:ssZ
    shrunk_at: str | None = None
    # Ids of the packs of its chain, base first; empty in format 1, or if the row has none
    packs: tuple[str, ...] = ()
    spoiled: bool = False  # the snapshot that followed then ruined a document of it
    ruined: int = 0  # number of its predecessor's documents that are ruined in it, by its manifest; not in any row
    base_files: int = 1  # number of files of its base, so that all can be asked for at once

    @property
    def snapshot_id(self) -> str:
        return self.info.snapshot_id


def few_lines(left_out: tuple[str, ...]) -> tuple[str, ...]:
    """The lines about what was left out, as in a catalogue: the last line of a long list counts the rest."""
    if len(left_out) <= _SHOWN_LINES:
        return left_out
    return (*left_out[: _SHOWN_LINES - 1], f"and {len(left_out) - _SHOWN_LINES + 1} more")


def raw_rows(entries: Iterable[Entry]) -> dict[str, Any]:
    names: list[list[str]] = []
    rows = []
    for entry in entries:
        info = entry.info
        if not names or info.doc_names != names[-1]:
            names.append(list(info.doc_names))  # most snapshots have the names of the one before
        more = [info.note, list(few_lines(info.incomplete)), list(info.tags), list(entry.packs), _facts(entry)]
        while more and not more[-1] and more[-1] != "":
            more.pop()  # a missing value is read as empty
        rows.append([len(names) - 1, *_VALUES(entry), *more])
    for index, row in enumerate(rows):
        # Omitted if another value implies it: an id and a time are a tenth of a row.
        if row[_CREATED] == _time_in(row[1]):
            row[_CREATED] = None
        if index + 1 < len(rows) and row[_PARENT] == rows[index + 1][1]:
            row[_PARENT] = True
    return {"format": _FORMAT, "names": names, "snapshots": rows}


def _facts(entry: Entry) -> dict[str, Any]:
    """The fields that only some rows have, by name, so that newer writers can say more."""
    info = entry.info
    facts: dict[str, Any] = {}
    if info.based_on is not None:
        facts["based_on"] = True if info.based_on == (info.parent_id,) else list(info.based_on)
    facts |= {name: value for name in ("origin", "refused", "rewrites") if (value := getattr(info, name))}
    if info.doc_count not in (None, len(info.doc_names)):
        facts["doc_count"] = info.doc_count
    facts |= {"spoiled": True} if entry.spoiled else {}
    return facts | ({"base_files": entry.base_files} if entry.base_files > 1 else {})


def _time_in(text: str) -> str | None:
    if not id_order(text)[0]:
        return None
    return f"{text[:4]}-{text[4:6]}-{text[6:8]}T{text[9:11]}:{text[11:13]}:{text[13:15]}Z"


def count_values(plain: bytes | bytearray) -> int:
    """Upper bound of the number of JSON values in a text: each follows a comma, a colon or an opening bracket."""
    return sum(map(plain.count, (b",", b":", b"[", b"{")))


def weight(plain: bytes | bytearray) -> int:
    """Memory in bytes for the text of a page: one character beyond the first plane makes each of them take four."""
    return len(plain) if plain.isascii() else (4 if _BEYOND.search(plain) else 2) * len(plain)


def read_rows(plain: bytes | bytearray, label: str) -> tuple[Entry, ...]:
    # Unpacked, it may be a thousand times as long as the file, and as Python values ten times that.
    if count_values(plain) > MAX_VALUES or weight(plain) > MAX_WEIGHT:
        raise ValueError("it holds too much")
    try:
        return _read_all(load_object(plain.decode("utf-8", "surrogatepass")), label)
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError(str(error)) from error


def _read_all(raw: dict[str, Any], label: str) -> tuple[Entry, ...]:
    if raw.get("format") != _FORMAT:
        raise ValueError("it is not of this format")
    names = raw["names"]
    for docs in names:
        if type(docs) is not list or not all(isinstance(name, str) for name in docs):
            raise TypeError("names is wrong")
    rows = raw["snapshots"]
    return tuple(_read_row(row, rows[index : index + 1], names, label) for index, row in enumerate(rows, 1))


def _read_row(row: list[Any], below: list[list[Any]], names: list[list[str]], label: str) -> Entry:
    if tuple(map(type, row[:_WIDTH])) not in _SHAPES:
        raise TypeError("a row is wrong")
    place, own_id, sha256, created_at, parts, size, plain_sha256, signed, issuer, wire, stored, *rest = row[:_WIDTH]
    parent_id, encrypted, shrunk_at = rest
    # A snapshot of format 1 has at least one part.
    if place < 0 or not (wire == FORMAT) <= parts <= _MAX_PARTS or not is_count(size) or not is_count(stored):
        raise ValueError("a count is wrong")
    require_id(own_id)
    created_at = _time_in(own_id) if created_at is None else created_at
    if type(parent_id) is bool:
        parent_id = require_id(below[0][1]) if parent_id else False
    if created_at is None or parent_id is False:
        raise TypeError("a row is wrong")
    # Values that only some rows have come last, so that most stay short. Newer writers may append more.
    note, missing, tags, packs, facts = (*row[_WIDTH : _WIDTH + 5], *_NO_MORE[max(0, len(row) - _WIDTH) :])
    if not isinstance(note, (str, type(None))) or not all(type(value) is list for value in (missing, tags, packs)):
        raise TypeError("a row is wrong")
    if type(facts) is not dict or not all(isinstance(line, str) for line in missing):
        raise TypeError("a row is wrong")
    based_on = facts.get("based_on")
    lineage = read_lineage({**facts, "based_on": [parent_id] if based_on is True else based_on})
    count = facts.get("doc_count", None if encrypted or (wire != FORMAT and not names[place]) else len(names[place]))
    if count is not None and not is_count(count):
        raise ValueError("a count is wrong")
    packs = tuple(map(require_id, packs))
    if packs and packs[-1] != own_id:
        raise ValueError("packs is wrong")
    # Snapshots with the same names share one list: copies would take memory by rows times names.
    head = own_id, label, read_word(created_at), names[place], parts, size, plain_sha256, signed
    info = SnapshotInfo(
        *head,
        None if issuer is None else read_word(issuer),
        read_word(wire),
        stored,
        parent_id,
        encrypted=encrypted,
        note=read_note(note),
        incomplete=read_lacking(missing),
        tags=read_tags(tags) if tags else (),
        **lineage.facts,
        doc_count=count,
    )
    base_files = facts.get("base_files", 1)
    if not is_count(base_files, _MAX_PARTS) or not base_files:
        raise ValueError("a count is wrong")
    return Entry(info, sha256, shrunk_at, packs, facts.get("spoiled") is True, base_files=base_files)
