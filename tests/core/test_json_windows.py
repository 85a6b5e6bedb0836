"""Documents are written and read in windows: where one is cut must not show."""

from __future__ import annotations

import json
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colony_memory._format import json as _json

# Everything that takes more than one byte or character to write, close together.
TRICKY = st.text(st.sampled_from('"\\/\n\t\r\b\x00\x1f\x7fé\u2028\uffff\ud83d\ude00\udce9😀ab'), max_size=60)


@settings(deadline=None, max_examples=3 * settings().max_examples // 2)
@given(st.dictionaries(TRICKY, TRICKY, min_size=1, max_size=4), st.sampled_from([1, 2, 3, 5, 12, 13, 29]))
def test_documents_are_the_same_whatever_the_window(documents: dict[str, str], window: int) -> None:
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


def test_one_large_document_is_not_held_several_times_over() -> None:
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
