"""Restores of a snapshot into a folder, and safety copies of the folder before them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from colony_memory._boundary import require_text, several, texts
from colony_memory._engine import basis as events
from colony_memory._engine.basis import Basis, with_merged
from colony_memory._engine.restore import restore
from colony_memory._engine.session import warn
from colony_memory._os.paths import is_empty, local_name
from colony_memory._values import Value, replace
from colony_memory.capture._filenames import parents_of, quoted
from colony_memory.capture._metadata import split_documents
from colony_memory.capture._question import FileInUse, Holding
from colony_memory.capture._write import place_documents
from colony_memory.capture.folder import NothingToSave
from colony_memory.capture.index import disprove
from colony_memory.exceptions import ColonyMemoryError, SnapshotCorrupt, message_of
from colony_memory.shell.app.content import narrow, reshape, supplement
from colony_memory.shell.app.open import identify_vault, refuse_vault_inside, require_synchronous
from colony_memory.shell.app.options import BackupOptions
from colony_memory.shell.app.pick import BEFORE_RESTORE, find_at, find_id
from colony_memory.shell.app.save import FolderSave
from colony_memory.shell.app.target import Target

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Collection, Iterable, Mapping
    from datetime import datetime
    from typing import Any

    from colony_memory._engine.load import Loaded
    from colony_memory.capture._write import Written
    from colony_memory.capture.folder import Capture
    from colony_memory.client import ColonyMemory
    from colony_memory.reports import Salvaged
    from colony_memory.shell.app.agents import Host
    from colony_memory.shell.app.content import Filled
    from colony_memory.shell.app.save import Saved
    from colony_memory.snapshot import SnapshotInfo

_KEPT = 10  # safety copies of different content


def _require_saved(capture: Capture, needed: Iterable[str]) -> None:
    reasons = {entry.name: entry.reason for entry in capture.left_out} | dict.fromkeys(capture.ignored, "is ignored")
    for name in needed:
        # A directory, whose name ends with a slash, is left out with everything in it.
        for place in (name, *(f"{parent}/" for parent in parents_of(name))):
            if why := reasons.get(place):
                what = f"{name!r} would be replaced but is not in that save ({why})"
                raise ColonyMemoryError(f"the folder's current state was not saved: {what}; nothing was written")


def _retire(memory: ColonyMemory, label: str) -> None:
    contents: set[str] = set()
    try:
        for info in memory.list_snapshots(label=label):
            content = info.plaintext_sha256 or info.snapshot_id  # a sealed snapshot counts as different from all others
            if not info.pinned and (content in contents or len(contents) >= _KEPT):
                memory.delete_snapshot(label=label, snapshot_id=info.snapshot_id)
            contents.add(content)
    except ColonyMemoryError as error:
        warn(f"older snapshots of label {label!r} were not removed: {message_of(error)}")


class RestoredFolder(Value):
    """The result of a restore into a folder, or the forecast of a ``dry_run``; true unless it would be refused."""

    info: SnapshotInfo  #: The snapshot that was restored.
    written: Written  #: What was or would be written, name by name, and with ``dry_run`` what would stop it.
    before: Saved | None = None  #: The safety copy of the folder, None if none was made.
    filled: tuple[Filled, ...] = ()  #: Sets of files that the snapshot lacks and another one has.
    salvaged: Salvaged | None = None  #: The source of each document, for a salvage.

    def __bool__(self) -> bool:
        return not self.written.unsaved and not self.written.in_use


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
    merge: bool = False,
    dry_run: bool = False,
    fallback: bool = False,
    salvage: bool = False,
    fill: bool = True,
    exclude: str | Iterable[str] = (),
    allow_secrets: str | Iterable[str] = (),
    host: Host | None = None,
    on_progress: Callable[[int, int, str], None] | None = None,
) -> RestoredFolder:
    """Write a snapshot's files into a folder, all or none, and never over unsaved files unless asked to.

    A file is replaced, or with ``delete`` removed, only if its text is saved: in this snapshot (or at least every line
    of it that changed since the folder's basis), in the folder's basis, in the snapshot restored last, in the latest,
    or in a refused save of this folder. The folder's new basis is kept for the next backup. In a coroutine:
    ``await asyncio.to_thread(restore_folder, memory, directory)``.

    Args:
        memory: The memory to restore from.
        directory: The folder; it is created if it is missing.
        label: Label to restore from.
        snapshot: An id, the beginning of one, ``latest``, or ``latest~2``; by default the latest.
        at: Instead of that, a time: the newest one by then. As text ``2026-11-01T12:00``, a day alone, or ``3h ago``.
        only: Globs: only files whose path matches one; ``*`` matches ``/`` too.
        force: Replace text that is not saved anywhere, files that a program has open, and real text by masked text.
        delete: Also remove files that the snapshot does not have.
        snapshot_first: Save the folder first, under the label with the suffix ``-before-restore``.
        merge: Join the snapshot with the folder's content, by file and then by line. Where both changed the same
            lines, the snapshot's text is kept in a file next to the folder's.
        dry_run: Change nothing, and report what would be done and what would stop it.
        fallback: If the snapshot is damaged, restore the newest intact one.
        salvage: If it is damaged, take the newest proven text of each document, as :meth:`ColonyMemory.salvage` does;
            ``salvaged`` says from when.
        fill: Take files that the snapshot lacks from the newest older one that has them: each directory or store whole
            from one snapshot, and never over files that only the folder has.
        exclude: With ``snapshot_first``, files to leave out of that save, as for :func:`save_folder`. Refused with
            ``delete``, which would remove files that no backup saves.
        allow_secrets: With ``snapshot_first``, likely secrets to save, besides those allowed in the folder's last save.
        host: The host of agents that the folder belongs to: only its memory is written.
        on_progress: Called as ``on_progress(done, total, name)`` for every file that is ready.

    Raises:
        ValueError: No snapshot is named so, or several are; nothing matches ``only``; or the folder holds the vault and
            would be saved first, or emptied around it.
        SnapshotNotFound: There is no such snapshot.
        ColonyMemoryError: Something stops it: unsaved text, a file in use, another restore or backup of the folder. The
            folder is as it was. And as for :meth:`ColonyMemory.restore` and
            :func:`colony_memory.capture.write_folder`.
    """
    require_synchronous(memory)
    globs = tuple(texts("only", only))
    excluded = several("exclude", exclude)
    left_out = host is not None or bool(excluded)
    for is_wrong, why in (
        (snapshot is not None and at is not None, "snapshot and at each name a snapshot: give one of them"),
        (delete and globs, "delete would remove everything that only does not select: give one of them"),
        (delete and left_out, "delete would remove what a backup of this folder leaves out"),
        (merge and (delete or globs or snapshot_first), "merge joins two whole memories: give it alone"),
        (salvage and (delete or merge), "a salvage combines several snapshots: give it alone"),
    ):
        if is_wrong:
            raise ValueError(why)
    if delete or snapshot_first:
        refuse_vault_inside(memory, [directory])
    if at is not None:
        snapshot = find_at(memory, at, label=label).snapshot_id
    with Target(memory, directory, label=label, dry_run=dry_run, host=host) as target:
        salvaged, snapshot_id = None, _id_of(memory, snapshot, label=label)
        if salvage:  # instead of a fallback
            loaded, salvaged = target.salvage(snapshot_id)
        else:
            loaded = target.read(snapshot_id, fallback=fallback)
        source = loaded.documents if salvaged is None else salvaged.documents
        documents, filled = wanted_documents(target, loaded, source, fill=fill, globs=globs)
        basis = None if globs else target.based_on(loaded)
        if merge:
            documents = target.merge(loaded, documents)
            # The folder then has all of the latest; another snapshot is only noted for the next save.
            basis = basis if loaded.is_latest else with_merged(target.basis, loaded.info.snapshot_id)
        deleted = delete or (() if globs else target.displaced)
        more = {"exclude": excluded, "allow_secrets": several("allow_secrets", allow_secrets)}
        writing = Writing(target, loaded, documents, delete=deleted, force=force, more=more, on_progress=on_progress)
        if globs:
            filled = tuple(entry for entry in filled if entry.is_of(documents))
        if dry_run:
            plan = writing.plan_after_save() if snapshot_first else writing.plan()
            return RestoredFolder(loaded.info, plan, filled=filled, salvaged=salvaged)
        before = writing.save_first() if snapshot_first else None
        written = writing.write(basis)
    return RestoredFolder(loaded.info, written, before, filled, salvaged)


def wanted_documents(
    target: Target, loaded: Loaded, documents: dict[str, str], *, fill: bool, globs: tuple[str, ...] = ()
) -> tuple[dict[str, str], tuple[Filled, ...]]:
    """The documents to write, with missing sets filled in from other snapshots, and the sets concerned."""
    filled: tuple[Filled, ...] = ()
    if fill:
        documents, filled = supplement(target, loaded, documents)
    documents = narrow(documents, globs) if globs else documents
    return (documents if target.host is None else target.host.memory_of(documents)), filled


class Writing:
    def __init__(
        self,
        target: Target,
        loaded: Loaded,
        documents: dict[str, str],
        *,
        delete: bool | Collection[str] = False,
        force: bool = False,
        more: Mapping[str, Any] = MappingProxyType({}),
        on_progress: Callable[[int, int, str], None] | None = None,
    ) -> None:
        self._target = target
        self._question = target.question(loaded)
        documents = _without_linked(target, documents)
        self._place = partial(place_documents, documents, target.directory, force=force, delete=delete)
        self._on_progress = on_progress
        label = target.label.removesuffix(BEFORE_RESTORE) + BEFORE_RESTORE
        usual = BackupOptions.of_known(target.usual, label=label, on_conflict="continue")
        joined: dict[str, Any] = {name: (*getattr(usual, name), *added) for name, added in more.items()}
        self._saving = replace(usual, **joined)

    def plan(self) -> Written:
        return self._place(dry_run=True, question=self._question)

    def plan_after_save(self) -> Written:
        """The plan as it would be after :meth:`save_first`."""
        target, question = self._target, self._question
        documents = {} if is_empty(target.directory) else target.present(self._saving)
        saved = Holding("", lambda: documents, fresh=True)
        return self._place(dry_run=True, question=replace(question, others=(*question.others, saved)))

    def save_first(self, plan: Written | None = None) -> Saved | None:
        """Save the folder under the label with the suffix ``-before-restore``, so that it never becomes the latest of
        the memory itself. The newest ten of different content are kept there, and pinned ones.
        """
        target, plan = self._target, self.plan() if plan is None else plan
        if plan.in_use:
            raise FileInUse(Path(target.directory), {name: plan.why[name] for name in plan.in_use})
        if is_empty(target.directory):
            return None
        memory, label = target.memory, self._saving.label
        # Safety copies form a line of their own: each is based on the one before.
        home, latest = memory._session.home(label), memory.latest(label=label)
        home.write(events.restored(Basis(), latest.snapshot_id) if latest is not None else Basis())
        with FolderSave(memory, target.directory, self._saving, noted=False) as saving:
            try:
                capture = saving.read()
            except NothingToSave as error:
                if plan.unsaved:
                    why = f"the folder's current state was not saved: {error}; nothing was written"
                    raise ColonyMemoryError(why) from error
                return None
            _require_saved(capture, plan.unsaved)
            before = saving.save(capture)
        _retire(memory, label)
        saved = Holding(before.info.snapshot_id, lambda: before.capture.documents, fresh=True)
        self._question = replace(self._question, others=(saved, *self._question.others))
        return before

    def write(self, basis: Basis | None) -> Written:
        """Put the documents in place, and keep the folder's new basis; None leaves the basis as it is."""
        note = None if basis is None else self._target.index.note_of(basis)
        written = self._place(question=self._question, note=note, on_progress=self._on_progress)
        if basis is not None:
            self._target.keep(basis)
        return written


def _without_linked(target: Target, documents: dict[str, str]) -> dict[str, str]:
    """Documents less those that this host reaches through links and already has unchanged: links are not followed."""
    if not target.usual.get("agent"):
        return documents
    contents, metadata = split_documents(documents)
    names = {path for name in contents for path in (*parents_of(name), name)} - metadata.links.keys()
    links = {path for path in names if Path(target.directory, local_name(path)).is_symlink()}

    def is_linked(name: str) -> bool:
        return not links.isdisjoint((name, *parents_of(name)))

    current = split_documents(target.present())[0] if links else {}
    differing = sorted(name for name, content in contents.items() if is_linked(name) and current.get(name) != content)
    if differing:
        raise ColonyMemoryError(
            f"nothing is written through links, and what {quoted(sorted(links))} in {str(target.directory)!r} leads to "
            f"differs from what was saved: {quoted(differing)}; nothing was written; restore into another directory, "
            "or remove the link"
        )
    return reshape(documents, lambda name: not is_linked(name)) if links else documents


def fetch(memory: ColonyMemory, *, label: str = "default", snapshot: str | None = None) -> Loaded:
    """Read a snapshot, by default the latest, just to look at it."""
    try:
        return memory._run(restore, label=label, snapshot_id=_id_of(memory, snapshot, label=label))
    except SnapshotCorrupt:
        disprove(identify_vault(memory), label)
        raise


def _id_of(memory: ColonyMemory, snapshot: str | None, *, label: str) -> str | None:
    if snapshot is not None:
        require_text("snapshot", snapshot)
    return None if snapshot in (None, "latest") else find_id(memory, str(snapshot), label=label)
