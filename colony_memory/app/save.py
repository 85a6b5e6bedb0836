"""Folders and files into a vault, in one step or in two: read, and then save what was read."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from colony_memory._arguments import require_type, several
from colony_memory.app.content import Contents, contents_of
from colony_memory.app.options import BackupOptions
from colony_memory.app.pick import with_pin
from colony_memory.app.place import refuse_vault_inside, require_synchronous
from colony_memory.capture.folder import Capture, read_folder, read_paths
from colony_memory.exceptions import ColonyMemoryError, ColonyMemoryWarning
from colony_memory.snapshot import digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from colony_memory.capture.folder import LeftOut, SecretsChoice
    from colony_memory.client import ColonyMemory
    from colony_memory.retention import Retention
    from colony_memory.snapshot import SnapshotInfo

__all__ = [
    "BEFORE_RESTORE",
    "Saved",
    "read_for",
    "save_capture",
    "save_folder",
    "save_paths",
    "save_present",
]

BEFORE_RESTORE = "-before-restore"
"""What the label of a snapshot ends with that was made before something was restored over it."""


@dataclass(frozen=True)
class Saved:
    """What was saved of folders and files; true where nothing had to be left out.

    Attributes:
        info: The snapshot, with ``reused`` where nothing had changed.
        capture: What was read.
    """

    info: SnapshotInfo
    capture: Capture

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """What is on disk and not in the snapshot although it should be, each with the reason."""
        return self.capture.left_out

    @property
    def contents(self) -> Contents | None:
        """What the snapshot holds, None where it was joined with another's and is more than what was read."""
        names, documents = self.info.doc_names, self.capture.documents
        # Format 2 names no documents.
        as_read = len(documents) == len(names) or not (names or self.info.diverged_from)
        return contents_of(documents) if as_read else None

    def __bool__(self) -> bool:
        return not self.left_out


def save_folder(
    memory: ColonyMemory,
    path: str | os.PathLike[str],
    *,
    label: str = "default",
    prune_keep: int | None = None,
    retention: Retention | None = None,
    on_conflict: Literal["raise", "continue", "merge"] = "raise",
    note: str | None = None,
    tags: str | Iterable[str] = (),
    git: bool = False,
    exclude: str | Iterable[str] = (),
    secrets: SecretsChoice = "warn",
    allow_secrets: str | Iterable[str] = (),
    on_progress: Callable[[int, int, str], None] | None = None,
) -> Saved:
    """Save every file under a directory as a new snapshot, byte for byte.

    Where nothing has changed, nothing is written. What could not be read is in ``left_out`` of what is returned, and in
    the snapshot's own record. In a coroutine: ``await asyncio.to_thread(save_folder, memory, path)``.

    >>> import pathlib, tempfile
    >>> from colony_memory import ColonyMemory, open_vault, save_folder
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> (folder / "MEMORY.md").write_text("two years of notes")
    18
    >>> saved = save_folder(ColonyMemory(backend=open_vault("memory:")), folder)
    >>> bool(saved), saved.info.doc_names
    (True, ['MEMORY.md'])

    Args:
        memory: Where to.
        path: The directory. It must not hold the vault.
        label: Label to save under.
        prune_keep: As for :meth:`ColonyMemory.backup`.
        retention: As for :meth:`ColonyMemory.backup`.
        on_conflict: As for :meth:`ColonyMemory.backup`.
        note: As for :meth:`ColonyMemory.backup`.
        tags: As for :meth:`ColonyMemory.backup`.
        git: As for :func:`colony_memory.capture.read_folder`: take git repositories along, each as a bundle.
        exclude: As there: what to leave out, by the rules of gitignore.
        secrets: As there: what to do about likely secrets, ``"stop"``, ``"warn"``, ``"mask"`` or ``"allow"``.
        allow_secrets: As there: findings that may be saved, by their ``id``.
        on_progress: As there: called with the number of files and of bytes read so far, and a name.

    Raises:
        ValueError: The directory is missing, not readable, empty or holds the vault; or an argument is bad.
        ColonyMemoryError: Likely secrets stop it, or as for :meth:`ColonyMemory.backup`.
    """
    options = BackupOptions(
        label=label,
        prune_keep=prune_keep,
        retention=retention,
        on_conflict=on_conflict,
        note=note,
        tags=tags,
        git=git,
        exclude=exclude,
        secrets=secrets,
        allow_secrets=allow_secrets,
    )
    return save_capture(memory, read_for(memory, path, options, on_progress=on_progress), options)


