from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colony_memory import _matching
from colony_memory._matching import MAX_SHOWN, Pattern

unhurried = settings(deadline=None)


def lines(pattern: str, text: str, **options: bool) -> list[tuple[int, str | None]]:
    return [(found.number, found.line) for found in Pattern(pattern, **options).find_lines(text)]


def test_each_line_is_looked_at_on_its_own() -> None:
    text = "tea\n\ncoffee\r\nTea and tea\nte\u2028a\x0cb"
    assert lines("tea", text) == [(1, "tea"), (4, "Tea and tea")]
    assert lines("tea", text, ignore_case=True) == [(1, "tea"), (4, "Tea and tea")]
    assert lines("^T", text) == [(4, "Tea and tea")]
    assert lines("^$", text) == [(2, "")]
    assert lines("e.a", text) == [(5, "te\u2028a\x0cb")]
    assert lines("fee$", text) == []
    assert lines(r"fee\s$", text) == [(3, "coffee\r")]
    assert lines(r"a\n", text) == []
    assert lines("x*", "") == []
    assert lines("x*", "\n") == [(1, "")]
    assert lines("x*", "a\n\n") == [(1, "a"), (2, "")]


def test_a_fixed_text_is_no_expression() -> None:
    assert lines("a.b*", "a.b*\nacb\nA.B*", fixed=True) == [(1, "a.b*")]
    assert lines("a.b*", "a.b*\nacb\nA.B*", fixed=True, ignore_case=True) == [(1, "a.b*"), (3, "A.B*")]
    assert lines("[", "[", fixed=True) == [(1, "[")]
    assert lines("\u00c4", "\u00e4\n", ignore_case=True) == [(1, "\u00e4")]
    assert lines("\udce9", "caf\udce9") == [(1, "caf\udce9")]


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("", "an empty pattern is in every line"),
        ("a\nb", "there is a line feed in it"),
        ("[", "'[' is not a regular expression: unterminated character set"),
        ("a{99999999999}", "is not a regular expression"),
        ("(" * 20_000 + ")" * 20_000, "is not a regular expression"),
        (None, "must be a string, not NoneType"),
        (b"a", "must be a string, not bytes"),
    ],
)
def test_what_is_no_pattern_is_refused(pattern: str, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        Pattern(pattern)


PARTS = ["a", "b", "c", r"\.", ".", "[ab]", "[^a]", ".*", ".+", ".*?", ".+?", "a*", "(?:a|bc)", r"\b", "^", "$", r"\d"]


@unhurried
@given(
    st.lists(st.sampled_from(PARTS), min_size=1, max_size=6).map("".join),
    st.text("abc. 1", max_size=12),
    st.booleans(),
)
def test_a_line_has_what_re_finds_in_it(pattern: str, line: str, ignore_case: bool) -> None:
    try:
        expected = re.compile(pattern, re.IGNORECASE if ignore_case else 0).search(line)
    except re.error:
        return
    found = Pattern(pattern, ignore_case=ignore_case).find(line)
    assert (found is None) == (expected is None)
    if found and expected:
        assert 0 <= found[0] <= found[1] <= len(line)


def test_a_long_line_is_looked_at_in_pieces_that_overlap() -> None:
    piece = _matching._PIECE
    for at in (0, 1, piece // 2 - 3, piece // 2, piece - 4, piece - 1, piece, 5 * piece):
        line = "x" * at + "needle7" + "x" * 3 * piece
        assert Pattern("(needle)[0-9]").find(line) == (at, at + 7)
        assert Pattern("(needle)[0-9]").find(line[: at + 7]) == (at, at + 7)
        assert Pattern("needle(?!7)").find(line) is None
        assert Pattern("(?<!x)(needle)").find(f"y{line}") == (None if at else (1, 7))
    long = "x" * 4 * piece
    # The end of a piece is no end of the line, and its beginning is no beginning.
    assert Pattern("(x)$").find(f"{long}y") is None
    assert Pattern("(x)+$").find(f"{long}y") is None
    assert Pattern("(x)$").find(long) == (4 * piece - 1, 4 * piece)
    assert Pattern("^(y)").find(f"{long}y") is None
    assert Pattern(r"(x)\b").find(f"{long}y") is None
    # What is longer than a piece is seen as far as is needed to know that it is there.
    assert Pattern("(x)+").find(long) == (0, _matching._MORE) or Pattern("(x)+").find(long) == (0, 4 * piece)
    assert Pattern("a.*b").find(f"a{long}b") == (0, 4 * piece + 2)


def test_a_long_line_is_cut_around_what_was_found() -> None:
    (found,) = Pattern("needle").find_lines("x" * 1000 + "needle" + "y" * 1000)
    assert found.line is not None
    assert found.line[0] == found.line[-1] == "\u2026"
    assert found.line[slice(*found.span)] == "needle"
    assert len(found.line) == MAX_SHOWN + 2
    (found,) = Pattern("x+").find_lines("x" * 1000)
    assert (found.line, found.span) == ("x" * MAX_SHOWN + "\u2026", (0, MAX_SHOWN))
    (found,) = Pattern("end").find_lines("x" * 1000 + "end")
    assert found.line is not None
    assert found.line[slice(*found.span)] == "end"
    assert found.line.endswith("end")
    keys = {found.key for text in ("x" * 1000, "x" * 1001) for found in Pattern("x").find_lines(text)}
    assert len(keys) == 2


class Looking:
    """An expression that notes how much it looks at."""

    def __init__(self) -> None:
        self.looks: list[int] = []

    def search(self, line: str, start: int = 0, end: int | None = None) -> None:
        self.looks.append((len(line) if end is None else end) - start)


def test_no_text_draws_out_an_innocent_expression() -> None:
    text = "foo" * 30_000
    pattern, regex = Pattern(r"\w+@\w+"), Looking()
    pattern._regex = regex  # type: ignore[assignment]
    assert pattern.find(text) is None
    assert max(regex.looks) == _matching._PIECE
    assert sum(regex.looks) <= 2 * len(text)
    # Each part of a row is looked for once, from where the one before it ended.
    pattern, regex = Pattern("f.*b.*x"), Looking()
    first, *_ = pattern._row
    pattern._row = (first, regex, regex)  # type: ignore[assignment]
    assert pattern.find(text) is None
    assert regex.looks == [len(text) - 1]
    assert Pattern("foo.*bar.*x").find(text) is None
