"""The verb ``unpin``."""

from __future__ import annotations

from typing import Annotated

from colony_memory.cli.options import (
    Argument,
    CommonOptions,
    LabelOption,
)

EXAMPLES = ("colony-memory unpin latest",)


def run(
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
