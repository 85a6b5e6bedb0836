"""The verb ``grep``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from colony_memory.cli.options import (
    Argument,
    CommonOptions,
    LabelOption,
    Option,
)

EXAMPLES = ("colony-memory grep 'two years'", "colony-memory grep -F -i 'two years.'")


def run(
    pattern: Annotated[str, Argument(metavar="PATTERN")],
    *,
    label: LabelOption = "default",
    fixed: Annotated[bool, Option("--fixed", "-F", help="Take PATTERN as plain text.")] = False,
    ignore_case: Annotated[bool, Option("--ignore-case", "-i", help="Ignore case.")] = False,
    common: CommonOptions,
) -> int:
    """Find lines in all snapshots, and when each came and went.

    PATTERN is a regular expression of Python, looked for in each line. Every snapshot of the label is read,
    two files for most. The exit code is 0 if anything is found, 1 if nothing is, and 4 if nothing is and some
    snapshots could not be read.
    """
    from colony_memory.app.past import search_files
    from colony_memory.cli.errors import FAILED, NOT_PROVEN
    from colony_memory.cli.memory import open_memory
    from colony_memory.cli.patches import match_lines
    from colony_memory.cli.text import count, now_utc

    with open_memory(common) as opened:
        with opened.working("Searching"):
            found = search_files(opened.memory, pattern, label=label, fixed=fixed, ignore_case=ignore_case)
        if not found.complete:
            told = len(found.matches)
            lines = "line is" if told == 1 else f"{told} lines are"
            opened.output.warn(f"only the newest {lines} told: look for something rarer")
        if common.as_json:
            opened.output.answer_json({"pattern": pattern, **asdict(found)})
        elif found:
            opened.output.answer("\n".join(match_lines(found, now=now_utc())))
        else:
            opened.output.note(f"nothing found in {count(found.searched, 'snapshot')}")
    return 0 if found else NOT_PROVEN if found.passed_over else FAILED
