import base64
import gzip
import json
import random
from dataclasses import FrozenInstanceError, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from snapshot_files import unhurried

from colony_memory._format.catalog import Entry, few_lines
from colony_memory._format.names import require_id
from colony_memory._format.pointer import Pointer, read_pointer, write_pointer
from colony_memory._format.rows import _ROW
from colony_memory.exceptions import SnapshotCorrupt
from colony_memory.snapshot import SnapshotInfo

LABEL, FILE = "work", "cmem.work.latest.json"
ID = "20260102T030405000006Z-abcdef"
STAMP = "2026-01-02T03:04:05Z"
STREAM = "0123456789abcdef"
#: As 0.1.1 writes it.
PUBLISHED = {
    "format": "colony-memory/latest/1",
    "label": LABEL,
    "snapshot_id": ID,
    "manifest_file": f"cmem.{LABEL}.{ID}.manifest.json",
    "updated_at": STAMP,
}

TEXTS = st.text(st.one_of(st.sampled_from('\ud800\udc00\0"\\é😀'), st.characters()), max_size=8)
COUNTS = st.integers(0, 2**53 - 1)
IDS = st.one_of(
    st.text("abcXYZ0189", min_size=1, max_size=12),
    st.builds("202601{:02}T000000{:06}Z-{:06x}".format, st.integers(1, 31), COUNTS.map(lambda n: n % 10**6), COUNTS),
).filter(lambda snapshot_id: len(snapshot_id) <= 64)
INFOS = st.builds(
    SnapshotInfo,
    snapshot_id=IDS,
    label=st.just(LABEL),
    created_at=TEXTS,
    doc_names=st.lists(TEXTS, max_size=4),
    part_count=st.integers(1, 1_000_000),
    byte_size=COUNTS,
    plaintext_sha256=TEXTS,
    signed=st.booleans(),
    issuer=st.none() | TEXTS,
    format=TEXTS,
    stored_bytes=COUNTS,
    parent_id=st.none() | TEXTS,
    encrypted=st.booleans(),
)
ENTRIES = st.builds(Entry, INFOS, TEXTS, st.none() | TEXTS)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


def entry(number, names=None, **more):
    info = SnapshotInfo(
        snapshot_id=f"2026{number // 28 % 12 + 1:02}{number % 28 + 1:02}T000000{number:06}Z-{number:06x}",
        label=LABEL,
        created_at=STAMP,
        doc_names=names if names is not None else ["MEMORY.md", "notes.md"],
        part_count=1,
        byte_size=1000 + number,
        plaintext_sha256=f"sha256:{random.Random(number).getrandbits(256):064x}",
        **more,
    )
    return Entry(info, f"sha256:{random.Random(-number - 1).getrandbits(256):064x}")


def pointer(*entries, **more):
    return Pointer(**{"label": LABEL, "snapshot_id": ID, "updated_at": STAMP, "entries": entries, **more})


def reread(text):
    return read_pointer(text, label=LABEL)


def raw(at):
    value = json.loads(write_pointer(at))
    assert isinstance(value, dict)
    return value


def values_in(plain):
    return sum(plain.count(sign) for sign in (b",", b":", b"[", b"{"))


def page(body):
    plain = body if isinstance(body, bytes) else json.dumps(body).encode()
    return f"{len(plain)}:{values_in(plain)}:{base64.b64encode(gzip.compress(plain, mtime=0)).decode()}"


def unpacked(pages):
    (text,) = pages
    size, values, blob = text.split(":")
    plain = gzip.decompress(base64.b64decode(blob))
    assert (len(plain), values_in(plain)) == (int(size), int(values))
    value = json.loads(plain)
    assert isinstance(value, dict)
    return value


# --- round trips ---


@unhurried
@given(IDS, TEXTS, COUNTS, st.lists(ENTRIES, max_size=6))
def test_a_pointer_comes_back(snapshot_id, updated_at, generation, entries):
    at = Pointer(LABEL, snapshot_id, updated_at, generation, STREAM, tuple(entries), (ID,))
    at = replace(at, entries=tuple(at.catalog))  # in their order
    text = write_pointer(at)
    assert text.isascii()
    assert reread(text) == at


