"""The verb ``status``, and its output."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from colony_memory._engine.label import labels_there
from colony_memory._format.names import id_time
from colony_memory._values import asdict
from colony_memory.shell.app.config import parse_duration, show_duration
from colony_memory.shell.app.pick import made_at, number_left_out, refused_latest, stamp
from colony_memory.shell.cli.call import open_memory
from colony_memory.shell.cli.output import run_document, styled
from colony_memory.shell.cli.tables import Column, change_lines, changes, draw, when
from colony_memory.shell.words import age, count, few, now_utc, shown, signer, size
from colony_memory.shell.words.errors import FAILED, NOT_PROVEN, NOTHING_SAVED, Failure, command

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from colony_memory.reports import LabelMap, VaultMap
    from colony_memory.schedule.watch import RunLog
    from colony_memory.shell.app.compare import Unsaved
    from colony_memory.shell.app.open import Place
    from colony_memory.shell.app.protection import Checked, Problem, Protection
    from colony_memory.shell.cli.app import CommonOptions

_STYLES = {
    "protected": "bold green",
    "saved": "bold",
    "ahead": "bold yellow",
    "at risk": "bold yellow",
    "not protected": "bold red",
}
_LABELS = (
    Column("label"),
    Column("state"),
    Column("snapshots", right=True),
    Column("newest"),
    Column("oldest", spare=3),
    Column("size", right=True, spare=1),
    Column("stored", right=True, spare=2),
    Column("problems", wraps=True),
)
_MANY = 10_000  # restore points: no larger number is shown
_RUN = timedelta(minutes=1)  # a run that saves ends a little after the snapshot was made


def run_status(
    paths: list[str] | None = None,
    *,
    label: str | None = None,
    exclude: list[str] | None = None,
    max_age: str | None = None,
    quick: bool = False,
    verbose: bool = False,
    common: CommonOptions,
) -> int:
    """The newest snapshot of each label is read in full. The first line is the answer: for the label, or of all labels
    for the one that is protected least, and of several such for the stalest. Copies that restores have made, under
    LABEL-before-restore, are asked for by name only. Below stand the vault, each label, the last run of watch on this
    host, and whatever is wrong, each with the command that mends it. The exit code is 3 where nothing is saved. With
    --max-age a monitor needs no more than that: 1 if the newest good backup is older or something puts the memory at
    risk, 4 if the newest is damaged or none is good. Where watch has found the memory unchanged since, its run is what
    counts.

    With PATHs, those that are backed up, it answers for them, by the label that this host saves them under: by how much
    they are ahead of its latest snapshot, what in them has come, gone or changed, and whether the vault is on their
    disk. That something is ahead is no failure, however old it is: how long it may stay so is what --max-age says.
    Where nothing that is there is saved, that is one.

    colony-memory status
    colony-memory status --quick
    colony-memory status ~/agent/memory
    colony-memory status --label research --max-age 26h --quiet
    """
    from colony_memory.shell.app.protection import check_protection

    limit = None if max_age is None else parse_duration(max_age)
    if exclude and not paths:
        raise ValueError("--exclude is for the PATHs that are looked at: give them, or leave it out")
    with open_memory(common) as opened:
        place, now = opened.place, now_utc()
        with opened.working():
            checked = check_protection(
                opened.memory,
                url=place.url,
                label=label,
                paths=paths or (),
                exclude=exclude or (),
                agent=common.agent,
                quick=quick,
                max_age=limit,
                now=now,
            )
        # The effective options of this run, which the suggested commands repeat.
        given = {**asdict(common), "paths": paths, "paths_label": checked.verdict.label, "folders": checked.folders}
        if common.as_json or not (common.quiet and limit):
            document = status_document(checked, url=place.url, max_age=limit, given=given)
            opened.output.show(document, *_lines(checked, document, place, given, verbose=verbose))
        _raise_failure(checked, place, limit, given)
    return 0


def _lines(
    checked: Checked, document: Mapping[str, Any], place: Place, given: Mapping[str, Any], *, verbose: bool
) -> list[str]:
    """The answer first, then the vault, its labels, and each problem with the command that solves it."""
    now = now_utc()
    vault, verdict, unsaved = checked.found, checked.verdict, checked.unsaved
    state, headline, limits = verdict.state, str(verdict.state), ""
    if unsaved and unsaved.files_ahead and not verdict.empty:
        ahead = f"ahead by {count(unsaved.files_ahead, 'file')}, {count(unsaved.lines_ahead, 'line')}"
        headline = ahead if state == "ahead" else f"{state}, {ahead}"
    if state == "saved":
        limits = " (not read, so damage would not show)"
        if verdict.closed:
            limits = " (encrypted, and no identity opens it here: whole, but its content was not read)"
    free = "" if vault.available_bytes is None else f", {size(vault.available_bytes)} free"
    quota, later = "", "" if vault.quota_bytes else "; the vault gives room with the first backup"
    if vault.quota_bytes and vault.available_bytes is not None:
        quota = f" of {size(vault.quota_bytes)} ({100 * vault.used_bytes / vault.quota_bytes:.0f} %)"
    lines = [
        f"{styled(headline, _STYLES[state])}{limits}: {_answer(checked, place, now)}{free}",
        "",
        f"vault  {shown(place.url)}{', on the same disk as the memory' if checked.same_disk else ''}",
        f"used   {size(vault.used_bytes)}{quota}, in {count(vault.files, 'vault file')}{later}",
        *few([f"next   {line}" for line in next_backups(vault)], verbose=verbose),
    ]
    if checked.points is not None and checked.points[1] > 2 * checked.points[0]:
        fit_1, fit_2 = checked.points
        again = command("backup", "PATH", options=("--format", "2"), label=verdict.label, given=given)
        lines.append(f"format the vault keeps about {fit_1} such snapshots, in format 2 {min(fit_2, _MANY)}: {again}")
    if vault.operations_left is not None:
        wait = vault.operations_reset_seconds
        reset = "" if wait is None else f", all of them again in {show_duration(wait)}"
        lines.append(f"left   {vault.operations_left} uploads and deletes this hour{reset}")
    elif vault.operations_spent:
        lines.append(f"spent  at least {vault.operations_spent} uploads and deletes of the last hour")
    lines += [f"watch  {_watch(label, log, now)}" for label, log in checked.runs.items()]
    rows = [_row(label, checked.verdicts[label.label]) for label in vault.labels]
    lines += ["", draw(_LABELS, rows) if rows else "no snapshots"]
    if unsaved is not None:
        lines += ["", *_unsaved_lines(unsaved, label=verdict.label or "default", verbose=verbose)]
    for problem, entry in zip(checked.problems, document["problems"], strict=True):
        lines += ["", f"problem  {shown(_named(problem))}", f"mend it  {entry['mend']}"]
        lines += [f"restore  {entry['fallback']}"] if entry["fallback"] else []
    return lines


def _row(label: LabelMap, verdict: Protection) -> tuple[str, ...]:
    refused, newest = refused_latest(label), label.newest
    broken = sum(file != refused for file in label.broken)
    lacks = number_left_out(newest) if newest and newest.incomplete else ""
    problems = (
        broken and f"{broken} broken",
        refused and "latest refused",
        label.dangling and "no usable pointer",
        lacks and f"newest: {lacks} left out",
        label.orphans and count(len(label.orphans), "leftover file"),
        label.unmerged and f"{len(label.unmerged)} unmerged",
        label.unsigned and f"{len(label.unsigned)} older than signing",
        label.shrunk and f"{label.shrunk.snapshot_id} kept, as a much smaller one followed",
    )
    return (
        shown(label.label),
        verdict.state,
        str(label.snapshots),
        when(made_at(newest)) if newest else "-",
        when(made_at(label.oldest)) if label.oldest else "-",
        "unknown" if label.snapshots and not label.plain_bytes else size(label.plain_bytes),
        size(label.stored_bytes),
        "; ".join(str(item) for item in problems if item) or ("see below" if verdict.problems else "none found"),
    )


def _unsaved_lines(unsaved: Unsaved, *, label: str, verbose: bool) -> list[str]:
    """The part of folders that is not saved yet, with only the first of many names unless ``verbose``."""
    of, left_out = f"label {shown(label)}", unsaved.capture.left_out
    if unsaved.problem is not None:
        lines = [f"unsaved  unknown, as the latest of {of} cannot be read: {shown(unsaved.problem)}"]
    elif unsaved.latest is None:
        lines = [f"unsaved  all of it: nothing is saved under {of}"]
    else:
        what = changes(unsaved.changes) if unsaved else "nothing"
        lines = [f"unsaved  {what}, since the latest of {of}, {unsaved.latest.snapshot_id}"]
        lines += change_lines(unsaved.changes, verbose=verbose)
    if left_out:
        lines.append(f"{count(len(left_out), 'name')} cannot be saved:")
        lines += few([shown(f"{entry.name}: {entry.reason}") for entry in left_out], verbose=verbose)
    return lines


def status_document(
    checked: Checked, *, url: str, max_age: timedelta | None, given: Mapping[str, Any]
) -> dict[str, Any]:
    verdict, unsaved, vault = checked.verdict, checked.unsaved, asdict(checked.found)
    for label in vault["labels"]:
        label.update(_verdict_document(checked.verdicts[label["label"]]))
    ahead = None
    if unsaved is not None and unsaved.problem is None:
        ahead = {"files": unsaved.files_ahead, "lines": unsaved.lines_ahead}
    return {
        "vault": url,
        "label": verdict.label,
        **_verdict_document(verdict),
        "newest": asdict(verdict.newest) if verdict.newest else None,
        "max_age_seconds": None if max_age is None else int(max_age.total_seconds()),
        "ahead": ahead,
        "same_disk": checked.same_disk,
        "points": None if checked.points is None else dict(zip(("format_1", "format_2"), checked.points, strict=True)),
        "problems": [
            {
                "label": problem.label,
                "snapshot_id": problem.snapshot_id,
                "what": problem.what,
                "mend": mending(problem, given),
                "fallback": command("restore", "DIR", options=["--fallback"], label=problem.label, given=given)
                if problem.mending == "replace"
                else None,
            }
            for problem in checked.problems
        ],
        "unsaved": None
        if unsaved is None
        else {**unsaved_document(unsaved), "left_out": [asdict(entry) for entry in unsaved.capture.left_out]},
        "watch": {
            label: {
                **{key: value for key, value in run_document(log.last).items() if key != "pid"},
                "last_success": log.last_success.when.isoformat() if log.last_success else None,
                "failed_since": log.failed_since,
            }
            for label, log in checked.runs.items()
        },
        **vault,
    }


def _verdict_document(verdict: Protection) -> dict[str, Any]:
    return {
        "state": verdict.state,
        "age_seconds": None if verdict.age is None else int(verdict.age.total_seconds()),
        "stale": verdict.stale,
        "encrypted": None if verdict.newest is None else verdict.newest.encrypted,
        "conflict": verdict.conflict or None,
    }


def unsaved_document(unsaved: Unsaved) -> dict[str, Any]:
    return {
        "latest": None if unsaved.latest is None else unsaved.latest.snapshot_id,
        "not_compared": unsaved.problem,
        "added": list(unsaved.changes.added),
        "removed": list(unsaved.changes.removed),
        "changed": {name: asdict(counts) for name, counts in unsaved.changes.changed.items()},
    }


def next_backups(vault: VaultMap) -> list[str]:
    """The size of each label's next backup, where it is known, and the number that still fit."""
    lines = []
    for label in vault.labels:
        prefix = "" if label.label == "default" else f"label {label.label}: "
        more = label.fits or 0
        many = str(more) if more < 100 else f"about {float(f'{more:.1e}'):,.0f}" if more <= _MANY else f"{_MANY:,} and"
        fits = "" if label.fits is None else f", so that {many} more fit"
        if label.next_bytes:
            lines.append(f"{prefix}{'at most ' if label.next_at_most else ''}about {size(label.next_bytes)}{fits}")
    return lines


