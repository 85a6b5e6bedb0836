"""Object stores by address, and the one place that turns obstore's exceptions into errors of this package.

Of obstore's messages only the status, the store's own code and the kind of fault are used: they quote addresses, which
may be signed, and settings, which may be keys.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from colony_memory.exceptions import ColonyMemoryError, RateLimited, VaultDenied, VaultError, VaultUnavailable

if TYPE_CHECKING:
    from obstore.store import ObjectStore

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
_SLOWER = re.compile("RequestLimitExceeded|ServerBusy|SlowDown(Read|Write)?|Throttling(Exception)?|TooManyRequests")
_EXPIRED = frozenset({"ExpiredToken", "InvalidToken", "TokenRefreshRequired"})


@contextlib.contextmanager
def asking(doing: str) -> Iterator[None]:
    """Wraps each call of a store: errors leave as those of this package, except ``FileNotFoundError``."""
    if not _owner:
        _owner.append(os.getpid())
    if _owner[0] != os.getpid():
        raise VaultUnavailable(
            f"{doing} failed: object stores were asked before this process was forked, and obstore does not work in a "
            "fork: start processes with 'spawn'"
        )
    try:
        yield
    except (FileNotFoundError, ColonyMemoryError):  # the caller finds out if object or bucket is missing
        raise
    except Exception as error:  # noqa: BLE001 - of any class: its text must not get out
        raise translate_store(error, doing) from None


def translate_store(error: Exception, doing: str) -> VaultError:
    """The error of this package for an exception of obstore."""
    text, kind = str(error), type(error).__name__
    digits, code, fault = _first(_STATUS, text), _first(_CODE, text), _first(_FAULT, text)
    status = None if digits is None else int(digits)
    msg = f"{doing} failed: {_FAULTS[fault] if fault else 'no usable answer'}"
    if status is not None:
        msg = f"{doing} failed: HTTP {status}" + (f", {code}" if code else "")
    if kind in _CONDITION:
        return VaultError(f"{doing} failed: what is there is not what was expected", status=412, code=_CHANGED)
    if kind in _UNSUPPORTED or status == 501:
        return VaultError(f"{doing} failed: the store does not do that", status=501, code="NOT_SUPPORTED")
    if kind == "InvalidPathError":
        return VaultUnavailable(
            f"{doing} failed: there is a key with an empty, dotted or unprintable part, which hides all others; "
            "remove it, or give the vault a prefix of its own"
        )
    is_unauthenticated = kind == "UnauthenticatedError" or status == 401 or code in _EXPIRED
    if is_unauthenticated or kind == "PermissionDeniedError" or status == 403:
        msg += "; these credentials are wrong, or may not do that"
        return VaultDenied(msg, status=401 if is_unauthenticated else 403, code=code)
    if status == 429 or _SLOWER.fullmatch(code or ""):
        return RateLimited(f"{msg}; that is a rate limit: try again later", status=429, code=code)
    if status == 507:
        # The engine's code for a full vault.
        return VaultError(f"{msg}; the store is full", status=507, code="QUOTA_EXCEEDED")
    if status is not None and 400 <= status < 500:
        return VaultError(msg, status=status, code=code)
    if "redirect" in text[:300]:
        msg += ": is the region right?"
    return VaultUnavailable(f"{msg}; this says nothing about what is stored, try again", status=status, code=code)


def shorten(error: Exception) -> str:
    """The gist of an error that did not come with an answer: its first line, without quotations."""
    line = _QUOTED.sub("…", str(error).strip().split("\n", 1)[0])
    return " ".join("".join(char if char.isprintable() else " " for char in line).split())[:200]


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    match = pattern.search(text)
    return None if match is None else match[1]


#: The schemes of URLs, with the class of obstore and the name of its first setting.
SCHEMES = {"s3": ("S3Store", "bucket"), "gs": ("GCSStore", "bucket"), "az": ("AzureStore", "container_name")}
_ADDRESS = re.compile(r"//([A-Za-z0-9][A-Za-z0-9._-]{1,221})((?:/[A-Za-z0-9._~+=@-]+)*)/?")
# A store's key has at most 1,024 bytes.
_MOST_PREFIX = 400
# Obstore waits 30 s for one answer, unless its environment says otherwise: a call ends within 50 s.
_RETRIES, _RETRY_SECONDS = 5, 20.0

_owner: list[int] = []  # the process that used a store first, and so has obstore's threads


def open_store(scheme: str, rest: str) -> ObjectStore:
    """The store of a URL ``scheme://bucket/prefix``, with the options and credentials of obstore's environment."""
    bucket, prefix = _read_address(scheme, rest)
    try:
        import obstore.store as stores
    except ImportError as error:
        raise ColonyMemoryError(
            "object stores need Python 3.11 or later and obstore: pip install 'colony-memory[objects]'"
        ) from error
    kind, _ = SCHEMES[scheme]
    try:
        store: ObjectStore = getattr(stores, kind)(
            bucket,
            prefix=prefix or None,
            retry_config={"max_retries": _RETRIES, "retry_timeout": timedelta(seconds=_RETRY_SECONDS)},
        )
    except Exception as error:  # noqa: BLE001 - of any class: it may quote a key
        raise ColonyMemoryError(
            f"{scheme}://{bucket} cannot be opened with the settings of the environment: {shorten(error)}"
        ) from None
    return store


