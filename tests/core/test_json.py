import json
import time
import tracemalloc

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from snapshot_files import unhurried

from colony_memory._format import json as _json

# Halves of pairs on their own, next to each other and in both orders; what JSON escapes; and everything else.
AWKWARD = '\ud800\udbff\udc00\udfff\ud83d\ude00😀\\"/\0\x1f\x7f\u2028\ufeff\r\nu0d8é項'
CHARACTERS = st.one_of(st.sampled_from(AWKWARD), st.characters())
TEXTS = st.text(CHARACTERS, max_size=12)
DOCUMENTS = st.dictionaries(TEXTS, TEXTS, max_size=5)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


def reference(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def read_back(data):
    """As the reader of 0.1.1 does: ``json.loads`` of bytes."""
    return json.loads(data)


@unhurried
@given(JSON_VALUES)
def test_canonical_form_is_sorted_compact_and_plain(value):
    text = reference(value)
    try:
        expected = text.encode("utf-8")
    except UnicodeEncodeError:
        assert read_back(_json.canonical(value)) == value
    else:
        assert _json.canonical(value) == expected


@unhurried
@given(TEXTS)
@example("\ud83d\ude00")
@example("\ud83d\ud83d\ude00\ude00")
@example("\\\ud83d\\\ude00")
@example("\\ud83d\ude00")
@example("\ude00\ud83d")
@example("\ud83d\\ude00")
@example("😀\ude00\ud83d😀")
@example("\ud800\udc00")
@example("\udbff\udfff")
def test_any_text_comes_back_from_canonical_form(text):
    assert read_back(_json.canonical(text)) == text
    assert json.loads(_json.canonical(text).decode("utf-8", "surrogatepass")) == text


def test_a_lone_surrogate_is_written_as_its_escape():
    assert _json.canonical("a\ud800b") == b'"a\\ud800b"'
    assert _json.canonical("\udfff") == b'"\\udfff"'
    assert _json.canonical("\ud83d\ude00") == b'"\\ud83d\xed\xb8\x80"'
    assert _json.canonical("\ud800\udc00") == b'"\\ud800\xed\xb0\x80"'
    assert _json.canonical("\ud800\ud800\udc00\udc00") == b'"\\ud800\\ud800\xed\xb0\x80\\udc00"'
    assert _json.canonical("😀") == b'"\xf0\x9f\x98\x80"'


def test_keys_are_sorted_by_code_point_and_not_by_utf_16():
    assert _json.canonical({"\U0001f600": 1, "\uffff": 2, "Z": 3, "a": 4}) == '{"Z":3,"a":4,"\uffff":2,"😀":1}'.encode()


@unhurried
@given(DOCUMENTS)
def test_documents_are_written_in_canonical_form(documents):
    if documents:
        assert b"".join(_json.encode_documents(documents)) == _json.canonical(documents)


def _pairs(pairs):
    if len(dict(pairs)) != len(pairs):
        raise ValueError("twice")
    return dict(pairs)


def accepted(data):
    """What Python's own reader makes of it, None where that is not an object of texts with every name once."""
    try:
        value = json.loads(data.decode("utf-8", "surrogatepass"), object_pairs_hook=_pairs)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        return None
    return value


def decoded(data):
    try:
        return _json.decode_documents(data)
    except ValueError:
        return None


ENCODED = st.one_of(
    DOCUMENTS.map(lambda d: json.dumps(d).encode()),
    DOCUMENTS.map(lambda d: json.dumps(d, indent="\t ").encode()),
    DOCUMENTS.map(lambda d: reference(d).encode("utf-8", "surrogatepass")),
    st.dictionaries(TEXTS, JSON_VALUES, max_size=2).map(lambda d: json.dumps(d).encode()),
    JSON_VALUES.map(lambda value: json.dumps(value).encode()),
)
SPLICES = st.one_of(
    st.binary(max_size=3),
    st.sampled_from([b"{", b"}", b'"', b"\\", b":", b",", b" ", b"\n", b"\r", b"\t", b"\f", b"\v", b"\0", b"null"]),
    st.sampled_from([b'"a":"b"', b',"a":"b"', b"\\u0061", b"\\ud83d", b"\\ude00", b"\\U0061", b"\\x61", b"'"]),
    st.sampled_from([b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xc0\x80", b"\xc2\xa0", b"\xff", b"/**/", b"[", b"]"]),
)


@st.composite
def mutated(draw):
    data = draw(ENCODED)
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(len(data), start + 4)))
        data = data[:start] + draw(SPLICES) + data[end:]
    return data


@unhurried
@given(mutated())
@example(b'{"a":"1","a":"2"}')
@example(b'{"a":"1","\\u0061":"2"}')
@example(b'{"\\ud83d\\ude00":"1","\xf0\x9f\x98\x80":"2"}')
@example(b" \r\n\t{ } \n")
@example(b"")
@example(b'{"a":')
@example(b'{"a":"\\"}')
@example(b'{"a":"\n"}')
@example(b'{"a":"b"\x0c}')
@example(b'{"a":{"b":"c"}}')
@example(b'{"a":"\xff"}')
@example(b'{"a\xc3":"\xa9"}')
@example(b'\xef\xbb\xbf{"a":"b"}')
@example(b'{"a":"\xed\xa0\xbd\xed\xb8\x80"}')
@example(b'{"a":"\\ud83d\xed\xb8\x80"}')
@example(b'{"a" :"1","b":"2"}')
@example(b'{"a":"1" ,"b":"2","c":"3"}')
@example(b'{"a":"1":"2","b":"3"}')
@example(b'{"a":"x\\",\\"y","b":"\\":\\""}')
@example(b'{"\\":\\"":"\\",\\""}')
@example(b'{"":"",":":",",",":":"}')
@example(b'{"a":x"b","c":"d"}')
@example(b'{"a":"\n","b":"c"}')
def test_documents_are_read_exactly_where_python_reads_an_object_of_texts(data):
    assert decoded(data) == accepted(data)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b'{"a":"1","a":"2"}', "document 'a' is there twice"),
        (b"[]", "'{' is missing"),
        (b'{"a" "b"}', "':' is missing"),
        (b'{"a":"b" "c"}', "',' is missing"),
        (b'{"a":1}', "a string is missing"),
        (b'{"a":"b"}x', "there is more after the documents"),
        (b"{}x", "there is more after the documents"),
    ],
)
def test_a_refusal_says_what_is_wrong(data, what):
    with pytest.raises(ValueError, match="^" + what.replace("{", r"\{")):
        _json.decode_documents(data)


