"""prune, plan_prune, delete_snapshot, pin, unpin, tag. Deleting: the row, then the manifest, then the parts."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from colony_memory._engine.files import deletable, remove_snapshots
from colony_memory._engine.keep import ages, newest_good, plan_for
from colony_memory._engine.label import pin_text, read_end
from colony_memory._engine.load import not_found
from colony_memory._engine.observe import observed
from colony_memory._engine.publish import Move, may_write, publish, require_signer, show_time
from colony_memory._engine.session import Session, warn
from colony_memory._engine.state import State, look, require_believed, require_listed, tell
from colony_memory._format.manifest import check_tags
from colony_memory._format.names import id_order, id_time, manifest_filename, pin_filename, require_id, require_label
from colony_memory._format.v2.zstd import is_readable
from colony_memory._values import replace
from colony_memory.exceptions import UnsupportedFormat

if TYPE_CHECKING:
    from collections.abc import Iterable

    from colony_memory._format.catalog import Entry
    from colony_memory.reports import LifecycleEvent
    from colony_memory.retention import PrunePlan, Retention

# The least change of a pin's end that is worth a write.
_STEP = timedelta(days=1)


@observed("plan_prune")
async def plan_prune(session: Session, *, label: str, policy: Retention | None) -> PrunePlan:
    label = require_label(label)
    state = await look(session, label, everything=True)
    require_believed(state)
    state, _ = await newest_good(session, state)
    files = state.listed.as_of(session.now())  # a prune writes the pointer, whose time shows how old the others are
    planned = await plan_for(session, replace(state, files=files), policy)
    going = await deletable(session, files, planned.removed, needs=state.needs) if files.complete else ()
    removed = {name for info in planned.plan.remove for name in files.owned(info.snapshot_id)}
    orphans = tuple(name for name in going if name not in removed)
    unread = (*state.broken, *(manifest_filename(label, id_) for id_ in _unreadable(state)))
    return replace(planned.plan, unread=tuple(sorted(unread)), orphans=orphans)


def _unreadable(state: State) -> list[str]:
    return [entry.snapshot_id for entry in state.building if not is_readable(entry.info.format)]


def _outcome(_: object, event: LifecycleEvent, __: object) -> LifecycleEvent:
    return replace(event, action="pruned")


@observed("prune", _outcome)
async def prune(session: Session, *, label: str, policy: Retention | None) -> int:
    label = require_label(label)
    state = await look(session, label, everything=True)
    if ages(session, state):
        # A write shows the vault's clock, and so their age. Leftovers of a first transfer have no pointer to write.
        scratch = await show_time(session, state)
        state = await look(session, label, everything=True)
        if scratch is not None:
            await session.vault.delete(scratch)
    if state.proven:
        tell(state)  # the new pointer hides what it warns of
    removed: tuple[str, ...] = ()

    async def change(now: State) -> Move | None:
        nonlocal removed
        require_listed(now, "pruning")
        require_believed(now)
        now, _ = await newest_good(session, now)
        planned = await plan_for(session, now, policy)
        if unread := _unreadable(now):
            what = f"label {label!r} has {len(unread)} snapshots of a format that this client cannot read"
            warn(f"{what}, such as {unread[0]}: they are neither counted nor removed")
        rows = planned.rows(now.building)
        dangling = now.follow is not None and now.written != now.follow
        listed = now.pointer.entries
        differs = listed is not None and [row.snapshot_id for row in listed] != [row.snapshot_id for row in rows]
        removed, unlisted = planned.removed, tuple(key for key in planned.removed if now.pointer.entry(key) is None)
        delists = now.follow is not None and now.follow == now.written and unlisted != removed
        if now.follow not in now.committed and not delists:
            # Perhaps a backup is under way, which has to write the pointer itself. And a pointer to a snapshot that is
            # gone must not become one to nothing. What it lists is not deleted before it is off the list.
            removed = unlisted
            return None
        if removed:
            require_signer(session, now, "pruning takes snapshots out of it")
        if not (removed or dangling or differs) or not may_write(session, now):
            return None  # rows of deleted snapshots do no harm, and a lost signature would
        if dangling:
            warn(f"the pointer of label {label!r} named no snapshot that is there; it names {now.follow} now")
        return Move(now.follow, rows, removed)

    done = (await publish(session, state, change)).state
    return await remove_snapshots(session, done.listed, removed, needs=done.needs)


@observed("delete_snapshot", _outcome)
async def delete_snapshot(session: Session, *, label: str, snapshot_id: str, sweeps: bool = True) -> None:
    """Delete a snapshot. ``sweeps`` also deletes others' leftovers: one more client that may be late in doing so."""
    label, snapshot_id = require_label(label), require_id(snapshot_id)
    state = await look(session, label, everything=True)

    async def change(now: State) -> Move | None:
        files = now.listed
        dangles = bool(now.written) and files.complete and now.written not in files.manifests
        listed = now.pointer.entry(snapshot_id) is not None
        named = snapshot_id in (now.written, now.follow)
        if not (files.owned(snapshot_id) or named or dangles or listed):  # its pack does not count: others may need it
            require_listed(now, "deleting")
            raise not_found(label, snapshot_id)
        if named or dangles:
            require_listed(now, "choosing the newest snapshot left")
        if named:
            return await _move_away(session, now, snapshot_id)
        # A lost snapshot was not deleted, and must not look so.
        lost = now.follow is None and now.entry(snapshot_id) is None and snapshot_id not in now.pointer.gone
        missing = now.follow is None and now.written is None  # it was not emptied, and what is damaged is no deletion
        unsure = now.doubt is not None or missing or now.follow not in (None, *now.committed)
        if (lost if dangles else unsure and not listed) or not may_write(session, now):
            return None
        # An unlisted one is taken out too: a client that is about to list it has to find another pointer.
        rows = [entry for entry in now.building if entry.snapshot_id != snapshot_id]
        return Move(now.follow, rows, [snapshot_id])

    done = (await publish(session, state, change)).state
    session.manifests.pop(manifest_filename(label, snapshot_id), None)
    await remove_snapshots(session, done.listed, [snapshot_id], needs=done.needs, sweeps=sweeps)


