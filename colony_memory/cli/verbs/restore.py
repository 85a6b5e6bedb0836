"""The verb ``restore``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from colony_memory.cli.options import (
    AllowSecretOption,
    Argument,
    CommonOptions,
    DryRunOption,
    LabelOption,
    MapOption,
    NoFillOption,
    Option,
    ProjectOption,
    VerboseOption,
)
from colony_memory.exceptions import Hint
from colony_memory.words.errors import FAILED, Failure
from colony_memory.words.text import now_utc

RESTORE_EXAMPLES = (
    "colony-memory restore ~/agent/memory",
    "colony-memory restore latest~1 ./before",
    "colony-memory restore --dry-run --only 'notes/*' ~/agent/memory",
    "colony-memory restore --at '3h ago' --snapshot-first ~/agent/memory",
    "colony-memory restore --dry-run --agent claude-code --project ~/work/app",
)


def run_restore(
    target: Annotated[list[str], Argument("[ID] DIR")],
    *,
    label: LabelOption = "default",
    snapshot: Annotated[str | None, Option("--snapshot ID", "The same as ID.")] = None,
    at: Annotated[
        str | None,
        Option(
            "--at TIME",
            "The newest that is not after this time: 2026-11-01T12:00 (local; add Z for UTC), a day, 3h ago, or "
            "as 'list' shows it.",
        ),
    ] = None,
    only: Annotated[
        list[str] | None, Option("--only GLOB", "Only files whose path matches; * matches / too. Repeatable.")
    ] = None,
    lens: Annotated[  # noqa: ARG001 - it is among --only by now
        str | None, Option("--lens NAME", "Only files that the globs of this lens of the file match.")
    ] = None,
    project: ProjectOption = None,
    move: MapOption = None,
    force: Annotated[
        bool,
        Option("--force", "Replace what is saved nowhere, what a program has open, and real secrets by masked ones."),
    ] = False,
    merge: Annotated[bool, Option("--merge", "Join the snapshot with what DIR holds, and take nothing away.")] = False,
    delete: Annotated[bool, Option("--delete", "Also remove files that the snapshot does not have.")] = False,
    exclude: Annotated[
        list[str] | None,
        Option("--exclude GLOB", "With --snapshot-first, leave out of it what 'backup' leaves out so."),
    ] = None,
    allow_secret: AllowSecretOption = None,
    snapshot_first: Annotated[
        bool, Option("--snapshot-first", "First save what DIR holds, under the label LABEL-before-restore.")
    ] = False,
    dry_run: DryRunOption = False,
    verbose: VerboseOption = False,
    fallback: Annotated[
        bool, Option("--fallback", "Where the snapshot is damaged, take the newest intact one.")
    ] = False,
    salvage: Annotated[
        bool,
        Option(
            "--salvage",
            "Where the snapshot is damaged, take of each file the newest text that is proven, and tell from when.",
        ),
    ] = False,
    no_fill: NoFillOption = False,
    common: CommonOptions,
) -> int:
    """Write a snapshot's files into a folder, all or none.

    ID is a snapshot as 'show' takes it, by default the latest. DIR is the folder; it is made if it is missing, and is
    not needed where a set or an agent says which it is. Files in it that the snapshot does not have are left alone,
    unless --delete is given. What it lacks because it never stood still or could not be read comes from the newest
    snapshot that has it. A file whose text would be lost stops the restore: one that no snapshot has which this
    folder was restored from or saved as; --snapshot-first saves it first. So does what a program has open.
    """
    from colony_memory.app.pick import parse_moment
    from colony_memory.app.restore import restore_folder
    from colony_memory.cli.memory import host_of, open_memory, tell_host
    from colony_memory.cli.options import split_positional
    from colony_memory.cli.output import first_interrupt_only
    from colony_memory.cli.summary import (
        refusal_line,
        restore_lines,
        restore_names,
        salvaged_facts,
        warn_of_lacks,
        warn_of_salvage,
    )

    named, directory = split_positional(target, "DIR")
    if not directory:
        raise ValueError("an empty path")
    if sum(map(bool, (named, snapshot, at))) > 1:
        raise ValueError("ID, --snapshot and --at each name a snapshot: give one of them")
    if delete and only:
        raise ValueError("--delete would remove all that --only does not choose: give one of them")
    if delete and (common.agent or exclude):
        raise ValueError("--delete would remove what a backup of this folder leaves out: remove by hand what has to go")
    if at is not None:
        parse_moment(at)  # before a vault is asked
    if salvage and (delete or merge):
        raise ValueError("--salvage writes what is left, of several snapshots: give it without --delete or --merge")
    if merge and (delete or only or snapshot_first):
        raise ValueError("--merge joins all of two memories, and takes nothing away: give it alone")
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
        if common.as_json:
            opened.output.answer_json(
                {
                    "snapshot": asdict(info),
                    "before": None if before is None else asdict(before.info),
                    "directory": directory,
                    "dry_run": dry_run,
                    "filled": [asdict(each) for each in restored.filled],
                    "salvaged": salvaged_facts(restored.salvaged),
                    **asdict(written),
                    **({} if host is None else {"renamed": host.renamed, "not_written": host.left}),
                }
            )
        if before is not None:
            opened.output.report(f"saved what was here as {before.info.snapshot_id} of label {before.info.label}")
            for each in before.left_out:
                opened.output.warn(f"left out of it: {each.name}: {each.reason}")
        opened.output.report(
            *restore_lines(info, written, directory=directory, dry_run=dry_run, now=now_utc()),
            names=restore_names(written, dry_run=dry_run, verbose=verbose),
        )
        warn_of_lacks(info, written, restored.filled)
        warn_of_salvage(restored.salvaged)
        if host is not None:
            tell_host(host, opened.output)
    if not restored:
        hint = Hint("restore_folder", "snapshot_first", value=True) if written.unsaved and not written.in_use else None
        raise Failure(refusal_line(written), code=FAILED, hint=hint)
    return 0 if restored.salvaged is None or restored.salvaged else FAILED
