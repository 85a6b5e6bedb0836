"""The verb ``status``."""
# ruff: noqa: TC001 - typer reads the annotations

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Annotated

import typer

from colony_memory.cli.options import CommonOptions, LabelFilter

EXAMPLES = (
    "colony-memory status",
    "colony-memory status --quick",
    "colony-memory status --label research --max-age 26h --quiet",
)


def run(
    *,
    label: LabelFilter = None,
    max_age: Annotated[
        str | None,
        typer.Option("--max-age", metavar="TIME", help="Fail if the newest backup is older, such as 90m, 26h or 7d."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Do not read what is saved: damage does not show, nor does 'protected'.")
    ] = False,
    common: CommonOptions,
) -> int:
    """Tell whether the memory is protected, and what to do if not.

    The newest snapshot of each label is read in full. The first line is the answer. Below stand the vault, each label,
    the last run of watch on this host, and everything that is wrong with the command that mends it. With --max-age a
    monitor needs no more than the exit code: 1 if the newest good backup is older or something puts the memory at
    risk, 3 if there is no good one, 4 if the newest is damaged. Where watch has found the memory unchanged since, its
    run is what counts.
    """
    from colony_memory.cli.durations import parse_duration
    from colony_memory.cli.errors import FAILED, NOT_PROVEN, NOTHING_SAVED, Failure
    from colony_memory.cli.memory import open_memory
    from colony_memory.cli.standing import at_risk, last_runs, status_document, status_lines, too_old
    from colony_memory.cli.text import now_utc
    from colony_memory.protection import assess, read_newest
    from colony_memory.snapshot import require_label

    wanted = None if label is None else require_label(label)
    limit = None if max_age is None else parse_duration(max_age)
    with open_memory(common) as opened:
        with opened.working():
            found = opened.memory.inspect()
            found = replace(found, labels=tuple(each for each in found.labels if wanted in (None, each.label)))
            read = {} if quick else read_newest(opened.memory, found)
        url, given = opened.place.url, asdict(common)
        watched = last_runs(url, [wanted] if wanted else [each.label for each in found.labels])
        confirmed = {run.snapshot_id: run.when for run in watched.values() if run.ok and run.snapshot_id}
        verdict = assess(found, now=now_utc(), max_age=limit, read=read, confirmed=confirmed)
        if common.as_json:
            opened.output.answer_json(status_document(found, verdict, watched, url=url, max_age=limit, given=given))
        elif not (common.quiet and limit):
            opened.output.answer("\n".join(status_lines(found, verdict, watched, url=url, now=now_utc(), given=given)))
        if limit and verdict.stale:
            if verdict.newest is None:
                raise Failure("there is no good backup", code=NOTHING_SAVED)
            raise Failure(too_old(verdict, limit), code=FAILED)
        if limit and verdict.state == "at risk":
            damaged = any(each.damaged for each in read.values())
            raise Failure(at_risk(verdict, given), code=NOT_PROVEN if damaged else FAILED)
    return 0
