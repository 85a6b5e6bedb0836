"""A backend seen through one typed, checked, asynchronous surface: what the verbs are written over.

:class:`SyncVault` never suspends, so :func:`~colony_memory._engine.drive.drive` runs a verb over it without an event
loop, inside or outside of one. :class:`AsyncVault` awaits.
"""

from __future__ import annotations

import itertools
import time
from contextvars import copy_context
from os.path import commonprefix
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from colony_memory._engine.boundary import translate
from colony_memory._engine.drive import drive
from colony_memory._engine.observe import tally
from colony_memory._engine.replies import Listing, moment, proves, read_listing, unwrap
from colony_memory._format.constants import FORMAT, FORMAT_2
from colony_memory.exceptions import RateLimited, VaultDenied, VaultError, VaultUnavailable
from colony_memory.vaults import ConditionalUpload, FileLookup, FreeSpace, OperationBudget, PrefixListing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    Tell = Callable[[Literal["upload", "download", "delete"], str, int, int], None]

_T = TypeVar("_T")
_READERS = 12
# Seconds; a call that takes less is not worth a thread.
_FAST = 0.002

#: For :meth:`Vault.put`: write whatever is there; write only where nothing is there.
ANY, ABSENT = "", "*"


def _nobody(_name: str) -> None:
    """Hears of what was read where nobody asked."""


class StoredFile(NamedTuple):
    """A file's text, and the tag to give to a conditional upload where the vault has one."""

    content: str
    etag: str | None


class _Put(NamedTuple):
    """A write that was done: when, by the vault's clock, and whether its reply said so."""

    at: datetime | None
    answered: bool


