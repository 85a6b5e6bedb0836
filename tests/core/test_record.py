"""The record of a folder, compared and merged entry by entry."""

from __future__ import annotations

import json

import pytest

from colony_memory._engine.merge import merge
from colony_memory._format.record import RECORD_NAME, lacks_text
from colony_memory.capture._metadata import Metadata, dump_metadata, load_metadata, split_documents

ID = "20260101T000000000000Z-abcdef"


def record(**more) -> str:
    return dump_metadata(Metadata(**more))


def both(base, ours, theirs):
    found = merge(
        None if base is None else {RECORD_NAME: base, "m": "x"},
        {RECORD_NAME: ours, "m": "x"},
        {RECORD_NAME: theirs, "m": "x"},
        theirs_name=ID,
    )
    return load_metadata(found.documents[RECORD_NAME]), found


def test_each_side_keeps_what_it_did():
    base = record(files={"a.bin": b"a", "b.bin": b"b"}, times={"m": 1, "n": 1}, empty_dirs=("logs", "old"))
    ours = record(files={"a.bin": b"a2", "b.bin": b"b"}, times={"m": 2, "n": 1}, empty_dirs=("logs", "old", "new"))
    theirs = record(files={"a.bin": b"a", "c.bin": b"c"}, times={"m": 3, "n": 4}, empty_dirs=("logs",))
    merged, found = both(base, ours, theirs)
    assert merged.files == {"a.bin": b"a2", "c.bin": b"c"}
    assert merged.times == {"m": 2, "n": 4}
    assert merged.empty_dirs == ("logs", "new")
    assert found
    assert found.joined == (RECORD_NAME,)


def test_bytes_that_both_changed_are_kept_twice():
    merged, found = both(record(files={"a.bin": b"a"}), record(files={"a.bin": b"o"}), record(files={"a.bin": b"t"}))
    assert merged.files == {"a.bin": b"o", f"a.theirs-{ID}.bin": b"t"}
    assert found.copies == {"a.bin": f"a.theirs-{ID}.bin"}
    again, _ = both(None, record(files={"a.bin": b"o"}), record(files={"a.bin": b"t"}))
    assert again.files == merged.files


BINARY, OTHER = b"\xff\x00", b"\xfe\x01"


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "merged"),
    [
        ({}, {"a": "text"}, {"a": BINARY}, {"a": "text", f"a.theirs-{ID}": BINARY}),
        ({}, {"a": BINARY}, {"a": "text"}, {"a": BINARY, f"a.theirs-{ID}": "text"}),
        ({}, {"a": "text", "b": OTHER}, {"a": BINARY}, {"a": "text", "b": OTHER, f"a.theirs-{ID}": BINARY}),
        ({"a": "t\n"}, {"a": "t\nu\n"}, {"a": BINARY}, {"a": "t\nu\n", f"a.theirs-{ID}": BINARY}),
        ({"a": "t"}, {"a": "t"}, {"a": BINARY}, {"a": BINARY}),
        ({"a": BINARY}, {"a": "t"}, {"a": BINARY}, {"a": "t"}),
        ({"a": BINARY, "m": "x"}, {"m": "x"}, {"a": OTHER, "m": "x"}, {"a": OTHER, "m": "x"}),
        ({"a": BINARY, "m": "x"}, {"a": BINARY, "m": "x"}, {"m": "x"}, {"m": "x"}),
        # A text that spells bytes is none.
        ({}, {"a": "\0base64:/wA="}, {"b": BINARY}, {"a": "\0base64:/wA=", "b": BINARY}),
    ],
)
def test_text_and_bytes_are_merged_alike(base, ours, theirs, merged):
    def memory(files):
        texts = {name: content for name, content in files.items() if isinstance(content, str)}
        data = {name: content for name, content in files.items() if isinstance(content, bytes)}
        return {**texts, **({RECORD_NAME: record(files=data)} if data else {})}

    found = merge(*map(memory, (base, ours, theirs)), theirs_name=ID).documents
    assert split_documents(found)[0] == merged


def test_what_the_documents_contradict_is_left_out():
    ours = {RECORD_NAME: record(links={"x": "m"}, empty_dirs=("d",)), "m": "x"}
    theirs = {RECORD_NAME: record(files={"n": b"\xff"}), "m": "x", "x": "a text now", "d/e": "in it"}
    contents, metadata = split_documents(merge({}, ours, theirs, theirs_name=ID).documents)
    assert contents == {"m": "x", "n": b"\xff", "x": "a text now", "d/e": "in it"}
    assert not metadata.links
    assert not metadata.empty_dirs


@pytest.mark.parametrize("bad", ["no json", "[]", json.dumps({"format": "another/1"})])
def test_what_is_no_record_is_kept_twice_as_a_text(bad):
    found = merge({}, {RECORD_NAME: record(files={"a": BINARY})}, {RECORD_NAME: bad}, theirs_name=ID)
    assert bad in found.documents.values()
    assert load_metadata(found.documents[RECORD_NAME]).files == {"a": BINARY}


def test_without_a_record_to_compare_with_nothing_is_lost():
    sides = [{RECORD_NAME: record(files={"a": data})} for data in (BINARY, OTHER)]
    found = merge({RECORD_NAME: "no json"}, *sides, theirs_name=ID).documents
    assert load_metadata(found[RECORD_NAME]).files == {"a": BINARY, f"a.theirs-{ID}": OTHER}


def test_a_line_is_looked_for_wherever_it_stands():
    theirs = {"a": "one\ntwo\r\n\n", RECORD_NAME: record(files={"b": b"\0b"}, times={"a": 1})}
    assert not lacks_text({"x": "two\n", "y": "one", RECORD_NAME: record(files={"c": b"\0b"})}, theirs)
    assert lacks_text({"x": "two\none"}, theirs)
    assert lacks_text({"x": "two", RECORD_NAME: record(files={"b": b"\0b"})}, theirs)
