import hashlib
import itertools
import json
import tracemalloc

import pytest
from faces import with_zstd
from hypothesis import example, given
from hypothesis import strategies as st
from snapshots import recorded

from colony_memory import snapshot
from colony_memory._format import record
from colony_memory._format.json import canonical, encode_texts
from colony_memory._format.payload import digests_of, measure
from colony_memory._format.record import RECORD_NAME
from colony_memory._format.v2 import build, delta
from colony_memory._format.v2 import state as states
from colony_memory._format.v2.state import EMPTY, State, apply, change, lead_of, most_documents, read_lead
from colony_memory._format.v2.zstd import TooLarge

BOUND = 10**6
# Every code point, lone surrogates and pairs of them as two code points included.
TEXT = st.text(st.characters(codec=None, categories=None), max_size=12) | st.sampled_from(
    ["", "\0", "\ud83d", "\udc00\ud800", "\ud83d\ude00", "a\nb", '"\\', "\ufeffx", "e\u0301", "é", "\u2028", "A", "a"]
)


TEXTS = st.dictionaries(TEXT, TEXT, max_size=8)
FOLDER = st.builds(recorded, TEXTS, st.dictionaries(TEXT, st.binary(max_size=9), max_size=4))
MEMORY = TEXTS | FOLDER


def written(changed):
    content = b"".join(changed.pieces())
    assert len(content) == len(changed)
    return content


@given(MEMORY, MEMORY)
@example({"a": "x", "b": "y"}, {"a": "y", "b": "x"})  # swapped
@example({"a": "x"}, {"A": "x"})  # moved to what differs in case alone
@example({"a": "x", "b": "x"}, {"c": "x", "d": "x", "e": "x"})
@example({"a": "x", "b": "y"}, {"b": "x"})  # moved over another
@example({"a\nb": "c"}, {"a": "b\nc"})  # one run of bytes, two memories
def test_a_change_leads_from_one_to_the_other(before, after):
    old, new = State.of(before), State.of(after)
    content = written(change(old, new))
    again = apply(old, content, max_bytes=BOUND)[0].joined()
    assert again == new
    assert list(again.contents) == sorted(again.contents)
    assert again.names == sorted(after)
    assert again.documents() == after


RUNS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 60), st.integers(0, 60)), max_size=8)
NOISE = bytes(hashlib.sha256(b"%d" % n).digest()[0] for n in range(64))


def edited(text, runs):
    """Parts of a text and of what is in none, one behind the other."""
    return b"".join((NOISE if kind == 0 else text)[min(ends) : max(ends)] for kind, *ends in runs)


@given(RUNS, RUNS, RUNS, st.booleans())
@example([(0, 0, 60)], [(1, 0, 30), (0, 0, 5), (1, 30, 60)], [(1, 20, 60), (1, 0, 25)], True)
def test_a_large_content_is_put_together_of_what_is_there(first, second, third, in_part):
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"_BLOCK": 8, "_PAGE": 4, "_LEAST": 2, "_MOST": 12, "_WORTH": 4, "_END": b"\1"}.items():
            patch.setattr(delta, name, value)
        for name, value in {
            "_LARGE": 6,
            "_WHOLE_CONTENT": 8,
            "_MOST_PARTS": 3,
            "_MARGIN": 3,
            "WHOLE": 40 if in_part else 10**6,
            "MOST_PREFIX": 70,
        }.items():
            patch.setattr(states, name, value)
        old = edited(b"", first)
        before = State({"a": old, "b": edited(old, third), "d": b"gone", "e": b"same"}, frozenset("a"))
        new = {"a": edited(old, second), "b": edited(old, first), "c": edited(old, third), "e": b"same"}
        after = State(new, frozenset("ac"))
        changed = change(before, after)
        roped = apply(before, written(changed), max_bytes=BOUND)[0]
        assert (roped.joined(), len(roped), b"".join(roped.run())) == (after, len(after), b"".join(after.run()))
        assert apply(roped, written(change(after, before)), max_bytes=BOUND)[0].joined() == before
        run = b"".join(before.run())
        if changed.against is None:
            assert not in_part or len(before) <= 40
            return
        parts = read_lead(lead_of(changed.against), before)
        assert parts == [*changed.against]
        assert all(last[1] < next_[0] for last, next_ in itertools.pairwise(parts))
        assert sum(end - start for start, end in parts) <= 70
        assert [b"".join(before.cut(*part)) for part in parts] == [run[start:end] for start, end in parts]


