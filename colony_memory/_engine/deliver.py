"""Bringing whole snapshots into a label: their files first, and one pointer last of all that commits them.

A file that is there already is relied upon only where a committed snapshot needs it: what is there and is not committed
may be on its way out, or another transfer's that takes it back when it fails.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from colony_memory._engine import room
from colony_memory._engine.arrived import Arrived, Origin, require_no_rollback, row_of, was_removed
from colony_memory._engine.files import prove, sweep, take_back
from colony_memory._engine.label import GRACE
from colony_memory._engine.prune import pin_text, take_back_chains
from colony_memory._engine.publish import Move, may_write, publish, show_time
from colony_memory._engine.rely import Footing, Ground, other, require_conditions
from colony_memory._engine.sealed import require_closed
from colony_memory._engine.session import warn
from colony_memory._engine.state import State, look
from colony_memory._engine.store import Changed, Unanswered
from colony_memory._format.head import read_head
from colony_memory._format.names import (
    id_order,
    latest_filename,
    manifest_filename,
    pin_filename,
)
from colony_memory._format.pointer import Pointer, read_pointer
from colony_memory.exceptions import (
    ColonyMemoryError,
    ConflictDetected,
    Hint,
    PruneIncomplete,
    UntrustedSnapshot,
    VaultError,
)
from colony_memory.trust import previous_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from colony_memory._engine.session import Session
    from colony_memory._engine.whole import Whole

# Seconds by which a count of writes that was taken up from the time may run ahead of it.
_AHEAD = 86_400


class Delivery:
    """What one client brings into one label.

    Attributes:
        arrived: What is there now, by id, and to be committed.
        lost: Why something that had arrived is not to be, by id: other clients removed it.
    """

    def __init__(self, session: Session, state: State, origin: Origin) -> None:
        self.session, self.label, self.origin = session, state.label, origin
        self.arrived: dict[str, Arrived] = {}
        self.lost: dict[str, str] = {}
        self._withdrawn: dict[str, Arrived] = {}
        self._before = self._here = state
        self._ground = Ground(session, state)
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

    @property
    def here(self) -> State:
        """The label as it was looked at last."""
        return self._here

    async def _look(self) -> State:
        return await look(self.session, self.label, everything=True, bringing=self._before.asked.bringing)

    def _looks_put_back(self, whole: Whole) -> bool:
        """Whether a snapshot that no pointer lists yet would show readers that the pointer was put back, or taken away.

        It names the one that it was made upon, and that is newer than what the pointer names.
        """
        decision, before, info = self._here.decision, previous_of(whole.manifest.raw), whole.manifest.info
        pointer = decision.pointer
        if before is None or not info.signed or pointer.entry(info.snapshot_id) or pointer.brings(info.snapshot_id):
            return False
        if not pointer.generation:
            return not decision.signs
        named = max(id_order(pointer.snapshot_id or ""), id_order(pointer.went_back_from or ""))
        return min(id_order(info.snapshot_id), id_order(before[0])) > named

    def _require_signer(self, whole: Whole) -> None:
        """Refuse what only a signed pointer can list, where this client signs none and none follows from elsewhere."""
        if may_write(self.session, self._here):
            return
        snapshot_id, pointer = whole.manifest.info.snapshot_id, self._here.decision.pointer
        if snapshot_id in pointer.removed:
            why = "was deleted there, and the pointer that says so is to be signed by who lists it again"
        elif self._here.decision.signed and self._looks_put_back(whole) and not self._may_follow(self._here):
            why = (
                "was made after others that the signed pointer there does not know of: until a signer lists it, "
                "clients that pin issuers take that pointer for one that was put back"
            )
        else:
            return
        msg = f"snapshot {snapshot_id} of label {self.label!r} {why}"
        raise ConflictDetected(msg, theirs=None, hint=Hint("open", "signer"))

    async def _announce(self, whole: Whole) -> None:
        """Let the pointer say what is on its way, where it would look put back otherwise, wherever this stops.

        Only who signs can say so. Whoever does not lets the pointer from elsewhere follow, which is signed.
        """
        session, doubt = self.session, self._here.decision.refusal
        if session.signer is None or isinstance(doubt, UntrustedSnapshot) or not self._looks_put_back(whole):
            return
        newest = max((whole.manifest.info.snapshot_id, *self._before.asked.bringing), key=id_order)

        async def change(now: State) -> Move | None:
            require_no_rollback(now)
            decision = now.decision
            latest = decision.follow if decision.follow in decision.committed else None
            if decision.follow not in (latest, *self.arrived):
                return None  # a backup under way, perhaps: the pointer is its own to write
            first, stream = self._is_first(now), whole.manifest.stream
            return Move(latest, decision.building, first=first, stream=stream, arriving=newest)

        await self._publish(self._here, change)
        self._here = await self._look()
        self._drop(self._here)  # by what it was before: others may have written the pointer that this one follows
        self._before = self._here
        self._rest_on(self._here)

    def _rest_on(self, state: State) -> None:
        """Rely from now on on what is committed in this state."""
        there = state.listed.packs
        self._ground = Ground(self.session, state, {k: v for k, v in self._ground.known.items() if k in there})
        for arrived in self.arrived.values():
            self._ground.add(arrived.entry)

    async def _publish(self, state: State, change: Callable[[State], Awaitable[Move | None]]) -> Pointer:
        try:
            return (await publish(self.session, state, change)).pointer
        except ConflictDetected as error:
            msg = f"the pointer {latest_filename(self.label)} kept changing: do it again"
            raise ConflictDetected(msg, theirs=error.theirs) from error

    def _is_first(self, now: State) -> bool:
        """Whether all that the label has is what is being brought, so that the count of its pointers begins."""
        return self._before.first and now.text is None and {*now.listed.manifests} <= {*self.arrived}

    async def store(self, whole: Whole, *, pinned: bool = False) -> Arrived | None:
        """Write a snapshot that is not there yet, and read it back.

        None where files of it are in the way, as :meth:`in_the_way` tells.

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
        self._require_signer(whole)
        require_closed(self.session, whole.manifest.info)
        footing = await self._ground.find(whole)
        if footing is None:
            return None
        own = await self._write(whole, footing, pinned=pinned) if footing.missing else ()
        arrived = Arrived(
            whole.entry,
            whole.manifest.stream,
            whole.needed,
            footing.found,
            tuple(footing.missing),
            own,
            footing.beside,
        )
        self.arrived[snapshot_id] = arrived
        self._ground.add(arrived.entry, whole.packs)
        self.session.manifests[whole.manifest_file] = whole.manifest
        if whole.documents is not None:
            self.session.proved(self.label, snapshot_id)
        return arrived

    async def _write(self, whole: Whole, footing: Footing, *, pinned: bool) -> tuple[str, ...]:
        session, label, snapshot_id = self.session, self.label, whole.snapshot_id
        missing, stale = footing.missing, footing.stale
        manifest, mark = whole.manifest_file, pin_filename(label, snapshot_id)
        what, pinned = f"snapshot {snapshot_id} of label {label!r}", pinned and mark not in self._here.listed.files
        room.check_files(missing, what)
        await room.require_operations(session, len(stale) + len(missing) + pinned + 1, f"{what} with the pointer to it")
        if stale:
            await self._sweep(snapshot_id)
        await room.require(session, sum(len(text.encode("utf-8")) for text in missing.values()), what, label=label)
        await self._announce(whole)
        began, own, name = session.now(), list[str](), ""
        try:
            if pinned:
                # First, so that a transfer that stops half way leaves no snapshot that lost its pin.
                await session.vault.put(mark, pin_text(label, snapshot_id))
            for done, (name, text) in enumerate(missing.items(), 1):
                if await self._create(name, text, whole):
                    own.append(name)
                session.tell("upload", name, done, len(missing))
            for name, stored in (await session.vault.get_many(missing)).items():
                if stored is None or stored.content != missing[name]:
                    state = "is not there" if stored is None else "holds another text"
                    raise VaultError(f"{name} was written, and read back it {state}: do it again")
            late = abs(session.now() - began) > GRACE / 2
            if late and not await prove(session, label, whole.needed, own=missing):
                raise VaultError(f"{what} took so long that other clients took it for a leftover: do it again")
        except ColonyMemoryError as error:
            if not (isinstance(error, Unanswered) and name == manifest):  # it may be there, and then it is whole
                await self._take_back({snapshot_id: own}, error, chains=bool(whole.packs))
            raise
        return tuple(own)

    async def _create(self, name: str, text: str, whole: Whole) -> bool:
        try:
            return await self.session.vault.create(name, text)
        except Changed as error:
            stored = await self.session.vault.get(name)
            if stored is not None and stored.content != text:
                raise other(self.label, whole.snapshot_id) from error
            raise self.in_the_way(whole) from error

    async def _sweep(self, snapshot_id: str) -> None:
        try:
            await sweep(self.session, self._here.listed, told=self._here.needs, of=snapshot_id)
        except PruneIncomplete as error:
            raise VaultError(f"what an earlier transfer left could not be removed: {error.message}") from error

    def in_the_way(self, whole: Whole) -> ConflictDetected:
        """The error of a snapshot that is there, in part or as a whole, and not committed."""
        label, listed, snapshot_id = self.label, self._here.listed, whole.snapshot_id
        if whole.packs:
            msg = (
                f"files that snapshot {snapshot_id} of label {label!r} needs are there, and no committed snapshot "
                "needs them: they are being removed, or another transfer is writing them; once they are an hour old, "
                "prune, and try again"
            )
            return ConflictDetected(msg, theirs=snapshot_id, hint=Hint("prune", label=label))
        if snapshot_id in listed.manifests and listed.is_old(snapshot_id, now=self.session.now()):
            msg = (
                f"what is left of snapshot {snapshot_id} of label {label!r} is in the way: it is removed or damaged; "
                "deleting it makes way"
            )
            hint = Hint("delete_snapshot", "snapshot_id", snapshot_id, label=label)
        else:
            msg = (
                f"files of snapshot {snapshot_id} of label {label!r} are there, and no catalogue lists it: they are "
                "being removed, or another transfer is writing them; it can be done once they are an hour old"
            )
            hint = Hint("prune", label=label)
        return ConflictDetected(msg, theirs=snapshot_id, hint=hint)

    async def look_again(self) -> None:
        """Look at the label anew, after something was written, so that the vault shows how old the rest is."""
        session, scratch = self.session, None
        if not any(arrived.wrote for arrived in self.arrived.values()):
            await room.require_operations(session, 2, "telling how old a leftover is")
            scratch = await show_time(session, self._here)
        self._here = await self._look()
        require_no_rollback(self._here)
        # What is brought from now on may put a manifest back that one of these rested on, and then nothing would show
        # any more that it was gone.
        self._drop(self._here)
        self._rest_on(self._here)
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
        session, state = self.session, self._here
        late = abs(session.now() - self._began) > GRACE / 2
        unled = not state.first and not state.decision.pointer.generation
        rests = any(arrived.beside or (arrived.wrote and arrived.entry.packs) for arrived in self.arrived.values())
        if state is not self._before or late or unled or rests or not session.vault.conditional:
            # What was written since shows the vault's time, and whether something was removed. Where others keep what
            # a chain needs, nothing but a list that shows it beside them proves that it stays.
            state = await self._look()

        async def change(now: State) -> Move | None:
            return self._change(now)

        pointer = await self._publish(state, change)
        # Whoever removes one may not have seen what was written since.
        removed = {*pointer.removed}
        left = {
            each: (arrived.written if arrived.entry.packs else arrived.names) if arrived.wrote and each in removed
            else arrived.own
            for each, arrived in self._withdrawn.items()
        }  # fmt: skip
        await self._take_back_all(self._withdrawn, left, VaultError("it was removed while it was brought there"))
        return pointer

    def _change(self, now: State) -> Move | None:
        session, label, decision, origin = self.session, self.label, now.decision, self.origin
        require_no_rollback(now)
        if now is not self._before:
            self._drop(now)
        if not self.arrived:
            return None
        doubt = decision.rollback or decision.refusal
        if isinstance(doubt, UntrustedSnapshot):
            if now.text is not None:
                warn(f"the pointer of label {label!r} was left as it is, since it is not trusted: {doubt}")
                return None
            if not {*now.listed.manifests} <= {*self.arrived}:
                warn(f"label {label!r} is given a pointer: {doubt}")
        follow, named = self._follow(now), origin.pointer.snapshot_id
        # On the way there it goes no further than the pointer of where they come from.
        upto = [each for each in self.arrived if named is None or id_order(each) <= id_order(named)]
        newest = max(upto or self.arrived, key=id_order)
        target = newest if follow is None or id_order(newest) >= id_order(follow) else follow
        if target not in self.arrived and target not in decision.committed and target != decision.written:
            warn(
                f"label {label!r} has no pointer, and {target}, which may be the work of a backup under way: the "
                "pointer is left to that"
            )
            return None
        rows = {entry.snapshot_id: entry for entry in decision.building}
        for snapshot_id, arrived in self.arrived.items():
            noted = rows[snapshot_id].shrunk_at if snapshot_id in rows else None
            rows[snapshot_id] = replace(arrived.entry, shrunk_at=arrived.entry.shrunk_at or noted)
        if decision.written == target and all(decision.pointer.entry(each) is not None for each in self.arrived):
            return None
        if self._may_stand(now, target):
            return Move(target, (), text=origin.text)
        if not may_write(session, now):
            warn(f"the pointer of label {label!r} was left as it is: it is to be signed", hint=Hint("open", "signer"))
            if decision.pointer.entries:
                self._leave_chains()
            return None
        if session.signer is None and origin.pointer.signed:
            warn(
                f"the pointer of label {label!r} is not signed as where it came from, since it does not say what is "
                "here: clients that pin issuers refuse it",
                hint=Hint("open", "signer"),
            )
        # A history that is continued elsewhere stays the same to a witness.
        stream = self.arrived[target].stream if target in self.arrived else None
        return Move(target, rows.values(), above=self._above(), first=self._is_first(now), stream=stream)

    def _follow(self, now: State) -> str | None:
        """The latest of the label, whatever has arrived; where no pointer tells, the newest that was there."""
        decision = now.decision
        named = decision.pointer.snapshot_id
        if decision.follow == named and (named is not None or decision.pointer.generation):
            return named
        mine = {each for each, arrived in self.arrived.items() if not arrived.found}
        others = [entry.snapshot_id for entry in decision.entries if entry.snapshot_id not in mine]
        return max((each for each in others if each in decision.counted), key=id_order, default=None)

    def _drop(self, now: State) -> None:
        """Leave out what other clients removed, or may have taken for a leftover, since the label was looked at."""
        for snapshot_id, arrived in list(self.arrived.items()):
            lost = {manifest_filename(self.label, each) for each in self._withdrawn}
            if not lost.isdisjoint(arrived.beside) or was_removed(now, arrived, before=self._before):
                self._withdrawn[snapshot_id] = self.arrived.pop(snapshot_id)
                self.lost[snapshot_id] = (
                    f"snapshot {snapshot_id} of label {self.label!r} was removed by another client while it was "
                    "brought there: do it again"
                )

    def _leave_chains(self) -> None:
        """Take back the chains that a catalogue is not to list: what they need is nobody's to keep."""
        for snapshot_id, arrived in list(self.arrived.items()):
            if arrived.entry.packs and arrived.wrote:
                self._withdrawn[snapshot_id] = self.arrived.pop(snapshot_id)
                self.lost[snapshot_id] = (
                    f"snapshot {snapshot_id} of label {self.label!r} is a chain, and is kept only where a pointer "
                    "lists it, which is to be signed there"
                )

    def _may_follow(self, now: State) -> bool:
        """Whether the pointer from elsewhere may be written here as it is, once all that it lists is here."""
        origin, count = self.origin, now.decision.pointer.generation
        signed = origin.text is not None and origin.pointer.signed and self.session.signer is None
        return signed and count < self._above() and now.listed.complete

    def _may_stand(self, now: State, target: str) -> bool:
        """Whether the pointer from elsewhere says just what is here, so that its signature can stand too."""
        session, origin, pointer = self.session, self.origin, self.origin.pointer
        if origin.text is None or pointer.snapshot_id != target or not self._may_follow(now):
            return False
        theirs = read_pointer(origin.text, label=self.label)
        known = {now.decision.pointer.stream, *(read_head(seen).stream for seen in now.asked.seen)}
        if not known <= {None, theirs.stream}:
            return False  # to those who know the label it would be another history
        if session.trust.pins:
            try:
                session.trust.judge_pointer(theirs.raw)
            except UntrustedSnapshot:
                return False
        there = {*now.listed.manifests, *self.arrived}
        rows = {entry.snapshot_id: row_of(entry) for entry in pointer.entries or ()}
        mine = {each: row_of(arrived.entry) for each, arrived in self.arrived.items()}
        return rows == mine and there == rows.keys() and not there & {*pointer.removed}

    def _above(self) -> int:
        """The count of writes to go on from, so that heads keep their order for who has seen both vaults.

        What nobody has proven may be made up, and a count at its end would stay there for ever.
        """
        generation = self.origin.pointer.generation
        return generation if self.origin.proven or generation < self.session.now().timestamp() + _AHEAD else 0

    async def undo(self, error: ColonyMemoryError) -> None:
        """Remove what was written and could not be committed, as far as it is surely this client's and can be."""
        if isinstance(error, Unanswered):
            return  # it may be committed
        written = self._withdrawn | self.arrived
        await self._take_back_all(written, {each: arrived.own for each, arrived in written.items()}, error)

    async def _take_back_all(
        self, arrived: Mapping[str, Arrived], names: Mapping[str, Sequence[str]], error: ColonyMemoryError
    ) -> None:
        for chains in (True, False):
            own = {each: names[each] for each, one in arrived.items() if bool(one.entry.packs) is chains}
            await self._take_back(own, error, chains=chains)

    async def _take_back(self, names: Mapping[str, Sequence[str]], error: ColonyMemoryError, *, chains: bool) -> None:
        """Remove what was written of snapshots that came to nothing."""
        if chains:
            await take_back_chains(self.session, self.label, names, error)
            return
        for snapshot_id, own in names.items():
            if own:
                await take_back(self.session, self.label, manifest_filename(self.label, snapshot_id), own, error)
