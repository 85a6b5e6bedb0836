"""JSON that is not compact takes a time that grows with its size, not with the square of it."""

from __future__ import annotations

import json
import time

import pytest

from colony_memory._format import json as _json


def seconds(number: int, spaced: tuple[str, str]) -> float:
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
def test_time_grows_with_the_size(spaced: tuple[str, str]) -> None:
    # Eight times the documents: 8 where it is linear, 64 where each one is looked for in all that follows.
    assert seconds(8000, spaced) < 25 * seconds(1000, spaced)