@unhurried
@given(TEXTS)
def test_printable_names_are_encodable_and_keep_what_is(name):
    shown = _json.printable(name)
    shown.encode("utf-8")
    if not any("\ud800" <= char <= "\udfff" for char in name):
        assert shown == name
    assert _json.printable(shown) == shown


@unhurried
@given(st.dictionaries(TEXTS, JSON_VALUES, max_size=4))
def test_an_object_is_read_as_python_reads_it(value):
    text = json.dumps(value)
    # A pair that json.dumps wrote as two escapes is read as one character, by every reader.
    assert _json.load_object(text) == json.loads(text)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "Expecting value"),
        ("{", "Expecting property name"),
        ("[]", "a JSON object was expected, not a list"),
        ("null", "a JSON object was expected, not a NoneType"),
        ('"x"', "a JSON object was expected, not a str"),
        ('{"a":1,"a":1}', "a key is there twice"),
        ('{"a":[{"b":1,"b":2}]}', "a key is there twice"),
        ('{"a":1,"\\u0061":2}', "a key is there twice"),
        ("{} {}", "Extra data"),
        ("\ufeff{}", "BOM"),
        ('{"a":' + "[" * 200_000, "nested too deeply"),
        ('{"a":' * 200_000, "nested too deeply"),
        ("[" * 200_000 + "]" * 200_000, "nested too deeply"),
    ],
    ids=lambda text: text[:20],
)
def test_what_is_no_object_is_refused(text, what):
    with pytest.raises(ValueError, match=what):
        _json.load_object(text)


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_what_python_alone_takes_for_a_number_is_no_json(constant):
    with pytest.raises(ValueError, match=f"^{constant} is no JSON$"):
        _json.load_object(f'{{"a":[{constant}]}}')


@pytest.mark.parametrize("text", ["9" * 4301, "-" + "9" * 4300, "1" * 900_000], ids=len)
def test_a_number_that_is_too_long_is_refused_on_every_python(text):
    with pytest.raises(ValueError, match="a number has more than 4300 digits"):
        _json.load_object(f'{{"a":{text}}}')


