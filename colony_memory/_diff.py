"""Pure: the changes between two texts, in numbers and as git's patch. Only a line feed ends a line."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from colony_memory._values import NamedTuple, Record, Value

#: Lines and pairs of equal lines to look at in one comparison of two memories, which takes a few seconds at most.
MAX_STEPS = 10_000_000
#: Lines of two texts together that are compared one by one. Each takes some hundred bytes, however short it is.
MOST_LINES = 1_000_000
# Characters to compare at once.
_PIECE = 1 << 16
# The part of the steps left that one document may take, as a divisor, so that some remain for later ones.
_SHARE = 4
# Unchanged lines shown around changed ones.
_CONTEXT = 3


class Steps(Record):
    """A budget of lines and pairs of equal lines to look at, shared by all documents of two memories."""

    left: int = MAX_STEPS


class Matcher(difflib.SequenceMatcher[str]):
    """:mod:`difflib` within a budget of steps; lines that recur too often are only matched next to others."""

    a: Sequence[str]
    b: Sequence[str]
    b2j: dict[str, list[int]]
    bpopular: set[str]

    def __init__(self, old: Sequence[str], new: Sequence[str], steps: Steps) -> None:
        self._steps, self._budget, self._spent = steps, max(steps.left, 0) // _SHARE, False
        # Equal lines become one object, which compares in no time however long it is.
        interned: dict[str, str] = {}
        old, new = ([interned.setdefault(line, line) for line in lines] for lines in (old, new))
        counts = Counter(new)
        super().__init__(None, old, new, autojunk=sum(counts[line] for line in old) > self._budget)

    def find_longest_match(
        self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None
    ) -> difflib.Match:
        end = len(self.a) if ahi is None else ahi
        cost = sum(1 + len(self.b2j.get(self.a[at], ())) for at in range(alo, end))
        self._spent = self._spent or cost > self._budget
        cost = self._budget if self._spent else cost
        self._budget, self._steps.left = self._budget - cost, self._steps.left - cost
        if self._spent:
            return difflib.Match(alo, blo, 0)
        match: difflib.Match = super().find_longest_match(alo, ahi, blo, bhi)
        return match

    @property
    def exact(self) -> bool:
        return not self._spent and not self.bpopular


class Part(NamedTuple):
    """The differing part of two texts: all between the lines that both begin with and those that both end with."""

    before: int  # number of lines before lead
    lead: list[str]  # the last lines of the common beginning, as many as requested
    old: str  # the part in the old text
    new: str  # the part in the new text
    rest: list[str]  # the first lines of the common end, as many as requested

    def match(self, steps: Steps) -> Matcher | None:
        """The matcher of its lines, those around it included; None if there are too many."""
        if number_of_lines(self.old) + number_of_lines(self.new) > MOST_LINES:
            return None
        old, new = ([*self.lead, *split_lines(text), *self.rest] for text in (self.old, self.new))
        return Matcher(old, new, steps)


def changed_part(old: str, new: str, *, around: int = 0) -> Part:
    """The differing part of two texts, with ``around`` common lines on each side. Nothing else is split."""
    most = min(len(old), len(new))
    head = _same(old, new, most)
    head = old.rfind("\n", 0, head) + 1
    tail = _same(old, new, most - head, at_end=True)
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


def _same(old: str, new: str, most: int, *, at_end: bool = False) -> int:
    at, size = 0, _PIECE
    while size and at < most:
        old_piece, new_piece = (
            text[max(len(text) - at - size, 0) : len(text) - at] if at_end else text[at : at + size]
            for text in (old, new)
        )
        if old_piece == new_piece:
            at += size
        else:
            size //= 2
    return min(at, most)


def number_of_lines(text: str) -> int:
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
    *lines, last = text.split("\n")
    return [f"{line}\n" for line in lines] + ([last] if last else [])


class DocumentChange(Value):
    """Lines added to and removed from one document."""

    added: int  #: Lines that only the later text has.
    removed: int  #: Lines that only the earlier one has.
    #: False if finding every line that stayed would have taken too long: both numbers are then too high.
    exact: bool = True


class SnapshotDiff(Value):
    """The difference between two memories; true if there is any."""

    added: tuple[str, ...]  #: Names that only the second has.
    removed: tuple[str, ...]  #: Names that only the first has.
    #: Lines added and removed, by name, for documents that both have with different text.
    changed: Mapping[str, DocumentChange]
    unchanged: int  #: Number of documents that are the same.

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


def compare(before: Mapping[str, str], after: Mapping[str, str]) -> SnapshotDiff:
    """The changes from one memory to another. Where a great deal of a large document changed, ``exact`` is false."""
    both = [name for name in sorted(before) if name in after]
    # The smallest first, so that large documents do not use up the steps of those that need few.
    changed = [name for name in both if before[name] != after[name]]
    steps = Steps()
    counts = {
        name: count_lines(before[name], after[name], steps)
        for name in sorted(changed, key=lambda name: len(before[name]) + len(after[name]))
    }
    return SnapshotDiff(
        added=tuple(name for name in sorted(after) if name not in before),
        removed=tuple(name for name in sorted(before) if name not in after),
        changed={name: counts[name] for name in changed},
        unchanged=len(both) - len(changed),
    )


def count_lines(before: str, after: str, steps: Steps) -> DocumentChange:
    """Lines added and removed from one text to the other."""
    part = changed_part(before, after)
    matcher = part.match(steps)
    same = 0 if matcher is None else sum(block.size for block in matcher.get_matching_blocks())
    exact = matcher is not None and matcher.exact
    return DocumentChange(number_of_lines(part.new) - same, number_of_lines(part.old) - same, exact)


PLAIN, EXECUTABLE, LINK = "100644", "100755", "120000"

# Characters at the start of a file that git searches for a NUL, which makes it no text.
_LOOKED_AT = 8000
_ESCAPES = dict(zip('"\\\a\b\f\n\r\t\v', '"\\abfnrtv', strict=True))
_NOWHERE = "/dev/null"


class File(NamedTuple):
    """One file: its text, its bytes if it is no text, or the target of a link; and its mode in git."""

    content: str | bytes
    mode: str = PLAIN

    @property
    def text(self) -> str | None:
        if isinstance(self.content, bytes) or "\0" in self.content[:_LOOKED_AT]:
            return None
        # In a link a lone surrogate is a byte of a name, for which a text has no form.
        return None if self.mode == LINK and any("\ud800" <= char < "\ue000" for char in self.content) else self.content


def patch(before: Mapping[str, File], after: Mapping[str, File]) -> str:
    """The patch from one set of files to the other, in the order of their names."""
    steps = Steps()
    return "".join(file_patch(name, before.get(name), after.get(name), steps) for name in sorted({*before, *after}))


def file_patch(name: str, before: File | None, after: File | None, steps: Steps | None = None) -> str:
    """The patch of one file, empty if nothing changed; if it is no text, a line that says that it differs."""
    if before == after:
        return ""
    if before and after and (before.mode == LINK) != (after.mode == LINK) and None not in (before.text, after.text):
        # To git, a file that becomes a link is deleted, and the link is new.
        return file_patch(name, before, None) + file_patch(name, None, after)
    old, new = (quoted(f"{side}/{name}") for side in "ab")
    from_, to = _NOWHERE if before is None else old, _NOWHERE if after is None else new
    head = [f"diff --git {old} {new}\n"]
    old_mode, new_mode = (None if file is None else file.mode for file in (before, after))
    if old_mode is None:
        head.append(f"new file mode {new_mode}\n")
    elif new_mode is None:
        head.append(f"deleted file mode {old_mode}\n")
    elif old_mode != new_mode:
        head += [f"old mode {old_mode}\n", f"new mode {new_mode}\n"]
    texts = ["" if file is None else file.text for file in (before, after)]
    if None in texts:
        changed = before is None or after is None or before.content != after.content or LINK in (old_mode, new_mode)
        line = [f"Binary files {from_} and {to} differ\n"] if changed else []
        # Without a head: git cannot apply this, and with a head would then refuse the rest as well.
        return "".join(line or head)
    part = changed_part(texts[0] or "", texts[1] or "", around=_CONTEXT)
    matcher = part.match(steps or Steps())
    if matcher is None:
        return f"Too much differs in {new}: its lines are not shown\n"
    hunks = list(_hunks(matcher, above=part.before))
    if not matcher.exact:
        head.insert(0, f"Too much differs in {new}: some unchanged lines may be shown as replaced\n")
    if hunks:
        head += [f"--- {_ended(from_, name)}\n", f"+++ {_ended(to, name)}\n"]
    return "".join((*head, *hunks))


def _hunks(matcher: Matcher, *, above: int) -> Iterator[str]:
    old, new = matcher.a, matcher.b
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        (_, start, _, new_start, _), (_, _, end, _, new_end) = group[0], group[-1]
        yield f"@@ -{_range(start + above, end + above)} +{_range(new_start + above, new_end + above)} @@\n"
        for kind, old_from, old_to, new_from, new_to in group:
            yield from (_line(" " if kind == "equal" else "-", line) for line in old[old_from:old_to])
            yield from (_line("+", line) for line in new[new_from:new_to] if kind != "equal")


def _range(start: int, end: int) -> str:
    """A range of lines in a hunk: from 1; a single line as its number alone, none as the line before."""
    size = end - start
    return f"{start + 1}" if size == 1 else f"{start + 1 if size else start},{size}"


def _line(sign: str, line: str) -> str:
    return f"{sign}{line}" if line.endswith("\n") else f"{sign}{line}\n\\ No newline at end of file\n"


def quoted(name: str) -> str:
    """A name as git writes it: in quotes of C if it would not be read as one name on its line."""
    escaped = "".join(map(_escaped, name))
    return name if escaped == name else f'"{escaped}"'


def _escaped(char: str) -> str:
    if char in _ESCAPES:
        return f"\\{_ESCAPES[char]}"
    if char.isprintable() or char == " ":
        return char
    # A byte of a name that is not UTF-8 has become a lone surrogate; write it as that byte, as a restore does.
    policy = "surrogateescape" if "\udc80" <= char <= "\udcff" else "surrogatepass"
    return "".join(f"\\{byte:03o}" for byte in char.encode("utf-8", policy))


def _ended(as_quoted: str, name: str) -> str:
    """A name in the lines before the hunks: if it has blanks, a tab marks its end."""
    return f"{as_quoted}\t" if " " in name and as_quoted != _NOWHERE and not as_quoted.startswith('"') else as_quoted
