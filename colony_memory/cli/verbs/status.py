"""The verb ``status``."""
# ruff: noqa: TC001 - typer reads the annotations

from __future__ import annotations

from dataclasses import asdict, replace

from colony_memory.cli.options import CommonOptions, LabelFilter

EXAMPLES = ("colony-memory status --vault file:///home/me/vault",)


def run(*, label: LabelFilter = None, common: CommonOptions) -> int:
    """Show how full the vault is, and what it holds under each label."""
    from colony_memory.cli.errors import say
    from colony_memory.cli.memory import open_memory
    from colony_memory.cli.summary import warning_lines
    from colony_memory.cli.tables import status_table
    from colony_memory.cli.text import now_utc
    from colony_memory.snapshot import require_label

    wanted = None if label is None else require_label(label)
    with open_memory(common) as opened:
        with opened.working():
            found = opened.memory.inspect()
        found = replace(found, labels=tuple(each for each in found.labels if wanted in (None, each.label)))
        if common.as_json:
            opened.output.answer_json({"vault": opened.place.url, **asdict(found)})
        else:
            opened.output.answer(status_table(found, url=opened.place.url, now=now_utc()))
            for line in warning_lines(found):
                say(line)
    return 0
