"""Yes or no, where there is a person to ask."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from colony_memory.cli.errors import FAILED, USAGE, Failure, write
from colony_memory.cli.text import fitted, shown

if TYPE_CHECKING:
    from collections.abc import Sequence


def confirm(question: str, *, yes: bool, as_json: bool, told: Sequence[str] = ()) -> None:
    """Go on only if the answer is yes; ``yes`` is an answer given beforehand.

    Args:
        question: To be answered with yes or no.
        yes: Do not ask.
        as_json: A program asks, which cannot answer.
        told: Lines to show before the question.

    Raises:
        Failure: The answer was no, or there is nobody to ask.
    """
    if yes:
        return
    if as_json or not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr)):
        raise Failure("this deletes, and there is no terminal to ask on", code=USAGE, advice="add --yes")
    write(sys.stderr, "".join(f"{line}\n" for line in told) + f"{fitted(f'{shown(question)} [y/N]', sys.stderr)} ")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Failure("nothing was deleted", code=FAILED)
