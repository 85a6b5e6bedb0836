"""The verb ``list``."""
# ruff: noqa: TC001 - typer reads the annotations

from __future__ import annotations

from dataclasses import asdict
from itertools import islice
from typing import Annotated

import typer

from colony_memory.cli.options import CommonOptions, LabelFilter

EXAMPLES = (
    "colony-memory list",
    "colony-memory list --label research --json",
    "colony-memory list --tag release",
)


def run(
    *,
    label: LabelFilter = None,
    tag: Annotated[
        list[str] | None,
        typer.Option("--tag", metavar="NAME", help="Only what is filed under this. Repeatable: under all of them."),
    ] = None,
    common: CommonOptions,
) -> int:
    """Show the snapshots in the vault, newest first.

    Where other verbs take an ID, the beginning of one is enough, as long as no other begins so. The latest is also
    called latest, the one before it latest~1.
    """
    from colony_memory._format.tags import check_tags
    from colony_memory.app.pick import latest_ids
    from colony_memory.cli.commands import command
    from colony_memory.cli.memory import open_memory
    from colony_memory.cli.tables import snapshot_table
    from colony_memory.cli.text import FEW, now_utc, shown

    wanted = set(check_tags(tag or ()))
    with open_memory(common) as opened:
        with opened.working():
            infos = opened.memory.list_snapshots(label=label)
            latest = latest_ids(opened.memory, infos)
        followed = {info.label for info in infos if info.snapshot_id in latest}
        infos = [info for info in infos if wanted.issubset(info.tags)]
        if common.as_json:
            opened.output.answer_json({"snapshots": [asdict(info) for info in infos]})
        else:
            opened.output.answer(snapshot_table(infos, latest=latest, now=now_utc()))
            refused = {info.label: info.snapshot_id for info in reversed(infos) if info.label not in followed}
            for name, newest in islice(refused.items(), FEW):
                restore = command("restore", newest, "DIR", label=name, given=vars(common))
                opened.output.answer(
                    f"label {shown(name)}: restore refuses the latest; it takes a snapshot by its id: {restore}"
                )
    return 0
