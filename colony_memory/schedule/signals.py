"""Signals, taken for a while by whoever has something to save before the process ends, or passes them on."""

from __future__ import annotations

import logging
import os
import signal
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import FrameType

_logger = logging.getLogger(__name__)
# SIGHUP and SIGQUIT are not everywhere.
_ENDING = ("SIGTERM", "SIGINT", "SIGHUP")
# Faults of this process itself, what a parent is told of its children, and job control, which a terminal does.
_OWN = (
    "SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT", "SIGTRAP", "SIGSYS", "SIGEMT", "SIGCHLD", "SIGKILL", "SIGSTOP",
    "SIGTSTP", "SIGTTIN", "SIGTTOU",
)  # fmt: skip


def ending_signals() -> tuple[int, ...]:
    """SIGTERM, SIGINT and SIGHUP, as far as this system has them."""
    return tuple(getattr(signal, name) for name in _ENDING if hasattr(signal, name))


def signals_for_a_child() -> tuple[int, ...]:
    """Every signal that somebody may mean for a command when he sends it to the process in front of it."""
    if os.name == "nt":  # pragma: no cover - chosen by the platform
        return ending_signals()  # a process there can be sent no other
    own = {getattr(signal, name) for name in _OWN if hasattr(signal, name)}
    return tuple(sorted(signal.valid_signals() - own))


class TakenSignals:
    """Signals that were taken, each with the handler that was there before; SIGTERM, SIGINT and SIGHUP by default.

    A signal that is ignored stays ignored, a handler that is not of Python's is left alone, and outside of the main
    thread nothing is taken.
    """

    def __init__(self, handler: Callable[[int, FrameType | None], None], numbers: Iterable[int] | None = None) -> None:
        self._handler = handler
        self._numbers = ending_signals() if numbers is None else tuple(numbers)
        self._previous: dict[int, Any] = {}
        self._open = False

    def take(self) -> None:
        """Handle them from now on."""
        self._open = True
        if threading.current_thread() is not threading.main_thread():
            _logger.debug("signals are not handled: this is not the main thread")
            return
        for number in self._numbers:
            previous = signal.getsignal(number)
            if previous is signal.SIG_DFL or callable(previous):
                self._previous[number] = previous
                signal.signal(number, self)

    def give_back(self) -> None:
        """Put the former handlers back, but where another one was set meanwhile."""
        self._open = False
        if threading.current_thread() is not threading.main_thread():
            if self._previous:
                _logger.debug("the signal handlers stay, and pass on: this is not the main thread")
            return
        for number in self._previous:
            ours = signal.getsignal(number) is self
            if ours:
                signal.signal(number, self._before(number))

    def _before(self, number: int) -> Any:
        """The handler before this one. Those that were given back meanwhile have nothing to do any more."""
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
        """Do what would have been done without this: call the former handler, or let the process die."""
        previous = self._before(number)
        if callable(previous):
            previous(number, frame)
        else:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)


def is_taken(number: int) -> bool:
    """Whether the handler of a signal is one of these."""
    return isinstance(signal.getsignal(number), TakenSignals)


def send_again(number: int) -> None:
    """Have the main thread's handler called, from another thread."""
    if os.name == "nt":  # pragma: no cover - os.kill() ends a process at once there
        import _thread

        _thread.interrupt_main(signal.Signals(number))
    else:
        os.kill(os.getpid(), number)
