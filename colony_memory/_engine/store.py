"""The typed, checked, asynchronous surface of a backend that all verbs are written against, in two faces."""

from __future__ import annotations

import functools
import itertools
import threading
import time
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from colony_memory import vaults
from colony_memory._boundary import drive, is_coroutine, may_mean_absent, public_kind, translate, unwrap, was_refused
from colony_memory._engine.label import Listing, moment, proves, read_listing
from colony_memory._engine.observe import tally
from colony_memory._format import FORMAT, FORMAT_2
from colony_memory._format.names import common_start, read_filename
from colony_memory._values import NamedTuple
from colony_memory.exceptions import SnapshotCorrupt, VaultError, VaultUnavailable

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
# Seconds between two attempts to take a lock.
_SHORTEST, _LONGEST = 0.001, 0.05
# Calls that change the vault.
_CHANGES = frozenset({"vault_upload_file", "vault_upload_file_if", "vault_delete_file"})

#: For :meth:`Vault.put`: overwrite unconditionally; write only if there is no such file.
ANY, ABSENT = "", "*"


class StoredFile(NamedTuple):
    content: str
    etag: str | None


class Shelf:
    """An LRU cache of packs, bounded in characters, and a store of files read ahead, None for a missing one."""

    def __init__(self, room: int, ahead: Mapping[str, StoredFile | None] | None = None) -> None:
        self._room, self._packs, self.ahead = room, dict[str, StoredFile](), dict(ahead or {})

    def find(self, names: Iterable[str]) -> dict[str, StoredFile | None]:
        found = {name: self.ahead.pop(name) for name in names if name in self.ahead}
        packs = {name: self._packs.pop(name) for name in names if name in self._packs}
        self._packs |= packs  # evicted last
        self.keep(found)
        return found | packs

    def keep(self, files: Mapping[str, StoredFile | None]) -> None:
        """Cache the packs among some files: no other file belongs to more than one snapshot."""
        for name, file in files.items():
            known = read_filename(name)
            if file is not None and name not in self._packs and known is not None and known.kind == "pack":
                self._packs[name] = file
                self._room -= len(file.content)
        while self._room < 0:
            self._room += len(self._packs.pop(next(iter(self._packs))).content)


