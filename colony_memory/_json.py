"""Pure: JSON as snapshots use it, written canonically and read strictly.

Canonical form: keys sorted by code point, no white space, nothing escaped that need not be, UTF-8. UTF-8 has no
bytes for a lone surrogate (half of an emoji, from cut command output), so one is written as its JSON escape.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_COMPACT = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode
_SURROGATES = re.compile("[\ud800-\udfff]+")
# A JSON string as bytes. What is inside is checked by the JSON reader.
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_scan = json.JSONDecoder().raw_decode
_BLANK = re.compile(rb"[ \t\r\n]*")


def canonical(value: object) -> bytes:
    """A JSON value in canonical form.

    Raises:
        RecursionError: The value is nested too deeply.
    """
    return _utf8(_COMPACT(value))


def _utf8(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return _SURROGATES.sub(_escape, text).encode("utf-8", "surrogatepass")


def _escape(run: re.Match[str]) -> str:
    """Escape surrogates, but none that would join with an escape before it into one character.

    A high surrogate and a low one after it, as two code points of one text, stay two only if the low one is
    written as it is, in the three bytes that UTF-8 forbids and every JSON reader of the Python kind accepts.
    """
    out: list[str] = []
    high = False
    for char in run.group():
        low = char >= "\udc00"
        out.append(char if low and high else f"\\u{ord(char):04x}")
        high = not low
    return "".join(out)


def printable(name: str) -> str:
    """The text with each lone surrogate spelled as an escape, so that UTF-8 holds it."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


def encode_documents(documents: Mapping[str, str]) -> Iterator[bytes]:
    """The canonical JSON of ``{name: text}``, a document at a time, so that it never stands whole in memory."""
    lead = b"{"
    for name in sorted(documents):
        yield lead + _utf8(_COMPACT(name)) + b":"
        yield _utf8(_COMPACT(documents[name]))
        lead = b","
    yield b"}"


def decode_documents(plaintext: bytes) -> dict[str, str]:
    """Read a JSON object of texts, a document at a time.

    Raises:
        ValueError: It is anything else: not UTF-8, not an object, a value that is no string, a name twice.
    """
    documents: dict[str, str] = {}
    compact = True
    at = _expect(plaintext, b"{", 0)
    if plaintext[at : at + 1] == b"}":
        at = _expect(plaintext, b"}", at)
    else:
        while True:
            name, at, compact = _string(plaintext, at, b'":"' if compact else None)
            if name in documents:
                msg = f"document {name[:80]!r} is there twice"
                raise ValueError(msg)
            at = _expect(plaintext, b":", at)
            documents[name], at, compact = _string(plaintext, at, b'","' if compact else None)
            if plaintext[at : at + 1] == b"}":
                at = _expect(plaintext, b"}", at)
                break
            at = _expect(plaintext, b",", at)
    if at != len(plaintext):
        raise ValueError("there is more after the documents")
    return documents


def _expect(data: bytes, token: bytes, at: int) -> int:
    """Position after the token and the blanks on both sides of it."""
    start = _BLANK.match(data, at).end()  # type: ignore[union-attr]
    if data[start : start + 1] != token:
        msg = f"byte {start} should be {token.decode()!r}"
        raise ValueError(msg)
    return _BLANK.match(data, start + 1).end()  # type: ignore[union-attr]


def _string(data: bytes, at: int, close: bytes | None) -> tuple[str, int, bool]:
    """The string that begins here, the position after it and the blanks that follow, and whether ``close`` was there.

    In compact JSON a string ends where ``close`` is found first, since a quote inside is never bare, and finding it
    takes no time. If it is not found, or what stands before is no string, then this is not compact JSON or its last
    string: from there on it is read by the letter, since looking again and again would take time.
    """
    if close is not None:
        end = data.find(close, at) + 1
        if end > at + 1:
            try:
                return _read_string(data[at:end]), end, True
            except ValueError:
                pass  # it is looked at again, and refused if it is wrong
    match = _STRING.match(data, at)
    if match is None:
        msg = f"byte {at} should begin a string"
        raise ValueError(msg)
    return _read_string(match.group()), _BLANK.match(data, match.end()).end(), False  # type: ignore[union-attr]


def _read_string(quoted: bytes) -> str:
    text = quoted.decode("utf-8", "surrogatepass")
    if text[:1] != '"':
        raise ValueError("not a string")
    value: str
    value, end = _scan(text)
    if end != len(text):
        raise ValueError("a quote inside")
    return value


def load_object(text: str) -> dict[str, Any]:
    """Read a JSON object that came out of a vault.

    Raises:
        ValueError: It is not JSON, not an object, names a key twice, or is nested too deeply.
    """
    try:
        value = json.loads(text, object_pairs_hook=_no_duplicates)
    except RecursionError:
        msg = "nested too deeply"
        raise ValueError(msg) from None
    if not isinstance(value, dict):
        msg = f"a JSON object was expected, not a {type(value).__name__}"
        raise ValueError(msg)  # noqa: TRY004 - what was read is wrong, not what was passed
    return value


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        msg = "a key is there twice"
        raise ValueError(msg)
    return out
