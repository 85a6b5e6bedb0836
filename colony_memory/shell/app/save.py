"""Saves of folders and files into a vault, in one step or in two: read, then save."""

from __future__ import annotations

import contextlib
import copy
import os
import warnings
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from colony_memory._boundary import require_type, several
from colony_memory._engine.backup.job import Unread
from colony_memory._format.names import manifest_filename
from colony_memory._format.payload import tree_of
from colony_memory._format.record import ATTRIBUTES_NAME
from colony_memory._os.machine import origin_of
from colony_memory._os.paths import real_path
from colony_memory._values import Value, replace
from colony_memory.capture._identity import unmoved
from colony_memory.capture._metadata import Contents, at_known_times
from colony_memory.capture.folder import Capture, end_unfinished, find_sources, read_by_index, require_directory
from colony_memory.capture.index import FolderIndex, open_index
from colony_memory.exceptions import ColonyMemoryError, ColonyMemoryWarning, ConflictDetected, VaultError
from colony_memory.shell.app.open import identify_vault, refuse_vault_inside, require_synchronous
from colony_memory.shell.app.options import BackupOptions, run_before
from colony_memory.snapshot import SnapshotInfo, digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from typing_extensions import Self

    from colony_memory._engine.basis import BasisHome
    from colony_memory.capture.folder import LeftOut, SecretsChoice
    from colony_memory.client import ColonyMemory
    from colony_memory.retention import Retention


class Saved(Value):
    """A save of folders and files; true if nothing had to be left out."""

    info: SnapshotInfo  #: The snapshot, with ``reused`` if nothing had changed.
    capture: Capture  #: The files as they were read.

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """Files on disk that should be in the snapshot but are not, each with the reason."""
        return self.capture.left_out

    @property
    def contents(self) -> Contents | None:
        """The contents of the snapshot, None if it was merged with another's and has more than was read."""
        names, documents = self.info.doc_names, self.capture.documents
        if not documents:
            return self.capture.contents if self.info.reused or not self.info.diverged_from else None
        # Format 2 names no documents.
        as_read = len(documents) == len(names) or not (names or self.info.diverged_from)
        return self.capture.contents if as_read else None

    @property
    def size(self) -> int:
        """Bytes of the files in it; if it has more than was read, the byte size of the snapshot."""
        return self.info.byte_size if self.contents is None else self.capture.size

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
    exclude: str | Iterable[str] = (),
    secrets: SecretsChoice = "warn",
    allow_secrets: str | Iterable[str] = (),
    before: str | None = None,
    on_progress: Callable[[int, int, str], None] | None = None,
    index: bool = True,
) -> Saved:
    """Save every file under a directory as a new snapshot, byte for byte.

    If nothing has changed, nothing is written; unchanged files are not opened. With an index, ``capture.documents`` is
    empty, and ``capture.read()`` returns the documents. Files that could not be read are in ``left_out`` of the result
    and in the snapshot's own record. In a coroutine: ``await asyncio.to_thread(save_folder, memory, path)``.

    >>> import pathlib, tempfile
    >>> from colony_memory import ColonyMemory, open_vault, save_folder
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> (folder / "MEMORY.md").write_text("two years of notes")
    18
    >>> saved = save_folder(ColonyMemory(backend=open_vault("memory:")), folder)
    >>> bool(saved), saved.contents.files
    (True, ('MEMORY.md',))

    Args:
        memory: The memory to save to.
        path: The directory. It must not contain the vault.
        label: Label to save under.
        prune_keep: As for :meth:`ColonyMemory.backup`.
        retention: As for :meth:`ColonyMemory.backup`.
        on_conflict: As for :meth:`ColonyMemory.backup`.
        note: As for :meth:`ColonyMemory.backup`.
        tags: As for :meth:`ColonyMemory.backup`.
        exclude: As for :func:`colony_memory.capture.read_folder`: gitignore rules of what to leave out.
        secrets: As there: what to do about likely secrets, ``"stop"``, ``"warn"``, ``"mask"`` or ``"allow"``.
        allow_secrets: As there: findings that may be saved, by their ``id``.
        before: A command to run first, in the directory, split as a shell would but run without one: for a database
            that has to export a copy of itself. If it fails, nothing is saved.
        on_progress: As there: called with the number of files and of bytes read so far, and a name.
        index: Read only files that changed since the last save, by the index kept of the directory. If false, every
            file is read.

    Raises:
        ValueError: The directory is missing, not readable, empty or holds the vault; or an argument is bad.
        ColonyMemoryError: Likely secrets stop it, or ``before`` failed; or as for :meth:`ColonyMemory.backup`.
    """
    with FolderSave(memory, path, BackupOptions.among(locals()), index=index) as saving:
        return saving.save(saving.read(on_progress=on_progress))


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
    exclude: str | Iterable[str] = (),
    secrets: SecretsChoice = "warn",
    allow_secrets: str | Iterable[str] = (),
    before: str | None = None,
    on_progress: Callable[[int, int, str], None] | None = None,
    index: bool = True,
) -> Saved:
    """Save files and directories as one snapshot, named as by :func:`colony_memory.capture.read_paths`.

    Arguments and errors are those of :func:`save_folder`.
    """
    with FolderSave(memory, listed_paths(paths), BackupOptions.among(locals()), index=index) as saving:
        return saving.save(saving.read(on_progress=on_progress))


