"""Pure: a folder's record, the document for whatever is not text, as far as comparing and merging memories needs it."""

from __future__ import annotations

import base64
from binascii import b2a_base64
from collections.abc import Callable, Iterable, Iterator, Mapping
from io import BytesIO
from json import JSONDecoder
from typing import Any

from colony_memory._format.json import canonical, load_object

#: Name of the record, which holds binary files, links and the like by file name.
RECORD_NAME = ".colony-memory/folder.json"
#: Name of a second record for permissions and times alone, which change without the files.
ATTRIBUTES_NAME = ".colony-memory/attributes.json"
RECORDS = (RECORD_NAME, ATTRIBUTES_NAME)
#: Format of both.
FORMAT = "colony-memory/folder/1"
_ALWAYS = ("empty_dirs", "executable", "files", "format")
# Begins the line of a binary file, so that no text file with the same base64 equals it.
_LEAD = "\0base64:"
# Characters of a file that are read or written at a time: blocks of this size are reused by the allocator.
_PIECE = 2**16
_DECODER = JSONDecoder()
# Start of the files in a record's text, and the same without any file.
_FILES, _NO_FILES = '"files":{', '"files":{}'


class _Bytes(str):
    """A binary file, as a document of one line."""

    __slots__ = ()


def lacks_text(documents: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """True if some line of another memory is in none of these documents. A binary file counts as one line."""
    known = {*lines_of(documents)}
    return any(line not in known for line in lines_of(other))


def lines_of(documents: Mapping[str, str]) -> Iterator[str]:
    for name, text in _unfolded(documents).items():
        if name not in RECORDS or read_record(text) is None:
            yield from (line.rstrip("\r") for line in text.split("\n") if line.strip())


def read_record(text: str | None) -> dict[str, Any] | None:
    try:
        record = None if text is None else load_object(text)
    except ValueError:
        return None
    return record if record is not None and record.get("format") == FORMAT else None


def without(record: Mapping[str, Any], gone: Callable[[str], bool]) -> dict[str, Any]:
    """The record without its entries of some names; ``gone`` gets a directory's name without the slash at its end."""
    kept = dict(record)
    for key, value in record.items():
        if isinstance(value, dict):
            kept[key] = {name: entry for name, entry in value.items() if not gone(name.rstrip("/"))}
        elif isinstance(value, list):
            kept[key] = [name for name in value if not (isinstance(name, str) and gone(name.rstrip("/")))]
    return {key: value for key, value in kept.items() if value or key in _ALWAYS}


def unfold(
    base: Mapping[str, str], ours: Mapping[str, str], theirs: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Memories with each file of their record as a one-line document; unchanged if a side's record cannot be read."""
    if any(RECORD_NAME in side and read_record(side[RECORD_NAME]) is None for side in (ours, theirs)):
        return dict(base), dict(ours), dict(theirs)
    known = _unfolded(base)
    if read_record(base.get(RECORD_NAME)) is None:
        known.pop(RECORD_NAME, None)
    return known, _unfolded(ours), _unfolded(theirs)


def fold(documents: Mapping[str, str], *, alike: Iterable[Mapping[str, str]]) -> dict[str, str]:
    files = {name: text.removeprefix(_LEAD) for name, text in documents.items() if isinstance(text, _Bytes)}
    record = read_record(documents.get(RECORD_NAME)) or ({"format": FORMAT, "executable": []} if files else None)
    if record is None:
        return dict(documents)
    out = {name: text for name, text in documents.items() if name not in files}
    files |= {name: data for name, data in _object(record.get("files")).items() if name not in documents}
    paths = {*documents, *files} - {RECORD_NAME}
    parents = {name[:end] for name in paths for end, char in enumerate(name) if char == "/"}
    links = {name: target for name, target in _object(record.get("links")).items() if name not in paths | parents}
    empty = [name for name in record.get("empty_dirs") or () if name not in paths | parents | {*links}]
    merged = {**record, "files": files, "links": links, "empty_dirs": empty}
    merged = {key: value for key, value in merged.items() if value or key in _ALWAYS}
    unchanged = (memory[RECORD_NAME] for memory in alike if read_record(memory.get(RECORD_NAME)) == merged)
    return {**out, RECORD_NAME: next(unchanged, None) or dump_record(merged)}


def merge_records(base: str | None, ours: str, theirs: str) -> str | None:
    """Two unfolded records merged, entry by entry, ours where both changed one; None unless both are records."""
    base_record, our_record, their_record = read_record(base) or {}, read_record(ours), read_record(theirs)
    if our_record is None or their_record is None:
        return None
    out = dict(our_record)
    for key in {**their_record, **our_record}:
        entries = [_by_name(record.get(key)) for record in (base_record, our_record, their_record)]
        if None in entries:
            continue
        before, own, new = (entry or {} for entry in entries)
        changed = {name for name in own if name not in before or own[name] != before[name]}
        joined = {name: own[name] for name in own if name in new or name in changed}
        joined |= {name: value for name, value in new.items() if before.get(name) != value and name not in changed}
        is_list = isinstance(our_record.get(key, their_record.get(key)), list)
        out[key] = sorted(joined) if is_list else joined
    return dump_record(out)


def take_apart(documents: Mapping[str, str]) -> tuple[dict[str, str], dict[str, bytes]]:
    """The documents without the files of their record, and those as bytes; no files if that would lose a letter."""
    split = split_files(documents[RECORD_NAME]) if RECORD_NAME in documents else None
    if split is None or not split[1].keys().isdisjoint(documents):
        return dict(documents), {}
    return {**documents, RECORD_NAME: split[0]}, split[1]


def split_files(text: str) -> tuple[str, dict[str, bytes]] | None:
    """A record without its files, and their bytes by name; None if :func:`record_pieces` would not restore the text."""
    start = text.find(_FILES) + len(_FILES)
    at, separator, files, last = start, ",", dict[str, bytes](), None
    while separator == ",":
        try:
            name, end = _DECODER.raw_decode(text, at) if text.startswith('"', at) else ("", at)
            stop = text.find('"', end + 2)
            data = decode_file(text, end + 2, stop if stop >= 0 else len(text))
        except ValueError:
            return None
        is_ordered = last is None or last < name
        if stop < 0 or not is_ordered or text[at : end + 2] != _lead(name):
            return None
        files[name], separator, at, last = data, text[stop + 1 : stop + 2], stop + 2, name
    return (text[:start] + text[at - 1 :], files) if separator == "}" and start >= len(_FILES) else None


def decode_file(text: str, start: int, stop: int) -> bytes:
    """The bytes of a file from its base64, a piece at a time, so that no copy of a large text is made."""
    data = BytesIO()
    for at in range(start, stop, _PIECE):
        encoded = text[at : min(at + _PIECE, stop)]
        piece = base64.b64decode(encoded, validate=True)
        if b2a_base64(piece, newline=False) != encoded.encode("ascii") or data.tell() % 3:
            raise ValueError("the base64 is not canonical")
        data.write(piece)
    return data.getvalue()


def spell_file(data: bytes) -> Iterator[bytes]:
    size = _PIECE // 4 * 3
    return (b2a_base64(data[at : at + size], newline=False) for at in range(0, len(data), size))


def record_pieces(record: bytes, files: Mapping[str, bytes]) -> Iterator[tuple[bytes, bool]]:
    """The text of a record with its files, in the order of their names, in pieces, each with True if it is base64."""
    start = record.find(_FILES.encode("ascii")) + len(_FILES)
    if start < len(_FILES) or not record.startswith(b"}", start):
        raise ValueError("it has files, but no record of them")
    yield record[:start], False
    separator = ""
    for name, data in files.items():
        yield (separator + _lead(name)).encode("utf-8", "surrogatepass"), False
        for piece in spell_file(data):
            yield piece, True
        separator = '",'
    yield separator[:1].encode("ascii") + record[start:], False


def joined_size(sizes: Mapping[str, int]) -> int:
    """Bytes that files take in the text of a record, by the size of each."""
    taken = [len(_lead(name).encode("utf-8", "surrogatepass")) + -(-size // 3) * 4 + 2 for name, size in sizes.items()]
    return sum(taken) - 1


def _lead(name: str) -> str:
    return canonical(name).decode("utf-8", "surrogatepass") + ':"'


def dump_record(record: Mapping[str, Any]) -> str:
    return canonical(record).decode("utf-8", "surrogatepass")


def _unfolded(documents: Mapping[str, str]) -> dict[str, str]:
    record = read_record(documents.get(RECORD_NAME))
    if record is None:
        return dict(documents)
    files = {name: _Bytes(f"{_LEAD}{data}") for name, data in _object(record.get("files")).items()}
    return {**files, **documents, RECORD_NAME: dump_record({**record, "files": {}})}


def _by_name(value: object) -> dict[str, Any] | None:
    if value is None or isinstance(value, dict):
        return value or {}
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return dict.fromkeys(value, True)
    return None


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
