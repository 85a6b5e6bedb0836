"""The outcome of a verb, as lines for people."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from colony_memory._values import asdict
from colony_memory.app.pick import change_word, count_texts, made_at, number_left_out, stamp
from colony_memory.capture._metadata import METADATA_NAMES
from colony_memory.cli.tables import Column, check_table, draw, is_plain, size_of, styled, when
from colony_memory.retention import newest_first
from colony_memory.trust import older_than_signing
from colony_memory.words.text import age, count, few, shown, shown_with_tabs, size, stored

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from colony_memory.app.compare import FileHistory, Preview, Unsaved
    from colony_memory.app.save import Saved
    from colony_memory.capture._metadata import Contents
    from colony_memory.reports import Change, Match, SearchReport, SnapshotDiff, VerifyReport
    from colony_memory.retention import PrunePlan
    from colony_memory.snapshot import SnapshotInfo


def backup_lines(saved: Saved, *, now: datetime) -> list[str]:
    """The outcome of a backup; joined with another's, a snapshot is more than was read."""
    info, contents = saved.info, saved.contents
    named = f"snapshot {info.snapshot_id} of label {info.label}"
    left = f"{len(saved.left_out)} left out" if saved.left_out else ""
    files = amount(contents) if contents else "" if (texts := count_texts(info)) is None else count(texts, "text")
    what = ", ".join(filter(None, (files, left, size(saved.size), f"stored as {stored(info)}")))
    if not info.reused:
        return [f"saved {named}", what]
    made = made_at(info)
    held_by = f"saved as {named}" if info.diverged_from else f"latest is {named}"  # another's is the latest
    return [f"unchanged since {stamp(made)} ({age(made, now)}); nothing written", held_by, what]


def diverged_line(info: SnapshotInfo, *, joined: bool) -> str:
    """That another client has saved in between, and what became of its snapshot."""
    if info.reused:
        return f"nothing here is new, and the latest is snapshot {info.diverged_from}; restore to get it"
    other = f"snapshot {info.diverged_from}, which another client saved meanwhile"
    if joined and info.head:
        twice = f"; kept beside yours: {', '.join(info.merged)}" if info.merged else ""
        return f"joined with {other}{twice}; restore to get both"
    if info.head:
        return f"this is the latest now, in the place of {other}"
    return f"saved, and the latest is {other}"


def snapshot_lines(info: SnapshotInfo, contents: Contents | None, *, now: datetime) -> list[str]:
    """One snapshot, and the names in it; of one that cannot be read (None) those that its summary gives."""
    made = made_at(info)
    parts = f" in {count(info.part_count, 'part')}" if info.part_count else ""
    facts = [
        ("snapshot", info.snapshot_id + (", the latest" if info.head else "")),
        ("label", info.label),
        ("made", f"{stamp(made)} ({age(made, now)})"),
        ("signed by", (info.issuer or "?") if info.signed else "nobody"),
        ("size", f"{size_of(info)}, stored as {stored(info)}{parts}"),
        *([("sha256", info.plaintext_sha256.removeprefix("sha256:"))] if info.plaintext_sha256 else []),
        ("format", info.format + (", encrypted" if info.encrypted else "")),
        *([("after", info.parent_id)] if info.parent_id else []),
        *([("based on", ", ".join(info.based_on))] if info.based_on and info.based_on != (info.parent_id,) else []),
        *([("conflict", "it met one, and did not become the latest")] if info.refused else []),
        *([("pinned", f"kept until {info.pinned_until or 'it is unpinned'}")] if info.pinned else []),
        *([("tags", ", ".join(info.tags))] if info.tags else []),
        *([("note", info.note)] if info.note else []),
        *([("incomplete", f"{number_left_out(info)} left out")] if info.incomplete else []),
    ]
    width = max(len(name) for name, _ in facts)
    lines = [f"{name:{width}}  {value}" for name, value in facts]
    lines += ["", *(_names(contents) if contents else _names_of_texts(info))]
    if info.incomplete:
        lines += ["", "left out:", *info.incomplete]
    return list(map(shown, lines))


def amount(contents: Contents) -> str:
    """How much there is: ``3 files``, ``1 file, 2 empty folders``."""
    folders = f", {count(len(contents.empty_dirs), 'empty folder')}" if contents.empty_dirs else ""
    return f"{count(len(contents.files), 'file')}{folders}"


