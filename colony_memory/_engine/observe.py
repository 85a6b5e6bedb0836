"""The cost of a verb, its bounds and its outcome: every public verb is :func:`observed`, with a tally of its own."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from colony_memory._boundary import public_kind
from colony_memory._format.json import peak_weight, weight
from colony_memory._format.payload import Spend, spend_freely
from colony_memory._values import replace
from colony_memory.exceptions import ColonyMemoryError, Hint, SnapshotCorrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from colony_memory._engine.session import Session
    from colony_memory.reports import LifecycleEvent
    from colony_memory.snapshot import SnapshotInfo

_Verb = TypeVar("_Verb", bound="Callable[..., Coroutine[Any, Any, Any]]")

# Bytes that one verb may unpack: a multiple of max_bytes, and a minimum.
_MOST_UNPACKED, _LEAST_UNPACKED = 64, 2**30
# Bytes of memory that the manifests read by one verb may take: a multiple of max_bytes, plus a constant.
_MANIFEST_FACTOR, _MANIFEST_BASE = 4, 32 * 2**20
_ABOUT, _COUNTS = ("label", "snapshot_id"), ("reads", "writes", "deletes", "bytes_read", "bytes_written")


class Tally:
    """Counts of one verb's calls, and its budget of bytes to unpack and to keep, over all snapshots that it reads."""

    def __init__(self, session: Session) -> None:
        self.vault, self.listens, self.begin = session.vault, session.on_event is not None, time.perf_counter()
        self.reads = 0  # requests for files, listings and the quota
        self.writes = self.deletes = 0  # files in requests to upload and to delete
        self.bytes_read = self.bytes_written = 0  # UTF-8 bytes of files read and uploaded
        self.pruned = 0  # snapshots that were removed
        self.muted = False  # on_event failed on a file: this verb reports no more files
        self.budget = self.limit = max(_MOST_UNPACKED * session.max_bytes, _LEAST_UNPACKED)
        self.manifest_bytes, self.lock = 0, threading.Lock()

    def count_call(self, method: str, args: tuple[Any, ...]) -> None:
        with self.lock:
            if method.startswith("vault_upload"):
                self.writes += 1
                self.bytes_written += _size(args[1])
            elif method.startswith("vault_delete"):
                self.deletes += len(args[0]) if method == "vault_delete_files" else 1
            elif not method.startswith("vault_operations"):  # those the client answers itself
                self.reads += 1

    def count_content(self, content: str) -> None:
        with self.lock:
            self.bytes_read += _size(content)

    def spend(self, number: int) -> None:
        with self.lock:
            self.budget -= number


_CURRENT: ContextVar[Tally | None] = ContextVar("colony_memory_tally", default=None)


def tally() -> Tally | None:
    current = _CURRENT.get()
    return current if current is not None and current.listens else None


def _bounds(session: Session) -> Tally | None:
    """The tally that bounds the running verb, None where no verb of this client is running."""
    current = _CURRENT.get()
    return current if current is not None and current.vault is session.vault else None


def spent_by(session: Session) -> str | None:
    """The reason why the running verb may unpack nothing more, None where it may."""
    bounds = _bounds(session)
    return None if bounds is None or bounds.budget > 0 else f"one call unpacks {bounds.limit} bytes at most"


def spending(session: Session, file: str) -> Spend:
    """The counter for bytes that a read of a snapshot unpacks. Raises ColonyMemoryError where none are left."""
    spent, bounds = spent_by(session), _bounds(session)
    if spent is not None:
        raise ColonyMemoryError(f"{file} is not read: {spent}", hint=Hint("open", "max_bytes"))
    return spend_freely if bounds is None else bounds.spend


def manifest_budget(session: Session) -> int:
    """Bytes of memory for the manifests that a verb reads, and for those that a client remembers."""
    return _MANIFEST_FACTOR * session.max_bytes + _MANIFEST_BASE


