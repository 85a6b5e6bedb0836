"""A snapshot of what a folder holds now, before something else is restored into it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from colony_memory.capture.folder import read_folder
from colony_memory.exceptions import ColonyMemoryError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from colony_memory.capture.folder import LeftOut
    from colony_memory.client import ColonyMemory
    from colony_memory.snapshot import SnapshotInfo

__all__ = ["BEFORE_RESTORE", "Present", "save_present"]

BEFORE_RESTORE = "-before-restore"
"""What the label of such a snapshot ends with."""


@dataclass(frozen=True)
class Present:
    """What was saved of a folder as it is.

    Attributes:
        info: The snapshot.
        left_out: What it does not hold.
    """

    info: SnapshotInfo
    left_out: tuple[LeftOut, ...]


def save_present(
    memory: ColonyMemory, directory: str | os.PathLike[str], *, label: str, needed: Iterable[str] = ()
) -> Present | None:
    """Save what a folder holds, under the label with ``-before-restore`` at its end.

    It has a label of its own so that it never is the latest of the memory that it is not.

    Args:
        memory: Where to.
        directory: The folder.
        label: The label that is going to be restored.
        needed: Names that must be in it, such as those that are going to be replaced.

    Returns:
        What was saved, or None where there is nothing to save: no folder, or an empty one.

    Raises:
        ValueError: The folder cannot be read, or the label is too long for that.
        ColonyMemoryError: A needed file cannot be saved, or there are likely secrets in the folder; as for
            :meth:`colony_memory.ColonyMemory.backup` otherwise.
    """
    folder = Path(directory)
    if not folder.is_dir() or next(folder.iterdir(), None) is None:
        return None
    capture = read_folder(folder, secrets="stop")
    reasons = {entry.name: entry.reason for entry in capture.left_out} | dict.fromkeys(capture.ignored, "is ignored")
    lacking = [name for name in needed if name in reasons]
    if lacking:
        raise ColonyMemoryError(
            f"the folder as it is was not saved: {lacking[0]!r} would be replaced, and is not in it "
            f"({reasons[lacking[0]]}); nothing was written"
        )
    missing = [str(each) for each in capture.left_out]
    info = memory.backup(capture.documents, label=label + BEFORE_RESTORE, incomplete=missing)
    return Present(info, capture.left_out)
