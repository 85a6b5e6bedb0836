"""Pure: a memory as bytes, the change from one state to the next, and applying it: see SNAPSHOT-FORMAT.md, 19."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from colony_memory._format.json import canonical, load_object, shown, utf8_pieces
from colony_memory._format.names import TEXTS, expect, is_count, is_text
from colony_memory._format.payload import digests_of, of_file, sha256
from colony_memory._format.record import RECORD_NAME, joined_size, record_pieces, take_apart
from colony_memory._format.v2.delta import Match, gaps, match
from colony_memory._format.v2.zstd import TooLarge
from colony_memory._values import NamedTuple, Value, cached_property

_KEYS = ("drop", "move", "put")
_OPTIONAL = "bytes"
# Largest state that is a prefix as a whole, and most bytes from around the changes in the prefix of a larger one: on
# two histories 1 MiB takes 2 % more room, and 4 MiB or 16 a fifth to a half more time and no less room.
WHOLE = 2**21
# Most bytes of a prefix of parts.
MOST_PREFIX = 2**26
# Least bytes of a content of which the next version reuses parts.
_LARGE = 2**16
# Bytes of the old content that are taken before and after what is new in a large one.
_MARGIN = 2**11
# Distance from a name, in contents, at which the search ends unless it still finds some that fit.
_FAR = 16
# Most characters of a lead, which lists the parts of a prefix.
_MOST_LEAD = 2**20
# Documents that a memory may always have, whatever the limit of its text.
_FEW = 1000
# Bytes of a text that are decoded at once.
_DECODED = 2**16
# Most bytes of a content that is joined at once, and most parts of one that is not.
_WHOLE_CONTENT, _MOST_PARTS = 2**20, 64
# Bytes that the line of a small memory may have.
_SHORT_LINE = 2**16


def most_documents(max_bytes: int) -> int:
    """Most documents of a memory. Each takes some hundred bytes to hold, however short it is."""
    return _FEW + max_bytes // 256


def most_line(max_bytes: int) -> int:
    """Most bytes of a change's first line: as text and as objects, it takes up to eight times that."""
    return _SHORT_LINE + max_bytes // 4


