"""Patterns mean what git means by them, whatever they are, and take no longer than they are long."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from colony_memory.capture._ignore import IgnoreRules, read_pattern
from colony_memory.exceptions import ColonyMemoryError

needs_git = pytest.mark.skipif(os.name == "nt" or not shutil.which("git"), reason="needs git, and names of any bytes")
PIECES = [
    *"ab1/ -!^]}.#", "*", "**", "***", "?", "/**/", "**/", "/**", "\\", "\\*", "\\[", "[", "[ab]", "[!a]", "[^/]",
    "[]a]", "[a-]", "[--0]", "[a-c]", "[\\]]", "[a\\-c]", "[[:alpha:]]", "[[:digit:]b]", "[![:punct:]]",
    "[[:space:]]", "[[:x]]", "[[:]", "[[.a.]]", "[[=a=]]", "[[]", "[/]", "\u00e9", "\ufffd", "a.md",
]  # fmt: skip
NAMES = [
    " ", "a ", "a", "b", "ab", "1", "a.md", "-", "]", "[", "\\", "*", ".a", "#a", "!a", "^", "a-c", ":", "x]",
    "[a]", "\u00e9", "\ufffd", "a\u00e9b", "a/b", "a/a", "b/a", "a/b/a", "a/1/b", "a.md/b", "ab/a/b", "a/ab/1/b",
    "1/a.md", "b/a/a.md", "a/b/a/b/a",
]  # fmt: skip


def as_git(pattern: str, names: list[str]) -> set[str]:
    """The names that git excludes by this one rule; none of them is a directory."""
    where = Path(as_git_repository()) / "rules"
    where.write_bytes(pattern.encode("utf-8", "surrogateescape") + b"\n")
    command = ["git", "-C", str(where.parent), "-c", f"core.excludesFile={where}", "check-ignore", "-z", "--stdin"]
    text = b"".join(b"./" + name.encode("utf-8", "surrogateescape") + b"\0" for name in names)
    done = subprocess.run(command, input=text, capture_output=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return {name[2:].decode("utf-8", "surrogateescape") for name in done.stdout.split(b"\0") if name}


def as_git_repository(made: list[str] = []) -> str:  # noqa: B006 - made once
    import atexit
    import tempfile

    if not made:
        made.append(tempfile.mkdtemp())
        atexit.register(shutil.rmtree, made[0], True)
        subprocess.run(["git", "init", "-q", made[0]], check=True)
    return made[0]


def as_here(pattern: str, names: list[str]) -> set[str] | None:
    """The same of ours, with what is below an excluded directory; None where it is refused."""
    rules = IgnoreRules()
    try:
        rules.add("", pattern.encode("utf-8", "surrogateescape"), where="rules")
    except ColonyMemoryError:
        return None

    def is_excluded(name: str) -> bool:
        parts = name.split("/")
        above = ["/".join(parts[:number]) for number in range(1, len(parts))]
        return any(rules.exclude(each, is_directory=True) for each in above) or rules.exclude(name, is_directory=False)

    return {name for name in names if is_excluded(name)}


def check(pattern: str) -> None:
    ours = as_here(pattern, NAMES)
    gits = as_git(pattern, NAMES)
    if ours is None:
        # A rule that git takes, and that can match something, is taken here too.
        assert gits == set() or "[" in pattern or pattern.endswith("\\")
    else:
        assert ours == gits, pattern


@needs_git
@settings(deadline=None)
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).map("".join))
@example("a**/b")
@example("[[:digit:]]*.md")
@example("*[!a]/**/b")
@example("**/")
@example("a/**/**/b")
def test_any_pattern_is_read_as_git_reads_it(pattern: str) -> None:
    check(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        b"*a" * 60,
        b"*?" * 60,
        b"**/a/" * 60 + b"b",
        b"**/" * 900 + b"b",
        b"[!b]*" * 60,
        b"a*/**/" * 60,
        b"*" * 4000 + b"b",
    ],
)
def test_steps_grow_with_the_length_of_a_name_and_not_with_its_powers(
    pattern: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    from colony_memory.capture import _ignore

    steps, real = [], _ignore._reach

    def counting(states: int, repeats: int, skips: int) -> int:
        steps.append(states)
        return real(states, repeats, skips)

    monkeypatch.setattr(_ignore, "_reach", counting)
    wildcard = read_pattern(pattern)
    for name in (b"a" * 4000, b"a/" * 2000, b"a" * 3999 + b"b"):
        steps.clear()
        wildcard.matches(name)
        assert len(steps) <= len(name) + 1
    assert len(wildcard.tokens) <= 3 * len(pattern)
    # What is reached without taking anything is never far.
    idle = "".join("x" if token.takes and not token.repeats else "-" for token in wildcard.tokens)
    assert "-" * 4 not in idle
