"""Pure: a memory as bytes, what changes from one to the next, and that change applied, within bounds.

A state is each document in the order of the bytes of its name: name, LF, text. It is what a pack is compressed against.
A change is one line of JSON, LF, and the new texts joined in that same order.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

from colony_memory._format.json import canonical, load_object, shown
from colony_memory._format.tree import document_digest
from colony_memory._format.v2.zstd import TooLarge
from colony_memory._values import cached_property, dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

_KEYS = ("drop", "move", "put")
# What a small memory may always have, whatever the bound of its text.
_FEW = 1000
# What the line of a small memory may have.
_SHORT_LINE = 2**16


def most_documents(max_bytes: int) -> int:
    """Documents that a memory may have. Each takes some hundred bytes to hold, however short it is.

    >>> most_documents(256 * 2**20)
    1049576
    """
    return _FEW + max_bytes // 256


def most_line(max_bytes: int) -> int:
    """Bytes that the first line of a change may have: as text, and read, it takes up to eight times that.

    >>> most_line(256 * 2**20)
    67174400
    """
    return _SHORT_LINE + max_bytes // 4


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

    data: bytes | bytearray
    spans: Mapping[str, tuple[int, int]]

    @classmethod
    def of(cls, documents: Mapping[str, str]) -> State:
        """The state of documents."""
        return _join((name, documents[name].encode("utf-8", "surrogatepass")) for name in _ordered(documents))

    def __len__(self) -> int:
        return len(self.data)

    @cached_property
    def digests(self) -> Mapping[str, str]:
        """Digest of each text, of which :func:`colony_memory._format.tree.tree_of_digests` makes the tree."""
        return {name: "sha256:" + hashlib.sha256(text).hexdigest() for name, text in self.texts()}

    def texts(self) -> Iterator[tuple[str, memoryview]]:
        """Each text in UTF-8, each surrogate in three bytes."""
        data = memoryview(self.data)
        return ((name, data[start:end]) for name, (start, end) in self.spans.items())

    def with_texts(self, fresh: Mapping[str, str], names: Iterable[str]) -> State:
        """The state that has the ``fresh`` texts, and of the other ``names`` those of this one."""
        data, ordered = memoryview(self.data), _ordered(names)
        state = _join(
            (name, fresh[name].encode("utf-8", "surrogatepass") if name in fresh else data[slice(*self.spans[name])])
            for name in ordered
        )
        told = {name: self.digests[name] for name in ordered if name not in fresh}
        own = {name: document_digest(fresh[name]) for name in ordered if name in fresh}
        vars(state)["digests"] = told | own  # nothing is digested twice
        return state

    def equal(self, other: State) -> frozenset[str]:
        """Names of the documents that both have alike."""
        return frozenset(name for name, told in other.digests.items() if self.digests.get(name) == told)

    def is_empty(self, name: str) -> bool:
        """Whether there is nothing in a document but NUL."""
        start, end = self.spans[name]
        return self.data.count(b"\0", start, end) == end - start

    def documents(self, names: Collection[str] | None = None) -> dict[str, str]:
        """The documents, or those of the ``names``.

        Raises:
            ValueError: A text is not UTF-8.
        """
        try:
            return {
                name: str(text, "utf-8", "surrogatepass")
                for name, text in self.texts()
                if names is None or name in names
            }
        except UnicodeDecodeError as error:
            raise ValueError(f"a text is not UTF-8: {error.reason}") from error


EMPTY = State(b"", {})


def _ordered(names: Iterable[str]) -> list[str]:
    """The names in the order of their bytes, which is that of their code points."""
    return sorted(names)


def _join(texts: Iterable[tuple[str, bytes | memoryview]]) -> State:
    """The state of texts in that order, of which no more than one is in memory beside it."""
    data, spans = bytearray(), dict[str, tuple[int, int]]()
    for name, text in texts:
        data += _name(name) + b"\n"
        start = len(data)
        data += text
        spans[name] = (start, len(data))
    return State(data, spans)


class Change(NamedTuple):
    """What leads from one state to another, of which it holds no text itself.

    Attributes:
        line: What goes, what is moved, and which texts come, with the LF.
        after: Where it leads.
        put: The documents whose texts follow.
    """

    line: bytes
    after: State
    put: Mapping[str, int]

    def __len__(self) -> int:
        return len(self.line) + sum(self.put.values())

    def pieces(self) -> Iterator[bytes | memoryview]:
        """Its bytes, piece by piece."""
        yield self.line
        texts = memoryview(self.after.data)
        for name in self.put:
            yield texts[slice(*self.after.spans[name])]


def change(before: State, after: State) -> Change:
    """What leads from one state to the next."""
    lost = [name for name in before.spans if name not in after.spans]
    # A document that was moved is found by its text.
    known = {before.digests[name]: name for name in reversed(lost)}
    moved, put = dict[str, str](), dict[str, int]()
    for name, (start, end) in after.spans.items():
        if name in before.spans:
            source = None
            if before.digests[name] == after.digests[name]:
                continue
        else:
            source = known.pop(after.digests[name], None) if known else None
        if source is not None:
            moved[source] = name
        else:
            put[name] = end - start
    drop = [name for name in lost if name not in moved]
    return Change(canonical({"drop": drop, "move": moved, "put": put}) + b"\n", after, put)


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
    if end > most_line(max_bytes):
        raise TooLarge(f"its first line has {end} bytes, more than this client takes")
    line = content[:end]
    if sum(map(line.count, (b",", b":", b"[", b"{"))) > _most_values(max_bytes):
        raise TooLarge("its first line names more documents than this client takes")
    drop, move, put = _read_line(line)
    gone = {*drop, *move}
    if len(gone) != len(drop) + len(move) or not gone <= before.spans.keys():
        raise ValueError("it takes away what is not there, or something twice")
    come = {target: source for source, target in move.items()}
    if len(come) != len(move) or not come.keys().isdisjoint(put):
        raise ValueError("it gives a document twice")
    told, texts = sum(put.values()), memoryview(content)[end + 1 :]
    if told != len(texts):
        more = "less" if len(texts) < told else "more"
        raise ValueError(f"it holds {more} text than its first line says")
    stay = (name for name in before.spans if name not in gone and name not in come and name not in put)
    names = _ordered([*stay, *come, *put])
    if len(names) > most_documents(max_bytes):
        raise TooLarge(f"it leads to {len(names)} documents, more than this client takes")

    def length(name: str) -> int:
        if name in put:
            return put[name]
        start, stop = before.spans[come.get(name, name)]
        return stop - start

    size = sum(len(_name(name)) + 1 + length(name) for name in names)
    if size > max_bytes:
        raise TooLarge(f"it leads to {size} bytes, more than the {max_bytes} that this client takes")
    old = memoryview(before.data)

    def pieces() -> Iterator[tuple[str, memoryview]]:
        at = 0  # the new texts are in the order of the bytes of their names too
        for name in names:
            if name in put:
                yield name, texts[at : at + put[name]]
                at += put[name]
            else:
                yield name, old[slice(*before.spans[come.get(name, name)])]

    return _join(pieces())


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
