"""Lines as wide as a terminal: broken between words, where it would break them anywhere. Needs no extra."""

from __future__ import annotations

import os
import re
import unicodedata
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TextIO

_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_COMMAND = re.compile(r"(?:: |  )(?=colony-memory )")
_INDENT = "  "


def fitted(line: str, stream: TextIO | None) -> str:
    """A line of prose as this stream shows it: folded to the width of a terminal, and else as it is."""
    if stream is None or not stream.isatty():
        return line
    return folded(line, _columns(stream))


def folded(line: str, width: int) -> str:
    """The line as several of at most ``width`` columns, broken at spaces and from the second on indented.

    A word that is wider stays whole, for the terminal to wrap, and so does a command at the end: with a line break
    in it, it would be two when it is pasted. So is what is indented already.

    >>> print(folded("error: nothing is saved yet; try: colony-memory backup PATH", 24))
    error: nothing is saved
      yet; try:
      colony-memory backup PATH
    """
    if columns_of(line) <= width or line.startswith(_INDENT):
        return line
    command = _COMMAND.search(line)
    prose, rest = (line[: command.end()].rstrip(), line[command.end() :]) if command else (line, "")
    rows = [""]
    for number, word in enumerate(prose.split(" ")):
        longer = f"{rows[-1]} {word}" if number else word
        if columns_of(longer) <= width or not rows[-1].strip():
            rows[-1] = longer
        else:
            rows.append(_INDENT + word)
    if rest:
        whole = f"{rows[-1]}{line[len(prose) : len(line) - len(rest)]}{rest}"
        rows[-1:] = [whole] if columns_of(whole) <= width else [rows[-1], _INDENT + rest]
    return "\n".join(rows)


def columns_of(text: str) -> int:
    """The columns that it takes."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in _STYLE.sub("", text)
    )


def _columns(stream: TextIO) -> int:
    with suppress(ValueError):  # what it is set to counts more than what the terminal says, as everywhere
        given = int(os.environ.get("COLUMNS", ""))
        if given > 0:
            return given
    with suppress(OSError, ValueError):  # no descriptor, or not that of a terminal
        return os.get_terminal_size(stream.fileno()).columns or 80
    return 80
