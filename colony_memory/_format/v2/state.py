"""Pure: a memory as bytes, what changes from one to the next, and that change applied, within bounds.

A state is each document in the order of the bytes of its name: name, LF, text. It is what a pack is compressed against.
A change is one line of JSON, LF, and the new texts joined in that same order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from colony_memory._format.json import canonical, load_object, shown
from colony_memory._format.v2.zstd import TooLarge

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_KEYS = ("drop", "move", "put")
# What a small memory may always have, whatever the bound of its text.
_FEW = 1000


def most_documents(max_bytes: int) -> int:
    """Documents that a memory may have. Each takes some hundred bytes to hold, however short it is.

    >>> most_documents(256 * 2**20)
    1049576
    """
    return _FEW + max_bytes // 256


def _most_values(max_bytes: int) -> int:
    """Commas, colons and brackets that a line may have: of it Python makes objects, whatever it took in the file."""
    return 4 * most_documents(max_bytes)


def _name(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")


@dataclass(frozen=True)
class State:
    """A memory as one run of bytes.

    Attributes:
        data: Each document in the order of the bytes of its name: name, LF, text.
        spans: Where each text is in it, in that order.
    """

    data: bytes
    spans: Mapping[str, tuple[int, int]]

    @classmethod
    def of(cls, documents: Mapping[str, str]) -> State:
        """The state of documents."""
        return _join([(name, documents[name].encode("utf-8", "surrogatepass")) for name in _ordered(documents)])

    def __len__(self) -> int:
        return len(self.data)

    def documents(self) -> dict[str, str]:
        """The documents.

        Raises:
            ValueError: A text is not UTF-8.
        """
        data = memoryview(self.data)
        try:
            return {name: str(data[a:b], "utf-8", "surrogatepass") for name, (a, b) in self.spans.items()}
        except UnicodeDecodeError as error:
            raise ValueError(f"a text is not UTF-8: {error.reason}") from error


EMPTY = State(b"", {})


def _ordered(names: Mapping[str, Any]) -> list[str]:
    """The names in the order of their bytes, which is that of their code points."""
    return sorted(names)


def _join(texts: list[tuple[str, bytes | memoryview]]) -> State:
    pieces, spans, at = list[bytes | memoryview](), dict[str, tuple[int, int]](), 0
    for name, text in texts:
        head = _name(name) + b"\n"
        pieces += (head, text)
        spans[name] = (at + len(head), at + len(head) + len(text))
        at += len(head) + len(text)
    return State(b"".join(pieces), spans)


def change(before: State, after: State) -> bytes:
    """What leads from one state to the next."""
    old, new = memoryview(before.data), memoryview(after.data)
    lost = [name for name in before.spans if name not in after.spans]
    # A document that was moved is found by its text.
    known = {bytes(old[slice(*before.spans[name])]): name for name in reversed(lost)} if lost else {}
    moved, put, pieces = dict[str, str](), dict[str, int](), list[bytes | memoryview]()
    for name, (start, end) in after.spans.items():
        text, was = new[start:end], before.spans.get(name)
        if was is not None and was[1] - was[0] == end - start and old[slice(*was)] == text:
            continue
        source = known.pop(bytes(text), None) if known and was is None else None
        if source is not None:
            moved[source] = name
        else:
            put[name] = end - start
            pieces.append(text)
    drop = [name for name in lost if name not in moved]
    return b"".join((canonical({"drop": drop, "move": moved, "put": put}), b"\n", *pieces))


def apply(before: State, content: bytes | bytearray, *, max_bytes: int) -> State:
    """The state that a change leads to.

    Args:
        before: The state that it was made from.
        content: The change.
        max_bytes: Bytes that the state may have.

    Raises:
        TooLarge: It leads to more than that.
        ValueError: It is no change of that state.
    """
    end = content.find(b"\n")
    if end < 0:
        raise ValueError("its first line does not end")
    if sum(map(content[:end].count, (b",", b":", b"[", b"{"))) > _most_values(max_bytes):
        raise TooLarge("its first line names more documents than this client takes")
    drop, move, put = _read_line(content[:end])
    gone = {*drop, *move}
    if len(gone) != len(drop) + len(move) or not gone <= before.spans.keys():
        raise ValueError("it takes away what is not there, or something twice")
    come = {*move.values(), *put}
    if len(come) != len(move) + len(put):
        raise ValueError("it gives a document twice")
    old = memoryview(before.data)
    texts = {name: old[slice(*span)] for name, span in before.spans.items() if name not in gone}
    texts.update({target: old[slice(*before.spans[source])] for source, target in move.items()})
    texts.update(_cut(memoryview(content)[end + 1 :], put))
    if len(texts) > most_documents(max_bytes):
        raise TooLarge(f"it leads to {len(texts)} documents, more than this client takes")
    size = sum(len(_name(name)) + 1 + len(text) for name, text in texts.items())
    if size > max_bytes:
        raise TooLarge(f"it leads to {size} bytes, more than the {max_bytes} that this client takes")
    return _join([(name, texts[name]) for name in _ordered(texts)])


def _cut(joined: memoryview, sizes: Mapping[str, int]) -> Iterator[tuple[str, memoryview]]:
    """The new texts, in the order of the bytes of their names."""
    at = 0
    for name in _ordered(sizes):
        text = joined[at : at + sizes[name]]
        if len(text) != sizes[name]:
            raise ValueError("it holds less text than its first line says")
        yield name, text
        at += sizes[name]
    if at != len(joined):
        raise ValueError("it holds more text than its first line says")


def _read_line(line: bytes | bytearray) -> tuple[list[str], dict[str, str], dict[str, int]]:
    raw = load_object(line.decode("utf-8", "surrogatepass"))
    if raw.keys() != set(_KEYS):
        raise ValueError(f"its first line has {shown(sorted(raw))} and not {', '.join(_KEYS)}")
    drop, move, put = (raw[key] for key in _KEYS)
    if not isinstance(drop, list) or not all(isinstance(name, str) for name in drop):
        raise ValueError("drop is no list of names")
    if not isinstance(move, dict) or not all(isinstance(name, str) for name in move.values()):
        raise ValueError("move is no object of names")
    if not isinstance(put, dict) or not all(type(size) is int and size >= 0 for size in put.values()):
        raise ValueError("put is no object of counts")
    return drop, move, put
