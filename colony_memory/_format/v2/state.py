"""Pure: a memory as bytes, what changes from one to the next, and that change applied, within bounds.

A state has a content for each document, which is its text, and for each file of a folder's record, which is the bytes
that the record spells in base64: a byte more in a file is a byte more here, and not another text from there on.
As one run, which is what a pack is compressed against, it is each content in the order of the bytes of its name: name,
LF, content. A change is one line of JSON, LF, and the new contents joined in that same order.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

from colony_memory._format.json import canonical, load_object, shown
from colony_memory._format.record import RECORD_NAME, join_files, joined_size, split_files
from colony_memory._format.v2.zstd import TooLarge
from colony_memory._values import cached_property, dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

_KEYS = ("drop", "move", "put")
_OPTIONAL = "bytes"
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
    """A memory as bytes.

    Attributes:
        contents: Each by its name, in the order of the bytes of their names.
        files: Those that are files of the record; the others are texts, the record without its files among them.
    """

    contents: Mapping[str, bytes]
    files: frozenset[str] = frozenset()

    @classmethod
    def of(cls, documents: Mapping[str, str]) -> State:
        """The state of documents."""
        return cls({}).with_texts(documents, documents)

    def __len__(self) -> int:
        return self._size

    @cached_property
    def _size(self) -> int:
        return sum(len(_name(name)) + 1 + len(content) for name, content in self.contents.items())

    @cached_property
    def marks(self) -> Mapping[str, str]:
        """Digest of each content."""
        return {name: _digest(content) for name, content in self.contents.items()}

    @cached_property
    def digests(self) -> Mapping[str, str]:
        """Digest of each document, of which :func:`colony_memory._format.tree.tree_of_digests` makes the tree.

        Raises:
            ValueError: There are files, and no record that they belong to.
        """
        told = {name: mark for name, mark in self.marks.items() if name not in self.files}
        if self.files:
            told[RECORD_NAME] = _digest(self._record())
        return told

    @property
    def names(self) -> list[str]:
        """The names of the documents, in that order."""
        return [name for name in self.contents if name not in self.files]

    @property
    def sizes(self) -> Mapping[str, int]:
        """Bytes of each document."""
        sizes = {name: len(self.contents[name]) for name in self.names}
        if self.files:
            sizes[RECORD_NAME] += joined_size({name: len(self.contents[name]) for name in self.files})
        return sizes

    def run(self) -> Iterator[bytes]:
        """All of it as one run of bytes, piece by piece."""
        return (part for name, content in self.contents.items() for part in (_name(name), b"\n", content))

    def texts(self) -> Iterator[tuple[str, bytes]]:
        """Each document in UTF-8, each surrogate in three bytes.

        Raises:
            ValueError: There are files, and no record that they belong to.
        """
        if self.files and RECORD_NAME not in self.names:
            raise ValueError("it has files, and no record that they belong to")
        return ((n, self._record() if self.files and n == RECORD_NAME else self.contents[n]) for n in self.names)

    def _record(self) -> bytes:
        record = b"" if RECORD_NAME in self.files else self.contents.get(RECORD_NAME, b"")
        return join_files(record, {name: self.contents[name] for name in self.contents if name in self.files})

    def with_texts(self, fresh: Mapping[str, str], names: Iterable[str]) -> State:
        """The state that has the ``fresh`` texts, and of the other ``names`` those of this one."""
        texts, files, own = dict(fresh), dict[str, bytes](), {*names}
        if self.files and RECORD_NAME in own - texts.keys():
            if own.isdisjoint(self.files):
                files = {name: self.contents[name] for name in self.files}
            else:
                texts[RECORD_NAME] = str(self._record(), "utf-8", "surrogatepass")
        split = split_files(texts[RECORD_NAME]) if RECORD_NAME in own & texts.keys() else None
        if split is not None and own.isdisjoint(split[1]):
            texts[RECORD_NAME], files = split
        ordered = _ordered([*own, *files])
        contents = {
            name: files[name]
            if name in files
            else texts[name].encode("utf-8", "surrogatepass")
            if name in texts
            else self.contents[name]
            for name in ordered
        }
        state = State(contents, frozenset(files))
        if "marks" in vars(self):  # nothing is digested twice
            vars(state)["marks"] = {
                name: self.marks[name] if content is self.contents.get(name) else _digest(content)
                for name, content in contents.items()
            }
        return state

    def equal(self, other: State) -> frozenset[str]:
        """Names of the documents that both have alike."""
        return frozenset(name for name, told in other.digests.items() if self.digests.get(name) == told)

    def is_empty(self, name: str) -> bool:
        """Whether there is nothing in a document but NUL."""
        content = self.contents[name]
        return content.count(b"\0") == len(content)

    def documents(self, names: Collection[str] | None = None) -> dict[str, str]:
        """The documents, or those of the ``names``.

        Raises:
            ValueError: A text is not UTF-8, or there are files, and no record that they belong to.
        """
        try:
            return {
                name: str(text, "utf-8", "surrogatepass")
                for name, text in self.texts()
                if names is None or name in names
            }
        except UnicodeDecodeError as error:
            raise ValueError(f"a text is not UTF-8: {error.reason}") from error


def _digest(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def _ordered(names: Iterable[str]) -> list[str]:
    """The names in the order of their bytes, which is that of their code points."""
    return sorted(names)


EMPTY = State({})


class Change(NamedTuple):
    """What leads from one state to another, of which it holds no content itself.

    Attributes:
        line: What goes, what is moved, and which contents come, with the LF.
        after: Where it leads.
        put: Bytes of the contents that follow, by name.
    """

    line: bytes
    after: State
    put: Mapping[str, int]

    def __len__(self) -> int:
        return len(self.line) + sum(self.put.values())

    def pieces(self) -> Iterator[bytes]:
        """Its bytes, piece by piece."""
        yield self.line
        for name in self.put:
            yield self.after.contents[name]


def change(before: State, after: State) -> Change:
    """What leads from one state to the next."""
    lost = [name for name in before.contents if name not in after.contents]
    # A content that was moved is found by its digest, and stays what it is, a text or a file.
    known = {(before.marks[name], name in before.files): name for name in reversed(lost)}
    moved, put = dict[str, str](), dict[str, int]()
    for name, content in after.contents.items():
        kind = name in after.files
        if name in before.contents:
            source = None
            if (before.marks[name], name in before.files) == (after.marks[name], kind):
                continue
        else:
            source = known.pop((after.marks[name], kind), None) if known else None
        if source is not None:
            moved[source] = name
        else:
            put[name] = len(content)
    files = [name for name in put if name in after.files]
    line = {"drop": [name for name in lost if name not in moved], "move": moved, "put": put}
    return Change(canonical(line | {_OPTIONAL: files} if files else line) + b"\n", after, put)


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
    drop, move, put, files = _read_line(line)
    gone = {*drop, *move}
    if len(gone) != len(drop) + len(move) or not gone <= before.contents.keys():
        raise ValueError("it takes away what is not there, or something twice")
    come = {target: source for source, target in move.items()}
    if len(come) != len(move) or not come.keys().isdisjoint(put):
        raise ValueError("it gives a document twice")
    told, given = sum(put.values()), memoryview(content)[end + 1 :]
    if told != len(given):
        more = "less" if len(given) < told else "more"
        raise ValueError(f"it holds {more} text than its first line says")
    stay = [name for name in before.contents if name not in gone and name not in come and name not in put]
    names = _ordered([*stay, *come, *put])
    if len(names) > most_documents(max_bytes):
        raise TooLarge(f"it leads to {len(names)} documents, more than this client takes")
    size = sum(len(_name(name)) + 1 for name in names) + told
    size += sum(len(before.contents[name]) for name in (*stay, *move))
    if size > max_bytes:
        raise TooLarge(f"it leads to {size} bytes, more than the {max_bytes} that this client takes")
    contents, at = dict[str, bytes](), 0
    for name in names:  # the new contents are in the order of the bytes of their names too
        if name in put:
            contents[name] = bytes(given[at : at + put[name]])
            at += put[name]
        else:
            contents[name] = before.contents[come.get(name, name)]
    kept = {name for name in stay if name in before.files} | {to for own, to in move.items() if own in before.files}
    return State(contents, frozenset(kept | files))


def _read_line(line: bytes | bytearray) -> tuple[list[str], dict[str, str], dict[str, int], set[str]]:
    raw = load_object(line.decode("utf-8", "surrogatepass"))
    if raw.keys() - {_OPTIONAL} != set(_KEYS):
        raise ValueError(f"its first line has {shown(sorted(raw))} and not {', '.join(_KEYS)}")
    drop, move, put = (raw[key] for key in _KEYS)
    files = raw.get(_OPTIONAL, [])
    if not isinstance(drop, list) or not all(isinstance(name, str) for name in drop):
        raise ValueError("drop is no list of names")
    if not isinstance(move, dict) or not all(isinstance(name, str) for name in move.values()):
        raise ValueError("move is no object of names")
    if not isinstance(put, dict) or not all(type(size) is int and size >= 0 for size in put.values()):
        raise ValueError("put is no object of counts")
    if not isinstance(files, list) or not all(isinstance(name, str) and name in put for name in files):
        raise ValueError("bytes is no list of names in put")
    return drop, move, put, {*files}
