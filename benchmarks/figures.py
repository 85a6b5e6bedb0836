"""A figure, whether it holds, and how it is printed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True)
class Figure:
    """One thing that was measured on both sides.

    Attributes:
        group: Name for ``--only``.
        name: What it is.
        published: What 0.1.1 gave, None where it does not apply.
        ours: What this tree gave.
        unit: Of both.
        ratio: Ours to that of 0.1.1: a median over pairs, where there were several.
        limit: The most that is allowed.
        limited: What the limit is for, ``"ratio"`` or ``"ours"``.
        note: What else to know.
    """

    group: str
    name: str
    published: float | None
    ours: float
    unit: str = ""
    ratio: float | None = None
    limit: float | None = None
    limited: str = "ratio"
    note: str = ""

    @property
    def holds(self) -> bool:
        """Whether it is within its limit; true where there is none."""
        value = self.ratio if self.limited == "ratio" else self.ours
        return self.limit is None or (value is not None and value <= self.limit)

    def row(self) -> tuple[str, ...]:
        """The cells of a table."""
        limit = "" if self.limit is None else f"{self.limited} <= {self.limit:g}"
        verdict = "" if self.limit is None else "ok" if self.holds else "MISSED"
        ratio = "" if self.ratio is None else f"{self.ratio:.3f}"
        return (self.name, self._value(self.published), self._value(self.ours), ratio, limit, verdict, self.note)

    def _value(self, value: float | None) -> str:
        if value is None:
            return "-"
        if value == int(value):
            return f"{int(value):,}{self.unit}"
        return f"{value:.{1 if value >= 100 else 2 if value >= 0.1 else 4}f}{self.unit}"

    def as_json(self) -> dict[str, Any]:
        """The fields, and ``holds``."""
        return {**asdict(self), "holds": self.holds}


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown, which also reads well as it is; numbers to the right."""
    cells = [list(head), *(list(row) for row in rows)]
    widths = [max(len(row[n]) for row in cells) for n in range(len(cells[0]))]
    right = [all(row[n][:1].isdigit() or row[n] in ("", "-") for row in cells[1:]) for n in range(len(widths))]
    lines = []
    for row in cells:
        columns = zip(row, widths, right, strict=True)
        padded = (cell.rjust(width) if number else cell.ljust(width) for cell, width, number in columns)
        lines.append("| " + " | ".join(padded) + " |")
    ends = ("-:" if number else "--" for number in right)
    lines.insert(1, "|" + "|".join("-" * width + end for width, end in zip(widths, ends, strict=True)) + "|")
    return "\n".join(lines)


def head(group: str) -> tuple[str, ...]:
    """What stands above the columns; some groups are compared with what each line names."""
    other = "other" if group in ("folder", "folders", "startup", "watch") else "0.1.1"
    return ("what", other, "this", "ratio", "limit", "", "note")