async def _move_away(session: Session, now: State, snapshot_id: str) -> Move:
    """Let the pointer name the newest good snapshot that is left, or nothing."""
    require_believed(now)
    require_signer(session, now, f"deleting its latest snapshot {snapshot_id} moves it")
    rows, latest = await _without(session, now, snapshot_id)
    # A chain that may lose a pack it needs is no place to go back to; its writer finds that out, and saves anew.
    waiting = now.waiting - now.unproven - {snapshot_id}
    if latest is None and waiting:
        # A pointer that was lost, or that 0.1.1 wrote, does not list young snapshots: better one of those than none.
        now = replace(now, committed=now.committed | waiting)
        rows, latest = await _without(session, now, snapshot_id)
    # Of the snapshots that the pointer goes back over, only those that it lists still count.
    unlisted = waiting - now.committed
    later = (row for row in now.entries if id_order(row.snapshot_id) > id_order(latest or ""))
    rows += [row for row in later if row.snapshot_id in unlisted]
    if latest is None and session.trust.pins:
        # A snapshot that this client does not trust is still somebody's memory.
        open_session = session.open()
        open_state = await look(open_session, now.label, everything=True)
        rows, latest = await _without(open_session, open_state, snapshot_id)
    for key in now.listed.manifests if latest is None else ():
        if key not in (snapshot_id, *now.unproven, *now.untrusted) and not now.pointer.took_out(key):
            return Move(key, rows, [snapshot_id])  # it is damaged, not deleted
    return Move(latest, rows if latest is not None else (), [snapshot_id])


async def _without(session: Session, now: State, snapshot_id: str) -> tuple[list[Entry], str | None]:
    """The rows of a catalogue without a snapshot, and the id of the newest of them that restores."""
    rows = [entry for entry in now.building if entry.snapshot_id != snapshot_id]
    rest = replace(now, entries=tuple(rows))
    _, latest = await newest_good(session, rest, complete=False)
    newest = max(_unreadable(rest), key=id_order, default=None)
    if newest is not None and id_order(latest or "") < id_order(newest):
        what = f"without {snapshot_id}, snapshot {newest} of label {now.label!r} would be the latest"
        file = manifest_filename(now.label, newest)
        raise UnsupportedFormat(f"nothing was deleted: {what}, and this client cannot read its format", file=file)
    return rows, latest


@observed("pin")
async def pin(session: Session, *, label: str, snapshot_id: str, lasts: timedelta | None = None) -> None:
    """See :meth:`colony_memory.ColonyMemory.pin`. With ``lasts`` it ends by itself; a longer one stays."""
    label, snapshot_id = require_label(label), require_id(snapshot_id)
    name, until = pin_filename(label, snapshot_id), None
    if await session.vault.get(manifest_filename(label, snapshot_id)) is None:
        raise not_found(label, snapshot_id)
    if lasts is not None:
        # A clock that is behind would make it end at once.
        until = max(session.now(), id_time(snapshot_id) or session.now()) + lasts
        stored = await session.vault.get(name)
        end = None if stored is None else read_end(stored.content)
        if stored is not None and (end is None or end > until - _STEP):
            return
    await session.vault.put(name, pin_text(label, snapshot_id, until))


@observed("unpin")
async def unpin(session: Session, *, label: str, snapshot_id: str) -> None:
    await session.vault.delete(pin_filename(require_label(label), require_id(snapshot_id)))


def require_tags(add: str | Iterable[str], remove: str | Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    added, removed = check_tags(add), check_tags(remove)
    if not (added or removed):
        raise ValueError("say which tags to add, or to remove")
    return added, removed


@observed("tag")
async def tag(
    session: Session, *, label: str, snapshot_id: str, add: str | Iterable[str] = (), remove: str | Iterable[str] = ()
) -> tuple[str, ...]:
    """See :meth:`colony_memory.ColonyMemory.tag`. Tags are kept in the catalogue's row: a manifest never changes."""
    label, snapshot_id = require_label(label), require_id(snapshot_id)
    added, removed = require_tags(add, remove)
    state = await look(session, label, everything=True)
    tags: tuple[str, ...] = ()

    async def change(now: State) -> Move | None:
        nonlocal tags
        require_listed(now, "tagging")
        require_believed(now)
        row = now.entry(snapshot_id)
        if row is None or not now.lists(snapshot_id):
            raise not_found(label, snapshot_id)
        tags = check_tags({*row.info.tags, *added} - {*removed})
        if tags == row.info.tags:
            return None
        require_signer(session, now, "its catalogue tells the tags of each snapshot")
        rows = [entry for entry in now.building if entry.snapshot_id != snapshot_id]
        tagged = replace(row, info=replace(row.info, tags=tags))
        return Move(now.follow, [tagged, *rows], doc_bytes=now.pointer.doc_bytes)

    await publish(session, state, change)
    return tags
