"""Pure: what ``on_event`` is told."""

from __future__ import annotations

from typing import Literal

from colony_memory._values import Value


class Event(Value):
    """One file that a verb has read, written or deleted.

    Attributes:
        action: ``upload``, ``download`` or ``delete``.
        name: The vault file.
        done: Files of this step that are done, this one included.
        total: Files of this step.
    """

    action: Literal["upload", "download", "delete"]
    name: str
    done: int
    total: int


class LifecycleEvent(Value):
    """How a verb ended and what it cost, without any text of the memory, key or error message.

    Attributes:
        action: ``created``, ``reused`` (unchanged memory) or ``merged`` for a backup or an import; ``restored``;
            ``verified``; ``pruned``, also for what a backup removed, whose cost is in the backup's own event;
            ``fault`` for a verb that raised.
        verb: Name of the method that was called.
        label: Its label, or None.
        snapshot_id: The snapshot; None if it is about none or several.
        ok: False for a fault, and for ``verified`` if something is wrong.
        seconds: How long it took, by a clock that never goes back.
        reads: Calls to the vault that read a file, a listing or the quota.
        writes: Calls that wrote a file.
        deletes: Calls that deleted a file.
        bytes_read: Bytes of the vault files that were read.
        bytes_written: Bytes of the vault files that were sent.
        count: Snapshots that were saved, restored, checked or removed.
        documents: Number of the snapshot's documents, or of those that were asked for.
        plain_bytes: Bytes of all the snapshot's documents.
        stored_bytes: Bytes of its files in the vault, 0 if unknown.
        error: Name of the error's class, for a fault.
        status: The vault's HTTP status, for a fault that has one.
        code: The vault's code, such as ``RATE_LIMIT``, for a fault that has one.
    """

    action: Literal["created", "reused", "merged", "restored", "verified", "pruned", "fault"]
    verb: str
    label: str | None = None
    snapshot_id: str | None = None
    ok: bool = True
    seconds: float = 0.0
    reads: int = 0
    writes: int = 0
    deletes: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    count: int = 0
    documents: int = 0
    plain_bytes: int = 0
    stored_bytes: int = 0
    error: str | None = None
    status: int | None = None
    code: str | None = None

    @property
    def calls(self) -> int:
        """Calls to the vault, of every kind."""
        return self.reads + self.writes + self.deletes

    def __bool__(self) -> bool:
        return self.ok
