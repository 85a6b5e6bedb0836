"""What the verbs that start a command have in common.

An interrupt that undoes is not interrupted itself.
"""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from colony_memory.cli.errors import Failure, Terminated, say

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@contextmanager
def first_interrupt_only() -> Iterator[None]:
    """Let the first SIGINT or SIGTERM raise, and take no notice of more: what it undoes ends in a moment.

    What is ignored already, as after nohup, stays ignored. Outside of the main thread nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    watched = [number for number, handler in before.items() if handler not in (signal.SIG_IGN, None)]

    def stop(number: int, frame: object) -> None:  # noqa: ARG001 - what a handler is given
        for each in watched:
            signal.signal(each, signal.SIG_IGN)
        raise Terminated if number == signal.SIGTERM else KeyboardInterrupt

    try:
        for number in watched:
            signal.signal(number, stop)
        yield
    finally:
        for number in watched:
            signal.signal(number, before[number])


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
