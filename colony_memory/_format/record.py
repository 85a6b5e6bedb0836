"""Pure: the document in which a folder's snapshot says what text cannot, as far as memories are compared and merged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from colony_memory._format.json import canonical, load_object

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

#: Its name: bytes of files that are no text, links, permissions and times, by the names of files.
RECORD_NAME = ".colony-memory/folder.json"


def lacks_text(documents: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether a line of another memory is in none of these documents. A file that is no text is one line."""
    known = {*lines_of(documents)}
    return any(line not in known for line in lines_of(other))


def lines_of(documents: Mapping[str, str]) -> Iterator[str]:
    """Every line that says something, of every document."""
    for name, text in documents.items():
        record = read_record(text) if name == RECORD_NAME else None
        if record is not None:
            yield from (str(data) for data in _object(record.get("files")).values())
            continue
        for line in text.split("\n"):
            if line.strip():
                yield line.rstrip("\r")


def read_record(text: str | None) -> dict[str, Any] | None:
    """The record, None where it is not one."""
    try:
        return None if text is None else load_object(text)
    except ValueError:
        return None


def merge_records(base: str | None, ours: str, theirs: str) -> tuple[dict[str, Any], dict[str, str]] | None:
    """Two records as one: each entry by itself, and ours where both changed it.

    Returns:
        The record, and their bytes of the files that both changed, in base64 by name; None where one is no record.
    """
    was, mine, other = read_record(base) or {}, read_record(ours), read_record(theirs)
    if mine is None or other is None or mine.get("format") != other.get("format"):
        return None
    out, twice = dict(mine), dict[str, str]()
    for key in {**other, **mine}:
        entries = [_by_name(one.get(key)) for one in (was, mine, other)]
        if None in entries:
            continue
        before, own, new = (entry or {} for entry in entries)
        joined = {name: own.get(name) for name in own if name not in before or own[name] != before[name]}
        for name, value in new.items():
            if before.get(name) != value and name not in joined:
                joined[name] = value
            elif before.get(name) != value and joined[name] != value and key == "files":
                twice[name] = str(value)
        joined |= {name: own[name] for name in own if name in new and name not in joined}
        is_list = isinstance(mine.get(key, other.get(key)), list)
        out[key] = sorted(joined) if is_list else joined
    return out, twice


def write_record(record: Mapping[str, Any], documents: Collection[str]) -> str:
    """Its text, without what the documents beside it contradict; fields that are empty, and may be, are left out."""
    files = {name: data for name, data in _object(record.get("files")).items() if name not in documents}
    there = {*documents, *files}
    above = {name[:end] for name in there for end, sign in enumerate(name) if sign == "/"}
    links = {name: to for name, to in _object(record.get("links")).items() if name not in there | above}
    empty = [name for name in record.get("empty_dirs") or () if name not in there | above | {*links}]
    whole = {**record, "files": files, "links": links, "empty_dirs": empty}
    must = ("empty_dirs", "executable", "files", "format")
    return canonical({key: value for key, value in whole.items() if value or key in must}).decode(
        "utf-8", "surrogatepass"
    )


def _by_name(value: object) -> dict[str, Any] | None:
    """An object, or a list of names as one; None where it is neither."""
    if value is None or isinstance(value, dict):
        return value or {}
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return dict.fromkeys(value, True)
    return None


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
