"""The verb ``restore``, and its output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colony_memory._engine.session import warn
from colony_memory._format.names import id_order, id_time
from colony_memory._format.record import ATTRIBUTES_NAME
from colony_memory._values import asdict
from colony_memory.capture._filenames import listed
from colony_memory.exceptions import Hint
from colony_memory.shell.app.pick import left_out, made_at, parse_moment, stamp
from colony_memory.shell.app.restore import RestoredFolder, restore_folder
from colony_memory.shell.cli.app import CommonOptions, split_positional
from colony_memory.shell.cli.call import host_of, open_memory, report_host
from colony_memory.shell.words import age, count, few, now_utc, users_line
from colony_memory.shell.words.errors import FAILED, Failure, signals_raise

if TYPE_CHECKING:
    from collections.abc import Iterable

    from colony_memory.capture import Written
    from colony_memory.reports import Salvaged
    from colony_memory.shell.app.content import Filled
    from colony_memory.snapshot import SnapshotInfo

_SHOWN = 10
_SALVAGED = ("snapshot_id", "sources", "missing", "damage", "doc_count")  # without the texts


def run_restore(
    target: list[str],
    *,
    label: str = "default",
    snapshot: str | None = None,
    at: str | None = None,
    only: list[str] | None = None,
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

    colony-memory restore ~/agent/memory
    colony-memory restore latest~1 ./before
    colony-memory restore --dry-run --only 'notes/*' ~/agent/memory
    colony-memory restore --at '3h ago' --snapshot-first ~/agent/memory
    colony-memory restore --dry-run --agent claude-code
    """
    named, directory = split_positional(target, "DIR")
    if at is not None:
        parse_moment(at)  # before the vault is opened
    for is_wrong, why in (
        (not directory, "an empty path"),
        (sum(map(bool, (named, snapshot, at))) > 1, "ID, --snapshot and --at each name a snapshot: give one of them"),
        (delete and only, "--delete would remove everything that --only does not select: give one of them"),
        (delete and (common.agent or exclude), "--delete would remove what a backup of this folder leaves out"),
        (salvage and (delete or merge), "--salvage combines several snapshots: give it without --delete or --merge"),
        (merge and (delete or only or snapshot_first), "--merge joins two whole memories: give it alone"),
    ):
        if is_wrong:
            raise ValueError(why)
    host = host_of(common.agent, directory, kinds=common.kinds)
    with open_memory(common) as opened:
        with opened.working("Restoring from"), signals_raise(first_only=True):
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
                host=host,
                on_progress=opened.progress.steps("writing"),
            )
        info, written, before, salvaged = restored.info, restored.written, restored.before, restored.salvaged
        document = {
            "snapshot": asdict(info),
            "before": None if before is None else asdict(before.info),
            "directory": directory,
            "dry_run": dry_run,
            "filled": [asdict(fill) for fill in restored.filled],
            "salvaged": salvaged if salvaged is None else {name: getattr(salvaged, name) for name in _SALVAGED},
            **asdict(written),
            **({} if host is None else {"not_written": host.left}),
        }
        if before is not None:
            opened.output.report(f"saved what was here as {before.info.snapshot_id} of label {before.info.label}")
            for entry in before.left_out:
                opened.output.warn(f"left out of it: {entry.name}: {entry.reason}")
        lines = restore_lines(restored, directory, dry_run=dry_run, verbose=verbose)
        opened.output.done(document, *lines, dry_run=dry_run)
        warn_of_lacks(info, written, restored.filled)
        if salvaged is not None and salvaged.damage is not None:
            _warn_of_salvage(salvaged)
        if host is not None:
            report_host(host, opened.output)
    if not restored:
        raise refusal(written, saves=snapshot_first)
    return 0 if salvaged is None or salvaged else FAILED


def refusal(written: Written, *, saves: bool) -> Failure:
    """The error of a dry run for a plan that would be refused; ``saves`` if the folder would be saved first."""
    unsaved, in_use = len(written.unsaved), len(written.in_use)
    lost = f"what {count(unsaved, 'file')} {'has' if unsaved == 1 else 'have'} here is saved nowhere"
    lost += ", and would be left out of a save" if saves else ""
    busy = f"{count(in_use, 'file')} {'is' if in_use == 1 else 'are'} open in {users_line(written)}"
    reasons = filter(None, [unsaved and lost, in_use and f"{busy}, to be stopped first"])
    hint = None if in_use or saves else Hint("restore_folder", "snapshot_first", value=True)
    return Failure(f"it would be refused: {' and '.join(map(str, reasons))}", code=FAILED, hint=hint)


