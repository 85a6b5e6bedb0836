"""The folder of a restore: the snapshot it is based on, and the snapshots that contain its files."""

from __future__ import annotations

import os
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from colony_memory._engine.merge import merge
from colony_memory._engine.restore import read, restore, with_basis
from colony_memory._engine.state import look, read_manifests
from colony_memory._format.lineage import merge_base
from colony_memory._format.payload import document_digest, of_file, tree_of, tree_of_digests
from colony_memory._format.record import ATTRIBUTES_NAME, RECORD_NAME, lacks_text
from colony_memory._values import replace
from colony_memory.capture._metadata import METADATA_NAMES, describe, split_documents
from colony_memory.capture._question import Holding, Question
from colony_memory.capture._recover import recover
from colony_memory.capture._tree import PART
from colony_memory.capture.folder import NothingToSave
from colony_memory.capture.index import disprove, end_others, open_index, peek_index
from colony_memory.exceptions import ColonyMemoryError, DecryptionError, SnapshotCorrupt, SnapshotNotFound
from colony_memory.shell.app.content import filled_from, names_in
from colony_memory.shell.app.open import identify_vault
from colony_memory.shell.app.options import BackupOptions
from colony_memory.shell.app.pick import BEFORE_RESTORE
from colony_memory.shell.app.save import read_for, with_home
from colony_memory.snapshot import Manifest

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

    from typing_extensions import Self

    from colony_memory._engine.basis import Basis
    from colony_memory._engine.load import Loaded
    from colony_memory._engine.state import State
    from colony_memory.capture.index import FolderIndex
    from colony_memory.client import ColonyMemory
    from colony_memory.reports import Salvaged
    from colony_memory.shell.app.agents import Host


def same_files(ours: Mapping[str, str], theirs: Mapping[str, str]) -> bool:
    """True if two versions of a folder have the same files and links, whatever the rest of their metadata."""
    (contents, metadata), (their_contents, their_metadata) = split_documents(ours), split_documents(theirs)
    return contents == their_contents and metadata.links == their_metadata.links


def has_all_lines(ours: Mapping[str, str], theirs: Mapping[str, str]) -> bool:
    """True if one version of a folder has every line and every link of another."""
    (_, metadata), (_, their_metadata) = split_documents(ours), split_documents(theirs)
    return their_metadata.links.items() <= metadata.links.items() and not lacks_text(ours, theirs)


