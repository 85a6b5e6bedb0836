import re
import time
import tracemalloc
from dataclasses import replace
from itertools import product
from typing import get_args

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from snapshot_files import unhurried

from colony_memory import _diff, reports
from colony_memory._diff import File, Steps, changed_part, file_patch, split_lines
from colony_memory._engine import history
from colony_memory._engine.history import MAX_SHOWN, Pattern
from colony_memory.reports import DocumentChange, SnapshotCheck, VerifyReport, compare, count_lines

GOOD = SnapshotCheck("id", "ok", "ok", "ok", "ok", "did:key:z")


# --- a report is true where there is something good to say ---


def test_a_check_is_true_only_where_everything_was_read_and_holds():
    facts = get_args(reports.Fact)
    assert facts == ("ok", "bad", "missing", "unchecked")
    for manifest, parts, digest, signature in product(facts, repeat=4):
        check = SnapshotCheck("id", manifest, parts, digest, signature)
        assert bool(check) == (manifest == parts == digest == "ok" and signature in ("ok", "missing"))


def test_a_verify_report_is_true_where_all_of_at_least_one_restore():
    assert VerifyReport("work", (GOOD, GOOD), latest="id")
    assert not VerifyReport("work", ())
    assert not VerifyReport("work", (GOOD, replace(GOOD, digest="bad")))
    assert not VerifyReport("work", (replace(GOOD, signature="bad"), GOOD))
    assert not VerifyReport("work", (GOOD,), problem="the pointer is garbled")
    assert VerifyReport("work", (replace(GOOD, signature="missing"),))


# --- what changed ---


def change(before, after):
    found = compare({"a": before}, {"a": after})
    assert (found.added, found.removed, found.unchanged) == ((), (), 0)
    return found.changed["a"].added, found.changed["a"].removed


@pytest.mark.parametrize(
    ("before", "after", "added", "removed"),
    [
        ("a\nb\n", "a\nb\nc\n", 1, 0),
        ("a\nb\n", "b\n", 0, 1),
        ("a\n", "b\n", 1, 1),
        ("a\nb\nc\n", "c\nb\na\n", 2, 2),
        ("a\na\na\n", "a\na\n", 0, 1),
        ("a\n", "a\na\na\n", 2, 0),
        ("a\nb\nc\nd\n", "a\nX\nc\nY\n", 2, 2),
        ("a\nb\n", "a\r\nb\n", 1, 1),
        ("a\rb\u2028c\x0cd", "a\rb\u2028C\x0cd", 1, 1),
        ("", "a", 1, 0),
        ("a", "", 0, 1),
        ("a", "a\n", 1, 1),
        ("a\nb", "a\nb\nc", 2, 1),
        ("a\nb\n", "", 0, 2),
        ("\n\n", "\n", 0, 1),
        ("e\u0301", "\u00e9", 1, 1),
    ],
)
def test_lines_are_counted(before, after, added, removed):
    assert change(before, after) == (added, removed)


LINES = st.lists(st.sampled_from(["", "a", "b", "c", "d"]), max_size=12).map("\n".join)


@unhurried
@given(st.dictionaries(st.text(max_size=2), LINES, max_size=4), st.dictionaries(st.text(max_size=2), LINES, max_size=4))
def test_a_difference_accounts_for_every_name(before, after):
    found = compare(before, after)
    assert set(found.added) == set(after) - set(before)
    assert set(found.removed) == set(before) - set(after)
    assert set(found.changed) == {name for name in before if name in after and before[name] != after[name]}
    assert found.unchanged == sum(before[name] == after.get(name) for name in before)
    assert [*found.added] == sorted(found.added)
    assert [*found.removed] == sorted(found.removed)
    assert [*found.changed] == sorted(found.changed)
    assert bool(found) == (before != after)


