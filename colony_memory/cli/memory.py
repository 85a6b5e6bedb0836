"""What a verb works with: the memory in the chosen vault, under the options given."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from colony_memory.cli.vault import at_vault
from colony_memory.client import ColonyMemory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from colony_memory.cli.options import CommonOptions
    from colony_memory.cli.output import Output
    from colony_memory.cli.vault import Place


@dataclass(frozen=True)
class Opened:
    """A memory, the place where it is, and where the answers go."""

    memory: ColonyMemory
    place: Place
    output: Output

    def working(self, doing: str = "Reading") -> AbstractContextManager[None]:
        """Show on a terminal that something is under way; ``doing`` is followed by the vault's name."""
        return self.output.working(f"{doing} {self.place.title}")


@contextmanager
def open_memory(common: CommonOptions) -> Iterator[Opened]:
    """Open the memory that the options name.

    Raises:
        ValueError: The vault's URL is of no known kind, or it cannot be opened as things are.
    """
    output = common.output
    with at_vault(common.vault, output) as place:
        yield Opened(ColonyMemory(backend=place.backend), place, output)
