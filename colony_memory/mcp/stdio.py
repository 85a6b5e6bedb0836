"""The server on standard input and output, as hosts start it."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import anyio

from colony_memory.exceptions import ColonyMemoryError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from colony_memory.mcp.server import MemoryServer

#: Seconds that a call under way has after a signal: one that writes to the vault may come to its end.
_LAST = 5.0


def serve_stdio(server: MemoryServer) -> None:
    """Serve until the input ends, or a signal comes. Nothing but the protocol goes to stdout, whoever prints.

    Raises:
        ColonyMemoryError: The host cannot be read from or written to any more.
    """
    with _signals_end(server):
        try:
            anyio.run(server.run_stdio_async)
        except Exception as error:
            cause: BaseException = error
            while getattr(cause, "exceptions", ()):  # of a group
                cause = cause.exceptions[0]  # type: ignore[attr-defined]
            if not isinstance(cause, OSError):
                raise
            why = cause.strerror or str(cause)
            raise ColonyMemoryError(f"the host that started this server cannot be reached: {why}") from error


@contextmanager
def _signals_end(server: MemoryServer) -> Iterator[None]:
    """End the process on SIGTERM and SIGINT.

    The library reads its input in a thread that nothing wakes, and would wait for it.
    """

    def end(number: int, frame: object) -> None:  # noqa: ARG001 - what a handler is given
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_IGN)

        def leave() -> None:
            server.worker.rest(_LAST)
            os._exit(128 + number)

        threading.Thread(target=leave, daemon=True).start()

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
