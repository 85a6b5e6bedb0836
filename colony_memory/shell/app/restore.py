"""A snapshot into a folder, and what the folder holds saved before that."""

from __future__ import annotations

from functools import partial
from pathlib import Path
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
from colony_memory.shell.app.content import narrow, reshape, take_lacking
from colony_memory.shell.app.open import identify_vault, refuse_vault_inside, require_synchronous
from colony_memory.shell.app.options import BackupOptions
from colony_memory.shell.app.pick import BEFORE_RESTORE, find_at, find_id
from colony_memory.shell.app.save import FolderSave
from colony_memory.shell.app.target import Target

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Collection, Iterable
    from datetime import datetime

    from colony_memory._engine.load import Loaded
    from colony_memory.capture._write import Written
    from colony_memory.capture.folder import Capture
    from colony_memory.client import ColonyMemory
    from colony_memory.reports import Salvaged
    from colony_memory.shell.app.agents import Host
    from colony_memory.shell.app.content import Filled
    from colony_memory.shell.app.save import Saved
    from colony_memory.snapshot import SnapshotInfo

_KEPT = 10  # of different content


def _require_saved(capture: Capture, needed: Iterable[str]) -> None:
    reasons = {entry.name: entry.reason for entry in capture.left_out} | dict.fromkeys(capture.ignored, "is ignored")
    for name in needed:
        # A directory, which ends with a slash, is left out with all that is in it.
        for each in (name, *(f"{above}/" for above in parents_of(name))):
            if why := reasons.get(each):
                what = f"{name!r} would be replaced, and is not in it ({why})"
                raise ColonyMemoryError(f"the folder as it is was not saved: {what}; nothing was written")


def _retire(memory: ColonyMemory, label: str) -> None:
    contents: set[str] = set()
    try:
        for info in memory.list_snapshots(label=label):
            content = info.plaintext_sha256 or info.snapshot_id  # of what nobody can open, each is its own
            if not info.pinned and (content in contents or len(contents) >= _KEPT):
                memory.delete_snapshot(label=label, snapshot_id=info.snapshot_id)
            contents.add(content)
    except ColonyMemoryError as error:
        warn(f"older snapshots of label {label!r} were not removed: {message_of(error)}")


