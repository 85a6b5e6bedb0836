"""The verb ``log``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from colony_memory.cli.options import (
    Argument,
    CommonOptions,
    LabelOption,
    PatchOption,
)

EXAMPLES = ("colony-memory log notes/a.md", "colony-memory log -p notes/a.md")


def run(
    name: Annotated[str, Argument(metavar="NAME")],
    *,
    label: LabelOption = "default",
    patch: PatchOption = False,
    common: CommonOptions,
) -> int:
    """Show what became of one file, from snapshot to snapshot.

    NAME is one that 'show' lists. The newest change comes first. Every snapshot of the label is read, two files for
    most; those that cannot be are named, and what changed there shows in the next.
    """
    from colony_memory.app.past import file_history
    from colony_memory.cli.memory import open_memory
    from colony_memory.cli.patches import history_lines, history_patches
    from colony_memory.cli.text import now_utc

    if not name:
        raise ValueError("an empty name")
    with open_memory(common) as opened:
        with opened.working():
            found = file_history(opened.memory, name, label=label, patch=patch)
        if common.as_json:
            opened.output.answer_json(asdict(found))
        elif patch:
            opened.output.answer_patch(history_patches(found, now=now_utc()))
        else:
            opened.output.answer("\n".join(history_lines(found, now=now_utc())))
    return 0
