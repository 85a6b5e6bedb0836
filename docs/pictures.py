# ruff: noqa: INP001 - a script
"""The pictures of the command line in docs/img: what its verbs print on a terminal, from fixed data at a fixed time.

``python docs/pictures.py`` writes them.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
from datetime import datetime, timedelta, timezone
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

from rich.text import Text

from colony_memory import ColonyMemory, Ed25519Signer
from colony_memory.__main__ import main
from colony_memory.testing import FakeVault

if TYPE_CHECKING:
    from collections.abc import Iterator

IMAGES = Path(__file__).parent / "img"
PICTURES = {
    "list": ["list"],
    "status": ["status"],
    "diff": ["diff", "latest", "./memory"],
    "restore": ["restore", "--dry-run", "./old-host"],
}
COLUMNS = 96
_NOW = datetime(2026, 11, 27, 8, 15, tzinfo=timezone.utc)
_DAY = "it rained; the pump held. "
_CHAR, _LINE, _EDGE, _TOP = 8.4, 19, 16, 44
_INK, _PAPER, _TITLE = "#d7dae0", "#1d2127", "#8b93a1"
_COLOURS = {1: "#ff7b72", 2: "#56d364", 3: "#e3b341"}  # red, green, yellow, by their number in a terminal


class Screen(io.StringIO):
    """What a program takes for a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        """It says that it is one."""
        return True


def print_on_terminal(arguments: list[str]) -> str:
    """What the command line prints for these arguments, with the codes of a terminal."""
    screen = Screen()
    with contextlib.redirect_stdout(screen), contextlib.redirect_stderr(io.StringIO()):
        main(arguments)
    return screen.getvalue()


@contextlib.contextmanager
def furnished() -> Iterator[None]:
    """A hosted vault with a week of memory, a folder that went on since, and a clock that stands still."""
    vault = FakeVault()
    with contextlib.ExitStack() as stack:
        here = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.callback(os.chdir, Path.cwd())
        os.chdir(here)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("COLONY_")}
        settings = {"COLONY_API_KEY": "col_", "COLUMNS": str(COLUMNS), "TERM": "xterm-256color", "HOME": str(here)}
        kept = {
            name: value for name, value in kept.items() if name not in ("NO_COLOR", "FORCE_COLOR", "XDG_STATE_HOME")
        }
        stack.enter_context(mock.patch.dict(os.environ, {**kept, **settings}, clear=True))
        stack.enter_context(mock.patch("colony_memory.shell.app.open.open_vault", return_value=vault))
        stack.enter_context(mock.patch("colony_memory.shell.words._clock", return_value=_NOW))
        _fill(vault)
        _write_folders(here)
        yield


def _fill(vault: FakeVault) -> None:
    days = {f"notes/{day}.md": _DAY * (20 + day) for day in range(19, 27)}
    states = [
        (timedelta(days=6), "default", dict(list(days.items())[:2])),
        (timedelta(days=5), "scratch", {}),
        (timedelta(days=2), "default", dict(list(days.items())[:6])),
        (timedelta(days=1, hours=2), "research", {"papers.md": "one line a paper\n" * 90}),
        (timedelta(hours=3), "default", {**days, "todo.md": "water\n"}),
    ]
    for at, (ago, label, documents) in enumerate(states):
        memory = ColonyMemory(backend=vault, signer=Ed25519Signer(bytes(range(32))))
        session = memory._session  # noqa: SLF001 - its clock and its dice
        with (
            mock.patch.object(session, "now", mock.Mock(return_value=_NOW - ago)),
            mock.patch.object(session, "token", mock.Mock(return_value=f"{at}a1b2c")),
        ):
            memory.backup({"MEMORY.md": f"{_DAY}\n" * (40 + at), **documents}, label=label)
    del vault.files["cmem.scratch.20261122T081500000000Z-1a1b2c.p0.json"]


def _write_folders(here: Path) -> None:
    for folder, days, lines in ((here / "memory", range(20, 27), 47), (here / "old-host", range(19, 25), 42)):
        (folder / "notes").mkdir(parents=True)
        (folder / "MEMORY.md").write_text(f"{_DAY}\n" * lines, encoding="utf-8")
        for day in days:
            (folder / "notes" / f"{day}.md").write_text(_DAY * (20 + day), encoding="utf-8")
        for path in folder.rglob("*.md"):
            os.utime(path, (0, 0))
    (here / "memory" / "notes" / "27.md").write_text("the pump stopped\n", encoding="utf-8")


def draw(printed: str, command: str) -> str:
    """The SVG of what was printed; each line of the terminal is one element ``text``."""
    texts = [Text(f"$ {command}"), *(Text.from_ansi(line) for line in printed.splitlines())]
    lines = [row for text in texts for row in text.divide(range(COLUMNS, len(text), COLUMNS))]  # as a terminal wraps
    width = round(COLUMNS * _CHAR + 2 * _EDGE)
    height = _TOP + len(lines) * _LINE + _EDGE
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        f"<title>{escape(command)}</title>",
        f'<rect width="{width}" height="{height}" rx="8" fill="{_PAPER}"/>',
        *(f'<circle cx="{_EDGE + 4 + 18 * each}" cy="18" r="5" fill="{_TITLE}"/>' for each in range(3)),
        f'<g font-family="ui-monospace, Menlo, Consolas, monospace" font-size="14" fill="{_INK}">',
    ]
    for number, line in enumerate(lines):
        if line.plain:
            place = f'x="{_EDGE}" y="{_TOP + number * _LINE}" textLength="{len(line.plain) * _CHAR:.1f}"'
            out.append(f'<text {place} xml:space="preserve">{_spans(line)}</text>')
    return "\n".join([*out, "</g>", "</svg>", ""])


def _spans(line: Text) -> str:
    pieces, end = [], 0
    for span in sorted(line.spans):
        pieces.append(escape(line.plain[end : span.start]))
        style = span.style if not isinstance(span.style, str) else None
        ink = _COLOURS.get(style.color.number if style and style.color else None, _INK)
        weight = ' font-weight="bold"' if style and style.bold else ""
        pieces.append(f'<tspan fill="{ink}"{weight}>{escape(line.plain[span.start : span.end])}</tspan>')
        end = span.end
    return "".join([*pieces, escape(line.plain[end:])])


def write_all() -> None:
    """Write every picture."""
    IMAGES.mkdir(exist_ok=True)
    with furnished():
        drawn = {name: draw(print_on_terminal(arguments), _command(arguments)) for name, arguments in PICTURES.items()}
    for name, svg in drawn.items():
        (IMAGES / f"{name}.svg").write_text(svg, encoding="utf-8")


def _command(arguments: list[str]) -> str:
    return " ".join(["colony-memory", *arguments])


if __name__ == "__main__":
    write_all()
    sys.exit()
