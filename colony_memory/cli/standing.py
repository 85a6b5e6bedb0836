"""Whether the memory is protected, as lines for people and as a document for programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from colony_memory.cli.durations import show_duration
from colony_memory.cli.grid import styled
from colony_memory.cli.phrases import spoken
from colony_memory.cli.tables import label_table
from colony_memory.cli.text import age, made_at, shown, signer, size, stamp

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from colony_memory.protection import Problem, Protection
    from colony_memory.reports import VaultMap
    from colony_memory.schedule.watch import LastRun

_STYLES = {"protected": "bold green", "at risk": "bold yellow", "not protected": "bold red"}


def status_lines(
    found: VaultMap, verdict: Protection, watched: dict[str, LastRun], *, url: str, now: datetime
) -> list[str]:
    """The answer first, then the vault, its labels, and what is wrong with the command that mends it."""
    lines = [
        f"{styled(verdict.state, _STYLES[verdict.state])}: {_newest(verdict, now)}{_room(found)}",
        "",
        f"vault  {shown(url)}",
        f"used   {_used(found)}",
        f"files  {found.files}",
    ]
    if found.operations_left is not None:
        lines.append(f"left   {found.operations_left} uploads and deletes this hour")
    lines += [f"watch  {_watch(label, run, now)}" for label, run in watched.items()]
    lines += ["", label_table(found, now=now)]
    for problem in verdict.problems:
        of = f"label {problem.label}: " if problem.label else ""
        lines += ["", f"problem  {shown(of + spoken(problem.what))}", f"mend it  {mending(problem)}"]
    return lines


def status_document(
    found: VaultMap, verdict: Protection, watched: dict[str, LastRun], *, url: str, max_age: timedelta | None
) -> dict[str, Any]:
    """The same for programs."""
    return {
        "vault": url,
        "state": verdict.state,
        "newest": asdict(verdict.newest) if verdict.newest else None,
        "age_seconds": None if verdict.age is None else int(verdict.age.total_seconds()),
        "max_age_seconds": None if max_age is None else int(max_age.total_seconds()),
        "stale": verdict.stale,
        "problems": [
            {"label": each.label, "snapshot_id": each.snapshot_id, "what": spoken(each.what), "mend": mending(each)}
            for each in verdict.problems
        ],
        "watch": {
            label: {
                "when": run.when.isoformat(),
                "ok": run.ok,
                "message": run.message,
                "snapshot_id": run.snapshot_id,
                "next_run": run.next_run.isoformat() if run.next_run else None,
            }
            for label, run in watched.items()
        },
        **asdict(found),
    }


def mending(problem: Problem) -> str:
    """The command that mends it."""
    label = "" if problem.label in (None, "default") else f" --label {problem.label}"
    if problem.mending == "delete":
        named = shown(problem.snapshot_id or "")
        return f"colony-memory delete{label} {named}" if named else f"colony-memory verify{label}"
    if problem.mending == "judge":
        return f"colony-memory verify{label} {shown(problem.snapshot_id or '')}".rstrip()
    if problem.mending == "prune":
        return f"colony-memory prune{label} --keep 5"
    if problem.mending == "backup":
        return f"colony-memory backup{label} PATH"
    return "colony-memory status"


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
    return f"last good backup{label} {age(made, now)} ({stamp(made)}), {by}"


def _room(found: VaultMap) -> str:
    return "" if found.available_bytes is None else f", {size(found.available_bytes)} free"


def _used(found: VaultMap) -> str:
    if not found.quota_bytes:
        return f"{size(found.used_bytes)}; the vault gives room with the first backup"
    return f"{size(found.used_bytes)} of {size(found.quota_bytes)} ({100 * found.used_bytes / found.quota_bytes:.0f} %)"


def _watch(label: str, run: LastRun, now: datetime) -> str:
    of = "" if label == "default" else f"label {label}: "
    due = f", next {age(run.next_run, now)}" if run.next_run else ", ended"
    return shown(f"{of}{'ok' if run.ok else 'FAILED'} {age(run.when, now)}: {run.message}{due}")


def last_runs(url: str, labels: Sequence[str]) -> dict[str, LastRun]:
    """How the last run of ``watch`` on this host ended, for each label that there was one of."""
    from colony_memory.schedule.watch import read_last_run

    runs = {label: read_last_run(url, label) for label in dict.fromkeys([*labels, "default"])}
    return {label: run for label, run in runs.items() if run is not None}
