"""What a server serves, as whoever started it has it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from colony_memory._os.paths import real_path
from colony_memory.app.options import BackupOptions
from colony_memory.app.place import refuse_vault_inside
from colony_memory.capture._identity import unmoved
from colony_memory.client import ColonyMemory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from colony_memory.app.place import Place
    from colony_memory.reports import Event, LifecycleEvent

#: ``no``: there is no such tool. ``asked``: where the person agrees, and only by a client that can ask. ``unasked``:
#: also by one that cannot.
RestoreRight = Literal["no", "asked", "unasked"]


@dataclass(frozen=True)
class Served:
    """A folder, and where and how its memory is kept.

    Attributes:
        options: How it is saved; the label is the only one that is read and written.
        trust: The arguments of :class:`ColonyMemory` that say what is trusted.
    """

    place: Place  # the vault
    root: Path  # the folder, as a real path
    options: BackupOptions = field(default_factory=BackupOptions)
    trust: Mapping[str, Any] = field(default_factory=dict, repr=False)
    wire: Literal[1, 2] | None = None  # format to write, None for what the vault is for
    restore: RestoreRight = "no"  # whether files may be restored into the folder

    def __post_init__(self) -> None:
        """Refuse before a host is answered what every call would be refused for."""
        if not os.path.isdir(self.root) and (self.restore == "no" or os.path.lexists(self.root)):  # noqa: PTH112
            raise ValueError(f"{str(self.root)!r} is not a directory")
        refuse_vault_inside(self.open(), [self.root])

    @property
    def label(self) -> str:
        """The one label, as file names have it."""
        return self.options.label

    @property
    def hidden(self) -> set[str]:
        """What names the vault, which nobody needs to know who may only call tools."""
        path = getattr(self.place.backend, "path", None)
        found = {self.place.url, *([str(path), os.path.realpath(path)] if path is not None else [])}
        return {spelling for each in found for spelling in (each, repr(each)[1:-1])}

    def fixed(self) -> AbstractContextManager[None]:
        """Do something with the folder, where it is still the one that the server was started for."""
        return unmoved({str(self.root): self.root})

    def open(self, on_event: Callable[[Event | LifecycleEvent], None] | None = None) -> ColonyMemory:
        """A client for one call, as each run of the command line has: what others saved in between is no conflict."""
        return ColonyMemory(backend=self.place.backend, format=self.wire, on_event=on_event, **self.trust)


def real_folder(directory: str) -> Path:
    """The folder that a path leads to, once and for all: what a link says later moves nothing."""
    if not directory or "\0" in directory:
        raise ValueError("an empty path" if not directory else f"{directory!r} is not a path")
    return real_path(os.path.expanduser(directory))  # noqa: PTH111 - Path's raises RuntimeError
