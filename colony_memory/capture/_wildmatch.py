"""Pure: the patterns of gitignore, as git's own wildmatch.c reads them, byte by byte.

A pattern becomes an automaton whose states are the bits of an integer, so that the time a match takes grows with the
length of the name and of the pattern, and not with their powers: a pattern may be a stranger's.
"""

from __future__ import annotations

import string
from typing import TYPE_CHECKING

from colony_memory._values import dataclass, field
from colony_memory._values import pattern as compiled

if TYPE_CHECKING:
    from collections.abc import Iterator

_SPECIAL = b"*?[\\"
_STATES_A_STEP = 1024
_SLASH = frozenset(b"/")
_ANY = frozenset(range(256))
_NO_SLASH = _ANY - _SLASH
_PRINTED = frozenset(range(0x20, 0x7F))
_WORD = frozenset((string.ascii_letters + string.digits).encode())
_ITEM = compiled(rb"(?s)\[:(?P<name>[^\]]*):\]|\\.|.")  # of a bracket
_UPTO = compiled(rb"(?s)(?!\]|\\\Z)\\?(.)")  # the end of a range
_CLASSES = {
    b"alnum": _WORD,
    b"alpha": frozenset(string.ascii_letters.encode()),
    b"blank": frozenset(b" \t"),
    b"cntrl": frozenset([*range(0x20), 0x7F]),
    b"digit": frozenset(string.digits.encode()),
    b"graph": _PRINTED - frozenset(b" "),
    b"lower": frozenset(string.ascii_lowercase.encode()),
    b"print": _PRINTED,
    b"punct": _PRINTED - frozenset(b" ") - _WORD,
    b"space": frozenset(b" \t\n\r"),
    b"upper": frozenset(string.ascii_uppercase.encode()),
    b"xdigit": frozenset(string.hexdigits.encode()),
}


@dataclass(frozen=True)
class _Token:
    """A step of the pattern."""

    takes: frozenset[int]  # the bytes that it takes
    repeats: bool = False  # it takes any number of them
    skips: bool = False  # it and the next two steps may be passed over, before they have taken anything


@dataclass(frozen=True)
class Wildcard:
    """A pattern that was read."""

    prefix: bytes  # of each name
    suffix: bytes | None  # its end, where there is nothing but a `*` between; else None
    tokens: tuple[_Token, ...]  # what comes after `prefix`
    _steps: dict[int, tuple[int, int]] = field(default_factory=dict, compare=False)

    def matches(self, name: bytes) -> bool:
        if not name.startswith(self.prefix):
            return False
        rest = name[len(self.prefix) :]
        if not self.tokens:
            return not rest
        if self.suffix is not None:
            return rest.endswith(self.suffix) and b"/" not in rest[: len(rest) - len(self.suffix)]
        repeats = sum(1 << number for number, token in enumerate(self.tokens) if token.repeats)
        skips = sum(1 << number for number, token in enumerate(self.tokens) if token.skips)
        states = _reach(1, repeats, skips)
        for byte in rest:
            if byte not in self._steps:  # the states that go on with it, and those that stay
                takes = [
                    (1 << number, token.repeats) for number, token in enumerate(self.tokens) if byte in token.takes
                ]
                moves = sum(bit for bit, repeated in takes if not repeated)
                self._steps[byte] = moves, sum(bit for bit, repeated in takes if repeated)
            moves, stays = self._steps[byte]
            states = _reach((states & moves) << 1 | states & stays, repeats, skips)
            if not states:
                return False
        return bool(states >> len(self.tokens) & 1)

    def steps(self, name: bytes) -> int:
        """The most that this costs, in steps of less than a microsecond."""
        if not self.tokens or self.suffix is not None or not name.startswith(self.prefix):
            return 1
        return 1 + (len(name) - len(self.prefix)) * (1 + len(self.tokens) // _STATES_A_STEP)


def _reach(states: int, repeats: int, skips: int) -> int:
    """These states, and those that nothing has to be taken for."""
    while True:
        more = states | (states & repeats) << 1 | (states & skips) << 3
        if more == states:
            return states
        states = more


def read_pattern(pattern: bytes) -> Wildcard:
    """Read a pattern, without what stands for its kind at its ends (``!`` and slashes).

    ValueError where it can match nothing, so that something else was meant.
    """
    plain = next((place for place, byte in enumerate(pattern) if byte in _SPECIAL), len(pattern))
    prefix, rest = pattern[:plain], pattern[plain:]
    tokens = tuple(_tokens(rest))
    only_star = rest.startswith(b"*") and not any(byte in _SPECIAL for byte in rest[1:]) and b"/" not in rest
    return Wildcard(prefix, rest[1:] if only_star else None, tokens)


def _tokens(pattern: bytes) -> Iterator[_Token]:
    place = 0
    in_any_directory = False  # the step before was the same '**/'
    while place < len(pattern):
        byte, start = pattern[place : place + 1], place
        if byte == b"*":
            place = len(pattern) - len(pattern[start:].lstrip(b"*"))
            before, after = pattern[start - 1 : start], pattern[place : place + 2]
            # More than one, alone between slashes. The start counts as a slash, also after plain characters.
            any_path = place - start > 1 and before in (b"", b"/") and (after[:1] in (b"", b"/") or after == b"\\/")
            if any_path and after[:1] == b"/":
                place += 1
                if not in_any_directory:
                    yield _Token(frozenset(), repeats=True, skips=True)
                    yield _Token(_ANY, repeats=True)
                    yield _Token(_SLASH)
                in_any_directory = True
                continue
            yield _Token(_ANY if any_path else _NO_SLASH, repeats=True)
        elif byte == b"[":
            takes, place = _bracket(pattern, place + 1)
            yield _Token(takes)
        elif byte == b"?":
            yield _Token(_NO_SLASH)
            place += 1
        else:
            place += byte == b"\\"
            if place == len(pattern):
                raise ValueError("a backslash at the end")
            yield _Token(frozenset(pattern[place : place + 1]))
            place += 1
        in_any_directory = False


def _bracket(pattern: bytes, place: int) -> tuple[frozenset[int], int]:
    """The bytes that a bracket stands for, and the place after it."""
    negated = pattern[place : place + 1] in (b"!", b"^")
    start = place = place + negated
    taken: set[int] = set()
    before: int | None = None  # what a range may begin with
    while (item := _ITEM.match(pattern, place)) and (item[0] != b"]" or place == start):
        place = item.end()
        upto = _UPTO.match(pattern, place) if item[0] == b"-" and before is not None else None
        if item["name"] is not None:
            if item["name"] not in _CLASSES:
                raise ValueError(f"an unknown class {item['name'].decode('ascii', 'replace')!r}")
            taken |= _CLASSES[item["name"]]
        elif upto is not None and before is not None:
            place = upto.end()
            if upto[1][0] < before:
                raise ValueError("a range that ends before it begins")
            taken.update(range(before, upto[1][0] + 1))
        else:
            taken.add(item[0][-1])
        before = None if item["name"] is not None or upto is not None else item[0][-1]
    if item is None:
        raise ValueError("a bracket that is not closed")
    takes = _ANY - taken if negated else frozenset(taken)
    return takes - _SLASH, item.end()
