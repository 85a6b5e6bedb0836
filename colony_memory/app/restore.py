"""A snapshot into a folder."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from colony_memory import _engine
from colony_memory._arguments import require_text, several, texts
from colony_memory.app.content import narrow
from colony_memory.app.facts import made_at
from colony_memory.app.pick import find_at, find_id
from colony_memory.app.place import identify_vault, refuse_vault_inside, require_synchronous
from colony_memory.app.save import save_present
from colony_memory.capture._write import write_folder
from colony_memory.capture.index import disprove
from colony_memory.exceptions import SnapshotCorrupt

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from colony_memory._engine.restore import Restored
    from colony_memory.app.save import Saved
    from colony_memory.capture._write import Written
    from colony_memory.client import ColonyMemory
    from colony_memory.snapshot import SnapshotInfo

__all__ = ["RestoredFolder", "fetch", "restore_folder"]


@dataclass(frozen=True)
class RestoredFolder:
    """What a restore did to a folder, or with ``dry_run`` would do; true unless it would be refused.

    Attributes:
        info: The snapshot that it was.
        written: What was or would be written, name by name, and with ``dry_run`` what would stop it.
        before: What was saved first of what the folder held, None where nothing was.
    """

    info: SnapshotInfo
    written: Written
    before: Saved | None = None

    def __bool__(self) -> bool:
        return not self.written.conflicts and not self.written.in_use


def restore_folder(
    memory: ColonyMemory,
    directory: str | os.PathLike[str],
    *,
    label: str = "default",
    snapshot: str | None = None,
    at: datetime | str | None = None,
    only: str | Iterable[str] = (),
    force: bool = False,
    delete: bool = False,
    snapshot_first: bool = False,
    dry_run: bool = False,
    fallback: bool = False,
    exclude: str | Iterable[str] = (),
    shape: Callable[[dict[str, str]], dict[str, str]] | None = None,
    on_progress: Callable[[int, int, str], None] | None = None,
) -> RestoredFolder:
    """Write a snapshot's files into a folder, all or none, and never unasked over what came after it.

    In a coroutine: ``await asyncio.to_thread(restore_folder, memory, directory)``.

    Args:
        memory: Where from.
        directory: The folder; it is made if it is missing.
        label: Label to restore from.
        snapshot: Which one: an id, the beginning of one, ``latest``, or ``latest~2``; by default the latest.
        at: In place of that, a time: the newest that is not after it. As text ``2026-11-01T12:00``, a day, ``3h ago``.
        only: Globs: only files whose path matches one; ``*`` matches ``/`` too.
        force: Replace files that changed after the snapshot, databases that a program has open, and real text by
            masked text.
        delete: Also remove files that the snapshot does not have.
        snapshot_first: First save what the folder holds, under the label with ``-before-restore`` at its end.
        dry_run: Change nothing, and tell what would be done and what would stop it.
        fallback: Where the snapshot is damaged, take the newest intact one.
        exclude: With ``snapshot_first``, what to leave out of what is saved, as :func:`save_folder` does. With
            ``delete`` it is refused: what no backup saves would be removed.
        shape: Makes of the documents that are wanted those that are written, under other names for one.
        on_progress: Called as ``on_progress(done, total, name)`` for every file that is ready.

    Raises:
        ValueError: No snapshot is named so, or several are; nothing matches ``only``; or the folder holds the vault and
            would be saved first, or emptied around it.
        SnapshotNotFound: There is no such snapshot.
        ColonyMemoryError: Something stops it: files that are newer here, a database in use. The folder is as it was.
            And as for :meth:`ColonyMemory.restore` and :func:`colony_memory.capture.write_folder`.
    """
    require_synchronous(memory)
    globs = tuple(texts("only", only))
    if snapshot is not None and at is not None:
        raise ValueError("snapshot and at each name a snapshot: give one of them")
    if delete and globs:
        raise ValueError("delete would remove all that only does not choose: give one of them")
    if delete and (shape is not None or several("exclude", exclude)):
        raise ValueError("delete would remove what a backup of this folder leaves out")
    if delete or snapshot_first:
        refuse_vault_inside(memory, [directory])
    if at is not None:
        snapshot = find_at(memory, at, label=label).snapshot_id
    found = fetch(memory, label=label, snapshot=snapshot, fallback=fallback)
    documents = narrow(found.documents, globs) if globs else found.documents
    write = partial(
        write_folder,
        documents if shape is None else shape(documents),
        directory,
        newer_than=made_at(found.info),
        force=force,
        delete=delete,
    )
    before = None
    if snapshot_first and not dry_run:
        # Where the restore is going to be refused, there is nothing to save.
        plan = RestoredFolder(found.info, write(dry_run=True))
        if plan:
            needed = (*plan.written.replaced, *plan.written.removed)
            before = save_present(memory, directory, label=label, needed=needed, exclude=exclude)
    return RestoredFolder(found.info, write(dry_run=dry_run, on_progress=on_progress), before)


def fetch(
    memory: ColonyMemory, *, label: str = "default", snapshot: str | None = None, fallback: bool = False
) -> Restored:
    """Read the snapshot asked for, else the latest; with ``fallback`` an older one where it is damaged.

    Raises:
        ValueError: ``snapshot`` names none, or several.
        ColonyMemoryError: As :meth:`ColonyMemory.restore`.
    """
    if snapshot is not None:
        require_text("snapshot", snapshot)
    if snapshot == "latest":
        snapshot = None
    if snapshot is not None:
        snapshot = find_id(memory, snapshot, label=label)
    try:
        return memory._run(_engine.restore.restore, label=label, snapshot_id=snapshot, fallback=fallback)  # noqa: SLF001
    except SnapshotCorrupt:
        disprove(identify_vault(memory), label)
        raise
