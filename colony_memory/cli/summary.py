"""Pure: what a backup or a restore did, as lines for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colony_memory.cli.text import age, count, made_at, size, stamp, stored

if TYPE_CHECKING:
    from datetime import datetime

    from colony_memory.capture import Written
    from colony_memory.reports import VaultMap
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


def restore_lines(
    info: SnapshotInfo | None, written: Written, *, directory: str, dry_run: bool, now: datetime
) -> list[str]:
    """Each file that a restore wrote, or would write, and the sum of it."""
    create, replace = ("would create ", "would replace") if dry_run else ("created ", "replaced")
    lines = [f"{create} {name}" for name in written.created]
    lines += [f"{create} {name}/" for name in written.directories]
    lines += [f"{replace} {name}" for name in written.replaced]
    named = f"snapshot {info.snapshot_id} of label {info.label}" if info else "a snapshot that the vault does not list"
    lines.append(f"would restore {named}; nothing written" if dry_run else f"restored {named}")
    if info is not None:
        made = made_at(info)
        lines.append(f"made {stamp(made)} ({age(made, now)})")
    created, replaced = ("to create", "to replace") if dry_run else ("created", "replaced")
    folders = f", {count(len(written.directories), 'empty folder')}" if written.directories else ""
    lines.append(
        f"{directory}: {len(written.created)} {created}{folders}, {len(written.replaced)} {replaced}, "
        f"{len(written.unchanged)} unchanged"
    )
    return lines


def warning_lines(found: VaultMap) -> list[str]:
    """What is wrong in a vault."""
    lines = [] if found.complete else ["warning: the vault did not list all of its files: there may be more"]
    lines += [f"warning: label {each.label}: {problem}" for each in found.labels for problem in each.broken.values()]
    return lines
