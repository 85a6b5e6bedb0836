"""The verb ``status``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from colony_memory.cli.options import (
    Argument,
    CommonOptions,
    ExcludeOption,
    LabelFilter,
    Option,
    VerboseOption,
)

EXAMPLES = (
    "colony-memory status",
    "colony-memory status --quick",
    "colony-memory status ~/agent/memory",
    "colony-memory status --label research --max-age 26h --quiet",
)


def run(
    paths: Annotated[list[str] | None, Argument(metavar="[PATH]")] = None,
    *,
    label: LabelFilter = None,
    exclude: ExcludeOption = None,
    max_age: Annotated[
        str | None,
        Option("--max-age", metavar="TIME", help="Fail if the newest backup is older, such as 90m, 26h or 7d."),
    ] = None,
    quick: Annotated[
        bool, Option("--quick", help="Do not read what is saved: damage does not show, nor does 'protected'.")
    ] = False,
    verbose: VerboseOption = False,
    common: CommonOptions,
) -> int:
    """Tell whether the memory is protected, and what to do if not.

    The newest snapshot of each label is read in full. The first line is the answer: for the label, or of all labels for
    the one that is protected least, and of several such for the stalest. Copies that restores have made, under
    LABEL-before-restore, are asked for by name only. Below stand the vault, each label, the last run of watch on this
    host, and whatever is wrong, each with the command that mends it. The exit code is 3 where nothing is saved. With
    --max-age a monitor needs no more than that: 1 if the newest good backup is older or something puts the memory at
    risk, 4 if the newest is damaged or none is good. Where watch has found the memory unchanged since, its run is what
    counts.

    With PATHs, those that are backed up, it answers for them, by the label that this host saves them under: by how
    much they are ahead of its latest snapshot, what in them has come, gone or changed, and whether the vault is on
    their disk. That something is ahead is no failure, however old it is: how long it may stay so is what --max-age
    says. Where nothing that is there is saved, that is one.
    """
    from colony_memory.app.durations import parse_duration
    from colony_memory.app.protection import check_protection
    from colony_memory.cli.hosts import tell_elsewhere
    from colony_memory.cli.memory import open_memory
    from colony_memory.cli.protection import failing, status_document, status_lines
    from colony_memory.cli.text import now_utc

    limit = None if max_age is None else parse_duration(max_age)
    if exclude and not paths:
        raise ValueError("--exclude is for the PATHs that are looked at: give them, or leave it out")
    tell_elsewhere(common.agent, paths or (), common.output)
    with open_memory(common) as opened:
        place = opened.place
        given = {**asdict(common), "paths": paths}
        with opened.working():
            checked = check_protection(
                opened.memory,
                url=place.url,
                label=label,
                paths=paths or (),
                exclude=exclude or (),
                quick=quick,
                max_age=limit,
                now=now_utc(),
            )
        given |= {"paths_label": checked.verdict.label, "folders": checked.folders}
        if common.as_json:
            opened.output.answer_json(status_document(checked, url=place.url, max_age=limit, given=given))
        elif not (common.quiet and limit):
            lines = status_lines(checked, place=place, now=now_utc(), given=given, verbose=verbose)
            opened.output.answer("\n".join(lines))
        failure = failing(checked, place=place, max_age=limit, given=given)
        if failure is not None:
            raise failure
    return 0
