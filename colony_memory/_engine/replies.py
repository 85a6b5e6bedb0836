"""Pure: what a backend's replies say. Each is somebody else's, and checked before anything is made of it."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from colony_memory._values import cached_property, dataclass
from colony_memory.exceptions import VaultError, VaultUnavailable

if TYPE_CHECKING:
    from collections.abc import Container, Mapping


class ListedFile:
    """A file in a listing.

    Attributes:
        size: Bytes, None where the vault does not tell.
    """

    __slots__ = ("_updated", "size")

    def __init__(self, size: int | None, updated: datetime | object) -> None:
        self.size = size
        self._updated = updated

    @property
    def updated(self) -> datetime | None:
        """The vault's time of the last write, None where it does not tell. Of most files nobody asks for it."""
        if not isinstance(self._updated, datetime):
            self._updated = moment(self._updated)
        return self._updated

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ListedFile) and (self.size, self.updated) == (other.size, other.updated)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ListedFile({self.size!r}, {self.updated!r})"


@dataclass(frozen=True)
class Listing:
    """The files whose names start with ``prefix``; ``complete`` is false where the vault cut the list.

    ``clock`` is the time at which it was made, where the vault says so. ``written`` is a later time at which a file is
    taken to be written.
    """

    prefix: str
    files: Mapping[str, ListedFile]
    complete: bool = True
    clock: datetime | None = None
    written: datetime | None = None

    @cached_property
    def now(self) -> datetime | None:
        """Newest time that the vault shows of any of them, None where it shows none."""
        shown = max((stored.updated for stored in self.files.values() if stored.updated is not None), default=None)
        return shown if None in (shown, self.written) else max(shown, self.written)  # type: ignore[type-var]

    @property
    def reached(self) -> datetime | None:
        """The same, but nothing that is still to come: in a directory that was written to while a clock was wrong, one
        file would make all others look old, those of this minute too.
        """
        return self.now if None in (self.now, self.clock) else min(self.now, self.clock)  # type: ignore[type-var]

    def need_complete(self, doing: str) -> None:
        """Raise a VaultError where the list is cut, since then nothing can be said of what it does not name."""
        if not self.complete:
            why = f"the vault's list of {self.prefix}* is cut short, so files that matter may be hidden"
            raise VaultError(f"{doing} is refused: {why}")


def unwrap(reply: Any) -> Any:
    """A reply may be bare or under ``"result"``."""
    if isinstance(reply, dict) and isinstance(reply.get("result"), (dict, list)):
        return reply["result"]
    return reply


def read_listing(reply: Any, prefix: str, *, only: Container[str] | None = None) -> Listing:
    """A reply that lists files, of which those whose names start so are taken, or only certain ones of them."""
    reply, complete, clock = unwrap(reply), True, None
    items = reply
    if isinstance(reply, dict):
        clock = moment(reply.get("now"))
        items = reply["items"] if reply.get("items") is not None else reply.get("files")
        total = reply.get("total")
        complete = not reply.get("has_more") and not reply.get("next_cursor")
        if isinstance(items, list) and isinstance(total, int) and total > len(items):
            complete = False
    if not isinstance(items, list):
        # An empty vault answers with an empty list; a torn reply must not read as one.
        msg = f"listing {prefix}* failed: the reply has no list of files, try again"
        raise VaultUnavailable(msg)
    files = {}
    for item in items:
        entry = item if isinstance(item, dict) else {"filename": item}
        name = entry.get("filename") or entry.get("name")
        if not isinstance(name, str):
            msg = f"listing {prefix}* failed: the reply has a file name that is no string, try again"
            raise VaultUnavailable(msg)
        if name.startswith(prefix) and (only is None or name in only):
            size = entry.get("content_size")
            files[name] = ListedFile(size if isinstance(size, int) else None, entry.get("updated_at"))
    return Listing(prefix, files, complete, clock)


def moment(text: object) -> datetime | None:
    """A time as the vault writes it, or None. Without a zone it is UTC."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)


def proves(reply: Any, name: str, size: int, doing: str) -> bool:
    """Whether the reply to an upload names the file and its size."""
    if not isinstance(reply, dict):
        return False
    named, stored = reply.get("filename", reply.get("name")), reply.get("content_size")
    if isinstance(named, str) and named != name:
        msg = f"{doing} failed: the vault says that it stored {named[:300]!r}"
        raise VaultError(msg)
    if type(stored) is int and stored != size:
        msg = f"{doing} failed: the vault stored {stored} bytes of {size}"
        raise VaultError(msg)
    return isinstance(named, str) and type(stored) is int
