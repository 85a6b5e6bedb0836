"""What a transfer makes of the pointer: whether it may be written, and what it is to say of what has arrived.

The pointer of the label that snapshots come from, and how far it may follow them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from colony_memory._engine.publish import Move, may_write
from colony_memory._engine.session import warn
from colony_memory._format.catalog import Entry, few_lines
from colony_memory._format.head import read_head
from colony_memory._format.names import id_order
from colony_memory._format.pointer import Pointer, read_pointer
from colony_memory.exceptions import ConflictDetected, Hint, UntrustedSnapshot
from colony_memory.trust import previous_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from colony_memory._engine.session import Session
    from colony_memory._engine.state import State
    from colony_memory._engine.transfer.whole import Arrivals, Arrived, Whole
    from colony_memory.snapshot import SnapshotInfo


# Seconds by which a count of writes that was taken up from the time may run ahead of it.
_AHEAD = 86_400


@dataclass(frozen=True)
class Origin:
    """The pointer of the label that snapshots come from.

    Attributes:
        pointer: What it says, as far as it is believed.
        proven: A trusted issuer signed it.
        text: Its text, where everything that it lists has come along.
    """

    pointer: Pointer
    proven: bool = False
    text: str | None = None

    def above(self, session: Session) -> int:
        """The count of writes to go on from, so that heads keep their order for who has seen both vaults.

        What nobody has proven may be made up, and a count at its end would stay there for ever.
        """
        generation = self.pointer.generation
        return generation if self.proven or generation < session.now().timestamp() + _AHEAD else 0

    def may_follow(self, session: Session, here: State) -> bool:
        """Whether it may be written here as it is, once all that it lists is here."""
        signed = self.text is not None and self.pointer.signed and session.signer is None
        return signed and here.decision.pointer.generation < self.above(session) and here.listed.complete

    def may_stand(self, session: Session, here: State, target: str, arrived: Iterable[Entry]) -> bool:
        """Whether it says just what is here, so that its signature can stand too.

        Args:
            session: The client that writes.
            here: The label that it writes to.
            target: The snapshot that is to be the latest.
            arrived: What it has brought.
        """
        pointer = self.pointer
        if self.text is None or pointer.snapshot_id != target or not self.may_follow(session, here):
            return False
        theirs = read_pointer(self.text, label=here.label)
        known = {here.decision.pointer.stream, *(read_head(seen).stream for seen in here.asked.seen)}
        if not known <= {None, theirs.stream}:
            return False  # to those who know the label it would be another history
        if session.trust.pins:
            try:
                session.trust.judge_pointer(theirs.raw)
            except UntrustedSnapshot:
                return False
        rows = {entry.snapshot_id: _row_of(entry) for entry in pointer.entries or ()}
        mine = {entry.snapshot_id: _row_of(entry) for entry in arrived}
        there = {*here.listed.manifests, *mine}
        return rows == mine and there == rows.keys() and not there & {*pointer.removed}


def _row_of(entry: Entry) -> tuple[str, SnapshotInfo]:
    """What two catalogues have to say alike of a snapshot."""
    return entry.manifest_sha256, replace(
        entry.info,
        pinned=False,
        pinned_until=None,
        head="",
        refused=False,  # a row may say so of one whose manifest could not yet
        incomplete=few_lines(entry.info.incomplete),
    )


def looks_put_back(here: State, whole: Whole) -> bool:
    """Whether a snapshot that no pointer lists yet would show readers that the pointer was put back, or taken away.

    It names the one that it was made upon, and that is newer than what the pointer names.
    """
    decision, before, info = here.decision, previous_of(whole.manifest.raw), whole.manifest.info
    pointer = decision.pointer
    if before is None or not info.signed or pointer.entry(info.snapshot_id) or pointer.brings(info.snapshot_id):
        return False
    if not pointer.generation:
        return not decision.signs
    named = max(id_order(pointer.snapshot_id or ""), id_order(pointer.went_back_from or ""))
    return min(id_order(info.snapshot_id), id_order(before[0])) > named


def require_signer(session: Session, here: State, origin: Origin, whole: Whole) -> None:
    """Refuse what only a signed pointer can list, where this client signs none and none follows from elsewhere.

    Raises:
        ConflictDetected: It takes a signer.
    """
    if may_write(session, here):
        return
    snapshot_id, decision = whole.snapshot_id, here.decision
    if snapshot_id in decision.pointer.gone:
        why = "was deleted there, and the pointer that says so is signed: to list it again takes a signer"
    elif decision.signed and looks_put_back(here, whole) and not origin.may_follow(session, here):
        why = (
            "was made after others that the signed pointer there does not know of: until a signer lists it, "
            "clients that pin issuers take that pointer for one that was put back"
        )
    else:
        return
    msg = f"snapshot {snapshot_id} of label {here.label!r} {why}"
    raise ConflictDetected(msg, theirs=None, hint=Hint("open", "signer"))


def list_arrivals(session: Session, now: State, arrivals: Arrivals, origin: Origin, *, first: bool) -> Move | None:
    """What the pointer is to say, None where it stays as it is.

    It names the newest that has arrived unless it names something newer, and goes no further than where they come from.

    Args:
        session: The client.
        now: The label.
        arrivals: What has arrived; chains that are not to be listed are left out of it.
        origin: Where they come from.
        first: All that the label has is what has arrived.
    """
    label, decision, there = now.label, now.decision, arrivals.there
    if not there:
        return None
    doubt = decision.rollback or decision.refusal
    if isinstance(doubt, UntrustedSnapshot):
        if now.text is not None:
            warn(f"the pointer of label {label!r} was left as it is, since it is not trusted: {doubt}")
            return None
        if not {*now.listed.manifests} <= {*there}:
            warn(f"label {label!r} is given a pointer: {doubt}")
    target = _target(now, there, origin)
    if target not in there and target not in decision.committed and target != decision.written:
        warn(
            f"label {label!r} has no pointer, and its newest snapshot {target} may be the work of a backup under way: "
            "the pointer is left for that to write"
        )
        return None
    if decision.written == target and all(decision.pointer.entry(each) is not None for each in there):
        return None
    if origin.may_stand(session, now, target, [arrived.entry for arrived in there.values()]):
        return Move(target, (), text=origin.text)
    if not may_write(session, now):
        warn(
            f"the pointer of label {label!r} was left as it is: it has to be signed, and this client does not sign",
            hint=Hint("open", "signer"),
        )
        if decision.pointer.entries:
            arrivals.leave_chains()
        return None
    if session.signer is None and origin.pointer.signed:
        warn(
            f"the pointer of label {label!r} is not signed, unlike the one where the snapshots came from, which lists "
            "others than are here: clients that pin issuers refuse it",
            hint=Hint("open", "signer"),
        )
    rows = {entry.snapshot_id: entry for entry in decision.building}
    for snapshot_id, arrived in there.items():
        known = rows[snapshot_id] if snapshot_id in rows and arrived.entry.shrunk_at is None else arrived.entry
        rows[snapshot_id] = replace(arrived.entry, shrunk_at=known.shrunk_at, spoiled=known.spoiled)
    # A history that is continued elsewhere stays the same to a witness.
    stream = there[target].stream if target in there else None
    unmerged = (*now.unmerged, *(one for one in origin.pointer.unmerged if one.snapshot_id in there))
    return Move(target, rows.values(), above=origin.above(session), first=first, stream=stream, unmerged=unmerged)


def _target(now: State, there: Mapping[str, Arrived], origin: Origin) -> str:
    """The snapshot to name. On the way there the pointer goes no further than that of where they come from."""
    follow, named = _latest_before(now, there), origin.pointer.snapshot_id
    upto = [each for each in there if named is None or id_order(each) <= id_order(named)]
    newest = max(upto or there, key=id_order)
    return newest if follow is None or id_order(newest) >= id_order(follow) else follow


def _latest_before(now: State, there: Mapping[str, Arrived]) -> str | None:
    """The latest of the label, whatever has arrived; where no pointer tells, the newest that was there."""
    decision = now.decision
    named = decision.pointer.snapshot_id
    if decision.follow == named and (named is not None or decision.pointer.generation):
        return named
    mine = {each for each, arrived in there.items() if not arrived.found}
    others = [entry.snapshot_id for entry in decision.entries if entry.snapshot_id not in mine]
    return max((each for each in others if each in decision.counted), key=id_order, default=None)
