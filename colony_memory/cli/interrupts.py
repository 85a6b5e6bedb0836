"""An interrupt that undoes is not interrupted itself."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from colony_memory.cli.errors import Terminated

if TYPE_CHECKING:
    from collections.abc import Iterator


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