def _names(contents: Contents) -> list[str]:
    others = set(contents.others)
    lines = [f"{amount(contents)}:"]
    for name in contents.files:
        more = f" -> {contents.links[name]}" if name in contents.links else "  (no text)" if name in others else ""
        lines.append(f"{name}{more}")
    return [*lines, *(f"{name}/" for name in contents.empty_dirs)]


def _names_of_texts(info: SnapshotInfo) -> list[str]:
    """Without its content nobody can tell what else there is."""
    texts = count_texts(info)
    if texts is None:
        return ["its names are encrypted too"]
    return [f"{count(texts, 'text')}:", *(name for name in sorted(info.doc_names) if name not in METADATA_NAMES)]


def diff_lines(found: SnapshotDiff, *, a: str, b: str, verbose: bool) -> list[str]:
    """Both sides, their differences, and the sum."""
    total = f"{changes(found)}, {found.unchanged} the same"
    return [shown(f"from {a}"), shown(f"to   {b}"), *change_lines(found, verbose=verbose), total]


def change_lines(found: SnapshotDiff, *, verbose: bool) -> list[str]:
    """Each name that differs with a sign before it, where they are few or all are asked for."""
    lines = [(name, styled(f"+ {shown(name)}", "green")) for name in found.added]
    lines += [(name, styled(f"- {shown(name)}", "red")) for name in found.removed]
    lines += [
        (name, f"~ {shown(name)}  +{each.added} -{each.removed} lines{'' if each.exact else ' at most'}")
        for name, each in found.changed.items()
    ]
    return few([line for _, line in sorted(lines)], verbose=verbose)


def changes(found: SnapshotDiff) -> str:
    """How much differs: ``1 added, 2 removed and 1 empty folder, 0 changed``."""
    return f"{_came(found.added, 'added')}, {_came(found.removed, 'removed')}, {len(found.changed)} changed"


def _came(names: Sequence[str], what: str) -> str:
    """Files, and empty folders apart, as everywhere."""
    folders = sum(name.endswith("/") for name in names)
    return f"{len(names) - folders} {what}" + (f" and {count(folders, 'empty folder')}" if folders else "")


def preview_lines(found: Preview, *, removes: bool, verbose: bool, now: datetime) -> list[str]:
    """The outcome that a backup would have, and whether it fits."""
    plan, unsaved, left_out = found.plan, found.unsaved, found.capture.left_out
    info, latest = plan.info, unsaved.latest
    more = f", {len(left_out)} left out" if left_out else ""
    what = f"{amount(found.capture.contents)}{more}, {size(found.capture.size)}"
    since = "nothing is saved yet under it"
    if unsaved.problem is not None:
        since = f"the latest cannot be compared: {unsaved.problem}"
    elif latest is not None:
        since = f"since {latest.snapshot_id} ({age(made_at(latest), now)}): {changes(unsaved.changes)}"
    if plan.unchanged:
        lines = [f"would write nothing to label {info.label}: unchanged {since.partition(':')[0]}", what]
        return [*(shown(line) for line in lines), "nothing written"]
    differ = change_lines(unsaved.changes, verbose=verbose) if latest is not None and unsaved.problem is None else []
    free = "" if plan.available_bytes is None else f", and {size(plan.available_bytes)} are free"
    fits = plan.problem or f"fits: takes about {size(plan.needed_bytes)}{free}"
    gone = [] if not removes else [f"would then delete {count(len(plan.removed), 'older snapshot')}"]
    first = [shown(line) for line in (f"would save {what} to label {info.label}", since)]
    return [*first, *differ, shown(fits), *gone, "nothing written"]


def preview_document(found: Preview) -> dict[str, Any]:
    """The same for programs."""
    plan, unsaved = found.plan, found.unsaved
    info = plan.info
    return {
        "label": info.label,
        "doc_names": info.doc_names,
        "byte_size": info.byte_size,
        "stored_bytes": info.stored_bytes,
        "unchanged": plan.unchanged,
        "needed_bytes": plan.needed_bytes,
        "available_bytes": plan.available_bytes,
        "fits": plan.problem is None,
        "problem": plan.problem,
        "delete": list(plan.removed),
        **unsaved_document(unsaved),
    }


