"""The pages as their readers meet them: fenced blocks, run in order in a place of their own."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from colony_memory.testing import FakeVault, VaultServer

ROOT = Path(__file__).parents[2]
CHANGELOG = ROOT / "CHANGELOG.md"
README = ROOT / "README.md"
FORMAT = ROOT / "SNAPSHOT-FORMAT.md"
PAGES = [README, ROOT / "skill.md", FORMAT, *sorted((ROOT / "docs").glob("*.md"))]

#: Headings whose commands build an environment: whoever runs the whole suite has done so.
BUILDING = ("Try it", "Test it")
_KEY = "col_..."
_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^## (.*?) *$", re.MULTILINE)
_SHELLS = ("sh", "console", "crontab")
_CRONTAB = re.compile(r"(?:\S+ +){5}(.*)")
# What differs from run to run, and is shown as it was in one.
_VARYING = (
    (r"\b\d{8}T\d{12}Z-[0-9a-f]{6}\b", "ID"),
    (r"\b\d{4}-\d\d-\d\d \d\d:\d\d\b", "TIME"),
    (r"\b\d{4}-\d\d-\d\d\b", "DAY"),
    (r"\((?:\d+[smhdy] ago|(?:just )?now)\)", "(AGE)"),
    (r"\b\d+(\.\d)? [kMGT]?B\b", "SIZE"),
    (r"\(\d+ %\)", "(SHARE)"),
)
_NEEDED = {
    "Ed25519Signer": "cryptography",
    "obstore": "obstore",
    "from mcp import": "mcp.server",
    "encrypt_to": "pyrage",
    "Passphrase": "pyrage",
    "DecryptionError": "pyrage",
    'AsyncColonyMemory(api_key="': "httpx",
}


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        page: The file that it is in.
        line: Number of its first line.
        place: Its place among the blocks of the page.
        heading: The section that it is in.
        language: What stands behind the fence.
        text: What is in it.
        shown: For Python, what the next block says that is printed, or None.
    """

    page: Path
    line: int
    place: int
    heading: str
    language: str
    text: str
    shown: str | None = None

    def __str__(self):
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def runs(self):
        """Whether it is something to run here."""
        return self.language in ("python", "toml") or (self.language in _SHELLS and self.heading not in BUILDING)

    def commands(self):
        """Each command, with what it is shown to print, or None."""
        if self.language == "console":
            for piece in re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]:
                command, _, shown = piece.partition("\n")
                yield command, shown
        elif self.language == "crontab":
            for line in self.text.splitlines():
                found = _CRONTAB.fullmatch(line)
                assert found, f"{self}: not a line of a crontab: {line}"
                yield found[1], ""
        else:
            yield self.text, None


def read(page):
    return page.read_text(encoding="utf-8")


def read_blocks(page):
    text = read(page)
    headings = [(found.start(), found[1]) for found in _HEADING.finditer(text)]
    blocks = []
    end = 0
    for place, found in enumerate(_FENCE.finditer(text)):
        heading = next((name for start, name in reversed(headings) if start < found.start()), "")
        line = text.count("\n", 0, found.start(2)) + 1
        if found[1] == "text" and blocks and blocks[-1].language == "python" and not text[end : found.start()].strip():
            last = blocks[-1]
            blocks[-1] = Block(page, last.line, last.place, last.heading, last.language, last.text, found[2])
        blocks.append(Block(page, line, place, heading, found[1], found[2]))
        end = found.end()
    return blocks


def need_extras(block):
    """Skip the test where the block needs an extra that is not installed."""
    for sign, module in _NEEDED.items():
        if block.language == "python" and sign in block.text:
            pytest.importorskip(module)
    if block.language in _SHELLS and not is_installation(block):
        pytest.importorskip("click")
        if "--age" in block.text or "--encrypt-to" in block.text:
            pytest.importorskip("pyrage")


def is_installation(block):
    """Whether it is nothing but ``pip install …``, which only a network could run."""
    return block.language == "sh" and all(line.startswith("pip install ") for line in block.text.splitlines())