@given(MEMORY, MEMORY)
@example({}, {"a": '\x0b\x00\x1fé"', "b": "\x07\ud83d\ude00\\", "c": "\n" * 40_000 + "é" * 20_000})
def test_bytes_have_the_digests_of_their_documents(before, after):
    plain = canonical(after)
    whole = State.of(after)
    fresh = {
        name: content if name in whole.files else content.decode("utf-8", "surrogatepass")
        for name, content in whole.contents.items()
    }
    for state in (whole, State.of(before).with_contents(whole.digests, fresh), whole.with_contents(whole.digests, {})):
        assert measure(encode_texts(state.texts())) == (len(plain), "sha256:" + hashlib.sha256(plain).hexdigest())
        assert state.digests == digests_of(after)
        assert state == State.of(after)
        assert state.sizes == {name: len(text.encode("utf-8", "surrogatepass")) for name, text in after.items()}
    below, lacking = State.of(before), whole.digests.items() - State.of(before).digests.items()
    assert (below.with_contents(whole.digests, {}) is None) == bool(lacking)


@given(TEXTS)
def test_a_state_is_each_document_in_the_order_of_its_name(memory):
    data = b"".join(
        name.encode("utf-8", "surrogatepass") + b"\n" + memory[name].encode("utf-8", "surrogatepass")
        for name in sorted(memory, key=lambda name: name.encode("utf-8", "surrogatepass"))
    )
    assert b"".join(State.of(memory).run()) == data


def test_a_change_holds_only_what_changed():
    before = State.of({"gone": "1", "moved": "long text", "same": "same", "told": "old"})
    after = State.of({"archive/moved": "long text", "same": "same", "told": "new", "added": "yes"})
    line, _, texts = written(change(before, after)).partition(b"\n")
    assert json.loads(line) == {"drop": ["gone"], "move": {"moved": "archive/moved"}, "put": {"added": 3, "told": 3}}
    assert texts == b"yesnew"


def test_a_file_of_a_record_is_its_bytes():
    before = State.of(recorded({"a": "b"}, {"x": b"\xff" * 100, "y": b"\xfe"}))
    assert (before.contents["x"], before.files, before.names) == (b"\xff" * 100, {"x", "y"}, [RECORD_NAME, "a"])
    after = State.of(recorded({"a": "b"}, {"x": b"\xff" * 101, "z": b"\xfe"}))
    head, _, contents = written(change(before, after)).partition(b"\n")
    assert json.loads(head) == {"bytes": ["x"], "drop": [], "move": {"y": "z"}, "put": {"x": 101}}
    assert contents == b"\xff" * 101


def test_large_files_are_spelled_and_read_piece_by_piece(monkeypatch):
    monkeypatch.setattr(record, "_PIECE", 8)
    for size in range(20):
        documents = recorded({}, {"x": bytes(range(size)), "y": b""})
        state = State.of(documents)
        assert state.contents["x"] == bytes(range(size))
        assert state.documents() == documents
    for wrong in ("AAAAAA==AAAA", "AAAAAAA=AAAA", "AAAAAAAAAAAAA", "AAAAAAAA===="):
        spoiled = recorded({}, {"x": b""})[RECORD_NAME].replace('"x":""', f'"x":"{wrong}"')
        assert not State.of({RECORD_NAME: spoiled}).files


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text.replace("/w==", "/x=="),  # bits that are thrown away
        lambda text: text.replace("/w==", "/w"),
        lambda text: text.replace("/w==", "/w=é"),
        lambda text: text.replace('"x":', '"\\u0078":'),
        lambda text: text.replace('"/w=="', "7"),
        lambda text: text.replace('"y"', '"a"'),  # out of order
        lambda text: text.replace('"y"', '"x"'),
        lambda text: text.replace('"y"', '"note"'),  # a document has that name
        lambda text: text.replace('"empty_dirs":[]', '"empty_dirs":{"files":{}}'),
        lambda text: text.replace('"empty_dirs":[]', '"empty_dirs":{"files":{"a":7}}'),
        lambda text: text[: text.index("/w==")],
        lambda text: "",
    ],
)
def test_a_record_that_is_spelled_otherwise_stays_a_text(spoil):
    plain = recorded({"note": ""}, {"x": b"\xff", "y": b"\xfe"})
    documents = {**plain, RECORD_NAME: spoil(plain[RECORD_NAME])}
    state = State.of(documents)
    assert not state.files
    assert state.documents() == documents


def test_files_that_another_writer_left_in_the_text_have_the_same_digests():
    documents = recorded({"x": "a text"}, {"y": b"\xff"})
    for name in ("y", "x"):
        text = documents[RECORD_NAME].replace('"y"', f'"{name}"')
        left = State({RECORD_NAME: text.encode(), "x": b"a text"})
        assert left.digests == digests_of({**documents, RECORD_NAME: text})
        assert left.with_contents(left.digests, {}) == (None if name == "y" else left)


