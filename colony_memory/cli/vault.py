"""Which vault: the option, the environment, else a place on this host."""

from __future__ import annotations

import os
import shlex
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from colony_memory.cli.errors import NO_VAULT, NOTHING_SAVED, Failure
from colony_memory.exceptions import ColonyMemoryWarning, SnapshotNotFound
from colony_memory.vaults import open_vault
from colony_memory.vaults._directory import no_vault
from colony_memory.vaults._open import is_path
from colony_memory.vaults.local import LocalVault

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from colony_memory.cli.output import Output
    from colony_memory.vaults import VaultBackend

_ANOTHER = "set COLONY_API_KEY or --vault for another"


@dataclass(frozen=True)
class Place:
    """A vault that was chosen.

    Attributes:
        url: What names it.
        backend: The vault.
        chosen: False where nobody chose, and it is the local one.
    """

    url: str
    backend: VaultBackend
    chosen: bool = True

    @property
    def title(self) -> str:
        """The vault in a sentence."""
        if _kind(self.url) == "colony:":
            return "the hosted vault"
        return f"the {'' if self.chosen else 'local '}vault {self.url}"

    def exists(self) -> bool:
        """Whether there is a vault at all; where it is not this command that sees to that, there is one."""
        return not isinstance(self.backend, LocalVault) or self.backend.exists()

    def make(self) -> bool:
        """Make the vault, if it is one that is to be made; tells whether there was none."""
        missing = not self.exists()
        open_vault(self.url, create=True)
        return missing

    def make_unchosen(self) -> None:
        """Make the vault that nobody chose where there is none yet, and say so to whoever is listening at all."""
        if not self.chosen and not self.exists():
            self.make()
            warnings.warn(
                f"no vault was chosen, so that one was made: {self.title}; {_ANOTHER}",
                ColonyMemoryWarning,
                stacklevel=2,
            )

    def require(self) -> None:
        """Go on only where there is a vault.

        Raises:
            Failure: There is none.
        """
        if isinstance(self.backend, LocalVault) and not self.backend.exists():
            error = no_vault(self.backend.path)
            advice = "make one with: colony-memory init"
            advice = f"{advice} {shlex.quote(self.url)}" if self.chosen else f"the first backup makes one; {_ANOTHER}"
            raise Failure(f"{error.message}; {advice}", code=NO_VAULT) from error


def choose_vault(url: str | None) -> Place:
    """Open the vault of the option (or of COLONY_MEMORY_VAULT), the hosted one where there is a key, else a local one.

    Raises:
        ValueError: The URL is of no known kind, or cannot be opened as things are.
    """
    chosen = True
    if url is None and os.environ.get("COLONY_API_KEY"):
        url = "colony:"
    elif url is None:
        from platformdirs import user_data_path

        path = user_data_path("colony-memory") / "vault"
        url, chosen = str(path) if is_path(str(path)) else path.as_uri(), False
    elif _kind(url) == "memory:":
        raise ValueError("a vault memory: would be gone when this command ends: give a directory")
    elif _kind(url) == "colony:" and not os.environ.get("COLONY_API_KEY"):
        raise ValueError("the hosted vault needs a key: set COLONY_API_KEY")
    return Place(url, open_vault(url), chosen)


def _kind(url: str) -> str:
    return url.lower().rstrip("/")


@contextmanager
def at_vault(url: str | None, output: Output, *, making: bool = False) -> Iterator[Place]:
    """The chosen vault; where nobody chose, say so at the end, or where nothing is found in it.

    Args:
        url: What was chosen.
        output: Where that is said.
        making: The verb calls :meth:`Place.make_unchosen` before it writes, so that one may be missing until then.

    Raises:
        Failure: There is no vault.
    """
    place = choose_vault(url)
    making = making and not place.chosen and not place.exists()
    if not making:
        place.require()
    if place.chosen:
        yield place
        return
    try:
        yield place
    except SnapshotNotFound as error:
        raise Failure(f"{error.message}, in {place.title}; {_ANOTHER}", code=NOTHING_SAVED, hint=error.hint) from error
    if not making:  # else it was said when it was made
        output.note(f"using {place.title}; {_ANOTHER}")


def refuse_vault_inside(place: Place, paths: Iterable[str]) -> None:
    """Refuse to back up the vault itself: every snapshot would hold all the ones before.

    Raises:
        ValueError: The vault is a directory in one of the paths.
    """
    if not isinstance(place.backend, LocalVault):
        return
    vault = place.backend.path.resolve()
    for path in paths:
        if vault.is_relative_to(Path(path).resolve()):
            raise ValueError(
                f"the vault {str(vault)!r} is inside {path!r}: each backup would hold all the ones before; "
                "keep the vault elsewhere, or name what to back up"
            )
