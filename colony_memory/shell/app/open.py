"""The choice of a vault, and the identity of a memory's vault."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from colony_memory._boundary import require_text, require_type
from colony_memory._format.names import read_filename
from colony_memory._os.files import create_file
from colony_memory._os.machine import data_directory
from colony_memory._values import Value
from colony_memory.client import AsyncColonyMemory, ColonyMemory
from colony_memory.shell.app.config import at_key, located, read_setting, url_of
from colony_memory.vaults import is_path, open_vault
from colony_memory.vaults.local import LocalVault

if TYPE_CHECKING:
    from collections.abc import Iterable

    from colony_memory.vaults import VaultBackend


class Place(Value):
    """A vault as chosen by the user, or by default."""

    url: str
    backend: VaultBackend
    chosen: bool = True  # false for the local vault, the default if nobody chose
    passed_over: Path | None = None  # the local vault, if it is not the default only because a key is set

    @property
    def title(self) -> str:
        if self.comes_with_the_account:
            return "the hosted vault"
        return f"the {'' if self.chosen else 'local '}vault {self.url}"

    @property
    def comes_with_the_account(self) -> bool:
        """True for the hosted vault, which need not be made."""
        return self.url.lower().rstrip("/") == "colony:"

    def exists(self) -> bool:
        """True if the vault exists, or if this host cannot tell."""
        backend: Any = self.backend
        return not hasattr(backend, "exists") or bool(backend.exists())

    def make(self, *, format: Literal[1, 2] | None = None) -> bool:  # noqa: A002 - the word for it
        """Make the vault, if its kind has to be made; true if it was missing."""
        missing = not self.exists()
        open_vault(self.url, create=True, format=format)
        return missing

    @property
    def _known(self) -> Path:
        return Path(self.backend.path) / ".known"  # type: ignore[attr-defined]

    @property
    def is_known(self) -> bool:
        """True if somebody chose the vault, or made it on purpose."""
        return self.chosen or self._known.exists()

    def make_known(self) -> None:
        if not self.is_known:
            with contextlib.suppress(OSError):  # if it is not writable, the notice is repeated each time
                create_file(self._known, b"")

    def labels_passed_over(self) -> list[str]:
        """The labels in the local vault, if a key that is set leads to the hosted one instead."""
        try:
            names = [] if self.passed_over is None else os.listdir(self.passed_over)  # noqa: PTH208 - names alone
        except OSError:
            return []
        return sorted(parsed.label for name in names if (parsed := read_filename(name)) and parsed.kind == "latest")

    def make_unchosen(self) -> bool:
        """Make the default vault if it is missing; true if it was made, which the user must be told."""
        # A chosen vault is never made implicitly: it may be on a disk that is not mounted.
        return not self.chosen and not self.exists() and self.make()

    def require(self) -> None:
        backend: Any = self.backend
        if hasattr(backend, "require"):
            backend.require()

    @property
    def identity(self) -> object:
        """A value that is equal for two names of the same vault."""
        path = getattr(self.backend, "path", None)
        return self.url.rstrip("/") if path is None else path.resolve()


def choose_place(url: str | None = None) -> Place:
    """The vault of the URL or the variable, else the hosted one if a key is set, else the local; not accessed yet."""
    chosen, key, passed_over = True, read_setting("COLONY_API_KEY"), None
    if url is not None:
        require_text("url", url)
    elif named := read_setting("COLONY_MEMORY_VAULT"):
        url = at_key("COLONY_MEMORY_VAULT", url_of, named)
    elif key:
        url = "colony:"
        with contextlib.suppress(OSError):
            passed_over = data_directory() / "vault"
    else:
        path = located(data_directory) / "vault"
        url, chosen = str(path) if is_path(str(path)) else path.as_uri(), False
    kind = url.lower().rstrip("/") if chosen else ""
    if kind == "memory:":
        raise ValueError("a vault in memory is gone when this process ends: give a directory")
    if kind == "colony:" and not key:
        raise ValueError("the hosted vault needs a key: set COLONY_API_KEY")
    return Place(url, open_vault(url), chosen, passed_over)


def require_synchronous(memory: object) -> None:
    """Refuse a client whose verbs are coroutines: without an await they would do nothing and seem to succeed."""
    if isinstance(memory, AsyncColonyMemory):
        why = "this client is asynchronous: give one that is not, and call this in a thread of its own"
        raise ValueError(why)  # noqa: TRY004 - as for a backend that is
    require_type("memory", memory, ColonyMemory)


def refuse_vault_inside(memory: ColonyMemory, paths: Iterable[str | os.PathLike[str]]) -> None:
    """Refuse to back up the vault itself; missing paths are left to the reader of the files."""
    backend = memory._session.vault.backend
    if not issubclass(type(backend), LocalVault):
        return
    vault = backend.path.resolve()
    for path in [os.fspath(path) for path in paths]:
        if os.path.exists(path) and vault.is_relative_to(Path(path).resolve()):  # noqa: PTH110 - never raises
            raise ValueError(
                f"the vault {str(vault)!r} is inside {path!r}: each backup would hold all the ones before; "
                "keep the vault elsewhere, or name what to back up"
            )


def identify_vault(memory: ColonyMemory) -> str | None:
    """The identity of a memory's vault, however it is named; None if it has none that outlives this process."""
    backend: Any = memory._session.vault.backend
    # Looked up on the class: a mock vault in a test has every attribute.
    identity = backend.identity() if hasattr(type(backend), "identity") else None
    if identity is None and isinstance(address := getattr(backend, "__dict__", {}).get("base_url"), str):
        identity = f"colony:{address}"  # the SDK's own client
    return identity if isinstance(identity, str) else None
