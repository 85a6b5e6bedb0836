import base64
import gzip
import hashlib
import json
import sys
import tracemalloc
import zlib
from itertools import pairwise
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from snapshot_files import unhurried
from snapshots import recorded

from colony_memory import SnapshotCorrupt
from colony_memory._format import payload as _payload
from colony_memory._format.payload import tree_of, tree_of_digests
from colony_memory.snapshot import build, parse


def encode(data):
    return base64.b64encode(data).decode("ascii")


def cut(text, places):
    places = sorted(place % (len(text) + 1) for place in places)
    edges = [0, *places, len(text)]
    return [text[start:end] for start, end in pairwise(edges)]


@unhurried
@given(st.lists(st.binary(max_size=200), max_size=6), st.lists(st.integers(0, 10_000), max_size=6))
def test_any_bytes_come_back_however_they_are_cut(pieces, places):
    plain = b"".join(pieces)
    packed = _payload.pack(pieces)
    assert packed.size == len(plain)
    assert packed.sha256 == _payload.sha256(plain) == "sha256:" + hashlib.sha256(plain).hexdigest()
    assert _payload.unpack(cut(packed.blob, places), size=len(plain)) == plain


@pytest.fixture
def loads_anew():
    """What compresses is looked for once; before and after these tests it is looked for again."""
    _payload._libdeflate.cache_clear()
    yield
    _payload._libdeflate.cache_clear()


@pytest.fixture(params=["zlib", "libdeflate"])
def library(request, monkeypatch, loads_anew):
    if request.param == "zlib":
        monkeypatch.setitem(sys.modules, "deflate", None)
    else:
        pytest.importorskip("deflate")
    return str(request.param)


@pytest.mark.parametrize("plain", [b"", b"a", bytes(range(256)) * 20, b"two years of notes\n" * 9000], ids=len)
def test_each_library_writes_one_member_that_all_read(library, plain):
    packed = _payload.pack([plain[:1], plain[1:100], plain[100:]])
    assert packed == _payload.pack([plain])
    assert (packed.size, packed.sha256) == (len(plain), _payload.sha256(plain))
    data = base64.b64decode(packed.blob, validate=True)
    unpacker = zlib.decompressobj(16 + zlib.MAX_WBITS)
    assert unpacker.decompress(data) == plain == gzip.decompress(data)
    assert unpacker.eof
    assert unpacker.unused_data == b""
    assert _payload.unpack([packed.blob], size=len(plain)) == plain


def test_the_extra_is_used_where_it_is_there(loads_anew, monkeypatch):
    deflate = pytest.importorskip("deflate")
    with_it = _payload.pack([b"words and words and words " * 99])
    assert base64.b64decode(with_it.blob) == deflate.gzip_compress(b"words and words and words " * 99, 7)
    monkeypatch.setitem(sys.modules, "deflate", None)
    _payload._libdeflate.cache_clear()
    without = _payload.pack([b"words and words and words " * 99])
    assert (with_it.size, with_it.sha256) == (without.size, without.sha256)


def test_another_module_of_that_name_is_not_the_extra(loads_anew, monkeypatch):
    monkeypatch.setitem(sys.modules, "deflate", ModuleType("deflate"))
    assert gzip.decompress(base64.b64decode(_payload.pack([b"x"]).blob)) == b"x"


@unhurried
@given(st.lists(st.binary(max_size=50), min_size=1, max_size=5), st.data())
def test_several_members_with_zeros_between_are_read(members, data):
    stream = b""
    for member in members:
        stream += gzip.compress(member) + b"\0" * data.draw(st.integers(0, 20))
    places = data.draw(st.lists(st.integers(0, 10_000), max_size=5))
    plain = b"".join(members)
    assert _payload.unpack(cut(encode(stream), places), size=len(plain)) == plain == gzip.decompress(stream)


def test_a_changed_byte_never_gives_other_bytes():
    plain = b"some text, " * 20
    stream = base64.b64decode(_payload.pack([plain]).blob)
    refused = 0
    for place in range(len(stream)):
        for flip in (0x01, 0x80, 0xFF):
            changed = bytearray(stream)
            changed[place] ^= flip
            try:
                assert _payload.unpack([encode(bytes(changed))], size=len(plain)) == plain
            except ValueError:
                refused += 1
    # Of the ten bytes of a gzip header six say nothing of the content.
    assert refused >= 3 * (len(stream) - 7)


@pytest.mark.parametrize("off", [-1, 1, 10**6])
@pytest.mark.parametrize("plain", [b"x", b"text " * 50_000])
def test_another_size_than_the_declared_one_is_refused(plain, off):
    packed = _payload.pack([plain])
    what = "there is more than the" if off < 0 else f"there are {len(plain)} bytes, not the {len(plain) + off}"
    with pytest.raises(ValueError, match=what):
        _payload.unpack([packed.blob], size=len(plain) + off)


