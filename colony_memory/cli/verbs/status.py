"""The verb ``status``."""
# ruff: noqa: TC001 - typer reads the annotations

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from colony_memory.cli.options import CommonOptions, ExcludeOption, LabelFilter, VerboseOption

EXAMPLES = (
    "colony-memory status",
    "colony-memory status --quick",
    "colony-memory status ~/agent/memory",
    "colony-memory status --label research --max-age 26h --quiet",
)


def run(
    paths: Annotated[list[str] | None, typer.Argument(metavar="[PATH]", hidden=True)] = None,
    *,
    label: LabelFilter = None,
    exclude: ExcludeOption = None,
    max_age: Annotated[
        str | None,
        typer.Option("--max-age", metavar="TIME", help="Fail if the newest backup is older, such as 90m, 26h or 7d."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Do not read what is saved: damage does not show, nor does 'protected'.")
    ] = False,
    verbose: VerboseOption = False,
    common: CommonOptions,
) -> int:
    """Tell whether the memory is protected, and what to do if not.

    The newest snapshot of each label is read in full. The first line is the answer. Below stand the vault, each label,
    the last run of watch on this host, and whatever is wrong, each with the command that mends it. With --max-age a
    monitor needs no more than the exit code: 1 if the newest good backup is older or something puts the memory at
    risk, 3 if there is no good one, 4 if the newest is damaged. Where watch has found the memory unchanged since, its
    run is what counts.

    With PATHs, those that are backed up, it also tells what in them is not saved yet: what has come, gone or changed
    since the latest snapshot of the label, by default the label "default". That is no failure, however old it is: how
    long something may stay unsaved is what --max-age says.
    """
    from colony_memory.app.durations import parse_duration
    from colony_memory.app.preview import find_unsaved
    from colony_memory.app.protection import check_protection
    from colony_memory.cli.errors import FAILED, NOT_PROVEN, NOTHING_SAVED, Failure
    from colony_memory.cli.hosts import tell_elsewhere
    from colony_memory.cli.memory import open_memory
    from colony_memory.cli.standing import at_risk, status_document, status_lines, too_old, unsaved_lines
    from colony_memory.cli.text import now_utc

    limit = None if max_age is None else parse_duration(max_age)
    if exclude and not paths:
        raise ValueError("--exclude is for the PATHs that are looked at: give them, or leave it out")
    tell_elsewhere(common.agent, paths or (), common.output)
    with open_memory(common) as opened:
        url, of = opened.place.url, label or "default"
        given = {**asdict(common), "paths": paths, "paths_label": of}
        with opened.working():
            checked = check_protection(opened.memory, url=url, label=label, quick=quick, max_age=limit, now=now_utc())
            unsaved = None
            if paths:
                unsaved = find_unsaved(opened.memory, paths, label=of, exclude=exclude or ())
        verdict = checked.verdict
        if common.as_json:
            opened.output.answer_json(status_document(checked, unsaved, url=url, max_age=limit, given=given))
        elif not (common.quiet and limit):
            told = [] if unsaved is None else unsaved_lines(unsaved, label=of, verbose=verbose)
            opened.output.answer("\n".join(status_lines(checked, told, url=url, now=now_utc(), given=given)))
        if limit and verdict.stale:
            if verdict.newest is None:
                raise Failure("there is no good backup", code=NOTHING_SAVED)
            raise Failure(too_old(verdict, limit), code=FAILED)
        if limit and verdict.state == "at risk":
            raise Failure(at_risk(verdict, given), code=NOT_PROVEN if checked.damaged else FAILED)
    return 0