def _name(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")


class State(Value):
    contents: dict[str, bytes]  # by name, in the order of the bytes of the names
    # Names of the record's files; the others are texts, among them the record without its files
    files: frozenset[str] = frozenset()

    @classmethod
    def of(cls, documents: Mapping[str, str]) -> State:
        texts, files = take_apart(documents)
        contents: dict[str, str | bytes] = {**texts, **files}
        return cls({name: _utf8(contents[name]) for name in sorted(contents)}, frozenset(files))

    def __len__(self) -> int:
        return self.ends[-1] if self.contents else 0

    @cached_property
    def marks(self) -> Mapping[str, str]:
        return {name: sha256(content) for name, content in self.contents.items()}

    @cached_property
    def digests(self) -> Mapping[str, str]:
        """The digests that :func:`colony_memory._format.payload.digests_of` gives for the documents."""
        digests = {name: of_file(mark) if name in self.files else mark for name, mark in self.marks.items()}
        if self.files:
            next(self._record())
        elif RECORD_NAME in digests:  # other writers may have left its files in it
            parts = digests_of(self.documents((RECORD_NAME,)))
            digests |= parts if digests.keys() & parts.keys() == {RECORD_NAME} else {}
        return digests

    @property
    def names(self) -> list[str]:
        return [name for name in self.contents if name not in self.files]

    @property
    def sizes(self) -> Mapping[str, int]:
        sizes = {name: len(self.contents[name]) for name in self.names}
        if self.files:
            sizes[RECORD_NAME] += joined_size({name: len(self.contents[name]) for name in self.files})
        return sizes

    def run(self) -> Iterator[bytes | memoryview]:
        for name, content in self.contents.items():
            yield _name(name) + b"\n"
            yield from _cut(content, 0, len(content))

    @cached_property
    def ends(self) -> list[int]:
        return list(accumulate(len(_name(name)) + 1 + len(content) for name, content in self.contents.items()))

    @cached_property
    def ordered(self) -> list[str]:
        return [*self.contents]

    def place(self, name: str) -> tuple[int, int]:
        end = self.ends[bisect_left(self.ordered, name)]
        return end - len(self.contents[name]), end

    def joined(self) -> State:
        if not any(isinstance(content, _Rope) for content in self.contents.values()):
            return self
        contents = {
            name: content.joined() if isinstance(content, _Rope) else content for name, content in self.contents.items()
        }
        return State(contents, self.files)

    def cut(self, start: int, end: int) -> Iterator[bytes | memoryview]:
        at = bisect_right(self.ends, start)
        while start < end:
            name, stop = self.ordered[at], self.ends[at]
            content, head = self.contents[name], _name(name) + b"\n"
            first, begin = stop - len(content), stop - len(content) - len(head)
            if start < first:
                yield head[start - begin : end - begin]
            if end > first:
                yield from _cut(content, max(start, first) - first, min(end, stop) - first)
            start, at = stop, at + 1

    def texts(self) -> Iterator[tuple[str, Iterable[tuple[bytes, bool]]]]:
        """Each document in UTF-8, each surrogate in three bytes, in pieces, each with True if it is base64."""
        if self.files:
            next(self._record())
        for name in self.names:
            yield name, self._record() if self.files and name == RECORD_NAME else [(self.contents[name], False)]

    def _record(self) -> Iterator[tuple[bytes, bool]]:
        record = b"" if RECORD_NAME in self.files else self.contents.get(RECORD_NAME, b"")
        return record_pieces(record, {name: self.contents[name] for name in self.contents if name in self.files})

    def with_contents(self, digests: Mapping[str, str], fresh: Mapping[str, str | bytes]) -> State | None:
        """The state with these digests, from ``fresh`` contents and this state's; None if one is in neither."""
        marks = {name: digest.removeprefix(of_file("")) for name, digest in digests.items()}
        files = frozenset(name for name, mark in marks.items() if mark != digests[name])
        for name in digests.keys() - fresh.keys():
            if self.marks.get(name) != marks[name] or (name in self.files) != (name in files):
                return None
        contents = {name: _utf8(fresh[name]) if name in fresh else self.contents[name] for name in sorted(digests)}
        state = State(contents, files)
        vars(state)["marks"] = marks  # nothing is digested twice
        return state

    def is_empty(self, name: str) -> bool:
        content = self.contents[name]
        return content[:1] in b"\0" and not content.strip(b"\0")

    def documents(self, names: Collection[str] | None = None) -> dict[str, str]:
        return dict(self._decoded(names))

    def used_up(self) -> dict[str, str]:
        """The documents; each content is dropped once it is decoded, since the text may take four times as much."""
        out = dict[str, str]()
        for name, text in self._decoded():
            out[name] = text
            if name not in self.files:
                del self.contents[name]
        return out

    def require_texts(self) -> None:
        for _, pieces in self.texts():
            for piece, _ in pieces:
                for _ in _texts(piece):
                    pass

    def _decoded(self, names: Collection[str] | None = None) -> Iterator[tuple[str, str]]:
        for name, pieces in self.texts():
            if names is None or name in names:
                yield name, "".join(text for piece, _ in pieces for text in _texts(piece))


def _texts(piece: bytes) -> Iterator[str]:
    start = 0
    while start < len(piece):
        end = start + _DECODED
        while end < len(piece) and piece[end] & 0xC0 == 0x80 and end - start < _DECODED + 4:
            end += 1
        try:
            yield str(piece[start:end], "utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise ValueError(f"a text is not UTF-8: {error.reason}") from error
        start = end


def _utf8(content: str | bytes) -> bytes:
    """A content as plain bytes, also of a file with holes, which has a subclass of them."""
    return b"".join(utf8_pieces(content)) if isinstance(content, str) else bytes(content)


class _Rope:
    """A large content in parts: joining it would be in vain if the next pack changes it again."""

    def __init__(self, parts: Sequence[bytes | memoryview]) -> None:
        self._parts, self._ends = parts, [*accumulate(map(len, parts))]

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def joined(self) -> bytes:
        return b"".join(self._parts)

    def cut(self, start: int, stop: int) -> Iterator[memoryview]:
        for part, end in zip(self._parts, self._ends, strict=True):
            first = end - len(part)
            if max(start, first) < min(stop, end):
                yield memoryview(part)[max(start, first) - first : stop - first]


def _cut(content: Any, start: int, stop: int) -> Iterator[bytes | memoryview]:
    return content.cut(start, stop) if isinstance(content, _Rope) else iter((memoryview(content)[start:stop],))


EMPTY = State({})


class Change(NamedTuple):
    """A change from one state to another, without a copy of their contents."""

    line: bytes  # the first line: contents removed, moved and put, with the LF
    before: State  # the state that it applies to
    after: State  # the state that it leads to
    fresh: Sequence[tuple[str, int, int]]  # the ranges that follow the line: name of the content, start and end
    # Ranges of the run of the state before, which it is compressed against; None for all of it
    against: Sequence[tuple[int, int]] | None
    built: int  # bytes of the contents that it assembles

    def __len__(self) -> int:
        return len(self.line) + sum(end - start for _, start, end in self.fresh)

    def pieces(self) -> Iterator[bytes | memoryview]:
        yield self.line
        for name, start, end in self.fresh:
            yield memoryview(self.after.contents[name])[start:end]


def change(before: State, after: State) -> Change:
    lost = [name for name in before.contents if name not in after.contents]
    # A moved content is found by its digest, and remains a text or a file as it was.
    known = {(before.marks[name], name in before.files): name for name in reversed(lost)}
    moves, put = dict[str, str](), list[str]()
    for name in after.contents:
        kind = name in after.files
        if name in before.contents:
            source = None
            if (before.marks[name], name in before.files) == (after.marks[name], kind):
                continue
        else:
            source = known.pop((after.marks[name], kind), None) if known else None
        if source is not None:
            moves[source] = name
        else:
            put.append(name)
    drop, sizes = [name for name in lost if name not in moves], dict[str, int | list[object]]()
    fresh, parts = list[tuple[str, int, int]](), list[tuple[int, int]]()
    for name in put:
        old, new = before.contents.get(name, b""), after.contents[name]
        if min(len(old), len(new)) < _LARGE:
            sizes[name] = len(new)
            fresh.append((name, 0, len(new)))
            if old:
                parts.append(before.place(name))
            continue
        matches, (first, _) = match(old, new), before.place(name)
        runs = gaps(matches, len(new))
        fresh += [(name, start, end) for start, end in runs]
        takes: list[tuple[int, object]] = [(part.new, [first + part.old, part.size]) for part in matches]
        takes += [(start, end - start) for start, end in runs]
        sizes[name] = [value for _, value in sorted(takes, key=lambda pair: pair[0])]
        parts += [(first + start, first + end) for start, end in _around(matches, runs, len(old))]
    files = [name for name in put if name in after.files]
    line = {"drop": drop, "move": moves, "put": sizes}
    against = None if len(before) <= WHOLE else _against(before, parts, [*put, *drop] if fresh else [])
    text = canonical(line | {_OPTIONAL: files} if files else line) + b"\n"
    return Change(text, before, after, fresh, against, sum(len(after.contents[name]) for name in put))


def _around(matches: Sequence[Match], runs: Iterable[tuple[int, int]], size: int) -> Iterator[tuple[int, int]]:
    """Ranges of the old content around the places at which the new one has runs of its own."""
    ends = {part.new + part.size: part.old + part.size for part in matches}
    starts = {part.new: part.old for part in matches}
    for start, end in runs:
        first = ends.get(start, 0)
        last = starts.get(end, size)
        most = 2 * (end - start) + _MARGIN
        if first <= last <= first + 2 * most:
            yield max(0, first - _MARGIN), min(size, last + _MARGIN)
        else:
            yield max(0, first - _MARGIN), min(size, first + most)
            yield max(0, last - most), min(size, last + _MARGIN)


def _against(before: State, parts: Sequence[tuple[int, int]], names: Iterable[str]) -> list[tuple[int, int]]:
    """Ranges of the run, in order: ``parts``, and as many contents close to ``names`` as there is room for."""
    out, room = list[tuple[int, int]](), MOST_PREFIX
    for start, end in parts:
        out.append((start, min(end, start + room)))
        room -= out[-1][1] - start
    room, taken = min(room, WHOLE), set[int]()
    ends, indexes = [0, *before.ends], [bisect_left(before.ordered, name) for name in names]
    for step in range(len(ends)):
        room_before = room
        for at in (index + shift for index in indexes for shift in (-step, step)):
            if 0 <= at < len(ends) - 1 and at not in taken and ends[at + 1] - ends[at] <= min(room, _LARGE):
                taken.add(at)
                out.append((ends[at], ends[at + 1]))
                room -= ends[at + 1] - ends[at]
        if room == room_before and step > _FAR:
            break
    merged = list[tuple[int, int]]()
    for start, end in sorted(out):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        elif start < end:
            merged.append((start, end))
    return merged


def apply(before: State, content: bytes | bytearray, *, max_bytes: int) -> tuple[State, int, int]:
    """The state that a change leads to, perhaps in parts; bytes of its line, and of the contents assembled."""
    end = content.find(b"\n")
    if end < 0:
        raise ValueError("its first line does not end")
    if end > most_line(max_bytes):
        raise TooLarge(f"its first line has {end} bytes, more than this client takes")
    line = content[:end]
    # Python makes an object for each comma, colon and bracket, however short in the file.
    if sum(map(line.count, (b",", b":", b"[", b"{"))) > 4 * most_documents(max_bytes):
        raise TooLarge("its first line names more documents than this client takes")
    drop, move, put, files = _read_line(line)
    removed = {*drop, *move}
    if len(removed) != len(drop) + len(move) or not removed <= before.contents.keys():
        raise ValueError("it takes away what is not there, or something twice")
    sources = {target: source for source, target in move.items()}
    if len(sources) != len(move) or not sources.keys().isdisjoint(put):
        raise ValueError("it gives a document twice")
    taken = [take for takes in put.values() for take in takes if type(take) is not int]
    if any(at < 0 or size < 1 or at + size > len(before) for at, size in taken):
        raise ValueError("it takes what is not in the state before it")
    data = memoryview(content)[end + 1 :]
    expected = sum(take for takes in put.values() for take in takes if type(take) is int)
    if expected != len(data):
        more = "less" if len(data) < expected else "more"
        raise ValueError(f"it holds {more} text than its first line says")
    rest = [name for name in before.contents if name not in removed and name not in sources and name not in put]
    names = sorted([*rest, *sources, *put])  # the order of their bytes is that of their code points
    if len(names) > most_documents(max_bytes):
        raise TooLarge(f"it leads to {len(names)} documents, more than this client takes")
    size = sum(len(_name(name)) + 1 for name in names) + expected + sum(size for _, size in taken)
    size += sum(len(before.contents[name]) for name in (*rest, *move))
    if size > max_bytes:
        raise TooLarge(f"it leads to {size} bytes, more than the {max_bytes} that this client takes")
    before = before.joined() if len(taken) > _MOST_PARTS else before
    contents, at = dict[str, Any](), 0
    for name in names:  # the data that follows the line is in this order too
        if name in put:
            pieces = list[bytes | memoryview]()
            for take in put[name]:
                if type(take) is int:
                    pieces.append(data[at : at + take])
                    at += take
                else:
                    pieces += before.cut(take[0], sum(take))
            rope = _Rope(pieces)
            contents[name] = rope if len(rope) > _WHOLE_CONTENT and len(pieces) <= _MOST_PARTS else rope.joined()
        else:
            contents[name] = before.contents[sources.get(name, name)]
    kept = {name for name in rest if name in before.files} | {new for old, new in move.items() if old in before.files}
    built = sum(len(contents[name]) for name in put)
    return State(contents, frozenset(kept | files)), end + 1, built


def _read_line(line: bytes | bytearray) -> tuple[list[str], dict[str, str], dict[str, list[Any]], set[str]]:
    """Parse a line. A content that is put is a list of byte counts of the data, and of places below with counts."""
    raw = load_object(line.decode("utf-8", "surrogatepass"))
    if raw.keys() - {_OPTIONAL} != set(_KEYS):
        raise ValueError(f"its first line has {shown(sorted(raw))} and not {', '.join(_KEYS)}")
    drop, move, put = expect(raw, "drop", TEXTS), expect(raw, "move", _NAMES), expect(raw, "put", _TAKES)
    files = expect({_OPTIONAL: [], **raw}, _OPTIONAL, TEXTS)
    if not put.keys() >= {*files}:
        raise ValueError("bytes names what is not in put")
    return drop, move, {name: takes if isinstance(takes, list) else [takes] for name, takes in put.items()}, {*files}


def _is_take(value: object) -> bool:
    if isinstance(value, list):
        return all(is_count(item) or (isinstance(item, list) and [*map(type, item)] == [int, int]) for item in value)
    return is_count(value)


def _values_are(test: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and all(map(test, value.values()))


_NAMES, _TAKES = (_values_are(is_text), "an object of names"), (_values_are(_is_take), "an object of counts and places")


def lead_of(against: Sequence[tuple[int, int]]) -> bytes:
    """The lead of a pack, which describes its prefix: bytes of the run to skip, bytes to take, and so on."""
    numbers, at = list[int](), 0
    for start, end in against:
        numbers += start - at, end - start
        at = end
    return " ".join(map(str, numbers)).encode("ascii")


def read_lead(lead: bytes, state: State) -> list[tuple[int, int]]:
    numbers = lead.split(b" ") if lead else []
    if len(lead) > _MOST_LEAD or len(numbers) % 2 or not all(number.isdigit() for number in numbers):
        raise ValueError("it does not say what its prefix is of")
    ends = list(accumulate(map(int, numbers)))
    if ends and ends[-1] > len(state):
        raise ValueError("its prefix is of more than the state below")
    return list(zip(ends[::2], ends[1::2], strict=True))
