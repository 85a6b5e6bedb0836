"""A backend seen through one typed, checked, asynchronous surface: what the verbs are written over.

How a call is made, waiting or not, is for its two faces to say, see :mod:`colony_memory._engine.faces`.
"""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from colony_memory._boundary import may_mean_absent, public_kind, translate, unwrap, was_refused
from colony_memory._engine.label import Listing, moment, proves, read_listing
from colony_memory._engine.observe import tally
from colony_memory._format import FORMAT, FORMAT_2
from colony_memory._format.names import common_start, read_filename
from colony_memory._values import NamedTuple
from colony_memory.exceptions import SnapshotCorrupt, VaultError, VaultUnavailable
from colony_memory.vaults import (
    ConditionalUpload,
    FileLookup,
    FreeSpace,
    ManyDeletion,
    OperationBudget,
    OperationReset,
    PrefixListing,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    ReadFile = Callable[[str], Awaitable["StoredFile | None"]]
    Tell = Callable[[Literal["upload", "download", "delete"], str, int, int], None]

_T = TypeVar("_T")

#: For :meth:`Vault.put`: write whatever is there; write only where nothing is there.
ANY, ABSENT = "", "*"


def nobody(_name: str) -> None:
    """Hears of what was read where nobody asked."""


class StoredFile(NamedTuple):
    content: str
    etag: str | None


class _Room:
    """Memory that files which are read at once may take: a manifest may name thousands, and any size may come."""

    def __init__(self, left: int | None) -> None:
        self._left, self._lock = left, threading.Lock()

    def take(self, name: str, content: str = "") -> None:
        """Raise a SnapshotCorrupt where there is none left, with this text or, before it is asked for, without."""
        if self._left is None:
            return
        with self._lock:
            # One wide character makes all of a text take four times as much.
            self._left -= len(content) * (1 if content.isascii() else 4)
            if self._left < 0:
                raise SnapshotCorrupt(f"{name}, and what belongs to it, is larger than it may be", file=name)


class Shelf:
    """Packs that were read for one snapshot, for the others that need them: those used last, up to some characters.

    ``ahead`` are files that were read before they were asked for, None for one that is not there; they are used up.
    """

    def __init__(self, room: int, ahead: Mapping[str, StoredFile | None] | None = None) -> None:
        self._room, self._packs, self.ahead = room, dict[str, StoredFile](), dict(ahead or {})

    def find(self, names: Iterable[str]) -> dict[str, StoredFile | None]:
        found = {name: self.ahead.pop(name) for name in names if name in self.ahead}
        packs = {name: self._packs.pop(name) for name in names if name in self._packs}
        self._packs |= packs  # which are the last to go
        self.keep(found)
        return found | packs

    def keep(self, files: Mapping[str, StoredFile | None]) -> None:
        """Put those of these on it that are packs: no other file is more than one snapshot's."""
        for name, file in files.items():
            known = read_filename(name)
            if file is not None and name not in self._packs and known is not None and known.kind == "pack":
                self._packs[name] = file
                self._room -= len(file.content)
        while self._room < 0:
            self._room += len(self._packs.pop(next(iter(self._packs))).content)


class Vault:
    def __init__(self, backend: Any) -> None:
        self.backend = backend
        self.conditional = _offers(backend, ConditionalUpload)
        #: Whether there is no quota to ask for, which may cost a listing of everything.
        self.unlimited = getattr(backend, "unlimited", False) is True
        self._prefixes = _offers(backend, PrefixListing)
        self._lookup = _offers(backend, FileLookup)
        self._budget, self._resets = _offers(backend, OperationBudget), _offers(backend, OperationReset)
        self._free, self._deletes_many = _offers(backend, FreeSpace), _offers(backend, ManyDeletion)

    @property
    def snapshot_format(self) -> str:
        """The format that snapshots are to be written in where nobody says one, as far as the vault tells by now."""
        told = getattr(self.backend, "snapshot_format", None)
        return FORMAT_2 if told == 2 and self.conditional else FORMAT

    async def _call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def new_lock(self) -> threading.Lock:
        raise NotImplementedError

    async def acquire(self, lock: threading.Lock) -> None:
        """Wait for a lock, without keeping anything from going on that may have it."""
        raise NotImplementedError

    async def compute(self, function: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
        """Run something that takes long and waits for nothing."""
        raise NotImplementedError

    async def change(self, function: Callable[..., _T], *args: Any) -> _T:
        """Run something that changes what is elsewhere; its end is waited for, whoever is cancelled."""
        return await self.compute(function, *args)

    async def gather(
        self, names: list[str], told: Callable[[str], None] = nobody, read: ReadFile | None = None
    ) -> list[StoredFile | None]:
        """Read several files at once, in the order of the names, with ``read`` in place of :meth:`get`; ``told`` of
        each that was read.
        """
        raise NotImplementedError

    async def status(self) -> dict[str, Any]:
        reply = unwrap(await self._ask("asking for the quota", "vault_status"))
        if not isinstance(reply, dict):
            raise VaultUnavailable("the vault's status is not readable, try again")
        return reply

    async def list(self, prefix: str) -> Listing:
        return read_listing(await self._list(prefix), prefix)

    async def _list(self, prefix: str) -> Any:
        doing = f"listing {prefix}*"
        if self._prefixes:
            return await self._ask(doing, "vault_list_prefix", prefix[:255])  # what the hosted vault takes at most
        return await self._ask(doing, "vault_list_files")

    async def look_up(self, names: Sequence[str]) -> Listing:
        """Those of certain files that are there, each at some moment after this was called."""
        prefix = common_start(names)
        if self._lookup:
            reply = await self._ask(f"looking up {prefix}*", "vault_look_up_files", names)
        else:
            reply = await self._list(prefix)  # of thousands of files only those of about the same age
        return read_listing(reply, prefix, only={*names})

    async def get(self, name: str) -> StoredFile | None:
        """A file, or None where the vault has proven that it is not there.

        Absence is a 404 with a code, or a complete listing without the name. Everything else raises.
        """
        doing = f"reading {name}"
        try:
            reply = await self._ask(doing, "vault_get_file", name)
        except VaultError as error:
            if error.status == 404 and error.code is not None:
                return None
            if not may_mean_absent(error):
                raise
            # No word of the vault's own: a wrong address answers 404 too, and some backends know no status.
            listing = await self.list(name)
            if name in listing.files or not listing.complete:
                raise
            return None
        reply = unwrap(reply)
        content = reply.get("content") if isinstance(reply, dict) else None
        if not isinstance(content, str):
            msg = f"{doing} failed: the reply has no content, which says nothing about what is stored; try again"
            raise VaultUnavailable(msg)
        own = tally()
        if own is not None:
            own.came(content)
        etag = reply.get("etag")
        return StoredFile(content, etag if isinstance(etag, str) else None)

    async def get_many(
        self, names: Iterable[str], tell: Tell | None = None, *, at_most: int | None = None, shelf: Shelf | None = None
    ) -> dict[str, StoredFile | None]:
        """Several files by name; ``tell`` hears ``("download", name, done, total)`` of each.

        Packs that are on the ``shelf`` are taken from there, and those that are read are put on it.
        """
        room, names = _Room(at_most), dict.fromkeys(names)
        found = dict[str, StoredFile | None]() if shelf is None else shelf.find(names)
        for name, file in found.items():
            room.take(name, "" if file is None else file.content)
        names, done = [name for name in names if name not in found], itertools.count(1)

        def told(name: str) -> None:
            if tell is not None:
                tell("download", name, next(done), len(names))

        async def read(name: str) -> StoredFile | None:
            room.take(name)
            file = await self.get(name)
            if file is not None:
                room.take(name, file.content)
            return file

        files = dict(zip(names, await self.gather(names, told, read), strict=True))
        if shelf is not None:
            shelf.keep(files)
        return found | files

    async def put(self, name: str, content: str, *, match: str = ANY) -> datetime | None:
        """Write a file and give the vault's time of the write.

        It is done when the reply proves it: with the file's name, and the bytes that were sent as its size. Else the
        file is read back and compared.

        Args:
            match: :data:`ANY`, :data:`ABSENT`, or the ``etag`` that it must still have. Without conditional upload
                this is not looked at.
        """
        doing = f"writing {name}"
        try:
            if not self.conditional or match == ANY:
                reply = await self._ask(doing, "vault_upload_file", name, content)
            else:
                condition = {"if_none_match": "*"} if match == ABSENT else {"if_match": match}
                reply = await self._ask(doing, "vault_upload_file_if", name, content, **condition)
        except VaultError as error:
            if was_refused(error):
                raise
            await self._settle(name, content, error)
            return None
        reply = unwrap(reply)
        if not proves(reply, name, len(content.encode("utf-8", "surrogatepass")), doing):
            unproven = VaultUnavailable(f"{doing} failed: the reply does not say that the file was stored")
            await self._settle(name, content, unproven)
            return None
        return moment(reply.get("updated_at"))

    async def _settle(self, name: str, content: str, error: VaultError) -> None:
        """Find out whether a write that got no clear answer was applied."""
        try:
            stored = await self.get(name)
        except VaultError as unread:
            msg = f"{error.message}; it could not be read back either ({unread.message})"
            raise Unanswered(msg, status=error.status, code=error.code, hint=error.hint) from error
        if stored is not None and stored.content == content:
            return
        if error.status == 412:
            raise Changed(error.message, status=412, code=error.code) from error
        if error.status is None:
            # No reply at all: the request may still be on its way, and arrive after it was looked for.
            msg = f"{error.message}; it was not there yet when it was read back"
            raise Unanswered(msg, code=error.code, hint=error.hint) from error
        raise error

    async def delete(self, name: str) -> None:
        try:
            await self._ask(f"deleting {name}", "vault_delete_file", name)
        except VaultError as error:
            if error.status == 404 and error.code is not None:
                return
            if error.status != 404 and was_refused(error):
                raise
            if await self.get(name) is not None:
                raise

    async def delete_all(self, names: Sequence[str]) -> bool:
        """Remove files with one request; false where that is not done, and any of them may be gone."""
        if not self._deletes_many or len(names) < 2:
            return False
        try:
            await self._ask(f"deleting {names[0]} and others", "vault_delete_files", names)
        except VaultError:  # which the deletion of each tells for certain
            return False
        return True

    async def free_bytes(self) -> int | None:
        return await self._number(self._free, "asking for the free space", "vault_free_bytes")

    @property
    def counts_operations(self) -> bool:
        return bool(self._budget)

    async def operations_left(self) -> int | None:
        """Uploads and deletes that the vault still takes this hour, None where it does not tell."""
        return await self._number(self._budget, "asking for the operations left", "vault_operations_left")

    async def operations_reset(self) -> int | None:
        """Seconds until all of them are back, None where it does not tell."""
        return await self._number(self._resets, "asking when they are back", "vault_operations_reset")

    async def _number(self, offered: bool, doing: str, method: str) -> int | None:
        number = await self._ask(doing, method) if offered else None
        return number if isinstance(number, int) else None

    async def _ask(self, doing: str, method: str, *args: Any, **kwargs: Any) -> Any:
        own = tally()
        if own is not None:
            own.asked(method, args)
        try:
            return await self._call(method, *args, **kwargs)
        except Exception as error:
            translated = translate(error, doing)
            if translated is error:
                raise
            raise translated from error


def _offers(backend: object, protocol: type) -> bool:
    """True if a backend has the methods of a protocol: on its class, or put on it as its own.

    What answers to every name that it is asked for, as a mock does, can do no more for that, even one of what can.
    """
    own = [name for name, each in getattr(backend, "__dict__", {}).items() if not hasattr(each, "assert_called_with")]
    return all(hasattr(type(backend), name) or name in own for name in vars(protocol) if name.startswith("vault_"))


class Unanswered(VaultUnavailable):
    """A write got no answer and could not be read back. Never leaves the package."""


class Changed(VaultError):
    """A conditional write met another text than expected. Never leaves the package."""


def to_public(error: VaultError, more: str = "") -> VaultError:
    """The same error as it may leave the package, with more said at its end."""
    kind: type[VaultError] = public_kind(error)
    msg = f"{error.message}; {more}" if more else error.message
    return kind(msg, status=error.status, code=error.code, retry_after=error.retry_after, hint=error.hint)
