"""A vault as one self-contained page of HTML: no server, no network, no other file."""

from __future__ import annotations

import hashlib
import json
import warnings
from base64 import b64encode
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from colony_memory._format.names import latest_filename, manifest_filename, stamp
from colony_memory.exceptions import ColonyMemoryError, ColonyMemoryWarning, VaultError, message_of
from colony_memory.shell.app.compare import every_history
from colony_memory.shell.app.protection import Checked, check_protection

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from colony_memory.client import ColonyMemory
    from colony_memory.reports import Change, LabelMap, SnapshotCheck
    from colony_memory.snapshot import SnapshotInfo

_FACTS = ("manifest", "parts", "digest", "signature", "trust", "catalog", "chain")
_OF_SNAPSHOT = (
    *("snapshot_id", "created_at", "byte_size", "stored_bytes", "format", "issuer"),
    *("pinned", "incomplete", "note", "tags", "encrypted"),
)
_PLACES = {"added": 0, "returned": 0, "changed": 1, "removed": 2}


def look_over(
    memory: ColonyMemory, *, url: str, label: str | None = None, quick: bool = False, now: datetime | None = None
) -> tuple[Checked, list[dict[str, Any]]]:
    """A check of the vault's protection, and each label as the page shows it; a bad label does not stop the others."""
    checked = check_protection(memory, url=url, label=label, now=now)
    with warnings.catch_warnings():
        # The returned values have all these facts.
        warnings.simplefilter("ignore", ColonyMemoryWarning)
        return checked, [_label(memory, entry, quick=quick) for entry in checked.found.labels]


def _label(memory: ColonyMemory, found: LabelMap, *, quick: bool) -> dict[str, Any]:
    label, problem, snapshots = found.label, None, list["SnapshotInfo"]()
    checks: dict[str, SnapshotCheck] = {}
    changes: Mapping[str, tuple[Change, ...]] = {}
    unread: Mapping[str, str] = {}
    harmless = {manifest_filename(label, found.latest or ""), latest_filename(label)}
    # A dangling pointer without any snapshot is not worth more reads: anyone can make thousands of them.
    if found.dangling and not found.snapshots and not found.untrusted and harmless.issuperset(found.broken):
        problem = next(iter(found.broken.values()), None)
    else:
        try:
            if not quick:
                verified = memory.verify(label=label)
                problem, checks = verified.problem, {check.snapshot_id: check for check in verified.snapshots}
            snapshots = memory.list_snapshots(label=label)
            if not quick:
                histories = every_history(memory, label=label)
                changes, unread = histories.changes, histories.passed_over
        except VaultError:
            raise
        except ColonyMemoryError as error:
            problem = message_of(error)
    numbers: dict[str, list[int]] = {}  # counts of documents added, changed and removed, by snapshot
    for change in (change for history in changes.values() for change in history):
        numbers.setdefault(change.snapshot.snapshot_id, [0, 0, 0])[_PLACES[change.kind]] += 1
    before = {info.shrunk_from for info in snapshots}
    rows, documents = [], 0
    for info in reversed(snapshots):
        added, _, removed = numbers.get(info.snapshot_id, (0, 0, 0))
        documents += added - removed
        # Counted as in histories: without the record of a folder, which is not one of its files.
        known = documents if changes and not unread else info.doc_count
        row = {
            "latest": bool(info.head),
            "documents": known,
            "shrank": info.snapshot_id in before,
            "changes": numbers.get(info.snapshot_id),
            "check": _check(checks.get(info.snapshot_id)),
            "unread": unread.get(info.snapshot_id),
        }
        rows.append({**{name: getattr(info, name) for name in _OF_SNAPSHOT}, **row})
    listed = {info.snapshot_id for info in snapshots}
    return {
        "label": label,
        "problem": problem,
        "snapshots": rows[::-1],
        # Snapshots that no list shows, since they are damaged or not trusted.
        "others": [{"id": name, "check": _check(check)} for name, check in checks.items() if name not in listed],
        "documents": [
            {"name": name, "size": history[0].size, "changes": [_change(change) for change in history]}
            for name, history in changes.items()
        ],
    }


def _check(check: SnapshotCheck | None) -> dict[str, Any] | None:
    if check is None:
        return None
    return {"good": bool(check), "problem": check.problem, **{name: getattr(check, name) for name in _FACTS}}


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


def render(
    labels: Sequence[Mapping[str, Any]], *, status: Mapping[str, Any], now: datetime, next_backups: Sequence[str] = ()
) -> str:
    """The page of HTML."""
    home = files(__package__)
    template, style, script = (home.joinpath(f"page.{kind}").read_text("utf-8") for kind in ("html", "css", "js"))
    document = {"made": stamp(now), "status": status, "next": list(next_backups), "labels": labels}
    # In ASCII and without "<", which could end the element, no text in it can act as markup.
    data = json.dumps(document, separators=(",", ":")).replace("<", "\\u003c")
    # By this digest the browser runs only our script, and none that a text might smuggle in.
    digest = b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    pieces = {"{{digest}}": digest, "{{style}}": style, "{{script}}": script, "{{data}}": data}
    # Fill in from front to back, so that no inserted text is searched for placeholders.
    out: list[str] = []
    for name, piece in pieces.items():
        before, _, template = template.partition(name)
        out += [before, piece]
    return "".join([*out, template])
