"""A vault as one page of HTML that needs nothing else: no server, no network, no other file."""

from __future__ import annotations

import hashlib
import json
import warnings
from base64 import b64encode
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from colony_memory._format.names import latest_filename, manifest_filename, stamp
from colony_memory._values import asdict, dataclass, field
from colony_memory.app.compare import every_history
from colony_memory.app.protection import check_protection
from colony_memory.exceptions import ColonyMemoryError, ColonyMemoryWarning, VaultError, message_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from colony_memory.app.protection import Checked
    from colony_memory.client import ColonyMemory
    from colony_memory.reports import Change, LabelMap, SnapshotCheck, VerifyReport
    from colony_memory.retention import PrunePlan, Retention
    from colony_memory.snapshot import SnapshotInfo


_FACTS = ("manifest", "parts", "digest", "signature", "trust", "catalog", "chain")


@dataclass(frozen=True)
class LabelOverview:
    """One label."""

    label: str
    snapshots: tuple[SnapshotInfo, ...] = ()  # what a list shows, newest first
    plan: PrunePlan | None = None  # what the retention would keep and remove; None where the label cannot be believed
    verified: VerifyReport | None = None  # what reading every byte showed; None where that was not asked for
    changes: Mapping[str, tuple[Change, ...]] = field(default_factory=dict)  # the changes of each document
    passed_over: Mapping[str, str] = field(default_factory=dict)  # why each snapshot that was not read was not, by id
    problem: str | None = None  # why something is missing above, None where nothing is


@dataclass(frozen=True)
class Overview:
    """A vault: whether it protects, and each label."""

    checked: Checked
    labels: tuple[LabelOverview, ...]


def look_over(
    memory: ColonyMemory,
    *,
    url: str,
    retention: Retention,
    label: str | None = None,
    texts: bool = True,
    quick: bool = False,
    now: datetime | None = None,
) -> Overview:
    """Gather it. What is wrong with one label is said of it, and does not stop the others."""
    checked = check_protection(memory, url=url, label=label, now=now)
    with warnings.catch_warnings():
        # All that they say is in what comes back.
        warnings.simplefilter("ignore", ColonyMemoryWarning)
        return Overview(
            checked,
            tuple(
                LabelOverview(each.label, problem=next(iter(each.broken.values()), None))
                if _is_bare(each)
                else _look_over(memory, each.label, retention, texts, quick)
                for each in checked.found.labels
            ),
        )


def _is_bare(found: LabelMap) -> bool:
    """There is a pointer to nothing and no snapshot: anyone can put thousands of them there."""
    at_most = {manifest_filename(found.label, found.latest or ""), latest_filename(found.label)}
    return found.dangling and not found.snapshots and not found.untrusted and at_most.issuperset(found.broken)


def _look_over(memory: ColonyMemory, label: str, retention: Retention, texts: bool, quick: bool) -> LabelOverview:
    snapshots: tuple[SnapshotInfo, ...] = ()
    plan = verified = None
    changes: Mapping[str, tuple[Change, ...]] = {}
    passed_over: Mapping[str, str] = {}
    try:
        if not quick:
            verified = memory.verify(label=label)
        snapshots = tuple(memory.list_snapshots(label=label))
        plan = memory.plan_prune(label=label, retention=retention)
        if not quick:
            found = every_history(memory, label=label, patch=texts)
            changes, passed_over = found.changes, found.passed_over
    except VaultError:
        raise
    except ColonyMemoryError as error:
        return LabelOverview(label, snapshots, plan, verified, changes, passed_over, message_of(error))
    return LabelOverview(label, snapshots, plan, verified, changes, passed_over)


