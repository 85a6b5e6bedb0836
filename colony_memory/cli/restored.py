"""Pure: what a restore did or would do, as lines for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colony_memory.cli.text import age, count, made_at, stamp

if TYPE_CHECKING:
    from datetime import datetime

    from colony_memory.capture import Written
    from colony_memory.snapshot import SnapshotInfo

_DONE = {"create": "created ", "replace": "replaced", "keep": "kept    ", "remove": "removed "}
_PLANNED = {"create": "would create ", "replace": "would replace", "keep": "would keep   ", "remove": "would remove "}
_NEWER = "is newer here"
_SHOWN = 10


def restore_lines(
    info: SnapshotInfo | None, written: Written, *, directory: str, dry_run: bool, now: datetime
) -> list[str]:
    """Each file that a restore wrote, or would write, what stops it, and the sum of it."""
    verb = _PLANNED if dry_run else _DONE
    lines = [f"{verb['create']} {name}" for name in written.created]
    lines += [f"{verb['create']} {name}/" for name in written.directories]
    lines += [f"{verb['replace']} {name}" for name in written.replaced]
    lines += [f"{verb['remove']} {name}" for name in written.removed]
    lines += [f"{verb['keep']} {name}" for name in written.kept]
    lines += [f"{_NEWER} {name}" for name in written.conflicts]
    named = f"snapshot {info.snapshot_id} of label {info.label}" if info else "a snapshot that the vault does not list"
    lines.append(f"would restore {named}; nothing written" if dry_run else f"restored {named}")
    if info is not None:
        made = made_at(info)
        lines.append(f"made {stamp(made)} ({age(made, now)})")
    return [*lines, f"{directory}: {', '.join(_figures(written, dry_run=dry_run))}"]


def _figures(written: Written, *, dry_run: bool) -> list[str]:
    created, replaced = ("to create", "to replace") if dry_run else ("created", "replaced")
    figures = [f"{len(written.created)} {created}"]
    if written.directories:
        figures.append(count(len(written.directories), "empty folder"))
    figures.append(f"{len(written.replaced)} {replaced}")
    if written.kept:
        figures.append("1 local copy" if len(written.kept) == 1 else f"{len(written.kept)} local copies")
    if written.conflicts:
        figures.append(f"{len(written.conflicts)} newer here")
    return [*figures, f"{len(written.unchanged)} unchanged"]


def conflict_line(written: Written) -> str:
    """Why the restore would be refused."""
    files = count(len(written.conflicts), "file")
    was = "is" if len(written.conflicts) == 1 else "are"
    return (
        f"it would be refused: {files} {was} newer here than the snapshot; --force replaces them, "
        "--force --keep-local keeps copies"
    )


def masked_line(written: Written) -> str:
    """That the files are not what they were when they were saved."""
    names = ", ".join(written.masked[:_SHOWN])
    more = f" and {len(written.masked) - _SHOWN} more" if len(written.masked) > _SHOWN else ""
    return f"warning: secrets were masked when this was saved, put them in again: {names}{more}"