def test_what_was_noted_and_what_is_missing_come_back():
    lines = tuple(f"{n}.log: too large" for n in range(30))
    entries = (entry(3, note="before the move"), entry(2, incomplete=lines[:3]), entry(1, note="", incomplete=("x",)))
    assert reread(write_pointer(pointer(*entries))).entries == entries
    (long,) = reread(write_pointer(pointer(entry(4, incomplete=lines)))).entries or ()
    assert long.info.incomplete == (*lines[:19], "and 11 more")
    # Written again, it still counts all of them.
    assert (reread(write_pointer(pointer(long))).entries or ())[0] == long
    assert few_lines(lines[:20]) == lines[:20]


def test_tags_come_back_and_rows_without_them_stay_short():
    entries = (entry(4, tags=("2.0", "release")), entry(3, note="x", tags=("a",)), entry(2, note="x"), entry(1))
    text = write_pointer(pointer(*entries))
    assert reread(text).entries == entries
    rows = unpacked(json.loads(text)["catalog"])["snapshots"]
    assert [row[14:] for row in rows] == [[None, [], ["2.0", "release"]], ["x", [], ["a"]], ["x"], []]


def test_what_is_no_tag_is_passed_over_and_so_is_what_a_newer_writer_adds():
    def rewritten(tags, *more):
        catalog = unpacked(raw(pointer(entry(1, tags=("a",))))["catalog"])
        catalog["snapshots"][0][16:] = [tags, *more]
        return reread(json.dumps({**PUBLISHED, "catalog": [page(catalog)]}))

    hostile = ["b", "b", 7, None, "\x1b[2J", "a b", "x" * 65, "", ["a"], "\ud800"]
    assert rewritten(hostile).entries == (entry(1, tags=("b",)),)
    assert rewritten([str(n) for n in range(10, 99)]).entries == (entry(1, tags=tuple(str(n) for n in range(10, 30))),)
    assert rewritten(["a"], [], {"more": 1}, 7).entries == (entry(1, tags=("a",)),)
    assert rewritten("a").entries is None


def test_a_row_of_a_chain_names_its_packs():
    ids = [entry(n).snapshot_id for n in (1, 2)]
    base, top = replace(entry(1), packs=tuple(ids[:1])), replace(entry(2), packs=tuple(ids))
    assert reread(write_pointer(pointer(top, base))).entries == (top, base)
    for wrong in ([7], ["no id"], ids[:1], "x"):
        catalog = unpacked(raw(pointer(top))["catalog"])
        catalog["snapshots"][0][17:] = [wrong]
        assert reread(json.dumps({**PUBLISHED, "catalog": [page(catalog)]})).entries is None


def test_a_head_is_that_of_what_it_lists():
    listed = entry(1)
    digest = "sha256:" + "ab" * 32
    at = Pointer(LABEL, listed.snapshot_id, STAMP, 7, STREAM, (replace(listed, manifest_sha256=digest),))
    assert at.head == f"7:{'ab' * 8}"
    assert replace(at, generation=0).head == ""
    assert replace(at, entries=()).head == ""
    assert replace(at, entries=(replace(listed, manifest_sha256="junk"),)).head == ""


# --- moving ---


def test_a_moved_pointer_is_of_the_next_generation():
    at = pointer(generation=41)
    entries = [entry(2), entry(9), entry(1), Entry(entry(0).info, "d")]
    moved = at.follow("next", updated_at="now", entries=iter(entries), stream=STREAM)
    assert (moved.label, moved.snapshot_id, moved.updated_at, moved.generation) == (LABEL, "next", "now", 42)
    assert moved.entries is not None
    assert [each.info.byte_size for each in moved.entries] == [1009, 1002, 1001, 1000]
    assert at == pointer(generation=41)
    with pytest.raises(FrozenInstanceError):
        entries[0].shrunk_at = "now"
    with pytest.raises(FrozenInstanceError):
        moved.generation = 0


# --- size ---


