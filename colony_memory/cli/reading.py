"""What a terminal shows while a folder is read."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from colony_memory.cli.text import count, size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from colony_memory.cli.output import Output


@contextmanager
def show_reading(output: Output) -> Iterator[Callable[[int, int, str], None] | None]:
    """Show on a terminal how much was read; gives the ``on_progress`` that tells, or None where none is shown."""
    if output.quiet or output.as_json or sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, markup=False, highlight=False, emoji=False)
    spinner = "dots" if console.encoding.startswith("utf") else "line"
    with console.status(Text("Reading"), spinner=spinner) as status:

        def show(files: int, read: int, _: str) -> None:
            status.update(Text(f"Reading: {count(files, 'file')}, {size(read)}"))

        yield show
