"""What the verbs that start a command have in common."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from colony_memory.cli.errors import Failure, say

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def become_process_1() -> None:
    """In a container, do what its first process owes; to be called before anything is opened."""
    from colony_memory.schedule.child import become_init

    become_init(lambda line: say(f"error: {line}"))


def split_command(given: Sequence[str]) -> tuple[str, list[str]]:
    """The folder, and the words of the command.

    Raises:
        ValueError: One is missing.
    """
    directory, *program = given
    if not directory:
        raise ValueError("an empty path")
    if not program or not program[0]:
        raise ValueError("the command to start is missing: it stands after the folder and --")
    return directory, program


@contextmanager
def starting(program: Sequence[str]) -> Iterator[None]:
    """Look whether the command is there before anything is done for it; an error when it is started is one line.

    Raises:
        Failure: It cannot be run. The exit code is the one that a shell has for it.
    """
    from colony_memory.schedule.child import CommandNotFound, find_command

    try:
        find_command(program)
        yield
    except CommandNotFound as error:
        raise Failure(f"the command cannot be run: {error}", code=error.code) from error
