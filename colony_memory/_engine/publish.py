"""The only writer of ``latest``: a change is a function of the label's state, applied again after a lost race."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from colony_memory._engine.session import Session, log
from colony_memory._engine.state import State, look, read_pointer_file, require_believed
from colony_memory._engine.store import ABSENT, Changed
from colony_memory._format.lineage import Unmerged, still_unmerged
from colony_memory._format.names import id_order, latest_filename, manifest_filename, new_id, part_filename, read_head
from colony_memory._format.pointer import Pointer, read_pointer, write_pointer
from colony_memory._values import Value, replace
from colony_memory.exceptions import (
    ColonyMemoryError,
    ConflictDetected,
    Hint,
    QuotaExceeded,
    VaultError,
    VaultUnavailable,
    message_of,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from colony_memory._format.catalog import Entry
    from colony_memory.signing import Signer

_TRIES = 8


class Move(Value):
    latest: str | None  # the snapshot to name, None for none
    entries: Iterable[Entry]  # the catalogue: everything committed
    removed: Sequence[str] = ()  # ids deleted or to be deleted, which must not be listed again
    above: int = 0  # generation to exceed, besides the pointer's own
    text: str | None = None  # a pointer from elsewhere that says just this, to be written as it is
    first: bool = False  # the label has no other snapshots than these, so that generations start from one
    stream: str | None = None  # history to continue, where the label has none yet
    coming: str | None = None  # snapshot about to be copied here; until listed, the pointer counts as gone back from it
    doc_bytes: tuple[int, ...] | None = None  # of the snapshot to name, see Pointer; None where not known
    unmerged: tuple[Unmerged, ...] | None = None  # unmerged snapshots from now on; None to keep the present ones


class Published(Value):
    pointer: Pointer  # as written, or as found where there was nothing to write
    state: State  # the state that the change was applied to


async def publish(
    session: Session,
    state: State,
    change: Callable[[State], Awaitable[Move | None]],
    *,
    signer: Signer | None = None,
    lenient: bool = False,
    doubted: bool = False,
) -> Published:
    """Apply ``change`` to a label; it returns the move to write over a state, None for nothing to write.

    Nothing is written over a pointer that a restore would refuse, which would hide the reason for ever, unless
    ``doubted``: a new save must not be left out of it. No move takes the label back behind the snapshot that the
    pointer names, unless that is proven to be gone or is being deleted. ``lenient`` goes on without a witness's answer.
    """
    label, text = state.label, ""
    for _ in range(_TRIES):
        move = await change(state)
        if move is None:
            return Published(state.pointer, state)
        if not doubted:
            require_believed(state)
        # A save that may be under way writes the pointer itself.
        is_young = move.latest == state.follow and state.follow not in state.committed and state.pointer.generation
        unsure = move.latest is None or (is_young and not doubted)
        if unsure and state.written and state.written not in move.removed and state.text != text:
            move = replace(move, latest=state.written)  # lost, not deleted: what this client just named may have been
        await _require_gone(session, state, move)
        pointer, text = await _write(session, state, move, signer or session.signer)
        try:
            # Without conditional upload the pointer is read once more, except for a label's first, which none has seen.
            reread = not session.vault.conditional or not state.match
            if reread and not state.first and (await read_pointer_file(session, label))[0] != state.text:
                raise Changed("the pointer was replaced meanwhile")
            await session.vault.put(latest_filename(label), text, match=state.match)
            # The snapshot may have been deleted after the pointer was read once more: the move is then made anew.
            listed = () if session.vault.conditional or state.files is None else state.files.manifests
            name = manifest_filename(label, pointer.snapshot_id or "-")
            if pointer.snapshot_id in listed and await session.vault.get(name) is None:
                raise Changed("what the pointer names was deleted meanwhile")
        except Changed:
            state = await look(session, label, everything=True, lenient=lenient)
            if state.text == text:
                # The pointer is this client's own, and names a snapshot deleted just then: it hides no newer, and the
                # snapshots that it calls removed still exist to take that one's place.
                unremoved = frozenset(move.removed)
                state = await look(session, label, everything=True, lenient=lenient, unremoved=unremoved)
                state = replace(state, rollback=None)
        else:
            await session.note(label, pointer, proven=session.trust.pins)
            return Published(pointer, state)
    msg = f"the pointer {latest_filename(label)} kept changing, so it was left as it is, and nothing was deleted"
    raise ConflictDetected(msg, theirs=state.follow)


async def _require_gone(session: Session, state: State, move: Move) -> None:
    """Raises VaultUnavailable if a newer snapshot than the move's still exists: a listing may be out of date."""
    pointer, label, listed = state.pointer, state.label, state.files.manifests if state.files else ()
    latest = id_order(move.latest or "")
    rows = takewhile(lambda row: id_order(row.snapshot_id) > latest, (state.files and pointer.entries) or ())
    named = dict.fromkeys((*filter(None, (pointer.snapshot_id,)), *(row.snapshot_id for row in rows)))
    accounted = {*move.removed, *listed}
    missing = [key for key in named if id_order(key) > latest and key not in accounted]
    for file, found in (await session.vault.get_many(manifest_filename(label, key) for key in missing)).items():
        if found is not None:
            what = f"the vault's list of label {label!r} is out of date: it lacks {file}, which is there"
            raise VaultUnavailable(f"{what}; nothing was changed, try again")


