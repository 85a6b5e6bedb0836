"""Bringing whole snapshots into a label: their files first, and one pointer last of all that commits them.

A file that is there already is relied upon only where a committed snapshot needs it: what is there and is not committed
may be on its way out, or another transfer's that takes it back when it fails.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from colony_memory._engine import room
from colony_memory._engine.backup.save import prove, took_long
from colony_memory._engine.deletion import sweep
from colony_memory._engine.label import GRACE
from colony_memory._engine.publish import Move, publish, show_time
from colony_memory._engine.sealed import require_closed
from colony_memory._engine.state import State, look
from colony_memory._engine.store import Changed, Unanswered
from colony_memory._engine.transfer.destination import Destination, Lacking, in_the_way, require_conditions, taken
from colony_memory._engine.transfer.pointer import Origin, list_arrivals, looks_put_back, require_signer
from colony_memory._engine.transfer.whole import Arrivals, Arrived, require_no_rollback, take_back
from colony_memory._format.names import id_order, latest_filename, pin_filename
from colony_memory._format.pointer import Pointer
from colony_memory.exceptions import (
    ColonyMemoryError,
    ConflictDetected,
    PruneIncomplete,
    UntrustedSnapshot,
    VaultError,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from datetime import datetime

    from colony_memory._engine.session import Session
    from colony_memory._engine.store import Created
    from colony_memory._engine.transfer.whole import Whole
    from colony_memory._format.catalog import Entry


class Delivery:
    """What one client brings into one label.

    Attributes:
        session: The client.
        label: The label.
        origin: What the label says that the snapshots come from.
        arrivals: What has arrived, and what of it came to nothing.
        here: The label as it was looked at last.
    """

    def __init__(self, session: Session, state: State, origin: Origin) -> None:
        self.session, self.label, self.origin = session, state.label, origin
        self.arrivals = Arrivals(session, state.label)
        self._before = self.here = state
        self._destination = Destination(session, state)
        self._began = session.now()

    @classmethod
    async def to(cls, session: Session, label: str, bringing: Iterable[str], origin: Origin | None = None) -> Delivery:
        """Look at the label.

        Args:
            session: The client.
            label: The label.
            bringing: Ids of what is to come, some of which an earlier transfer may have left there.
            origin: What the label says that they come from.

        Raises:
            RollbackDetected: It was set back.
        """
        state = await look(session, label, everything=True, bringing=frozenset(bringing))
        require_no_rollback(state)
        return cls(session, state, origin or Origin(Pointer(label, None)))

    async def store(self, whole: Whole, *, pin: str | None = None, known: Entry | None = None) -> Arrived | None:
        """Write a snapshot that is not there yet, and read it back.

        None where files of it are in the way, as :meth:`in_the_way` tells.

        Args:
            whole: The snapshot.
            pin: The text of its pin, None where it is not pinned.
            known: Its row where it comes from, which says what followed it; its manifest does not.

        Raises:
            ColonyMemoryError: It is of format 2, and the vault does not write on condition.
            ConflictDetected: Another content is there under this id, or another client is writing or removing it.
            QuotaExceeded: It does not fit; nothing of it was written.
            RateLimited: It takes more uploads than the vault takes this hour; nothing of it was written.
            VaultError: The vault failed or refused. What was written is removed again where that is possible.
        """
        snapshot_id = whole.snapshot_id
        if whole.packs:
            require_conditions(self.session, f"snapshot {snapshot_id} of label {self.label!r}")
        require_signer(self.session, self.here, self.origin, whole)
        require_closed(self.session, whole.manifest.info)
        lacking = await self._destination.compare(whole)
        if lacking is None:
            return None
        own = await self._write(whole, lacking, pin=pin) if lacking.missing else ()
        arrived = Arrived(
            whole.entry if known is None else replace(whole.entry, shrunk_at=known.shrunk_at, spoiled=known.spoiled),
            whole.manifest.stream,
            whole.needed,
            lacking.found,
            tuple(lacking.missing),
            own,
            lacking.beside,
        )
        self.arrivals.there[snapshot_id] = arrived
        self._destination.note(arrived.entry, whole.packs)
        self.session.manifests[whole.manifest_file] = whole.manifest
        if whole.documents is not None:
            self.session.proved(self.label, snapshot_id)
        return arrived

    async def _write(self, whole: Whole, lacking: Lacking, *, pin: str | None) -> tuple[str, ...]:
        """Write what of a snapshot is not there; names of the files that are surely this client's."""
        session, label, snapshot_id = self.session, self.label, whole.snapshot_id
        missing, stale = lacking.missing, lacking.stale
        mark, what = pin_filename(label, snapshot_id), f"snapshot {snapshot_id} of label {label!r}"
        pin = None if mark in self.here.listed.files else pin
        room.check_files(missing, what)
        await room.require_operations(
            session, len(stale) + len(missing) + (pin is not None) + 1, f"{what} with the pointer to it"
        )
        if stale:
            await self._sweep(snapshot_id)
        await room.require(session, sum(len(text.encode("utf-8")) for text in missing.values()), what, label=label)
        await self._announce(whole)
        began, own, name = session.now(), list[str](), ""
        written: list[datetime | None] = []
        try:
            if pin is not None:
                # First, so that a transfer that stops half way leaves no snapshot that lost its pin.
                await session.vault.put(mark, pin)
            for done, (name, text) in enumerate(missing.items(), 1):
                created = await self._create(name, text, whole)
                written.append(created.at)
                own += [name] if created.own else []
                session.tell("upload", name, done, len(missing))
            for name, stored in (await session.vault.get_many(missing)).items():
                if stored is None or stored.content != missing[name]:
                    state = "is not there" if stored is None else "holds another text"
                    raise VaultError(f"{name} was written, but read back it {state}: try again")
            late = took_long(session, began, written)
            if late and not await prove(session, label, whole.needed, own=missing):
                raise VaultError(f"{what} took so long that other clients may have removed parts of it: try again")
        except ColonyMemoryError as error:
            # A manifest whose write got no answer may be there, and is of a whole snapshot then.
            if not (isinstance(error, Unanswered) and name == whole.manifest_file):
                await take_back(session, label, {snapshot_id: own}, error, chains=bool(whole.packs))
            raise
        return tuple(own)

    async def _create(self, name: str, text: str, whole: Whole) -> Created:
        try:
            return await self.session.vault.create(name, text)
        except Changed as error:
            stored = await self.session.vault.get(name)
            if stored is not None and stored.content != text:
                raise taken(self.label, whole.snapshot_id) from error
            raise self.in_the_way(whole) from error

    async def _sweep(self, snapshot_id: str) -> None:
        try:
            await sweep(self.session, self.here.listed, told=self.here.needs, of=snapshot_id)
        except PruneIncomplete as error:
            raise VaultError(f"what an earlier transfer left could not be removed: {error.message}") from error

    def in_the_way(self, whole: Whole) -> ConflictDetected:
        """The error of a snapshot that is there, in part or as a whole, and not committed."""
        return in_the_way(self.here.listed, whole, now=self.session.now())

    async def look_again(self) -> None:
        """Look at the label anew, after something was written, so that the vault shows how old the rest is."""
        session, scratch = self.session, None
        if not any(arrived.wrote for arrived in self.arrivals.there.values()):
            await room.require_operations(session, 2, "telling how old a leftover is")
            scratch = await show_time(session, self.here)
        self.here = await self._look()
        require_no_rollback(self.here)
        # What is brought from now on may put a manifest back that one of these rested on, and then nothing would show
        # any more that it was gone.
        self.arrivals.drop(self.here, before=self._before)
        self._rest_on(self.here)
        if scratch is not None:
            await session.vault.delete(scratch)

    async def commit(self) -> Pointer:
        """List what has arrived, and move the pointer unless it names something newer.

        It moves to the newest that has arrived, but no further than that of the label that they come from.

        Raises:
            RollbackDetected: The label was set back.
            ConflictDetected: Other clients kept changing it.
            VaultError: The vault failed or refused.
        """
        session, state, arrivals = self.session, self.here, self.arrivals
        late = abs(session.now() - self._began) > GRACE / 2
        unled = not state.first and not state.decision.pointer.generation
        rests = any(arrived.beside or (arrived.wrote and arrived.entry.packs) for arrived in arrivals.there.values())
        if state is not self._before or late or unled or rests or not session.vault.conditional:
            # What was written since shows the vault's time, and whether something was removed. Where others keep what
            # a chain needs, nothing but a list that shows it beside them proves that it stays.
            state = await self._look()

        async def change(now: State) -> Move | None:
            require_no_rollback(now)
            if now is not self._before:
                arrivals.drop(now, before=self._before)
            return list_arrivals(session, now, arrivals, self.origin, first=self._is_first(now))

        pointer = await self._publish(state, change)
        await arrivals.take_back_lost(pointer)
        return pointer

    async def undo(self, error: ColonyMemoryError) -> None:
        """Remove what was written and could not be committed, as far as it is surely this client's and can be."""
        await self.arrivals.undo(error)

    async def _announce(self, whole: Whole) -> None:
        """Let the pointer say what is on its way, where it would look put back otherwise, wherever this stops.

        Only who signs can say so. Whoever does not lets the pointer from elsewhere follow, which is signed.
        """
        doubt = self.here.decision.refusal
        if self.session.signer is None or isinstance(doubt, UntrustedSnapshot) or not looks_put_back(self.here, whole):
            return
        newest = max((whole.snapshot_id, *self._before.asked.bringing), key=id_order)

        async def change(now: State) -> Move | None:
            require_no_rollback(now)
            decision = now.decision
            latest = decision.follow if decision.follow in decision.committed else None
            if decision.follow not in (latest, *self.arrivals.there):
                return None  # a backup under way, perhaps: the pointer is its own to write
            first, stream = self._is_first(now), whole.manifest.stream
            return Move(latest, decision.building, first=first, stream=stream, arriving=newest)

        await self._publish(self.here, change)
        self.here = await self._look()
        # By what it was before: others may have written the pointer that this one follows.
        self.arrivals.drop(self.here, before=self._before)
        self._before = self.here
        self._rest_on(self.here)

    async def _look(self) -> State:
        return await look(self.session, self.label, everything=True, bringing=self._before.asked.bringing)

    async def _publish(self, state: State, change: Callable[[State], Awaitable[Move | None]]) -> Pointer:
        try:
            return (await publish(self.session, state, change, doubted=True)).pointer
        except ConflictDetected as error:
            msg = f"the pointer {latest_filename(self.label)} kept changing: try again"
            raise ConflictDetected(msg, theirs=error.theirs) from error

    def _rest_on(self, state: State) -> None:
        """Rely from now on on what is committed in this state."""
        there = state.listed.packs
        self._destination = Destination(
            self.session, state, {k: v for k, v in self._destination.known.items() if k in there}
        )
        for arrived in self.arrivals.there.values():
            self._destination.note(arrived.entry)

    def _is_first(self, now: State) -> bool:
        """Whether all that the label has is what is being brought, so that the count of its pointers begins."""
        return self._before.first and now.text is None and {*now.listed.manifests} <= {*self.arrivals.there}