def render(
    overview: Overview,
    *,
    status: Mapping[str, Any],
    retention: str,
    now: datetime,
    next_backups: Sequence[str] = (),
) -> str:
    """The page."""
    home = files(__package__)
    template, style, script = (home.joinpath(f"page.{kind}").read_text("utf-8") for kind in ("html", "css", "js"))
    document = {
        "made": stamp(now),
        "status": status,
        "next": list(next_backups),
        "retention": retention,
        "labels": [_label(each) for each in overview.labels],
    }
    # In ASCII, and without the one character that could end the element: nothing in it is markup.
    data = json.dumps(document, separators=(",", ":")).replace("<", "\\u003c")
    # The browser runs this very script, and nothing that a text might have smuggled in.
    digest = b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    pieces = {"{{digest}}": digest, "{{style}}": style, "{{script}}": script, "{{data}}": data}
    # From the front, so that nothing which was put in is looked at again.
    out: list[str] = []
    for name, piece in pieces.items():
        before, _, template = template.partition(name)
        out += [before, piece]
    return "".join([*out, template])


def _label(overview: LabelOverview) -> dict[str, Any]:
    plan, verified = overview.plan, overview.verified
    changes = _changes_by_snapshot(overview.changes)
    checks = {} if verified is None else {each.snapshot_id: each for each in verified.snapshots}
    removed = set() if plan is None else {info.snapshot_id for info in plan.remove}
    reasons = {} if plan is None else plan.reasons
    shown = {info.snapshot_id for info in overview.snapshots}
    before = {info.shrunk_from for info in overview.snapshots}
    numbers = _documents_by_snapshot(overview, changes)
    return {
        "label": overview.label,
        "problem": overview.problem or (verified.problem if verified else None),
        "snapshots": [
            {
                **_snapshot(info),
                "documents": numbers.get(info.snapshot_id, info.doc_count),
                "shrank": info.snapshot_id in before,
                "changes": changes.get(info.snapshot_id),
                "check": _check(checks.get(info.snapshot_id)),
                "stays": None if plan is None else info.snapshot_id not in removed,
                "reasons": list(reasons.get(info.snapshot_id, ())),
                "unread": overview.passed_over.get(info.snapshot_id),
            }
            for info in overview.snapshots
        ],
        # What no list shows, since it is damaged or not trusted.
        "others": [{"id": name, "check": _check(check)} for name, check in checks.items() if name not in shown],
        "documents": [
            {"name": name, "size": history[0].size, "changes": [_change(each) for each in history]}
            for name, history in overview.changes.items()
        ],
    }


def _snapshot(info: SnapshotInfo) -> dict[str, Any]:
    return {
        "id": info.snapshot_id,
        "made": info.created_at,
        "bytes": info.byte_size,
        "stored": info.stored_bytes,
        "documents": info.doc_count,
        "format": info.format,
        "issuer": info.issuer,
        "latest": bool(info.head),
        "pinned": info.pinned,
        "incomplete": list(info.incomplete),
        "note": info.note,
        "tags": list(info.tags),
        "encrypted": info.encrypted,
    }


def _check(check: SnapshotCheck | None) -> dict[str, Any] | None:
    if check is None:
        return None
    facts = asdict(check)
    return {"good": bool(check), "problem": check.problem, **{name: facts[name] for name in _FACTS}}


def _change(change: Change) -> dict[str, Any]:
    lines = change.lines
    return {
        "kind": change.kind,
        "id": change.snapshot.snapshot_id,
        "made": change.snapshot.created_at,
        "size": change.size,
        "lines": None if lines is None else [lines.added, lines.removed],
        "patch": change.patch,
    }


def _documents_by_snapshot(overview: LabelOverview, changes: Mapping[str, list[int]]) -> dict[str, int]:
    """How many each snapshot has, as histories tell: without the record of a folder, which is no file of it."""
    if not overview.changes or overview.passed_over:
        return {}
    out, there = {}, 0
    for info in reversed(overview.snapshots):
        added, _, removed = changes.get(info.snapshot_id, (0, 0, 0))
        there += added - removed
        out[info.snapshot_id] = there
    return out


def _changes_by_snapshot(changes: Mapping[str, tuple[Change, ...]]) -> dict[str, list[int]]:
    """How many documents each snapshot added, changed and removed."""
    out: dict[str, list[int]] = {}
    places = {"added": 0, "returned": 0, "changed": 1, "removed": 2}
    for history in changes.values():
        for change in history:
            out.setdefault(change.snapshot.snapshot_id, [0, 0, 0])[places[change.kind]] += 1
    return out