def unsaved_document(found: Unsaved) -> dict[str, Any]:
    """How folders differ from the latest snapshot, for programs."""
    return {
        "latest": None if found.latest is None else found.latest.snapshot_id,
        "not_compared": found.problem,
        "added": list(found.changes.added),
        "removed": list(found.changes.removed),
        "changed": {name: asdict(each) for name, each in found.changes.changed.items()},
    }


def shrunk_line(saved: Saved) -> str:
    """That the memory has become much smaller, which it should not unless somebody meant it to."""
    now = f"{amount(saved.capture.contents)}, {size(saved.size)} now"
    return f"this backup holds less than half of the one before: {now}. If that was not meant, get the one before back"


def plan_lines(plan: PrunePlan, *, label: str, now: datetime) -> list[str]:
    """The plan of a prune, each snapshot with the reason."""
    lines = []
    going = {info.snapshot_id for info in plan.remove}
    for info in newest_first([*plan.keep, *plan.remove]):
        why = ", ".join(plan.reasons.get(info.snapshot_id, ()))
        if info.snapshot_id in going:
            named = f"delete  {info.snapshot_id} ({age(made_at(info), now)})" + (f": {why}" if why else "")
            lines.append(styled(shown(named), "red"))
        else:
            lines.append(shown(f"keep    {info.snapshot_id} ({age(made_at(info), now)}): {why}"))
    lines += [f"keep    {shown(file)} (cannot be read or is not trusted)" for file in plan.unread]
    lines += [styled(f"delete  {shown(file)} (left over)", "red") for file in plan.orphans]
    return [*lines, f"label {shown(label)}: {plan_total(plan)}"]


def plan_total(plan: PrunePlan) -> str:
    """How much a prune keeps and deletes."""
    going = [str(len(plan.remove))] if plan.remove or not plan.orphans else []
    going += [count(len(plan.orphans), "leftover file")] if plan.orphans else []
    return f"{len(plan.keep)} to keep, {' and '.join(going)} to delete"


def verify_lines(report: VerifyReport) -> list[str]:
    """The checks of each snapshot, and every problem."""
    found = [each.problem for each in report.snapshots if each.problem and not each.unsigned]
    found += [report.problem] if report.problem else []
    closed = [each for each in report.snapshots if each.sealed]
    found += [f"snapshot {each} was listed and is gone" for each in report.removed]
    known = {each.snapshot_id for each in report.snapshots if each.problem}
    found += [f"snapshot {each} is not by a trusted issuer" for each in report.forged if each not in known]
    good = sum(map(bool, report.snapshots))
    total = f"label {report.label}: {good} of {count(len(report.snapshots), 'snapshot')} good, " + (
        "none signed" if is_plain(report) else f"pointer {report.pointer}, rollback {report.rollback}"
    )
    if closed:
        which = "it" if len(report.snapshots) == 1 else f"{count(len(closed), 'snapshot')}"
        total += f"; the content of {which} is encrypted and was not checked: no identity opens it here"
    told = [*(f"problem  {each}" for each in dict.fromkeys(found)), total]
    if report.unsigned:
        told.insert(-1, f"problem  {older_than_signing(report.label, report.unsigned)}")
    return [check_table(report), *(shown(line) for line in told)]


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
    times = attrgetter("name", "first.snapshot_id", "last.snapshot_id", "in_latest")
    for (name, *_), matches in groupby(found.matches, key=times):
        group = list(matches)
        first = group[0]
        yield styled(shown(name), "magenta")
        yield f"  first  {_moment(first.first, now)}"
        latest = {None: " (latest not read)", True: " (latest)", False: ""}[first.in_latest]
        yield f"  last   {_moment(first.last, now)}{latest}"
        if first.gone is not None:
            yield f"  gone   {_moment(first.gone, now)}"
        for each in group:
            yield _match_line(each)
    total = count(len(found.matches), "line")
    yield f"{total} in {count(found.searched, 'snapshot')}"


def _moment(info: SnapshotInfo, now: datetime) -> str:
    return f"{shown(info.snapshot_id)}  {when(made_at(info), now)}"


def _match_line(match: Match) -> str:
    if match.line is None:
        return "    not text, and found in it"
    start, end = match.span
    before, it, after = match.line[:start], match.line[start:end], match.line[end:]
    it = styled(shown_with_tabs(it), "bold red") if it else ""
    return f"    {match.number}: {shown_with_tabs(before)}{it}{shown_with_tabs(after)}"
