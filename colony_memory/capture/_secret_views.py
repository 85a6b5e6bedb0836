"""The views of a text: as it is, and as a reader sees it, with its escapes undone.

The escapes of JSON, percent signs, terminals and HTML are undone as often as that changes something, and each view maps
its places to those in the one before.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections.abc import Container, Iterator
from functools import lru_cache, reduce

from colony_memory._values import cached_property
from colony_memory.capture._secret_kinds import Place, find
from colony_memory.capture._secret_rules import RULES

_SALT = RULES.encode("ascii")  # a part of each digest: other rules may find something else
_ROUNDS = 4  # the number of times that escapes are undone
_SIZE, _BEFORE, _BEHIND = 512 * 1024, 256, 32 * 1024  # bytes of a piece, and of its context before and after
_LEFT, _RIGHT = 64, 128  # bytes around an escape that are searched again
_GAP = b"\0"  # stands for the text left out between two of these
_LONGEST = 8192  # bytes up to which a word is followed
# Text of Windows has a zero before or after each letter; so many in a row are read as such text.
_WIDE = re.compile(rb"\0(?:[ -~]\0){11}")

# A backslash may be escaped itself, once for each level of JSON within JSON; so may a percent sign.
_ESCAPES = [
    (sign, re.compile(re.escape(sign) + pattern))
    for sign, pattern in (
        (
            b"\\",
            rb"\\{0,1023}(?:[abefnrtv!-/:-@\[-`{-~]|u00[0-9A-Fa-f]{2}|u200[b-f]|ufeff|x[0-9A-Fa-f]{2}|0[0-7]{2}|\r?\n)",
        ),
        (b"%", rb"(?:25){0,8}[0-9A-Fa-f]{2}"),
        (b"\x1b", rb"(?:\[[0-9;:?]{0,32}[A-Za-z])?"),
        (b"&", rb"(?:#[0-9]{2,3}|#[xX][0-9A-Fa-f]{2}|amp|quot|apos|lt|gt);"),
        # Invisible characters: joiners, spaces of no width, soft hyphens.
        (b"\xe2\x80", rb"[\x8b-\x8f\xaa-\xae]"),
        (b"\xe2\x81\xa0", b""),
        (b"\xef\xbb\xbf", b""),
        (b"\xc2\xad", b""),
    )
]
# The same, without the escapes that separate words.
_IN_WORDS = [
    (
        b"\\",
        re.compile(rb"\\(?:[abefv!#-/:-@\[\]-`{-~]|u00[0-9A-Fa-f]{2}|u200[b-f]|ufeff|x[0-9A-Fa-f]{2}|0[0-7]{2}|\r?\n)"),
    ),
    _ESCAPES[1],
    (b"\x1b", re.compile(rb"\x1b(?:\[|(?<=[A-Za-z0-9_.+/=~:@-].)(?=[A-Za-z0-9_.+/=~:@-]))")),
    *_ESCAPES[3:],
]
_IN_ASCII = 4  # the number of ASCII signs, which come first
_LETTERS = {"a": b"\a", "b": b"\b", "e": b"\x1b", "f": b"\f", "n": b"\n", "r": b"\r", "t": b"\t", "v": b"\v"}
_NAMES = {"amp": b"&", "quot": b'"', "apos": b"'", "lt": b"<", "gt": b">"}
_OF_JSON = (b"\\n", b'\\"', b"\\t", b"\\r")
_COLOUR = re.compile(rb"(?:\x1b|\\{1,16}u001b)\[[0-9;]{0,32}m")
_OF_WORD = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.+/=-"
_WORD = re.compile(rb"[A-Za-z0-9_.+/=-]{0,%d}" % _LONGEST)


class _View:
    """A text with escapes undone: the one before it, with a replacement for each cut."""

    def __init__(self, text: bytes, cuts: list[tuple[int, int, bytes]]) -> None:
        pieces, done = list[bytes](), 0
        for start, end, undone in cuts:
            pieces += (text[done:start], undone)
            done = end
        self.text = b"".join([*pieces, text[done:]])
        self._cuts = cuts

    @cached_property
    def _positions(self) -> list[int]:
        positions, shift = list[int](), 0
        for start, end, undone in self._cuts:
            positions.append(start + shift)
            shift += len(undone) - (end - start)
        return positions

    def source(self, start: int, end: int) -> tuple[int, int]:
        return self._source_of(start)[0], self._source_of(end - 1)[1]

    def _source_of(self, place: int) -> tuple[int, int]:
        at = bisect_right(self._positions, place) - 1
        if at < 0:
            return place, place + 1
        start, end, undone = self._cuts[at]
        if place < self._positions[at] + len(undone):
            return start, end
        where = end + place - self._positions[at] - len(undone)
        return where, where + 1


def places(text: bytes, known: Container[str] = (), clean: list[str] | None = None) -> Iterator[Place]:
    """Yield likely secrets in a text, as it is or with its escapes undone; one may come twice."""
    # Pieces of large texts with `known` digests are not searched; digests of pieces without a finding go to `clean`.
    for start in range(0, max(1, len(text) - _BEHIND), _SIZE):
        first = max(0, start - _BEFORE)
        last = start + _SIZE + _BEHIND
        until = start + _SIZE if last < len(text) else len(text)
        part, digest = memoryview(text)[first:last], ""
        if clean is not None and len(part) < len(text):
            hasher = hashlib.sha256(_SALT)
            hasher.update(part)
            digest = hasher.hexdigest()[:32]
        found = () if digest and digest in known else tuple(_of_part(bytes(part)))
        if digest and not found and clean is not None:
            clean.append(digest)
        for place in found:
            if start <= first + place.start < until:
                yield place.shifted(first)
        if until == len(text):
            break


def _of_part(text: bytes) -> Iterator[Place]:
    yield from _in_views(text)
    if _WIDE.search(text):
        for odd in (0, 1):
            for place in _in_views(text[odd::2]):
                yield place.shifted(odd, times=2)._replace(is_wide=True)


def _in_views(text: bytes) -> Iterator[Place]:
    # A terminal's output is full of colours: each is shortened to one character, as it only separates words.
    colours = [match.span() for match in _COLOUR.finditer(text)] if b"\x1b[" in text or b"u001b[" in text else []
    if not colours:
        yield from _in_escapes(text)
        return
    # A colour after an escape of JSON always ends a word; after others, a word that goes on shows with escapes undone.
    cuts = [(at, end, b" " if text[at - 2 : at] in _OF_JSON else b"\x1b") for at, end in colours]
    view = _View(text, cuts)
    yield from (place.in_source(view.source) for place in _in_escapes(view.text))


def _in_escapes(text: bytes) -> Iterator[Place]:
    near: list[tuple[int, int]] = []
    yield from find(text, near)
    windows = _windows(text, near)
    if not windows:
        return
    ends, begins = [0, *(last for _, last in windows)], [*(first for first, _ in windows), len(text)]
    views = [_View(text, [(end, begin, _GAP) for end, begin in zip(ends, begins, strict=True)])]
    while len(views) < 2 + _ROUNDS:
        view = _undone(views[-1].text)
        if view is None:
            break
        views.append(view)
        for found in find(view.text):
            yield reduce(lambda place, view: place.in_source(view.source), reversed(views), found)


def _windows(text: bytes, near: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The windows in which escapes may hide something: around those inside words, and any near a literal."""
    windows = [(max(0, first), last) for first, last in near if text.find(b"\\", max(0, first), last) >= 0]
    for sign, pattern in _IN_WORDS[: _IN_ASCII if text.isascii() else None]:
        if sign[:1] in text:
            windows += [(max(0, match.start() - _LEFT), match.end() + _RIGHT) for match in pattern.finditer(text)]
    merged: list[tuple[int, int]] = []
    for begin, end in sorted(windows):
        if merged and end <= merged[-1][1]:
            continue
        first, last = _begin_of_word(text, begin), _end_of_word(text, end)
        if merged and first <= merged[-1][1]:
            first = merged.pop()[0]
        merged.append((first, last))
    return merged


