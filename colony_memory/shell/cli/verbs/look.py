"""The verbs that show what is saved: ``list``, ``show``, ``cat``, ``log``, ``grep`` and ``diff``."""

from __future__ import annotations

from itertools import groupby, islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from colony_memory._values import asdict, replace
from colony_memory.exceptions import DecryptionError, SnapshotCorrupt, UntrustedSnapshot
from colony_memory.shell.app.pick import change_word, made_at, number_left_out, stamp
from colony_memory.shell.cli.app import CommonOptions, split_positional
from colony_memory.shell.cli.call import open_memory
from colony_memory.shell.cli.output import styled
from colony_memory.shell.cli.tables import Column, amount, change_lines, changes, draw, size_of, snapshot_table, when
from colony_memory.shell.words import FEW, age, count, few, now_utc, shown, shown_with_tabs, size, stored
from colony_memory.shell.words.errors import FAILED, NOT_PROVEN, command

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from colony_memory.capture._metadata import Contents
    from colony_memory.reports import Change, SearchReport
    from colony_memory.snapshot import SnapshotInfo

# Characters of names that may be written again although an earlier row has the same.
_REPEATED_CHARS = 2**22


def run_list(*, label: str | None = None, tag: list[str] | None = None, common: CommonOptions) -> None:
    """Where other verbs take an ID, the beginning of one is enough, as long as no other begins so. The latest is also
    called latest, the one before it latest~1.

    colony-memory list
    colony-memory list --label research --json
    colony-memory list --tag release
    """
    from colony_memory._format.manifest import check_tags
    from colony_memory.shell.app.pick import latest_ids, nothing_saved

    wanted = set(check_tags(tag or ()))
    with open_memory(common) as opened:
        with opened.working():
            infos = opened.memory.list_snapshots(label=label)
            latest = latest_ids(opened.memory, infos)
        followed = {info.label for info in infos if info.snapshot_id in latest}
        infos = [info for info in infos if wanted.issubset(info.tags)]
        if common.as_json:
            opened.output.answer_json({"snapshots": list(_documents(infos))})
            return
        lines = [snapshot_table(infos, latest=latest)]
        if label is not None and not infos and not tag:
            lines = [f"{nothing_saved(opened.memory, label).message}, in {opened.place.title}"]
        refused = {info.label: info.snapshot_id for info in reversed(infos) if info.label not in followed}
        for name, newest in islice(refused.items(), FEW):
            restore = command("restore", newest, "DIR", label=name, given=vars(common))
            lines.append(f"label {shown(name)}: restore refuses the latest; it takes a snapshot by its id: {restore}")
        opened.output.answer("\n".join(lines))


def _documents(infos: Sequence[SnapshotInfo]) -> Iterator[dict[str, object]]:
    budget, previous, firsts = _REPEATED_CHARS, None, dict[int, tuple[str, int]]()
    for info in infos:
        names = info.doc_names
        if id(names) not in firsts and previous is not None and names == previous.doc_names:
            firsts[id(names)] = firsts[id(previous.doc_names)]
        first, chars = firsts.setdefault(id(names), (info.snapshot_id, sum(map(len, names)) + 8 * len(names)))
        budget -= chars if first != info.snapshot_id else 0
        row = {**asdict(replace(info, doc_names=[])), "doc_names": names}
        yield row if budget >= 0 or first == info.snapshot_id else {**row, "doc_names": None, "doc_names_of": first}
        previous = info


def run_show(snapshot: str, *, label: str = "default", common: CommonOptions) -> None:
    """ID is one from 'list', the beginning of one, latest, or latest~2 for the second before it. The snapshot is read
    in full, since only then is every file in it known; where it is damaged, what its summary tells is shown, and the
    exit code is 4.

    colony-memory show latest
    colony-memory show --label research 20261101
    """
    from colony_memory.capture._metadata import contents_of
    from colony_memory.shell.app.pick import completed, find, with_pin
    from colony_memory.shell.app.restore import fetch

    contents, damage = None, None
    with open_memory(common) as opened:
        with opened.working():
            info = with_pin(opened.memory, find(opened.memory, snapshot, label=label))
            try:
                # Its summary names texts only, no other files.
                fetched = fetch(opened.memory, label=info.label, snapshot=info.snapshot_id)
                info, contents = completed(info, fetched.info), contents_of(fetched.documents)
            except UntrustedSnapshot:
                raise
            except (SnapshotCorrupt, DecryptionError) as error:
                damage = error
        files: dict[str, Any] = dict.fromkeys(("file_count", "files", "links", "empty_dirs"))
        if contents is not None:
            files = {
                "file_count": len(contents.files),
                "files": sorted((*contents.texts, *contents.others)),
                "links": dict(contents.links),
                "empty_dirs": list(contents.empty_dirs),
            }
        opened.output.show({"snapshot": asdict(info), **files}, *_snapshot_lines(info, contents))
        if damage is not None:
            raise damage


