"""The only writer of ``latest``: a change is a function of the label's state, applied anew where that has changed."""

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
    entries: Iterable[Entry]  # the catalogue: all that is committed
    removed: Sequence[str] = ()  # what is to be deleted, or was, and must not be listed again
    above: int = 0  # generation to be above, beside the pointer's own
    text: str | None = None  # the text of a pointer from elsewhere that says just this, to be written as it is
    first: bool = False  # all that the label has is what is to be listed, so that the count of writes begins
    stream: str | None = None  # the history that goes on here, where the label has none yet
    coming: str | None = None  # about to be brought there; until it is listed, the pointer has gone back from it
    doc_bytes: tuple[int, ...] | None = None  # of the snapshot to name, see Pointer; None where that is not known
    unmerged: tuple[Unmerged, ...] | None = None  # what is unmerged from then on; None for what was


class Published(Value):
    pointer: Pointer  # what it says
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
    """Apply a change to a label: what to write over a state, None where that is nothing.

    No change is written over a pointer that a restore would refuse, which would hide for ever why, unless ``doubted``:
    memory that was saved just now is not left out of it. None takes the label back behind the snapshot that the pointer
    names, unless that is proven to be gone or is what is deleted. ``lenient`` goes on where no witness answers.
    """
    label = state.label
    for _ in range(_TRIES):
        move = await change(state)
        if move is None:
            return Published(state.pointer, state)
        if not doubted:
            require_believed(state)
        await _require_gone(session, state, move)
        pointer, text = await _write(session, state, move, signer or session.signer)
        try:
            # Without conditional upload it is read once more, but not for the first snapshot of a label, which nobody
            # else has seen.
            blind = not session.vault.conditional or not state.match
            if blind and not state.first and (await read_pointer_file(session, label))[0] != state.text:
                raise Changed("the pointer was replaced meanwhile")
            await session.vault.put(latest_filename(label), text, match=state.match)
            # It may have been deleted after the pointer was read once more: what it says is to be chosen anew then.
            there = () if session.vault.conditional or state.files is None else state.files.manifests
            name = manifest_filename(label, pointer.snapshot_id or "-")
            if pointer.snapshot_id in there and await session.vault.get(name) is None:
                raise Changed("what the pointer names was deleted meanwhile")
        except Changed:
            state = await look(session, label, everything=True, lenient=lenient)
            if state.text == text:
                # This client's own, which names what was deleted just then: nobody put it there instead of another, and
                # what it took out is still there to take its place.
                undone = frozenset(move.removed)
                state = await look(session, label, everything=True, lenient=lenient, unremoved=undone)
                state = replace(state, rollback=None)
        else:
            await session.note(label, pointer, proven=session.trust.pins)
            return Published(pointer, state)
    msg = f"the pointer {latest_filename(label)} kept changing, so it was left as it is, and nothing was deleted"
    raise ConflictDetected(msg, theirs=state.follow)


async def _require_gone(session: Session, state: State, move: Move) -> None:
    """Raise where the label would go back behind what is there: one listing may be of an earlier moment."""
    pointer, label, there = state.pointer, state.label, state.files.manifests if state.files else ()
    latest = id_order(move.latest or "")
    rows = takewhile(lambda row: id_order(row.snapshot_id) > latest, pointer.entries or ())
    known = dict.fromkeys((*filter(None, (pointer.snapshot_id,)), *(row.snapshot_id for row in rows)))
    shown = {*move.removed, *there}
    lacks = [name for name in known if id_order(name) > latest and name not in shown]
    for file, found in (await session.vault.get_many(manifest_filename(label, name) for name in lacks)).items():
        if found is not None:
            what = f"the vault's list of label {label!r} is out of date: it lacks {file}, which is there"
            raise VaultUnavailable(f"{what}; nothing was changed, try again")


async def touch(session: Session, state: State) -> bool:
    """Write the pointer as it is, so that the vault shows its time; whether it was still the same."""
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
    """The same; without a pointer by a part that stands alone, to any client a leftover, which is to be deleted."""
    if await touch(session, state) or state.text is not None:
        return None
    scratch = part_filename(state.label, new_id(session.now(), session.token(), ()), 0)
    await session.vault.put(scratch, "{}")
    return scratch


def may_write(session: Session, state: State) -> bool:
    """True if a pointer by this client is worth as much as the one that is there: signed, if that one is."""
    return session.signer is not None or not (session.trust.require_signature or state.signed)


def require_signer(session: Session, state: State, why: str, *, conflict: bool = False) -> None:
    """Raise where the pointer is signed and this client signs none: who pins would take its own for a stranger's."""
    if may_write(session, state):
        return
    msg = f"the pointer of label {state.label!r} is signed, and {why}, which only a client that signs may do"
    hint = Hint("open", "signer")
    raise ConflictDetected(msg, theirs=None, hint=hint) if conflict else ColonyMemoryError(msg, hint=hint)


async def _write(session: Session, state: State, move: Move, signer: Signer | None) -> tuple[Pointer, str]:
    """The pointer and its text, once the page files that it names are there."""
    if move.text is not None:
        return read_pointer(move.text, label=state.label), move.text
    before = state.pointer
    above = max((move.above, *(read_head(head).generation for head in state.asked.seen)))
    if not before.generation and not state.first and not move.first:
        # A pointer without a generation, or none that is believed, ends the count. The time takes it up above every
        # count before, so that the order of heads still holds.
        above = max(above, int(session.now().timestamp()))

    def is_gone(own: str) -> bool:  # a listing shows that nothing of it is left, so no catalogue need speak of it
        return state.files is not None and state.files.complete and own not in state.files.ids

    rows = move.entries
    if state.files is not None:
        rows = [row for row in rows if not is_gone(row.snapshot_id) or before.entry(row.snapshot_id) is None]
    catalog = before.catalog.following(rows)
    # What was removed and has been imported since is listed again, and no longer removed.
    removed = [own for own in {*before.removed, *move.removed} if not is_gone(own) and not catalog.knows(own)]
    unmerged = state.unmerged if move.unmerged is None else move.unmerged
    gone = {one.snapshot_id for one in unmerged if one.snapshot_id in removed or is_gone(one.snapshot_id)}
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
    except (VaultError, QuotaExceeded) as error:  # it names what there is room for, and the next one tries again
        log(f"the catalogue of label {state.label!r} was not put into page files: {message_of(error)}")
    return pointer, write_pointer(pointer, signer=signer)
