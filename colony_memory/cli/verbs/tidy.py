"""The verbs that decide what stays: ``prune``, ``delete``, ``pin`` and ``unpin``."""
# ruff: noqa: TC001 - the parser reads the annotations

from __future__ import annotations

from typing import Annotated

from colony_memory.cli.options import (
    Argument,
    CommonOptions,
    DryRunOption,
    LabelOption,
    Option,
    YesOption,
)
from colony_memory.cli.saving import RetentionOptions

PRUNE_EXAMPLES = (
    "colony-memory prune --keep 10 --dry-run",
    "colony-memory prune --keep-daily 7 --keep-weekly 8 --keep-within 2d --yes",
)


def run_prune(
    *,
    label: LabelOption = "default",
    rules: RetentionOptions,
    leftovers: Annotated[
        bool, Option("--leftovers", help="Delete no snapshot, only what interrupted backups have left.")
    ] = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    common: CommonOptions,
) -> int:
    """Delete old snapshots by rules, and the leftovers of interrupted backups.

    A snapshot stays if any rule keeps it. The newest good one and the one that restore gives always stay, and what
    cannot be read is not touched. On a terminal the plan is shown and you are asked; elsewhere, as in cron, --yes is
    needed.
    """
    from colony_memory.app.pick import nothing_saved
    from colony_memory.cli.ask import confirm
    from colony_memory.cli.memory import open_memory
    from colony_memory.cli.summary import plan_lines
    from colony_memory.words.text import count, now_utc

    retention = rules.retention(leftovers=leftovers)
    with open_memory(common) as opened:
        with opened.working():
            plan = opened.memory.plan_prune(label=label, retention=retention)
        if plan and not dry_run:
            told = plan_lines(plan, label=label, now=now_utc())
            confirm("go on?", yes=yes, as_json=common.as_json, told=told)
        deleted = 0
        if not dry_run:
            with opened.working("Pruning"):
                deleted = opened.memory.prune(label=label, retention=retention)
        if common.as_json:
            opened.output.answer_json(
                {
                    "label": label,
                    "dry_run": dry_run,
                    "deleted": deleted,
                    "keep": [info.snapshot_id for info in plan.keep],
                    "remove": [info.snapshot_id for info in plan.remove],
                    "reasons": plan.reasons,
                    "unread": plan.unread,
                    "orphans": plan.orphans,
                }
            )
        elif not (plan or plan.keep or plan.unread):
            opened.output.report(f"{nothing_saved(opened.memory, label).message}, in {opened.place.title}")
        elif dry_run:
            opened.output.answer("\n".join([*plan_lines(plan, label=label, now=now_utc()), "nothing deleted"]))
        else:
            opened.output.report(f"label {label}: {count(deleted, 'snapshot')} deleted, {len(plan.keep)} kept")
    return 0


DELETE_EXAMPLES = ("colony-memory delete --yes latest~3",)


def run_delete(
    snapshot: Annotated[str, Argument(metavar="ID")],
    *,
    label: LabelOption = "default",
    yes: YesOption = False,
    common: CommonOptions,
) -> int:
    """Delete one snapshot, for good.

    ID is a snapshot as 'show' takes it; one that is damaged goes by its whole id. Where it is the latest, restore then
    gives the newest good one that is left. On a terminal you are asked; elsewhere --yes is needed.
    """
    from colony_memory.app.pick import find_id, naming_the_label
    from colony_memory.cli.ask import confirm
    from colony_memory.cli.memory import open_memory

    with open_memory(common) as opened:
        with opened.working():
            snapshot_id = find_id(opened.memory, snapshot, label=label)
        confirm(f"delete snapshot {snapshot_id} of label {label} for good?", yes=yes, as_json=common.as_json)
        with opened.working("Deleting from"), naming_the_label(opened.memory, snapshot):
            opened.memory.delete_snapshot(label=label, snapshot_id=snapshot_id)
        if common.as_json:
            opened.output.answer_json({"label": label, "deleted": snapshot_id})
        opened.output.report(f"deleted snapshot {snapshot_id} of label {label}")
    return 0


PIN_EXAMPLES = ("colony-memory pin latest", "colony-memory pin --label research 20261101")


def run_pin(
    snapshot: Annotated[str, Argument(metavar="ID")],
    *,
    label: LabelOption = "default",
    common: CommonOptions,
) -> int:
    """Keep one snapshot whatever a retention says, until it is unpinned.

    ID is a snapshot as 'show' takes it. Neither 'backup --keep' nor 'prune' deletes it; 'delete' does. 'list' marks it.
    """
    from colony_memory.app.pick import find_id, naming_the_label
    from colony_memory.cli.memory import open_memory

    with open_memory(common) as opened:
        with opened.working("Writing to"), naming_the_label(opened.memory, snapshot):
            snapshot_id = find_id(opened.memory, snapshot, label=label)
            opened.memory.pin(label=label, snapshot_id=snapshot_id)
        if common.as_json:
            opened.output.answer_json({"label": label, "pinned": snapshot_id})
        opened.output.report(f"pinned snapshot {snapshot_id} of label {label}")
    return 0


UNPIN_EXAMPLES = ("colony-memory unpin latest",)


def run_unpin(
    snapshot: Annotated[str, Argument(metavar="ID")],
    *,
    label: LabelOption = "default",
    common: CommonOptions,
) -> int:
    """Let the retention decide about one snapshot again.

    ID is a snapshot as 'show' takes it. Nothing is deleted; that it was not pinned is no error.
    """
    from colony_memory.app.pick import find_id, naming_the_label
    from colony_memory.cli.memory import open_memory

    with open_memory(common) as opened:
        with opened.working("Writing to"), naming_the_label(opened.memory, snapshot):
            snapshot_id = find_id(opened.memory, snapshot, label=label)
            opened.memory.unpin(label=label, snapshot_id=snapshot_id)
        if common.as_json:
            opened.output.answer_json({"label": label, "unpinned": snapshot_id})
        opened.output.report(f"unpinned snapshot {snapshot_id} of label {label}")
    return 0
