"""Telling how runs went: in lines, and a monitor and a command of the user's as the options ask for it."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from colony_memory.app.values import show_duration
from colony_memory.words.errors import FAILED, describe, exit_code, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from colony_memory.cli.output import Output
    from colony_memory.schedule.last_run import LastRun
    from colony_memory.schedule.notify import Notifier

#: Seconds that telling may take at the end of a process that somebody waits for.
LAST_WORDS = 5.0
#: Seconds of a process that has nothing else to do.
AT_LEISURE = 35.0


def notifier_of(*, ping: str | None, on_error: str | None, label: str, output: Output) -> Notifier:
    """Who tells what the options ask for, each failure with the exit code that it would be here."""
    from colony_memory.schedule.notify import Notifier

    return Notifier(
        label=label,
        ping=ping,
        on_error=on_error,
        classify=_classify,
        warn=lambda text: output.warn(text if output.as_json else f"warning: {text}"),
    )


@contextmanager
def telling(notifier: Notifier, *, patience: float) -> Iterator[Notifier]:
    """Tell of what ends the block by an error; at the end wait for ``patience`` seconds until all is told."""
    try:
        yield notifier
    except (Exception, KeyboardInterrupt) as error:
        notifier.failed(describe(error), error)
        raise
    finally:
        notifier.close(patience)


def _classify(error: BaseException | None) -> tuple[str, int]:
    return ("Incomplete", FAILED) if error is None else (kind_of(error), exit_code(error))


def run_line(done: LastRun) -> str:
    """A run as a line."""
    line = f"{done.when:%Y-%m-%dT%H:%M:%SZ} {done.message}"
    if done.next_run is not None:
        line += f"; next in {show_duration((done.next_run - done.when).total_seconds())}"
    return line


def run_document(done: LastRun) -> dict[str, Any]:
    """The same for programs."""
    due = done.next_run
    return {**asdict(done), "when": done.when.isoformat(), "next_run": None if due is None else due.isoformat()}


def leave(code: int) -> None:
    """End the process although a backup still hangs in a thread of its own, for which the interpreter would wait."""
    os._exit(code)  # every line was flushed when it was written
