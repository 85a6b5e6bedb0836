"""The command that ``run`` starts, a child of this process: its terminal, its signals, and as process 1 its orphans.

The child has this process's input, outputs and process group, as from a shell. So a terminal sends Ctrl-C and Ctrl-Z
to both, and job control works as it does without this.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self


def _numbers(names: str) -> frozenset[int]:
    """The numbers of the signals that this system has."""
    return frozenset(getattr(signal, f"SIG{name}") for name in names.split() if hasattr(signal, f"SIG{name}"))


_ENDING = _numbers("TERM INT HUP")
_ENDING_NOW = _numbers("TERM HUP QUIT")
# Sent by a terminal to every process in its foreground when a key is pressed.
_KEYS = _numbers("INT QUIT")
# Faults of this process itself, news of its children, and job control, which the terminal does.
_OWN = _numbers("SEGV BUS FPE ILL ABRT TRAP SYS EMT CHLD KILL STOP TSTP TTIN TTOU")


def signals_for_a_child() -> frozenset[int]:
    """Signals that may be meant for the command though they are sent to this process in front of it."""
    # On Windows no others can be sent to a process.
    return _ENDING if os.name == "nt" else frozenset(signal.valid_signals() - _OWN)


class TakenSignals:
    """Signals taken over from their handlers; not ignored ones or those of C, and in the main thread only."""

    def __init__(self, handler: Callable[[int, FrameType | None], None], numbers: Iterable[int] = _ENDING) -> None:
        self._handler = handler
        self._numbers = sorted(numbers)
        self._previous: dict[int, Any] = {}
        self._open = False

    def take(self) -> None:
        """Handle them from now on."""
        self._open = True
        for number in self._numbers if threading.current_thread() is threading.main_thread() else ():
            previous = signal.getsignal(number)
            if previous is signal.SIG_DFL or callable(previous):
                self._previous[number] = previous
                signal.signal(number, self)

    def give_back(self) -> None:
        """Restore the former handlers, except where another one was set meanwhile."""
        self._open = False
        # In another thread they stay, and pass signals on.
        for number in self._previous if threading.current_thread() is threading.main_thread() else ():
            ours = signal.getsignal(number) is self
            if ours:
                signal.signal(number, self._before(number))

    def _before(self, number: int) -> Any:
        """The handler before this one, past those that were given back meanwhile."""
        previous: Any = self._previous[number]
        if isinstance(previous, TakenSignals) and not previous._open:  # noqa: SLF001 - of this class
            return previous._before(number)  # noqa: SLF001
        return previous

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """The handler itself."""
        if self._open:
            self._handler(number, frame)
        else:
            self.pass_on(number, frame)

    def pass_on(self, number: int, frame: FrameType | None) -> None:
        """Do as if this were not here: call the former handler, or let the process die."""
        previous = self._before(number)
        if callable(previous):
            previous(number, frame)
        else:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)


def is_taken(number: int) -> bool:
    return isinstance(signal.getsignal(number), TakenSignals)


def send_again(number: int) -> None:
    """Have the main thread's handler called, from another thread."""
    if os.name == "nt":  # pragma: no cover - os.kill() ends a process at once there
        import _thread

        _thread.interrupt_main(signal.Signals(number))
    else:
        os.kill(os.getpid(), number)


# Seconds between two looks for a process that has ended.
_LOOK = 1.0
_PAUSE = 0.05


class CommandNotFound(Exception):
    """There is no such command, or it cannot be run; ``code`` is the exit code that a shell has for it."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def find_command(command: Sequence[str]) -> None:
    import shutil

    if shutil.which(command[0]) is None:
        exists = os.path.dirname(command[0]) and os.path.exists(command[0])  # noqa: PTH110, PTH120 - as which() does
        why = "it cannot be executed" if exists else "there is no such command"
        raise CommandNotFound(f"{command[0]!r}: {why}", 126 if exists else 127)


class Child:
    """A command that gets the signals of this process, from the ``with`` on.

    Every signal that can be caught is sent on to it, an early one as soon as it has started; except those of job
    control and of faults of this process, and a SIGINT or SIGQUIT that the terminal has sent to both. Once it has ended
    they do nothing, except that SIGINT raises KeyboardInterrupt: whoever presses Ctrl-C then does not want to wait. It
    is never killed: if this process dies, the command goes on.
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
        try:
            self._process = subprocess.Popen(self._command)  # noqa: S603 - it is the user's
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise CommandNotFound(f"{self._command[0]!r}: {why}", 126) from error
        while self._early:
            self._process.send_signal(self._early.pop(0))

    def wait(self, meanwhile: Callable[[], object] = bool) -> int:
        """Wait for its end; returns its exit code as in a shell: 128 plus the number if a signal ended it."""
        assert self._process is not None  # noqa: S101 - start() was called
        try:
            while True:
                # A signal that comes right before a wait without end would be handled only after that.
                with contextlib.suppress(subprocess.TimeoutExpired):
                    return shell_code(self._process.wait(_LOOK))
                meanwhile()
        finally:
            self._ended = True

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self._ended:
            if number == signal.SIGINT:
                raise KeyboardInterrupt
            return
        if number in _KEYS and _is_foreground():
            return
        if number in _ENDING_NOW and self._on_end is not None:
            on_end, self._on_end = self._on_end, None
            on_end(number)
        if self._process is None:
            self._early.append(number)
        else:
            self._process.send_signal(number)


def shell_code(returncode: int) -> int:
    """The exit code that a shell makes of how a process ended: 143 of a SIGTERM."""
    return returncode if returncode >= 0 else 128 - returncode


def _is_foreground() -> bool:
    """True if this process's group is in the foreground of a terminal, so that all of it gets its Ctrl-C."""
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


def become_init(report: Callable[[str], object]) -> None:
    """As process 1 of a container, do its duties, and go on in a child; elsewhere, and in that child, do nothing.

    Process 1 inherits every process whose parent has died, and has to wait for it, or it stays as a zombie. The program
    must not do that: it could not tell orphans from its own children. So it goes on in a child, and this process passes
    signals on, reaps, and ends with the child's exit code. If the child is killed it waits for the others: they are the
    command, which goes on without it. To be called before there are threads.
    """
    if os.getpid() != 1:
        return
    numbers = signals_for_a_child()
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    worker = os.fork()
    if worker:
        os._exit(_reap(worker, numbers, report))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)


def _reap(worker: int, numbers: Iterable[int], report: Callable[[str], object]) -> int:
    """Wait for the worker, and for all others that end meanwhile; returns the worker's exit code."""
    target = worker

    def pass_on(number: int, _frame: FrameType | None) -> None:
        if number not in _KEYS or not _is_foreground():
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(target, number)

    for number in numbers:
        signal.signal(number, pass_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
    code = 1
    while True:
        try:
            ended, status = os.waitpid(-1, os.WNOHANG)  # as in Child.wait(): signals are handled in between
        except ChildProcessError:
            return code
        if not ended:
            time.sleep(_PAUSE)
        if ended != worker:
            continue
        code = shell_code(os.waitstatus_to_exitcode(status))
        if not os.WIFSIGNALED(status):
            return code
        target = -1  # every process but this one
        report(
            f"the process that makes the backups was ended by signal {code - 128}; the command goes on without backups"
        )