def test_a_bomb_is_stopped_at_the_declared_size():
    bomb = encode(gzip.compress(b"\0" * 64_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="there is more than the 1000 bytes"):
            _payload.unpack([bomb], size=1000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


def test_a_thousand_members_are_read_and_no_more():
    member = gzip.compress(b"a")
    assert _payload.unpack([encode(member * 1000)], size=1000) == b"a" * 1000
    with pytest.raises(ValueError, match="too many gzip members"):
        _payload.unpack([encode(member * 1001)], size=1001)
    with pytest.raises(ValueError, match="too many gzip members"):
        _payload.unpack([encode(gzip.compress(b"") * 1001)], size=0)


@pytest.mark.parametrize(
    "change",
    [
        lambda blob: blob[:8] + "=" + blob[8:],
        lambda blob: blob[:8] + "QQ==" + blob[8:],
        lambda blob: blob[:8] + "\n" + blob[8:],
        lambda blob: blob + "\n",
        lambda blob: blob + "=",
        lambda blob: blob.rstrip("="),
        lambda blob: blob[:-1],
        lambda blob: "-" + blob[1:],
        lambda blob: blob[:8] + "é" + blob[9:],
        lambda blob: blob[:8] + "\ud800" + blob[9:],
        lambda blob: blob[:8] + "\0" + blob[9:],
    ],
)
@pytest.mark.parametrize("places", [[], [8], [9], [3, 8, 11], list(range(64))])
def test_anything_but_plain_base64_is_refused(change, places):
    blob = _payload.pack([b"xy"]).blob
    assert blob.endswith("==")
    with pytest.raises(ValueError, match=r"base64|ASCII|gzip"):
        _payload.unpack(cut(change(blob), places), size=2)


def test_chunks_are_taken_one_at_a_time():
    """What is wrong at the beginning is told without reading to the end."""
    taken = []

    def chunks():
        for number, chunk in enumerate([encode(b"no gzip at all!!"), "AAAA", "AAAA"]):
            taken.append(number)
            yield chunk

    with pytest.raises(ValueError, match="damaged"):
        _payload.unpack(chunks(), size=10)
    assert taken == [0]


@pytest.mark.parametrize("size", [2**30, 2**31, 2**62, sys.maxsize - 1, sys.maxsize, 2**63, 2**64, 10**100])
def test_a_declared_size_beyond_all_memory_is_another_one(size):
    with pytest.raises(ValueError, match=f"there are 2 bytes, not the {size}"):
        _payload.unpack([_payload.pack([b"xy"]).blob], size=size)


PAIR = "\ud83d" + "\ude00"


def sha256(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def test_a_tree_is_the_digest_of_an_object_of_digests():
    empty, one = sha256(b""), sha256(b"1")
    assert tree_of({"b": "1", "a": ""}) == sha256(f'{{"a":"{empty}","b":"{one}"}}'.encode())
    assert tree_of({"b": "1", "a": ""}) == tree_of_digests({"a": empty, "b": one})


def test_no_two_memories_have_one_tree():
    memories = [
        {},
        {"a": "b"},
        {"ab": ""},
        {"a": "", "b": ""},
        {'a":"': "b"},
        {"a\0b": ""},
        {"\U0001f600": "1"},
        {PAIR: "1"},
        {"\\ud83d": "1"},
        {"\ud83d": "1"},
        {"1": "\U0001f600"},
        {"1": PAIR},
        {"1": "\\ud83d\\ude00"},
        recorded({"a": "b"}, {}),
        recorded({}, {"a": b"b"}),
        recorded({"a": "b"}, {"a": b"b"}),
        recorded({}, {"a": b"b", "c": b""}),
    ]
    assert len({tree_of(memory) for memory in memories}) == len(memories)


def opened(built):
    return json.loads(built.files[built.manifest_file]), dict(built.files)


def snapshot(documents):
    return build(
        documents, label="default", snapshot_id="20260101T000000000000Z-000000", created_at="2026-01-01T00:00:00Z"
    )


@pytest.mark.parametrize(
    ("told", "problem"),
    [(tree_of({"a": "other"}), "another tree than its"), ("sha256:0", "tree should be"), (7, "tree should be")],
)
def test_a_manifest_of_another_tree_is_damaged(told, problem):
    built = snapshot({"a": "text"})
    manifest, files = opened(built)
    assert manifest["tree"] == built.tree == tree_of({"a": "text"})
    assert parse(manifest, files) == {"a": "text"}
    with pytest.raises(SnapshotCorrupt, match=problem):
        parse({**manifest, "tree": told}, files)
