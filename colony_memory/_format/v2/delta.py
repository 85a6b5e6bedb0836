"""Pure: the parts that a content shares with an older one, found at the speed of comparing and searching bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

from colony_memory._values import NamedTuple

# Bytes that are compared at a time; blocks that differ are compared by pages.
_BLOCK, _PAGE = 2**16, 2**12
# Fewest and most bytes of a piece, which ends by its content.
_LEAST, _MOST = 2**11, 2**16
# Pieces are searched if more than this many bytes have no counterpart, and more than this fraction (1 in 64) of all.
_WORTH, _SHARE = 2**16, 64
# A piece ends after bytes of these kinds, in this order. Half of all byte values are of each kind, by a hash, so that
# no text has an order in it: an end comes once in 4,096 bytes on average, wherever the text has moved to.
_KINDS = bytes(hashlib.sha256(b"%d" % value).digest()[0] & 1 for value in range(256))
_END = bytes((1, 0, 0, 1, 1, 0, 1, 0, 1, 1, 0, 0))


class Match(NamedTuple):
    """Bytes that both contents share: their offsets in the new one and the old one, and their number."""

    new: int
    old: int
    size: int


def match(old: bytes, new: bytes) -> list[Match]:
    """The parts of the old content in the new one, in order: those in place and, if much is unmatched, those moved."""
    matches = list(_in_place(old, new, [(0, len(new))], 0))
    if len(old) != len(new):
        matches += _in_place(old, new, gaps(matches, len(new)), len(old) - len(new))
        matches.sort()
    unmatched = gaps(matches, len(new))
    if sum(end - start for start, end in unmatched) > max(_WORTH, len(new) // _SHARE):
        matches += _relocated(old, new, unmatched)
    return _joined(sorted(matches))


def gaps(matches: Iterable[Match], size: int) -> list[tuple[int, int]]:
    """Start and end of each run without a counterpart, in a new content of this size."""
    out, at = list[tuple[int, int]](), 0
    for part in matches:
        if part.new > at:
            out.append((at, part.new))
        at = part.new + part.size
    return [*out, (at, size)] if at < size else out


def _in_place(old: bytes, new: bytes, ranges: Iterable[tuple[int, int]], shift: int) -> Iterator[Match]:
    """The equal parts of some ranges of the new content and the old content ``shift`` bytes further on."""
    for start, end in ranges:
        at, last = max(start, -shift), min(end, len(old) - shift)
        while at < last:
            stop = min(at + _BLOCK, last)
            size = _BLOCK if new[at:stop] == old[at + shift : stop + shift] else _PAGE
            for offset in range(at, stop, size):
                to = min(offset + size, stop)
                if size == _BLOCK or new[offset:to] == old[offset + shift : to + shift]:
                    yield Match(offset, offset + shift, to - offset)
            at = stop


def _relocated(old: bytes, new: bytes, ranges: Iterable[tuple[int, int]]) -> Iterator[Match]:
    known = {hashlib.sha256(old[start:end]).digest(): start for start, end in pieces(old, 0, len(old))}
    for begin, last in ranges:
        for start, end in pieces(new, begin, last):
            at = known.get(hashlib.sha256(new[start:end]).digest())
            if at is not None:
                yield Match(start, at, end - start)


def pieces(data: bytes, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Start and end of each piece, which depend on its content alone."""
    kinds = data[start:stop].translate(_KINDS)
    at, size = 0, len(kinds)
    while at < size:
        most = min(at + _MOST, size)
        end = kinds.find(_END, at + _LEAST, most)
        end = most if end < 0 else end + len(_END)
        yield start + at, start + end
        at = end


def _joined(matches: Iterable[Match]) -> list[Match]:
    out = list[Match]()
    for part in matches:
        last = out[-1] if out else None
        if last is not None and (last.new + last.size, last.old + last.size) == (part.new, part.old):
            out[-1] = last._replace(size=last.size + part.size)
        else:
            out.append(part)
    return out
