"""Sizes, times, lines and tables of the command line."""

from __future__ import annotations

import pytest

from colony_memory import words as text


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (99_949, "99.9 kB"),
        (99_950, "100 kB"),
        (999_499, "999 kB"),
        (999_500, "1.0 MB"),
        (10_000_000, "10.0 MB"),
        (84 * 10**9, "84.0 GB"),
        (5 * 10**12, "5.0 TB"),
        (5 * 10**15, "5000 TB"),
    ],
)
def test_sizes(count, said):
    assert text.size(count) == said


def test_a_name_is_cut_where_no_path_is_so_long_and_a_line_of_a_text_never():
    name = "n" * 4096
    assert text.shown(name) == name
    assert text.shown(name + "\n" * 5) == f"{name}… and 5 characters more"
    assert text.shown_with_tabs("\x1b" + name * 3) == "\\x1b" + name * 3
