"""The verb ``mcp``: one folder's memory for the host of an agent."""
# ruff: noqa: TC001 - the parser reads the annotations

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Annotated

from colony_memory.cli.options import (
    Argument,
    CommonOptions,
    FormatOption,
    Option,
    Without,
)
from colony_memory.cli.saving import SavingOptions

EXAMPLES = (
    "colony-memory mcp ~/agent/memory",
    "colony-memory mcp --label research --keep 50 --allow-restore ~/agent/memory",
)


def run(
    directory: Annotated[str, Argument(metavar="DIR")],
    *,
    saving: Annotated[SavingOptions, Without({"note", "tag"})],
    allow_restore: Annotated[
        bool, Option("--allow-restore", help="Offer to restore too. The person is asked each time.")
    ] = False,
    restore_unasked: Annotated[
        bool,
        Option("--restore-unasked", help="With --allow-restore: do it too where the host cannot ask anybody."),
    ] = False,
    format: FormatOption = None,  # noqa: A002 - the word for it
    common: CommonOptions,
) -> int:
    """Serve one folder's memory to an agent's host, by the Model Context Protocol.

    DIR is the folder. The host gets tools to save it, to list, show, verify, compare and look back, and to tell
    whether it is protected; all of them are about this folder, this label and this vault, and none takes a path. What
    is saved is what 'backup' with these options would save.

    A host starts this command itself and speaks to it on its input and output.
    """
    from colony_memory.mcp import require_mcp

    if restore_unasked and not allow_restore:
        raise ValueError("--restore-unasked is for --allow-restore: give both, or neither")
    require_mcp()
    from colony_memory.cli.memory import at_vault, format_of, trust_of
    from colony_memory.mcp.served import Served, real_folder
    from colony_memory.mcp.server import MemoryServer
    from colony_memory.mcp.stdio import serve_stdio

    with at_vault(common.vault, replace(common, quiet=True).output, making=True) as place:
        served = Served(
            place,
            real_folder(directory),
            saving.parsed(),
            trust=trust_of(common),
            wire=format_of(format),
            restore="unasked" if restore_unasked else "asked" if allow_restore else "no",
        )
        if sys.stdin is not None and sys.stdin.isatty():
            common.output.note("waiting for a host on standard input, which a terminal is not; Ctrl-C to stop")
        serve_stdio(MemoryServer(served))
    return 0
