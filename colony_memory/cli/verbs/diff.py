"""The verb ``diff``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from colony_memory.cli.options import (
    Argument,
    CommonOptions,
    LabelOption,
    Option,
    PatchOption,
    VerboseOption,
)

EXAMPLES = (
    "colony-memory diff latest~1 latest",
    "colony-memory diff -p latest ~/agent/memory",
)


def run(
    a: Annotated[str, Argument(metavar="A")],
    b: Annotated[str, Argument(metavar="B")] = "latest",
    *,
    label: LabelOption = "default",
    patch: PatchOption = False,
    exit_code: Annotated[bool, Option("--exit-code", help="Exit with 1 if anything differs.")] = False,
    verbose: VerboseOption = False,
    common: CommonOptions,
) -> int:
    """Show what changed from one snapshot to another, or to a folder.

    A and B are ids as 'show' takes them, or folders; ./latest is the folder of that name. B is by default the latest
    snapshot.
    """
    from colony_memory.app.sides import compare_sides, patch_of, read_side
    from colony_memory.cli.errors import FAILED
    from colony_memory.cli.memory import open_memory
    from colony_memory.cli.summary import diff_lines
    from colony_memory.cli.text import few

    with open_memory(common) as opened:
        with opened.working():
            before, after = (read_side(opened.memory, side, label=label) for side in (a, b))
            found = compare_sides(before, after)
            text = patch_of(before, after) if patch else None
        left_out = [f"left out: {each.name}: {each.reason}" for each in (*before.left_out, *after.left_out)]
        for line in few(left_out, verbose=verbose):
            opened.output.warn(line)
        if common.as_json:
            sides = {"a": before.name, "b": after.name, "differs": bool(found)}
            opened.output.answer_json({**sides, **asdict(found), "patch": text})
        elif text is not None:
            opened.output.answer_patch(text)
        else:
            opened.output.answer("\n".join(diff_lines(found, a=before.title, b=after.title, verbose=verbose)))
    return FAILED if exit_code and found else 0
