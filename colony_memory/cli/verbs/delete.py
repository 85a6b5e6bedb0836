"""The verb ``delete``."""

from __future__ import annotations

from typing import Annotated

from colony_memory.cli.options import (
    Argument,
    CommonOptions,
    LabelOption,
    YesOption,
)

EXAMPLES = ("colony-memory delete --yes latest~3",)


def run(
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
