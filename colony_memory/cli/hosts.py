"""What is said of the memory of an agent's host, where it is saved and on its way back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from colony_memory.app.agents import AGENTS
from colony_memory.app.claude_code import Host, read_moves
from colony_memory.words.text import FEW

if TYPE_CHECKING:
    from collections.abc import Iterable

    from colony_memory.cli.output import Output


def host_of(
    name: str | None,
    directory: str,
    *,
    kinds: Iterable[str] | None,
    project: str | None,
    maps: Iterable[str] | None,
) -> Host | None:
    """The host of that name, None where none is meant."""
    moves = read_moves(project, maps or ())
    if moves and not (name and AGENTS[name].has_projects):
        raise ValueError("--project and --map are for --agent claude-code, whose folders are named after projects")
    return None if name is None else Host(AGENTS[name], directory, moves, tuple(kinds or ()))


def tell(host: Host, output: Output) -> None:
    """Say what was left, and what was named anew or may have to be."""
    for old, new in host.renamed.items():
        output.note(f"projects/{old} is projects/{new} here")
    if host.strange:
        more = f" and {len(host.strange) - FEW} more" if len(host.strange) > FEW else ""
        output.note(
            f"new here: the memory of {', '.join(host.strange[:FEW])}{more}; each name stands for the path of a "
            "project, and where that lies elsewhere on this machine, --map OLD=NEW says so"
        )
    for name in host.left[:FEW]:
        output.warn(f"not written: {name}: no memory of {host.agent.title}")
    if len(host.left) > FEW:
        output.warn(f"not written: {len(host.left) - FEW} more")


def tell_kinds(name: str, left: Iterable[str], output: Output) -> None:
    """Say what of a host was left out that may be saved with its memory."""
    kinds = AGENTS[name].kinds_among(left)
    if kinds:
        output.note(f"no memory, and not saved: {', '.join(kinds)}; --with {','.join(kinds)} saves them too")


def tell_elsewhere(name: str | None, paths: Iterable[str], output: Output) -> None:
    """Warn of what may be memory and is not among what is saved."""
    if name is not None:
        for path in paths:
            for line in AGENTS[name].elsewhere(Path(path)):
                output.warn(f"warning: {line}" if not output.as_json else line)
