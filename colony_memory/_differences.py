"""Pure: what differs between two memories, by document and by number of lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colony_memory._values import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from colony_memory._lines import Steps


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
    from colony_memory._lines import Steps

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
    from colony_memory._lines import changed_part, common_lines, number_of_lines, split_lines

    part = changed_part(before, after)
    same, exact = 0, False
    if part.fits:
        blocks, exact = common_lines(split_lines(part.old), split_lines(part.new), steps)
        same = sum(block.size for block in blocks)
    return DocumentChange(number_of_lines(part.new) - same, number_of_lines(part.old) - same, exact)