def restore_lines(
    restored: RestoredFolder, directory: str, messages: Iterable[str] = (), *, dry_run: bool, verbose: bool
) -> list[str]:
    """The result of a restore or of its dry run: names, only the first of many unless verbose, messages, and totals.

    Names that a decision depends on are all listed: files to be removed, saved nowhere or in use. A dry run says where
    the text of each file that goes is saved.
    """
    info, written = restored.info, restored.written
    why = {name: f" ({where})" for name, where in written.why.items()} if dry_run else {}
    folders, removed = len(written.directories), len(written.removed)
    lines = list[str]()
    for planned, done, names, name_all in (
        ("would create ", "created ", [*written.created, *(f"{name}/" for name in written.directories)], False),
        ("would replace", "replaced", [f"{name}{why.get(name, '')}" for name in written.replaced], False),
        ("would remove ", "removed ", [f"{name}{why.get(name, '')}" for name in written.removed], dry_run),
        ("would set mode", "set mode", written.permissions, False),
    ):
        lines += few([f"{planned if dry_run else done} {name}" for name in names], verbose=verbose or name_all)
    masked = [f"left as it is {name} (the snapshot has its secrets masked)" for name in written.left]
    lines += few(masked, verbose=verbose)
    lines += [f"saved nowhere {name}" for name in written.unsaved]
    lines += [f"is in use     {name} ({written.why[name]})" for name in written.in_use]
    words = ("to create", "to replace", "to remove") if dry_run else ("created", "replaced", "removed")
    figures = (
        f"{len(written.created)} {words[0]}",
        count(folders, "empty folder") if folders else "",
        f"{len(written.replaced)} {words[1]}",
        f"{removed} {words[2]}" if removed else "",
        f"{len(written.left)} left" if written.left else "",
        f"{len(written.unsaved)} saved nowhere" if written.unsaved else "",
        f"{len(written.in_use)} in use" if written.in_use else "",
        f"{len(written.unchanged)} unchanged",
    )
    named = f"snapshot {info.snapshot_id} of label {info.label}"
    return [
        *lines,
        *messages,
        f"would restore {named}; nothing written" if dry_run else f"restored {named}",
        f"made {stamp(made_at(info))} ({age(made_at(info), now_utc())})",
        f"{directory}: {', '.join(filter(None, figures))}",
    ]


def warn_of_lacks(info: SnapshotInfo, written: Written, filled: Iterable[Filled] = ()) -> None:
    """Warn of what the folder lacks after the restore, and of what came from elsewhere."""
    messages = [f"snapshot {info.snapshot_id} is incomplete, {left_out(info)}"] if info.incomplete else []
    messages += map(str, filled)
    if written.masked:
        names = listed(written.masked, most=_SHOWN)
        messages.append(f"secrets were masked when this was saved; put them back in: {names}")
    for message in messages:
        warn(message)


def _warn_of_salvage(salvaged: Salvaged) -> None:
    """Warn of the damage, the age of what was written instead, and what is missing."""
    wanted = salvaged.snapshot_id
    warn(f"snapshot {wanted} is damaged: {salvaged.damage}")
    sources = {name: source for name, source in sorted(salvaged.sources.items()) if name != ATTRIBUTES_NAME}
    for source in sorted({*sources.values()}, key=id_order, reverse=True):
        names, made = [name for name in sources if sources[name] == source], id_time(source)
        when = "" if made is None else f" of {stamp(made)}"
        whose = "from the snapshot itself" if source == wanted else f"from snapshot {source}{when}"
        warn(f"{count(len(names), 'document')} {whose}: {listed(names, most=_SHOWN)}")
    if salvaged.missing:
        warn(f"missing, as no text of it is proven: {listed(list(salvaged.missing), most=_SHOWN)}")
    elif (lost := (salvaged.doc_count or 0) - len(salvaged.sources)) > 0:
        warn(f"missing: {count(lost, 'document')} whose names are no longer known")
