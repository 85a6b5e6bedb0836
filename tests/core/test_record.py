"""The record of a folder, compared and merged entry by entry."""

from __future__ import annotations

import json

import pytest

from colony_memory._engine.merge import merge
from colony_memory._format.record import RECORD_NAME, lacks_text, merge_records, write_record
from colony_memory.capture._metadata import METADATA_NAME, Metadata, dump_metadata, load_metadata, split_documents

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


def test_it_is_the_document_that_a_folder_has():
    assert RECORD_NAME == METADATA_NAME


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


def test_what_is_text_on_one_side_and_bytes_on_the_other_is_no_contradiction():
    ours = {RECORD_NAME: record(links={"x": "m"}, empty_dirs=("d",)), "m": "x", "n": "text"}
    theirs = {RECORD_NAME: record(files={"n": b"\xff"}), "m": "x", "x": "a text now", "d/e": "in it"}
    found = merge({}, ours, theirs, theirs_name=ID).documents
    contents, metadata = split_documents(found)
    assert contents["n"] == "text"
    assert contents["x"] == "a text now"
    assert not metadata.links
    assert not metadata.empty_dirs


@pytest.mark.parametrize("bad", ["no json", "[]", json.dumps({"format": "another/1"})])
def test_what_is_no_record_is_kept_twice_as_a_text(bad):
    assert merge_records(None, record(), bad) is None
    found = merge({}, {RECORD_NAME: record()}, {RECORD_NAME: bad}, theirs_name=ID)
    assert bad in found.documents.values()


def test_fields_that_are_no_names_are_ours():
    made, _ = merge_records(None, '{"format":"f","x":1,"y":[1]}', '{"format":"f","x":2,"y":[2],"z":3}')
    assert made == {"format": "f", "x": 1, "y": [1]}
    assert json.loads(write_record(made, ())) == {**made, "empty_dirs": [], "files": {}}


def test_a_line_is_looked_for_wherever_it_stands():
    theirs = {"a": "one\ntwo\r\n\n", RECORD_NAME: record(files={"b": b"\0b"}, times={"a": 1})}
    assert not lacks_text({"x": "two\n", "y": "one", RECORD_NAME: record(files={"c": b"\0b"})}, theirs)
    assert lacks_text({"x": "two\none"}, theirs)
    assert lacks_text({"x": "two", RECORD_NAME: record(files={"b": b"\0b"})}, theirs)
