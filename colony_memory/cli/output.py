"""What the verbs print: lines for people, one JSON document for programs."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from colony_memory.cli.errors import FAILED, Failure, say, warn, write
from colony_memory.cli.progress import Progress
from colony_memory.cli.text import shown

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Output:
    """Where the answers go.

    Attributes:
        as_json: For programs.
        quiet: Only what is wrong, and tables that were asked for.
    """

    as_json: bool = False
    quiet: bool = False

    def answer(self, text: str) -> None:
        """Write to stdout what was asked for.

        Raises:
            Failure: It could not be written.
        """
        try:
            write(sys.stdout, text if text.endswith("\n") else f"{text}\n")
        except BrokenPipeError as error:
            raise Failure("the output was closed before it was written", code=FAILED) from error
        except OSError as error:
            raise Failure(f"the output could not be written: {error.strerror}", code=FAILED) from error

    def answer_json(self, document: object) -> None:
        """Write the one JSON document; in ASCII, so that every name passes."""
        self.answer(json.dumps(document, indent=2))

    def report(self, *lines: str) -> None:
        """Write to stdout what was done, each line on its own, for people."""
        if not self.quiet and not self.as_json:
            self.answer("\n".join(map(shown, lines)))

    def note(self, line: str) -> None:
        """Write to stderr what is good to know, for people."""
        if not self.quiet and not self.as_json:
            say(line)

    def warn(self, line: str) -> None:
        """Write to stderr what is wrong."""
        warn(line, as_json=self.as_json)

    @contextmanager
    def working(self, doing: str, progress: Progress | None = None) -> Iterator[None]:
        """Show on a terminal that something is under way, and what ``progress`` is told of it."""
        if self.quiet or self.as_json:
            yield
            return
        with (progress or Progress()).shown_as(doing):
            yield