def _snapshot_lines(info: SnapshotInfo, contents: Contents | None) -> list[str]:
    """One snapshot, and the names in it; without ``contents``, as it cannot be read, those in its summary."""
    from colony_memory.capture._metadata import METADATA_NAMES

    made = made_at(info)
    parts = f" in {count(info.part_count, 'part')}" if info.part_count else ""
    facts = {
        "snapshot": info.snapshot_id + (", the latest" if info.head else ""),
        "label": info.label,
        "made": f"{stamp(made)} ({age(made, now_utc())})",
        "signed by": (info.issuer or "?") if info.signed else "nobody",
        "size": f"{size_of(info)}, stored as {stored(info)}{parts}",
        "sha256": info.plaintext_sha256.removeprefix("sha256:"),
        "format": info.format + (", encrypted" if info.encrypted else ""),
        "after": info.parent_id,
        "based on": ", ".join(info.based_on or ()) if info.based_on != (info.parent_id,) else "",
        "conflict": "it met one, and did not become the latest" if info.refused else "",
        "pinned": f"kept until {info.pinned_until or 'it is unpinned'}" if info.pinned else "",
        "tags": ", ".join(info.tags),
        "note": info.note,
        "incomplete": f"{number_left_out(info)} left out" if info.incomplete else "",
    }
    width = max(len(name) for name, value in facts.items() if value)
    lines = [f"{name:{width}}  {value}" for name, value in facts.items() if value]
    if contents:
        lines += ["", f"{amount(contents)}:"]
        for name in contents.files:
            more = "  (no text)" if name in contents.others else ""
            lines.append(name + (f" -> {contents.links[name]}" if name in contents.links else more))
        lines += [f"{name}/" for name in contents.empty_dirs]
    elif info.doc_names:
        names = sorted(name for name in info.doc_names if name not in METADATA_NAMES)
        lines += ["", f"{count(len(names), 'text')}:", *names]
    else:
        lines += ["", "its names are encrypted too" if info.encrypted else "its names cannot be read"]
    if info.incomplete:
        lines += ["", "left out:", *info.incomplete]
    return list(map(shown, lines))


def run_cat(names: list[str], *, label: str = "default", common: CommonOptions) -> None:
    """NAME is one that 'show' lists, ID a snapshot as 'show' takes it, by default the latest. On a terminal control
    characters are spelled out, and what is no text is not printed.

    colony-memory cat notes/a.md
    colony-memory cat latest~1 notes/a.md
    """
    from colony_memory.shell.app.content import content_of
    from colony_memory.shell.app.restore import fetch

    snapshot, name = split_positional(names, "NAME")
    if not name:
        raise ValueError("an empty name")
    with open_memory(common) as opened:
        with opened.working():
            fetched = fetch(opened.memory, label=label, snapshot=snapshot)
        content = content_of(fetched.info, fetched.documents, name)
        if common.as_json:
            from base64 import b64encode

            encoded = None if isinstance(content, str) else b64encode(content).decode("ascii")
            document = {"snapshot": asdict(fetched.info), "name": name, "text": content if encoded is None else None}
            opened.output.answer_json({**document, "base64": encoded})
        else:
            opened.output.answer_content(content, name=name)


_CHANGES = (
    Column("id"),
    Column("created"),
    Column("change"),
    Column("lines", right=True),
    Column("size", right=True, spare=1),
)


def run_log(name: str, *, label: str = "default", patch: bool = False, common: CommonOptions) -> None:
    """NAME is one that 'show' lists. The newest change comes first. Every snapshot of the label is read, two files for
    most; those that cannot be are named, and what changed there shows in the next.

    colony-memory log notes/a.md
    colony-memory log -p notes/a.md
    """
    from colony_memory.shell.app.compare import file_history

    if not name:
        raise ValueError("an empty name")
    with open_memory(common) as opened:
        with opened.working():
            history = file_history(opened.memory, name, label=label, patch=patch)
        rows, parts = [], []
        for change in history.changes:
            info, word, lines = change.snapshot, change_word(history.name, change), line_counts(change)
            made, file_size = when(made_at(info)), "-" if change.kind == "removed" else size(change.size)
            rows.append((info.snapshot_id, made, word, lines, file_size))
            text = "Too much to show.\n" if change.patch is None else change.patch
            parts.append(f"snapshot {info.snapshot_id} ({made}): {word}, {lines}\n{text}")
        if patch and not common.as_json:
            opened.output.answer_patch("\n".join(parts))
        else:
            gone, before = history.changes[0].kind == "removed", history.changes[0].before
            fate = f"last seen in {before.snapshot_id}" if gone and before else "the newest has it"
            total = f"{count(len(history.changes), 'change')} in {count(history.read, 'snapshot')}; {fate}"
            opened.output.show(asdict(history), draw(_CHANGES, rows), total)


