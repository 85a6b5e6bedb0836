"""Everything that there is to see of a vault, gathered for a report."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from colony_memory._format.names import latest_filename, manifest_filename
from colony_memory.app.past import every_history
from colony_memory.app.protection import check_protection
from colony_memory.exceptions import ColonyMemoryError, ColonyMemoryWarning, VaultError, message_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from colony_memory.app.protection import Checked
    from colony_memory.client import ColonyMemory
    from colony_memory.reports import Change, LabelMap, VerifyReport
    from colony_memory.retention import PrunePlan, Retention
    from colony_memory.snapshot import SnapshotInfo


@dataclass(frozen=True)
class LabelOverview:
    """One label.

    Attributes:
        label: Its name.
        snapshots: What a list shows, newest first.
        plan: What the retention would keep and remove; None where the label cannot be believed.
        verified: What reading every byte showed; None where that was not asked for.
        changes: The changes of each document, newest first, by name; empty where they were not asked for.
        passed_over: Why each snapshot that was not read was not, by id.
        problem: Why something is missing above, None where nothing is.
    """

    label: str
    snapshots: tuple[SnapshotInfo, ...] = ()
    plan: PrunePlan | None = None
    verified: VerifyReport | None = None
    changes: Mapping[str, tuple[Change, ...]] = field(default_factory=dict)
    passed_over: Mapping[str, str] = field(default_factory=dict)
    problem: str | None = None


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
    """Gather it. What is wrong with one label is said of it, and does not stop the others.

    Args:
        memory: The client.
        url: What names the vault, so that the last runs of ``watch`` count.
        retention: What a prune would be told.
        label: Only this one, by default all.
        texts: Give each change of a document as a patch, up to a bound.
        quick: Read no snapshot but the newest.
        now: The time, with a zone; by default that of the clock.

    Raises:
        ValueError: The label cannot be one.
        VaultError: The vault could not be reached or refused.
    """
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
    """Whether there is a pointer to nothing and no snapshot: anyone can put thousands of them there."""
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
