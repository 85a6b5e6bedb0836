"""What a verb did or found, as lines for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colony_memory.app.facts import count_left_out, made_at, stamp
from colony_memory.capture._metadata import METADATA_NAME
from colony_memory.cli.grid import styled
from colony_memory.cli.tables import check_table
from colony_memory.cli.text import age, count, shown, size, stored
from colony_memory.retention import newest_first

if TYPE_CHECKING:
    from datetime import datetime

    from colony_memory.reports import SnapshotDiff, VerifyReport
    from colony_memory.retention import PrunePlan
    from colony_memory.snapshot import SnapshotInfo


def backup_lines(info: SnapshotInfo, *, left_out: int, now: datetime) -> list[str]:
    """What a backup saved, or that there was nothing new to save."""
    named = f"snapshot {info.snapshot_id} of label {info.label}"
    more = f", {left_out} left out" if left_out else ""
    what = f"{count(len(info.doc_names), 'document')}{more}, {size(info.byte_size)}, stored as {stored(info)}"
    if not info.reused:
        return [f"saved {named}", what]
    made = made_at(info)
    return [f"unchanged since {stamp(made)} ({age(made, now)}); nothing written", f"latest is {named}", what]


def diverged_line(info: SnapshotInfo, *, joined: bool) -> str:
    """That another client has saved in between, and what became of its snapshot."""
    other = f"snapshot {info.diverged_from}, which another client saved meanwhile"
    if joined and (info.head or info.reused):
        twice = f"; kept beside yours: {', '.join(info.merged)}" if info.merged else ""
        return f"joined with {other}{twice}; restore to get both"
    if info.head:
        return f"this is the latest now, in the place of {other}"
    return f"saved, and the latest is {other}"


def snapshot_lines(info: SnapshotInfo, *, now: datetime) -> list[str]:
    """One snapshot, and the names in it."""
    made = made_at(info)
    facts = [
        ("snapshot", info.snapshot_id + (", the latest" if info.head else "")),
        ("label", info.label),
        ("made", f"{stamp(made)} ({age(made, now)})"),
        ("signed by", (info.issuer or "?") if info.signed else "nobody"),
        ("size", f"{size(info.byte_size)}, stored as {stored(info)} in {count(info.part_count, 'part')}"),
        ("sha256", info.plaintext_sha256.removeprefix("sha256:")),
        ("format", info.format + (", encrypted" if info.encrypted else "")),
        *([("after", info.parent_id)] if info.parent_id else []),
        *([("pinned", "kept until it is unpinned")] if info.pinned else []),
        *([("note", info.note)] if info.note else []),
        *([("incomplete", f"{count_left_out(info)} left out")] if info.incomplete else []),
    ]
    width = max(len(name) for name, _ in facts)
    lines = [f"{name:{width}}  {value}" for name, value in facts]
    lines += ["", f"{count(len(info.doc_names), 'document')}:", *map(_document, sorted(info.doc_names))]
    if info.incomplete:
        lines += ["", "left out:", *info.incomplete]
    return list(map(shown, lines))


def _document(name: str) -> str:
    return f"{name}  (what text cannot hold: other bytes, empty folders)" if name == METADATA_NAME else name


def diff_lines(found: SnapshotDiff, *, a: str, b: str) -> list[str]:
    """What is compared, each name that differs with a sign before it, and the sum."""
    lines = [(name, styled(f"+ {shown(name)}", "green")) for name in found.added]
    lines += [(name, styled(f"- {shown(name)}", "red")) for name in found.removed]
    lines += [(name, f"~ {shown(name)}  +{each.added} -{each.removed} lines") for name, each in found.changed.items()]
    total = (
        f"{len(found.added)} added, {len(found.removed)} removed, {len(found.changed)} changed, "
        f"{found.unchanged} the same"
    )
    return [shown(f"from {a}"), shown(f"to   {b}"), *(line for _, line in sorted(lines)), total]


def plan_lines(plan: PrunePlan, *, label: str, now: datetime) -> list[str]:
    """What a prune keeps and why, and what it deletes."""
    lines = []
    going = {info.snapshot_id for info in plan.remove}
    for info in newest_first([*plan.keep, *plan.remove]):
        why = ", ".join(plan.reasons.get(info.snapshot_id, ()))
        if info.snapshot_id in going:
            named = f"delete  {info.snapshot_id} ({age(made_at(info), now)})" + (f": {why}" if why else "")
            lines.append(styled(shown(named), "red"))
        else:
            lines.append(shown(f"keep    {info.snapshot_id} ({age(made_at(info), now)}): {why}"))
    lines += [f"keep    {shown(file)} (cannot be read or is not trusted)" for file in plan.unread]
    lines += [styled(f"delete  {shown(file)} (left over)", "red") for file in plan.orphans]
    return [*lines, f"label {shown(label)}: {plan_total(plan)}"]


def plan_total(plan: PrunePlan) -> str:
    """How much a prune keeps and deletes."""
    files = f" and {count(len(plan.orphans), 'leftover file')}" if plan.orphans else ""
    return f"{len(plan.keep)} to keep, {len(plan.remove)}{files} to delete"


def verify_lines(report: VerifyReport) -> list[str]:
    """What was checked of each snapshot, and what is wrong."""
    found = [each.problem for each in report.snapshots if each.problem] + ([report.problem] if report.problem else [])
    found += [f"snapshot {each} was listed and is gone" for each in report.removed]
    found += [f"snapshot {each} is not what a trusted issuer made" for each in report.forged]
    good = sum(map(bool, report.snapshots))
    total = (
        f"label {report.label}: {good} of {count(len(report.snapshots), 'snapshot')} good, "
        f"pointer {report.pointer}, rollback {report.rollback}"
    )
    return [check_table(report), *(f"problem  {shown(each)}" for each in dict.fromkeys(found)), shown(total)]
