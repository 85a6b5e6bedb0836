"""Pure: JSON as snapshots use it, read strictly and written canonically: SNAPSHOT-FORMAT.md, section 3."""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice, starmap
from sys import getsizeof
from typing import Any, NoReturn

from colony_memory._values import pattern

_COMPACT = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode
_SURROGATES = pattern("[\ud800-\udfff]+")
_LONE = pattern(rb"\xed[\xa0-\xbf]")
# Control characters that are written as \u00.., or as \b and \f.
_RARE = bytes(range(9)) + b"\x0b\x0c" + bytes(range(14, 32))
# Ends where it cuts neither an escape, the longest of which is a pair of surrogates, nor a character of UTF-8.
_SAFE = pattern(rb"[^\\]{12}(?![\\\x80-\xbf])", re.DOTALL)
_SHORT = reprlib.Repr()
_SHORT.maxstring = 70
_BLANK = pattern(r"[ \t\r\n]*")
_scan = json.JSONDecoder().raw_decode
#: Most levels of objects and lists in a vault file.
MAX_DEPTH = 64
# Python's default limit: the time grows by the square of the digits.
_MAX_DIGITS = 4300
# Most objects and lists in a file, since each takes up to a hundred times its characters; short files are not counted.
_MOST_NODES, _FEW_CHARS = 400_000, 2**20
# Characters or bytes that are worked on at once: blocks of this size are reused, larger ones come from the system.
_WINDOW = 2**15


def canonical(value: object) -> bytes:
    return _utf8(_COMPACT(value))