def test_a_log_that_repeats_itself_is_compared_in_time():
    lines = [f"line {number}" for number in range(120)]
    before = "\n".join(lines[number % 120] for number in range(12_000))
    after = "\n".join(lines[(number * 7 + number // 120) % 120] for number in range(12_000))
    begin = time.process_time()
    added, removed = change(before, after)
    assert time.process_time() - begin < 3
    assert added == removed


def test_what_would_take_too_long_to_count_is_said_to_be_more_than_it_is():
    few, many = "a\nb\n", "y\n" + "x\n" * 200_000
    found = compare({"few": few, "many": many}, {"few": few + "c\n", "many": "x\n" * 200_001 + "z\n"}).changed
    assert found == {"few": DocumentChange(1, 0), "many": DocumentChange(200_002, 200_001, exact=False)}


TEXTS = st.lists(st.sampled_from(["", "a", "b", "ab"]), max_size=12).map("\n".join)


@settings(deadline=None)
@given(TEXTS, TEXTS, st.integers(0, 4), st.sampled_from([1, 2, 4, 1 << 16]))
@example("x\na", "x\nab", 3, 2)
@example("b\n", "a\nb\n", 3, 2)
@example("a", "a\n", 3, 2)
def test_what_is_around_the_changed_part_is_the_same_on_both_sides(old, new, around, piece):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(_diff, "_PIECE", piece)
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
def test_what_is_too_long_to_be_looked_at_is_said_to_differ(old, new):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(_diff, "MOST_LINES", 0)
        change = count_lines(old, new, Steps())
        text = file_patch("a.md", File(old), File(new))
    part = changed_part(old, new)
    assert change == DocumentChange(len(split_lines(part.new)), len(split_lines(part.old)), exact=old == new)
    if old == new:
        assert text == ""
        return


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
def test_many_short_lines_take_little_memory(act, monkeypatch):
    monkeypatch.setattr(_diff, "MOST_LINES", 1000)
    tracemalloc.start()
    try:
        act()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * len(LONG)


def lines(pattern, text, **options):
    return [(found.number, found.line) for found in Pattern(pattern, **options).find_lines(text)]


def test_each_line_is_looked_at_on_its_own():
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


def test_a_fixed_text_is_no_expression():
    assert lines("a.b*", "a.b*\nacb\nA.B*", fixed=True) == [(1, "a.b*")]
    assert lines("a.b*", "a.b*\nacb\nA.B*", fixed=True, ignore_case=True) == [(1, "a.b*"), (3, "A.B*")]
    assert lines("[", "[", fixed=True) == [(1, "[")]
    assert lines("\u00c4", "\u00e4\n", ignore_case=True) == [(1, "\u00e4")]
    assert lines("\udce9", "caf\udce9") == [(1, "caf\udce9")]


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("", "an empty pattern is in every line"),
        ("a\nb", "must not hold a line feed"),
        ("[", "'[' is not a regular expression: unterminated character set"),
        ("a{99999999999}", "is not a regular expression"),
        ("(" * 20_000 + ")" * 20_000, "is not a regular expression"),
        (None, "must be a string, not NoneType"),
        (b"a", "must be a string, not bytes"),
    ],
)
def test_what_is_no_pattern_is_refused(pattern, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        Pattern(pattern)


PARTS = ["a", "b", "c", r"\.", ".", "[ab]", "[^a]", ".*", ".+", ".*?", ".+?", "a*", "(?:a|bc)", r"\b", "^", "$", r"\d"]


@unhurried
@given(
    st.lists(st.sampled_from(PARTS), min_size=1, max_size=6).map("".join), st.text("abc. 1", max_size=12), st.booleans()
)
def test_a_line_has_what_re_finds_in_it(pattern, line, ignore_case):
    try:
        expected = re.compile(pattern, re.IGNORECASE if ignore_case else 0).search(line)
    except re.error:
        return
    found = Pattern(pattern, ignore_case=ignore_case).find(line)
    assert (found is None) == (expected is None)
    if found and expected:
        assert 0 <= found[0] <= found[1] <= len(line)


def test_a_long_line_is_looked_at_in_pieces_that_overlap():
    piece = history._PIECE
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
    assert Pattern("(x)+").find(long) == (0, history._MORE) or Pattern("(x)+").find(long) == (0, 4 * piece)
    assert Pattern("a.*b").find(f"a{long}b") == (0, 4 * piece + 2)


def test_a_long_line_is_cut_around_what_was_found():
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

    def __init__(self):
        self.looks = []

    def search(self, line, start=0, end=None):
        self.looks.append((len(line) if end is None else end) - start)


def test_no_text_draws_out_an_innocent_expression():
    text = "foo" * 30_000
    pattern, regex = Pattern(r"\w+@\w+"), Looking()
    pattern._regex = regex
    assert pattern.find(text) is None
    assert max(regex.looks) == history._PIECE
    assert sum(regex.looks) <= 2 * len(text)
    # Each part of a row is looked for once, from where the one before it ended.
    pattern, regex = Pattern("f.*b.*x"), Looking()
    first, *_ = pattern._parts
    pattern._parts = (first, regex, regex)
    assert pattern.find(text) is None
    assert regex.looks == [len(text) - 1]
    assert Pattern("foo.*bar.*x").find(text) is None
