"""The pointer of the label that snapshots come from, and how far it may follow them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from colony_memory._format.catalog import Entry, few_lines
from colony_memory._format.head import read_head
from colony_memory._format.pointer import Pointer, read_pointer
from colony_memory.exceptions import UntrustedSnapshot

if TYPE_CHECKING:
    from collections.abc import Iterable

    from colony_memory._engine.session import Session
    from colony_memory._engine.state import State
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