class RestoredFolder(Value):
    """The result of a restore into a folder, or with ``dry_run`` would do; true unless it would be refused."""

    info: SnapshotInfo  #: The snapshot that it was.
    written: Written  #: What was or would be written, name by name, and with ``dry_run`` what would stop it.
    before: Saved | None = None  #: What was saved first of what the folder held, None where nothing was.
    filled: tuple[Filled, ...] = ()  #: What the snapshot lacks and another one has, set by set.
    salvaged: Salvaged | None = None  #: What each document is from, where that was asked.

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
    """Write a snapshot's files into a folder, all or none, and never unasked over what is saved nowhere.

    A file is replaced, or with ``delete`` taken away, only where its text is saved: in this snapshot (or its lines are,
    all that changed since what the folder is based on), in what the folder is based on, in what was restored last, in
    the latest, or in a save of this folder that was refused. What the folder is based on from then on is kept for the
    next backup. In a coroutine: ``await asyncio.to_thread(restore_folder, memory, directory)``.

    Args:
        memory: Where from.
        directory: The folder; it is made if it is missing.
        label: Label to restore from.
        snapshot: Which one: an id, the beginning of one, ``latest``, or ``latest~2``; by default the latest.
        at: In place of that, a time: the newest that is not after it. As text ``2026-11-01T12:00``, a day, ``3h ago``.
        only: Globs: only files whose path matches one; ``*`` matches ``/`` too.
        force: Replace what is saved nowhere, files that a program has open, and real text by masked text.
        delete: Also remove files that the snapshot does not have.
        snapshot_first: First save what the folder holds, under the label with ``-before-restore`` at its end.
        merge: Join the snapshot with what the folder holds, by file and then by line. Where both changed the same
            lines, the snapshot's text is put beside that of the folder.
        dry_run: Change nothing, and tell what would be done and what would stop it.
        fallback: Where the snapshot is damaged, take the newest intact one.
        salvage: Where it is damaged, take of each document the newest text that is proven, as
            :meth:`ColonyMemory.salvage` does; ``salvaged`` tells from when.
        fill: Take what the snapshot lacks from the newest older one that has it: each directory or store whole from
            one, and not over what the folder alone holds of it.
        exclude: With ``snapshot_first``, what to leave out of what is saved, as :func:`save_folder` does. With
            ``delete`` it is refused: what no backup saves would be removed.
        allow_secrets: With ``snapshot_first``, likely secrets that are saved, besides those that the last save of the
            folder allowed.
        host: The host of agents whose folder it is: its memory alone is written.
        on_progress: Called as ``on_progress(done, total, name)`` for every file that is ready.

    Raises:
        ValueError: No snapshot is named so, or several are; nothing matches ``only``; or the folder holds the vault and
            would be saved first, or emptied around it.
        SnapshotNotFound: There is no such snapshot.
        ColonyMemoryError: Something stops it: text that is saved nowhere, a file in use, another restore or backup of
            the folder. The folder is as it was. And as for :meth:`ColonyMemory.restore` and
            :func:`colony_memory.capture.write_folder`.
    """
    require_synchronous(memory)
    globs = tuple(texts("only", only))
    left_out = host is not None or bool(several("exclude", exclude))
    for is_wrong, why in (
        (snapshot is not None and at is not None, "snapshot and at each name a snapshot: give one of them"),
        (delete and globs, "delete would remove all that only does not choose: give one of them"),
        (delete and left_out, "delete would remove what a backup of this folder leaves out"),
        (merge and (delete or globs or snapshot_first), "merge joins all of two memories: give it alone"),
        (salvage and (delete or merge), "what is salvaged is of several snapshots: give it alone"),
    ):
        if is_wrong:
            raise ValueError(why)
    if delete or snapshot_first:
        refuse_vault_inside(memory, [directory])
    if at is not None:
        snapshot = find_at(memory, at, label=label).snapshot_id
    with Target(memory, directory, label=label, looking=dry_run, host=host) as target:
        salvaged, named = None, _id_of(memory, snapshot, label=label)
        if salvage:  # which takes the place of a fallback
            found, salvaged = target.salvage(named)
        else:
            found = target.read(named, fallback=fallback)
        whole = found.documents if salvaged is None else salvaged.documents
        documents, filled = wanted_documents(target, found, whole, fill=fill, globs=globs)
        basis = None if globs else target.based_on(found)
        if merge:
            documents = target.merge(found, documents)
            # All of the latest is in the folder then; of another one it is only noted for the next save.
            basis = basis if found.is_latest else with_merged(target.basis, found.info.snapshot_id)
        going = delete or (() if globs else target.going)
        writing = Writing(target, found, documents, delete=going, force=force, on_progress=on_progress)
        if globs:
            filled = tuple(each for each in filled if each.is_of(documents))
        if dry_run:
            return RestoredFolder(found.info, writing.plan(saving=snapshot_first), filled=filled, salvaged=salvaged)
        before = writing.save_first(exclude, allow_secrets) if snapshot_first else None
        written = writing.write(basis)
    return RestoredFolder(found.info, written, before, filled, salvaged)


def wanted_documents(
    target: Target, found: Loaded, documents: dict[str, str], *, fill: bool, globs: tuple[str, ...] = ()
) -> tuple[dict[str, str], tuple[Filled, ...]]:
    """What of a snapshot is written, with what it lacks of others, and what that is."""
    filled: tuple[Filled, ...] = ()
    if fill:
        documents, filled = take_lacking(target, found, documents)
    documents = narrow(documents, globs) if globs else documents
    return (documents if target.host is None else target.host.memory_of(documents)), filled


