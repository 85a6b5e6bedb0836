"""The verb ``import``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from colony_memory.cli.options import (
    Argument,
    CommonOptions,
    ConvertOption,
    Option,
)

EXAMPLES = (
    "colony-memory import research.json",
    "colony-memory import --vault file:///mnt/usb/vault research.json",
)


def run(
    file: Annotated[str, Argument(metavar="FILE")],
    *,
    label: Annotated[
        str | None, Option("--label", metavar="NAME", help="Refuse a file of another label than this.")
    ] = None,
    format: ConvertOption = None,  # noqa: A002 - the word for it
    common: CommonOptions,
) -> int:
    """Put a snapshot that was exported into the vault.

    FILE is what 'export' wrote; - reads the standard input. The snapshot keeps its id, its label and its signature. It
    is checked first, and refused as 'restore' would refuse it. It becomes the latest if it is newer than that.
    With --format 1 or 2 it is converted where it is of the other format, and signed anew where it was signed.
    """
    from colony_memory.cli.memory import open_memory
    from colony_memory.cli.moved import import_lines, read_file, wanted_format
    from colony_memory.transfer import import_snapshot

    if not file:
        raise ValueError("an empty path")
    exported = read_file(file)
    with open_memory(common) as opened:
        with opened.working("Importing into"):
            info = import_snapshot(opened.memory, exported, label=label, format=wanted_format(format))
        if common.as_json:
            opened.output.answer_json({"snapshot": asdict(info)})
        opened.output.report(*import_lines(info))
    return 0
