"""What the verbs ask a person, and what those that start a command have in common.

An interrupt that undoes is not interrupted itself.
"""

from __future__ import annotations

import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from colony_memory.words.errors import FAILED, USAGE, Failure, Terminated, say, write
from colony_memory.words.text import fitted, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def confirm(question: str, *, yes: bool, as_json: bool, told: Sequence[str] = ()) -> None:
    """Go on only if the answer is yes; ``yes`` is an answer given beforehand."""
    if yes:
        return
    if as_json or not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr)):
        raise Failure("this deletes, and there is no terminal to ask on", code=USAGE, advice="add --yes")
    write(sys.stderr, "".join(f"{line}\n" for line in told) + f"{fitted(f'{shown(question)} [y/N]', sys.stderr)} ")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Failure("nothing was deleted", code=FAILED)


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
    """The folder, and the words of the command."""
    directory, *program = given
    if not directory:
        raise ValueError("an empty path")
    if not program or not program[0]:
        raise ValueError("the command to start is missing: give it after the folder and --")
    return directory, program


@contextmanager
def starting(program: Sequence[str]) -> Iterator[None]:
    """Look whether the command is there before anything is done for it; an error when it is started is one line."""
    from colony_memory.schedule.child import CommandNotFound, find_command

    try:
        find_command(program)
        yield
    except CommandNotFound as error:
        raise Failure(f"the command cannot be run: {error}", code=error.code) from error
