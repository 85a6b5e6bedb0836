"""What the verbs print: lines for people, one JSON document for programs."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from colony_memory._values import dataclass
from colony_memory._version import __version__
from colony_memory.cli.progress import Progress
from colony_memory.words.commands import PROGRAM
from colony_memory.words.errors import FAILED, Failure, say, warn, write, write_bytes
from colony_memory.words.text import fitted, shown, shown_with_tabs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


_GATHERED: ContextVar[list[object] | None] = ContextVar("gathered", default=None)


@contextmanager
def gathering() -> Iterator[list[object]]:
    """Keep the JSON documents of a block in place of writing them: they are parts of one."""
    gathered: list[object] = []
    token = _GATHERED.set(gathered)
    try:
        yield gathered
    finally:
        _GATHERED.reset(token)


@contextmanager
def _failures_named() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        raise Failure("the output was closed before it was written", code=FAILED) from error
    except OSError as error:
        raise Failure(f"the output could not be written: {error.strerror}", code=FAILED) from error


@dataclass(frozen=True)
class Output:
    """Where the answers go."""

    as_json: bool = False  # for programs
    quiet: bool = False  # only what is wrong, and tables that were asked for

    def answer(self, text: str) -> None:
        """Write to stdout what was asked for."""
        with _failures_named():
            write(sys.stdout, text if text.endswith("\n") else f"{text}\n")

    def answer_content(self, content: str | bytes, *, name: str) -> None:
        """Write a file's content to stdout byte for byte; to a terminal, only what cannot command it."""
        if sys.stdout is not None and sys.stdout.isatty():
            if isinstance(content, bytes):
                raise Failure(f"{name!r} is not text: write it into a file, with '> FILE'", code=FAILED)
            self.answer("\n".join(map(shown_with_tabs, content.splitlines())))
            return
        data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
        with _failures_named():
            write_bytes(sys.stdout, data)

    def answer_patch(self, text: str) -> None:
        """Write differences to stdout byte for byte, so that they apply; to a terminal in colour and spelled out."""
        if sys.stdout is not None and sys.stdout.isatty():
            from colony_memory.cli.patches import patch_lines

            self.answer("\n".join(patch_lines(text)))
            return
        with _failures_named():
            write_bytes(sys.stdout, text.encode("utf-8", "surrogatepass"))

    def answer_json(self, document: object) -> None:
        """Write the one JSON document; in ASCII, so that every name passes."""
        gathered = _GATHERED.get()
        if gathered is not None:
            gathered.append(document)
            return
        self.answer(json.dumps(document, indent=2))

    def report(self, *lines: str, names: Sequence[str] = ()) -> None:
        """Write to stdout what was done, each line on its own, for people; before that names, which are not folded."""
        if not self.quiet and not self.as_json:
            told = [fitted(shown(line), sys.stdout) for line in lines]
            self.answer("\n".join([*map(shown, names), *told]))

    def note(self, line: str) -> None:
        """Write to stderr what is good to know, for people."""
        if not self.quiet and not self.as_json:
            say(line)

    def warn(self, line: str, *, hint: str | None = None) -> None:
        """Write to stderr what is wrong, and what to do about it."""
        warn(line, as_json=self.as_json, hint=hint)

    @contextmanager
    def working(self, doing: str, progress: Progress | None = None) -> Iterator[None]:
        """Show on a terminal that something is under way, and what ``progress`` is told of it."""
        if self.quiet or self.as_json:
            yield
            return
        with (progress or Progress()).shown_as(doing):
            yield


def print_version() -> int:
    """Answer which version this is."""
    Output().answer(f"{PROGRAM} {__version__}")
    return 0
