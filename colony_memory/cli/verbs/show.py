"""The verb ``show``."""
# ruff: noqa: TC001 - typer reads the annotations

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from colony_memory.cli.options import CommonOptions, LabelOption

EXAMPLES = ("colony-memory show latest", "colony-memory show --label research 20261101")


def run(
    snapshot: Annotated[str, typer.Argument(metavar="ID", hidden=True)],
    *,
    label: LabelOption = "default",
    common: CommonOptions,
) -> int:
    """Show one snapshot: when, how large, signed by whom, and the names in it.

    ID is one from 'list', the beginning of one, latest, or latest~2 for the second before it.
    """
    from colony_memory.app.pick import find, with_pin
    from colony_memory.cli.memory import open_memory
    from colony_memory.cli.summary import snapshot_lines
    from colony_memory.cli.text import now_utc

    with open_memory(common) as opened:
        with opened.working():
            info = with_pin(opened.memory, find(opened.memory, snapshot, label=label))
        if common.as_json:
            opened.output.answer_json({"snapshot": asdict(info)})
        else:
            opened.output.answer("\n".join(snapshot_lines(info, now=now_utc())))
    return 0