def _utf8(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return _SURROGATES.sub(_escape, text).encode("utf-8", "surrogatepass")


def utf8_pieces(text: str) -> Iterator[bytes]:
    """A text in UTF-8, each surrogate in three bytes, in pieces: for all in one Python takes four bytes a character."""
    for start in range(0, len(text), _WINDOW):
        yield text[start : start + _WINDOW].encode("utf-8", "surrogatepass")


def _escape(run: re.Match[str]) -> str:
    """Escape surrogates, except one that would form a character with the escape before it."""
    out: list[str] = []
    high = False
    for char in run.group():
        low = char >= "\udc00"
        out.append(char if low and high else f"\\u{ord(char):04x}")
        high = not low
    return "".join(out)


def printable(name: str) -> str:
    """The text with each lone surrogate written as an escape, so that UTF-8 can hold it."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


def shown(value: object) -> str:
    """The repr of a value, shortened, for a message about the content of a vault."""
    try:
        return _SHORT.repr(value)
    except ValueError:  # Python refuses to spell a number of more than 4,300 digits
        return f"a value of type {type(value).__name__}"


def exact_documents(documents: object) -> dict[str, str]:
    """The documents as plain dict and strings, not subclasses, so that the text that is checked is the one saved."""
    # By type(), since a mock of a dict or of a text passes isinstance().
    if isinstance(documents, Mapping) and not issubclass(type(documents), dict):
        kind = type(documents).__name__
        raise ValueError(f"documents must be a dict {{name: text}}, not a {kind}: give dict(documents)")  # noqa: TRY004
    exact: dict[str, str] = {}
    for name, text in list(documents.items()) if isinstance(documents, dict) else ():  # at once: a thread may change it
        if not issubclass(type(name), str):
            raise ValueError(f"document names must be strings, {name!r} is a {type(name).__name__}")  # noqa: TRY004
        if not issubclass(type(text), str):
            raise ValueError(f"document {name!r} must be a string, not {type(text).__name__}")  # noqa: TRY004
        plain = str.__str__(name)
        if plain in exact:
            raise ValueError(f"document {plain!r} is there twice")
        exact[plain] = str.__str__(text)
    if not exact:
        raise ValueError("documents must be a non-empty {name: text} mapping; there is nothing to back up")
    return exact


def encode_documents(documents: Mapping[str, str]) -> Iterator[bytes]:
    """The canonical JSON of ``{name: text}``, in pieces, so that it is never held whole in memory."""
    return _encoded((name, _escaped_pieces(documents[name])) for name in sorted(documents))


def encode_texts(texts: Iterable[tuple[str, Iterable[tuple[bytes, bool]]]]) -> Iterator[bytes]:
    """The same of documents in order, from pieces of UTF-8 cut between characters, each with True if it is plain."""
    return _encoded((name, chain.from_iterable(starmap(_escaped_texts, pieces))) for name, pieces in texts)


def _encoded(texts: Iterable[tuple[str, Iterable[bytes]]]) -> Iterator[bytes]:
    lead = b"{"
    for name, escaped in texts:
        yield lead + _utf8(_COMPACT(name)) + b':"'
        yield from escaped
        lead = b'",'
    yield b"{}" if lead == b"{" else b'"}'


def _escaped_texts(text: bytes, is_plain: bool) -> Iterable[bytes]:
    if is_plain:
        return (text,)
    if b"\xed" in text and _LONE.search(text) is not None:
        return _escaped_pieces(str(text, "utf-8", "surrogatepass"))
    # Every character that is escaped has one byte, so that it makes no difference where the text is cut.
    return (_escaped_bytes(text[start : start + _WINDOW]) for start in range(0, len(text), _WINDOW))


def _escaped_pieces(text: str) -> Iterator[bytes]:
    start, size = 0, len(text)
    while start < size:
        stop = start + _WINDOW
        # A run of surrogates is escaped as a whole.
        while stop < size and "\ud800" <= text[stop - 1] <= "\udfff":
            stop += 1
        yield _escaped(text[start:stop])
        start = stop


def _escaped(text: str) -> bytes:
    try:
        return _escaped_bytes(text.encode("utf-8"))
    except UnicodeEncodeError:
        return _utf8(_COMPACT(text))[1:-1]


def _escaped_bytes(data: bytes) -> bytes:
    """The same for UTF-8, cut anywhere. Replacing in bytes takes half the time of the JSON writer."""
    if len(data.translate(None, _RARE)) != len(data):
        return _COMPACT(data.decode("latin-1"))[1:-1].encode("latin-1")
    data = data.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
    return data.replace(b"\n", b"\\n").replace(b"\t", b"\\t").replace(b"\r", b"\\r")


def decode_documents(plaintext: bytes | bytearray, *, at_most: int | None = None) -> dict[str, str]:
    """Read a JSON object of texts. A bytearray is consumed on the way, to free its memory."""
    documents: dict[str, str] = {}
    reader = _Reader(plaintext if isinstance(plaintext, bytearray) else bytearray(plaintext))
    reader.take("{")
    if reader.next() != "}":
        while True:
            name = reader.string()
            if name in documents:
                raise ValueError(f"document {name[:80]!r} is there twice")
            if len(documents) == at_most:
                raise ValueError(f"there are more than the {at_most} documents that the manifest lists")
            reader.take(":")
            documents[name] = reader.string()
            if reader.next() == "}":
                break
            reader.take(",")
    reader.take("}")
    if reader.next():
        raise ValueError("there is more after the documents")
    return documents


def _narrow(text: str) -> str | bytes:
    """The text, in bytes if one wide character would make all of it take four times as much."""
    return text if text.isascii() else text.encode("utf-8", "surrogatepass")


class _Reader:
    """Reads JSON in windows between added quotes: a string that ends only at the last one continues in the next."""

    def __init__(self, data: bytearray) -> None:
        self._data = data
        self._window, self._at = '""', 1

    def next(self) -> str:
        while True:
            self._at = _BLANK.match(self._window, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._window) - 1:
                return self._window[self._at]
            if not self._load():
                return ""

    def take(self, token: str) -> None:
        if self.next() != token:
            raise ValueError(f"{token!r} is missing")
        self._at += 1

    def string(self) -> str:
        if self.next() != '"':
            raise ValueError("a string is missing")
        text, end = _scan(self._window, self._at)
        if end < len(self._window):
            self._at = end
            return str(text)
        pieces = [_narrow(text)]
        while end == len(self._window):
            if not self._load():
                raise ValueError("a string does not end")
            text, end = _scan(self._window, 0)
            pieces.append(_narrow(text))
        self._at = end
        pieces.reverse()
        texts = list[str]()
        while pieces:
            piece = pieces.pop()
            texts.append(piece if isinstance(piece, str) else str(piece, "utf-8", "surrogatepass"))
        return "".join(texts)

    def _load(self) -> bool:
        if not self._data:
            return False
        safe = _SAFE.search(self._data, _WINDOW)
        end = safe.end() if safe else len(self._data)
        self._window, self._at = f'"{self._data[:end].decode("utf-8", "surrogatepass")}"', 1
        del self._data[:end]
        return True


def weight(text: str) -> int:
    """Estimate of the bytes that a JSON text and its value take together, before it is read."""
    return getsizeof(text) + 100 * sum(map(text.count, ",:[{"))


def peak_weight(text: str) -> int:
    """The same during reading, when there are several copies of the text."""
    return weight(text) + 4 * getsizeof(text)


def load_object(text: str) -> dict[str, Any]:
    """Read a JSON object from a vault; the value takes at most 40 times the memory of the text."""
    if len(text) > _FEW_CHARS and text.count("{") + text.count("[") > _MOST_NODES:
        raise ValueError("it holds too much")
    try:
        value = json.loads(text, object_pairs_hook=_no_duplicates, parse_int=_integer, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError(f"a JSON object was expected, not a {type(value).__name__}")  # noqa: TRY004 - was read, not passed
    # A limit of its own, since Python's depends on its version and on the depth of the caller.
    if next(islice(_levels(value), MAX_DEPTH, None), None):
        raise ValueError("nested too deeply")
    return value


def holds_fraction(value: dict[str, Any]) -> bool:
    """True if some number is not an integer: other languages write its canonical form differently."""
    return any(isinstance(child, float) for level in _levels(value) for node in level for child in _children(node))


def _levels(value: dict[str, Any]) -> Iterator[list[Any]]:
    level: list[Any] = [value]
    while level:
        yield level
        level = [child for node in level for child in _children(node) if isinstance(child, (dict, list))]


def _children(node: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return node.values() if isinstance(node, dict) else node


def _integer(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"a number has more than {_MAX_DIGITS} digits")
    return int(digits)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError("a key is there twice")
    return out