class Target:
    """A context manager that locks the index of a folder, so that nobody else saves or restores it meanwhile."""

    def __init__(
        self,
        memory: ColonyMemory,
        directory: str | os.PathLike[str],
        *,
        label: str,
        dry_run: bool = False,
        host: Host | None = None,
        options: BackupOptions | None = None,
        unattended: bool = False,
    ) -> None:
        self.directory, self.label, self.host = directory, label, host
        self._client, self._dry_run, self._options, self._unattended = memory, dry_run, options, unattended
        # A copy made before a restore is of the same memory: going back to it is like going back to an older snapshot.
        self._home_label = label.removesuffix(BEFORE_RESTORE) or label
        self._stack = ExitStack()
        self._labels: dict[str, str] = {}  # labels of the snapshots read so far, by id
        self._known: dict[str, dict[str, str]] = {}  # documents of the snapshot being restored, by id
        self._question: Question | None = None
        self._attributes: str | None = None
        self.filled: tuple[str, ...] = ()  # snapshots from which missing sets were filled in,
        self.displaced: frozenset[str] = frozenset()  # and names in the folder that give way to those sets
        self.index: FolderIndex
        self.memory: ColonyMemory  # a client that finds the folder's basis in the index

    @property
    def basis(self) -> Basis:
        return self.memory._session.home(self._home_label).read()

    @property
    def usual(self) -> Mapping[str, Any]:
        usual = self.index.options if self._options is None else self._options.of_folder
        return usual if self.host is None else {**usual, "agent": self.host.agent.name}

    def __enter__(self) -> Self:
        if not self._dry_run:
            recover(self.directory)
        self._open()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        damaged = kind is not None and issubclass(kind, SnapshotCorrupt)
        if damaged:
            self.index.disprove()
        self._stack.close()
        if damaged:
            disprove(identify_vault(self._client), self.label)

    def _open(self) -> None:
        paths, vault, label = [self.directory], identify_vault(self._client), self._home_label
        if self._dry_run:
            self.index = peek_index(paths, vault=vault, label=label)
        else:
            opened = open_index(paths, vault=vault, label=label, unattended=self._unattended)
            self.index = self._stack.enter_context(opened)
        self.memory = self._client if self.index.problem is not None else with_home(self._client, label, self.index)

    def read(self, snapshot: str | None, *, fallback: bool = False) -> Loaded:
        """A snapshot (by default the latest), with the folder's basis after a restore of all of it."""
        loaded = self.memory._run(restore, label=self.label, snapshot_id=snapshot, fallback=fallback)
        return self._of_home(loaded)

    def salvage(self, snapshot: str | None) -> tuple[Loaded, Salvaged]:
        """The snapshot that most of a salvage is from, as :meth:`read` returns it, and what was salvaged."""
        from colony_memory._engine.salvage import salvage

        loaded, salvaged = self.memory._run(salvage, label=self.label, snapshot_id=snapshot)
        if not salvaged:
            self.index.disprove()
        return self._of_home(loaded), salvaged

    def _of_home(self, loaded: Loaded) -> Loaded:
        if self.label == self._home_label:
            return loaded
        older = replace(loaded, info=replace(loaded.info, label=self._home_label), state=None)
        return replace(loaded, basis=self.memory._run(with_basis, older, whole=False).basis)

    def look(self, *, label: str | None = None, everything: bool = False) -> State:
        return self.memory._run(look, label or self.label, lenient=True, newer=False, everything=everything)

    def based_on(self, loaded: Loaded) -> Basis:
        """The folder's basis after a restore of all of a snapshot that :meth:`read` returned."""
        basis = loaded.basis or self.basis
        self._attributes = "" if self.host is not None else loaded.documents.get(ATTRIBUTES_NAME, "")
        basis = replace(basis, filled=tuple(dict.fromkeys((*basis.filled, *self.filled))))
        if basis.tree or basis.snapshot_id != loaded.info.snapshot_id or basis.reverted:
            return basis
        return replace(basis, tree=tree_of(loaded.documents))

    def keep(self, basis: Basis) -> None:
        if self.index.problem is None:
            self.index.reload()
        if self.index.problem is not None or not self.index.is_of([self.directory]):
            # The directory was made or replaced after the index was opened.
            self._stack.close()
            self._open()
        if self.basis != basis:
            self.memory._session.home(self._home_label).write(basis)
            self.index.update(attributes=self._attributes)
            end_others(self.directory, self.index)

    def has_any_of(self, basis: Basis) -> bool:
        """True if the folder still has any of the files of its last save or restore."""
        folder = Path(self.directory)
        names = frozenset() if basis.not_held else frozenset(self.index.rows)
        if not names and not basis.not_held and folder.is_dir():
            names = names_in(self.base_documents(str(basis.snapshot_id)))
        if names:
            return any(os.path.lexists(folder / name) for name in names)
        return folder.is_dir() and bool(self.present())

    def base_documents(self, snapshot_id: str) -> dict[str, str]:
        """A snapshot's documents as in this folder, with the sets filled in here; empty if it is damaged or gone."""
        documents, basis = self._documents(snapshot_id), self.basis
        if not documents or snapshot_id != basis.snapshot_id:
            return documents
        return filled_from(documents, map(self._documents, basis.filled))

    def merge(
        self, loaded: Loaded, documents: dict[str, str], *, present: dict[str, str] | None = None
    ) -> dict[str, str]:
        state = self.look(everything=True)
        infos, unmerged = state.summaries, state.unmerged
        basis, theirs = self.basis, loaded.info.snapshot_id
        own = () if basis.not_held else sorted({*basis.own, *basis.refused})
        base = merge_base(infos, unmerged, own, theirs)
        ours = self.present() if present is None else present
        merged = merge({} if base is None else self.base_documents(base), ours, documents, theirs_name=theirs).documents
        # Merged files take the times of neither side.
        described = replace(split_documents(merged)[1], times={}, left_out={}, unread=frozenset())
        return {name: text for name, text in merged.items() if name not in METADATA_NAMES} | describe(described)

    def present(self, options: BackupOptions | None = None) -> dict[str, str]:
        options = options or BackupOptions.of_known(self.usual, label=self._home_label).for_a_look()
        try:
            return read_for(self.memory, self.directory, options).documents
        except NothingToSave:
            return {}

    def question(self, loaded: Loaded) -> Question:
        """The question to settle before a restore of this snapshot removes or replaces anything in the folder."""
        if self._question is not None:
            return self._question
        basis, target = self.basis, loaded.info.snapshot_id
        self._known[target] = loaded.documents

        def holding(snapshot_id: str, proven: frozenset[str] = frozenset()) -> Holding:
            return Holding(snapshot_id, partial(self._documents, snapshot_id), proven)

        latest = None if loaded.state is None else loaded.state.follow
        based_on = None if basis.not_held else basis.snapshot_id
        others = [basis.last, latest, *basis.filled, *basis.refused, *basis.pending, *basis.merged]
        ids = [key for key in dict.fromkeys(others) if key and key not in (based_on, target)]
        base = None if based_on is None else holding(based_on, self._proven(based_on))
        self._question = Question(base, tuple(map(holding, ids)), self._are_listed)
        return self._question

    def _documents(self, snapshot_id: str) -> dict[str, str]:
        """The documents of a snapshot as they would be in this folder; empty if they cannot be read."""
        return self.as_here(self._known.get(snapshot_id) or self.documents_of(snapshot_id))

    def as_here(self, documents: dict[str, str]) -> dict[str, str]:
        """Documents as this folder would have them; empty if none belongs there."""
        if not documents or self.host is None:
            return documents
        try:
            return self.host.memory_of(documents)
        except (ValueError, ColonyMemoryError):
            return {}

    def documents_of(self, snapshot_id: str) -> dict[str, str]:
        """The documents of a snapshot of this memory; empty if it is damaged or gone."""
        for label in dict.fromkeys((self._home_label, self._home_label + BEFORE_RESTORE)):
            try:
                loaded = self.memory._run(read, label=label, snapshot_id=snapshot_id)
            except SnapshotNotFound:
                continue
            except (ValueError, DecryptionError):  # damaged, untrusted or sealed: as good as gone
                return {}
            self._labels[snapshot_id] = label
            return loaded.documents
        return {}

    def _proven(self, snapshot_id: str) -> frozenset[str]:
        """Digests of files proven to be in a snapshot: its manifest, one read, proves the rows of the index."""
        rows = {name: row for name, row in self.index.rows.items() if row.digest not in ("", PART)}
        digests = {name: row.digest if row.is_text else of_file(row.digest) for name, row in rows.items()}
        if self.index.described:
            digests[RECORD_NAME] = self.index.described
        if self.index.attributes:
            digests[ATTRIBUTES_NAME] = document_digest(self.index.attributes)
        tree = tree_of_digests(digests)
        if not rows or self.basis.tree != tree:
            return frozenset()
        manifest = self.memory._run(read_manifests, self._home_label, [snapshot_id])[snapshot_id]
        proves = isinstance(manifest, Manifest) and manifest.tree == tree
        return frozenset(row.digest for row in rows.values()) if proves else frozenset()

    def _are_listed(self, snapshot_ids: Collection[str]) -> bool:
        """True if all of them are still listed; takes one look at the pointer of each label."""
        labels = {key: self._labels.get(key, self._home_label) for key in snapshot_ids}
        for label in set(labels.values()):
            state = self.look(label=label)
            missing = [key for key in labels if labels[key] == label and not state.lists(key)]
            if missing:  # a pointer written by an old client names only one snapshot
                state = self.memory._run(look, label, lenient=True, newer=False, listed=True)
            if not all(map(state.lists, missing)):
                return False
        return True
