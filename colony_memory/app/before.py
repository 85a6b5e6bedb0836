"""What a folder holds, saved before something is restored over it: under a label of its own, and not without end."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colony_memory._arguments import several
from colony_memory._engine import basis as events
from colony_memory._engine.basis import Basis
from colony_memory.app.options import BackupOptions
from colony_memory.app.save import FolderSave
from colony_memory.capture._filenames import parents_of
from colony_memory.capture.folder import NothingToSave
from colony_memory.exceptions import ColonyMemoryError, ColonyMemoryWarning, message_of

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping

    from colony_memory.app.save import Saved
    from colony_memory.capture.folder import Capture
    from colony_memory.client import ColonyMemory
    from colony_memory.snapshot import SnapshotInfo

__all__ = ["BEFORE_RESTORE", "save_present"]

BEFORE_RESTORE = "-before-restore"
"""What the label of a snapshot ends with that was made before something was restored over it."""

# Of different content.
_KEPT = 10


def save_present(
    memory: ColonyMemory,
    directory: str | os.PathLike[str],
    *,
    label: str,
    needed: Iterable[str] = (),
    exclude: str | Iterable[str] = (),
    allow_secrets: str | Iterable[str] = (),
    options: Mapping[str, Any] | None = None,
) -> Saved | None:
    """Save what a folder holds, under the label with ``-before-restore`` at its end.

    It has a label of its own so that it never is the latest of the memory that it is not. The newest ten of different
    content stay there, and what is pinned.
    """
    folder, needed = Path(directory), list(needed)
    if not folder.is_dir() or next(folder.iterdir(), None) is None:
        return None
    own = label if label.endswith(BEFORE_RESTORE) else label + BEFORE_RESTORE
    asked = BackupOptions.of_known(options or {}, label=own, on_conflict="continue")
    asked = replace(
        asked,
        exclude=(*asked.exclude, *several("exclude", exclude)),
        allow_secrets=(*asked.allow_secrets, *several("allow_secrets", allow_secrets)),
    )
    # One after the other: none is based on anything but the one before.
    home, latest = memory._session.home(own), memory.latest(label=own)  # noqa: SLF001
    home.write(events.restored(Basis(), latest.snapshot_id) if latest is not None else Basis())
    with FolderSave(memory, folder, asked, noted=False) as saving:
        try:
            capture = saving.read()
        except NothingToSave as error:
            if needed:
                raise ColonyMemoryError(f"the folder as it is was not saved: {error}; nothing was written") from error
            return None
        _require_saved(capture, needed)
        saved = saving.save(capture)
    _retire(memory, own)
    return saved


def _require_saved(capture: Capture, needed: Iterable[str]) -> None:
    reasons = {entry.name: entry.reason for entry in capture.left_out} | dict.fromkeys(capture.ignored, "is ignored")
    for name in needed:
        # A directory, which ends with a slash, is left out with all that is in it.
        why = next(
            (reasons[each] for each in (name, *(f"{above}/" for above in parents_of(name))) if each in reasons), ""
        )
        if why:
            raise ColonyMemoryError(
                f"the folder as it is was not saved: {name!r} would be replaced, and is not in it ({why}); "
                "nothing was written"
            )


def _retire(memory: ColonyMemory, label: str) -> None:
    """Give up what is older than the newest ten of different content."""
    try:
        for info in _surplus(memory.list_snapshots(label=label)):
            memory.delete_snapshot(label=label, snapshot_id=info.snapshot_id)
    except ColonyMemoryError as error:
        told = f"older snapshots of label {label!r} were not removed: {message_of(error)}"
        warnings.warn(ColonyMemoryWarning(told), stacklevel=3)


def _surplus(infos: Iterable[SnapshotInfo]) -> list[SnapshotInfo]:
    """What may go of snapshots, which are given newest first."""
    found: list[SnapshotInfo] = []
    contents: set[str] = set()
    for info in infos:
        content = info.plaintext_sha256 or info.snapshot_id  # of what nobody can open, each is its own
        if not info.pinned and (content in contents or len(contents) >= _KEPT):
            found.append(info)
        contents.add(content)
    return found
