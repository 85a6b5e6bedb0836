"""restore, latest, list_snapshots."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, TypeVar

from colony_memory._boundary import texts
from colony_memory._engine import basis as events
from colony_memory._engine.keep import listed
from colony_memory._engine.label import few, has_pointer, read_labels
from colony_memory._engine.load import Loaded, load, nothing_saved, require_listed_one, unsealed_info
from colony_memory._engine.observe import observed, of_snapshot
from colony_memory._engine.session import Session, log, warn
from colony_memory._engine.state import State, look, read_manifests, require_sound, tell
from colony_memory._engine.store import Unreadable
from colony_memory._format import NO_DEFAULT
from colony_memory._format.catalog import Entry
from colony_memory._format.json import shown
from colony_memory._format.lineage import refused_only
from colony_memory._format.names import id_order, manifest_filename, read_head, require_id, require_label
from colony_memory._values import replace
from colony_memory.exceptions import (
    ColonyMemoryError,
    Hint,
    SnapshotCorrupt,
    SnapshotNotFound,
    UnsupportedFormat,
    UntrustedSnapshot,
    VaultError,
    message_of,
)
from colony_memory.snapshot import Manifest, SnapshotInfo
from colony_memory.trust import ACCEPT_UNSIGNED, lacks_signature, older_than_signing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from colony_memory._engine.basis import Basis
    from colony_memory.reports import LifecycleEvent

_D = TypeVar("_D")
# Another writer may move the pointer between reading it and reading what it names.
_TRIES = 4


def outcome(found: object, event: LifecycleEvent, _: object) -> LifecycleEvent | None:
    return of_snapshot(event, "restored", found.info, len(found.documents)) if isinstance(found, Loaded) else None


@observed("restore", outcome)
async def restore(session: Session, /, *, names: str | Iterable[str] | None = None, **how: Any) -> Loaded:
    patterns = None if names is None else texts("names", names)
    restored = await read(session, **how)
    if patterns is None:
        return await with_basis(session, restored)
    wanted = {n: text for n, text in restored.documents.items() if any(fnmatchcase(n, p) for p in patterns)}
    if not wanted:
        raise ValueError(
            f"no document of snapshot {restored.info.snapshot_id} of label {restored.info.label!r} matches "
            f"{', '.join(map(shown, patterns)) or 'no pattern'}: it has {few(sorted(restored.documents)) or 'none'}"
        )
    return replace(restored, documents=wanted, state=None)


async def read(
    session: Session,
    *,
    label: str,
    snapshot_id: str | None = None,
    verify: bool = True,
    fallback: bool = False,
    at_least: str | int | None = None,
    others: bool = True,
) -> Loaded:
    """Read a snapshot without regard to the memory's basis. ``others`` is for :func:`nothing_saved`."""
    label = require_label(label)
    if at_least is not None:
        read_head(at_least)
        if snapshot_id is not None:
            raise ValueError("at_least is for the latest snapshot: leave it out where a snapshot is named")
    if snapshot_id is None:
        return await _restore_latest(session, label, verify=verify, fallback=fallback, at_least=at_least, others=others)
    try:
        return await load(session, label, require_id(snapshot_id), verify=verify)
    except (SnapshotCorrupt, UntrustedSnapshot) as error:
        if not fallback:
            raise _with_fallback(error, label) from error
        return await _walk_back(session, label, snapshot_id, error, verify=verify, fallback=True, named=True)


async def with_basis(session: Session, restored: Loaded, *, whole: bool = True) -> Loaded:
    """The same with the basis of a memory that holds all of it; if not ``whole``, as if it were an older snapshot."""
    label, snapshot_id, state = restored.info.label, restored.info.snapshot_id, restored.state
    if state is None:  # it was asked for by its id
        try:
            state = await look(session, label, lenient=True, newer=False)
        except ColonyMemoryError as error:
            log(f"the latest snapshot of label {label!r} is not known: {message_of(error)}")
    latest = None if state is None or state.doubt else state.follow
    ids, stream = (frozenset[str](), None) if state is None else (state.shown, state.stream)
    basis = events.settled(session.home(label).read(), latest, listed=ids)
    if state is not None and snapshot_id == latest and whole:
        if restored.state is not None:  # whoever names a snapshot may be about to merge
            _warn_unmerged(session, state, label, basis)
        after = events.restored(basis, snapshot_id, stream=stream, tree=restored.tree, listed=ids)
    else:
        after = events.reverted(basis, latest, last=snapshot_id, stream=stream, listed=ids)
    return replace(restored, basis=after, state=state)