def line_counts(change: Change) -> str:
    if change.lines is None:
        return "not text"
    return f"+{change.lines.added} -{change.lines.removed}{'' if change.lines.exact else ' at most'}"


def run_grep(
    pattern: str, *, label: str = "default", fixed: bool = False, ignore_case: bool = False, common: CommonOptions
) -> int:
    """PATTERN is a regular expression of Python, looked for in each line. Every snapshot of the label is read, two
    files for most. The exit code is 0 if anything is found, 1 if nothing is, and 4 if nothing is and some snapshots
    could not be read.

    colony-memory grep 'two years'
    colony-memory grep -F -i 'two years.'
    """
    from colony_memory.shell.app.compare import search_files

    with open_memory(common) as opened:
        with opened.working("Searching"):
            report = search_files(opened.memory, pattern, label=label, fixed=fixed, ignore_case=ignore_case)
        if not report.complete:
            number = len(report.matches)
            lines = "line is" if number == 1 else f"{number} lines are"
            opened.output.warn(f"only the newest {lines} shown: use a rarer pattern")
        if report or common.as_json:
            opened.output.show({"pattern": pattern, **asdict(report)}, *_match_lines(report))
        else:
            opened.output.note(f"nothing found in {count(report.searched, 'snapshot')}")
    return 0 if report else NOT_PROVEN if report.passed_over else FAILED


def _match_lines(report: SearchReport) -> Iterator[str]:
    """The matching lines, grouped by file and by the snapshots in which they came and went."""
    times = attrgetter("name", "first.snapshot_id", "last.snapshot_id", "in_latest")
    for (name, *_), matches in groupby(report.matches, key=times):
        first, *others = matches
        latest = {None: " (latest not read)", True: " (latest)", False: ""}[first.in_latest]
        yield styled(shown(name), "magenta")
        for word, info, more in (("first", first.first, ""), ("last ", first.last, latest), ("gone ", first.gone, "")):
            if info is not None:
                yield f"  {word}  {shown(info.snapshot_id)}  {when(made_at(info))}{more}"
        for match in (first, *others):
            if match.line is None:
                yield "    not text, and found in it"
                continue
            start, end = match.span
            parts = (match.line[:start], match.line[start:end], match.line[end:])
            before, hit, after = map(shown_with_tabs, parts)
            yield f"    {match.number}: {before}{styled(hit, 'bold red') if hit else ''}{after}"
    yield f"{count(len(report.matches), 'line')} in {count(report.searched, 'snapshot')}"


def run_diff(
    a: str | None = None,
    b: str = "latest",
    *,
    label: str = "default",
    patch: bool = False,
    exit_code: bool = False,
    verbose: bool = False,
    common: CommonOptions,
) -> int:
    """A and B are ids as 'show' takes them, or folders; ./latest is the folder of that name. B is by default the latest
    snapshot. Without A, it is shown what has changed since then in the folder that this host saves under the label.

    colony-memory diff latest~1 latest
    colony-memory diff -p latest ~/agent/memory
    """
    from colony_memory.capture._metadata import compare_files
    from colony_memory.shell.app.compare import patch_of, read_own_folder, read_side

    with open_memory(common) as opened:
        with opened.working():
            memory = opened.memory
            first, *second = [read_side(memory, side, label=label) for side in (a, b) if side is not None]
            before, after = (first, second[0]) if second else (first, read_own_folder(memory, label))
            difference = compare_files(before.documents, after.documents)
            text = patch_of(before, after) if patch else None
        left_out = [f"left out: {entry.name}: {entry.reason}" for entry in (*before.left_out, *after.left_out)]
        for line in few(left_out, verbose=verbose):
            opened.output.warn(line)
        if text is not None and not common.as_json:
            opened.output.answer_patch(text)
        else:
            sides = {"a": before.name, "b": after.name, "differs": bool(difference)}
            opened.output.show(
                {**sides, **asdict(difference), "patch": text},
                shown(f"from {before.title}"),
                shown(f"to   {after.title}"),
                *change_lines(difference, verbose=verbose),
                f"{changes(difference)}, {difference.unchanged} the same",
            )
    return FAILED if exit_code and difference else 0