def test_a_generation_of_any_length_can_be_followed():
    text = json.dumps({**PUBLISHED, "generation": 0}).replace('"generation": 0', '"generation": ' + "9" * 4300)
    moved = reread(text).follow("next", updated_at=STAMP, entries=(), stream=STREAM)
    assert reread(write_pointer(moved)) == replace(pointer(snapshot_id="next", generation=1), stream=STREAM)


# --- what is no pointer ---


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"format": None}, "it is not a pointer of label 'work'"),
        ({"format": "colony-memory/1"}, "it is not a pointer of label 'work'"),
        ({"label": "other"}, "it is not a pointer of label 'work'"),
        ({"label": None}, "it is not a pointer of label 'work'"),
        ({"snapshot_id": None}, "None is not a snapshot id"),
        ({"snapshot_id": ""}, "manifest_file is not the one of the snapshot"),
        ({"snapshot_id": "../x"}, "'../x' is not a snapshot id"),
        ({"snapshot_id": "other"}, "manifest_file is not the one of the snapshot"),
        ({"manifest_file": None}, "manifest_file is not the one of the snapshot"),
        ({"manifest_file": f"cmem.other.{ID}.manifest.json"}, "manifest_file is not the one of the snapshot"),
    ],
)
def test_what_is_no_pointer_of_this_label_is_refused(changed, what):
    with pytest.raises(SnapshotCorrupt, match=f"pointer {FILE} is not readable: {what}") as caught:
        reread(json.dumps({**PUBLISHED, **changed}))
    assert caught.value.file == FILE


@pytest.mark.parametrize(
    ("field", "nothing", "given"),
    [
        ("updated_at", "", [None, 7, ["x"], {}]),
        ("generation", 0, [None, "7", 7.0, True, -1, 0, [7], 1e300, 2**53]),
        ("went_back_from", None, [None, 7, "", "../x", ["a"], {}, "x" * 65]),
        ("stream", None, [None, 7, "", "x", STREAM[:-1], STREAM.upper(), STREAM + "0"]),
        ("removed", (), [None, 7, ID, [7, "../x", ""]]),
    ],
)
def test_a_field_that_is_not_as_it_should_be_says_nothing(field, nothing, given):
    for value in given:
        assert getattr(reread(json.dumps({**PUBLISHED, field: value})), field) == nothing


# --- what is no catalogue ---

GOOD = unpacked(raw(pointer(entry(2), entry(1)))["catalog"])
ROW = GOOD["snapshots"][0]


def with_row(**changed):
    keys = ["names", *(key.rpartition(".")[2] for key, _ in _ROW)]
    assert set(changed) <= set(keys)
    return {**GOOD, "snapshots": [[changed.get(key, value) for key, value in zip(keys, ROW, strict=True)]]}


BROKEN = [
    page(b"\xff"),
    page(b'{"a":1,"a":2}'),
    page({}),
    page({**GOOD, "names": None}),
    page({**GOOD, "snapshots": None}),
    page({**GOOD, "snapshots": [None]}),
    page({**GOOD, "snapshots": [ROW[:-1]]}),
    page({**GOOD, "snapshots": [[*ROW, 7]]}),
    page({**GOOD, "snapshots": [[*ROW, None, [7]]]}),
    page({**GOOD, "snapshots": [[*ROW, None, [], "a"]]}),
    page({**GOOD, "names": [[""] * 600_000]}),
    page(with_row(names=1)),
    page(with_row(names=None)),
    page(with_row(snapshot_id="../x")),
    page(with_row(part_count=0)),
    page(with_row(part_count=1_000_001)),
    page(with_row(byte_size=-1)),
    page(with_row(byte_size=2**53)),
    page(with_row(stored_bytes=-1)),
    page(with_row(manifest_sha256=None)),
    page(with_row(created_at=7)),
    page(with_row(created_at=None, snapshot_id="x")),
    page(with_row(parent_id=True)),
    page(with_row(stored_bytes=False)),
    page(with_row(issuer=7)),
    page(with_row(format=None)),
    page(with_row(parent_id=["x"])),
    page(with_row(shrunk_at=7)),
]


