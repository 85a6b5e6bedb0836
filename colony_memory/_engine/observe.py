"""The cost of a verb, its bounds, and its outcome: each public verb is :func:`observed`, by a tally of its own."""

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

# Bytes that one verb unpacks, in times max_bytes, and at least.
_MOST_UNPACKED, _LEAST_UNPACKED = 64, 2**30
# Bytes that the manifests may take that one verb reads, likewise, and beside that.
_MOST_HELD, _BESIDE_HELD = 4, 32 * 2**20
_ABOUT, _COUNTS = ("label", "snapshot_id"), ("reads", "writes", "deletes", "bytes_read", "bytes_written")


class Tally:
    """Counts of one verb's calls, and bytes that it may still unpack and hold, of however many snapshots."""

    def __init__(self, session: Session) -> None:
        self.vault, self.listens, self.begin = session.vault, session.on_event is not None, time.perf_counter()
        self.reads = 0  # files and lists that were asked for, and the quota
        self.writes = self.deletes = 0  # files that were sent, or to be deleted
        self.bytes_read = self.bytes_written = 0  # UTF-8 bytes of these
        self.pruned = 0  # snapshots that were removed
        self.muted = False  # a file's event could not be handed on: this verb tells of no more files
        self.left = self.whole = max(_MOST_UNPACKED * session.max_bytes, _LEAST_UNPACKED)
        self.held, self.lock = 0, threading.Lock()

    def asked(self, method: str, args: tuple[Any, ...]) -> None:
        with self.lock:
            if method.startswith("vault_upload"):
                self.writes += 1
                self.bytes_written += _size(args[1])
            elif method.startswith("vault_delete"):
                self.deletes += len(args[0]) if method == "vault_delete_files" else 1
            elif not method.startswith("vault_operations"):  # which the client itself knows
                self.reads += 1

    def came(self, content: str) -> None:
        with self.lock:
            self.bytes_read += _size(content)

    def spend(self, number: int) -> None:
        with self.lock:
            self.left -= number


_CURRENT: ContextVar[Tally | None] = ContextVar("colony_memory_tally", default=None)


def tally() -> Tally | None:
    own = _CURRENT.get()
    return own if own is not None and own.listens else None


def _bounds(session: Session) -> Tally | None:
    """The tally that bounds the verb that runs, None where none of this client does."""
    own = _CURRENT.get()
    return own if own is not None and own.vault is session.vault else None


def spent_by(session: Session) -> str | None:
    """Why the verb that runs unpacks nothing more, None where it does."""
    own = _bounds(session)
    return None if own is None or own.left > 0 else f"one call unpacks {own.whole} bytes at most"


def spending(session: Session, file: str) -> Spend:
    """The counter of the bytes that reading a snapshot unpacks; a ColonyMemoryError where none are left."""
    spent, own = spent_by(session), _bounds(session)
    if spent is not None:
        raise ColonyMemoryError(f"{file} is not read: {spent}", hint=Hint("open", "max_bytes"))
    return spend_freely if own is None else own.spend


def most_held(session: Session) -> int:
    """Bytes that the manifests may take that a verb reads, or that a client remembers."""
    return _MOST_HELD * session.max_bytes + _BESIDE_HELD


def hold(session: Session, file: str, text: str) -> None:
    """Count a manifest that is to be read and kept: a vault may have any number of them, of any size."""
    own, most, peak = _bounds(session), most_held(session), peak_weight(text)
    if peak > most:
        raise SnapshotCorrupt(f"manifest {file} is larger than one may be", file=file, hint=Hint("open", "max_bytes"))
    if own is None:
        return
    with own.lock:
        if own.held + peak > most:
            msg = f"{file} is not read: with the manifests before it, that would take more than {most} bytes of memory"
            raise ColonyMemoryError(msg, hint=Hint("open", "max_bytes"))
        own.held += weight(text)


@contextmanager
def outside_verbs() -> Iterator[None]:
    """For code of the caller's, which may use the client, or start tasks that do later."""
    token = _CURRENT.set(None)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def observed(
    name: str, outcome: Callable[[Any, LifecycleEvent, dict[str, Any]], LifecycleEvent | None] | None = None
) -> Callable[[_Verb], _Verb]:
    """Bound a verb, and tell ``on_event`` how it ended: by ``outcome`` of its result, without one only of a failure."""

    def decorate(verb: _Verb) -> _Verb:
        @wraps(verb)
        async def run(session: Session, *args: Any, **options: Any) -> Any:
            if _bounds(session) is not None:
                return await verb(session, *args, **options)
            own = Tally(session)
            token = _CURRENT.set(own)
            try:
                result = await verb(session, *args, **options)
            except Exception as error:
                if own.listens:
                    _tell(session, own, _event(name, options, own, error))
                raise
            finally:
                with suppress(ValueError):  # one that is never awaited to its end may be closed in another context
                    _CURRENT.reset(token)
            if own.listens and outcome is not None:
                _tell(session, own, outcome(result, _event(name, options, own), options))
            return result

        return run  # type: ignore[return-value]

    return decorate


def _event(verb: str, options: dict[str, Any], own: Tally, error: Exception | None = None) -> LifecycleEvent:
    from colony_memory._events import LifecycleEvent

    label, snapshot_id = (text if isinstance(text := options.get(name), str) else None for name in _ABOUT)
    told: dict[str, Any] = {name: getattr(own, name) for name in _COUNTS}
    if error is not None:
        # The message of an error may quote a reply, and a reply may quote what it was sent.
        status, code = getattr(error, "status", None), getattr(error, "code", None)
        fit = isinstance(code, str) and len(code) <= 64 and code.replace("_", "").isalnum() and code.isascii()
        told |= {"status": status if isinstance(status, int) else None, "code": code if fit else None}
        told |= {"ok": False, "error": public_kind(error).__name__}
    label = label and label.strip().lower()
    return LifecycleEvent("fault", verb, label, snapshot_id, seconds=time.perf_counter() - own.begin, **told)


def _tell(session: Session, own: Tally, event: LifecycleEvent | None) -> None:
    if event is None:
        return
    if event.action == "pruned":
        event = replace(event, count=own.pruned)
    elif own.pruned:
        # Its cost is in the other one, so that sums are right.
        session.hand(type(event)("pruned", event.verb, event.label, count=own.pruned))
    session.hand(event)


def saved(info: SnapshotInfo, event: LifecycleEvent, options: dict[str, Any]) -> LifecycleEvent | None:
    if options.get("dry_run"):
        return None
    joined = info.diverged_from is not None and options.get("on_conflict") == "merge"
    action = "reused" if info.reused else "merged" if joined else "created"
    return of_snapshot(event, action, info, info.doc_count or 0)


def of_snapshot(event: LifecycleEvent, action: Any, info: SnapshotInfo, documents: int) -> LifecycleEvent:
    event = replace(event, action=action, label=info.label, snapshot_id=info.snapshot_id, count=1, documents=documents)
    return replace(event, plain_bytes=info.byte_size, stored_bytes=info.stored_bytes)


def _size(text: object) -> int:
    if not isinstance(text, str):
        return 0
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
