"""Pure: which lines two texts have in common, in time that no text can draw out.

A line ends at a line feed and at nothing else, as git has it: a lone carriage return, a form feed or U+2028 ends none.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from difflib import Match, SequenceMatcher

#: Lines and pairs of equal lines to look at in one comparison of two memories, which takes a few seconds at most.
MAX_STEPS = 10_000_000
#: Lines of two texts together that are looked at one by one. Each takes some hundred bytes, however short it is.
MOST_LINES = 1_000_000
# Characters to compare at once.
_PIECE = 1 << 16
# No document takes more than this share of the steps that are left, so that there are some for those that come after.
_SHARE = 4


class Steps:
    """A budget for a comparison, shared by all documents of two memories.

    Attributes:
        left: Lines and pairs of equal lines that may still be looked at; negative where they are used up.
    """

    def __init__(self, left: int = MAX_STEPS) -> None:
        self.left = left

    def share(self) -> Steps:
        """The share of one document, to be given back with :meth:`settle`."""
        return Steps(max(self.left, 0) // _SHARE)

    def settle(self, share: Steps, given: int) -> None:
        """Count what was used of a share of this size."""
        self.left -= given - max(share.left, 0)


class Block(NamedTuple):
    """Lines that are the same: ``size`` of them, from ``old`` in the one text and from ``new`` in the other."""

    old: int
    new: int
    size: int


class Common(NamedTuple):
    """The lines that two texts share."""

    blocks: tuple[Block, ...]  # the lines, in order, each block as long as it can be
    exact: bool  # False where the steps were used up: there may be more, and what is here is right


class Part(NamedTuple):
    """Where two texts differ: what is left between the lines that both begin with and those that both end with."""

    before: int  # how many lines come before lead
    lead: list[str]  # the last lines that both begin with, as many as were asked for
    old: str  # what the one text has there
    new: str  # what the other has
    rest: list[str]  # the first lines that both end with, as many as were asked for

    @property
    def fits(self) -> bool:
        """True if its lines are few enough to be split."""
        return number_of_lines(self.old) + number_of_lines(self.new) <= MOST_LINES


def changed_part(old: str, new: str, *, around: int = 0) -> Part:
    """Where two texts differ, with so many lines around it that both have. Nothing else of them is split."""
    head = _same_at_start(old, new)
    head = old.rfind("\n", 0, head) + 1
    tail = _same_at_end(old, new, most=min(len(old), len(new)) - head)
    places = (old, len(old) - tail), (new, len(new) - tail)
    if not all(at == head or text[at - 1] == "\n" for text, at in places):
        end = old.find("\n", len(old) - tail)
        tail = 0 if end < 0 else len(old) - end - 1
    begin, end = head, len(old) - tail
    for _ in range(around):
        begin = old.rfind("\n", 0, max(begin - 1, 0)) + 1
        end = old.find("\n", end) + 1 or len(old)
    lead, rest = split_lines(old[begin:head]), split_lines(old[len(old) - tail : end])
    return Part(old.count("\n", 0, begin), lead, old[head : len(old) - tail], new[head : len(new) - tail], rest)


def _same_at_start(old: str, new: str) -> int:
    """How many characters are the same at the beginning."""
    most, at, size = min(len(old), len(new)), 0, _PIECE
    while size and at < most:
        if old[at : at + size] == new[at : at + size]:
            at += size
        else:
            size //= 2
    return min(at, most)


def _same_at_end(old: str, new: str, *, most: int) -> int:
    """How many characters are the same at the end."""
    at, size = 0, _PIECE
    while size and at < most:
        here, there = (text[max(len(text) - at - size, 0) : len(text) - at] for text in (old, new))
        if here == there:
            at += size
        else:
            size //= 2
    return min(at, most)


def number_of_lines(text: str) -> int:
    """How many lines a text has."""
    return text.count("\n") + (text[-1:] not in ("", "\n"))


def each_line(text: str) -> Iterator[str]:
    """The lines of a text without their ends, one after the other: all of them at once may take far more memory."""
    at = 0
    while at < len(text):
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        yield text[at:end]
        at = end + 1


def split_lines(text: str) -> list[str]:
    """The lines of a text, each with its end."""
    *whole, last = text.split("\n")
    return [f"{line}\n" for line in whole] + ([last] if last else [])


def bounded(steps: Steps) -> type[SequenceMatcher[str]]:
    """A matcher that finds no more when the steps are used up; what it has found is as right as ever.

    Its own time grows with the cube of the lines where someone chose them for it.
    """
    import difflib

    class Bounded(difflib.SequenceMatcher[str]):
        a: Sequence[str]
        b2j: dict[str, list[int]]

        def find_longest_match(
            self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None
        ) -> Match:
            end = len(self.a) if ahi is None else ahi
            steps.left -= sum(1 + len(self.b2j.get(self.a[at], ())) for at in range(alo, end))
            if steps.left < 0:
                return difflib.Match(alo, blo, 0)
            found: Match = super().find_longest_match(alo, ahi, blo, bhi)
            return found

    return Bounded


def common_lines(old: Sequence[str], new: Sequence[str], steps: Steps | None = None) -> Common:
    """The lines that stay from one text to the other.

    Lines that each side has once hold the texts against each other, which takes no time however long they are. Between
    those it is :mod:`difflib` that looks, for as long as there are steps.
    """
    whole = steps or Steps()
    own = whole.share()
    given, blocks, exact = own.left, list[Block](), True
    matcher = bounded(own)
    # Equal lines become one object, which is compared in no time however long it is.
    known: dict[str, str] = {}
    old, new = ([known.setdefault(line, line) for line in lines] for lines in (old, new))
    todo = [((0, len(old)), (0, len(new)))]
    while todo:
        (alo, ahi), (blo, bhi) = gap = todo.pop()
        head, tail = _ends(old, new, gap)
        blocks += [Block(alo, blo, head), Block(ahi - tail, bhi - tail, tail)]
        alo, ahi, blo, bhi = alo + head, ahi - tail, blo + head, bhi - tail
        if alo == ahi or blo == bhi:
            continue
        own.left -= ahi - alo + bhi - blo
        if own.left < 0:
            exact = False
            continue
        anchors = [(alo + at, blo + to) for at, to in _anchors(old[alo:ahi], new[blo:bhi])]
        # Of those that follow upon each other the first is enough: its gap begins with the others.
        pairs = zip([(-2, -2), *anchors], anchors, strict=False)
        anchors = [each for before, each in pairs if each != (before[0] + 1, before[1] + 1)]
        if anchors:
            # Each gap begins with the anchor before it.
            starts, ends = [(alo, blo), *anchors], [*anchors, (ahi, bhi)]
            todo += [((a, b), (c, d)) for (a, c), (b, d) in zip(starts, ends, strict=True)]
            continue
        found = matcher(None, old[alo:ahi], new[blo:bhi], autojunk=False)
        blocks += [Block(alo + a, blo + b, size) for a, b, size in found.get_matching_blocks()]
        exact = exact and own.left >= 0
    whole.settle(own, given)
    return Common(_joined(sorted(block for block in blocks if block.size)), exact)


def _ends(old: Sequence[str], new: Sequence[str], gap: tuple[tuple[int, int], tuple[int, int]]) -> tuple[int, int]:
    """How many lines are the same at the beginning and, of the others, at the end."""
    (alo, ahi), (blo, bhi) = gap
    most, head, tail = min(ahi - alo, bhi - blo), 0, 0
    while head < most and old[alo + head] is new[blo + head]:
        head += 1
    while tail < most - head and old[ahi - 1 - tail] is new[bhi - 1 - tail]:
        tail += 1
    return head, tail


def _anchors(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Places of the lines that each side has once, as many as come in the same order."""
    here, there = Counter(old), Counter(new)
    place = {line: at for at, line in enumerate(new) if there[line] == 1 == here.get(line)}
    # The longest run that grows, by the smallest end of each length.
    ends, chain, before = list[int](), list[int](), dict[int, int]()
    pairs = [(at, place[line]) for at, line in enumerate(old) if line in place]
    for number, (_, to) in enumerate(pairs):
        length = bisect_left(ends, to)
        if length == len(ends):
            ends.append(to)
            chain.append(number)
        else:
            ends[length], chain[length] = to, number
        if length:
            before[number] = chain[length - 1]
    out, number = list[tuple[int, int]](), chain[-1] if chain else -1
    while number >= 0:
        out.append(pairs[number])
        number = before.get(number, -1)
    return out[::-1]


def _joined(blocks: Sequence[Block]) -> tuple[Block, ...]:
    """Blocks that follow upon each other on both sides as one."""
    out: list[Block] = []
    for block in blocks:
        if out and out[-1].old + out[-1].size == block.old and out[-1].new + out[-1].size == block.new:
            out[-1] = out[-1]._replace(size=out[-1].size + block.size)
        else:
            out.append(block)
    return tuple(out)
