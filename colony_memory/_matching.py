"""Pure: where a line has what is looked for, in time that no text can draw out."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator

from colony_memory._boundary import require_text
from colony_memory._diff import each_line
from colony_memory._format.json import shown
from colony_memory._values import Value

#: Characters of a line that a report gives at most.
MAX_SHOWN = 300
# Characters before what was found, in a line that is cut.
_LEAD = 60
# Most expressions take time that grows with the square of a line that someone chose for it. A longer line than this is
# looked at in pieces that overlap by half.
_PIECE = 2048
_MORE = 8 * _PIECE
# What stands for one character or none, and what stands for any number of any.
_ONE = r"\\[^a-zA-Z0-9\n]|\\[bBdDsSwWt]|\[\^?[^\[\]\\^\n]+\]|[^\\\[\](){}*+?|^$\n]"
_GAP = r"\.[*+]\??"
_ROW = re.compile(rf"\^?(?:{_GAP}|{_ONE})+\$?")
_GAPS = re.compile(rf"({_GAP})|{_ONE}")
_ELLIPSIS = "\u2026"


class Found(Value):
    """A line that has what is looked for: which from 1, it or what stands for it, what is told of it, and where."""

    number: int
    key: str | bytes
    line: str | None
    span: tuple[int, int]


class Pattern:
    def __init__(self, pattern: str, *, fixed: bool = False, ignore_case: bool = False) -> None:
        """Take a regular expression of :mod:`re`, or with ``fixed`` a text; a ValueError where it is none, or empty."""
        if not require_text("a pattern", pattern):
            raise ValueError("an empty pattern is in every line: say what to look for")
        if "\n" in pattern:
            raise ValueError("a pattern is looked for in one line, and there is a line feed in it")
        self._text = pattern if fixed and not ignore_case else None
        flags = re.IGNORECASE if ignore_case else 0
        self._regex = _compiled(re.escape(pattern) if fixed else pattern, flags)
        self._row = () if fixed else tuple(_compiled(each, flags) for each in _row(pattern))

    def find(self, line: str) -> tuple[int, int] | None:
        """Where it is first in a line without its end. In a long one, what repeats more than ``.`` spans 1,024."""
        if self._text is not None:
            at = line.find(self._text)
            return None if at < 0 else (at, at + len(self._text))
        if self._row:
            return self._find_row(line)
        if len(line) <= _PIECE:
            found = self._regex.search(line)
            return found.span() if found else None
        return self._find_in_pieces(line)

    def _find_row(self, line: str) -> tuple[int, int] | None:
        start, end = -1, 0
        for each in self._row:
            # The first that ends first: whatever comes after it has the most room.
            found = each.search(line, end)
            if found is None:
                return None
            start, end = found.start() if start < 0 else start, found.end()
        return start, end

    def _find_in_pieces(self, line: str) -> tuple[int, int] | None:
        half, at = _PIECE // 2, 0
        while True:
            end = min(at + _PIECE, len(line))
            found = self._regex.search(line, at, end)
            # What begins in the second half is seen in the next piece, with what comes after it.
            if found and (found.start() < at + half or end == len(line)):
                if found.end() == end < len(line):
                    found = self._regex.match(line, found.start(), min(found.start() + _MORE, len(line)))
                if found:
                    return found.span()
            if end == len(line):
                return None
            at += half

    def find_lines(self, text: str) -> Iterator[Found]:
        if self._text is not None and self._text not in text:
            return
        for number, line in enumerate(each_line(text), 1):
            span = self.find(line)
            if span is not None:
                yield Found(number, *_excerpt(line, *span))


def _row(pattern: str) -> list[str]:
    """The texts in a row where an expression is no more: ``a.*b`` is an ``a`` and a ``b`` behind it."""
    if not _ROW.fullmatch(pattern):
        return []
    parts, at = [""], 0
    for each in _GAPS.finditer(pattern):
        gap = each[1]
        parts[-1] += pattern[at : each.start()] + ("" if gap and gap[1] == "*" else "." if gap else each[0])
        at = each.end()
        if gap:
            parts.append("")
    parts[-1] += pattern[at:]
    return [part for part in parts if part]


def _compiled(pattern: str, flags: int) -> re.Pattern[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what another version of Python may take it for
            return re.compile(pattern, flags)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"{shown(pattern)} is not a regular expression: {error}") from error


def _excerpt(line: str, start: int, end: int) -> tuple[str | bytes, str, tuple[int, int]]:
    """What stands for a line, as much of it as is told, and where in that what was found is."""
    if len(line) <= MAX_SHOWN:
        return line, line, (start, end)
    from hashlib import sha256

    begin = max(0, min(start - _LEAD, len(line) - MAX_SHOWN))
    stop = begin + MAX_SHOWN
    before, after = _ELLIPSIS if begin else "", _ELLIPSIS if stop < len(line) else ""
    shift = len(before) - begin
    key = sha256(line.encode("utf-8", "surrogatepass")).digest()
    return key, f"{before}{line[begin:stop]}{after}", (start + shift, min(end, stop) + shift)
