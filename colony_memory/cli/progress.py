"""What a terminal shows while something takes its time."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from colony_memory.words.text import count, shown, size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.status import Status

    from colony_memory.cli.output import Output

_DOING = {"upload": "uploading", "download": "downloading", "delete": "deleting"}
_BAR = 20
#: Columns of the spinner and the gap after it, and the last one, which some terminals keep free.
_SPINNER = 3


def bar(done: int, total: int, *, ascii_only: bool = False) -> str:
    """A bar and the figures, ``━━━━━───── 3 of 6``."""
    full, empty = ("#", "-") if ascii_only else ("━", "─")
    filled = _BAR * min(done, total) // total
    return f"{full * filled}{empty * (_BAR - filled)} {done} of {total}"


class Progress:
    """A spinner, with a bar as soon as there are several files to wait for.

    It is an ``on_event`` of :class:`colony_memory.ColonyMemory`. Events outside of :meth:`shown_as` are passed over.
    """

    def __init__(self) -> None:
        self._status: Status | None = None
        self._doing = ""
        self._ascii = False
        self._width = 0

    def __call__(self, event: Any) -> None:
        """Show how far it has come."""
        if self._status is not None and getattr(event, "total", 0) > 1:
            from rich.text import Text

            drawn = bar(event.done, event.total, ascii_only=self._ascii)
            how_far = f"{_DOING.get(event.action, event.action)} {drawn}"
            line = f"{self._doing}, {how_far}"
            # Of what does not fit on one line, how far it has come is what changes.
            self._status.update(Text(line if len(line) <= self._width else how_far[: self._width]))

    @contextmanager
    def shown_as(self, doing: str) -> Iterator[None]:
        """Show it on stderr, if that is a terminal, until the block is left."""
        if sys.stderr is None or not sys.stderr.isatty():
            yield
            return
        from rich.console import Console
        from rich.text import Text

        console = Console(stderr=True, markup=False, highlight=False, emoji=False)
        self._doing, self._ascii = shown(doing), not console.encoding.startswith("utf")
        self._width = console.width - _SPINNER
        with console.status(Text(self._doing[: self._width]), spinner="line" if self._ascii else "dots") as status:
            self._status = status
            try:
                yield
            finally:
                self._status = None


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
