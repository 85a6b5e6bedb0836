"""The record of a folder, compared and merged entry by entry."""

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from itertools import pairwise

import pytest

from colony_memory._engine.merge import merge
from colony_memory._format.lineage import (
    Lineage,
    Unmerged,
    ancestors,
    descends,
    merge_base,
    read_lineage,
    read_unmerged,
    still_unmerged,
)
from colony_memory._format.pointer import Pointer, read_pointer, write_pointer
from colony_memory._format.record import RECORD_NAME, lacks_text
from colony_memory._format.rows import Entry
from colony_memory.capture._metadata import Metadata, dump_metadata, load_metadata, split_documents
from colony_memory.snapshot import SnapshotInfo, build, read_manifest

ID = "20260101T000000000000Z-abcdef"


def record(**more):
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


NOW = datetime(2026, 6, 15, 12, tzinfo=timezone.utc)
STAMP = "2026-06-15T12:00:00Z"


def own(n):
    return f"202606{n:02}T000000000000Z-aaaaaa"


def info(n, *based_on, unknown=False, refused=False, rewrites=None):
    return SnapshotInfo(
        own(n), "work", STAMP, ["a"], 1, 2, "sha256:" + "0" * 64, parent_id=own(based_on[0]) if based_on else None,
        based_on=None if unknown else tuple(map(own, based_on)), refused=refused,
        rewrites=None if rewrites is None else own(rewrites), origin="a" * 16,
    )  # fmt: skip


def history(*infos):
    return sorted(infos, key=lambda one: one.snapshot_id, reverse=True)


def unmerged(*numbers, **more):
    return tuple(Unmerged(own(n), STAMP, **more) for n in numbers)


FORK = history(info(1), info(2, 1), info(3, 1), info(4, 3), info(5, 2, refused=True))


@pytest.mark.parametrize(
    ("infos", "astray", "of", "expected"),
    [
        (FORK, (), 3, True),
        (FORK, (), 1, True),
        (FORK, (5,), 2, False),
        (FORK, (5,), 5, False),
        # A link that is gone: what is older and was not overtaken counts.
        (history(info(4, 3), info(9, 8)), (), 2, True),
        (history(info(4, 3)), (), 3, True),
        (history(info(4, 3), info(2)), (2,), 2, False),
        (history(info(4, 3), info(5, 2, refused=True)), (5,), 2, False),
        # As 0.1.1 writes it.
        (history(info(1), info(2, 1), info(4, unknown=True)), (), 2, True),
        (history(info(2, refused=True), info(4, unknown=True)), (2,), 2, False),
        (history(info(4, unknown=True)), (), 3, True),
        (history(info(4, 3, rewrites=2), info(3)), (2,), 2, True),
    ],
)
def test_what_the_fourth_descends_from(infos, astray, of, expected):
    assert descends(infos, unmerged(*astray), own(4), own(of)) is expected
    assert descends(infos, unmerged(*astray), own(4), own(4))


def test_a_long_history_without_links_is_walked_once():
    infos = history(*(replace(info(1, unknown=True), snapshot_id=f"2026{n:06}") for n in range(10_000)))
    assert len(ancestors(infos, infos[0].snapshot_id)[0]) == 9_999
    linked = [replace(one, based_on=(other.snapshot_id,)) for one, other in pairwise(infos)]
    astray = [Unmerged(one.snapshot_id, STAMP) for one in linked[:2000:2]]
    mine, theirs = linked[0].snapshot_id, linked[1].snapshot_id
    for each in (infos, linked):
        assert merge_base(each, astray, [mine], theirs) == theirs
        assert not descends(each, astray, theirs, mine)


@pytest.mark.parametrize(
    ("mine", "astray", "expected"),
    [((5,), (5,), 1), ((2,), (2,), 1), ((3,), (), 3), ((4, 1), (), 4), ((8,), (), None), ((), (), None)],
)
def test_what_is_merged_over(mine, astray, expected):
    found = merge_base(FORK, unmerged(*astray), [own(n) for n in mine], own(4))
    assert found == (None if expected is None else own(expected))


def test_what_stays_unmerged():
    before = unmerged(1, 2, 3)
    assert still_unmerged(before, now=NOW, based_on=[own(1)], gone=[own(3)]) == unmerged(2)
    old = (Unmerged(own(1), "2026-05-01T00:00:00Z"), *unmerged(2))
    assert still_unmerged(old, now=NOW) == unmerged(2)
    to_come = [Unmerged(own(1), "9999-01-01T00:00:00Z")]
    assert still_unmerged(to_come, now=NOW) == unmerged(1)
    again = Unmerged(own(2), "2026-06-16T00:00:00Z")
    assert still_unmerged(before, now=NOW, new=[again]) == before
    many = unmerged(*range(1, 9), without_basis=True)
    assert still_unmerged(many, now=NOW + timedelta(days=1)) == many[-3:]
    assert len(still_unmerged((*many, *unmerged(20)), now=NOW)) == 4


LINEAGES = [
    Lineage(),
    Lineage(based_on=()),
    Lineage((own(1),), "a" * 16, refused=True, unmerged=unmerged(1, refused=True), rewrites=own(3)),
    Lineage((own(1), own(2)), unmerged=(*unmerged(1, without_basis=True), *unmerged(3))),
]


@pytest.mark.parametrize("lineage", LINEAGES)
def test_manifest_row_and_pointer_tell_it(lineage):
    made = build({"a": "b"}, label="work", snapshot_id=own(4), created_at=STAMP, lineage=lineage)
    manifest = read_manifest(made.files[made.manifest_file], label="work", snapshot_id=own(4))
    assert manifest.lineage == lineage
    row = Entry(replace(manifest.info, stored_bytes=made.info.stored_bytes), made.manifest_sha256)
    above = replace(row, info=replace(row.info, snapshot_id=own(5), parent_id=own(4), based_on=(own(4),)))
    pointer = Pointer("work", own(5), STAMP, 7, "0" * 16, [above, row], unmerged=lineage.unmerged)
    read = read_pointer(write_pointer(pointer), label="work", strict=True)
    assert list(read.entries) == [above, row]
    assert read.unmerged == lineage.unmerged


@pytest.mark.parametrize(
    ("field", "value"),
    [("based_on", "x"), ("origin", "A" * 16), ("origin", 4), ("refused", "yes"), ("unmerged", {}), ("rewrites", "?")],
)
def test_what_is_wrong_says_nothing(field, value):
    assert read_lineage({field: value}) == Lineage()


def test_rows_that_are_wrong_are_left_out():
    good = {"snapshot_id": own(1), "since": STAMP}
    bad = [1, {}, {"snapshot_id": "?", "since": STAMP}, {"snapshot_id": own(2), "since": "now"}, {"since": STAMP}]
    assert read_unmerged([*bad, good]) == unmerged(1)
    assert read_lineage({"based_on": [own(1), 3, None, "?"]}).based_on == (own(1),)
    assert len(read_unmerged([good] * 5000)) == 1000
