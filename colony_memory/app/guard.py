"""A snapshot before something dangerous, and the way back."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from colony_memory.app.options import BackupOptions
from colony_memory.app.restore import restore_folder
from colony_memory.app.save import FolderSave
from colony_memory.exceptions import ColonyMemoryError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    from colony_memory.app.restore import RestoredFolder
    from colony_memory.app.save import Saved
    from colony_memory.client import ColonyMemory
    from colony_memory.snapshot import SnapshotInfo

__all__ = ["Guarded", "guard", "keep_for_way_back"]

_NAMED = 3
_LASTS = timedelta(days=30)


@dataclass(frozen=True)
class Guarded:
    """A folder as it was before.

    Attributes:
        info: The snapshot of it, pinned.
        directory: The folder.
    """

    info: SnapshotInfo
    directory: str | os.PathLike[str]
    _memory: ColonyMemory = field(repr=False)

    def restore(self, *, delete: bool = False) -> RestoredFolder:
        """Make the folder what it was: replace what was changed since, and with ``delete`` remove what has come.

        Raises:
            ColonyMemoryError: As :func:`restore_folder`.
        """
        info = self.info
        return restore_folder(
            self._memory, self.directory, label=info.label, snapshot=info.snapshot_id, force=True, delete=delete
        )


@contextmanager
def guard(
    memory: ColonyMemory,
    directory: str | os.PathLike[str],
    *,
    label: str = "default",
    note: str = "before something dangerous",
    on_progress: Callable[[int, int, str], None] | None = None,
    **options: Any,
) -> Iterator[Guarded]:
    """Save a folder, and keep that snapshot for 30 days whatever a retention says, before a block that may spoil the
    folder. Where the latest is pinned already and the folder is unchanged, that is the snapshot.

    Where not all of it can be saved, the block is not entered. Nothing is restored by itself, however the block ends.

    >>> import pathlib, tempfile
    >>> from colony_memory import ColonyMemory, guard, open_vault
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> plan = folder / "plan.md"
    >>> _ = plan.write_text("see the sea")
    >>> with guard(ColonyMemory(backend=open_vault("memory:")), folder, note="before the clean-up") as before:
    ...     plan.unlink()
    >>> before.restore().written.created
    ('plan.md',)

    Args:
        memory: Where to.
        directory: The folder. It must not hold the vault.
        label: Label to save under.
        note: What to say of the snapshot.
        on_progress: As for :func:`save_folder`, and so are
        options: ``exclude``, ``secrets`` and so on.

    Raises:
        ValueError: As :func:`save_folder`.
        ColonyMemoryError: As :func:`save_folder` and :meth:`ColonyMemory.pin`; or something had to be left out.
    """
    asked = BackupOptions(label=label, note=note, **{"secrets": "warn", **options})
    with FolderSave(memory, directory, asked, unattended=True) as saving:
        saved = saving.save(saving.read(on_progress=on_progress), reuses_pinned=True)
    yield Guarded(keep_for_way_back(memory, saved), directory, memory)


def keep_for_way_back(memory: ColonyMemory, saved: Saved) -> SnapshotInfo:
    """Pin what was saved for 30 days from now, unless it is pinned for longer; the snapshot."""
    from colony_memory._engine.prune import pin

    if not saved:
        named = "; ".join(map(str, saved.left_out[:_NAMED]))
        more = f" and {len(saved.left_out) - _NAMED} more" if len(saved.left_out) > _NAMED else ""
        raise ColonyMemoryError(
            f"there would be no way back for what had to be left out of the snapshot, {named}{more}: "
            "exclude what does not matter"
        )
    info = saved.info
    memory._run(  # noqa: SLF001
        pin, label=info.label, snapshot_id=info.snapshot_id, lasts=_LASTS
    )
    return info
