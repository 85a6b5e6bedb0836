"""Columns for people: fitted to a terminal, and never cut where they go into a file or a pipe."""

from __future__ import annotations

import io
import shutil
import sys
from typing import TYPE_CHECKING

from colony_memory._values import dataclass
from colony_memory.cli.terminal import columns_of, fitted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from rich.table import Table

_UNBOUNDED = 100_000
_RESET = "\x1b[0m"
_GAP, _NARROW_GAP = 2, 1


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        head: What stands above it.
        right: It is aligned to the right.
        folds: Where the terminal is too narrow, it is folded to this width at the least. 0 does not fold.
        spare: Where that is not enough, it is left out: the highest first. 0 stays.
    """

    head: str
    right: bool = False
    folds: int = 0
    spare: int = 0


def is_terminal() -> bool:
    """Whether the answer goes to a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def styled(text: str, style: str) -> str:
    """The text, on a terminal in this style; colour follows ``NO_COLOR`` and ``TERM``."""
    if not is_terminal():
        return text
    from rich.text import Text

    drawn = io.StringIO()
    _console(drawn, _UNBOUNDED).print(Text(text, style=style), end="", soft_wrap=True)
    return drawn.getvalue()


def prose(line: str) -> str:
    """A line of an answer, folded where it goes to a terminal."""
    return fitted(line, sys.stdout)


def draw(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> str:
    """The rows under their heads.

    A terminal that is too narrow first gets the folding columns folded, then fewer columns, which is said below, and
    last lines that it wraps itself: a cell is never cut.
    """
    if not is_terminal():
        return _drawn_in_full(columns, rows)
    drawn = io.StringIO()
    width = shutil.get_terminal_size().columns
    console = _console(drawn, width)
    kept = list(range(len(columns)))
    for at in [None, *sorted((at for at in kept if columns[at].spare), key=lambda at: -columns[at].spare)]:
        kept = [each for each in kept if each != at]
        shown = [columns[each] for each in kept]
        cells = [[row[each] for each in kept] for row in rows]
        least, full = _widths(shown, cells)
        gaps = len(shown) - 1
        gap = _GAP if full + gaps * _GAP <= width else _NARROW_GAP
        if least + gaps * gap <= width:
            break
    else:
        console.width = _UNBOUNDED
    console.print(_build(shown, cells, gap))
    lines = [_unpadded(line) for line in drawn.getvalue().splitlines()]
    left_out = [column.head for at, column in enumerate(columns) if at not in kept]
    return "\n".join([*lines, *([f"narrow terminal, not shown: {', '.join(left_out)}"] if left_out else [])])


def _drawn_in_full(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> str:
    lines = [[column.head for column in columns], *rows]
    widths = [max(map(columns_of, cells)) for cells in zip(*lines, strict=True)]
    return "\n".join(
        (" " * _GAP).join(map(_padded, line, widths, (column.right for column in columns))).rstrip(" ")
        for line in lines
    )


def _padded(cell: str, width: int, right: bool) -> str:
    blanks = " " * (width - columns_of(cell))
    return blanks + cell if right else cell + blanks


def _unpadded(line: str) -> str:
    """A line without the blanks at its end. Heads are padded inside of their style."""
    line = line.rstrip(" ")
    return f"{line.removesuffix(_RESET).rstrip(' ')}{_RESET}" if line.endswith(_RESET) else line


def _build(columns: Sequence[Column], rows: Sequence[Sequence[str]], gap: int) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(
            column.head, justify="right" if column.right else "left", no_wrap=not column.folds, overflow="fold"
        )
    for row in rows:
        table.add_row(*row)
    return table


def _widths(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> tuple[int, int]:
    """The cells of a line where all that may be folded is, and where nothing is."""
    from rich.cells import cell_len

    full = [max(map(cell_len, (column.head, *cells))) for column, *cells in zip(columns, *rows, strict=True)]
    least = [min(column.folds or width, width) for column, width in zip(columns, full, strict=True)]
    return sum(least), sum(full)


def _console(file: io.StringIO, width: int) -> Console:
    from rich.console import Console

    return Console(
        file=file,
        force_terminal=is_terminal(),
        width=width,
        markup=False,
        highlight=False,
        emoji=False,
        legacy_windows=False,
    )