def _warn_unmerged(session: Session, state: State, label: str, basis: Basis) -> None:
    """Warn of this memory's saves that the latest is not based on: others overtook them, or they met a conflict."""
    for save in state.unmerged:
        entry = state.entry(save.snapshot_id)
        # Two missing origins do not show that they are the same.
        is_own = entry is not None and entry.info.origin is not None and entry.info.origin == session.origin(label)
        if entry is None or not (is_own or save.snapshot_id in basis.known):
            continue
        how = "met a conflict" if save.refused else "was overtaken by another writer's"
        warn(
            f"snapshot {save.snapshot_id} of label {label!r}, saved from here, {how}, "
            "and the latest is not based on it",
            hint=Hint("merge", "snapshot_id", save.snapshot_id, label=label),
        )


async def restore_documents(session: Session, /, *, default: _D, **options: Any) -> dict[str, str] | _D:
    """The documents, on which this client's memory is based then, or ``default``, if given, where nothing is saved."""
    async with session.writing(require_label(options["label"])) as home:
        found = await _restore_or_none(session, others=default is NO_DEFAULT, **options)
        if found is None:
            return default
        if found.basis is not None:
            home.write(found.basis)
        return found.documents


@observed("restore", outcome)
async def _restore_or_none(session: Session, *, others: bool, **options: Any) -> Loaded | None:
    try:
        return await restore(session, others=others, **options)
    except SnapshotNotFound:
        if others:
            raise
        return None


async def _restore_latest(
    session: Session, label: str, *, verify: bool, fallback: bool, at_least: str | int | None, others: bool
) -> Loaded:
    tried, same = None, False
    for _ in range(_TRIES):
        # A snapshot that is not there may have been replaced since the pointer was read; else a listing shows what is.
        state = await look(session, label, verify=verify, at_least=at_least, listed=tried is not None)
        require_followed(state, fallback=fallback)
        if state.follow is None:
            tell(state)
            raise await nothing_saved(session, label=label, others=others)
        tried, same = state.follow, state.follow == tried
        try:
            loaded = await load(session, label, tried, verify=verify, state=state)
        except SnapshotNotFound:
            continue
        except (SnapshotCorrupt, UntrustedSnapshot) as error:
            if not fallback and state.problem is None:
                raise _with_fallback(error, label) from error
            how: dict[str, Any] = {"verify": verify, "fallback": fallback, "at_least": at_least}
            return await _walk_back(session, label, tried, error, **how)
        tell(state)
        pinned = {} if state.files is None else state.files.pinned(tried)
        return replace(loaded, info=replace(loaded.info, head=state.head, **pinned), state=state)
    if not same:
        raise VaultError(f"label {label!r} changes too fast to be read, try again")
    raise SnapshotCorrupt(f"the latest snapshot {tried} of label {label!r} is not there any more")


def require_followed(state: State, *, fallback: bool) -> State:
    """The state, if it may be followed; ``fallback`` passes over a latest that is damaged or not trusted."""
    if fallback and state.rollback is None and state.follow is not None and not state.signs:
        return state
    return require_sound(state)


def _with_fallback(error: ColonyMemoryError, label: str) -> ColonyMemoryError:
    if error.hint is None and not isinstance(error, UnsupportedFormat):
        error.hint = Hint("restore", "fallback", value=True, label=label)
    return error


async def _walk_back(
    session: Session,
    label: str,
    tried: str,
    first: SnapshotCorrupt | UntrustedSnapshot,
    *,
    verify: bool,
    fallback: bool,
    at_least: str | int | None = None,
    named: bool = False,
) -> Loaded:
    """The newest intact snapshot in place of an unusable one, ``tried``; if that was ``named``, none newer than it."""
    state = await look(session, label, everything=True, verify=verify, at_least=at_least)
    require_followed(state, fallback=fallback)
    if not state.listed.complete:
        raise first
    reasons, skipped = [state.problem] if state.problem else [], {tried: message_of(first)}
    for snapshot_id in candidates(session, state, skipped):
        if named and id_order(snapshot_id) > id_order(tried):
            continue
        try:
            loaded = await load(session, label, snapshot_id, verify=verify)
        except SnapshotNotFound:
            continue
        except (SnapshotCorrupt, UntrustedSnapshot) as error:
            # A newer format or a foreign signature is not damage: going back silently would lose newer memory. A
            # snapshot that a client refuses since it pins issuers may be anyone's, and must not keep it from its own.
            foreign = isinstance(error, UntrustedSnapshot) and not session.trust.pins
            if (isinstance(error, UnsupportedFormat) or foreign) and not fallback:
                raise
            skipped[snapshot_id] = message_of(error)
            continue
        details = "; ".join((*reasons, *skipped.values()))
        warn(f"restored the newest intact snapshot {snapshot_id} of label {label!r}: {details}")
        return replace(loaded, state=state)
    raise first


