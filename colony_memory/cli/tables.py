"""Tables of the vault for people, fitted to a terminal, and never cut where they go into a file or a pipe."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from colony_memory._values import dataclass
from colony_memory.app.pick import made_at, number_left_out, refused_latest, stamp
from colony_memory.words.text import age, columns_of, count, draws, shown, signer, size, stored, width_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from colony_memory.app.verdict import Protection
    from colony_memory.reports import LabelMap, VaultMap, VerifyReport
    from colony_memory.snapshot import SnapshotInfo


_GAP = 2
_CODES = {"bold": "1", "red": "31", "green": "32", "yellow": "33", "magenta": "35", "cyan": "36"}


@dataclass(frozen=True)
class Column:
    """One column."""

    head: str  # what stands above it
    right: bool = False  # it is aligned to the right
    wraps: bool = False  # the terminal may wrap it, as it is the last
    spare: int = 0  # where the terminal is too narrow, it is left out: the highest first. 0 stays


def is_terminal() -> bool:
    """The answer goes to a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def styled(text: str, style: str) -> str:
    """The text, on a terminal in this style, such as ``bold red``; ``NO_COLOR`` leaves it without the colour."""
    codes = [_CODES[each] for each in style.split() if each == "bold" or "NO_COLOR" not in os.environ]
    return f"\x1b[{';'.join(codes)}m{text}\x1b[0m" if codes and draws(sys.stdout) else text


