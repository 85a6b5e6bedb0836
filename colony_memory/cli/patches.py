"""Differences, and what became of files and lines, as lines for people."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from colony_memory.app.compare import change_word
from colony_memory.app.pick import made_at
from colony_memory.cli.tables import Column, draw, styled, when
from colony_memory.words.text import count, shown, shown_with_tabs, size

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from colony_memory.app.compare import FileHistory
    from colony_memory.reports import Change, Match, SearchReport
    from colony_memory.snapshot import SnapshotInfo

_CHANGES = (
    Column("id"),
    Column("created"),
    Column("change"),
    Column("lines", right=True),
    Column("size", right=True, spare=1),
)
_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def patch_lines(text: str) -> Iterator[str]:
    """Differences for a terminal: each line spelled out, in the colours that git has for it."""
    heads, head = ("diff --git ", "--- ", "+++ "), False
    painted = {style: styled("x", style).split("x") for style in (*_STYLES.values(), "bold")}
    for line in text.removesuffix("\n").split("\n"):
        head = line.startswith(heads[0]) or (head and not line.startswith("@@ "))
        style = "bold" if head and line.startswith(heads) else _STYLES.get(line[:1])
        before, after = ("", "") if style is None or len(painted[style]) < 2 else painted[style]
        yield f"{before}{shown_with_tabs(line)}{after}"


def history_lines(found: FileHistory, *, now: datetime) -> list[str]:
    """One row for each change, newest first, and whether the file is there still."""
    rows = [
        (
            each.snapshot.snapshot_id,
            when(made_at(each.snapshot), now),
            change_word(found.name, each),
            line_counts(each),
            "-" if each.kind == "removed" else size(each.size),
        )
        for each in found.changes
    ]
    newest = found.changes[0]
    still = f"last seen in {newest.before.snapshot_id}" if newest.kind == "removed" and newest.before else "still there"
    total = f"{count(len(found.changes), 'change')} in {count(found.read, 'snapshot')}; {still}"
    return [*draw(_CHANGES, rows).split("\n"), total]


def history_patches(found: FileHistory, *, now: datetime) -> str:
    """Each change with what differs, newest first."""
    parts = []
    for each in found.changes:
        told = f"{change_word(found.name, each)}, {line_counts(each)}"
        head = f"snapshot {each.snapshot.snapshot_id} ({when(made_at(each.snapshot), now)}): {told}"
        parts.append(f"{head}\n" + ("Too much to show.\n" if each.patch is None else each.patch))
    return "\n".join(parts)


def line_counts(change: Change) -> str:
    """Lines that came and went."""
    if change.lines is None:
        return "not text"
    return f"+{change.lines.added} -{change.lines.removed}{'' if change.lines.exact else ' at most'}"


def match_lines(found: SearchReport, *, now: datetime) -> Iterator[str]:
    """The lines that were found, those of a file that came and went together under one head."""
    for (name, *_), matches in groupby(found.matches, key=_times):
        group = list(matches)
        first = group[0]
        yield styled(shown(name), "magenta")
        yield f"  first  {_moment(first.first, now)}"
        yield f"  last   {_moment(first.last, now)}{_standing(first)}"
        if first.gone is not None:
            yield f"  gone   {_moment(first.gone, now)}"
        for each in group:
            yield _match_line(each)
    total = count(len(found.matches), "line")
    yield f"{total} in {count(found.searched, 'snapshot')}"


def _times(match: Match) -> tuple[str, str, str, bool | None]:
    return match.name, match.first.snapshot_id, match.last.snapshot_id, match.in_latest


def _moment(info: SnapshotInfo, now: datetime) -> str:
    return f"{shown(info.snapshot_id)}  {when(made_at(info), now)}"


def _standing(match: Match) -> str:
    if match.in_latest is None:
        return " (latest not read)"
    return " (latest)" if match.in_latest else ""


def _match_line(match: Match) -> str:
    if match.line is None:
        return "    not text, and found in it"
    start, end = match.span
    before, it, after = match.line[:start], match.line[start:end], match.line[end:]
    it = styled(shown_with_tabs(it), "bold red") if it else ""
    return f"    {match.number}: {shown_with_tabs(before)}{it}{shown_with_tabs(after)}"
