"""salvage: of a damaged snapshot, of each document the newest text that is proven; and what the damage costs."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from colony_memory._engine.label import few
from colony_memory._engine.load import Walk, nothing_saved, room_for
from colony_memory._engine.observe import observed, spending, spent_by
from colony_memory._engine.restore import Restored, candidates, outcome, require_followed, with_basis
from colony_memory._engine.state import State, look, read_manifests, require_listed, tell
from colony_memory._engine.store import Unreadable
from colony_memory._format.json import printable
from colony_memory._format.names import id_order, manifest_filename, require_id, require_label
from colony_memory._format.payload import digests_of, tree_of
from colony_memory._format.record import fold
from colony_memory._format.v2.build import read_proven
from colony_memory._format.v2.manifest import ChainManifest
from colony_memory._values import replace
from colony_memory.exceptions import (
    ColonyMemoryError,
    DecryptionError,
    SnapshotCorrupt,
    UnsupportedFormat,
    UntrustedSnapshot,
    message_of,
)
from colony_memory.reports import Salvaged, SnapshotCheck
from colony_memory.snapshot import Manifest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from colony_memory._engine.session import Session


@observed("salvage", lambda found, event, options: outcome(found[0], event, options))
async def salvage(session: Session, *, label: str, snapshot_id: str | None = None) -> tuple[Restored, Salvaged]:
    """See :meth:`colony_memory.ColonyMemory.salvage`; with the one snapshot that most of it is from."""
    label = require_label(label)
    state = await look(session, label, everything=True)
    require_listed(state, "salvaging")
    decision = state.decision
    if snapshot_id is None:
        require_followed(state, fallback=True)
    elif decision.rollback is not None:
        raise decision.rollback
    wanted = decision.follow if snapshot_id is None else require_id(snapshot_id)
    tell(decision)
    if wanted is None:
        raise await nothing_saved(session, label=label)
    near = _Neighbours(session, state, wanted)
    try:
        whole = await near.load(wanted)
    except UnsupportedFormat:
        raise
    except (SnapshotCorrupt, UntrustedSnapshot, Unreadable) as error:
        damage: ColonyMemoryError = error
    else:
        documents = whole.documents
        told = Salvaged(wanted, documents, dict.fromkeys(documents, wanted), doc_count=len(documents))
        return await with_basis(session, Restored(whole.info, documents, tree=whole.tree, state=state)), told
    near.passed[wanted] = message_of(damage)
    found = await near.salvage()
    if found is None:
        raise damage
    main, salvaged = found
    restored = await with_basis(session, replace(main, state=state), whole=False)
    return restored, replace(salvaged, damage=message_of(damage))


async def salvage_documents(session: Session, *, label: str, snapshot_id: str | None) -> Salvaged:
    async with session.writing(require_label(label)) as home:
        found, salvaged = await salvage(session, label=label, snapshot_id=snapshot_id)
        if found.basis is not None:
            home.write(found.basis)
    return salvaged


class _Neighbours(Walk):
    """A damaged snapshot, and what is beside it."""

    def __init__(self, session: Session, state: State, wanted: str) -> None:
        super().__init__(session, state)
        self._wanted = wanted

    async def salvage(self) -> tuple[Restored, Salvaged] | None:
        """The snapshot that most of it is from, and all of it; None where nothing is proven."""
        wanted, manifest = self._wanted, await self._manifest()
        ids = [each for each in candidates(self.session, self.state, self.passed) if each != wanted]
        older = [each for each in ids if id_order(each) < id_order(wanted)]
        newer = [each for each in reversed(ids) if id_order(each) > id_order(wanted)]
        main = await self._equal(ids, manifest) or await self._newest(older, manifest)
        main = main or await self._first(newer)
        if main is None:
            return None
        info = None if manifest is None else manifest.info
        names = None if info is None or isinstance(manifest, ChainManifest) else {*info.doc_names}
        documents, sources = await self._fill(*main, [*older, *newer], names)
        missing = () if names is None else tuple(sorted(names - {*map(printable, documents)}))
        if manifest is not None and manifest.tree and tree_of(documents) == manifest.tree:
            sources = dict.fromkeys(documents, wanted)
        count = None if info is None else info.doc_count
        return main[0], Salvaged(wanted, documents, sources, missing, doc_count=count)

    async def _manifest(self) -> Manifest | None:
        """The manifest of the damaged snapshot, where it is believed."""
        entry = self.state.decision.entry(self._wanted)
        try:
            found = (await read_manifests(self.session, self.state.label, [self._wanted]))[self._wanted]
        except Unreadable:
            return None
        listed = entry if self.state.decision.proven else None
        if not isinstance(found, Manifest) or (listed is not None and found.sha256 != listed.manifest_sha256):
            return None
        return found

    async def _equal(self, ids: Iterable[str], manifest: Manifest | None) -> tuple[Restored, str] | None:
        """Another snapshot of the very same memory, by the digest that the manifest tells."""
        digest = "" if manifest is None else manifest.info.plaintext_sha256
        rows = filter(None, map(self.state.decision.entry, ids))
        found = await self._first(row.snapshot_id for row in rows if digest and row.info.plaintext_sha256 == digest)
        return None if found is None or found[0].info.plaintext_sha256 != digest else (found[0], self._wanted)

    async def _newest(self, older: Sequence[str], manifest: Manifest | None) -> tuple[Restored, str] | None:
        """The newest state before the damage: of a snapshot that is whole, or what the packs of this one prove."""
        own = await self.own(manifest) if isinstance(manifest, ChainManifest) else None
        if own is None or manifest is None:
            return await self._first(older)
        found = await self._first(each for each in older if id_order(each) > id_order(own[0]))
        return found or (Restored(manifest.info, own[1]), own[0])

    async def _first(self, ids: Iterable[str]) -> tuple[Restored, str] | None:
        for each in ids:
            loaded = await self.try_load(each)
            if loaded is not None:
                return Restored(loaded.info, loaded.documents), each
        return None

    async def own(self, manifest: ChainManifest) -> tuple[str, dict[str, str]] | None:
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
        return await session.vault.compute(
            read_proven,
            manifest,
            {name: None if file is None else file.content for name, file in files.items()},
            digests,
            strict=session.trust.pins,
            max_bytes=session.max_bytes,
            identities=session.identities,
            spend=spending(session, manifest_filename(label, manifest.info.snapshot_id)),
        )

    async def _fill(
        self, main: Restored, source: str, ids: Iterable[str], names: set[str] | None
    ) -> tuple[dict[str, str], dict[str, str]]:
        """The documents of these names, those that it lacks from others, and where each is from."""
        documents = {name: text for name, text in main.documents.items() if names is None or printable(name) in names}
        sources = dict.fromkeys(documents, source)
        missing = (names or set()) - {*map(printable, documents)}
        for each in ids:
            if not missing:
                break
            entry = self.state.decision.entry(each)
            told = entry is not None and entry.info.doc_names
            if each == source or (told and missing.isdisjoint(told)):
                continue
            loaded = await self.try_load(each)
            for name, text in () if loaded is None else loaded.documents.items():
                if printable(name) in missing and name not in documents:
                    documents[name], sources[name] = text, each
            missing -= {*map(printable, documents)}
        if {*sources.values()} - {source}:  # the record of one may contradict the documents of another
            documents = fold(documents, alike=(main.documents,))
        return documents, sources


async def with_costs(
    session: Session, state: State, checks: Sequence[SnapshotCheck], manifests: Mapping[str, Manifest]
) -> tuple[SnapshotCheck, ...]:
    """The checks, those of damaged snapshots with the documents whose text may be lost with them: not what the
    neighbours on both sides have alike.
    """
    reading, out = _Neighbours(session, state, ""), list[SnapshotCheck]()
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
        newer = [each for each in reversed(ids) if id_order(each) > id_order(own)]
        older = [each for each in ids if id_order(each) < id_order(own)]
        try:
            after, before = await digests(newer), await digests(older)
            if not before and isinstance(manifest, ChainManifest):
                below = await reading.own(manifest)
                before = {} if below is None else digests_of(below[1])
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
