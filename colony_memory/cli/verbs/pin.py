"""The verb ``pin``."""

from __future__ import annotations

from typing import Annotated

from colony_memory.cli.options import (
    Argument,
    CommonOptions,
    LabelOption,
)

EXAMPLES = ("colony-memory pin latest", "colony-memory pin --label research 20261101")


def run(
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
