"""The verb ``backup``."""
# ruff: noqa: TC001 - typer reads the annotations

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from colony_memory.cli.options import CommonOptions, LabelOption

EXAMPLES = (
    "colony-memory backup ~/agent/memory",
    "colony-memory backup --label research --keep 10 MEMORY.md notes/",
)


def run(
    paths: Annotated[list[str], typer.Argument(metavar="PATH", hidden=True)],
    *,
    label: LabelOption = "default",
    keep: Annotated[
        int | None,
        typer.Option("--keep", metavar="N", min=1, help="Then keep only the newest N snapshots of the label."),
    ] = None,
    common: CommonOptions,
) -> int:
    """Save folders and files as a new snapshot.

    Each PATH is a folder or a file. A folder's files are saved under their path inside it, byte for byte; links
    are not followed. Where nothing has changed, nothing is written. What cannot be read is left out and named,
    and the exit code is then 1.
    """
    from colony_memory.capture import read_paths
    from colony_memory.cli.errors import FAILED
    from colony_memory.cli.memory import open_memory
    from colony_memory.cli.summary import backup_lines
    from colony_memory.cli.text import now_utc
    from colony_memory.cli.vault import refuse_vault_inside

    if "" in paths:
        raise ValueError("an empty path")
    with open_memory(common) as opened:
        refuse_vault_inside(opened.place, paths)
        with opened.working("Saving to"):
            capture = read_paths(paths)
            info = opened.memory.backup(capture.documents, label=label, prune_keep=keep)
        left_out = capture.left_out
        if common.as_json:
            opened.output.answer_json({"snapshot": asdict(info), "left_out": [asdict(each) for each in left_out]})
        opened.output.report(*backup_lines(info, left_out=len(left_out), now=now_utc()))
        for each in left_out:
            opened.output.warn(f"left out: {each.name}: {each.reason}")
    return FAILED if left_out else 0
