"""What has come to a label, and whether it is still there to be listed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from colony_memory._engine.label import GRACE
from colony_memory._engine.rely import is_committed
from colony_memory._format.catalog import Entry, few_lines
from colony_memory._format.names import manifest_filename

if TYPE_CHECKING:
    from colony_memory._engine.state import State
    from colony_memory._format.pointer import Pointer
    from colony_memory.snapshot import SnapshotInfo


@dataclass(frozen=True)
class Arrived:
    """A snapshot that is at its destination, committed or not.

    Attributes:
        entry: Its row in the catalogue.
        stream: The history that it was made in.
        names: The files that it needs.
        found: Whether it was there before, in part or as a whole.
        written: Those that were not there.
        own: Those of them that the vault said this client has made.
        beside: Manifests of others, without which nothing keeps the packs of theirs that it needs.
    """

    entry: Entry
    stream: str | None
    names: tuple[str, ...]
    found: bool
    written: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()

    @property
    def wrote(self) -> bool:
        """Whether anything of it was written."""
        return bool(self.written)

    @property
    def info(self) -> SnapshotInfo:
        """The summary."""
        return self.entry.info


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


def was_removed(now: State, arrived: Arrived, *, before: State) -> bool:
    """Whether others removed something of a snapshot, or may have taken it for a leftover, since the label was looked
    at.

    Args:
        now: The label, in a listing that was made after the snapshot's manifest was written.
        arrived: The snapshot.
        before: The label as it was looked at before.
    """
    files, pointer, snapshot_id = now.listed, now.decision.pointer, arrived.entry.snapshot_id
    if files.complete and any(name not in files.files for name in (*arrived.names, *arrived.beside)):
        return True
    if pointer.entry(snapshot_id) is not None:
        return False
    if arrived.entry.packs and not _is_proven(now, arrived):
        return True
    if now.text == before.text:
        return False
    if snapshot_id in pointer.removed or (arrived.found and not is_committed(now, snapshot_id)):
        return True
    written = files.written([manifest_filename(now.label, snapshot_id)])
    return arrived.wrote and written is not None and files.now is not None and files.now - written[0] >= GRACE


def _is_proven(now: State, arrived: Arrived) -> bool:
    """Whether nobody can have taken the new files of a chain for leftovers before its manifest was there."""
    files = now.listed
    written = files.written(arrived.written)
    return files.complete and (written is None or max(written) - min(written) < GRACE)


def require_no_rollback(state: State) -> None:
    """Raise a RollbackDetected where the label was set back, and is not gone as a whole."""
    if state.decision.rollback is not None and state.text is not None:
        raise state.decision.rollback


def row_of(entry: Entry) -> tuple[str, SnapshotInfo]:
    """What two catalogues have to say alike of a snapshot."""
    return entry.manifest_sha256, replace(
        entry.info, pinned=False, head="", incomplete=few_lines(entry.info.incomplete)
    )
