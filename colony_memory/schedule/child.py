"""A command as a child of this process: its terminal, its signals, and as process 1 of a container its orphans.

The child has this process's input, outputs and process group, as from a shell. So a terminal sends Ctrl-C and Ctrl-Z
to both, and job control works as it does without this.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING

from colony_memory.schedule.signals import TakenSignals, signals_for_a_child

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

    from typing_extensions import Self

__all__ = ["Child", "CommandNotFound", "become_init", "find_command"]

# Seconds between two looks at what has ended.
_LOOK = 1.0
_PAUSE = 0.05
# What a terminal sends to every process in front of it when a key is pressed.
_KEYS = frozenset(getattr(signal, name) for name in ("SIGINT", "SIGQUIT") if hasattr(signal, name))
_ENDING = frozenset(getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGQUIT") if hasattr(signal, name))


class CommandNotFound(Exception):
    """There is no such command, or it cannot be run.

    Attributes:
        code: The exit code that a shell has for it: 127, or 126.
    """

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def find_command(command: Sequence[str]) -> None:
    """Look whether a command could be run.

    Raises:
        CommandNotFound: It could not.
    """
    import shutil

    if shutil.which(command[0]) is None:
        exists = os.path.dirname(command[0]) and os.path.exists(command[0])  # noqa: PTH110, PTH120 - as which() does
        why = "it cannot be executed" if exists else "there is no such command"
        raise CommandNotFound(f"{command[0]!r}: {why}", 126 if exists else 127)


class Child:
    """A command, from the ``with`` on heard of by the signals that this process gets.

    Every signal that can be caught is sent on to it, one that comes before it is there as soon as it is; but for those
    of job control and of faults of this process. A SIGINT or SIGQUIT of the terminal is not, as the terminal has sent
    it to both. Once it has ended they do nothing but for SIGINT, which raises KeyboardInterrupt: whoever presses Ctrl-C
    then does not want to wait. What is ignored stays ignored, here and there. It is told to go, and never killed: where
    this process dies, the command goes on.

    Args:
        command: Its words.
        on_end: Called with the first signal that ends it, SIGTERM, SIGHUP or SIGQUIT, in the signal handler.
    """

    def __init__(self, command: Sequence[str], *, on_end: Callable[[int], object] | None = None) -> None:
        self._command = list(command)
        self._on_end = on_end
        self._signals = TakenSignals(self._on_signal, signals_for_a_child())
        self._early: list[int] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = False

    def __enter__(self) -> Self:
        self._signals.take()
        return self

    def __exit__(self, *exc: object) -> None:
        self._signals.give_back()

    def start(self) -> None:
        """Start it.

        Raises:
            CommandNotFound: It cannot be run.
        """
        try:
            self._process = subprocess.Popen(self._command)  # noqa: S603 - it is the user's
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise CommandNotFound(f"{self._command[0]!r}: {why}", 126) from error
        while self._early:
            self._process.send_signal(self._early.pop(0))

    def wait(self) -> int:
        """Wait for its end; its exit code, as a shell tells it: 128 and the number where a signal ended it."""
        assert self._process is not None  # noqa: S101 - start() was called
        try:
            while True:
                # A signal that comes right before a wait without end begins would be heard after the wait.
                with contextlib.suppress(subprocess.TimeoutExpired):
                    return shell_code(self._process.wait(_LOOK))
        finally:
            self._ended = True

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self._ended:
            if number == signal.SIGINT:
                raise KeyboardInterrupt
            return
        if number in _KEYS and _terminal_tells_all():
            return
        if number in _ENDING and self._on_end is not None:
            tell, self._on_end = self._on_end, None
            tell(number)
        if self._process is None:
            self._early.append(number)
        else:
            self._process.send_signal(number)


def shell_code(returncode: int) -> int:
    """What a shell makes of how a process ended.

    >>> shell_code(3), shell_code(-15)
    (3, 143)
    """
    return returncode if returncode >= 0 else 128 - returncode


def _terminal_tells_all() -> bool:
    """Whether there is a terminal in front of which this process's group is, so that all of it gets its Ctrl-C."""
    if not hasattr(os, "tcgetpgrp"):  # pragma: no cover - chosen by the platform
        return True  # Windows sends it to every process of the console
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def become_init(tell: Callable[[str], object]) -> None:
    """As process 1 of a container, do what that owes, and go on in a child; elsewhere, and in that child, nothing.

    Process 1 takes in every process whose parent has died, and has to wait for it, or it stays as a zombie. What goes
    on here must not: it could not tell them from children of its own. So it goes on in a child, and this process passes
    signals on, reaps, and ends with the child's exit code. Where the child is killed it waits for the others: they are
    the command that goes on without it. To be called before there are threads.

    Args:
        tell: Is told in a line that the child was killed.
    """
    if os.getpid() != 1:
        return
    numbers = set(signals_for_a_child())
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    worker = os.fork()
    if worker:
        os._exit(_reap(worker, numbers, tell))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)


def _reap(worker: int, numbers: set[int], tell: Callable[[str], object]) -> int:
    """Wait for the worker, and for whoever else ends meanwhile; the worker's exit code."""
    # Everybody there is but this process, once the worker is gone.
    everybody = -1
    target = worker

    def pass_on(number: int, _frame: FrameType | None) -> None:
        if number not in _KEYS or not _terminal_tells_all():
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(target, number)

    for number in numbers:
        signal.signal(number, pass_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
    code = 1
    while True:
        try:
            ended, status = os.waitpid(-1, os.WNOHANG)  # as in Child.wait(): signals are heard in between
        except ChildProcessError:
            return code
        if not ended:
            time.sleep(_PAUSE)
        if ended != worker:
            continue
        code = shell_code(os.waitstatus_to_exitcode(status))
        if not os.WIFSIGNALED(status):
            return code
        target = everybody
        tell(f"what makes the backups was ended by signal {code - 128}; the command goes on without")
