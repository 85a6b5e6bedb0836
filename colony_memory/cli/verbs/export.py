"""The verb ``export``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from colony_memory.cli.options import (
    Argument,
    CommonOptions,
    LabelOption,
    Option,
)

EXAMPLES = (
    "colony-memory export latest research.json --label research",
    "colony-memory export 20261101 - | ssh other-host colony-memory import -",
)


def run(
    snapshot: Annotated[str, Argument(metavar="ID")],
    file: Annotated[str, Argument(metavar="FILE")],
    *,
    label: LabelOption = "default",
    force: Annotated[bool, Option("--force", help="Replace FILE if it is there.")] = False,
    common: CommonOptions,
) -> int:
    """Write one snapshot into a file of its own, signature and all.

    ID is a snapshot as 'show' takes it. FILE is made for its owner alone and holds the whole memory, encrypted only
    where it is so in the vault; - writes to the standard output. 'verify FILE' checks it without a vault, 'import FILE'
    puts it into one.
    """
    from colony_memory.app.pick import find_id
    from colony_memory.cli.memory import open_memory
    from colony_memory.cli.moved import export_line
    from colony_memory.transfer import export_snapshot, save_export, write_export

    if not file:
        raise ValueError("an empty path")
    if file == "-" and common.as_json:
        raise ValueError("--json and - would both write to the standard output")
    with open_memory(common) as opened:
        with opened.working():
            snapshot_id = find_id(opened.memory, snapshot, label=label)
            exported = export_snapshot(opened.memory, label=label, snapshot_id=snapshot_id)
            if file != "-":
                save_export(exported, file, overwrite=force)
        if file == "-":
            opened.output.answer(write_export(exported.label, exported.snapshot_id, exported.files))
            opened.output.note(export_line(exported.info, "the standard output"))
        elif common.as_json:
            opened.output.answer_json({"snapshot": asdict(exported.info), "file": file})
        else:
            opened.output.report(export_line(exported.info, file))
    return 0