def mending(problem: Problem, given: Mapping[str, Any]) -> str:
    """The command that solves a problem, with the vault and the trust of these options."""
    # A made-up name may be the beginning of another snapshot's, or "latest".
    named = problem.snapshot_id if problem.snapshot_id and id_time(problem.snapshot_id) else None
    # The paths that were checked, if they are of this label, or those that this host saves under it, if these are more.
    checked_paths = given.get("paths") if problem.label == given.get("paths_label") else None
    paths = max(checked_paths or (), given.get("folders", {}).get(problem.label, ()), key=len) or ["PATH"]
    folder = paths[0] if len(paths) == 1 and paths != ["PATH"] else "DIR"
    ways: dict[str, tuple[str, tuple[str, ...], list[str]]] = {
        "wait": ("status", (), []),
        "forget": ("prune", ("--leftovers",), []),
        "prune": ("prune", ("--keep", str(problem.keep or "N")), []),
        "exclude": ("backup", ("--exclude", "GLOB"), paths),
        **dict.fromkeys(("merge", "join", "sign"), ("backup", ("--on-conflict", "merge"), paths)),
        **dict.fromkeys(("backup", "replace"), ("backup", (), paths)),
    }
    if named:
        ways |= {"delete": ("delete", (), [named]), "accept": ("restore", (), [named, "DIR"])}
        ways |= {"join": ("restore", ("--merge",), [named, folder])}
    verb, options, words = ways.get(problem.mending, ("verify", (), [named] if named else []))
    if verb == "backup" and given.get("trust") and not (given.get("key_file") or given.get("accept_unsigned")):
        options = (*options, "--key-file", "FILE")  # what it saves would not be trusted
    return command(verb, *words, options=options, label=problem.label, given=given)


