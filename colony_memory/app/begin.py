"""A start with the memory that was saved, or as a proven first one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from colony_memory.app.place import refuse_vault_inside
from colony_memory.app.restore import restore_folder
from colony_memory.exceptions import SnapshotNotFound

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from colony_memory.app.restore import RestoredFolder
    from colony_memory.client import ColonyMemory

__all__ = ["Begun", "begin"]


@dataclass(frozen=True)
class Begun:
    """How a start went.

    Attributes:
        restored: What was restored; None on a first start, where nothing is saved yet.
        missing: What is said of that, with the labels that are there.
    """

    restored: RestoredFolder | None
    missing: str = ""


def begin(
    memory: ColonyMemory,
    directory: str | os.PathLike[str],
    *,
    label: str = "default",
    shape: Callable[[dict[str, str]], dict[str, str]] | None = None,
    on_progress: Callable[[int, int, str], None] | None = None,
) -> Begun:
    """Restore the latest snapshot into a folder; where it is proven that none was ever saved, only make the folder.

    A vault that is away, damaged or not trusted raises, so that no agent begins with an empty memory by mistake. What
    the folder holds already stays, and stops the restore where it is newer than the snapshot, as for
    :func:`restore_folder`. What the memory is based on is from then on what was restored: another's snapshot that
    comes in between is a conflict for the next backup of the same client.

    Args:
        memory: Where from.
        directory: The folder; it is made if it is missing. It must not hold the vault.
        label: Label to restore from.
        shape: As for :func:`restore_folder`.
        on_progress: As for :func:`restore_folder`.

    Raises:
        ValueError: The folder cannot be used, or holds the vault.
        ColonyMemoryError: As :func:`restore_folder`, but never SnapshotNotFound.
    """
    refuse_vault_inside(memory, [directory])
    try:
        return Begun(restore_folder(memory, directory, label=label, shape=shape, on_progress=on_progress))
    except SnapshotNotFound as error:
        missing = error.message
    try:
        Path(directory).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"{str(directory)!r}: {error.strerror}") from error
    return Begun(None, missing)
