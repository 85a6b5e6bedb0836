"""Preparations for running a program: the saved memory restored, or a snapshot to go back to."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colony_memory._engine.basis import Basis, settled
from colony_memory._engine.state import require_sound
from colony_memory._format.lineage import descends
from colony_memory._os.paths import is_empty
from colony_memory._values import Record, Value, field, replace
from colony_memory.capture._moves import FolderChanged
from colony_memory.capture._question import Unsaved
from colony_memory.capture._recover import Unsettled
from colony_memory.exceptions import ColonyMemoryError, SnapshotNotFound, VaultError, message_of
from colony_memory.shell.app.content import names_in
from colony_memory.shell.app.open import refuse_vault_inside
from colony_memory.shell.app.options import BackupOptions
from colony_memory.shell.app.restore import RestoredFolder, Writing, restore_folder, wanted_documents
from colony_memory.shell.app.save import FolderSave
from colony_memory.shell.app.target import Target, has_all_lines, same_files

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    from colony_memory._engine.load import Loaded
    from colony_memory.client import ColonyMemory
    from colony_memory.shell.app.agents import Host
    from colony_memory.shell.app.content import Filled
    from colony_memory.shell.app.save import Saved
    from colony_memory.snapshot import SnapshotInfo

# Attempts to restore into a folder that changes between the check and the write.
_TRIES = 3
# Number of left-out names in a message, and how long the way back is kept.
_NAMED, _LASTS = 3, timedelta(days=30)


class Begun(Value):
    restored: RestoredFolder | None = None  # the restore; None if nothing was written, as on a first start
    latest: str | None = None  # id of the snapshot that a restore would return, None on a first start
    messages: tuple[str, ...] = ()  # notices for whoever starts the program: what was merged, replaced, or left
    missing: str = ""  # the message for a first start, with the labels that exist
    failed: str | None = None  # why the folder is not as it should be, None if it is


def begin(
    memory: ColonyMemory,
    directory: str | os.PathLike[str],
    *,
    label: str = "default",
    fallback: bool = False,
    fill: bool = True,
    dry_run: bool = False,
    options: BackupOptions | None = None,
    host: Host | None = None,
    on_progress: Callable[[int, int, str], None] | None = None,
) -> Begun:
    """Bring a folder to the latest snapshot, by the table in ``docs/running.md``; if it is proven that none was ever
    saved, only create the folder. Raises if the vault is unreachable, damaged or not trusted, or the memory cannot be
    put into an empty folder, so that no agent starts without one by mistake.
    """
    refuse_vault_inside(memory, [directory])
    try:
        with Target(
            memory, directory, label=label, dry_run=dry_run, host=host, options=options, unattended=True
        ) as target:
            return _Start(target, fallback, fill, dry_run, on_progress).begin()
    except Unsettled as error:
        if is_empty(directory):
            raise
        latest = memory.latest(label=label)
        return Begun(latest="" if latest is None else latest.snapshot_id, failed=message_of(error))


class _Start(Record):
    target: Target
    fallback: bool
    fill: bool
    dry_run: bool
    on_progress: Callable[[int, int, str], None] | None
    filled: tuple[Filled, ...] = ()

    def begin(self) -> Begun:
        target = self.target
        state = target.look()
        if not self.fallback:
            require_sound(state)
        latest = state.follow
        if latest is None:
            require_sound(state)
            return self._first()
        basis = settled(target.basis, latest, listed=state.shown)
        if basis and not target.has_any_of(basis):
            basis = Basis(origin=basis.origin)
        if basis and latest in basis.own:
            return Begun(latest=latest)
        if basis and not basis.not_held and not state.lists(basis.snapshot_id) and latest in basis.listed:
            note = f"what it is based on was deleted, and the latest {latest} is older"
            return Begun(latest=latest, messages=(note,))
        loaded = target.read(None, fallback=self.fallback)
        present = target.present() if Path(target.directory).is_dir() else {}
        damaged = () if loaded.info.snapshot_id == latest else (f"the latest snapshot {latest} is damaged",)
        known = basis and not basis.not_held
        begun = self._with_basis(loaded, basis, present) if known else self._without_basis(loaded, present)
        return replace(begun, latest=latest, messages=(*damaged, *begun.messages))

    def _first(self) -> Begun:
        if not self.dry_run:
            try:
                Path(self.target.directory).mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise ValueError(f"{str(self.target.directory)!r}: {error.strerror}") from error
        try:
            self.target.read(None)
        except SnapshotNotFound as error:
            return Begun(missing=error.message)
        raise VaultError(f"label {self.target.label!r} changes too fast to be read, try again")

    def _with_basis(self, loaded: Loaded, basis: Basis, present: dict[str, str]) -> Begun:
        target, theirs = self.target, loaded.info.snapshot_id
        state = target.look(everything=True)
        infos, unmerged = state.summaries, state.unmerged
        own = str(basis.snapshot_id)
        if theirs in basis.own or (theirs != state.follow and descends(infos, unmerged, own, theirs)):
            return Begun(messages=(f"{target.directory} is ahead of snapshot {theirs}, and stays",))
        before = target.base_documents(own)
        documents = self._documents(loaded)
        if before and not basis.reverted and same_files(present, before) and descends(infos, unmerged, theirs, own):
            gone = names_in(before) - names_in(documents)
            return self._write(loaded, documents, delete=gone)
        merged = target.merge(loaded, documents, present=present)
        if same_files(merged, present):
            return self._adopt(loaded)
        return self._write(loaded, merged, notes=(f"{target.directory} and snapshot {theirs} are merged",))

    def _without_basis(self, loaded: Loaded, present: dict[str, str]) -> Begun:
        documents = self._documents(loaded)
        if has_all_lines(documents, present):
            return self._write(loaded, documents)
        if has_all_lines(present, documents):
            return self._adopt(loaded, note=f"{self.target.directory} has all that is saved and more, and stays")
        return self._write(loaded, documents, first=True)

    def _documents(self, loaded: Loaded) -> dict[str, str]:
        documents, self.filled = wanted_documents(self.target, loaded, loaded.documents, fill=self.fill)
        return documents

    def _adopt(self, loaded: Loaded, note: str | None = None) -> Begun:
        """Leave the folder as it is, and make the latest its basis."""
        if not self.dry_run:
            self.target.keep(self.target.based_on(loaded))
        return Begun(messages=(note,) if note else ())

    def _write(
        self,
        loaded: Loaded,
        documents: dict[str, str],
        *,
        delete: frozenset[str] = frozenset(),
        notes: tuple[str, ...] = (),
        first: bool = False,
    ) -> Begun:
        """Put documents in place after saving unsaved files that would go, or with ``first`` the whole folder."""
        target, filled = self.target, self.filled
        notes = (*notes, *(str(entry) for entry in filled))
        before: Saved | None = None
        try:
            writing = Writing(target, loaded, documents, delete=delete | target.displaced, on_progress=self.on_progress)
            tries = 0
            while True:
                tries += 1
                plan = writing.plan()
                saves = plan.in_use or plan.unsaved or (first and before is None and (plan.replaced or plan.removed))
                if self.dry_run:
                    plan = writing.plan_after_save() if saves else plan
                    return Begun(RestoredFolder(loaded.info, plan, filled=filled), messages=notes)
                if saves:
                    before = writing.save_first(plan) or before
                try:
                    written = writing.write(target.based_on(loaded))
                except (Unsaved, FolderChanged):
                    if tries < _TRIES:
                        continue  # the folder was written to between the check and the write
                    raise
                if before is not None:
                    notes += (f"what was here is saved as {before.info.snapshot_id} of label {before.info.label}",)
                return Begun(RestoredFolder(loaded.info, written, before, filled), messages=notes)
        except (ColonyMemoryError, ValueError) as error:
            if is_empty(target.directory):
                raise
            return Begun(messages=notes, failed=message_of(error))


class Guarded(Value):
    """A folder's earlier state."""

    info: SnapshotInfo  #: The pinned snapshot of it.
    directory: str | os.PathLike[str]  #: The folder.
    _memory: ColonyMemory = field(repr=False)

    def restore(self, *, delete: bool = False) -> RestoredFolder:
        """Bring the folder back: replace files changed since, and with ``delete`` remove new ones."""
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
    """Save a folder before a block that may spoil it, and keep the snapshot for 30 days whatever a retention says. If
    the folder is unchanged and the latest is already pinned, that is the snapshot.

    The block is not entered unless all of the folder is saved. However the block ends, nothing is restored by itself.

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
        memory: The memory to save to.
        directory: The folder. It must not contain the vault.
        label: Label to save under.
        note: A remark on the snapshot.
        on_progress: As for :func:`save_folder`, and so are
        options: ``exclude``, ``secrets`` and so on.

    Raises:
        ValueError: As :func:`save_folder`.
        ColonyMemoryError: As :func:`save_folder` and :meth:`ColonyMemory.pin`; or something had to be left out.
    """
    chosen = BackupOptions(label=label, note=note, **{"secrets": "warn", **options})
    with FolderSave(memory, directory, chosen, unattended=True) as saving:
        saved = saving.save(saving.read(on_progress=on_progress), reuses_pinned=True)
    yield Guarded(keep_for_way_back(memory, saved), directory, memory)


def keep_for_way_back(memory: ColonyMemory, saved: Saved) -> SnapshotInfo:
    """Pin a save for 30 days from now, unless it is pinned for longer, and return its snapshot."""
    from colony_memory._engine.prune import pin

    if not saved:
        named = "; ".join(map(str, saved.left_out[:_NAMED]))
        more = f" and {len(saved.left_out) - _NAMED} more" if len(saved.left_out) > _NAMED else ""
        raise ColonyMemoryError(
            f"there would be no way back for what had to be left out of the snapshot, {named}{more}: "
            "exclude what does not matter"
        )
    info = saved.info
    memory._run(pin, label=info.label, snapshot_id=info.snapshot_id, lasts=_LASTS)
    return info