def save_paths(
    memory: ColonyMemory,
    paths: Iterable[str | os.PathLike[str]],
    *,
    label: str = "default",
    prune_keep: int | None = None,
    retention: Retention | None = None,
    on_conflict: Literal["raise", "continue", "merge"] = "raise",
    note: str | None = None,
    tags: str | Iterable[str] = (),
    git: bool = False,
    exclude: str | Iterable[str] = (),
    secrets: SecretsChoice = "warn",
    allow_secrets: str | Iterable[str] = (),
    on_progress: Callable[[int, int, str], None] | None = None,
) -> Saved:
    """Save files and directories as one snapshot, under the names that :func:`colony_memory.capture.read_paths` gives.

    Arguments and errors are those of :func:`save_folder`.
    """
    options = BackupOptions(
        label=label,
        prune_keep=prune_keep,
        retention=retention,
        on_conflict=on_conflict,
        note=note,
        tags=tags,
        git=git,
        exclude=exclude,
        secrets=secrets,
        allow_secrets=allow_secrets,
    )
    return save_capture(memory, read_for(memory, listed_paths(paths), options, on_progress=on_progress), options)


def read_for(
    memory: ColonyMemory,
    what: str | os.PathLike[str] | list[str | os.PathLike[str]],
    options: BackupOptions,
    *,
    dry_run: bool = False,
    on_progress: Callable[[int, int, str], None] | None = None,
) -> Capture:
    """Read what is to be saved in this memory: one directory, or a list of files and directories.

    Raises:
        ValueError: As :func:`save_folder`.
        SecretsFound: Likely secrets stop it.
    """
    require_synchronous(memory)
    refuse_vault_inside(memory, what if isinstance(what, list) else [what])
    read = partial(
        read_paths if isinstance(what, list) else read_folder,
        **options.of_folder,
        max_bytes=memory._session.max_bytes,  # noqa: SLF001
        dry_run=dry_run,
        on_progress=on_progress,
    )
    return read(what)


def save_capture(
    memory: ColonyMemory, capture: Capture, options: BackupOptions, *, reuses_pinned: bool = False
) -> Saved:
    """Save what was read, with a record of what it lacks; ``reuses_pinned`` saves nothing for the note alone, where the
    latest is pinned and holds just this. Errors as :meth:`ColonyMemory.backup`.
    """
    require_synchronous(memory)
    require_type("capture", capture, Capture)
    incomplete = [str(each) for each in capture.left_out]
    if reuses_pinned and _is_pinned(memory, capture, options.label):
        options = replace(options, note=None)
    return Saved(memory.backup(capture.documents, incomplete=incomplete, **options.of_snapshot), capture)


def _is_pinned(memory: ColonyMemory, capture: Capture, label: str) -> bool:
    """Whether the latest snapshot is pinned, and holds just what was read."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColonyMemoryWarning)  # the backup that follows says what is wrong
        try:
            latest = memory.latest(label=label)
            same = latest is not None and digest(capture.documents) == latest.plaintext_sha256
            return same and latest is not None and with_pin(memory, latest).pinned
        except ColonyMemoryError:
            return False


def save_present(
    memory: ColonyMemory,
    directory: str | os.PathLike[str],
    *,
    label: str,
    needed: Iterable[str] = (),
    exclude: str | Iterable[str] = (),
) -> Saved | None:
    """Save what a folder holds, under the label with ``-before-restore`` at its end.

    It has a label of its own so that it never is the latest of the memory that it is not.

    Args:
        memory: Where to.
        directory: The folder.
        label: The label that is going to be restored.
        needed: Names that must be in it, such as those that are going to be replaced.
        exclude: What to leave out, as for :func:`save_folder`.

    Returns:
        What was saved, or None where there is nothing to save: no folder, or an empty one.

    Raises:
        ValueError: The folder cannot be read or holds the vault, or the label is too long for that.
        ColonyMemoryError: A needed file cannot be saved, or there are likely secrets in the folder; as for
            :meth:`colony_memory.ColonyMemory.backup` otherwise.
    """
    folder = Path(directory)
    if not folder.is_dir() or next(folder.iterdir(), None) is None:
        return None
    options = BackupOptions(label=label + BEFORE_RESTORE, exclude=exclude, secrets="stop")
    capture = read_for(memory, folder, options)
    reasons = {entry.name: entry.reason for entry in capture.left_out} | dict.fromkeys(capture.ignored, "is ignored")
    lacking = [name for name in needed if name in reasons]
    if lacking:
        raise ColonyMemoryError(
            f"the folder as it is was not saved: {lacking[0]!r} would be replaced, and is not in it "
            f"({reasons[lacking[0]]}); nothing was written"
        )
    return save_capture(memory, capture, options)


def listed_paths(paths: Iterable[str | os.PathLike[str]]) -> list[str | os.PathLike[str]]:
    """One path, or each of several.

    Raises:
        ValueError: It is neither.
    """
    return [paths] if isinstance(paths, os.PathLike) else several("paths", paths)
