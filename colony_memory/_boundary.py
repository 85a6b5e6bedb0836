"""The package's boundary: what callers pass, what backends raise, and a coroutine run to its end."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Coroutine, Iterable, Iterator
from typing import Any, TypeVar

from colony_memory.exceptions import (
    ColonyMemoryError,
    Hint,
    QuotaExceeded,
    RateLimited,
    SnapshotCorrupt,
    VaultDenied,
    VaultError,
    VaultUnavailable,
)

_T = TypeVar("_T")


class Passing(ColonyMemoryError):
    """What may be over at the next try, without anybody doing something about it."""


def require_type(argument: str, value: object, kind: type[_T]) -> _T:
    if not isinstance(value, kind):
        raise ValueError(f"{argument} must be of type {kind.__name__}, not {type(value).__name__}")  # noqa: TRY004
    return value


def require_text(argument: str, value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{argument} must be a string, not {type(value).__name__}")  # noqa: TRY004
    return value


def require_named(path: object) -> None:
    """Refuse an empty path: most likely a setting that nobody filled in, it would be the working directory."""
    given = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(given, str):
        raise ValueError(f"path must be a path, as text, not {given!r}")  # noqa: TRY004
    if not given:
        raise ValueError("an empty path")


def require_call(argument: str, value: object) -> None:
    if value is not None and not callable(value):
        raise ValueError(f"{argument} must be a function or None, not {type(value).__name__}")


def read_written(data: bytes) -> str:
    """The text of a file that somebody has written: without a byte order mark, and with LF for line ends of Windows."""
    in_utf_16 = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    return data.decode("utf-16" if in_utf_16 else "utf-8-sig").replace("\r\n", "\n")


def require_as_meant(argument: str, value: str) -> str:
    """The value, unless it bears what a file of settings has around it. It is not repeated: it may be a key."""
    what = ""
    if len(value) > 1 and value[0] == value[-1] in "\"'":
        what = "within quotes, which are taken for a part of it"
    elif value.strip("\n") != value or any(sign < " " and sign not in "\n\t" for sign in value):
        what = "with a line end or another control character"
    elif "\ufeff" in value:
        what = "with a byte order mark"
    if what:
        raise ValueError(f"{argument} is given {what}: give it without")
    return value


def several(argument: str, value: Any, *, one: tuple[type, ...] = (str,)) -> list[Any]:
    """One text, or each of several; what each has to be is for the caller to see to."""
    if isinstance(value, one):
        return [value]
    if not isinstance(value, Iterable) or isinstance(value, (bytes, bytearray)):
        raise ValueError(f"{argument} must be a string or several, not {type(value).__name__}")  # noqa: TRY004
    return list(value)


def texts(argument: str, value: Any) -> list[str]:
    """One text, or several."""
    return [require_text(f"each of {argument}", each) for each in several(argument, value)]


@contextlib.contextmanager
def corrupt(what: str, file: str | None) -> Iterator[None]:
    """Raise a SnapshotCorrupt of that vault file where something in it is found wrong."""
    try:
        yield
    except SnapshotCorrupt:
        raise
    except ValueError as error:
        raise SnapshotCorrupt(f"{what}: {error}", file=file) from error


def is_coroutine(function: object) -> bool:
    # inspect.iscoroutinefunction without its import, which is slow: the flag is that of PEP 492.
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    flags = getattr(code, "co_flags", None)  # a mock has every attribute, and they are mocks
    return isinstance(flags, int) and bool(flags & 0x80)


def drive(verb: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine that never suspends to its end."""
    try:
        verb.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    verb.close()
    raise RuntimeError("the backend of a ColonyMemory must not be asynchronous: use AsyncColonyMemory")


