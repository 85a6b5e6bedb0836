"""Pure: what of a content was there before, and where, at the speed of comparing and searching bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

from colony_memory._values import NamedTuple

# Bytes that are compared at a time; where they differ, those of a page each.
_BLOCK, _PAGE = 2**16, 2**12
# Bytes of a piece that is cut by its content, at least and at most.
_LEAST, _MOST = 2**11, 2**16
# Pieces are looked for where as much as that has no counterpart, and as much as that part of the whole.
_WORTH, _SHARE = 2**16, 64
# A piece ends behind these kinds of bytes, in this order: of each kind is half of all values, in no order that a text
# has. So one piece in 4,096 bytes ends, wherever it has come to stand.
_KINDS = bytes(hashlib.sha256(b"%d" % value).digest()[0] & 1 for value in range(256))
_END = bytes((1, 0, 0, 1, 1, 0, 1, 0, 1, 1, 0, 0))


class Match(NamedTuple):
    """Bytes that both have: where they are in the new content and in the old one, and how many."""

    new: int
    old: int
    size: int


def match(old: bytes, new: bytes) -> list[Match]:
    """The parts of the old content in the new one, in order: what stayed, and where much is left, what moved."""
    matches = list(_in_place(old, new, [(0, len(new))], 0))
    if len(old) != len(new):
        matches += _in_place(old, new, gaps(matches, len(new)), len(old) - len(new))
        matches.sort()
    unmatched = gaps(matches, len(new))
    if sum(end - start for start, end in unmatched) > max(_WORTH, len(new) // _SHARE):
        matches += _relocated(old, new, unmatched)
    return _joined(sorted(matches))


def gaps(matches: Iterable[Match], size: int) -> list[tuple[int, int]]:
    """Where each run begins and ends that has no counterpart, in a new content of that size."""
    out, at = list[tuple[int, int]](), 0
    for part in matches:
        if part.new > at:
            out.append((at, part.new))
        at = part.new + part.size
    return [*out, (at, size)] if at < size else out


def _in_place(old: bytes, new: bytes, ranges: Iterable[tuple[int, int]], shift: int) -> Iterator[Match]:
    """The parts alike where the old content is moved by as much as that."""
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
    """Where each piece begins and ends, by what is in it and nothing else."""
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
