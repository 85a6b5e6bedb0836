"""Snapshots and differences for people: tables, fitted to a terminal and complete everywhere else."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from colony_memory._values import Value
from colony_memory.shell.app.pick import made_at, number_left_out, stamp
from colony_memory.shell.cli.output import is_terminal, styled
from colony_memory.shell.words import age, columns_of, count, few, now_utc, shown, signer, size, stored, width_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime

    from colony_memory.capture._metadata import Contents
    from colony_memory.reports import SnapshotDiff
    from colony_memory.snapshot import SnapshotInfo

_GAP = 2


class Column(Value):
    head: str  # title above it
    right: bool = False  # it is aligned to the right
    wraps: bool = False  # last column, which the terminal may wrap
    spare: int = 0  # order of omission on a narrow terminal, the highest first; 0 is never left out


def draw(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> str:
    """The rows under their heads; a narrow terminal gets fewer columns, and a line that names the others."""
    lines = [[column.head for column in columns], *rows]
    widths = [max(columns_of(line[index]) for line in lines) for index in range(len(columns))]
    kept = list(range(len(columns)))
    spare = sorted((index for index in kept if columns[index].spare), key=lambda index: columns[index].spare)
    needed = [_GAP + (len(col.head) if col.wraps else width) for col, width in zip(columns, widths, strict=True)]
    room = width_of(sys.stdout) + _GAP
    while spare and is_terminal() and sum(needed[index] for index in kept) > room:
        kept.remove(spare.pop())
    drawn = []
    for number, line in enumerate(lines):
        cells = []
        for index in kept:
            blanks = " " * (widths[index] - columns_of(line[index]))
            cells.append(blanks + line[index] if columns[index].right else line[index] + blanks)
        drawn.append(styled((" " * _GAP).join(cells).rstrip(" "), "" if number else "bold"))
    left_out = [column.head for index, column in enumerate(columns) if index not in kept]
    return "\n".join([*drawn, *([f"narrow terminal, not shown: {', '.join(left_out)}"] if left_out else [])])


_SNAPSHOTS = (
    Column("  id"),
    Column("label"),
    Column("created"),
    Column("size", right=True, spare=1),
    Column("stored", right=True, spare=3),
    Column("signed by", spare=2),
    Column("remarks", wraps=True),  # only where there are any
)


def snapshot_table(infos: Sequence[SnapshotInfo], *, latest: Collection[str]) -> str:
    """One row for each snapshot, in the order given; ``latest`` are the ids to mark."""
    if not infos:
        return "no snapshots"
    shrunk, rows = {info.shrunk_from for info in infos}, []
    for info in infos:
        pinned = f"pinned until {info.pinned_until[:10]}" if info.pinned_until else "pinned"
        remarks = (
            ("encrypted", info.encrypted),
            (pinned, info.pinned),
            ("met a conflict", info.refused),
            ("kept, as a much smaller one followed", info.snapshot_id in shrunk),
            (f"{number_left_out(info)} left out", info.incomplete),
            *((f"#{tag}", True) for tag in info.tags),
            (shown(info.note or ""), info.note),
        )
        row = (
            ("* " if info.snapshot_id in latest else "  ") + shown(info.snapshot_id),
            shown(info.label),
            when(made_at(info)),
            size_of(info),
            stored(info),
            signer(info),
            ", ".join(text for text, is_so in remarks if is_so),
        )
        rows.append(row)
    visible = len(_SNAPSHOTS) - (not any(row[-1] for row in rows))
    marks = "; * is the latest, which restore gives" if any(info.snapshot_id in latest for info in infos) else ""
    return f"{draw(_SNAPSHOTS[:visible], [row[:visible] for row in rows])}\n{count(len(infos), 'snapshot')}{marks}"


def size_of(info: SnapshotInfo) -> str:
    return "unknown" if info.encrypted and not info.byte_size else size(info.byte_size)


def when(moment: datetime) -> str:
    """The age, on a terminal; elsewhere, where it may be read later, the time."""
    return age(moment, now_utc()) if is_terminal() else stamp(moment)


def amount(contents: Contents) -> str:
    """The number of files and folders: ``3 files``, ``1 file, 2 empty folders``."""
    folders = f", {count(len(contents.empty_dirs), 'empty folder')}" if contents.empty_dirs else ""
    return f"{count(len(contents.files), 'file')}{folders}"


def changes(diff: SnapshotDiff) -> str:
    """The number of differences: ``1 added, 2 removed and 1 empty folder, 0 changed``."""
    return f"{_counted(diff.added, 'added')}, {_counted(diff.removed, 'removed')}, {len(diff.changed)} changed"


def _counted(names: Sequence[str], word: str) -> str:
    folders = sum(name.endswith("/") for name in names)
    return f"{len(names) - folders} {word}" + (f" and {count(folders, 'empty folder')}" if folders else "")


def change_lines(diff: SnapshotDiff, *, verbose: bool) -> list[str]:
    """A line for each name that differs, with a sign before it; only the first ones of many unless ``verbose``."""
    lines = [(name, styled(f"+ {shown(name)}", "green")) for name in diff.added]
    lines += [(name, styled(f"- {shown(name)}", "red")) for name in diff.removed]
    lines += [
        (name, f"~ {shown(name)}  +{counts.added} -{counts.removed} lines{'' if counts.exact else ' at most'}")
        for name, counts in diff.changed.items()
    ]
    return few([line for _, line in sorted(lines)], verbose=verbose)