@pytest.mark.parametrize("text", BROKEN, ids=range(len(BROKEN)))
def test_a_catalogue_that_cannot_be_read_is_none(text):
    assert reread(json.dumps({**PUBLISHED, "generation": 3, "catalog": [text]})) == pointer(entries=None, generation=3)


@st.composite
def spoiled(draw, text):
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + draw(st.sampled_from([0, 1, 2, 40, 4000])))))
        noise = st.text('09ab"{}[]:,=+/', max_size=4)
        insert = draw(st.one_of(st.just(""), st.just(text[start:end] * 2), TEXTS, noise))
        text = text[:start] + insert + text[end:]
    return text


ENTRIES_OF_TEXT = (entry(3), entry(2, ["a"]), entry(1, ["a"], issuer="did:key:z", signed=True))
TEXT = write_pointer(pointer(*ENTRIES_OF_TEXT, generation=3))


@given(spoiled(TEXT))
@settings(unhurried, max_examples=4 * settings().max_examples)
def test_a_spoiled_pointer_is_refused_or_of_this_label(text):
    try:
        at = reread(text)
    except SnapshotCorrupt as error:
        assert error.file == FILE  # noqa: PT017 - most of them are no error
        return
    assert at.label == LABEL
    assert at.snapshot_id is None or require_id(at.snapshot_id)
    assert at.entries is None or at.entries == ENTRIES_OF_TEXT
    assert reread(write_pointer(at)).snapshot_id == at.snapshot_id


@unhurried
@given(
    st.fixed_dictionaries({"names": JSON_VALUES, "snapshots": JSON_VALUES | st.lists(JSON_VALUES | st.just(ROW))}),
    st.integers(0, len(ROW) - 1),
    JSON_VALUES,
)
def test_a_catalogue_of_anything_is_read_or_none(body, place, value):
    row = [*ROW[:place], value, *ROW[place + 1 :]]
    for content in (body, {**GOOD, **body, "snapshots": [row]}, {**GOOD, "snapshots": [row]}):
        text = page({"format": GOOD["format"], **content})
        at = reread(json.dumps({**PUBLISHED, "catalog": text}))
        assert at.entries is None or all(isinstance(each, Entry) for each in at.entries)


# --- a pointer that went back ---


def ids_of(at):
    return at.snapshot_id, at.went_back_from


def test_a_pointer_that_goes_back_says_from_where():
    first, second, third = (f"2026010{day}T000000000000Z-00000{day}" for day in (1, 2, 3))

    def move(at, to):
        return reread(write_pointer(at.follow(to, updated_at=STAMP, entries=(), stream=STREAM)))

    at = Pointer(LABEL, third, STAMP, generation=3)
    back = move(at, second)
    assert ids_of(back) == (second, third)
    assert ids_of(move(back, second)) == (second, third)
    assert ids_of(move(back, first)) == (first, third)
    # From where it stands again, there is nothing to explain.
    assert ids_of(move(back, third)) == (third, None)
    assert "went_back_from" not in raw(move(back, third))
    assert ids_of(move(Pointer(LABEL, first, STAMP, generation=1), second)) == (second, None)
    # A label that was emptied remembers what it had.
    empty = reread(write_pointer(at.follow(None, updated_at=STAMP, entries=(), stream=STREAM)))
    assert ids_of(empty) == (None, third)
    assert (empty.head, raw(empty)["snapshot_id"]) == (f"4:{'0' * 16}", "")
    # What a pointer without a generation named is not proven.
    assert ids_of(move(Pointer(LABEL, third, STAMP, went_back_from=third), first)) == (first, None)


def test_a_pointer_has_gone_back_from_what_is_coming_until_it_names_something_as_new():
    first, second, third = (f"2026010{day}T000000000000Z-00000{day}" for day in (1, 2, 3))

    def move(at, to, coming=None):
        moved = at.follow(to, updated_at=STAMP, entries=(), stream=STREAM, coming=coming)
        return reread(write_pointer(moved))

    at = move(Pointer(LABEL, first, STAMP, generation=1), first, second)
    assert [at.took_out(each) for each in (first, second, third)] == [False, True, False]
    assert move(at, first).went_back_from == second
    assert move(at, second).went_back_from is None
