"""salvage: of a damaged snapshot, of each document the newest text that is proven; and what the damage costs."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from colony_memory._engine.load import Walk, nothing_saved, room_for
from colony_memory._engine.observe import observed, spending, spent_by
from colony_memory._engine.restore import Restored, candidates, outcome, require_followed, with_basis
from colony_memory._engine.state import UNREADABLE, State, look, read_manifests, require_listed, tell
from colony_memory._format.json import printable, shown
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
    VaultError,
    message_of,
)
from colony_memory.reports import Salvaged, SnapshotCheck
from colony_memory.snapshot import Manifest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from colony_memory._engine.decision import Finding
    from colony_memory._engine.session import Session

_DAMAGE = (SnapshotCorrupt, UntrustedSnapshot)
# Names in a message.
_SHOWN = 5


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
    except (*_DAMAGE, VaultError) as error:
        damage: ColonyMemoryError = error
        if isinstance(error, VaultError) and error.code not in UNREADABLE:
            raise
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
        for each in () if main is not None else newer:
            loaded = await self.try_load(each)
            if loaded is not None:
                main = Restored(loaded.info, loaded.documents), each
                break
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
        read: dict[str, Finding] = {}
        entry = self.state.decision.entry(self._wanted)
        try:
            await read_manifests(self.session, self.state.label, [self._wanted], read)
        except VaultError as error:
            if error.code not in UNREADABLE:
                raise
        found = read.get(self._wanted)
        if not isinstance(found, Manifest):
            return None
        listed = self.state.decision.proven and entry is not None
        return found if not listed or entry is None or found.sha256 == entry.manifest_sha256 else None

    async def _equal(self, ids: Iterable[str], manifest: Manifest | None) -> tuple[Restored, str] | None:
        """Another snapshot of the very same memory, by the digest that the manifest tells."""
        digest = "" if manifest is None else manifest.info.plaintext_sha256
        for each in ids if manifest is not None and digest else ():
            entry = self.state.decision.entry(each)
            loaded = None if entry is None or entry.info.plaintext_sha256 != digest else await self.try_load(each)
            if loaded is not None and loaded.info.plaintext_sha256 == digest:
                return Restored(loaded.info, loaded.documents), self._wanted
        return None

    async def _newest(self, older: Iterable[str], manifest: Manifest | None) -> tuple[Restored, str] | None:
        """The newest state before the damage: of a snapshot that is whole, or what the packs of this one prove."""
        own = await self.own(manifest) if isinstance(manifest, ChainManifest) else None
        for each in older:
            if own is not None and id_order(each) <= id_order(own[0]):
                break
            loaded = await self.try_load(each)
            if loaded is not None:
                return Restored(loaded.info, loaded.documents), each
        return None if own is None or manifest is None else (Restored(manifest.info, own[1]), own[0])

    async def own(self, manifest: ChainManifest) -> tuple[str, dict[str, str]] | None:
        """The newest state that the packs of a damaged snapshot prove, and its id."""
        session, label = self.session, manifest.info.label
        others, read = (
            [each for each in manifest.packs[:-1] if each in self.state.listed.manifests],
            dict[str, "Finding"](),
        )
        try:
            at_most = room_for(manifest, session.max_bytes)
            await read_manifests(session, label, others, read)
            files = await session.vault.get_many(manifest.part_files, at_most=at_most, shelf=self.shelf)
        except SnapshotCorrupt:
            return None
        except VaultError as error:
            if error.code not in UNREADABLE:
                raise
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
            if each == source or (
                entry is not None and entry.info.doc_names and missing.isdisjoint(entry.info.doc_names)
            ):
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
    """The checks, those of damaged snapshots with the documents whose text may be lost with them.

    What the neighbours on both sides have alike is not: it was the same all along, as far as anyone can tell.
    """
    if not any(map(_is_damaged, checks)):
        return tuple(checks)
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
        out.append(replace(check, costs=lost, problem=f"{check.problem}{_in_words(lost)}"))
    return tuple(out)


def _is_damaged(check: SnapshotCheck) -> bool:
    bad = "bad" in (check.manifest, check.parts, check.digest) or check.parts == "missing"
    return bad and check.trust in ("ok", "unchecked") and check.signature != "bad"


def _in_words(lost: Sequence[str]) -> str:
    if not lost:
        return ""
    rest = f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
    return f"; lost with it may be the text of that time of {', '.join(map(shown, lost[:_SHOWN]))}{rest}"