class FolderSave:
    """One backup of folders and files, from the first look to the end: a context manager that locks their index."""

    def __init__(
        self,
        memory: ColonyMemory,
        what: str | os.PathLike[str] | list[str | os.PathLike[str]],
        options: BackupOptions,
        *,
        index: bool = True,
        noted: bool = True,
        patience: float = 30.0,
        unattended: bool = False,
    ) -> None:
        require_synchronous(memory)
        self._paths = what if isinstance(what, list) else [what]
        refuse_vault_inside(memory, self._paths)
        self._memory, self._what, self._options = memory, what, options.cleared()
        self._patience, self._unattended = patience, unattended
        self.index, self._anew = FolderIndex(problem=None if noted else ""), not index
        self._places = {os.fspath(path): real_path(path) for path in self._paths} if unattended else {}
        self._stack = contextlib.ExitStack()
        self._is_open = not noted
        self._capture: Capture | None = None

    def __enter__(self) -> Self:
        end_unfinished(find_sources(self._what) if isinstance(self._what, list) else [require_directory(self._what)])
        with contextlib.suppress(VaultError):  # the save itself reports it, or repairs it by creating the vault
            self._open()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def read(self, *, on_progress: Callable[[int, int, str], None] | None = None) -> Capture:
        """Run the command that goes before, then read the files; those unchanged since the last save are skipped."""
        with unmoved(self._places):
            if self._options.before is not None:
                (first, *_) = find_sources(self._paths[:1])
                run_before(self._options.before, first.path if first.is_directory else first.path.parent)
            return read_by_index(
                self._what,
                self.index if self.index.problem is None else None,
                anew=self._anew,
                **self._options.of_reading,
                max_bytes=self._memory._session.max_bytes,
                attributes=True,
                on_progress=on_progress,
            )

    def save(self, capture: Capture, *, reuses_pinned: bool = False) -> Saved:
        """Save what was read, with a record of what was left out. With ``reuses_pinned`` a new note alone makes no new
        snapshot if the latest is pinned and has the same content. Errors as :meth:`ColonyMemory.backup`.
        """
        from colony_memory._engine.backup import backup

        self._open()
        self._capture = capture = self._as_known(require_type("capture", capture, Capture))
        survey = capture.survey
        options = self._options
        unread = None if survey is None or capture.documents else survey
        if reuses_pinned and self._is_pinned(capture):
            options = replace(options, note=None)
        try:
            info = self._memory._run(
                backup,
                Unread(unread.tree, self._read_rest, unread.digests, unread.fresh) if unread else capture.documents,
                incomplete=[str(entry) for entry in capture.left_out],
                tree="" if survey is None else survey.tree,
                **options.of_snapshot,
            )
        except ConflictDetected:
            self._note(None)
            raise
        self._note(info)
        return Saved(info, self._capture)

    def _as_known(self, capture: Capture) -> Capture:
        """A capture made without an index, with the times that this client saved if nothing else has changed."""
        session, label = self._memory._session, self._options.label
        now = capture.documents.get(ATTRIBUTES_NAME)
        if self.index.problem is None or now is None:
            return capture
        bare = {name: text for name, text in capture.documents.items() if name != ATTRIBUTES_NAME}
        for variant in (bare, {**bare, ATTRIBUTES_NAME: at_known_times(now, session.attributes.get(label, ""))}):
            if tree_of(variant) == session.home(label).read().tree:
                return replace(capture, documents=variant)
        session.attributes[label] = now
        return capture

    def _read_rest(self) -> tuple[dict[str, str], list[str]]:
        assert self._capture is not None  # noqa: S101 - it was set before anybody could ask
        self._capture = self._capture.read()
        return self._capture.documents, [str(entry) for entry in self._capture.left_out]

    def _is_pinned(self, capture: Capture) -> bool:
        with warnings.catch_warnings(), contextlib.suppress(ColonyMemoryError):
            warnings.simplefilter("ignore", ColonyMemoryWarning)  # the backup that follows reports problems
            infos = self._memory.list_snapshots(label=self._options.label)
            latest = next((info for info in infos if info.head and info.pinned), None)
            if latest is not None and capture.documents:
                return digest(capture.documents) == latest.plaintext_sha256
            return latest is not None and self.index.read().snapshot_id == latest.snapshot_id
        return False

    def _open(self) -> None:
        """Lock the index, and have the client keep the memory's basis there."""
        if self._is_open:
            return
        vault, label, session = identify_vault(self._memory), self._options.label, self._memory._session
        self._is_open = True
        paths, patience = self._paths, self._patience
        opened = open_index(paths, vault=vault, label=label, patience=patience, unattended=self._unattended)
        self.index = self._stack.enter_context(opened)
        client_home = session.home(label)
        if self.index.problem is not None:
            self._memory = with_home(self._memory, label, client_home)
            # Without an index too, each folder is a writer of its own.
            origin = origin_of(label, *sorted(str(real_path(path)) for path in self._paths))
            self._memory._session.origins = {label: origin}
            return
        if client_home.read() and not self.index.read():
            self.index.write(client_home.read())  # from what this very client restored or saved by value
        self._memory = with_home(self._memory, label, self.index)
        if self.index.proven is not None and not self._anew:
            snapshot_id, when = self.index.proven
            with contextlib.suppress(ValueError):
                session.good.setdefault(manifest_filename(label, snapshot_id), datetime.fromisoformat(when))

    def _note(self, info: SnapshotInfo | None) -> None:
        """Record in the index the state of every file, and whatever else spares the next run work."""
        survey = None if self._capture is None else self._capture.survey
        if survey is None or self.index.problem is not None:
            return
        survey.note(self.index)
        if info is not None:
            good = self._memory._session.good.get(manifest_filename(info.label, info.snapshot_id))
            proven = None if good is None else (info.snapshot_id, good.isoformat())
            self.index.update(options=self._options.of_folder, proven=proven)


def with_home(memory: ColonyMemory, label: str, home: BasisHome) -> ColonyMemory:
    """A view of a client that keeps the basis of a label in this home: another thread of the client may save or restore
    another folder under the same label meanwhile.
    """
    view = copy.copy(memory)
    view._session = copy.copy(memory._session)
    view._session.homes = {label: home}
    return view


def read_for(
    memory: ColonyMemory,
    what: str | os.PathLike[str] | list[str | os.PathLike[str]],
    options: BackupOptions,
    *,
    on_progress: Callable[[int, int, str], None] | None = None,
) -> Capture:
    """Read what a save of one directory, or of a list of files and directories, would save; changes nothing."""
    require_synchronous(memory)
    refuse_vault_inside(memory, what if isinstance(what, list) else [what])
    options.cleared()
    return read_by_index(
        what,
        **options.of_reading,
        max_bytes=memory._session.max_bytes,
        attributes=True,
        dry_run=True,
        on_progress=on_progress,
    )


def listed_paths(paths: Iterable[str | os.PathLike[str]]) -> list[str | os.PathLike[str]]:
    return [paths] if isinstance(paths, os.PathLike) else several("paths", paths)
