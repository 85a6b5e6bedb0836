"""A backend seen through one typed, checked, asynchronous surface: what the verbs are written over, in two faces."""

from __future__ import annotations

import itertools
import threading
import time
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from colony_memory._boundary import drive, is_coroutine, may_mean_absent, public_kind, translate, unwrap, was_refused
from colony_memory._engine.label import Listing, moment, proves, read_listing
from colony_memory._engine.observe import tally
from colony_memory._format import FORMAT, FORMAT_2
from colony_memory._format.names import common_start, read_filename
from colony_memory._values import NamedTuple
from colony_memory.exceptions import SnapshotCorrupt, VaultError, VaultUnavailable
from colony_memory.vaults import (
    ConditionalUpload,
    FileLookup,
    ManyDeletion,
    OperationBudget,
    PrefixListing,
    VaultBackend,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence
    from datetime import datetime

    ReadFile = Callable[[str], Awaitable["StoredFile | None"]]
    Tell = Callable[[Literal["upload", "download", "delete"], str, int, int], None]

_T = TypeVar("_T")
#: Reads at once.
READERS = 12
# Seconds; a call that takes less is not worth a thread.
_FAST = 0.002
# Seconds between two looks whether a lock is free.
_SHORTEST, _LONGEST = 0.001, 0.05
# Calls that change the vault.
_CHANGES = frozenset({"vault_upload_file", "vault_upload_file_if", "vault_delete_file"})

#: For :meth:`Vault.put`: write whatever is there; write only where nothing is there.
ANY, ABSENT = "", "*"


class StoredFile(NamedTuple):
    content: str
    etag: str | None


class Shelf:
    """Packs that were read, those used last up to some characters, and files read ahead, None for one not there."""

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
    """Over a backend of plain methods. No await here ever suspends, so that a verb is driven without an event loop."""

    def __init__(self, backend: Any) -> None:
        self.backend, self._pace = backend, 0.0
        self.conditional = _offers(backend, ConditionalUpload)
        #: Whether there is no quota to ask for, which may cost a listing of everything.
        self.unlimited = getattr(backend, "unlimited", False) is True
        self._prefixes = _offers(backend, PrefixListing)
        self._lookup, self._deletes_many = _offers(backend, FileLookup), _offers(backend, ManyDeletion)
        self.counts_operations = _offers(backend, OperationBudget)

    @property
    def snapshot_format(self) -> str:
        """The format that snapshots are to be written in where nobody says one, as far as the vault tells by now."""
        told = getattr(self.backend, "snapshot_format", None)
        return FORMAT_2 if told == 2 and self.conditional else FORMAT

    async def _call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        begin = time.perf_counter()
        try:
            reply = getattr(self.backend, method)(*args, **kwargs)
        finally:
            self._pace = time.perf_counter() - begin
        if hasattr(type(reply), "__await__"):
            if hasattr(reply, "close"):
                reply.close()
            raise VaultUnavailable("this backend is asynchronous: use AsyncColonyMemory")
        return reply

    def new_lock(self) -> threading.Lock:
        return threading.RLock()  # type: ignore[return-value] # which is used as the other is

    async def acquire(self, lock: threading.Lock) -> None:
        """Wait for a lock, without keeping anything from going on that may have it."""
        lock.acquire()

    async def compute(self, function: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
        """Run something that takes long and waits for nothing."""
        return function(*args, **kwargs)

    async def change(self, function: Callable[..., _T], *args: Any) -> _T:
        """Run something that changes what is elsewhere; its end is waited for, whoever is cancelled."""
        return await self.compute(function, *args)

    async def gather(self, names: list[str], told: Callable[[str], None], read: ReadFile) -> list[StoredFile | None]:
        """Read several files at once, in the order of the names; ``told`` hears of each that was read."""
        left, out = list(names), list[StoredFile | None]()
        # Threads pay off where a read waits for a network; a vault in memory or on disk is read as fast in turn.
        while left and (self._pace < _FAST or len(left) == 1):
            name = left.pop(0)
            out.append(await read(name))
            told(name)
        return out + self._read_at_once(left, told, read) if left else out

    def _read_at_once(self, names: list[str], told: Callable[[str], None], read: ReadFile) -> list[StoredFile | None]:
        def read_one(name: str) -> StoredFile | None:
            return drive(read(name))  # type: ignore[arg-type] # which is a coroutine

        try:
            from concurrent.futures import ThreadPoolExecutor

            pool = ThreadPoolExecutor(min(READERS, len(names)), "colony-memory-read")
            # Each in a copy of this context, so that it counts for this verb.
            futures = [pool.submit(copy_context().run, read_one, name) for name in names]
        except (ImportError, RuntimeError):
            # At the interpreter's exit no thread starts and nothing is imported; nor where a process gave up the right
            # to read Python's own files. A backup still has to read.
            return list(map(read_one, names))
        with pool:
            try:
                out = []
                for name, future in zip(names, futures, strict=True):
                    out.append(future.result())
                    told(name)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return out

    async def status(self) -> dict[str, Any]:
        reply = unwrap(await self._ask("asking for the quota", "vault_status"))
        if not isinstance(reply, dict):
            raise VaultUnavailable("the vault's status is not readable, try again")
        return reply

    async def list(self, prefix: str, *, only: Container[str] | None = None) -> Listing:
        # What the hosted vault takes at most
        call = ("vault_list_prefix", prefix[:255]) if self._prefixes else ("vault_list_files",)
        return read_listing(await self._ask(f"listing {prefix}*", *call), prefix, only=only)

    async def look_up(self, names: Sequence[str]) -> Listing:
        """Those of certain files that are there, each at some moment after this was called."""
        prefix = common_start(names)
        if not self._lookup:
            return await self.list(prefix, only={*names})  # of thousands of files only those of about the same age
        reply = await self._ask(f"looking up {prefix}*", "vault_look_up_files", names)
        return read_listing(reply, prefix, only={*names})

    async def get(self, name: str) -> StoredFile | None:
        """A file, or None where that it is not there is proven: by a 404 with a code, or a complete listing."""
        doing = f"reading {name}"
        try:
            reply = await self._ask(doing, "vault_get_file", name)
        except VaultError as error:
            if error.status == 404 and error.code is not None:
                return None
            if error.code in _UNREADABLE:
                raise to_public(error, kind=Unreadable) from error.__cause__
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
        """Several files by name; ``tell`` hears of each. Packs are taken from the ``shelf``, and put on it."""
        lock, left, names = threading.Lock(), at_most, dict.fromkeys(names)

        def take(name: str, content: str = "") -> None:
            nonlocal left
            with lock:  # one wide character makes all of a text take four times as much
                left = None if left is None else left - len(content) * (1 if content.isascii() else 4)
                if left is not None and left < 0:  # a manifest may name thousands, and any size may come
                    raise SnapshotCorrupt(f"{name}, and what belongs to it, is larger than it may be", file=name)

        found = dict[str, StoredFile | None]() if shelf is None else shelf.find(names)
        for name, file in found.items():
            take(name, "" if file is None else file.content)
        names, done = [name for name in names if name not in found], itertools.count(1)

        def told(name: str) -> None:
            if tell is not None:
                tell("download", name, next(done), len(names))

        async def read(name: str) -> StoredFile | None:
            take(name)
            file = await self.get(name)
            if file is not None:
                take(name, file.content)
            return file

        files = dict(zip(names, await self.gather(names, told, read), strict=True))
        if shelf is not None:
            shelf.keep(files)
        return found | files

    async def put(self, name: str, content: str, *, match: str = ANY) -> datetime | None:
        """Write a file and give the vault's time of the write.

        It is done when the reply proves it: with the file's name, and the bytes that were sent as its size. Else the
        file is read back and compared. ``match`` is :data:`ANY`, :data:`ABSENT`, or the ``etag`` that it must still
        have; without conditional upload it is not looked at.
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
            unsure = error
        else:
            reply = unwrap(reply)
            if proves(reply, name, len(content.encode("utf-8", "surrogatepass")), doing):
                return moment(reply.get("updated_at"))
            unsure = VaultUnavailable(f"{doing} failed: the reply does not say that the file was stored")
        await self._settle(name, content, unsure)
        return None

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

    async def number(self, what: Literal["free_bytes", "operations_left", "operations_reset"]) -> int | None:
        """Bytes or operations left, or seconds until these are back; None where the vault does not tell."""
        method = f"vault_{what}"
        told = await self._ask(f"asking for {what.replace('_', ' ')}", method) if _has(self.backend, method) else None
        return told if isinstance(told, int) else None

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


class AsyncVault(Vault):
    """Over a backend of coroutines, or of plain methods, which then run in threads."""

    def __init__(self, backend: Any) -> None:
        super().__init__(backend)
        methods = (name for name in vars(VaultBackend) if name.startswith("vault_"))
        self._threads = not any(is_coroutine(getattr(backend, name)) for name in methods)

    async def _call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        bound = getattr(self.backend, method)
        if self._threads:
            call = _in_thread(bound, args, kwargs)
            reply = await (_to_its_end(call) if method in _CHANGES else call)
        else:
            reply = bound(*args, **kwargs)
        return await reply if hasattr(type(reply), "__await__") else reply

    def new_lock(self) -> threading.Lock:
        return threading.Lock()

    async def acquire(self, lock: threading.Lock) -> None:
        import asyncio

        # Asked again and again: a thread that waits could not be called off, and several loops may use one client.
        pause = _SHORTEST
        while not lock.acquire(blocking=False):
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST)

    async def compute(self, function: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
        return await _in_thread(function, args, kwargs)

    async def change(self, function: Callable[..., _T], *args: Any) -> _T:
        return await _to_its_end(_in_thread(function, args, {}))

    async def gather(self, names: list[str], told: Callable[[str], None], read: ReadFile) -> list[StoredFile | None]:
        import asyncio

        gate = asyncio.Semaphore(READERS)

        async def read_one(name: str) -> StoredFile | None:
            async with gate:
                file = await read(name)
            told(name)
            return file

        tasks = [asyncio.ensure_future(read_one(name)) for name in names]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _in_thread(function: Callable[..., _T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> asyncio.Future[_T]:
    """A call in a thread of its own, in a copy of this context. No task: the end of a loop cancels every one."""
    import asyncio

    def run() -> _T:
        try:
            return function(*args, **kwargs)
        except StopIteration as error:  # whoever waits for a future with it would wait for ever
            raise RuntimeError(f"StopIteration: {error}") from error

    return asyncio.get_running_loop().run_in_executor(None, copy_context().run, run)


async def _to_its_end(call: asyncio.Future[_T]) -> _T:
    """The result of a call that changes the vault: a cancellation is passed on once it has ended, not before."""
    import asyncio

    cancelled: asyncio.CancelledError | None = None
    while not call.done():
        try:
            await asyncio.wait([call])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        return call.result()
    call.exception()  # nobody else hears of it
    raise cancelled


def _offers(backend: object, protocol: type) -> bool:
    return all(_has(backend, name) for name in vars(protocol) if name.startswith("vault_"))


def _has(backend: object, method: str) -> bool:
    """True if a backend has a method, on its class or put on it; a mock, which answers to every name, on its class."""
    own = getattr(backend, "__dict__", {}).get(method)
    return hasattr(type(backend), method) or (own is not None and not hasattr(own, "assert_called_with"))


#: Codes of a vault that has a file and cannot give it, though it can be asked for others.
_UNREADABLE = frozenset({"UNFIT_FILE", "ELSEWHERE"})


# None of these leaves the package


class Unanswered(VaultUnavailable):
    """A write got no answer and could not be read back."""


class Changed(VaultError):
    """A conditional write met another text than expected."""


class Unreadable(VaultUnavailable):
    """A file is there and cannot be given, though others can."""


def to_public(error: VaultError, more: str = "", kind: type[VaultError] | None = None) -> VaultError:
    """The same error as it may leave the package, with more said at its end."""
    kind = kind or public_kind(error)
    msg = f"{error.message}; {more}" if more else error.message
    return kind(msg, status=error.status, code=error.code, retry_after=error.retry_after, hint=error.hint)