class Writing:
    def __init__(
        self,
        target: Target,
        found: Loaded,
        documents: dict[str, str],
        *,
        delete: bool | Collection[str] = False,
        force: bool = False,
        on_progress: Callable[[int, int, str], None] | None = None,
    ) -> None:
        self._target = target
        self._question = target.question(found)
        documents = _without_linked(target, documents)
        self._place = partial(place_documents, documents, target.directory, force=force, delete=delete)
        self._on_progress = on_progress

    def plan(self, *, saving: bool = False) -> Written:
        question = replace(self._question, saving=True) if saving else self._question
        return self._place(dry_run=True, question=question)

    def save_first(
        self, exclude: str | Iterable[str] = (), allow_secrets: str | Iterable[str] = (), *, plan: Written | None = None
    ) -> Saved | None:
        """Save what the folder holds, under the label with ``-before-restore`` at its end: so it never is the latest of
        the memory that it is not. The newest ten of different content stay there, and what is pinned.
        """
        target, plan = self._target, self.plan() if plan is None else plan
        if plan.in_use:
            raise FileInUse(Path(target.directory), {name: plan.why[name] for name in plan.in_use})
        if is_empty(target.directory):
            return None
        memory, own = target.memory, target.label.removesuffix(BEFORE_RESTORE) + BEFORE_RESTORE
        usual = BackupOptions.of_known(target.usual, label=own, on_conflict="continue")
        globs = (*usual.exclude, *several("exclude", exclude))
        allowed = (*usual.allow_secrets, *several("allow_secrets", allow_secrets))
        # One after the other: none is based on anything but the one before.
        home, latest = memory._session.home(own), memory.latest(label=own)
        home.write(events.restored(Basis(), latest.snapshot_id) if latest is not None else Basis())
        options = replace(usual, exclude=globs, allow_secrets=allowed)
        with FolderSave(memory, target.directory, options, noted=False) as saving:
            try:
                capture = saving.read()
            except NothingToSave as error:
                if plan.unsaved:
                    why = f"the folder as it is was not saved: {error}; nothing was written"
                    raise ColonyMemoryError(why) from error
                return None
            _require_saved(capture, plan.unsaved)
            before = saving.save(capture)
        _retire(memory, own)
        saved = Holding(before.info.snapshot_id, lambda: before.capture.documents, fresh=True)
        self._question = replace(self._question, others=(saved, *self._question.others))
        return before

    def write(self, basis: Basis | None) -> Written:
        """Put them in place, and remember what the folder is based on then; None for what changes nothing of that."""
        note = None if basis is None else self._target.index.note_of(basis)
        written = self._place(question=self._question, note=note, on_progress=self._on_progress)
        if basis is not None:
            self._target.keep(basis)
        return written


def _without_linked(target: Target, documents: dict[str, str]) -> dict[str, str]:
    """Documents without those of a host's memory that links lead to from here, and that are there already."""
    if not target.usual.get("agent"):
        return documents
    contents, metadata = split_documents(documents)
    names = {each for name in contents for each in (*parents_of(name), name)} - metadata.links.keys()
    links = {each for each in names if Path(target.directory, local_name(each)).is_symlink()}

    def is_linked(name: str) -> bool:
        return not links.isdisjoint((name, *parents_of(name)))

    there = split_documents(target.present())[0] if links else {}
    differing = sorted(name for name, content in contents.items() if is_linked(name) and there.get(name) != content)
    if differing:
        raise ColonyMemoryError(
            f"nothing is written through links, and what {quoted(sorted(links))} in {str(target.directory)!r} leads to "
            f"is not as it was saved: {quoted(differing)}; nothing was written; restore into another directory, or "
            "take the link away"
        )
    return reshape(documents, lambda name: not is_linked(name)) if links else documents


def fetch(memory: ColonyMemory, *, label: str = "default", snapshot: str | None = None) -> Loaded:
    """Read the snapshot asked for, else the latest, for a look."""
    try:
        return memory._run(restore, label=label, snapshot_id=_id_of(memory, snapshot, label=label))
    except SnapshotCorrupt:
        disprove(identify_vault(memory), label)
        raise


def _id_of(memory: ColonyMemory, snapshot: str | None, *, label: str) -> str | None:
    if snapshot is not None:
        require_text("snapshot", snapshot)
    return None if snapshot in (None, "latest") else find_id(memory, str(snapshot), label=label)
