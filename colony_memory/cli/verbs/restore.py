"""The verb ``restore``."""
# ruff: noqa: TC001 - typer reads the annotations

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timezone
from typing import Annotated

import typer

from colony_memory.cli.options import CommonOptions, LabelOption

EXAMPLES = (
    "colony-memory restore ~/agent/memory",
    "colony-memory restore --dry-run --only 'notes/*' ~/agent/memory",
)


def run(
    directory: Annotated[str, typer.Argument(metavar="DIR", hidden=True)],
    *,
    label: LabelOption = "default",
    snapshot: Annotated[
        str | None,
        typer.Option("--snapshot", metavar="ID", help="A certain snapshot, from 'list'. Default: the latest."),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="GLOB", help="Only files whose path matches; * matches / too. Repeatable."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that changed after the snapshot.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", "-n", help="Show what would be done.")] = False,
    fallback: Annotated[
        bool, typer.Option("--fallback", help="Where the snapshot is damaged, take the newest intact one.")
    ] = False,
    common: CommonOptions,
) -> int:
    """Write a snapshot's files into a folder, all or none.

    DIR is the folder; it is made if it is missing. Files in it that the snapshot does not have are left alone. A
    file that differs and was changed after the snapshot was made stops the restore, unless --force is given.
    """
    from colony_memory.capture import write_folder
    from colony_memory.cli.chosen import fetch, narrow
    from colony_memory.cli.memory import open_memory
    from colony_memory.cli.summary import restore_lines
    from colony_memory.cli.text import made_at, now_utc

    if not directory:
        raise ValueError("an empty path")
    with open_memory(common) as opened:
        with opened.working("Restoring from"):
            found = fetch(opened.memory, label=label, snapshot_id=snapshot, fallback=fallback)
            written = write_folder(
                narrow(found.documents, only) if only else found.documents,
                directory,
                newer_than=made_at(found.info) if found.info else datetime.min.replace(tzinfo=timezone.utc),
                force=force,
                dry_run=dry_run,
            )
        if common.as_json:
            summary = asdict(found.info) if found.info else None
            opened.output.answer_json(
                {"snapshot": summary, "directory": directory, "dry_run": dry_run, **asdict(written)}
            )
        opened.output.report(*restore_lines(found.info, written, directory=directory, dry_run=dry_run, now=now_utc()))
    return 0