class Vault:
    """Over a backend of plain methods. No await here ever suspends, so a verb can be driven without an event loop."""

    def __init__(self, backend: Any) -> None:
        self.backend, self._pace = backend, 0.0
        self.conditional = _offers(backend, vaults.ConditionalUpload)
        #: True if there is no quota: asking for one may cost a listing of everything.
        self.unlimited = getattr(backend, "unlimited", False) is True
        self._prefixes = _offers(backend, vaults.PrefixListing)
        self._lookup, self._deletes_many = _offers(backend, vaults.FileLookup), _offers(backend, vaults.ManyDeletion)
        self.counts_operations = _offers(backend, vaults.OperationBudget)

    @property
    def snapshot_format(self) -> str:
        """The format in which snapshots are written by default, as far as the vault tells by now."""
        return FORMAT_2 if getattr(self.backend, "snapshot_format", None) == 2 and self.conditional else FORMAT

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
        return threading.RLock()  # type: ignore[return-value] # used like a Lock

    async def acquire(self, lock: threading.Lock) -> None:
        """Wait for a lock, without blocking the task that may hold it."""
        lock.acquire()

    async def compute(self, function: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
        """Run a plain function that takes long, off the event loop if there is one."""
        return function(*args, **kwargs)

    async def change(self, function: Callable[..., _T], *args: Any) -> _T:
        """Run a function that changes something outside the vault; a cancellation waits for its end."""
        return await self.compute(function, *args)

    async def gather(self, names: list[str], on_read: Callable[[str], None], read: ReadFile) -> list[StoredFile | None]:
        """Read several files at once; returns them in the order of the names, and calls ``on_read`` after each."""
        pending, files = list(names), list[StoredFile | None]()
        # Threads pay off where reads wait for a network; from memory or disk, one by one is as fast.
        while pending and (self._pace < _FAST or len(pending) == 1):
            name = pending.pop(0)
            files.append(await read(name))
            on_read(name)
        return files + self._read_pooled(pending, on_read, read) if pending else files

    def _read_pooled(self, names: list[str], on_read: Callable[[str], None], read: ReadFile) -> list[StoredFile | None]:
        @functools.cache  # what a thread has begun is not read again
        def read_one(name: str) -> StoredFile | None:
            return drive(read(name))  # type: ignore[arg-type] # it is a coroutine

        pool, results = None, list[Any](functools.partial(read_one, name) for name in names)
        try:
            from concurrent.futures import ThreadPoolExecutor

            pool = ThreadPoolExecutor(min(READERS, len(names)), "colony-memory-read")
            # Each in a copy of this context, so that it counts towards this verb.
            results = [pool.submit(copy_context().run, read_one, name).result for name in names]
        except (ImportError, RuntimeError):
            # At the interpreter's exit no thread starts and nothing is imported; the same goes for a process that gave
            # up the right to read Python's own files. A backup still has to read.
            if pool is not None:
                pool.shutdown(cancel_futures=True)
        try:
            files = []
            for name, result in zip(names, results, strict=True):
                files.append(result())
                on_read(name)
        finally:
            if pool is not None:
                pool.shutdown(cancel_futures=True)
        return files

    async def status(self) -> dict[str, Any]:
        reply = unwrap(await self._ask("asking for the quota", "vault_status"))
        if not isinstance(reply, dict):
            raise VaultUnavailable("the vault's status is not readable, try again")
        return reply

    async def list(self, prefix: str, *, only: Container[str] | None = None) -> Listing:
        # The hosted vault takes no longer prefix.
        call = ("vault_list_prefix", prefix[:255]) if self._prefixes else ("vault_list_files",)
        return read_listing(await self._ask(f"listing {prefix}*", *call), prefix, only=only)

    async def look_up(self, names: Sequence[str]) -> Listing:
        """List those of the named files that exist, each checked at some moment after this call."""
        prefix = common_start(names)
        if not self._lookup:
            return await self.list(prefix, only={*names})  # ids begin with the time: few others share the prefix
        reply = await self._ask(f"looking up {prefix}*", "vault_look_up_files", names)
        return read_listing(reply, prefix, only={*names})

    async def get(self, name: str) -> StoredFile | None:
        """A file, or None if it is proven not to exist: by a 404 with a code, or by a complete listing."""
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
            # The vault gave no code of its own: a wrong address answers 404 too, and some backends know no status.
            listing = await self.list(name)
            if name in listing.files or not listing.complete:
                raise
            return None
        reply = unwrap(reply)
        content = reply.get("content") if isinstance(reply, dict) else None
        if not isinstance(content, str):
            msg = f"{doing} failed: the reply has no content, which says nothing about what is stored; try again"
            raise VaultUnavailable(msg)
        counts = tally()
        if counts is not None:
            counts.count_content(content)
        etag = reply.get("etag")
        return StoredFile(content, etag if isinstance(etag, str) else None)

    async def get_many(
        self, names: Iterable[str], tell: Tell | None = None, *, at_most: int | None = None, shelf: Shelf | None = None
    ) -> dict[str, StoredFile | None]:
        """Files by name, packs through ``shelf``; ``tell`` hears of reads. Raises SnapshotCorrupt over ``at_most``."""
        lock, left, names = threading.Lock(), at_most, dict.fromkeys(names)

        def charge(name: str, content: str = "") -> None:
            nonlocal left
            with lock:  # a single wide character quadruples the memory of its whole text
                left = None if left is None else left - len(content) * (1 if content.isascii() else 4)
                if left is not None and left < 0:  # a manifest may name thousands of files, of any size
                    raise SnapshotCorrupt(f"{name}, and what belongs to it, is larger than it may be", file=name)

        found = dict[str, StoredFile | None]() if shelf is None else shelf.find(names)
        for name, file in found.items():
            charge(name, "" if file is None else file.content)
        names, done = [name for name in names if name not in found], itertools.count(1)

        def on_read(name: str) -> None:
            if tell is not None:
                tell("download", name, next(done), len(names))

        async def read(name: str) -> StoredFile | None:
            charge(name)
            file = await self.get(name)
            if file is not None:
                charge(name, file.content)
            return file

        files = dict(zip(names, await self.gather(names, on_read, read), strict=True))
        if shelf is not None:
            shelf.keep(files)
        return found | files

    async def put(self, name: str, content: str, *, match: str = ANY) -> datetime | None:
        """Write a file; returns the vault's time of the write, None where it tells none.

        The reply proves the write by naming the file and the size sent; else the file is read back and compared.
        ``match`` is :data:`ANY`, :data:`ABSENT`, or the ``etag`` that it must still have, if uploads are conditional.
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
        await self._confirm_write(name, content, unsure)
        return None

    async def _confirm_write(self, name: str, content: str, error: VaultError) -> None:
        """Read back a write without a clear answer. Raises Changed, Unanswered or ``error`` unless it was applied."""
        try:
            stored = await self.get(name)
        except VaultError as unreadable:
            msg = f"{error.message}; it could not be read back either ({unreadable.message})"
            raise Unanswered(msg, status=error.status, code=error.code, hint=error.hint) from error
        if stored is not None and stored.content == content:
            return
        if error.status == 412:
            raise Changed(error.message, status=412, code=error.code) from error
        if error.status is None:
            # No reply at all: the request may still be under way, and take effect after this read.
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
        """Delete files with one request; False if that did not succeed, and then any of them may be gone."""
        if not self._deletes_many or len(names) < 2:
            return False
        try:
            await self._ask(f"deleting {names[0]} and others", "vault_delete_files", names)
        except VaultError:  # deleting each by itself tells for certain
            return False
        return True

    async def number(self, what: Literal["free_bytes", "operations_left", "operations_reset"]) -> int | None:
        """Bytes or operations left, or seconds until operations are renewed; None where the vault does not tell."""
        method = f"vault_{what}"
        reply = await self._ask(f"asking for {what.replace('_', ' ')}", method) if _has(self.backend, method) else None
        return reply if isinstance(reply, int) else None

    async def _ask(self, doing: str, method: str, *args: Any, **kwargs: Any) -> Any:
        counts = tally()
        if counts is not None:
            counts.count_call(method, args)
        try:
            return await self._call(method, *args, **kwargs)
        except Exception as error:
            translated = translate(error, doing)
            if translated is error:
                raise
            raise translated from error


class AsyncVault(Vault):
    """Over a backend of coroutines, or of plain methods, which are run in threads."""

    def __init__(self, backend: Any) -> None:
        super().__init__(backend)
        methods = (name for name in vars(vaults.VaultBackend) if name.startswith("vault_"))
        self._threads = not any(is_coroutine(getattr(backend, name)) for name in methods)

    async def _call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        bound = getattr(self.backend, method)
        if self._threads:
            call = _in_thread(bound, args, kwargs)
            reply = await (_until_done(call) if method in _CHANGES else call)
        else:
            reply = bound(*args, **kwargs)
        return await reply if hasattr(type(reply), "__await__") else reply

    def new_lock(self) -> threading.Lock:
        return threading.Lock()

    async def acquire(self, lock: threading.Lock) -> None:
        import asyncio

        # Polled: a waiting thread could not be cancelled, and several event loops may share one client.
        pause = _SHORTEST
        while not lock.acquire(blocking=False):
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST)

    async def compute(self, function: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
        return await _in_thread(function, args, kwargs)

    async def change(self, function: Callable[..., _T], *args: Any) -> _T:
        return await _until_done(_in_thread(function, args, {}))

    async def gather(self, names: list[str], on_read: Callable[[str], None], read: ReadFile) -> list[StoredFile | None]:
        import asyncio

        slots = asyncio.Semaphore(READERS)

        async def read_one(name: str) -> StoredFile | None:
            async with slots:
                file = await read(name)
            on_read(name)
            return file

        tasks = [asyncio.ensure_future(read_one(name)) for name in names]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _in_thread(function: Callable[..., _T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> asyncio.Future[_T]:
    """A call in a thread of its own, in a copy of this context. Not a task: the end of a loop cancels all tasks."""
    import asyncio

    def run() -> _T:
        try:
            return function(*args, **kwargs)
        except StopIteration as error:  # a future that holds one is awaited for ever
            raise RuntimeError(f"StopIteration: {error}") from error

    return asyncio.get_running_loop().run_in_executor(None, copy_context().run, run)


async def _until_done(call: asyncio.Future[_T]) -> _T:
    """The result of a call that changes the vault; a cancellation is raised only once the call has ended."""
    import asyncio

    cancelled: asyncio.CancelledError | None = None
    while not call.done():
        try:
            await asyncio.wait([call])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        return call.result()
    call.exception()  # retrieved, or asyncio would report it as never retrieved
    raise cancelled


def _offers(backend: object, protocol: type) -> bool:
    return all(_has(backend, name) for name in vars(protocol) if name.startswith("vault_"))


def _has(backend: object, method: str) -> bool:
    """True if a backend has a method, on its class or itself; a mock's own do not count: it answers to every name."""
    attribute = getattr(backend, "__dict__", {}).get(method)
    return hasattr(type(backend), method) or (attribute is not None and not hasattr(attribute, "assert_called_with"))


#: Codes of a vault that has a file but cannot return it, while it can return others.
_UNREADABLE = frozenset({"UNFIT_FILE", "ELSEWHERE"})


# None of these errors leaves the package.


class Unanswered(VaultUnavailable):
    """A write got no answer and could not be read back."""


class Changed(VaultError):
    """A conditional write found other contents than expected."""


class Unreadable(VaultUnavailable):
    """A file exists and cannot be returned, though others can."""


def to_public(error: VaultError, more: str = "", kind: type[VaultError] | None = None) -> VaultError:
    """The error in its public class, with ``more`` appended to its message."""
    kind = kind or public_kind(error)
    msg = f"{error.message}; {more}" if more else error.message
    return kind(msg, status=error.status, code=error.code, retry_after=error.retry_after, hint=error.hint)