class Vault:
    """The verbs' view of a backend."""

    def __init__(self, backend: Any) -> None:
        self.backend = backend
        self.conditional = isinstance(backend, ConditionalUpload)
        #: Whether there is no quota to ask for, which may cost a listing of everything.
        self.unlimited = getattr(backend, "unlimited", False) is True
        self._prefixes = isinstance(backend, PrefixListing)
        self._lookup = isinstance(backend, FileLookup)
        self._budget = isinstance(backend, OperationBudget)
        self._free = isinstance(backend, FreeSpace)

    @property
    def snapshot_format(self) -> str:
        """The format that snapshots are to be written in where nobody says one, as far as the vault tells by now."""
        told = getattr(self.backend, "snapshot_format", None)
        return FORMAT_2 if told == 2 and self.conditional else FORMAT

    async def _call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    async def compute(self, function: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
        """Run something that takes long and waits for nothing."""
        raise NotImplementedError

    async def gather(self, names: list[str], told: Callable[[str], None] = _nobody) -> list[StoredFile | None]:
        """Read several files at once, in the order of the names; ``told`` of each that was read."""
        raise NotImplementedError

    async def status(self) -> dict[str, Any]:
        """The vault's quota, as it gives it."""
        reply = unwrap(await self._ask("asking for the quota", "vault_status"))
        if not isinstance(reply, dict):
            raise VaultUnavailable("the vault's status is not readable, try again")
        return reply

    async def list(self, prefix: str) -> Listing:
        """The files whose names start so."""
        return read_listing(await self._list(prefix), prefix)

    async def _list(self, prefix: str) -> Any:
        doing = f"listing {prefix}*"
        if self._prefixes:
            return await self._ask(doing, "vault_list_prefix", prefix[:255])  # what the hosted vault takes at most
        return await self._ask(doing, "vault_list_files")

    async def look_up(self, names: Sequence[str]) -> Listing:
        """Those of certain files that are there, each at some moment after this was called."""
        prefix = commonprefix(names)  # noqa: RUF071 - what they begin with, and no folder
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
            if error.status not in (None, 404) or _is_an_answer_or_outage(error):
                raise
            # No word of the vault's own: a wrong address answers 404 too, and some backends know no status.
            listing = await self.list(name)
            if name in listing.files or not listing.complete:
                raise
            return None
        reply = unwrap(reply)
        content = reply.get("content") if isinstance(reply, dict) else None
        if not isinstance(content, str):
            msg = f"{doing} failed: the reply has no content; nothing can be said of what is stored, try again"
            raise VaultUnavailable(msg)
        own = tally()
        if own is not None:
            own.came(content)
        etag = reply.get("etag")
        return StoredFile(content, etag if isinstance(etag, str) else None)

    async def get_many(self, names: Iterable[str], tell: Tell | None = None) -> dict[str, StoredFile | None]:
        """Several files by name; ``tell`` hears ``("download", name, done, total)`` of each."""
        names, done = list(dict.fromkeys(names)), itertools.count(1)

        def told(name: str) -> None:
            if tell is not None:
                tell("download", name, next(done), len(names))

        return dict(zip(names, await self.gather(names, told), strict=True))

    async def put(self, name: str, content: str, *, match: str = ANY) -> datetime | None:
        """Write a file and give the vault's time of the write.

        It is done when the reply proves it: with the file's name, and the bytes that were sent as its size. Else the
        file is read back and compared.

        Args:
            name: Name of the file.
            content: Its text.
            match: :data:`ANY`, :data:`ABSENT`, or the ``etag`` that it must still have. Without conditional upload
                this is not looked at.

        Raises:
            Unanswered: It cannot be told whether the write happened, or will.
            Changed: The condition does not hold; nothing was written.
            ColonyMemoryError: It did not happen.
        """
        return (await self._put(name, content, match)).at

    async def create(self, name: str, content: str) -> bool:
        """Write a file that nobody else has written, and tell whether the vault answered that this client did so.

        Where the vault writes on condition, a file that is there already is another's, even with the same text. Where
        it does not, or the write was settled by reading back, the file may be of another who writes the same.

        Raises:
            Changed: The file is there.
            Unanswered: It cannot be told whether the write happened, or will.
            ColonyMemoryError: It did not happen.
        """
        return (await self._put(name, content, ABSENT, alone=True)).answered and self.conditional

    async def _put(self, name: str, content: str, match: str, *, alone: bool = False) -> _Put:
        doing = f"writing {name}"
        try:
            if not self.conditional or match == ANY:
                reply = await self._ask(doing, "vault_upload_file", name, content)
            else:
                condition = {"if_none_match": "*"} if match == ABSENT else {"if_match": match}
                reply = await self._ask(doing, "vault_upload_file_if", name, content, **condition)
        except VaultError as error:
            if _was_refused(error):
                raise
            if alone and error.status == 412:
                raise Changed(error.message, status=412, code=error.code) from error
            return await self._settle(name, content, error)
        reply = unwrap(reply)
        if not proves(reply, name, len(content.encode("utf-8", "surrogatepass")), doing):
            unproven = VaultUnavailable(f"{doing} failed: the reply does not say that the file was stored")
            return await self._settle(name, content, unproven)
        return _Put(moment(reply.get("updated_at")), answered=True)

    async def _settle(self, name: str, content: str, error: VaultError) -> _Put:
        """Find out whether a write that got no clear answer was applied."""
        try:
            stored = await self.get(name)
        except VaultError as unread:
            msg = f"{error.message}; it could not be read back either ({unread.message})"
            raise Unanswered(msg, status=error.status, code=error.code, hint=error.hint) from error
        if stored is not None and stored.content == content:
            return _Put(None, answered=False)
        if error.status == 412:
            raise Changed(error.message, status=412, code=error.code) from error
        if error.status is None:
            # No reply at all: the request may still be on its way, and arrive after it was looked for.
            msg = f"{error.message}; it was not there yet when it was read back"
            raise Unanswered(msg, code=error.code, hint=error.hint) from error
        raise error

    async def delete(self, name: str) -> None:
        """Remove a file; it is no error that it is gone already."""
        try:
            await self._ask(f"deleting {name}", "vault_delete_file", name)
        except VaultError as error:
            if error.status == 404 and error.code is not None:
                return
            if error.status != 404 and _was_refused(error):
                raise
            if await self.get(name) is not None:
                raise

    async def free_bytes(self) -> int | None:
        """Bytes that the vault still takes, None where its status has to be asked for."""
        free = await self._ask("asking for the free space", "vault_free_bytes") if self._free else None
        return free if isinstance(free, int) else None

    async def operations_left(self) -> int | None:
        """Uploads and deletes that the vault still takes this hour, None where it does not tell."""
        if not self._budget:
            return None
        left = await self._ask("asking for the operations left", "vault_operations_left")
        return left if isinstance(left, int) else None

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


class Unanswered(VaultUnavailable):
    """A write got no answer and could not be read back. Never leaves the package."""


class Changed(VaultError):
    """A conditional write met another text than expected. Never leaves the package."""


def to_public(error: Unanswered | Changed) -> VaultError:
    """The same as an error that may leave the package: what the facades raise where a verb let one through."""
    kind = VaultUnavailable if isinstance(error, Unanswered) else VaultError
    return kind(error.message, status=error.status, code=error.code, hint=error.hint)


class SyncVault(Vault):
    """Over a backend of plain methods. No await here ever suspends."""

    def __init__(self, backend: Any) -> None:
        super().__init__(backend)
        self._pace = 0.0

    async def _call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        begin = time.perf_counter()
        try:
            reply = getattr(self.backend, method)(*args, **kwargs)
        finally:
            self._pace = time.perf_counter() - begin
        if hasattr(reply, "__await__"):
            if hasattr(reply, "close"):
                reply.close()
            raise VaultUnavailable("this backend is asynchronous: use AsyncColonyMemory")
        return reply

    async def compute(self, function: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
        return function(*args, **kwargs)

    async def gather(self, names: list[str], told: Callable[[str], None] = _nobody) -> list[StoredFile | None]:
        left, out = list(names), list[StoredFile | None]()
        # Threads pay off where a read waits for a network; a vault in memory or on disk is read as fast in turn.
        while left and (self._pace < _FAST or len(left) == 1):
            name = left.pop(0)
            out.append(await self.get(name))
            told(name)
        return out + self._read_at_once(left, told) if left else out

    def _read_at_once(self, names: list[str], told: Callable[[str], None] = _nobody) -> list[StoredFile | None]:
        try:
            from concurrent.futures import ThreadPoolExecutor

            pool = ThreadPoolExecutor(min(_READERS, len(names)), "colony-memory-read")
            # Each in a copy of this context, so that it counts for this verb.
            futures = [pool.submit(copy_context().run, lambda name: drive(self.get(name)), name) for name in names]
        except RuntimeError:
            # At the interpreter's exit no thread starts any more, and a last backup still has to read.
            return [drive(self.get(name)) for name in names]
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


class AsyncVault(Vault):
    """Over a backend of coroutines, or of plain methods, which then run in threads."""

    def __init__(self, backend: Any) -> None:
        super().__init__(backend)
        import inspect

        methods = (inspect.unwrap(getattr(backend, name)) for name in dir(backend) if name.startswith("vault_"))
        self._threads = not any(inspect.iscoroutinefunction(method) for method in methods)

    async def _call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        bound = getattr(self.backend, method)
        if self._threads:
            import asyncio

            reply = await asyncio.to_thread(_outside_loop, bound, args, kwargs)
        else:
            reply = bound(*args, **kwargs)
        return await reply if hasattr(reply, "__await__") else reply

    async def compute(self, function: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
        import asyncio

        return await asyncio.to_thread(function, *args, **kwargs)

    async def gather(self, names: list[str], told: Callable[[str], None] = _nobody) -> list[StoredFile | None]:
        import asyncio

        gate = asyncio.Semaphore(_READERS)

        async def read(name: str) -> StoredFile | None:
            async with gate:
                file = await self.get(name)
            told(name)
            return file

        tasks = [asyncio.ensure_future(read(name)) for name in names]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _outside_loop(bound: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    try:
        return bound(*args, **kwargs)
    except StopIteration as error:
        # It cannot pass through a future: whoever waits for that would wait for ever.
        msg = f"StopIteration: {error}"
        raise RuntimeError(msg) from error


def _was_refused(error: VaultError) -> bool:
    """Whether the vault itself has said no, so that nothing was changed.

    412 does not say so: a client that retried by itself meets its own write. A redirect is nobody's word.
    """
    if isinstance(error, VaultDenied):
        return True
    return error.status is not None and error.status != 412 and not 300 <= error.status < 400 and error.status < 500


def _is_an_answer_or_outage(error: VaultError) -> bool:
    """Whether a failed read leaves nothing to ask a listing for."""
    if isinstance(error, (VaultDenied, RateLimited)):
        return True
    # A plain OSError may be a missing file, or an HTTP library's own way of telling of a 404.
    vague = isinstance(error.__cause__, OSError) and not isinstance(error.__cause__, (ConnectionError, TimeoutError))
    return isinstance(error, VaultUnavailable) and not vague