_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_FULL_CODES = frozenset({"QUOTA_EXCEEDED", "LIMIT_EXCEEDED"})
# By name: http.client, json, httpx and asyncio are not imported for a comparison.
_TORN = {"HTTPException", "JSONDecodeError", "UnicodeDecodeError"}
_NO_ANSWER = {"ColonyNetworkError", "OSError", "TimeoutError", "TransportError", *_TORN}
_DENIED = {
    "KARMA_TOO_LOW": "the vault accepts writes from agents with 10 karma or more: earn some on the Colony, or save to "
    "another vault until then",
    "AUTH_PENDING_ACTIVATION": "the account is not active yet",
    "AUTH_AGENT_ONLY": "vaults are for agents: use an agent's key",
}
_HINTS = {"KARMA_TOO_LOW": Hint("open", "backend")}
# Seconds. A wait beyond a year is no wait but a mistake, or an attempt to stop the client for good.
_LONGEST_WAIT = 366 * 86400


def translate(error: Exception, doing: str) -> ColonyMemoryError:
    """The error of this package that says the same."""
    if isinstance(error, ColonyMemoryError) and getattr(error, "code", None) not in _FULL_CODES:
        return error
    status = getattr(error, "status", getattr(error, "status_code", None))
    status = status if type(status) is int and status > 0 else None
    code = getattr(error, "code", None)
    code = code if isinstance(code, str) else None
    told: Any = {"status": status, "code": code}
    text = f"{doing} failed: {_said(error)}"
    if status in (401, 403) or (status is None and isinstance(error, PermissionError)):
        help_ = _DENIED.get(code or "", "check the API key" if status == 401 else "this account may not do that")
        return VaultDenied(f"{text}; {help_}", **told, hint=_HINTS.get(code or ""))
    wait = _seconds(getattr(error, "retry_after", None))
    if status == 429:
        when = "later" if wait is None else f"in {wait:.0f} s"
        return RateLimited(f"{text}; that is a rate limit: try again {when}", **told, retry_after=wait)
    if (code in _FULL_CODES and status is not None) or (isinstance(error, OSError) and error.errno in _FULL):
        helps = getattr(error, "errno", None) != errno.EFBIG
        return QuotaExceeded(f"{text}; the vault is full or the file too large", hint=Hint("prune") if helps else None)
    if status is not None and 300 <= status < 400:
        text += "; redirects are not followed, so this says nothing about what is stored: is the vault's address right?"
        return VaultUnavailable(text, **told, hint=Hint("open", "base_url"))
    unanswered = any(kind.__name__ in _NO_ANSWER for kind in type(error).__mro__)
    if (status is not None and status >= 500) or (status is None and unanswered):
        text += "; this says nothing about what is stored, try again"
        return VaultUnavailable(text, **told, retry_after=wait)
    return VaultError(text, **told)


def was_refused(error: VaultError) -> bool:
    # 412 does not say so: a client that retried by itself meets its own write. A redirect is nobody's word.
    if isinstance(error, VaultDenied):
        return True
    return error.status is not None and error.status != 412 and not 300 <= error.status < 400 and error.status < 500


def may_mean_absent(error: VaultError) -> bool:
    """True if a read that failed without the vault's own word may have failed because the file is not there."""
    if isinstance(error, (VaultDenied, RateLimited)) or error.status not in (None, 404):
        return False
    # A plain OSError may be a missing file, or an HTTP library's own way of telling of a 404.
    cause = error.__cause__
    vague = isinstance(cause, OSError) and not isinstance(cause, (ConnectionError, TimeoutError))
    return vague or not isinstance(error, VaultUnavailable)


def public_kind(error: Exception) -> type[Any]:
    kind: type[Any] = type(error)
    while kind.__module__.startswith("colony_memory._"):
        kind = kind.__bases__[0]
    return kind


def _seconds(wait: object) -> float | None:
    """The wait that a backend tells, None where it is none that anybody could wait for."""
    if isinstance(wait, bool) or not isinstance(wait, (int, float)) or not 0 <= wait <= _LONGEST_WAIT:
        return None
    return float(wait)


def _said(error: Exception) -> str:
    # Whoever answers chose these words, and they end on a terminal.
    text = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in " ".join(str(error).split()))
    if text and type(error).__module__.startswith("colony_memory."):
        return text[:300]
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__


def unwrap(reply: Any) -> Any:
    """The body of a vault's reply, bare or under ``result``."""
    if isinstance(reply, dict) and isinstance(reply.get("result"), (dict, list)):
        return reply["result"]
    return reply