def _raise_failure(checked: Checked, place: Place, max_age: timedelta | None, given: Mapping[str, Any]) -> None:
    """Raise Failure for what a monitor reports; without ``max_age`` only if nothing is saved, or left."""
    verdict, code = checked.verdict, FAILED
    if verdict.empty:
        raise Failure(_nothing(checked, place), code=NOTHING_SAVED)
    label = next(label_map for label_map in checked.found.labels if label_map.label == verdict.label)
    if max_age is None and not (label.rolled_back and verdict.newest is None):
        return
    if max_age is not None and verdict.stale and verdict.age is not None and verdict.age > max_age:
        old, most = (show_duration(span.total_seconds()) for span in (verdict.age, max_age))
        what = f"the last good backup{_of(verdict)} is {old} old, and at most {most} is allowed"
    elif verdict.state == "not protected" and verdict.newest is not None:
        what = f"nothing that is there now is saved{_of(verdict)}"
    elif verdict.state in ("at risk", "not protected"):
        first, *more = verdict.problems
        others = f" (and {count(len(more), 'more problem')})" if more else ""
        what = f"the memory is at risk: {_named(first)}{others}; mend it with: {mending(first, given)}"
        if verdict.damaged or (verdict.newest is None and (label.broken or label.unsigned)):
            code = NOT_PROVEN
    else:
        return
    raise Failure(what, code=code)


