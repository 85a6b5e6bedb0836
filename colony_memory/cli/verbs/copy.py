"""The verb ``copy``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from colony_memory.cli.options import (
    CommonOptions,
    ConvertOption,
    Option,
)

EXAMPLES = (
    "colony-memory copy --from colony: --to file:///mnt/usb/vault",
    "colony-memory copy --to ~/second-vault --label research",
    "colony-memory copy --to ~/second-vault --format 2",
)


def run(
    *,
    source: Annotated[
        str | None, Option("--from", metavar="URL", help="Vault to copy from. Default: that of --vault.")
    ] = None,
    target: Annotated[
        str | None, Option("--to", metavar="URL", help="Vault to copy to. Default: that of --vault.")
    ] = None,
    label: Annotated[
        list[str] | None, Option("--label", metavar="NAME", help="Only this label. Repeatable. Default: all.")
    ] = None,
    format: ConvertOption = None,  # noqa: A002 - the word for it
    common: CommonOptions,
) -> int:
    """Copy every snapshot from one vault into another, signatures and all.

    What is there already is not written again, and nothing is removed: a copy that was stopped goes on when it is
    made again. Each snapshot is read back. What is damaged or not trusted is left out and named, and the exit code is
    then 1. With --key-file the copy is signed there too; a --witness is that of the vault to copy from.

    --format 1 or 2 converts what is of the other format: a snapshot keeps its id and its time, and one that was signed
    is signed anew, which takes --key-file.
    """
    from colony_memory.cli.errors import FAILED
    from colony_memory.cli.moved import copy_lines, open_pair, show_snapshots, wanted_format
    from colony_memory.cli.output import Output
    from colony_memory.transfer import copy

    if source is None and target is None:
        raise ValueError("give --from, --to, or both")
    output = Output(common.as_json, common.quiet)
    with open_pair(common, source, target, output) as (here, there):
        with here.output.working(f"Copying from {here.place.title} to {there.place.title}", here.progress):
            report = copy(
                here.memory,
                there.memory,
                labels=label,
                progress=show_snapshots(here.progress),
                format=wanted_format(format),
            )
        if common.as_json:
            output.answer_json(
                {
                    "from": here.place.url,
                    "to": there.place.url,
                    "copied": [asdict(info) for info in report.copied],
                    "already": [asdict(info) for info in report.already],
                    "left_out": [{"name": name, "reason": reason} for name, reason in report.left_out.items()],
                    "latest": dict(report.latest),
                }
            )
        output.report(*copy_lines(report, to=there.place.title))
        for name, reason in report.left_out.items():
            output.warn(f"left out: {name}: {reason}")
    return FAILED if report.left_out else 0