def _undone(text: bytes) -> _View | None:
    signs = _ESCAPES[:_IN_ASCII] if text.isascii() else _ESCAPES
    escapes = [match for sign, pattern in signs if sign in text for match in pattern.finditer(text)]
    if not escapes:
        return None
    escapes.sort(key=re.Match.start)
    cuts, done, far = list[tuple[int, int, bytes]](), 0, _LEFT + _RIGHT
    for escape in escapes:
        start, end = escape.span()
        if start < done:
            continue
        if start - done > far:
            behind = _end_of_word(text, done + _RIGHT) if cuts else 0
            begin = _begin_of_word(text, start - _LEFT)
            if behind < begin:
                cuts.append((behind, begin, _GAP))
        cuts.append((start, end, _character_of(escape[0])))
        done = end
    cuts.append((_end_of_word(text, done + _RIGHT), len(text), _GAP))
    return _View(text, cuts)


@lru_cache(maxsize=1024)
def _character_of(escape: bytes) -> bytes:
    """The character of an escape; an invisible one becomes ESC first, to separate words in one of the views."""
    text = escape.decode("latin-1")
    sign, rest = text[0], text.lstrip("\\")
    if sign == "\\" and rest:
        if rest.startswith(("u2", "uf")):
            return b"\x1b"
        if rest[0] in "ux" or rest[0].isdigit():
            return bytes([int(rest[1:] if rest[0] in "ux" else rest, 8 if rest[0].isdigit() else 16)])
        return b"" if rest[-1] == "\n" else _LETTERS.get(rest, rest.encode("latin-1"))
    if sign == "%":
        return bytes([int(text[-2:], 16)])
    if sign == "&":
        name = text[1:-1].lower()
        if not name.startswith("#"):
            return _NAMES[name]
        return bytes([min(255, int(f"0{name[1:]}", 16) if name[1] == "x" else int(name[1:]))])
    return b"\\" if sign == "\\" else b"" if text == "\x1b" else b"\x1b"


def _end_of_word(text: bytes, place: int) -> int:
    match = _WORD.match(text, min(place, len(text)))
    return match.end() if match else len(text)


def _begin_of_word(text: bytes, place: int) -> int:
    before = text[max(place - _LONGEST, 0) : place]
    return place - len(before) + len(before.rstrip(_OF_WORD))
