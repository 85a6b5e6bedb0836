"""Several stores as one memory: saved together, and put back together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from colony_memory.app.options import BackupOptions
from colony_memory.app.place import refuse_vault_inside, require_synchronous
from colony_memory.app.restore import RestoredFolder, fetch
from colony_memory.app.save import save_capture
from colony_memory.app.target import Target
from colony_memory.capture._write import Unsaved

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from colony_memory.app.save import Saved
    from colony_memory.capture.sources import SourceSet
    from colony_memory.client import ColonyMemory
    from colony_memory.retention import Retention

__all__ = ["restore_sources", "save_sources"]


def save_sources(
    memory: ColonyMemory,
    sources: SourceSet,
    *,
    label: str = "default",
    prune_keep: int | None = None,
    retention: Retention | None = None,
    on_conflict: Literal["raise", "continue", "merge"] = "raise",
    note: str | None = None,
    tags: str | Iterable[str] = (),
    secrets: str = "warn",
    allow_secrets: str | Iterable[str] = (),
) -> Saved:
    """Save a set of stores as one snapshot; where nothing has changed in any of them, nothing is written.

    Args:
        memory: Where to.
        sources: The set.
        label: Label to save under.
        prune_keep: As for :meth:`ColonyMemory.backup`, and so are the four that follow.
        retention: As there.
        on_conflict: ``"raise"`` or ``"continue"``: what two writers did to databases is not joined.
        note: As there.
        tags: As there.
        secrets: What to do about likely secrets: ``"stop"``, ``"warn"`` or ``"allow"``.
        allow_secrets: Findings that may be saved, by their ``id``.

    Raises:
        ValueError: A store is missing or cannot be read, or an argument is bad.
        ColonyMemoryError: Likely secrets stop it, a store cannot be captured, or as for :meth:`ColonyMemory.backup`.
    """
    require_synchronous(memory)
    options = BackupOptions.among(locals())
    if on_conflict == "merge":
        raise ValueError("a merge joins texts, and a set holds stores: say 'raise' or 'continue'")
    refuse_vault_inside(memory, [sources.root / source.path for source in sources.sources])
    capture = sources.capture(
        secrets=secrets,
        allow_secrets=options.allow_secrets,
        max_bytes=memory._session.max_bytes,  # noqa: SLF001
    )
    return save_capture(memory, capture, options)


def restore_sources(
    memory: ColonyMemory,
    sources: SourceSet,
    *,
    label: str = "default",
    snapshot: str | None = None,
    force: bool = False,
    dry_run: bool = False,
    fallback: bool = False,
    on_progress: Callable[[int, int, str], None] | None = None,
) -> RestoredFolder:
    """Put a set of stores back, all or none, and never unasked over what came after the snapshot.

    Args:
        memory: Where from.
        sources: The set that was saved; its root may be another directory, or one that is not there yet.
        label: Label to restore from.
        snapshot: Which one, as :func:`colony_memory.restore_folder` takes it; by default the latest.
        force: Replace files whatever becomes of their text, and files that a program has open.
        dry_run: Change nothing, and tell what would be done and what would stop it.
        fallback: Where the snapshot is damaged, take the newest intact one.
        on_progress: Called as ``on_progress(done, total, name)`` for every file that is ready.

    Raises:
        ValueError: No snapshot is named so, or it is not one of this set.
        SnapshotNotFound: There is no such snapshot.
        SnapshotCorrupt: It is not what its sources gave.
        ColonyMemoryError: Something stops it. Nothing was written, or the error says what was.
    """
    require_synchronous(memory)
    with Target(memory, sources.root, label=label, looking=dry_run, shape=sources.files_of) as target:
        found = fetch(memory, label=label, snapshot=snapshot, fallback=fallback, read=target.read)
        question = target.question(found)
        try:
            written = sources.restore(
                found.documents, question=question, force=force, dry_run=dry_run, on_progress=on_progress
            )
        except Unsaved as error:
            error.hint = None  # a set is saved as one: nothing saves a part of it first
            raise
    return RestoredFolder(found.info, written)
