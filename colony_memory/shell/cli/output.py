"""The program's output: answers, warnings, questions, progress, and a line for each run."""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from colony_memory._values import Value, asdict
from colony_memory.shell.words import count, draws, shown, shown_with_tabs, size
from colony_memory.shell.words.errors import FAILED, USAGE, Failure, say, say_json, show_progress, warn, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from colony_memory.schedule.last_run import LastRun

_ACTIVITIES = {"upload": "uploading", "download": "downloading", "delete": "deleting"}
_CODES = {"bold": "1", "red": "31", "green": "32", "yellow": "33", "magenta": "35", "cyan": "36"}
_STYLES = {"+": "green", "-": "red", "@": "cyan"}
_REDRAW = 0.05  # seconds


def is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def styled(text: str, style: str) -> str:
    """The text, on a terminal in a style such as ``bold red``; with ``NO_COLOR`` set, only bold is kept."""
    codes = [_CODES[word] for word in style.split() if word == "bold" or "NO_COLOR" not in os.environ]
    return f"\x1b[{';'.join(codes)}m{text}\x1b[0m" if codes and draws(sys.stdout) else text


class Output(Value):
    """The output as the options want it. Raises :class:`Failure` if an answer cannot be written."""

    as_json: bool = False  # for programs
    quiet: bool = False  # only warnings, errors, and tables that were asked for

    @property
    def silent(self) -> bool:
        """True if people see only warnings, errors and what they asked for."""
        return self.quiet or self.as_json

    def answer(self, text: str | bytes) -> None:
        """Write an answer to stdout: text with a final newline, or bytes as they are."""
        try:
            write(sys.stdout, text if isinstance(text, bytes) or text.endswith("\n") else f"{text}\n")
        except BrokenPipeError as error:
            raise Failure("the output was closed before it was written", code=FAILED) from error
        except OSError as error:
            raise Failure(f"the output could not be written: {error.strerror}", code=FAILED) from error

    def answer_content(self, content: str | bytes, *, name: str) -> None:
        """Write a file's content to stdout byte for byte; a terminal gets text, escaped, and no bytes: Failure."""
        if not is_terminal():
            self.answer(content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content)
        elif isinstance(content, bytes):
            raise Failure(f"{name!r} is not text: write it into a file, with '> FILE'", code=FAILED)
        else:
            self.answer("\n".join(map(shown_with_tabs, content.splitlines())))

    def answer_patch(self, text: str) -> None:
        """Write a patch to stdout byte for byte, so that it applies; to a terminal in colour, and escaped."""
        if not is_terminal():
            return self.answer_content(text, name="")
        lines = text.removesuffix("\n").split("\n")
        styles = ("bold" if line.startswith("diff --git ") else _STYLES.get(line[:1], "") for line in lines)
        return self.answer("\n".join(map(styled, map(shown_with_tabs, lines), styles)))

    def answer_json(self, document: object) -> None:
        """Write the JSON document in ASCII, so that every name passes, whatever the encoding of stdout."""
        self.answer(json.dumps(document, indent=2))

    def report(self, *lines: str) -> None:
        """Write lines about what was done to stdout, for people."""
        if not self.silent:
            self.answer("\n".join(map(shown, lines)))

    def show(self, document: object, *lines: str) -> None:
        """Answer a question: programs get the document, people the lines, with --quiet too."""
        if self.as_json:
            self.answer_json(document)
        else:
            self.answer("\n".join(lines))

    def done(self, document: object, *lines: str, dry_run: bool = False) -> None:
        """Report what was done: programs get the document, people the lines, unless --quiet; a plan was asked for."""
        if self.as_json or dry_run or not self.quiet:
            self.show(document, *map(shown, lines))

    def note(self, line: str) -> None:
        """Write a remark to stderr, for people."""
        if not self.silent:
            say(line)

    def warn(self, line: str, *, hint: str | None = None) -> None:
        warn(line, as_json=self.as_json, hint=hint)

    @contextmanager
    def working(self, activity: str, progress: Progress | None = None) -> Iterator[None]:
        """Show an activity and its ``progress`` on a terminal until the block ends."""
        if self.silent or not draws(sys.stderr):
            yield
            return
        progress = progress or Progress()
        progress.activity = shown(activity)
        show_progress(progress.activity)
        try:
            yield
        finally:
            progress.activity = ""
            show_progress("")


class Progress:
    """The current activity and its progress: an ``on_event`` for a memory, without effect while nothing is shown."""

    def __init__(self) -> None:
        self.activity, self._drawn_at = "", 0.0

    def __call__(self, event: Any) -> None:
        """Show the progress in an event that has ``action``, ``done`` and ``total``."""
        if getattr(event, "total", 0) > 1:
            self._add(f"{_ACTIVITIES.get(event.action, event.action)} {event.done} of {event.total}")

    def steps(self, action: str) -> Callable[..., None]:
        """A callback that takes the number of steps done, and of all steps."""
        return lambda done, total, *_: self._add(f"{action} {done} of {total}") if total > 1 else None

    def read(self, files: int, size_read: int, _name: str) -> None:
        """Show the amount that was read: an ``on_progress`` for reading folders."""
        self._add(f"{count(files, 'file')}, {size(size_read)}")

    def _add(self, detail: str) -> None:
        if self.activity and time.monotonic() - self._drawn_at > _REDRAW:
            self._drawn_at = time.monotonic()
            show_progress(f"{self.activity}, {detail}")


def confirm(question: str, *, yes: bool, as_json: bool, details: Sequence[str] = (), done: str = "deleted") -> None:
    """Ask below the ``details``, unless ``yes`` answers beforehand. Raises Failure without a yes or a terminal."""
    if yes:
        return
    if as_json or not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr)):
        raise Failure(f"nothing was {done}: there is no terminal to ask on", code=USAGE, advice="add --yes")
    write(sys.stderr, "".join(f"{line}\n" for line in details) + f"{shown(question)} [y/N] ")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Failure(f"nothing was {done}", code=FAILED)


def report_run(run: LastRun, output: Output, *, to_stderr: bool = False) -> None:
    """Report a run; with ``to_stderr``, as stdout is a command's, people get only failures and the last run."""
    from colony_memory.shell.app.config import show_duration

    due, line = run.next_run, f"{run.when:%Y-%m-%dT%H:%M:%SZ} {run.message}"
    if due is not None:
        line += f"; next in {show_duration((due - run.when).total_seconds())}"
    if output.as_json:
        say_json(run_document(run)) if to_stderr else output.answer(json.dumps(run_document(run)))
    elif not run.ok:
        output.warn(line)
    elif not to_stderr:
        output.report(line)
    elif due is None:
        output.note(line)


def run_document(run: LastRun) -> dict[str, Any]:
    due = run.next_run
    return {**asdict(run), "when": run.when.isoformat(), "next_run": None if due is None else due.isoformat()}


def leave(code: int) -> None:
    """End the process at once: the interpreter would wait for the thread of a backup that hangs."""
    os._exit(code)  # every line was flushed when it was written