def _named(problem: Problem) -> str:
    named = problem.label is None or f"label {problem.label!r}" in problem.what
    return problem.what if named else f"label {problem.label}: {problem.what}"


def _of(verdict: Protection) -> str:
    return "" if verdict.label in (None, "default") else f" of label {verdict.label}"


def _nothing(checked: Checked, place: Place) -> str:
    label = checked.verdict.label
    if checked.verdict.newest is not None:
        return f"nothing of this folder is in the latest of label {label!r} in {place.title}"
    if not checked.found.files:
        return f"nothing is saved yet in {place.title}"
    under = "" if label is None else f" under label {label!r}"
    return f"nothing is saved{under} in {place.title}{labels_there(checked.there, label)}"


def _answer(checked: Checked, place: Place, now: datetime) -> str:
    verdict = checked.verdict
    info = verdict.newest
    if verdict.empty:
        return _nothing(checked, place)
    if info is None:
        return f"no good backup{_of(verdict)}"
    made = made_at(info)
    seen = now - verdict.age if verdict.age is not None else made
    good = "known" if verdict.state == "saved" else "good"  # a backup that was not read is not called good
    before_a_loss = [label.shrunk for label in checked.found.labels if label.label == verdict.label and label.shrunk]
    facts = [
        f"last {good} backup{_of(verdict)} {age(made, now)} ({stamp(made)})",
        *([f"unchanged {age(seen, now)}"] if seen - made > _RUN else []),
        *([f"conflict with {verdict.conflict}"] if verdict.conflict else []),
        *(f"{kept.snapshot_id} is kept, as a much smaller one followed" for kept in before_a_loss),
        f"signed by {signer(info)}" if info.signed else "unsigned",
        "encrypted" if info.encrypted else "not encrypted",
    ]
    return ", ".join(facts)


def _watch(label: str, log: RunLog, now: datetime) -> str:
    run, good = log.last, log.last_success
    prefix = "" if label == "default" else f"label {label}: "
    due = f", next {age(run.next_run, now)}" if run.next_run else ", ended"
    line = f"{prefix}{'ok' if run.ok else 'FAILED'} {age(run.when, now)}: {run.message.removeprefix('failed: ')}{due}"
    if not run.ok:
        line += f"; {log.failed_since} failed since the last success, " if good else f"; {log.failed_since} failed, "
        line += age(good.when, now) if good else "none succeeded"
    return shown(line)
