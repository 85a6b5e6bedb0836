"""Pure: the one place that turns what obstore raises into an error of this package.

Obstore tells a few failures by type and the rest by a text, which quotes the address that was asked and the whole
answer. Of that text only the status, the store's own code and the kind of fault are taken: addresses may be signed, and
what is quoted of a setting that was not understood may be a key.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING

from colony_memory.exceptions import (
    ColonyMemoryError,
    RateLimited,
    VaultDenied,
    VaultError,
    VaultUnavailable,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_STATUS = re.compile(r"non-2xx status code: ([1-9][0-9]{2})\b")
_CODE = re.compile(r"<Code>\s*([A-Za-z][A-Za-z0-9.]{0,59})\s*</Code>")
_FAULT = re.compile(r"\bkind: (Connect|Timeout|Interrupted|Decode)\b")
_FAULTS = {
    "Connect": "no connection",
    "Timeout": "no answer in time",
    "Interrupted": "the connection broke",
    "Decode": "the answer is torn",
}
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'|`[^`]*`|\S+://\S*|\S*[=?&]\S*")
_CHANGED = "PRECONDITION_FAILED"
_CONDITION = frozenset({"AlreadyExistsError", "PreconditionError", "NotModifiedError"})
_UNSUPPORTED = frozenset({"NotImplementedError", "NotSupportedError"})
_SLOWER = frozenset({
    "RequestLimitExceeded",
    "ServerBusy",
    "SlowDown",
    "SlowDownRead",
    "SlowDownWrite",
    "Throttling",
    "ThrottlingException",
    "TooManyRequests",
})  # fmt: skip
_EXPIRED = frozenset({"ExpiredToken", "InvalidToken", "TokenRefreshRequired"})


@contextlib.contextmanager
def told(doing: str) -> Iterator[None]:
    """Turn what obstore raises into errors of this package, but for ``FileNotFoundError``.

    That says that something is not there, be it the object or the bucket: what it means is for the caller to find out.
    """
    try:
        yield
    except (FileNotFoundError, ColonyMemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, its text must not get out
        raise translate_store(error, doing) from None


def translate_store(error: Exception, doing: str) -> VaultError:
    """The error of this package that says the same.

    Args:
        error: What obstore raised.
        doing: What was being done, for the message, such as ``"reading x.json"``.
    """
    text, kind = str(error), type(error).__name__
    status, code = status_of(error), _first(_CODE, text)
    said = f"{doing} failed: {_said(status, code, text)}"
    if kind in _CONDITION:
        return VaultError(f"{doing} failed: what is there is not what was expected", status=412, code=_CHANGED)
    if kind in _UNSUPPORTED or status == 501:
        return VaultError(f"{doing} failed: the store does not do that", status=501, code="NOT_SUPPORTED")
    if kind == "InvalidPathError":
        return VaultUnavailable(
            f"{doing} failed: there is a key with an empty, dotted or unprintable part, which hides all others; "
            "remove it, or give the vault a prefix of its own"
        )
    if kind == "UnauthenticatedError" or status == 401 or code in _EXPIRED:
        return VaultDenied(f"{said}; check the store's credentials", status=401, code=code)
    if kind == "PermissionDeniedError" or status == 403:
        return VaultDenied(f"{said}; these credentials may not do that, or are wrong", status=403, code=code)
    if status == 429 or code in _SLOWER:
        return RateLimited(f"{said}; that is a rate limit: try again later", status=429, code=code)
    if status == 507:
        # A code that the engine knows for a full vault.
        return VaultError(f"{said}; the store is full", status=507, code="QUOTA_EXCEEDED")
    if status is not None and 400 <= status < 500:
        return VaultError(said, status=status, code=code)
    if "redirect" in text[:300]:
        said += ": is the region right?"
    return VaultUnavailable(f"{said}; this says nothing about what is stored, try again", status=status, code=code)


def status_of(error: Exception) -> int | None:
    """The HTTP status that the store answered with, None where there was no answer."""
    found = _first(_STATUS, str(error))
    return None if found is None else int(found)


def shorten(error: Exception) -> str:
    """The gist of an error that no answer is behind: its first line, without whatever it quotes."""
    line = str(error).strip().split("\n", 1)[0]
    bare = "".join(char if char.isprintable() else " " for char in _QUOTED.sub("…", line))
    return " ".join(bare.split())[:200]


def _said(status: int | None, code: str | None, text: str) -> str:
    if status is not None:
        return f"HTTP {status}" + (f", {code}" if code else "")
    fault = _first(_FAULT, text)
    return _FAULTS[fault] if fault else "no usable answer"


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.search(text)
    return None if found is None else found[1]
