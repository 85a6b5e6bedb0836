"""Pure: the events that ``on_event`` is called with."""

from __future__ import annotations

from typing import Literal

from colony_memory._values import Value


class Event(Value):
    """One file that a verb has read, written or deleted."""

    action: Literal["upload", "download", "delete"]  #: ``upload``, ``download`` or ``delete``.
    name: str  #: The vault file.
    done: int  #: Files of this step that are done, this one included.
    total: int  #: Files of this step.


class LifecycleEvent(Value):
    """The outcome and the cost of a verb, without any text of the memory, key or error message."""

    #: ``created``, ``reused`` (unchanged memory) or ``merged`` for a backup or an import; ``restored``; ``verified``;
    #: ``pruned``, also for what a backup removed, at a cost that is in its own event; ``fault`` for a verb that raised.
    action: Literal["created", "reused", "merged", "restored", "verified", "pruned", "fault"]
    verb: str  #: Name of the method that was called.
    label: str | None = None  #: Its label, or None.
    snapshot_id: str | None = None  #: The snapshot; None if it is about none or several.
    ok: bool = True  #: False for a fault, and for ``verified`` if something is wrong.
    seconds: float = 0.0  #: Its duration, by a clock that never goes back.
    reads: int = 0  #: Calls to the vault that read a file, a listing or the quota.
    writes: int = 0  #: Calls that wrote a file.
    deletes: int = 0  #: Calls that deleted a file.
    bytes_read: int = 0  #: Bytes of the vault files that were read.
    bytes_written: int = 0  #: Bytes of the vault files that were sent.
    count: int = 0  #: Snapshots that were saved, restored, checked or removed.
    documents: int = 0  #: Number of the snapshot's documents, or of those that were asked for.
    plain_bytes: int = 0  #: Bytes of all the snapshot's documents.
    stored_bytes: int = 0  #: Bytes of its files in the vault, 0 if unknown.
    error: str | None = None  #: Name of the error's class, for a fault.
    status: int | None = None  #: The vault's HTTP status, for a fault that has one.
    code: str | None = None  #: The vault's code, such as ``RATE_LIMIT``, for a fault that has one.

    @property
    def calls(self) -> int:
        """Calls to the vault, of every kind."""
        return self.reads + self.writes + self.deletes

    def __bool__(self) -> bool:
        return self.ok
