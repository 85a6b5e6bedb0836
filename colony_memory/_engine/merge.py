"""Pure: merging two memories by document, then by line; where both changed a line, both texts are kept."""

from __future__ import annotations

import hashlib
import posixpath
import re
import unicodedata
from bisect import bisect_left
from itertools import count
from typing import TYPE_CHECKING

from colony_memory._diff import Matcher, Steps, split_lines
from colony_memory._format.names import require_id
from colony_memory._format.record import RECORDS, fold, merge_records, unfold
from colony_memory.reports import Merged

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from difflib import Match

# Lines of the three texts together, which bounds memory: one object and one index entry for each.
_MAX_LINES = 300_000
# Bytes that file systems take in one component of a path.
_MAX_COMPONENT = 255
_EXTENSION = re.compile(r"\.[A-Za-z0-9_+~-]{1,16}")


def merge(
    base: Mapping[str, str] | None, ours: Mapping[str, str], theirs: Mapping[str, str], *, theirs_name: str
) -> Merged:
    """Merge two memories over their common base. A document that one side removed and the other changed stays."""
    require_id(theirs_name)
    sides = ours, theirs
    # A folder's files that are not text are merged like its documents.
    before, ours, theirs = unfold(base or {}, ours, theirs)
    names = sorted({*before, *ours, *theirs})
    documents: dict[str, str] = {}
    taken: list[str] = []
    removed: list[str] = []
    both: list[str] = []
    for name in names:
        old, text, their_text = before.get(name), ours.get(name), theirs.get(name)
        if their_text not in (text, old):
            if text in (old, None):
                text = their_text
                (removed if their_text is None else taken).append(name)
            elif their_text is not None:
                both.append(name)
        if text is not None:
            documents[name] = text

    joined = _join(before, ours, theirs, names=[name for name in both if name in before and name not in RECORDS])
    for name in RECORDS:
        record = merge_records(before.get(name), ours[name], theirs[name]) if name in both else None
        if record is not None:
            joined[name] = record
    documents.update(joined)
    conflicts = {name: theirs[name] for name in both if name not in joined}
    copies = dict(zip(conflicts, _new_names(conflicts, names, documents, theirs, theirs_name), strict=True))
    documents.update({copies[name]: text for name, text in conflicts.items()})
    return Merged(
        documents=dict(sorted(fold(documents, alike=sides).items())),
        copies=copies,
        taken=tuple(taken),
        joined=tuple(name for name in both if name not in copies and documents[name] != ours[name]),
        removed=tuple(removed),
    )


def _join(
    base: Mapping[str, str], ours: Mapping[str, str], theirs: Mapping[str, str], *, names: Collection[str]
) -> dict[str, str]:
    steps, joined = Steps(), dict[str, str]()
    # The smallest first, so that no large document takes the steps of those that need few.
    for name in sorted(names, key=lambda name: (len(ours[name]) + len(theirs[name]), name)):
        text = _join_lines(base[name], ours[name], theirs[name], steps=steps)
        if text is not None:
            joined[name] = text
    return joined


def _join_lines(base: str, ours: str, theirs: str, *, steps: Steps) -> str | None:
    """The text with the changes of both, as diff3 has it; None where both changed the same or neighbouring lines."""
    if sum(text.count("\n") for text in (base, ours, theirs)) > _MAX_LINES:
        return None
    old, mine, their = map(split_lines, (base, ours, theirs))
    blocks = [Matcher(old, side, steps).get_matching_blocks() for side in (mine, their)]
    out: list[str] = []
    old_at = my_at = their_at = 0
    for start, my_start, their_start, size in _agreed(*blocks):
        before, left, right = old[old_at:start], mine[my_at:my_start], their[their_at:their_start]
        if left not in (before, right) and right != before:
            return None
        out += right if left == before else left
        old_at, my_at, their_at = start + size, my_start + size, their_start + size
        out += old[start:old_at]
    return "".join(out)


def _agreed(ours: Sequence[Match], theirs: Sequence[Match]) -> Iterator[tuple[int, int, int, int]]:
    """Blocks of lines that all three texts have: the starts in base, ours and theirs, and the length, 0 at the end."""
    i = j = 0
    while True:
        left, right = ours[i], theirs[j]
        start, end = max(left.a, right.a), min(left.a + left.size, right.a + right.size)
        last = not left.size and not right.size  # each list ends with a block of no lines
        if start < end or last:
            yield start, left.b + start - left.a, right.b + start - right.a, end - start
        if last:
            return
        if not right.size or (left.size and left.a + left.size == end):
            i += 1
        else:
            j += 1


def _new_names(
    names: Iterable[str], used: Iterable[str], documents: Mapping[str, str], theirs: Mapping[str, str], theirs_name: str
) -> Iterator[str]:
    """For each name a new one in the same directory for the other side's text, which nothing else has or had."""
    taken = {_folded(name) for name in used}
    in_order = sorted(taken)
    numbers: dict[str, int] = {}
    for name in names:
        first = _folded(_marked(name, f".theirs-{theirs_name}"))
        for number in count(numbers.get(first, 1)):
            new = _marked(name, f".theirs-{theirs_name}" if number == 1 else f".theirs-{theirs_name}-{number}")
            # A merge that is done again finds the copy that it kept the first time.
            if documents.get(new) == theirs[name]:
                break
            key = _folded(new)
            # The name of a directory that others are in is no name for a document.
            below = bisect_left(in_order, f"{key}/")
            if key not in taken and not "".join(in_order[below : below + 1]).startswith(f"{key}/"):
                taken.add(key)
                break
        # Names that differ in case alone continue the numbering of the one before.
        numbers[first] = number + 1
        yield new


def _marked(name: str, mark: str) -> str:
    """The name with a mark before its extension, its last component cut to the length that file systems take."""
    root, extension = posixpath.splitext(name)
    if not _EXTENSION.fullmatch(extension):
        root, extension = name, ""
    directory, slash, stem = root.rpartition("/")
    room = _MAX_COMPONENT - len(mark) - len(extension)
    if _size(stem) > room:
        # Names that are cut to the same stem stay different.
        tag = "-" + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        stem = stem[:room]
        while _size(stem + tag) > room:
            stem = stem[:-1]
        stem += tag
    return f"{directory}{slash}{stem}{mark}{extension}"


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _folded(name: str) -> str:
    """A key that is equal for names which some file system takes for the same."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())