@pytest.mark.parametrize("text", [b"", b"{}", b'{"files":{"a":""}}'])
def test_files_without_a_record_are_refused(text):
    for content in (
        line(put={"x": 1}, texts=b"x", bytes=["x"]),
        line(put={RECORD_NAME: len(text), "x": 1}, texts=text + b"x", bytes=["x"]),
        line(put={RECORD_NAME: len(text), "x": 1}, texts=text + b"x", bytes=["x", RECORD_NAME]),
    ):
        state = apply(EMPTY, content, max_bytes=BOUND)[0]
        for read in (state.documents, lambda state=state: state.digests):
            with pytest.raises(ValueError, match="no record"):
                read()


def line(drop=(), move=None, put=None, texts=b"", **more):
    return json.dumps({"drop": list(drop), "move": move or {}, "put": put or {}, **more}).encode() + b"\n" + texts


BEFORE = State.of({"a": "one", "b": "two"})


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\n",
        b'{"drop":[],"move":{},"put":' + b"[" * 5000 + b"]" * 5000 + b"}\n",
        b'{"drop":[],"move":{},"put":{"c":' + b"9" * 5000 + b"}}\n",
        line(more=1),
        line(bytes="c", put={"c": 0}),
        line(bytes=[1], put={"c": 0}),
        line(bytes=[["a"]]),
        line(drop=["a", "a"]),
        line(drop=["a"], move={"a": "c"}),
        line(move={"c": "d"}),
        line(move={"a": "c"}, put={"c": 1}, texts=b"x"),
        line(put={"c": -1}, texts=b""),
        line(put={"c": 1.0}, texts=b"x"),
        line(put={"c": True}, texts=b"x"),
        line(put={"c": "1"}, texts=b"x"),
        line(put={"c": [[0]]}),
        line(put={"c": [[0, 1, 1]]}),
        line(put={"c": [[-1, 2]]}),
        line(put={"c": [[0, 1.0]]}),
        line(put={"c": [True]}, texts=b"x"),
        line(put={"c": [1, 1]}, texts=b"x"),
        line(drop=[1]),
        line(move={"a": None}),
        b'{"drop":{},"move":{},"put":{}}\n',
        b'{"drop":[],"move":[],"put":{}}\n',
        b'{"drop":[],"move":{},"put":[]}\n',
    ],
)
def test_what_is_no_change_is_refused(content):
    with pytest.raises(ValueError, match=r"."):
        apply(BEFORE, content, max_bytes=BOUND)


def test_a_text_that_is_not_utf8_is_refused():
    state = apply(BEFORE, line(put={"a": 1}, texts=b"\xff"), max_bytes=BOUND)[0]
    with pytest.raises(ValueError, match="not UTF-8"):
        state.documents()


def test_a_state_is_bounded():
    whole = line(put={"a": 100}, texts=b"x" * 100)
    assert len(apply(EMPTY, whole, max_bytes=102)[0]) == 102
    with pytest.raises(TooLarge, match="102 bytes, more than the 101"):
        apply(EMPTY, whole, max_bytes=101)


def test_documents_are_bounded():
    most = most_documents(0)
    few = line(put={f"{n}": 0 for n in range(most)})
    with pytest.raises(TooLarge, match="bytes, more than the 0"):
        apply(EMPTY, few, max_bytes=0)
    many = line(put={f"{n}": 0 for n in range(most_documents(20_000) + 1)})
    with pytest.raises(TooLarge, match="documents, more than"):
        apply(EMPTY, many, max_bytes=20_000)


def test_a_line_is_not_read_where_it_names_too_many(monkeypatch):
    def unread(text):
        raise AssertionError("it was made into objects")

    monkeypatch.setattr(states, "load_object", unread)
    with pytest.raises(TooLarge, match="more documents"):
        apply(EMPTY, line(drop=["a"] * (4 * most_documents(0) + 1)), max_bytes=0)


@with_zstd
@pytest.mark.parametrize(("keep", "most"), [(False, 3.2), (True, 5.2)])
def test_text_of_four_bytes_a_character_is_held_once_at_most(keep, most):
    """Of each document of ASCII with an emoji in it Python makes four times its bytes."""
    documents = {f"{number:02}.md": "a line of a note\n" * 3000 + "\N{BRAIN}" for number in range(40)}
    built = build.build(
        documents, label="a", snapshot_id="20260101T000000000000Z-0a1b2c", created_at="2026-01-01T00:00:00+00:00"
    )
    manifest = snapshot.read_manifest(built.files[built.manifest_file], label="a", snapshot_id=built.info.snapshot_id)
    texts = {**built.files}
    plain = built.info.byte_size
    del documents, built
    tracemalloc.start()
    try:
        build.read_documents(manifest, texts, max_bytes=2**28, keep=keep)
        assert tracemalloc.get_traced_memory()[1] < most * plain
    finally:
        tracemalloc.stop()