def candidates(session: Session, state: State, skipped: dict[str, str]) -> Iterator[str]:
    """Ids of possible substitutes, newest first, but refused ones last; ``skipped`` gets the problems of others."""
    deleted = {entry.snapshot_id for entry in state.entries} - state.counted - state.unproven
    refused = refused_only([entry.info for entry in state.entries])
    for snapshot_id in sorted(state.listed.manifests, key=lambda id_: id_ in refused):
        if snapshot_id in skipped or snapshot_id in deleted:
            continue
        if snapshot_id in state.untrusted and session.trust.pins:
            skipped[snapshot_id] = str(state.untrusted[snapshot_id])
            continue
        yield snapshot_id


@observed("latest")
async def latest(session: Session, *, label: str) -> SnapshotInfo | None:
    label = require_label(label)
    for turn in range(_TRIES):
        state = await look(session, label, listed=turn > 0)
        require_sound(state)
        if state.follow is None:
            tell(state)
            return None
        manifest = state.manifests.get(state.follow)
        if not isinstance(manifest, Manifest):
            session.manifests.pop(manifest_filename(label, state.follow), None)
            manifest = (await read_manifests(session, label, [state.follow]))[state.follow]
        if manifest is None:
            continue
        if not isinstance(manifest, Manifest):
            raise manifest
        entry = state.entry(state.follow)
        if state.proven:
            require_listed_one(manifest, entry)
        tell(state)
        stored = entry.info.stored_bytes if entry and entry.manifest_sha256 == manifest.sha256 else 0
        info = await unsealed_info(session, label, Entry(manifest.info, manifest.sha256)) or manifest.info
        tags = info.tags if entry is None else entry.info.tags
        pinned = {} if state.files is None else state.files.pinned(state.follow)
        return replace(info, stored_bytes=stored, head=state.head, tags=tags, **pinned)
    raise SnapshotCorrupt(f"the pointer of label {label!r} names snapshot {state.follow}, which is not there")


@observed("list_snapshots")
async def list_snapshots(session: Session, *, label: str | None) -> list[SnapshotInfo]:
    wanted = None if label is None else require_label(label)
    listing = await session.vault.list("cmem." if wanted is None else f"cmem.{wanted}.")
    if not listing.complete:
        warn(f"the vault's list of {listing.prefix}* is cut short: there may be more snapshots")
    infos, unread = list[SnapshotInfo](), dict[str, ColonyMemoryError]()
    seen = await session.labels_seen()
    for name, files in read_labels(listing, seen if wanted is None else seen & {wanted}).items():
        if not files.manifests and not has_pointer(files) and name not in seen:
            continue
        try:
            state = await look(session, name, everything=True, files=files)
        except Unreadable as error:
            if wanted is not None:
                raise
            unread[f"label {name!r} is left out of the list: {error.message}"] = error
            continue
        if state.unsigned:
            warn(older_than_signing(name, state.unsigned), hint=ACCEPT_UNSIGNED)
        doubt = None if lacks_signature(state.doubt) else state.doubt
        if not files.manifests and (objection := state.rollback or state.refusal) is not None:
            unread[objection.message] = objection
        elif doubt is not None and message_of(doubt) not in state.broken.values():
            warn(doubt.message, hint=doubt.hint)
        if state.proven:
            tell(state)
        unsigned = {manifest_filename(name, snapshot_id) for snapshot_id in state.unsigned}
        for file, problem in state.broken.items():
            if file not in unsigned:
                warn(f"a snapshot of label {name!r} is left out of the list: {problem}")
        infos += listed(session, state)
    if unread and not infos:
        raise next(iter(unread.values()))  # an empty list would say that nothing was saved
    for text, objection in unread.items():
        warn(text, hint=objection.hint)
    return sorted(infos, key=lambda info: id_order(info.snapshot_id), reverse=True)
