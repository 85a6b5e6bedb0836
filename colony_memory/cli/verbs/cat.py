"""The verb ``cat``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from colony_memory.cli.options import (
    Argument,
    CommonOptions,
    LabelOption,
)

EXAMPLES = (
    "colony-memory cat notes/a.md",
    "colony-memory cat latest~1 notes/a.md",
)


def run(
    names: Annotated[list[str], Argument(metavar="[ID] NAME")],
    *,
    label: LabelOption = "default",
    common: CommonOptions,
) -> int:
    """Print one file of a snapshot, byte for byte.

    NAME is one that 'show' lists, ID a snapshot as 'show' takes it, by default the latest. On a terminal control
    characters are spelled out, and what is no text is not printed.
    """
    from colony_memory.app.content import content_of
    from colony_memory.app.restore import fetch
    from colony_memory.cli.memory import open_memory
    from colony_memory.cli.options import split_positional

    snapshot, name = split_positional(names, "NAME")
    if not name:
        raise ValueError("an empty name")
    with open_memory(common) as opened:
        with opened.working():
            found = fetch(opened.memory, label=label, snapshot=snapshot)
        content = content_of(found.info, found.documents, name)
        if common.as_json:
            from base64 import b64encode

            held = (
                {"text": content, "base64": None}
                if isinstance(content, str)
                else {"text": None, "base64": b64encode(content).decode("ascii")}
            )
            opened.output.answer_json({"snapshot": asdict(found.info), "name": name, **held})
        else:
            opened.output.answer_content(content, name=name)
    return 0
