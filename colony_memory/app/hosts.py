"""The memory of an agent's host on its way back: no setting among it, and projects under their names here."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from colony_memory.app.claude_code import Moves, project_names
from colony_memory.app.content import contents_of, reshape

if TYPE_CHECKING:
    from colony_memory.app.agents import Agent

__all__ = ["Host"]


@dataclass
class Host:
    """The folder of a host that a snapshot is going to be written into.

    Attributes:
        agent: The host.
        directory: Its folder.
        moves: Which folders of projects get another name.
        left: What the snapshot has and is no memory of this host.
        renamed: The folders of projects that got another name.
        strange: Those that this machine has no folder for yet.
    """

    agent: Agent
    directory: str
    moves: Moves
    left: list[str] = field(default_factory=list)
    renamed: dict[str, str] = field(default_factory=dict)
    strange: list[str] = field(default_factory=list)

    def shape(self, documents: dict[str, str]) -> dict[str, str]:
        """What of the documents is written: memory alone, under the names that it has here.

        Raises:
            ValueError: None of it is memory of this host, or a project cannot be moved as it was said.
        """
        found = contents_of(documents)
        left = {name for name in found.files if not self.agent.holds(name)}
        self.left = sorted(left)
        # Nor what is only there because something in it is not: a project without memory, for one.
        empty = {name for name in found.empty_dirs if not self.agent.holds(f"{name}/x")}
        kept = reshape(documents, wanted=lambda name: name not in left and name not in empty)
        if not kept or left == set(found.files):
            raise ValueError(f"nothing in the snapshot is memory of {self.agent.title}")
        shaped, self.renamed = self.moves.apply(kept)
        if self.agent.has_projects:
            here = Path(self.directory, "projects")
            names = project_names(contents_of(shaped).files)
            self.strange = [name for name in names if name not in self.renamed.values() and not (here / name).is_dir()]
        return shaped