def nested(levels, *, kind):
    """An object of so many levels, itself included."""
    opened, closed = {"list": ("[", "]"), "object": ('{"a":', "}")}[kind]
    rest = levels - 1
    return '{"x":[],"a":' + opened * rest + "0" * (kind == "object" or not rest) + closed * rest + "}"


@pytest.mark.parametrize("kind", ["list", "object"])
def test_the_bound_on_depth_is_the_same_for_every_caller(kind):
    def deeper(frames, levels):
        return deeper(frames - 1, levels) if frames else _json.load_object(nested(levels, kind=kind))

    for frames in (0, 500):
        assert deeper(frames, 64)
        with pytest.raises(ValueError, match="nested too deeply"):
            deeper(frames, 65)


@pytest.mark.parametrize(
    "unit", ["[],", "{},", '{"":0},', '{"a":[]},', "[[[[[]]]]],", '"ab",', '"\u2615",', "1.5,", "999,"]
)
def test_reading_costs_a_small_multiple_of_the_text(unit):
    text = '{"a":[' + unit * (300_000 // len(unit)) + "0]}"
    tracemalloc.start()
    try:
        _json.load_object(text)
        assert tracemalloc.get_traced_memory()[1] < 40 * len(text)
    finally:
        tracemalloc.stop()


def test_no_more_documents_are_read_than_there_may_be():
    data = b'{"a":"1","b":"2"}'
    assert _json.decode_documents(data, at_most=2) == _json.decode_documents(data) == {"a": "1", "b": "2"}
    for at_most in (0, 1):
        with pytest.raises(ValueError, match=f"more than the {at_most} documents"):
            _json.decode_documents(data, at_most=at_most)
    assert _json.decode_documents(b"{}", at_most=0) == {}


def seconds(number, spaced):
    documents = {f"notes/{n}.md": "text " * 40 for n in range(number)}
    body = json.dumps(documents, separators=spaced).encode()
    best = float("inf")
    for data in (body[:-1] + b',"z":"z"}', b'{"a":"a",' + body[1:-1] + b',"z":"z"}'):
        for _ in range(3):
            begin = time.process_time()
            assert len(_json.decode_documents(data)) > number
            best = min(best, time.process_time() - begin)
    return best


@pytest.mark.parametrize("spaced", [(",", ": "), (", ", ":"), (", ", ": "), (",", " :"), (" ,", ":")])
def test_time_grows_with_the_size(spaced):
    # Eight times the documents: 8 where it is linear, 64 where each one is looked for in all that follows.
    assert seconds(8000, spaced) < 25 * seconds(1000, spaced)


# Everything that takes more than one byte or character to write, close together.
TRICKY = st.text(st.sampled_from('"\\/\n\t\r\b\x00\x1f\x7fé\u2028\uffff\ud83d\ude00\udce9😀ab'), max_size=60)


@settings(deadline=None, max_examples=3 * settings().max_examples // 2)
@given(st.dictionaries(TRICKY, TRICKY, min_size=1, max_size=4), st.sampled_from([1, 2, 3, 5, 12, 13, 29]))
def test_documents_are_the_same_whatever_the_window(documents, window):
    whole = b"".join(_json.encode_documents(documents))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_json, "_WINDOW", window)
        assert b"".join(_json.encode_documents(documents)) == whole
        assert _json.decode_documents(whole) == documents
        escaped = json.dumps(documents, separators=(" ,", " : ")).encode()
        assert _json.decode_documents(escaped) == json.loads(escaped)
        for cut in range(0, len(whole), 1 + len(whole) // 20):
            with pytest.raises(ValueError):
                _json.decode_documents(whole[:cut])


def test_one_large_document_is_not_held_several_times_over():
    text = 'a line of some notes, and a quote: "so it was"\n' * 60_000
    size = len(text)
    tracemalloc.start()
    try:
        total = sum(map(len, _json.encode_documents({"MEMORY.md": text})))
        assert total > size
        assert tracemalloc.get_traced_memory()[1] < size / 4
        plain = bytearray().join(_json.encode_documents({"MEMORY.md": text}))
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        assert _json.decode_documents(plain) == {"MEMORY.md": text}
        assert tracemalloc.get_traced_memory()[1] - before < 2.5 * size
    finally:
        tracemalloc.stop()
