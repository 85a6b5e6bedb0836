"""Texts by their lines, within bounds of memory that no text can move."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from colony_memory import _lines
from colony_memory._lines import Steps, changed_part, each_line, number_of_lines, split_lines
from colony_memory._matching import Pattern
from colony_memory._patch import File, file_patch
from colony_memory.reports import DocumentChange, count_lines

if TYPE_CHECKING:
    from collections.abc import Callable

TEXTS = st.lists(st.sampled_from(["", "a", "b", "ab"]), max_size=12).map("\n".join)


@given(TEXTS)
def test_the_lines_one_after_the_other_are_the_lines(text: str) -> None:
    assert [*each_line(text)] == [line.removesuffix("\n") for line in split_lines(text)]
    assert number_of_lines(text) == len(split_lines(text))


@settings(deadline=None)
@given(TEXTS, TEXTS, st.integers(0, 4), st.sampled_from([1, 2, 4, 1 << 16]))
@example("x\na", "x\nab", 3, 2)
@example("b\n", "a\nb\n", 3, 2)
@example("a", "a\n", 3, 2)
def test_what_is_around_the_changed_part_is_the_same_on_both_sides(old: str, new: str, around: int, piece: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(_lines, "_PIECE", piece)
        part = changed_part(old, new, around=around)
    lines = {name: split_lines(text) for name, text in (("old", old), ("new", new))}
    for name, text in (("old", part.old), ("new", part.new)):
        middle, rest = split_lines(text), len(lines[name])
        end = part.before + len(part.lead) + len(middle)
        assert lines[name][part.before : end + len(part.rest)] == [*part.lead, *middle, *part.rest]
        assert len(part.rest) == min(around, rest - end)
    assert len(part.lead) == min(around, part.before + len(part.lead))
    assert lines["old"][: part.before] == lines["new"][: part.before]
    if part.old and part.new:
        assert split_lines(part.old)[0] != split_lines(part.new)[0]
    else:
        assert (part.old == part.new) is (old == new)


@settings(deadline=None)
@given(TEXTS, TEXTS)
def test_what_is_too_long_to_be_looked_at_is_replaced(old: str, new: str) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(_lines, "MOST_LINES", 0)
        change = count_lines(old, new, Steps())
        text = file_patch("a.md", File(old), File(new))
    part = changed_part(old, new)
    assert change == DocumentChange(len(split_lines(part.new)), len(split_lines(part.old)), exact=old == new)
    if old == new:
        assert text == ""
        return
    # With no step to spare the same lines are told by way of difflib, in pieces or in one.
    assert text.startswith("Very much differs in b/a.md")
    hunk = text.partition(" @@\n")[2].replace("\n\\ No newline at end of file\n", "")
    sides = {sign: "".join(line[1:] for line in split_lines(hunk) if line[0] in f" {sign}") for sign in "-+"}
    if old.endswith("\n") and new.endswith("\n"):
        assert sides["-"] in old
        assert sides["+"] in new
        assert old.replace(sides["-"], sides["+"], 1) == new


LONG = "".join(f"{number:x}\n" for number in range(30_000))
OTHER = LONG.replace("1", "x")


@pytest.mark.parametrize(
    "act",
    [
        lambda: [*Pattern("q.*7").find_lines(LONG)],
        lambda: [*Pattern("q", fixed=True).find_lines(LONG + "q")],
        lambda: count_lines(LONG, LONG + "end\n", Steps()),
        lambda: count_lines(LONG, OTHER, Steps()),
        lambda: file_patch("a", File(LONG), File("begin\n" + LONG)),
        lambda: file_patch("a", File(LONG), File(OTHER)),
        lambda: file_patch("a", None, File(LONG)),
    ],
)
def test_many_short_lines_take_little_memory(act: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_lines, "MOST_LINES", 1000)
    tracemalloc.start()
    try:
        act()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * len(LONG)
