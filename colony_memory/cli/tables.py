"""What the vault holds, as tables for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colony_memory.app.facts import made_at, number_left_out, refused_latest, stamp
from colony_memory.cli.grid import Column, draw, is_terminal
from colony_memory.cli.text import age, count, shown, signer, size, stored

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from colony_memory.app.verdict import Protection
    from colony_memory.reports import LabelMap, VaultMap, VerifyReport
    from colony_memory.snapshot import SnapshotInfo

_SNAPSHOTS = (
    Column("  id"),
    Column("label", folds=8),
    Column("created"),
    Column("size", right=True, spare=1),
    Column("stored", right=True, spare=3),
    Column("signed by", spare=2),
)
#: Only where there are any.
_REMARKS = Column("remarks", folds=10)
_LABELS = (
    Column("label", folds=8),
    Column("state", folds=9),
    Column("snapshots", right=True),
    Column("newest"),
    Column("oldest", spare=3),
    Column("size", right=True, spare=1),
    Column("stored", right=True, spare=2),
    Column("problems", folds=16),
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
    """What is special about a snapshot, in a few words each; ``shrank`` where it is kept for what followed it."""
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
            "; ".join(problems(each)) or "none found",
        )
        for each in found.labels
    ]
    return draw(_LABELS, rows) if rows else "no snapshots"


def check_table(report: VerifyReport) -> str:
    """One row for each snapshot that was verified."""
    facts = [column.head for column in _CHECKS[1:]]
    rows = [(shown(each.snapshot_id), *(getattr(each, fact) for fact in facts)) for each in report.snapshots]
    return draw(_CHECKS, rows)


def problems(label: LabelMap) -> list[str]:
    """What is wrong with a label, in a few words each."""
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
