"""Lines are broken between words where a terminal would break them anywhere, and commands stay whole."""

from __future__ import annotations

import io
import os
import re
import sys

import pytest
from cli_runs import save

from colony_memory.cli.output import Output
from colony_memory.words.errors import say, say_json
from colony_memory.words.text import fitted, folded


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


MEMORY = "\u8a18\u61b6"


@pytest.mark.parametrize(
    ("line", "rows"),
    [
        ("as wide as it may be", ["as wide as it may be"]),
        ("a sentence that is too wide for it", ["a sentence that is", "  too wide for it"]),
        ("problem  with  a gap that goes on", ["problem  with  a gap", "  that goes on"]),
        ("one /word/that/is/far/too/long goes on", ["one", "  /word/that/is/far/too/long", "  goes on"]),
        ("/word/that/is/far/too/long", ["/word/that/is/far/too/long"]),
        ("this is wrong; try: colony-memory list -q", ["this is wrong; try:", "  colony-memory list -q"]),
        ("mend it  colony-memory backup PATH", ["mend it", "  colony-memory backup PATH"]),
        ("  export A=a line to be pasted whole", ["  export A=a line to be pasted whole"]),
        ("\x1b[1;32mprotected\x1b[0m: last backup", ["\x1b[1;32mprotected\x1b[0m: last", "  backup"]),
        (f"{MEMORY * 4} {MEMORY}", [MEMORY * 4, f"  {MEMORY}"]),
    ],
)
def test_a_line_is_broken_between_words(line, rows):
    assert folded(line, 20).split("\n") == rows


def test_a_command_that_fits_beside_the_end_stays_there():
    line = "a long explanation that has to be broken; try: colony-memory list"
    assert folded(line, 42).split("\n") == ["a long explanation that has to be broken;", "  try: colony-memory list"]


def test_what_is_no_terminal_gets_lines_as_they_are(monkeypatch):
    line = "word " * 40
    assert fitted(line, None) == line
    assert fitted(line, io.StringIO()) == line
    monkeypatch.setenv("COLUMNS", "30")
    assert max(map(len, fitted(line, Terminal()).splitlines())) <= 30
    for unusable in ("0", "wide"):
        monkeypatch.setenv("COLUMNS", unusable)
        assert max(map(len, fitted(line, Terminal()).splitlines())) <= 80


def test_a_terminal_tells_its_width(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    screen = Terminal()
    monkeypatch.setattr(screen, "fileno", lambda: 7)
    monkeypatch.setattr(os, "get_terminal_size", lambda descriptor: os.terminal_size((10 * descriptor, 20)))
    assert 60 < max(map(len, fitted("word " * 40, screen).splitlines())) <= 70


def test_errors_and_reports_are_folded_and_json_and_names_are_not(monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    screen, paper = Terminal(), Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(sys, "stdout", paper)
    say("error: nothing is saved yet; try: colony-memory backup PATH")
    say_json({"error": "nothing is saved yet under that label"})
    assert screen.getvalue().splitlines() == [
        "error: nothing is saved yet;",
        "  try:",
        "  colony-memory backup PATH",
        '{"error": "nothing is saved yet under that label"}',
    ]
    Output().report("restored all that there was to restore", names=["created  a name with many blanks in it.md"])
    assert paper.getvalue().splitlines() == [
        "created  a name with many blanks in it.md",
        "restored all that there was to",
        "  restore",
    ]


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_answers_keep_within_the_terminal(cli, vault, monkeypatch, columns):
    for name in ("a", "ab"):
        save(vault, {"a.md": name}, incomplete=["agent.sock: socket"], tags=["release"], note="before the move " * 3)
    monkeypatch.setenv("COLUMNS", str(columns))
    for asked in (["list"], ["status"], ["verify"], ["prune", "--keep", "1", "--dry-run"], ["backup", "-n", "."]):
        screen = Terminal()
        monkeypatch.setattr(sys, "stdout", screen)
        cli(*asked)
        lines = screen.getvalue().splitlines()
        wide = [line for line in lines if len(re.sub(r"\x1b\[[0-9;]*m", "", line)) > columns]
        # Only what is to be pasted, and a path, may be.
        assert all("colony-memory " in line or str(vault.path) in line for line in wide), (asked, wide)
