"""The package's boundary: callers' arguments, backends' errors, and coroutines run to their end."""

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
    """A problem that may be over at the next try, without anybody doing anything about it."""


def require_type(argument: str, value: object, kind: type[_T]) -> _T:
    if not isinstance(value, kind):
        raise ValueError(f"{argument} must be of type {kind.__name__}, not {type(value).__name__}")  # noqa: TRY004
    return value


def require_text(argument: str, value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{argument} must be a string, not {type(value).__name__}")  # noqa: TRY004
    return value


def require_named(path: object) -> None:
    """Refuse an empty path: it is most likely a setting left blank, and would mean the working directory."""
    text = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(text, str):
        raise ValueError(f"path must be a path, as text, not {text!r}")  # noqa: TRY004
    if not text:
        raise ValueError("an empty path")


def require_call(argument: str, value: object) -> None:
    if value is not None and not callable(value):
        raise ValueError(f"{argument} must be a function or None, not {type(value).__name__}")


def read_written(data: bytes) -> str:
    """The text of a file that a user has written, without its byte order mark and with LF for line ends of Windows."""
    in_utf_16 = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    return data.decode("utf-16" if in_utf_16 else "utf-8-sig").replace("\r\n", "\n")


def require_as_meant(argument: str, value: str) -> str:
    """The value, unless it carries over syntax of a settings file. The error does not repeat it: it may be a key."""
    excess = ""
    if len(value) > 1 and value[0] == value[-1] in "\"'":
        excess = "within quotes, which count as part of it"
    elif value.strip("\n") != value or any(char < " " and char not in "\n\t" for char in value):
        excess = "with a line end or another control character"
    elif "\ufeff" in value:
        excess = "with a byte order mark"
    if excess:
        raise ValueError(f"{argument} is given {excess}: give it without")
    return value


def several(argument: str, value: Any, *, single: tuple[type, ...] = (str,)) -> list[Any]:
    """A single value, or several, as a list; the caller checks the type of each."""
    if isinstance(value, single):
        return [value]
    if not isinstance(value, Iterable) or isinstance(value, (bytes, bytearray)):
        raise ValueError(f"{argument} must be a string or several, not {type(value).__name__}")  # noqa: TRY004
    return list(value)


def texts(argument: str, value: Any) -> list[str]:
    """One text, or several."""
    return [require_text(f"each of {argument}", text) for text in several(argument, value)]


@contextlib.contextmanager
def corrupt(what: str, file: str | None) -> Iterator[None]:
    """Turn a ValueError about the contents of a vault file into a SnapshotCorrupt."""
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
    """The equivalent error of this package."""
    if isinstance(error, ColonyMemoryError) and getattr(error, "code", None) not in _FULL_CODES:
        return error
    status = getattr(error, "status", getattr(error, "status_code", None))
    status = status if type(status) is int and status > 0 else None
    code = getattr(error, "code", None)
    code = code if isinstance(code, str) else None
    details: Any = {"status": status, "code": code}
    text = f"{doing} failed: {_describe(error)}"
    if status in (401, 403) or (status is None and isinstance(error, PermissionError)):
        help_ = _DENIED.get(code or "", "check the API key" if status == 401 else "this account may not do that")
        return VaultDenied(f"{text}; {help_}", **details, hint=_HINTS.get(code or ""))
    wait = _seconds(getattr(error, "retry_after", None))
    if status == 429:
        when = "later" if wait is None else f"in {wait:.0f} s"
        return RateLimited(f"{text}; that is a rate limit: try again {when}", **details, retry_after=wait)
    if (code in _FULL_CODES and status is not None) or (isinstance(error, OSError) and error.errno in _FULL):
        hint = Hint("prune", "keep") if getattr(error, "errno", None) != errno.EFBIG else None
        return QuotaExceeded(f"{text}; the vault is full or the file too large", hint=hint)
    if status is not None and 300 <= status < 400:
        text += "; redirects are not followed, so this says nothing about what is stored: is the vault's address right?"
        return VaultUnavailable(text, **details, hint=Hint("open", "base_url"))
    unanswered = any(kind.__name__ in _NO_ANSWER for kind in type(error).__mro__)
    if (status is not None and status >= 500) or (status is None and unanswered):
        text += "; this says nothing about what is stored, try again"
        return VaultUnavailable(text, **details, retry_after=wait)
    return VaultError(text, **details)


def was_refused(error: VaultError) -> bool:
    # Not by 412: a client that retried by itself meets its own write. Nor by a redirect, which is no vault's answer.
    if isinstance(error, VaultDenied):
        return True
    return error.status is not None and error.status != 412 and not 300 <= error.status < 400 and error.status < 500


def may_mean_absent(error: VaultError) -> bool:
    """True if a read may have failed because the file is missing, though the vault did not say so."""
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
    """The wait that a backend asks for, None if it is not a sensible one."""
    if isinstance(wait, bool) or not isinstance(wait, (int, float)) or not 0 <= wait <= _LONGEST_WAIT:
        return None
    return float(wait)


def _describe(error: Exception) -> str:
    # The server, whoever that is, chose these words, and they end up on a terminal.
    text = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in " ".join(str(error).split()))
    if text and type(error).__module__.startswith("colony_memory."):
        return text[:300]
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__


def unwrap(reply: Any) -> Any:
    """The body of a vault's reply, bare or under ``result``."""
    return reply["result"] if isinstance(reply, dict) and isinstance(reply.get("result"), (dict, list)) else reply
