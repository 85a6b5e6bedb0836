"""salvage: of a damaged snapshot, of each document the newest text that is proven; and what the damage costs."""

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
    """See :meth:`colony_memory.ColonyMemory.salvage`; with the one snapshot that most of it is from."""
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
    near = _Neighbours(session, state)
    try:
        whole = await near.load(wanted)
    except UnsupportedFormat:
        raise
    except (SnapshotCorrupt, UntrustedSnapshot, Unreadable) as error:
        near.passed[wanted] = message_of(error)
        found = await near.salvage(wanted)
        if found is None:
            raise
        main, salvaged = found
        restored = await with_basis(session, replace(main, state=state), whole=False)
        return restored, replace(salvaged, damage=message_of(error))
    told = Salvaged(wanted, whole.documents, dict.fromkeys(whole.documents, wanted), doc_count=len(whole.documents))
    return await with_basis(session, replace(whole, state=state)), told


async def salvage_documents(session: Session, *, label: str, snapshot_id: str | None) -> Salvaged:
    async with session.writing(require_label(label)) as home:
        found, salvaged = await salvage(session, label=label, snapshot_id=snapshot_id)
        if found.basis is not None:
            home.write(found.basis)
    return salvaged


class _Neighbours(Walk):
    """A damaged snapshot, and what is beside it."""

    async def salvage(self, wanted: str) -> tuple[Loaded, Salvaged] | None:
        """The snapshot that most of it is from, and all of it; None where nothing is proven."""
        manifest = await self._manifest(wanted)
        older, newer = _around([*candidates(self.session, self.state, self.passed)], wanted)
        found = await self._main(wanted, manifest, older, newer)
        if found is None:
            return None
        main, source = found
        documents, sources = dict[str, str](), dict[str, str]()
        # Only a manifest of format 1 says what else there has to be.
        told = None if manifest is None or isinstance(manifest, ChainManifest) else manifest.info.doc_names
        missing = {*map(printable, main.documents)} if told is None else {*told}
        for each in (source, *older, *newer):
            entry = self.state.entry(each)
            if (
                each != source
                and entry is not None
                and entry.info.doc_names
                and missing.isdisjoint(entry.info.doc_names)
            ):
                continue
            loaded = main if each == source else await self.try_load(each)
            for name, text in () if loaded is None else loaded.documents.items():
                if printable(name) in missing and name not in documents:
                    documents[name], sources[name] = text, each
            missing -= {*map(printable, documents)}
            if not missing:
                break
        if {*sources.values()} - {source}:  # the record of one may contradict the documents of another
            documents = fold(documents, alike=(main.documents,))
        if manifest is not None and manifest.tree and tree_of(documents) == manifest.tree:
            sources = dict.fromkeys(documents, wanted)
        count = None if manifest is None else manifest.info.doc_count
        return main, Salvaged(wanted, documents, sources, tuple(sorted(missing)), doc_count=count)

    async def _manifest(self, wanted: str) -> Manifest | None:
        """The manifest of the damaged snapshot, where it is believed."""
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
        """Another snapshot of the very same memory, else the newest state before the damage: of a snapshot that is
        whole, or what the packs of this one prove. With the id of the snapshot whose state it is.
        """
        digest = "" if manifest is None else manifest.info.plaintext_sha256
        rows = filter(None, map(self.state.entry, (*reversed(newer), *older)))
        equal = [row.snapshot_id for row in rows if digest and row.info.plaintext_sha256 == digest]
        for each in equal:
            loaded = await self.try_load(each)
            if loaded is not None and loaded.info.plaintext_sha256 == digest:
                return loaded, wanted
        own = await self.own(manifest) if isinstance(manifest, ChainManifest) else None
        near = [*older, *newer] if own is None else [each for each in older if id_order(each) > id_order(own[1])]
        for each in near:
            loaded = await self.try_load(each)
            if loaded is not None:
                return loaded, each
        return own

    async def own(self, manifest: ChainManifest) -> tuple[Loaded, str] | None:
        """The newest state that the packs of a damaged snapshot prove, and its id."""
        session, label = self.session, manifest.info.label
        others = [each for each in manifest.packs[:-1] if each in self.state.listed.manifests]
        try:
            at_most = room_for(manifest, session.max_bytes)
            read = await read_manifests(session, label, others)
            files = await session.vault.get_many(manifest.part_files, at_most=at_most, shelf=self.shelf)
        except (SnapshotCorrupt, Unreadable):
            return None
        digests = {each: own.pack_sha256 for each, own in read.items() if isinstance(own, ChainManifest)}
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


def _around(ids: Iterable[str], own: str) -> tuple[list[str], list[str]]:
    """Ids that are older than one and newer than it, the nearest first, of such as are newest first."""
    ids = [*ids]
    older = [each for each in ids if id_order(each) < id_order(own)]
    return older, [each for each in reversed(ids) if id_order(each) > id_order(own)]


async def with_costs(
    session: Session, state: State, checks: Sequence[SnapshotCheck], manifests: Mapping[str, Manifest]
) -> tuple[SnapshotCheck, ...]:
    """The checks, of damaged snapshots with the documents that may be lost: not what both neighbours have alike."""
    reading, out = _Neighbours(session, state), list[SnapshotCheck]()
    known: dict[str, Mapping[str, str] | None] = {}
    reading.passed |= {check.snapshot_id: check.problem or "" for check in checks if not check}
    ids = list(candidates(session, state, reading.passed))
    intact = {manifests[each.snapshot_id].info.plaintext_sha256 for each in checks if each} - {""}

    async def digests(near: Iterable[str]) -> Mapping[str, str]:
        for each in near:
            if each not in known:
                while len(known) > 1:  # the two that enclose a run of damaged ones
                    known.pop(next(iter(known)))
                loaded = None if spent_by(session) else await reading.try_load(each)
                known[each] = None if loaded is None else await session.vault.compute(digests_of, loaded.documents)
            found = known[each]
            if found is not None:
                return found
        return {}

    for check in checks:
        own, manifest = check.snapshot_id, manifests.get(check.snapshot_id)
        if not _is_damaged(check) or (manifest is not None and manifest.info.plaintext_sha256 in intact):
            out.append(check)
            continue
        older, newer = _around(ids, own)
        try:
            after, before = await digests(newer), await digests(older)
            if not before and isinstance(manifest, ChainManifest):
                below = await reading.own(manifest)
                before = {} if below is None else digests_of(below[0].documents)
        except DecryptionError:  # nobody here can tell
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
