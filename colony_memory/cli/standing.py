"""Whether the memory is protected, as lines for people and as a document for programs."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from colony_memory._format.names import id_time
from colony_memory.app.durations import show_duration
from colony_memory.app.facts import SPANS, made_at, stamp
from colony_memory.cli.commands import command
from colony_memory.cli.grid import prose, styled
from colony_memory.cli.summary import change_lines, changes, unsaved_document
from colony_memory.cli.tables import label_table
from colony_memory.cli.text import age, count, few, shown, signer, size

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from colony_memory.app.preview import Unsaved
    from colony_memory.app.protection import Checked, Problem, Protection
    from colony_memory.reports import LabelMap, VaultMap
    from colony_memory.schedule.watch import RunLog

_STYLES = {"protected": "bold green", "saved": "bold", "at risk": "bold yellow", "not protected": "bold red"}
# More restore points than that, nobody counts.
_MANY = 10_000
# A run that saves ends a little after the snapshot was made.
_RUN = timedelta(minutes=1)


def status_lines(
    checked: Checked,
    unsaved: Sequence[str] = (),
    *,
    url: str,
    now: datetime,
    given: Mapping[str, Any],
) -> list[str]:
    """The answer first, then the vault, its labels, and what is wrong with the command that mends it.

    ``given`` is what the options of this run came to, which the commands repeat, and ``unsaved`` what folders hold that
    is not saved.
    """
    found, verdict = checked.found, checked.verdict
    lines = [
        prose(
            f"{styled(verdict.state, _STYLES[verdict.state])}{_unread(verdict)}: {_newest(verdict, now)}{_room(found)}"
        ),
        "",
        f"vault  {shown(url)}",
        f"used   {_used(found)}",
    ]
    lines += few([f"next   {each}" for each in next_backups(found)], verbose=False)
    lasts = room_lasts(found)
    lines += [] if lasts is None else [f"room   {lasts}"]
    if found.operations_left is not None:
        lines.append(f"left   {found.operations_left} uploads and deletes this hour")
    lines += [prose(f"watch  {_watch(label, log, now)}") for label, log in checked.runs.items()]
    lines += ["", label_table(found, now=now)]
    lines += ["", *unsaved] if unsaved else []
    for problem in verdict.problems:
        lines += ["", prose(f"problem  {shown(_told(problem))}"), f"mend it  {mending(problem, given)}"]
        older = fallback(problem, given)
        lines += [f"restore  {older}"] if older else []
    return lines


def unsaved_lines(found: Unsaved, *, label: str, verbose: bool) -> list[str]:
    """What in folders is not saved yet: how much, and the names where they are few or all are asked for."""
    of = f"label {shown(label)}"
    left_out = found.capture.left_out
    if found.problem is not None:
        lines = [prose(f"unsaved  it cannot be told, as the latest of {of} cannot be read: {shown(found.problem)}")]
    elif found.latest is None:
        lines = [f"unsaved  all of it: nothing is saved under {of}"]
    else:
        what = changes(found.changes) if found else "nothing"
        lines = [prose(f"unsaved  {what}, since the latest of {of}, {found.latest.snapshot_id}")]
        lines += change_lines(found.changes, verbose=verbose)
    if left_out:
        lines.append(f"{count(len(left_out), 'name')} cannot be saved:")
        lines += few([shown(f"{each.name}: {each.reason}") for each in left_out], verbose=verbose)
    return lines


def status_document(
    checked: Checked,
    unsaved: Unsaved | None = None,
    *,
    url: str,
    max_age: timedelta | None,
    given: Mapping[str, Any],
) -> dict[str, Any]:
    """The same for programs."""
    verdict = checked.verdict
    return {
        "vault": url,
        "state": verdict.state,
        "newest": asdict(verdict.newest) if verdict.newest else None,
        "age_seconds": None if verdict.age is None else int(verdict.age.total_seconds()),
        "max_age_seconds": None if max_age is None else int(max_age.total_seconds()),
        "stale": verdict.stale,
        "problems": [
            {
                "label": each.label,
                "snapshot_id": each.snapshot_id,
                "what": each.what,
                "mend": mending(each, given),
                "fallback": fallback(each, given),
            }
            for each in verdict.problems
        ],
        "unsaved": None
        if unsaved is None
        else {**unsaved_document(unsaved), "left_out": [asdict(each) for each in unsaved.capture.left_out]},
        "watch": {
            label: {
                "when": log.last.when.isoformat(),
                "ok": log.last.ok,
                "message": log.last.message,
                "snapshot_id": log.last.snapshot_id,
                "next_run": log.last.next_run.isoformat() if log.last.next_run else None,
                "last_success": log.last_success.when.isoformat() if log.last_success else None,
                "failed_since": log.failed_since,
            }
            for label, log in checked.runs.items()
        },
        **asdict(checked.found),
    }


def next_backups(found: VaultMap) -> list[str]:
    """What the next backup of each label stores, where that can be told, and how many more fit."""
    return [_next(each) for each in found.labels if each.next_bytes]


def room_lasts(found: VaultMap) -> str | None:
    """How long there is room, None where that cannot be told."""
    return None if found.room_lasts_seconds is None else _lasts(found, found.room_lasts_seconds)


def mending(problem: Problem, given: Mapping[str, Any]) -> str:
    """The command that mends it, for the vault and the trust of these options."""
    named = problem.snapshot_id
    if named is not None and id_time(named) is None:
        # A name that somebody made up may be the beginning of another snapshot's, or "latest".
        named = None
    if problem.mending == "delete" and named:
        return command("delete", named, label=problem.label, given=given)
    if problem.mending == "accept" and named:
        return command("restore", named, "DIR", label=problem.label, given=given)
    if problem.mending in ("delete", "judge", "accept"):
        return command("verify", *([named] if named else []), label=problem.label, given=given)
    if problem.mending == "forget":
        return command("prune", options=("--leftovers",), label=problem.label, given=given)
    if problem.mending == "prune":
        return command("prune", options=("--keep", "5"), label=problem.label, given=given)
    if problem.mending in ("backup", "replace"):
        # The paths that were looked at are those of one label.
        paths = given.get("paths") if problem.label == given.get("paths_label") else None
        return command("backup", *(paths or ["PATH"]), label=problem.label, given=given)
    return command("status", given=given)


def fallback(problem: Problem, given: Mapping[str, Any]) -> str | None:
    """The command that gives an older snapshot meanwhile, None where that is not needed."""
    if problem.mending != "replace":
        return None
    return command("restore", "DIR", options=("--fallback",), label=problem.label, given=given)


def at_risk(verdict: Protection, given: Mapping[str, Any]) -> str:
    """What a monitor is told of what puts the memory at risk: the first thing, and what mends it."""
    first, *more = verdict.problems
    others = f" (and {count(len(more), 'more problem')})" if more else ""
    return f"the memory is at risk: {_told(first)}{others}; mend it with: {mending(first, given)}"


def _told(problem: Problem) -> str:
    """What is wrong, with the label that it is of where that is not said in it."""
    named = problem.label is None or f"label {problem.label!r}" in problem.what
    return problem.what if named else f"label {problem.label}: {problem.what}"


def too_old(verdict: Protection, max_age: timedelta) -> str:
    """What a monitor is told."""
    made = show_duration(verdict.age.total_seconds()) if verdict.age is not None else "never"
    return f"the last good backup is {made} old, and at most {show_duration(max_age.total_seconds())} is allowed"


def _newest(verdict: Protection, now: datetime) -> str:
    info = verdict.newest
    if info is None:
        return "nothing is saved yet" if not verdict.problems else "no good backup"
    made = made_at(info)
    by = f"signed by {signer(info)}" if info.signed else "unsigned"
    label = "" if info.label == "default" else f" of label {info.label}"
    seen = now - verdict.age if verdict.age is not None else made
    unchanged = f", unchanged {age(seen, now)}" if seen - made > _RUN else ""
    return f"last {_good(verdict)} backup{label} {age(made, now)} ({stamp(made)}){unchanged}, {by}"


def _good(verdict: Protection) -> str:
    """A backup that was not read is not called good."""
    return "known" if verdict.state == "saved" else "good"


def _unread(verdict: Protection) -> str:
    if verdict.state != "saved":
        return ""
    if verdict.closed:
        return " (encrypted, and no identity opens it here: whole, and what is in it was not looked at)"
    return " (not read, so damage would not show)"


def _room(found: VaultMap) -> str:
    return "" if found.available_bytes is None else f", {size(found.available_bytes)} free"


def _used(found: VaultMap) -> str:
    files = f"in {count(found.files, 'vault file')}"
    if not found.quota_bytes:
        return f"{size(found.used_bytes)}, {files}; the vault gives room with the first backup"
    share = 100 * found.used_bytes / found.quota_bytes
    return f"{size(found.used_bytes)} of {size(found.quota_bytes)} ({share:.0f} %), {files}"


def _next(label: LabelMap) -> str:
    of = "" if label.label == "default" else f"label {label.label}: "
    fits = "" if label.fits is None else f", so that {_many(label.fits)} more fit"
    return f"{of}{'at most ' if label.next_at_most else ''}about {size(label.next_bytes)}{fits}"


def _many(number: int) -> str:
    """A number that is a guess, with two digits."""
    if number > _MANY:
        return f"{_MANY:,} and"
    return str(number) if number < 100 else f"about {float(f'{number:.1e}'):,.0f}"


def _lasts(found: VaultMap, seconds: int) -> str:
    daily = size(sum(each.daily_bytes or 0 for each in found.labels))
    years, days = seconds // SPANS["y"], seconds // SPANS["d"]
    told = "more than 10 years" if years >= 10 else count(days, "day") if days else "less than a day"
    return f"for {told} at this rate, {daily} a day, if nothing is removed"


def _watch(label: str, log: RunLog, now: datetime) -> str:
    run, good = log.last, log.last_success
    of = "" if label == "default" else f"label {label}: "
    due = f", next {age(run.next_run, now)}" if run.next_run else ", ended"
    told = f"{of}{'ok' if run.ok else 'FAILED'} {age(run.when, now)}: {run.message.removeprefix('failed: ')}{due}"
    if not run.ok:
        told += f"; {log.failed_since} failed since the last success, " if good else f"; {log.failed_since} failed, "
        told += age(good.when, now) if good else "none succeeded"
    return shown(told)