def fits(shown, printed):
    """Whether a page shows what is printed.

    Ids, times and sizes may be others, ``…`` stands for anything, and runs of blanks for any such.
    """
    for varying, name in _VARYING:
        shown, printed = re.sub(varying, name, shown), re.sub(varying, name, printed)
    pieces = shown.strip().split("…")
    pattern = ".*".join(r"\s+".join(map(re.escape, re.split(r"\s+", piece))) for piece in pieces)
    return re.fullmatch(pattern, printed.strip(), re.DOTALL) is not None


class Stage:
    """Where the blocks of one page run: a directory, a home and a hosted vault of its own."""

    def __init__(self, page, directory):
        self._blocks = read_blocks(page)
        self._directory = directory / "here"
        self._namespace = {"__name__": "page"}
        self._server = VaultServer(FakeVault(operations_per_hour=None), api_key=_KEY)
        self._done = 0
        _furnish(self._directory)
        self._settings = {
            "HOME": str(directory),
            "XDG_DATA_HOME": str(directory / "data"),
            "XDG_CONFIG_HOME": str(directory / ".config"),
            "XDG_STATE_HOME": str(directory / "state"),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }

    def __enter__(self):
        self._server.start()
        return self

    def __exit__(self, *exc):
        self._server.close()

    def run(self, block):
        while self._done < block.place:
            above = self._blocks[self._done]
            self._done += 1
            if above.runs:
                with contextlib.suppress(pytest.skip.Exception):
                    need_extras(above)
                    self._run(above)
        self._done = max(self._done, block.place + 1)
        self._run(block)

    def _run(self, block):
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self._directory)
            for name, value in self._settings.items():
                patch.setenv(name, value)
            if block.language == "python":
                self._run_python(block, patch)
            elif block.language == "toml":  # the configuration from here on
                place = self._directory.parent / ".config" / "colony-memory" / "config.toml"
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(block.text, encoding="utf-8")
            elif not is_installation(block):
                for command, shown in block.commands():
                    self._run_command(block, command, shown)

    def _run_python(self, block, patch):
        patch.setenv("COLONY_API_KEY", _KEY)
        patch.setenv("COLONY_BASE_URL", self._server.url)
        # Its own line numbers, so that a traceback leads into the page.
        code = compile("\n" * (block.line - 1) + block.text, str(block.page), "exec")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, self._namespace)
        if block.shown is not None:
            assert fits(block.shown, printed.getvalue()), f"{block} prints\n{printed.getvalue()}"

    def _run_command(self, block, command, shown):
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"{block}: {command}: exit code {done.returncode}\n{done.stdout}"
        if shown is not None:
            assert fits(shown, done.stdout), f"{block}: {command} prints\n{done.stdout}"


def _furnish(directory):
    """What a page may take for granted: a MEMORY.md, a small folder of memory, and the example."""
    notes = directory / "memory" / "notes"
    notes.mkdir(parents=True)
    (directory / "MEMORY.md").write_text("two years of notes\n", encoding="utf-8")
    (directory / "memory" / "MEMORY.md").write_text("two years of notes\n", encoding="utf-8")
    (directory / "memory" / "logs").mkdir()
    for day in ("monday", "tuesday"):
        (notes / f"{day}.md").write_text(f"it was {day}\n", encoding="utf-8")
    (directory.parent / "agent").symlink_to(directory.name)
    for name in ("examples", "integrations"):
        shutil.copytree(ROOT / name, directory / name, ignore=shutil.ignore_patterns("__pycache__"))


@pytest.fixture(scope="module")
def open_stage(tmp_path_factory):
    """Gives the stage of a page: the blocks of a page share one."""
    stages = {}
    with contextlib.ExitStack() as opened:

        def open_one(page):
            if page not in stages:
                stages[page] = opened.enter_context(Stage(page, tmp_path_factory.mktemp(page.stem)))
            return stages[page]

        yield open_one
