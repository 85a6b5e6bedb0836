"""salvage: the newest proven text of each document of a damaged snapshot; and the documents that damage costs."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from colony_memory._engine.label import few
from colony_memory._engine.load import Loaded, Walk, nothing_saved, room_for
from colony_memory._engine.observe import observed, spending, spent_by
from colony_memory._engine.restore import candidates, outcome, require_followed, with_basis
from colony_memory._engine.state import State, look, read_manifests, require_listed, tell
from colony_memory._engine.store import Unreadable
from colony_memory._format.json import printable
from colony_memory._format.names import id_order, manifest_filename, require_id, require_label
from colony_memory._format.payload import digests_of, tree_of
from colony_memory._format.record import fold
from colony_memory._format.v2.build import ChainManifest, read_proven
from colony_memory._values import replace
from colony_memory.exceptions import DecryptionError, SnapshotCorrupt, UnsupportedFormat, UntrustedSnapshot, message_of
from colony_memory.reports import Salvaged, SnapshotCheck
from colony_memory.snapshot import Manifest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from colony_memory._engine.session import Session


@observed("salvage", lambda found, event, options: outcome(found[0], event, options))
async def salvage(session: Session, *, label: str, snapshot_id: str | None = None) -> tuple[Loaded, Salvaged]:
    """See :meth:`colony_memory.ColonyMemory.salvage`; with the snapshot that most of it is from."""
    label = require_label(label)
    state = await look(session, label, everything=True)
    require_listed(state, "salvaging")
    if snapshot_id is None:
        require_followed(state, fallback=True)
    elif state.rollback is not None:
        raise state.rollback
    wanted = state.follow if snapshot_id is None else require_id(snapshot_id)
    tell(state)
    if wanted is None:
        raise await nothing_saved(session, label=label)
    neighbours = _Neighbours(session, state)
    try:
        loaded = await neighbours.load(wanted)
    except UnsupportedFormat:
        raise
    except (SnapshotCorrupt, UntrustedSnapshot, Unreadable) as error:
        neighbours.skipped[wanted] = message_of(error)
        found = await neighbours.salvage(wanted)
        if found is None:
            raise
        main, salvaged = found
        restored = await with_basis(session, replace(main, state=state), whole=False)
        return restored, replace(salvaged, damage=message_of(error))
    out = Salvaged(wanted, loaded.documents, dict.fromkeys(loaded.documents, wanted), doc_count=len(loaded.documents))
    return await with_basis(session, replace(loaded, state=state)), out


async def salvage_documents(session: Session, *, label: str, snapshot_id: str | None) -> Salvaged:
    async with session.writing(require_label(label)) as home:
        found, salvaged = await salvage(session, label=label, snapshot_id=snapshot_id)
        if found.basis is not None:
            home.write(found.basis)
    return salvaged


class _Neighbours(Walk):
    """Reads the snapshots around a damaged one."""

    async def salvage(self, wanted: str) -> tuple[Loaded, Salvaged] | None:
        """The snapshot that most of the text is from, and all of it; None if nothing is proven."""
        manifest = await self._manifest(wanted)
        older, newer = _around([*candidates(self.session, self.state, self.skipped)], wanted)
        found = await self._main(wanted, manifest, older, newer)
        if found is None:
            return None
        main, source = found
        documents, sources = dict[str, str](), dict[str, str]()
        # Only a manifest of format 1 says which other documents there have to be.
        listed = None if manifest is None or isinstance(manifest, ChainManifest) else manifest.info.doc_names
        missing = {*map(printable, main.documents)} if listed is None else {*listed}
        for id_ in (source, *older, *newer):
            entry = self.state.entry(id_)
            if (
                id_ != source
                and entry is not None
                and entry.info.doc_names
                and missing.isdisjoint(entry.info.doc_names)
            ):
                continue
            loaded = main if id_ == source else await self.try_load(id_)
            for name, text in () if loaded is None else loaded.documents.items():
                if printable(name) in missing and name not in documents:
                    documents[name], sources[name] = text, id_
            missing -= {*map(printable, documents)}
            if not missing:
                break
        if {*sources.values()} - {source}:  # the record of one snapshot may contradict the documents of another
            documents = fold(documents, alike=(main.documents,))
        if manifest is not None and manifest.tree and tree_of(documents) == manifest.tree:
            sources = dict.fromkeys(documents, wanted)
        count = None if manifest is None else manifest.info.doc_count
        return main, Salvaged(wanted, documents, sources, tuple(sorted(missing)), doc_count=count)

    async def _manifest(self, wanted: str) -> Manifest | None:
        """The manifest of the damaged snapshot, None if it is not believed."""
        entry = self.state.entry(wanted)
        try:
            found = (await read_manifests(self.session, self.state.label, [wanted]))[wanted]
        except Unreadable:
            return None
        if not isinstance(found, Manifest):
            return None
        replaced = self.state.proven and entry is not None and entry.manifest_sha256 != found.sha256
        return None if replaced else found

    async def _main(
        self, wanted: str, manifest: Manifest | None, older: Sequence[str], newer: Sequence[str]
    ) -> tuple[Loaded, str] | None:
        """Another snapshot of the very same memory, else the newest state before the damage: that of an intact one,
        or one that the packs of this one prove. With the id of the snapshot whose state it is.
        """
        digest = "" if manifest is None else manifest.info.plaintext_sha256
        rows = filter(None, map(self.state.entry, (*reversed(newer), *older)))
        equal = [row.snapshot_id for row in rows if digest and row.info.plaintext_sha256 == digest]
        for id_ in equal:
            loaded = await self.try_load(id_)
            if loaded is not None and loaded.info.plaintext_sha256 == digest:
                return loaded, wanted
        proven = await self.from_packs(manifest) if isinstance(manifest, ChainManifest) else None
        near = [*older, *newer] if proven is None else [id_ for id_ in older if id_order(id_) > id_order(proven[1])]
        for id_ in near:
            loaded = await self.try_load(id_)
            if loaded is not None:
                return loaded, id_
        return proven

    async def from_packs(self, manifest: ChainManifest) -> tuple[Loaded, str] | None:
        """The newest state that the packs of a damaged snapshot prove, and its id."""
        session, label = self.session, manifest.info.label
        others = [id_ for id_ in manifest.packs[:-1] if id_ in self.state.listed.manifests]
        try:
            at_most = room_for(manifest, session.max_bytes)
            read = await read_manifests(session, label, others)
            files = await session.vault.get_many(manifest.part_files, at_most=at_most, shelf=self.shelf)
        except (SnapshotCorrupt, Unreadable):
            return None
        digests = {id_: other.pack_sha256 for id_, other in read.items() if isinstance(other, ChainManifest)}
        found = await session.vault.compute(
            read_proven,
            manifest,
            {name: None if file is None else file.content for name, file in files.items()},
            digests,
            strict=session.trust.pins,
            max_bytes=session.max_bytes,
            identities=session.identities,
            spend=spending(session, manifest_filename(label, manifest.info.snapshot_id)),
        )
        return None if found is None else (Loaded(manifest, manifest.info, found[1]), found[0])


def _around(ids: Iterable[str], snapshot_id: str) -> tuple[list[str], list[str]]:
    """The ids that are older, and those that are newer, than one, the nearest first; ``ids`` are newest first."""
    ids = [*ids]
    older = [id_ for id_ in ids if id_order(id_) < id_order(snapshot_id)]
    return older, [id_ for id_ in reversed(ids) if id_order(id_) > id_order(snapshot_id)]


async def with_costs(
    session: Session, state: State, checks: Sequence[SnapshotCheck], manifests: Mapping[str, Manifest]
) -> tuple[SnapshotCheck, ...]:
    """The checks, those of damaged snapshots with the documents that may be lost: all that neighbours do not share."""
    neighbours, out = _Neighbours(session, state), list[SnapshotCheck]()
    known: dict[str, Mapping[str, str] | None] = {}
    neighbours.skipped |= {check.snapshot_id: check.problem or "" for check in checks if not check}
    ids = list(candidates(session, state, neighbours.skipped))
    intact = {manifests[check.snapshot_id].info.plaintext_sha256 for check in checks if check} - {""}

    async def digests(near: Iterable[str]) -> Mapping[str, str]:
        for id_ in near:
            if id_ not in known:
                while len(known) > 1:  # keeps the two that enclose a run of damaged ones
                    known.pop(next(iter(known)))
                loaded = None if spent_by(session) else await neighbours.try_load(id_)
                known[id_] = None if loaded is None else await session.vault.compute(digests_of, loaded.documents)
            found = known[id_]
            if found is not None:
                return found
        return {}

    for check in checks:
        snapshot_id, manifest = check.snapshot_id, manifests.get(check.snapshot_id)
        if not _is_damaged(check) or (manifest is not None and manifest.info.plaintext_sha256 in intact):
            out.append(check)
            continue
        older, newer = _around(ids, snapshot_id)
        try:
            after, before = await digests(newer), await digests(older)
            if not before and isinstance(manifest, ChainManifest):
                below = await neighbours.from_packs(manifest)
                before = {} if below is None else digests_of(below[0].documents)
        except DecryptionError:  # without the key, it is not known what is lost
            out.append(check)
            continue
        names = () if manifest is None else manifest.info.doc_names
        had = {*names} or {*map(printable, chain(after, before))}
        lost = tuple(sorted(had - {printable(name) for name, digest in before.items() if after.get(name) == digest}))
        what = f"; lost with it may be the text of that time of {few(lost)}" if lost else ""
        out.append(replace(check, costs=lost, problem=f"{check.problem}{what}"))
    return tuple(out)


def _is_damaged(check: SnapshotCheck) -> bool:
    bad = "bad" in (check.manifest, check.parts, check.digest) or check.parts == "missing"
    return bad and check.trust in ("ok", "unchecked") and check.signature != "bad"
