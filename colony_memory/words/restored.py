"""What a restore did or would do, as lines for people."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from colony_memory.app.pick import left_out, made_at, stamp
from colony_memory.capture._filenames import listed
from colony_memory.exceptions import ColonyMemoryWarning
from colony_memory.words.text import age, count, few

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from colony_memory.app.content import Filled
    from colony_memory.capture import Written
    from colony_memory.snapshot import SnapshotInfo

_DONE = {"create": "created ", "replace": "replaced", "mode": "set mode", "remove": "removed "}
_PLANNED = {"create": "would create ", "replace": "would replace", "mode": "would set mode", "remove": "would remove "}
_UNSAVED = "saved nowhere"
_IN_USE = "is in use    "
_LEFT = "left as it is"
_SHOWN = 10


def restore_names(written: Written, *, dry_run: bool, verbose: bool) -> list[str]:
    """The files that a restore wrote, or would write, and what stops it.

    Of each kind the first are named, or all where they are asked for; so they are of what one decides by: what would be
    removed, and what is saved nowhere or in use. A plan says of each file that goes where its text is.
    """
    why = {name: f" ({where})" for name, where in written.why.items()} if dry_run else {}
    verb = _PLANNED if dry_run else _DONE
    created = [*written.created, *(f"{name}/" for name in written.directories)]
    lines = few([f"{verb['create']} {name}" for name in created], verbose=verbose)
    lines += few([f"{verb['replace']} {name}{why.get(name, '')}" for name in written.replaced], verbose=verbose)
    removed = [f"{verb['remove']} {name}{why.get(name, '')}" for name in written.removed]
    lines += few(removed, verbose=verbose or dry_run)
    lines += few([f"{verb['mode']} {name}" for name in written.permissions], verbose=verbose)
    masked = [f"{_LEFT} {name} (the snapshot has its secrets masked)" for name in written.left]
    lines += few(masked, verbose=verbose)
    lines += [f"{_UNSAVED} {name}" for name in written.unsaved]
    return [*lines, *(f"{_IN_USE} {name} ({written.why[name]})" for name in written.in_use)]


def restore_lines(
    info: SnapshotInfo | None, written: Written, *, directory: str, dry_run: bool, now: datetime
) -> list[str]:
    """The sum of what a restore did, or would do."""
    named = f"snapshot {info.snapshot_id} of label {info.label}" if info else "a snapshot that the vault does not list"
    lines = [f"would restore {named}; nothing written" if dry_run else f"restored {named}"]
    if info is not None:
        made = made_at(info)
        lines.append(f"made {stamp(made)} ({age(made, now)})")
    return [*lines, f"{directory}: {', '.join(_figures(written, dry_run=dry_run))}"]


def _figures(written: Written, *, dry_run: bool) -> list[str]:
    created, replaced, removed = (
        ("to create", "to replace", "to remove") if dry_run else ("created", "replaced", "removed")
    )
    figures = [f"{len(written.created)} {created}"]
    if written.directories:
        figures.append(count(len(written.directories), "empty folder"))
    figures.append(f"{len(written.replaced)} {replaced}")
    if written.removed:
        figures.append(f"{len(written.removed)} {removed}")
    if written.left:
        figures.append(f"{len(written.left)} left")
    if written.unsaved:
        figures.append(f"{len(written.unsaved)} saved nowhere")
    if written.in_use:
        figures.append(f"{len(written.in_use)} in use")
    return [*figures, f"{len(written.unchanged)} unchanged"]


def refusal_line(written: Written) -> str:
    """Why the restore would be refused."""
    reasons = []
    if written.unsaved:
        reasons.append(f"what {count(len(written.unsaved), 'file')} {_have(written.unsaved)} here is saved nowhere")
    if written.in_use:
        open_ones = f"{count(len(written.in_use), 'file')} {_be(written.in_use)} open"
        reasons.append(f"{open_ones} in {users_line(written)}, to be stopped first")
    return f"it would be refused: {' and '.join(reasons)}"


def users_line(written: Written) -> str:
    """The programs that have open what would change."""
    return listed(list(dict.fromkeys(written.why[name] for name in written.in_use)), most=3)


def _be(names: tuple[str, ...]) -> str:
    return "is" if len(names) == 1 else "are"


def _have(names: tuple[str, ...]) -> str:
    return "has" if len(names) == 1 else "have"


def incomplete_line(info: SnapshotInfo) -> str:
    """That there was more than the snapshot holds."""
    return f"snapshot {info.snapshot_id} is incomplete, {left_out(info)}"


def masked_line(written: Written) -> str:
    """That the files are not what they were when they were saved."""
    names = ", ".join(written.masked[:_SHOWN])
    more = f" and {len(written.masked) - _SHOWN} more" if len(written.masked) > _SHOWN else ""
    return f"secrets were masked when this was saved, put them in again: {names}{more}"


def warn_of_lacks(info: SnapshotInfo, written: Written, filled: Iterable[Filled] = ()) -> None:
    """Say what the folder lacks although the restore is done, and what it has from elsewhere."""
    if info.incomplete:
        warnings.warn(ColonyMemoryWarning(incomplete_line(info)), stacklevel=2)
    for each in filled:
        warnings.warn(ColonyMemoryWarning(str(each)), stacklevel=2)
    if written.masked:
        warnings.warn(ColonyMemoryWarning(masked_line(written)), stacklevel=2)
