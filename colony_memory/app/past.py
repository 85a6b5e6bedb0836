"""What became of a file, and of what was in one, over all snapshots."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from colony_memory import _engine
from colony_memory._patch import File
from colony_memory.app.content import near
from colony_memory.app.place import require_synchronous
from colony_memory.capture._metadata import METADATA_NAME, split_documents
from colony_memory.capture._view import git_files
from colony_memory.exceptions import ColonyMemoryError, SnapshotCorrupt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from colony_memory._engine.history import Histories
    from colony_memory.client import ColonyMemory
    from colony_memory.reports import Change, SearchReport

__all__ = ["FileHistory", "change_word", "every_history", "file_history", "search_files"]


@dataclass(frozen=True)
class FileHistory:
    """What became of one file.

    Attributes:
        name: The file.
        changes: Its changes, newest first.
        read: How many snapshots were looked at.
        passed_over: Why each snapshot that could not be read, or is not trusted, was not, by id.
    """

    name: str
    changes: tuple[Change, ...]
    read: int
    passed_over: Mapping[str, str] = field(default_factory=dict)


def file_history(memory: ColonyMemory, name: str, *, label: str = "default", patch: bool = False) -> FileHistory:
    """What became of one file of a folder, text or not, from snapshot to snapshot; of a link, of what it says.

    Reads every snapshot of the label once, as :meth:`ColonyMemory.history` does.

    Args:
        memory: Where it is saved.
        name: The file, under the name that it has in a snapshot.
        label: Label to look at.
        patch: Give each difference too, as git and patch take it.

    Raises:
        ColonyMemoryError: No snapshot has it; ``SnapshotCorrupt`` where some could not be read, and one of those may.
            And as for :meth:`ColonyMemory.history`.
    """
    require_synchronous(memory)
    names: list[str] = []

    def view(documents: Mapping[str, str]) -> dict[str, File]:
        files = _files(documents)
        if not names:
            names.extend(files)  # of the newest
        if METADATA_NAME in documents:
            files[METADATA_NAME] = File(documents[METADATA_NAME])
        return files

    found = memory._run(_engine.history.history, name, label=label, patch=patch, view=view)  # noqa: SLF001
    if name in found.changes:
        return FileHistory(name, found.changes[name], found.read, found.passed_over)
    more = near(name, names)
    if found.passed_over:
        raise SnapshotCorrupt(
            f"there is no {name!r} in what can be read of label {label!r}, and {len(found.passed_over)} of "
            f"{len(found.passed_over) + found.read} snapshots cannot be{more}"
        )
    where = "the one snapshot" if found.read == 1 else f"any of the {found.read} snapshots"
    raise ColonyMemoryError(f"there is no {name!r} in {where} of label {label!r}{more}")


def change_word(name: str, change: Change) -> str:
    """What happened, in a word or two."""
    if change.kind == "removed" and any(each.startswith(f"{name}: ") for each in change.snapshot.incomplete):
        return "left out"  # not by the wish of whoever keeps the files
    return "in the oldest" if change.before is None else change.kind


def every_history(memory: ColonyMemory, *, label: str = "default", patch: bool = False) -> Histories:
    """What became of every file of a folder, as :func:`file_history` tells it of one.

    Raises:
        ColonyMemoryError: As for :meth:`ColonyMemory.history`.
    """
    require_synchronous(memory)
    return memory._run(_engine.history.histories, label=label, patch=patch, view=_files)  # noqa: SLF001


def _files(documents: Mapping[str, str]) -> dict[str, File]:
    return git_files(documents, modes=False)


def search_files(
    memory: ColonyMemory,
    pattern: str,
    *,
    label: str = "default",
    fixed: bool = False,
    ignore_case: bool = False,
) -> SearchReport:
    """Every line of every file that has something in it; what is no text is looked at as a whole.

    Arguments and errors are those of :meth:`ColonyMemory.search`.
    """
    require_synchronous(memory)
    return memory._run(  # noqa: SLF001
        _engine.history.search, pattern, label=label, fixed=fixed, ignore_case=ignore_case, view=_contents
    )


def _contents(documents: Mapping[str, str]) -> dict[str, File]:
    return {name: File(content) for name, content in split_documents(documents)[0].items()}
