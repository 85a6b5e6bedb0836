"""An error as one line on stderr and an exit code; needs no extra."""

from __future__ import annotations

import contextlib
import sys
import warnings
from typing import TYPE_CHECKING

from colony_memory.cli.phrases import spoken
from colony_memory.cli.text import shown
from colony_memory.exceptions import (
    BackupUncertain,
    ColonyMemoryError,
    SnapshotCorrupt,
    SnapshotNotFound,
    UntrustedSnapshot,
    VaultError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO

FAILED, USAGE, NOTHING_SAVED, NOT_PROVEN, NO_VAULT, INTERRUPTED, TERMINATED = 1, 2, 3, 4, 5, 130, 143


class Terminated(KeyboardInterrupt):
    """SIGTERM came. What an interrupt undoes, this undoes too."""


# The first that fits. Corrupt and untrusted are ValueErrors too.
_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (SnapshotNotFound, NOTHING_SAVED),
    (SnapshotCorrupt, NOT_PROVEN),
    (UntrustedSnapshot, NOT_PROVEN),
    (VaultError, NO_VAULT),
    (BackupUncertain, NO_VAULT),
    (ColonyMemoryError, FAILED),
    (ValueError, USAGE),
    (Terminated, TERMINATED),
    (KeyboardInterrupt, INTERRUPTED),
)
_EXTRA = frozenset({"platformdirs", "rich", "typer"})
_MISSING = "the command line needs the extra 'cli': pip install 'colony-memory[cli]'"


class Failure(Exception):
    """What the command line itself has found, or has more to say of than the error did.

    Attributes:
        code: The exit code.
    """

    def __init__(self, message: str, *, code: int) -> None:
        super().__init__(message)
        self.code = code


def exit_code(error: BaseException) -> int:
    """The exit code that says what kind of error it was."""
    if isinstance(error, Failure):
        return error.code
    return next((code for kind, code in _CODES if isinstance(error, kind)), FAILED)


def report_failure(error: BaseException) -> int:
    """Write the line and return the code."""
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] in _EXTRA:
        say(_MISSING)
    else:
        say(f"error: {_describe(error)}")
    return exit_code(error)


def _describe(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "terminated" if isinstance(error, Terminated) else "interrupted"
    text = str(error)
    if isinstance(error, (Failure, ColonyMemoryError, ValueError)) and text:
        return spoken(text)
    # Not foreseen, so its kind is needed to make sense of it.
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def say(text: str) -> None:
    """Write one line to stderr, whatever characters are in it."""
    with contextlib.suppress(OSError):  # there is no other place to tell of it
        write(sys.stderr, shown(text) + "\n")


def write(stream: TextIO | None, text: str) -> None:
    """Write text at once; what the stream's encoding lacks is written as an escape.

    Raises:
        OSError: It could not be written. The stream takes nothing any more, so that the end of the process does
            not fail over what is left in its buffer.
    """
    if stream is None:  # closed before the process began
        return
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except OSError:
        _discard(stream)
        raise


def _discard(stream: TextIO) -> None:
    import os

    with contextlib.suppress(OSError, ValueError):  # no descriptor: nothing is left to flush
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


@contextlib.contextmanager
def termination_raises() -> Iterator[None]:
    """Let SIGTERM raise :class:`Terminated`, unless somebody else has said what it is to do."""
    import signal
    import threading

    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGTERM) is _terminate:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def ignore_signals() -> None:
    """Take no notice of further signals: the process is about to end, and tells why."""
    import signal

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def _terminate(signum: int, frame: object) -> None:  # noqa: ARG001 - what a handler is given
    raise Terminated


@contextlib.contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Write each warning as a line of its own, and what libraries log not at all."""
    import logging

    from colony_memory.exceptions import ColonyMemoryWarning

    silent = logging.NullHandler()
    root = logging.getLogger()
    root.addHandler(silent)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default", ColonyMemoryWarning)
            warnings.showwarning = lambda message, *_: say(f"warning: {spoken(str(message))}")
            yield
    finally:
        root.removeHandler(silent)
