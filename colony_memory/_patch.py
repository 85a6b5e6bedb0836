"""Pure: what changed in a file as a unified diff, in the form that git writes and that git and patch apply.

What differs between two memories, by document and by number of lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from colony_memory._lines import Steps, changed_part, common_lines, number_of_lines, split_lines
from colony_memory._values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from colony_memory._lines import Part


@dataclass(frozen=True)
class DocumentChange:
    """Lines added to and removed from one document.

    Attributes:
        added: Lines that only the later text has.
        removed: Lines that only the earlier one has.
        exact: False if finding every line that stayed would have taken too long: both numbers are then too high.
    """

    added: int
    removed: int
    exact: bool = True


@dataclass(frozen=True)
class SnapshotDiff:
    """What differs between two memories; true if anything does.

    Attributes:
        added: Names that only the second has.
        removed: Names that only the first has.
        changed: Lines added and removed, by name, for documents that both have with different text.
        unchanged: Number of documents that are the same.
    """

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: Mapping[str, DocumentChange]
    unchanged: int

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


def compare(before: Mapping[str, str], after: Mapping[str, str]) -> SnapshotDiff:
    """What changed from one memory to another.

    Lines end at a line feed. If a great deal of a large document changed, not every line that stayed is found; such a
    line counts as removed and added, and ``exact`` is false.
    """
    both = [name for name in sorted(before) if name in after]
    # The smallest first, so that no document takes the steps of those that need few.
    differ = [name for name in both if before[name] != after[name]]
    steps = Steps()
    counts = {
        name: count_lines(before[name], after[name], steps)
        for name in sorted(differ, key=lambda name: len(before[name]) + len(after[name]))
    }
    return SnapshotDiff(
        added=tuple(name for name in sorted(after) if name not in before),
        removed=tuple(name for name in sorted(before) if name not in after),
        changed={name: counts[name] for name in differ},
        unchanged=len(both) - len(differ),
    )


def count_lines(before: str, after: str, steps: Steps) -> DocumentChange:
    """Lines added and removed from one text to the other."""
    part = changed_part(before, after)
    same, exact = 0, False
    if part.fits:
        blocks, exact = common_lines(split_lines(part.old), split_lines(part.new), steps)
        same = sum(block.size for block in blocks)
    return DocumentChange(number_of_lines(part.new) - same, number_of_lines(part.old) - same, exact)


PLAIN, EXECUTABLE, LINK = "100644", "100755", "120000"

# Lines that stay and are shown around those that do not.
_CONTEXT = 3
# git takes what has a NUL there for no text.
_LOOKED_AT = 8000
_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}
_NOWHERE = "/dev/null"


class File(NamedTuple):
    """One file.

    Attributes:
        content: Its text, bytes where it is none.
        mode: What git calls its kind: :data:`PLAIN`, :data:`EXECUTABLE`, or :data:`LINK`, whose content is what it
            points to.
    """

    content: str | bytes
    mode: str = PLAIN

    @property
    def text(self) -> str | None:
        """The text, None where it is none."""
        if isinstance(self.content, bytes) or "\0" in self.content[:_LOOKED_AT]:
            return None
        return self.content


def patch(before: Mapping[str, File], after: Mapping[str, File]) -> str:
    """The patch from one set of files to the other, in the order of their names."""
    steps = Steps()
    return "".join(file_patch(name, before.get(name), after.get(name), steps) for name in sorted({*before, *after}))


def file_patch(name: str, before: File | None, after: File | None, steps: Steps | None = None) -> str:
    """The patch of one file; empty where nothing changed.

    What is no text is said to differ, in a line that whatever applies patches passes over.
    """
    if before == after:
        return ""
    if before and after and (before.mode == LINK) != (after.mode == LINK):
        # To git, a file that becomes a link goes, and the link comes.
        return file_patch(name, before, None) + file_patch(name, None, after)
    old, new = (quoted(f"{side}/{name}") for side in "ab")
    from_, to = _NOWHERE if before is None else old, _NOWHERE if after is None else new
    head = [f"diff --git {old} {new}\n", *_modes(before, after)]
    texts = ["" if file is None else file.text for file in (before, after)]
    if None in texts:
        differ = before is None or after is None or before.content != after.content
        line = [f"Binary files {from_} and {to} differ\n"] if differ else []
        # Without its head: git would not apply the rest, for it cannot apply this.
        return "".join(line or head)
    part = changed_part(texts[0] or "", texts[1] or "", around=_CONTEXT)
    hunks, exact = _hunks(part, steps) if part.fits else (list(_replaced(part)), False)
    if not exact:
        head.insert(0, f"Very much differs in {new}: lines may be shown as replaced that stayed\n")
    if hunks:
        head += [f"--- {_ended(from_, name)}\n", f"+++ {_ended(to, name)}\n"]
    return "".join((*head, *hunks))


def _modes(before: File | None, after: File | None) -> Iterator[str]:
    if before is None and after is not None:
        yield f"new file mode {after.mode}\n"
    elif after is None and before is not None:
        yield f"deleted file mode {before.mode}\n"
    elif before is not None and after is not None and before.mode != after.mode:
        yield f"old mode {before.mode}\n"
        yield f"new mode {after.mode}\n"


def _hunks(part: Part, steps: Steps | None) -> tuple[list[str], bool]:
    """The changed places with what is around them, and whether every line that stayed was found."""
    old, new = ([*part.lead, *split_lines(text), *part.rest] for text in (part.old, part.new))
    common = common_lines(old, new, steps)
    changes, at, to = list[tuple[int, int, int, int]](), 0, 0
    for block in (*common.blocks, None):
        end, stop = (block.old, block.new) if block else (len(old), len(new))
        if end > at or stop > to:
            changes.append((at, end, to, stop))
        at, to = (block.old + block.size, block.new + block.size) if block else (end, stop)
    out, begin = list[str](), 0
    for number, change in enumerate(changes, 1):
        # Changes whose surroundings touch are one hunk.
        if number == len(changes) or changes[number][0] - change[1] > 2 * _CONTEXT:
            out += _hunk(old, new, changes[begin:number], above=part.before)
            begin = number
    return out, common.exact


def _hunk(
    old: Sequence[str], new: Sequence[str], changes: Sequence[tuple[int, int, int, int]], *, above: int
) -> Iterator[str]:
    first, last = changes[0], changes[-1]
    lead, rest = min(_CONTEXT, first[0]), min(_CONTEXT, len(old) - last[1])
    start, end, here, there = first[0] - lead, last[1] + rest, first[2] - lead, last[3] + rest
    yield f"@@ -{_range(start + above, end + above)} +{_range(here + above, there + above)} @@\n"
    for was, until, to, stop in changes:
        yield from (_line(" ", line) for line in old[start:was])
        yield from (_line("-", line) for line in old[was:until])
        yield from (_line("+", line) for line in new[to:stop])
        start = until
    yield from (_line(" ", line) for line in old[start:end])


def _replaced(part: Part) -> Iterator[str]:
    """The one place where so many lines changed that they are not looked at: all of the old, then all of the new."""
    around, start = len(part.lead) + len(part.rest), part.before
    ends = [start + around + number_of_lines(text) for text in (part.old, part.new)]
    yield f"@@ -{_range(start, ends[0])} +{_range(start, ends[1])} @@\n"
    yield from (_line(" ", line) for line in part.lead)
    for sign, text in (("-", part.old), ("+", part.new)):
        if text:
            yield _line(sign, text.removesuffix("\n").replace("\n", f"\n{sign}") + "\n" * text.endswith("\n"))
    yield from (_line(" ", line) for line in part.rest)


def _range(start: int, end: int) -> str:
    """Lines as a hunk counts them: from 1, a single one by its number alone, none by the one before."""
    size = end - start
    return f"{start + 1}" if size == 1 else f"{start + 1 if size else start},{size}"


def _line(sign: str, line: str) -> str:
    return f"{sign}{line}" if line.endswith("\n") else f"{sign}{line}\n\\ No newline at end of file\n"


def quoted(name: str) -> str:
    """A name as git writes it: in C's quotes where it would not stay one on its line."""
    escaped = "".join(map(_escaped, name))
    return name if escaped == name else f'"{escaped}"'


def _escaped(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable() or char == " ":
        return char
    return "".join(f"\\{byte:03o}" for byte in char.encode("utf-8", "surrogatepass"))


def _ended(as_quoted: str, name: str) -> str:
    """A name in the lines before the hunks: where it has blanks, a tab says where it ends."""
    return f"{as_quoted}\t" if " " in name and as_quoted != _NOWHERE and not as_quoted.startswith('"') else as_quoted