def describe(store: Any) -> str:
    """The name of a store: its URL if it has one, else its class. It holds no setting but bucket and prefix."""
    kind = type(store).__name__
    prefix = str(getattr(store, "prefix", None) or "").strip("/")
    for scheme, (name, setting) in SCHEMES.items():
        bucket = store.config.get(setting) if kind == name else None
        if bucket:
            return f"{scheme}://{bucket}" + (f"/{prefix}" if prefix else "")
    return f"{kind}({prefix!r})" if prefix else kind


def writes_on_condition(store: Any) -> bool:
    """True if a store may write on condition, as far as its settings tell."""
    kind = type(store).__name__
    if kind == "S3Store":
        setting = store.config.get("conditional_put") or os.environ.get("AWS_CONDITIONAL_PUT", "")
        return str(setting).strip().lower() != "disabled"
    return kind not in {"HTTPStore", "LocalStore"}


def deleting_singly(store: Any) -> Any:
    """The same store, set to one deletion a request: some that speak S3 have no request for several."""
    if type(store).__name__ != "S3Store":
        return store
    return type(store)(
        prefix=store.prefix,
        config={**store.config, "disable_bulk_delete": True},
        client_options=store.client_options,
        retry_config=store.retry_config,
        credential_provider=store.credential_provider,
    )


def _read_address(scheme: str, rest: str) -> tuple[str, str]:
    match = _ADDRESS.fullmatch(rest)
    prefix = match[2][1:] if match else ""
    if match is None or len(prefix) > _MOST_PREFIX or any(part in {".", ".."} for part in prefix.split("/")):
        # Not repeated, since it may be a key.
        raise ValueError(
            f"{scheme}: takes {scheme}://bucket/prefix of letters, digits and -._~+=@, without a user, a '?', a '#' or "
            "a variable; options and credentials come from the environment"
        )
    return match[1], prefix


_ANOTHER = '"00000000000000000000000000000000"'


def probe_conditions(store: Any, key: str, place: str) -> None:
    """Write an object of an unused key on conditions that hold and that do not, and remove it. VaultError: it fails."""
    heeds = False
    try:
        heeds = _heeds_conditions(store, key)
    except Exception as error:
        if not _is_unsupported(error):
            with contextlib.suppress(Exception):  # it may be there all the same; the first error says more
                store.delete(key)
            raise
    refused = "has no conditional writes, so two writers could overwrite each other's latest snapshot unseen; "
    refused += "where one program at a time saves to an S3 store, set AWS_CONDITIONAL_PUT=disabled"
    try:
        store.delete(key)
    except FileNotFoundError:
        pass  # the store refused every conditional write
    except Exception as error:
        if not _is_unsupported(error):
            raise
        heeds, refused = False, f"did not delete {key}, which is left there: a vault has to be able to delete its files"
    if not heeds:
        raise VaultError(f"{place} {refused}", status=501, code="NOT_SUPPORTED")


def _heeds_conditions(store: Any, key: str) -> bool:
    def puts(mode: Any) -> bool:
        try:
            store.put(key, b"1", mode=mode, use_multipart=False)
        except Exception as error:
            if translate_store(error, "").status != 412:
                raise
            return False
        return True

    if not puts("create"):
        return False
    meta = store.get(key).meta
    current = {name: meta[name] for name in ("e_tag", "version") if meta[name]}
    stale = {**current, "e_tag": _ANOTHER, **({"version": "1"} if meta["version"] else {})}
    return "e_tag" in current and not puts("create") and not puts(stale) and puts(current)


def _is_unsupported(error: Exception) -> bool:
    return translate_store(error, "").code == "NOT_SUPPORTED"