def draw(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> str:
    """The rows under their heads; a terminal that is too narrow gets fewer columns, which is said below."""
    lines = [[column.head for column in columns], *rows]
    widths = [max(columns_of(line[at]) for line in lines) for at in range(len(columns))]
    kept = list(range(len(columns)))
    spare = sorted((at for at in kept if columns[at].spare), key=lambda at: columns[at].spare)
    needed = [_GAP + (len(each.head) if each.wraps else width) for each, width in zip(columns, widths, strict=True)]
    room = width_of(sys.stdout) + _GAP
    while spare and is_terminal() and sum(needed[at] for at in kept) > room:
        kept.remove(spare.pop())
    drawn = []
    for number, line in enumerate(lines):
        cells = []
        for at in kept:
            blanks = " " * (widths[at] - columns_of(line[at]))
            cells.append(blanks + line[at] if columns[at].right else line[at] + blanks)
        drawn.append(styled((" " * _GAP).join(cells).rstrip(" "), "" if number else "bold"))
    left_out = [column.head for at, column in enumerate(columns) if at not in kept]
    return "\n".join([*drawn, *([f"narrow terminal, not shown: {', '.join(left_out)}"] if left_out else [])])


_SNAPSHOTS = (
    Column("  id"),
    Column("label"),
    Column("created"),
    Column("size", right=True, spare=1),
    Column("stored", right=True, spare=3),
    Column("signed by", spare=2),
)
#: Only where there are any.
_REMARKS = Column("remarks", wraps=True)
_LABELS = (
    Column("label"),
    Column("state"),
    Column("snapshots", right=True),
    Column("newest"),
    Column("oldest", spare=3),
    Column("size", right=True, spare=1),
    Column("stored", right=True, spare=2),
    Column("problems", wraps=True),
)
#: Each fact is a column of the name of its field.
_CHECKS = (
    Column("id"),
    Column("manifest"),
    Column("parts", spare=1),
    Column("digest"),
    Column("signature"),
    Column("trust", spare=2),
    Column("catalog", spare=4),
    Column("chain", spare=3),
)


def snapshot_table(infos: Sequence[SnapshotInfo], *, latest: Collection[str], now: datetime) -> str:
    """One row for each snapshot, in the order given; ``latest`` are the ids to mark.

    The last line says what the mark means, if it is there.
    """
    if not infos:
        return "no snapshots"
    before = {info.shrunk_from for info in infos}
    rows = [
        (
            ("* " if info.snapshot_id in latest else "  ") + shown(info.snapshot_id),
            shown(info.label),
            when(made_at(info), now),
            size_of(info),
            stored(info),
            signer(info),
            ", ".join(_remarks(info, shrank=info.snapshot_id in before)),
        )
        for info in infos
    ]
    shows = len(_SNAPSHOTS) + any(row[-1] for row in rows)
    total = count(len(infos), "snapshot")
    if any(info.snapshot_id in latest for info in infos):
        total += "; * is the latest, which restore gives"
    table = draw((*_SNAPSHOTS, _REMARKS)[:shows], [row[:shows] for row in rows])
    return f"{table}\n{total}"


def size_of(info: SnapshotInfo) -> str:
    """How large a memory is, where that is known."""
    return "not told" if info.encrypted and not info.byte_size else size(info.byte_size)


def _remarks(info: SnapshotInfo, *, shrank: bool) -> list[str]:
    """The remarks on a snapshot, in a few words each; ``shrank`` where it is kept for what followed it."""
    pinned = f"pinned until {info.pinned_until[:10]}" if info.pinned_until else "pinned"
    found = [word for word, is_so in (("encrypted", info.encrypted), (pinned, info.pinned)) if is_so]
    if info.refused:
        found.append("met a conflict")
    if shrank:
        found.append("kept, as much less followed")
    if info.incomplete:
        found.append(f"{number_left_out(info)} left out")
    found += [f"#{tag}" for tag in info.tags]
    return [*found, shown(info.note)] if info.note else found


def label_table(found: VaultMap, verdicts: Mapping[str, Protection], *, now: datetime) -> str:
    """One row for each label, with the verdict on it."""
    rows = [
        (
            shown(each.label),
            verdicts[each.label].state,
            str(each.snapshots),
            when(made_at(each.newest), now) if each.newest else "-",
            when(made_at(each.oldest), now) if each.oldest else "-",
            "not told" if each.snapshots and not each.plain_bytes else size(each.plain_bytes),
            size(each.stored_bytes),
            "; ".join(problems(each)) or ("see below" if verdicts[each.label].problems else "none found"),
        )
        for each in found.labels
    ]
    return draw(_LABELS, rows) if rows else "no snapshots"


def check_table(report: VerifyReport) -> str:
    """One row for each snapshot that was verified; of what only a signature proves, nothing where that is so quiet."""
    columns = _CHECKS[:4] if is_plain(report) else _CHECKS
    facts = [column.head for column in columns[1:]]
    rows = [(shown(each.snapshot_id), *(getattr(each, fact) for fact in facts)) for each in report.snapshots]
    return draw(columns, rows)


def is_plain(report: VerifyReport) -> bool:
    """All of it holds, nobody has signed any of it, and nobody asked who did."""
    quiet = {("missing", "unchecked", "ok"), ("missing", "unchecked", "unchecked")}
    facts = {(each.signature, each.trust, each.catalog) for each in report.snapshots}
    return bool(report) and (report.pointer, report.rollback) == ("unchecked", "unchecked") and facts <= quiet


def problems(label: LabelMap) -> list[str]:
    """The problems of a label, in a few words each."""
    found = []
    refused = refused_latest(label)
    broken = [file for file in label.broken if file != refused]
    if broken:
        found.append(f"{len(broken)} broken")
    if refused is not None:
        found.append("latest refused")
    if label.dangling:
        found.append("no usable pointer")
    if label.newest is not None and label.newest.incomplete:
        found.append(f"newest: {number_left_out(label.newest)} left out")
    if label.orphans:
        found.append(count(len(label.orphans), "leftover file"))
    if label.unmerged:
        found.append(f"{len(label.unmerged)} unmerged")
    if label.unsigned:
        found.append(f"{len(label.unsigned)} older than signing")
    if label.shrunk is not None:
        found.append(f"{label.shrunk.snapshot_id} kept, as much less followed")
    return found


def when(moment: datetime, now: datetime) -> str:
    """For eyes how long ago; in a file, which is read later, the time."""
    return age(moment, now) if is_terminal() else stamp(moment)
