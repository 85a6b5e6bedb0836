from __future__ import annotations

import time
from dataclasses import replace
from itertools import product
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colony_memory import reports
from colony_memory.reports import (
    DocumentChange,
    SnapshotCheck,
    VerifyReport,
    compare,
)

# A busy machine is no failure.
unhurried = settings(deadline=None)

GOOD = SnapshotCheck("id", "ok", "ok", "ok", "ok", "did:key:z")


# --- a report is true where there is something good to say ---


def test_a_check_is_true_only_where_everything_was_read_and_holds() -> None:
    facts = get_args(reports.Fact)
    assert facts == ("ok", "bad", "missing", "unchecked")
    for manifest, parts, digest, signature in product(facts, repeat=4):
        check = SnapshotCheck("id", manifest, parts, digest, signature)
        assert bool(check) == (manifest == parts == digest == "ok" and signature in ("ok", "missing"))


def test_a_verify_report_is_true_where_all_of_at_least_one_restore() -> None:
    assert VerifyReport("work", (GOOD, GOOD), latest="id")
    assert not VerifyReport("work", ())
    assert not VerifyReport("work", (GOOD, replace(GOOD, digest="bad")))
    assert not VerifyReport("work", (replace(GOOD, signature="bad"), GOOD))
    assert not VerifyReport("work", (GOOD,), problem="the pointer is garbled")
    assert VerifyReport("work", (replace(GOOD, signature="missing"),))


# --- what changed ---


def change(before: str, after: str) -> tuple[int, int]:
    """Lines added and removed."""
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
        ("a\nb\nc\n", "a\nX\nc\n", 1, 1),
        ("a\nb\nc\nd\n", "a\nX\nc\nY\n", 2, 2),
        ("a\nb\n", "a\r\nb\n", 1, 1),
        ("a\rb", "a\rc", 1, 1),
        ("a\u2028b", "a\u2028c", 1, 1),
        ("a\x0cb", "a\x0cc", 1, 1),
        ("x\ny", "x\nz", 1, 1),
        ("", "a\n", 1, 0),
        ("", "a", 1, 0),
        ("a", "", 0, 1),
        ("a", "a\n", 1, 1),
        ("a\nb", "a\nb\nc", 2, 1),
        ("a\nb\n", "", 0, 2),
        ("\n\n", "\n", 0, 1),
        ("e\u0301", "\u00e9", 1, 1),
    ],
)
def test_lines_are_counted(before: str, after: str, added: int, removed: int) -> None:
    assert change(before, after) == (added, removed)


LINES = st.lists(st.sampled_from(["", "a", "b", "c", "d"]), max_size=12).map("\n".join)


@unhurried
@given(LINES, LINES)
def test_line_counts_are_those_of_some_edit(before: str, after: str) -> None:
    if before == after:
        assert not compare({"a": before}, {"a": after})
        return
    added, removed = change(before, after)
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    assert added - removed == len(new) - len(old)
    assert 0 <= removed <= len(old)
    assert added + removed > 0
    kept = sum(min(old.count(line), new.count(line)) for line in {*old, *new})
    assert len(old) - removed <= kept


@unhurried
@given(st.dictionaries(st.text(max_size=2), LINES, max_size=4), st.dictionaries(st.text(max_size=2), LINES, max_size=4))
def test_a_difference_accounts_for_every_name(before: dict[str, str], after: dict[str, str]) -> None:
    found = compare(before, after)
    assert set(found.added) == set(after) - set(before)
    assert set(found.removed) == set(before) - set(after)
    assert set(found.changed) == {name for name in before if name in after and before[name] != after[name]}
    assert found.unchanged == sum(before[name] == after.get(name) for name in before)
    assert [*found.added] == sorted(found.added)
    assert [*found.removed] == sorted(found.removed)
    assert [*found.changed] == sorted(found.changed)
    assert bool(found) == (before != after)


def test_a_log_that_repeats_itself_is_compared_in_time() -> None:
    lines = [f"line {number}" for number in range(120)]
    before = "\n".join(lines[number % 120] for number in range(12_000))
    after = "\n".join(lines[(number * 7 + number // 120) % 120] for number in range(12_000))
    begin = time.process_time()
    added, removed = change(before, after)
    assert time.process_time() - begin < 3
    assert added == removed


def test_what_would_take_too_long_to_count_is_said_to_be_more_than_it_is() -> None:
    few, many = "a\nb\n", "y\n" + "x\n" * 200_000
    found = compare({"few": few, "many": many}, {"few": few + "c\n", "many": "x\n" * 200_001 + "z\n"}).changed
    assert found == {"few": DocumentChange(1, 0), "many": DocumentChange(200_002, 200_001, exact=False)}
