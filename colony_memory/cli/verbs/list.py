"""The verb ``list``."""
# ruff: noqa: TC001 - typer reads the annotations

from __future__ import annotations

from dataclasses import asdict

from colony_memory.cli.options import CommonOptions, LabelFilter

EXAMPLES = ("colony-memory list --label research",)


def run(*, label: LabelFilter = None, common: CommonOptions) -> int:
    """Show the snapshots in the vault, newest first."""
    from colony_memory.cli.memory import open_memory
    from colony_memory.cli.tables import snapshot_table
    from colony_memory.cli.text import now_utc

    with open_memory(common) as opened:
        with opened.working():
            infos = opened.memory.list_snapshots(label=label)
        if common.as_json:
            opened.output.answer_json({"snapshots": [asdict(info) for info in infos]})
        else:
            opened.output.answer(snapshot_table(infos, now=now_utc()))
    return 0