def charge_manifest(session: Session, file: str, text: str) -> None:
    """Charge a manifest, before it is parsed and kept, to the budget: a vault may have any number, of any size."""
    bounds, most, peak = _bounds(session), manifest_budget(session), peak_weight(text)
    if peak > most:
        raise SnapshotCorrupt(f"manifest {file} is larger than one may be", file=file, hint=Hint("open", "max_bytes"))
    if bounds is None:
        return
    with bounds.lock:
        if bounds.manifest_bytes + peak > most:
            msg = f"{file} is not read: with the manifests before it, that would take more than {most} bytes of memory"
            raise ColonyMemoryError(msg, hint=Hint("open", "max_bytes"))
        bounds.manifest_bytes += weight(text)


@contextmanager
def outside_verbs() -> Iterator[None]:
    """Suspend the tally for code of the caller, which may use the client, or start tasks that do so later."""
    token = _CURRENT.set(None)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def observed(
    name: str, outcome: Callable[[Any, LifecycleEvent, dict[str, Any]], LifecycleEvent | None] | None = None
) -> Callable[[_Verb], _Verb]:
    """Bound a verb, and report its end to ``on_event``: by ``outcome`` of its result; without one, only a failure."""

    def decorate(verb: _Verb) -> _Verb:
        @wraps(verb)
        async def run(session: Session, *args: Any, **options: Any) -> Any:
            if _bounds(session) is not None:
                return await verb(session, *args, **options)
            counts = Tally(session)
            token = _CURRENT.set(counts)
            try:
                result = await verb(session, *args, **options)
            except Exception as error:
                if counts.listens:
                    _tell(session, counts, _event(name, options, counts, error))
                raise
            finally:
                with suppress(ValueError):  # a coroutine not awaited to its end may be closed in another context
                    _CURRENT.reset(token)
            if counts.listens and outcome is not None:
                _tell(session, counts, outcome(result, _event(name, options, counts), options))
            return result

        return run  # type: ignore[return-value]

    return decorate


def _event(verb: str, options: dict[str, Any], counts: Tally, error: Exception | None = None) -> LifecycleEvent:
    from colony_memory._events import LifecycleEvent

    label, snapshot_id = (text if isinstance(text := options.get(name), str) else None for name in _ABOUT)
    facts: dict[str, Any] = {name: getattr(counts, name) for name in _COUNTS}
    if error is not None:
        # Error messages stay out: one may quote a reply, and a reply may quote the memory that it was sent.
        status, code = getattr(error, "status", None), getattr(error, "code", None)
        is_plain = isinstance(code, str) and len(code) <= 64 and code.replace("_", "").isalnum() and code.isascii()
        facts |= {"status": status if isinstance(status, int) else None, "code": code if is_plain else None}
        facts |= {"ok": False, "error": public_kind(error).__name__}
    label = label and label.strip().lower()
    return LifecycleEvent("fault", verb, label, snapshot_id, seconds=time.perf_counter() - counts.begin, **facts)


def _tell(session: Session, counts: Tally, event: LifecycleEvent | None) -> None:
    if event is None:
        return
    if event.action == "pruned":
        event = replace(event, count=counts.pruned)
    elif counts.pruned:
        # Without costs: those are in the other event, so that sums are right.
        session.hand(type(event)("pruned", event.verb, event.label, count=counts.pruned))
    session.hand(event)


def saved(info: SnapshotInfo, event: LifecycleEvent, options: dict[str, Any]) -> LifecycleEvent | None:
    if options.get("dry_run"):
        return None
    merged = info.diverged_from is not None and options.get("on_conflict") == "merge"
    action = "reused" if info.reused else "merged" if merged else "created"
    return of_snapshot(event, action, info, info.doc_count or 0)


def of_snapshot(event: LifecycleEvent, action: Any, info: SnapshotInfo, documents: int) -> LifecycleEvent:
    event = replace(event, action=action, label=info.label, snapshot_id=info.snapshot_id, count=1, documents=documents)
    return replace(event, plain_bytes=info.byte_size, stored_bytes=info.stored_bytes)


def _size(text: object) -> int:
    if not isinstance(text, str):
        return 0
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
