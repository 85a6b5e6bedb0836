"""The verb ``restore``, and what it says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colony_memory._values import asdict
from colony_memory.app.pick import left_out, made_at, parse_moment, stamp
from colony_memory.cli.memory import host_of, open_memory, tell_host
from colony_memory.cli.options import split_positional
from colony_memory.cli.output import caution, first_interrupt_only
from colony_memory.exceptions import Hint
from colony_memory.words import age, count, few, now_utc, users_line
from colony_memory.words.errors import FAILED, Failure

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from colony_memory.app.content import Filled
    from colony_memory.capture import Written
    from colony_memory.cli.options import CommonOptions
    from colony_memory.reports import Salvaged
    from colony_memory.snapshot import SnapshotInfo
#: How each verb is used, as its help has it.
EXAMPLES = {
    "restore": (
        "colony-memory restore ~/agent/memory",
        "colony-memory restore latest~1 ./before",
        "colony-memory restore --dry-run --only 'notes/*' ~/agent/memory",
        "colony-memory restore --at '3h ago' --snapshot-first ~/agent/memory",
        "colony-memory restore --dry-run --agent claude-code --project ~/work/app",
    )
}


def run_restore(
    target: list[str],
    *,
    label: str = "default",
    snapshot: str | None = None,
    at: str | None = None,
    only: list[str] | None = None,
    project: str | None = None,
    move: list[str] | None = None,
    force: bool = False,
    merge: bool = False,
    delete: bool = False,
    exclude: list[str] | None = None,
    allow_secret: list[str] | None = None,
    snapshot_first: bool = False,
    dry_run: bool = False,
    verbose: bool = False,
    fallback: bool = False,
    salvage: bool = False,
    no_fill: bool = False,
    common: CommonOptions,
) -> int:
    """ID is a snapshot as 'show' takes it, by default the latest. DIR is the folder; it is made if it is missing, and
    is not needed where --agent says which it is. Files in it that the snapshot does not have are left alone,
    unless --delete is given. What it lacks because it never stood still or could not be read comes from the newest
    snapshot that has it. A file whose text would be lost stops the restore: one that no snapshot has which this folder
    was restored from or saved as; --snapshot-first saves it first. So does what a program has open.
    """
    from colony_memory.app.restore import restore_folder

    named, directory = split_positional(target, "DIR")
    if at is not None:
        parse_moment(at)  # before a vault is asked
    for is_wrong, why in (
        (not directory, "an empty path"),
        (sum(map(bool, (named, snapshot, at))) > 1, "ID, --snapshot and --at each name a snapshot: give one of them"),
        (delete and only, "--delete would remove all that --only does not choose: give one of them"),
        (delete and (common.agent or exclude), "--delete would remove what a backup of this folder leaves out"),
        (salvage and (delete or merge), "--salvage takes of several snapshots: give it without --delete or --merge"),
        (merge and (delete or only or snapshot_first), "--merge joins all of two memories: give it alone"),
    ):
        if is_wrong:
            raise ValueError(why)
    host = host_of(common.agent, directory, kinds=common.kinds, project=project, maps=move)
    with open_memory(common) as opened:
        with opened.working("Restoring from"), first_interrupt_only():
            restored = restore_folder(
                opened.memory,
                directory,
                label=label,
                snapshot=named or snapshot,
                at=at,
                only=only or (),
                force=force,
                delete=delete,
                snapshot_first=snapshot_first,
                merge=merge,
                dry_run=dry_run,
                fallback=fallback,
                salvage=salvage,
                fill=not no_fill,
                exclude=exclude or (),
                allow_secrets=allow_secret or (),
                shape=host,
                on_progress=opened.steps("writing"),
            )
        info, written, before = restored.info, restored.written, restored.before
        left = restored.salvaged
        document = {
            "snapshot": asdict(info),
            "before": None if before is None else asdict(before.info),
            "directory": directory,
            "dry_run": dry_run,
            "filled": [asdict(each) for each in restored.filled],
            "salvaged": left if left is None else {name: getattr(left, name) for name in _SALVAGED},
            **asdict(written),
            **({} if host is None else {"renamed": host.renamed, "not_written": host.left}),
        }
        if before is not None:
            opened.output.report(f"saved what was here as {before.info.snapshot_id} of label {before.info.label}")
            for each in before.left_out:
                opened.output.warn(f"left out of it: {each.name}: {each.reason}")
        opened.output.done(
            document,
            *restore_names(written, dry_run=dry_run, verbose=verbose),
            *restore_lines(info, written, directory=directory, dry_run=dry_run, now=now_utc()),
        )
        warn_of_lacks(info, written, restored.filled)
        warn_of_salvage(left)
        if host is not None:
            tell_host(host, opened.output)
    if not restored:
        hint = Hint("restore_folder", "snapshot_first", value=True) if written.unsaved and not written.in_use else None
        raise Failure(refusal_line(written), code=FAILED, hint=hint)
    return 0 if left is None or left else FAILED


_SHOWN = 10
_SALVAGED = ("snapshot_id", "sources", "missing", "damage", "doc_count")  # without the texts


def restore_names(written: Written, *, dry_run: bool, verbose: bool) -> list[str]:
    """The files that a restore wrote, or would write, and what stops it: the first of each kind, or all.

    What one decides by is named in any case: what would be removed, and what is saved nowhere or in use. A plan says of
    each file that goes where its text is.
    """
    why = {name: f" ({where})" for name, where in written.why.items()} if dry_run else {}
    lines = []
    for planned, done, names, all_of_them in (
        ("would create ", "created ", [*written.created, *(f"{name}/" for name in written.directories)], False),
        ("would replace", "replaced", [f"{name}{why.get(name, '')}" for name in written.replaced], False),
        ("would remove ", "removed ", [f"{name}{why.get(name, '')}" for name in written.removed], dry_run),
        ("would set mode", "set mode", written.permissions, False),
    ):
        lines += few([f"{planned if dry_run else done} {name}" for name in names], verbose=verbose or all_of_them)
    masked = [f"left as it is {name} (the snapshot has its secrets masked)" for name in written.left]
    lines += few(masked, verbose=verbose)
    lines += [f"saved nowhere {name}" for name in written.unsaved]
    return [*lines, *(f"is in use     {name} ({written.why[name]})" for name in written.in_use)]


def restore_lines(info: SnapshotInfo, written: Written, *, directory: str, dry_run: bool, now: datetime) -> list[str]:
    """The sum of what a restore did, or would do."""
    named = f"snapshot {info.snapshot_id} of label {info.label}"
    words = ("to create", "to replace", "to remove") if dry_run else ("created", "replaced", "removed")
    folders, removed = len(written.directories), len(written.removed)
    figures = [
        f"{len(written.created)} {words[0]}",
        count(folders, "empty folder") if folders else "",
        f"{len(written.replaced)} {words[1]}",
        f"{removed} {words[2]}" if removed else "",
        f"{len(written.left)} left" if written.left else "",
        f"{len(written.unsaved)} saved nowhere" if written.unsaved else "",
        f"{len(written.in_use)} in use" if written.in_use else "",
        f"{len(written.unchanged)} unchanged",
    ]
    return [
        f"would restore {named}; nothing written" if dry_run else f"restored {named}",
        f"made {stamp(made_at(info))} ({age(made_at(info), now)})",
        f"{directory}: {', '.join(filter(None, figures))}",
    ]


def refusal_line(written: Written) -> str:
    """Why the restore would be refused."""
    reasons, unsaved, in_use = [], len(written.unsaved), len(written.in_use)
    if unsaved:
        reasons.append(f"what {count(unsaved, 'file')} {'has' if unsaved == 1 else 'have'} here is saved nowhere")
    if in_use:
        open_ones = f"{count(in_use, 'file')} {'is' if in_use == 1 else 'are'} open"
        reasons.append(f"{open_ones} in {users_line(written)}, to be stopped first")
    return f"it would be refused: {' and '.join(reasons)}"


def warn_of_lacks(info: SnapshotInfo, written: Written, filled: Iterable[Filled] = ()) -> None:
    """Say what the folder lacks although the restore is done, and what it has from elsewhere."""
    told = [f"snapshot {info.snapshot_id} is incomplete, {left_out(info)}"] if info.incomplete else []
    told += map(str, filled)
    if written.masked:
        names = ", ".join(written.masked[:_SHOWN])
        more = f" and {len(written.masked) - _SHOWN} more" if len(written.masked) > _SHOWN else ""
        told.append(f"secrets were masked when this was saved, put them in again: {names}{more}")
    for each in told:
        caution(each)


def warn_of_salvage(salvaged: Salvaged | None) -> None:
    """Say what is damaged, from when what was written instead is, and what is missing."""
    from colony_memory._format.names import id_order, id_time
    from colony_memory._format.record import ATTRIBUTES_NAME
    from colony_memory.capture._filenames import listed

    if salvaged is None or salvaged.damage is None:
        return
    wanted = salvaged.snapshot_id
    lines = [f"snapshot {wanted} is damaged: {salvaged.damage}"]
    by_source: dict[str, list[str]] = {}
    for name, source in sorted(salvaged.sources.items()):
        if name != ATTRIBUTES_NAME:
            by_source.setdefault(source, []).append(name)
    for source in sorted(by_source, key=id_order, reverse=True):
        made, names = id_time(source), by_source[source]
        when = "" if made is None else f" of {stamp(made)}"
        whose = "its own, as it was saved" if source == wanted else f"as of snapshot {source}{when}"
        lines.append(f"{count(len(names), 'document')} {whose}: {listed(names, most=_SHOWN)}")
    if salvaged.missing:
        lines.append(f"missing, no text of it is proven: {listed(list(salvaged.missing), most=_SHOWN)}")
    elif (lost := (salvaged.doc_count or 0) - len(salvaged.sources)) > 0:
        lines.append(f"missing: {count(lost, 'document')} whose names are not known any more")
    for line in lines:
        caution(line)
