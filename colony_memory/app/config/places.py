"""Where a set is on this machine: the paths that are saved, and the one folder that a restore writes into."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from colony_memory.app.agents import AGENTS

if TYPE_CHECKING:
    from colony_memory.app.config.meaning import BackupSet


def paths_of(chosen: BackupSet) -> list[str]:
    """What is saved.

    Raises:
        ValueError: The agent's host is not there.
    """
    if chosen.agent is None or chosen.paths:
        return list(chosen.paths)
    return [str(AGENTS[chosen.agent].require_folder())]


def target_of(chosen: BackupSet) -> str:
    """The folder in which the files of a snapshot lie where they were saved from.

    Raises:
        ValueError: There is no such folder, or nobody can tell.
    """
    if chosen.agent is not None:
        return chosen.paths[0] if chosen.paths else str(AGENTS[chosen.agent].folder())
    first, *more = map(Path, chosen.paths)
    if more:
        if any(each.parent != first.parent for each in more):
            raise ValueError(
                f"the paths of set {chosen.name!r} lie in several folders: say with DIR where to restore to"
            )
        return str(first.parent)
    if first.is_file():
        return str(first.parent)
    if first.suffix and not first.exists():
        raise ValueError(f"{str(first)!r} is not there, and may have been a file: say with DIR where to restore to")
    return str(first)