async def touch(session: Session, state: State) -> bool:
    """Write the pointer unchanged, so that the vault shows its present time. False if it has changed meanwhile."""
    if state.text is None:
        return False
    try:
        if not session.vault.conditional and (await read_pointer_file(session, state.label))[0] != state.text:
            return False
        await session.vault.put(latest_filename(state.label), state.text, match=state.match)
    except Changed:
        return False
    return True


async def show_time(session: Session, state: State) -> str | None:
    """Like :func:`touch`; without a pointer, write and return a lone part, a leftover to all clients, to be deleted."""
    if await touch(session, state) or state.text is not None:
        return None
    scratch = part_filename(state.label, new_id(session.now(), session.token(), ()), 0)
    await session.vault.put(scratch, "{}")
    return scratch


def may_write(session: Session, state: State) -> bool:
    """True if this client's pointer would be worth as much as the present one: signed, if that is."""
    return session.signer is not None or not (session.trust.require_signature or state.signed)


def require_signer(session: Session, state: State, why: str, *, conflict: bool = False) -> None:
    """Raises if the pointer is signed and this client cannot sign: who pins would take its pointer for a stranger's."""
    if may_write(session, state):
        return
    msg = f"the pointer of label {state.label!r} is signed, and {why}, which only a client that signs may do"
    hint = Hint("open", "signer")
    raise ConflictDetected(msg, theirs=None, hint=hint) if conflict else ColonyMemoryError(msg, hint=hint)


async def _write(session: Session, state: State, move: Move, signer: Signer | None) -> tuple[Pointer, str]:
    """Write the page files of the next pointer; returns that pointer and its text."""
    if move.text is not None:
        return read_pointer(move.text, label=state.label), move.text
    before = state.pointer
    above = max((move.above, *(read_head(head).generation for head in state.asked.seen)))
    if not before.generation and not state.first and not move.first:
        # A pointer that has no generation or is not believed interrupts the count. The time continues it above every
        # earlier generation, so that heads stay in order.
        above = max(above, int(session.now().timestamp()))

    def is_gone(key: str) -> bool:  # a listing shows no file of it, so no catalogue need mention it
        return state.files is not None and state.files.complete and key not in state.files.ids

    rows = move.entries
    if state.files is not None:
        rows = [row for row in rows if not is_gone(row.snapshot_id) or before.entry(row.snapshot_id) is None]
    catalog = before.catalog.following(rows)
    # A removed snapshot that was imported since is listed again, and no longer counts as removed.
    removed = [key for key in {*before.removed, *move.removed} if not is_gone(key) and not catalog.knows(key)]
    unmerged = state.unmerged if move.unmerged is None else move.unmerged
    gone = {item.snapshot_id for item in unmerged if item.snapshot_id in removed or is_gone(item.snapshot_id)}
    gone -= {move.latest, *(entry.snapshot_id for entry in catalog.front)}
    unmerged = still_unmerged(unmerged, now=session.now(), gone=gone)
    pointer = before.follow(
        move.latest,
        updated_at=session.stamp(),
        entries=catalog,
        stream=state.stream or move.stream or session.stream(state.label),
        removed=removed,
        coming=move.coming,
        doc_bytes=move.doc_bytes,
        unmerged=unmerged,
        before=state.follow,
        above=above,
    )
    spilled, files = pointer.catalog.spilled(new_id(session.now(), session.token(), ()))
    try:
        for name, content in files.items():
            await session.vault.put(name, content, match=ABSENT)
        pointer = replace(pointer, entries=spilled)
    except (VaultError, QuotaExceeded) as error:  # it names the rows that fit, and the next write tries again
        log(f"the catalogue of label {state.label!r} was not put into page files: {message_of(error)}")
    return pointer, write_pointer(pointer, signer=signer)
