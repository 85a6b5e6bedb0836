"""Tables for people: fitted to a terminal, and never cut where they go into a file or a pipe."""

from __future__ import annotations

import io
import shutil
import sys
from typing import TYPE_CHECKING

from colony_memory.cli.text import age, count, made_at, shown, signer, size, stamp, stored

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from rich.table import Table

    from colony_memory.reports import LabelMap, VaultMap
    from colony_memory.snapshot import SnapshotInfo

_UNBOUNDED = 100_000
_NARROWEST = 80
_GAP, _NARROW_GAP = 2, 1


def snapshot_table(infos: Sequence[SnapshotInfo], *, now: datetime) -> str:
    """One row for each snapshot, in the order given."""
    if not infos:
        return "no snapshots"
    heads = ("  id", "label", "created", "docs", "size", "stored", "signed by")
    rows = [
        (
            ("* " if info.head else "  ") + shown(info.snapshot_id),
            shown(info.label),
            _when(made_at(info), now),
            str(len(info.doc_names)),
            size(info.byte_size),
            stored(info),
            signer(info),
        )
        for info in infos
    ]
    total = count(len(infos), "snapshot")
    return f"{_render(heads, rows, right={3, 4, 5}, folds={1})}\n{total}; * is the latest, which restore gives"


def status_table(found: VaultMap, *, url: str, now: datetime) -> str:
    """The quota, then one row for each label."""
    heads = ("label", "snapshots", "newest", "oldest", "size", "stored", "problems")
    rows = [
        (
            shown(each.label),
            str(each.snapshots),
            _when(made_at(each.newest), now) if each.newest else "-",
            _when(made_at(each.oldest), now) if each.oldest else "-",
            size(each.plain_bytes),
            size(each.stored_bytes),
            "; ".join(problems(each)) or "none found",
        )
        for each in found.labels
    ]
    lines = [f"vault  {shown(url)}", f"used   {_room(found)}", f"files  {found.files}"]
    if found.operations_left is not None:
        lines.append(f"left   {found.operations_left} uploads and deletes this hour")
    labels = _render(heads, rows, right={1, 4, 5}, folds={0, 6}) if rows else "no snapshots"
    return "\n".join([*lines, "", labels])


def problems(label: LabelMap) -> list[str]:
    """What is wrong with a label, in a few words each."""
    found = []
    if label.broken:
        found.append(f"{len(label.broken)} broken")
    if label.dangling:
        found.append("no usable pointer")
    if label.orphans:
        found.append(count(len(label.orphans), "leftover file"))
    return found


def _room(found: VaultMap) -> str:
    if not found.quota_bytes:
        return f"{size(found.used_bytes)}; the vault gives room with the first backup"
    percent = f"{100 * found.used_bytes / found.quota_bytes:.0f} %"
    free = "" if found.available_bytes is None else f", {size(found.available_bytes)} free"
    return f"{size(found.used_bytes)} of {size(found.quota_bytes)} ({percent}){free}"


def _when(moment: datetime, now: datetime) -> str:
    """For eyes how long ago; in a file, which is read later, the time."""
    return age(moment, now) if _is_terminal() else stamp(moment)


def _is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def _render(heads: Sequence[str], rows: Sequence[Sequence[str]], *, right: set[int], folds: set[int]) -> str:
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table

    terminal, drawn = _is_terminal(), io.StringIO()
    columns = shutil.get_terminal_size().columns
    # A terminal that is narrower wraps the lines itself, which loses nothing; a table would cut its cells.
    width = columns if terminal and columns >= _NARROWEST else _UNBOUNDED
    console = Console(file=drawn, force_terminal=terminal, width=width, markup=False, highlight=False, emoji=False)

    def build(gap: int) -> Table:
        table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
        for at, head in enumerate(heads):
            table.add_column(head, justify="right" if at in right else "left", no_wrap=at not in folds, overflow="fold")
        for row in rows:
            table.add_row(*row)
        return table

    table = build(_GAP)
    if Measurement.get(console, console.options.update(width=_UNBOUNDED), table).maximum > console.width:
        table = build(_NARROW_GAP)
    console.print(table)
    return "\n".join(line.rstrip() for line in drawn.getvalue().splitlines())
