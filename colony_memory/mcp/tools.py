"""What the tools do: arguments in, an answer out. Each runs in a thread, and none takes a path."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from colony_memory.app.compare import compare_sides, file_history, patch_of, read_snapshot, side_of_folder
from colony_memory.app.content import near
from colony_memory.app.pick import change_word, find_id, made_at, may_name_a_snapshot, nothing_saved
from colony_memory.app.protection import check_protection
from colony_memory.app.save import FolderSave, read_for
from colony_memory.capture._metadata import contents_of
from colony_memory.exceptions import ColonyMemoryError, ColonyMemoryWarning, Hint
from colony_memory.mcp import replies
from colony_memory.mcp.replies import REPLY_CHARS, cut_text, snapshot_of, some, within
from colony_memory.reports import SnapshotDiff

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from colony_memory.app.compare import Side, Unsaved
    from colony_memory.client import ColonyMemory
    from colony_memory.mcp.served import Job, Served
    from colony_memory.mcp.words import Words
    from colony_memory.reports import Change, DocumentChange, SnapshotCheck, VerifyReport

#: What stands for the folder as it is now, where a snapshot may be named.
FOLDER = "folder"
_FACTS = ("manifest", "parts", "digest", "signature", "trust", "catalog", "chain")


def backup(served: Served, job: Job, words: Words, *, note: str | None, tags: Sequence[str]) -> replies.BackupReply:
    """Save the folder."""
    options = replace(served.options, note=note, tags=tags)
    with FolderSave(served.open(job.on_event), served.root, options, unattended=True) as saving:
        with served.fixed():
            capture = saving.read(on_progress=job.on_reading)
        if served.place.make_unchosen():
            _warn("no vault was chosen, so one was made in the data directory of the user")
        saved = saving.save(capture)
    info = saved.info
    if info.shrunk_from is not None:
        _warn(
            "this backup holds less than half of the one before; if that was not meant, get the one before back",
            hint=Hint("restore", "snapshot_id", info.shrunk_from, label=info.label),
        )
    contents = saved.contents
    return replies.BackupReply(
        snapshot=snapshot_of(info, latest=bool(info.head) or info.reused),
        unchanged=info.reused,
        files=None if contents is None else len(contents.files),
        complete=bool(saved),
        left_out=some(words.clean(str(each)) for each in saved.left_out),
        ignored=len(capture.ignored),
        masked=some(map(str, capture.secrets)) if options.secrets == "mask" else [],
        met=info.diverged_from,
        kept_twice=some(info.merged),
    )


def verify(served: Served, job: Job, words: Words, *, snapshot: str | None) -> replies.VerifyReply:
    """Read every byte of one snapshot, or of all, and report what is intact."""
    memory = served.open(job.on_event)
    named = None if snapshot is None else find_id(memory, snapshot, label=served.label, elsewhere=False)
    report = memory.verify(label=served.label, snapshot_id=named)
    if not report.snapshots and not report.problem:
        raise nothing_saved(memory, served.label)
    ordered = sorted(report.snapshots, key=bool)  # what does not hold first, each as new as it is
    return replies.VerifyReply(
        good=bool(report),
        checked=len(report.snapshots),
        good_count=sum(map(bool, report.snapshots)),
        pointer=report.pointer,
        rollback=report.rollback,
        problems=some(map(words.clean, _problems(report))),
        snapshots=[_check(each, words) for each in within(ordered, lambda each: (each.problem,))],
    )


def _problems(report: VerifyReport) -> list[str]:
    found = [each.problem for each in report.snapshots if each.problem] + ([report.problem] if report.problem else [])
    found += [f"snapshot {each} was listed and is gone" for each in report.removed]
    return list(dict.fromkeys(found))


def _check(check: SnapshotCheck, words: Words) -> replies.Check:
    return replies.Check(
        id=check.snapshot_id,
        good=bool(check),
        **{name: getattr(check, name) for name in _FACTS},
        problem=None if check.problem is None else words.clean(check.problem),
    )


def status(served: Served, job: Job, words: Words, *, quick: bool) -> replies.StatusReply:
    """Whether the memory is protected, and what in the folder is not saved."""
    memory = served.open(job.on_event)
    paths = [] if _is_empty(served.root) else [served.root]
    with served.fixed() if paths else nullcontext():
        checked = check_protection(
            memory,
            url=served.place.url,
            label=served.label,
            paths=paths,
            exclude=served.options.exclude if paths else (),
            agent=served.options.agent if paths else None,
            quick=quick,
        )
    found, verdict, unsaved = checked.found, checked.verdict, checked.unsaved
    run = checked.runs.get(served.label)
    return replies.StatusReply(
        state=verdict.state,
        newest=None if verdict.newest is None else snapshot_of(verdict.newest),
        age_seconds=None if verdict.age is None else int(verdict.age.total_seconds()),
        snapshots=sum(each.snapshots for each in found.labels),
        problems=[
            replies.Trouble(what=words.clean(each.what), snapshot=each.snapshot_id, mend=words.mending(each))
            for each in within(checked.problems, lambda each: (each.what,))
        ],
        unsaved=None if unsaved is None else _unsaved(unsaved, words),
        used_bytes=found.used_bytes,
        quota_bytes=found.quota_bytes or None,
        available_bytes=found.available_bytes,
        last_watch=None if run is None else words.clean(f"{run.last.when.isoformat()}: {run.last.message}"),
    )


def _is_empty(folder: Path) -> bool:
    """Whether the folder is empty or missing. That it cannot be read is for others to report."""
    try:
        return next(folder.iterdir(), None) is None
    except FileNotFoundError:
        return True
    except OSError:
        return False


def _unsaved(found: Unsaved, words: Words) -> replies.Unsaved:
    changes = found.changes
    signed = (("+", changes.added), ("-", changes.removed), ("~", changes.changed))
    return replies.Unsaved(
        anything=bool(found),
        added=len(changes.added),
        removed=len(changes.removed),
        changed=len(changes.changed),
        names=replies.changes_of(signed),
        cannot_be_saved=some(words.clean(str(each)) for each in found.capture.left_out),
        not_compared=None if found.problem is None else words.clean(found.problem),
    )


def diff(served: Served, job: Job, words: Words, *, a: str, b: str, file: str | None, patch: bool) -> replies.DiffReply:
    """What differs between two snapshots, or a snapshot and the folder."""
    memory = served.open(job.on_event)
    before, after = (_side(served, memory, job, text) for text in (a, b))
    found = compare_sides(before, after)
    if file is not None:
        found = _narrowed(found, before, after, file)
    text, more = cut_text(patch_of(before, after, only=file)) if patch else (None, False)
    share = REPLY_CHARS // 4
    return replies.DiffReply(
        a=before.name,
        b=after.name,
        differs=bool(found),
        added=some(found.added, chars=share),
        removed=some(found.removed, chars=share),
        changed=[
            replies.Changed(name=name, lines_added=each.added, lines_removed=each.removed, exact=each.exact)
            for name, each in _first(found.changed, share)
        ],
        added_count=len(found.added),
        removed_count=len(found.removed),
        changed_count=len(found.changed),
        unchanged_count=found.unchanged,
        left_out=some((words.clean(str(each)) for each in (*before.left_out, *after.left_out)), chars=share),
        patch=text,
        patch_cut=more,
    )


def _side(served: Served, memory: ColonyMemory, job: Job, text: str) -> Side:
    if text == FOLDER:
        # As a backup would read it, but for secrets that would stop one: they are not to be read here either.
        masking = served.options.secrets in ("stop", "mask")
        options = replace(served.options, secrets="mask" if masking else "allow")
        with served.fixed():
            capture = read_for(memory, served.root, options, on_progress=job.on_reading)
        return side_of_folder(FOLDER, capture)
    if not may_name_a_snapshot(text):
        raise ValueError(f"{text!r} names no snapshot: give an id, the beginning of one, latest, latest~2, or {FOLDER}")
    named = find_id(memory, text, label=served.label, elsewhere=False)
    return read_snapshot(memory, named, label=served.label)


def _narrowed(found: SnapshotDiff, before: Side, after: Side, file: str) -> SnapshotDiff:
    """The same of one file."""
    names = {name for side in (before, after) for name in contents_of(side.documents).files}
    if file not in names:
        raise ColonyMemoryError(f"there is no {file!r} on either side{near(file, names)}")
    of_it = {file, f"{file} (link)", f"{file} (executable)"}
    changed = {name: each for name, each in found.changed.items() if name in of_it}
    added, removed = (tuple(name for name in names if name in of_it) for names in (found.added, found.removed))
    differs = bool(added or removed or changed)
    return SnapshotDiff(added, removed, changed, 0 if differs else 1)


def _first(items: Mapping[str, DocumentChange], chars: int) -> list[tuple[str, DocumentChange]]:
    return list(islice(items.items(), len(some(items, chars=chars))))


def history(served: Served, job: Job, words: Words, *, file: str, patch: bool, limit: int) -> replies.HistoryReply:
    """How one file changed, from snapshot to snapshot."""
    memory = served.open(job.on_event)
    found = file_history(memory, file, label=served.label, patch=patch)
    steps: list[replies.Step] = []
    left = REPLY_CHARS
    for each in within(found.changes, lambda each: (each.snapshot.note,), most=limit):
        text, _ = cut_text(each.patch or "", max(left, 0))
        left -= len(text)
        if patch and left <= 0 and steps:
            break
        steps.append(_step(found.name, each, text if patch and each.patch is not None else None))
    return replies.HistoryReply(
        file=found.name,
        changes=steps,
        total=len(found.changes),
        more=len(steps) < len(found.changes),
        snapshots_read=found.read,
        passed_over=some(words.clean(f"{name}: {why}") for name, why in found.passed_over.items()),
    )


def _step(name: str, change: Change, patch: str | None) -> replies.Step:
    return replies.Step(
        kind=change_word(name, change),
        snapshot=change.snapshot.snapshot_id,
        made=made_at(change.snapshot).isoformat(),
        note=change.snapshot.note,
        before=None if change.before is None else change.before.snapshot_id,
        lines_added=None if change.lines is None else change.lines.added,
        lines_removed=None if change.lines is None else change.lines.removed,
        bytes=change.size,
        patch=patch,
    )


def _warn(message: str, *, hint: Hint | None = None) -> None:
    import warnings

    warnings.warn(ColonyMemoryWarning(message, hint=hint), stacklevel=2)
