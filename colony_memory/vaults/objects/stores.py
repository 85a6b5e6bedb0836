"""From a URL to the store of obstore that it names, and from a store to what it is called in messages."""

from __future__ import annotations

import os
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from colony_memory.exceptions import ColonyMemoryError, VaultUnavailable
from colony_memory.vaults.objects.errors import shorten

if TYPE_CHECKING:
    from obstore.store import ObjectStore

#: The schemes of URLs, with the class of obstore and the name of its first setting.
SCHEMES = {
    "s3": ("S3Store", "bucket"),
    "gs": ("GCSStore", "bucket"),
    "az": ("AzureStore", "container_name"),
}
_ADDRESS = re.compile(r"//([A-Za-z0-9][A-Za-z0-9._-]{1,221})((?:/[A-Za-z0-9._~+=@-]+)*)/?")
_MOST_PREFIX = 400
# A store's key has at most 1,024 bytes.
_RETRIES = 5
_RETRY_SECONDS = 20.0
"""Obstore waits 30 s for one answer, unless its environment says otherwise: a call ends within 50 s."""

_asked_in: list[int] = []
"""The process that asked a store first, and so has obstore's threads."""


def open_store(scheme: str, rest: str) -> ObjectStore:
    """The store of a URL ``scheme://bucket/prefix``, with the options and credentials of obstore's environment.

    Args:
        scheme: One of :data:`SCHEMES`.
        rest: What follows the colon.

    Raises:
        ValueError: It is not a bucket and a prefix of plain characters, and nothing besides.
        ColonyMemoryError: The extra ``objects`` is missing, or obstore does not understand its settings.
    """
    bucket, prefix = _read_address(scheme, rest)
    stores = _import_stores()
    kind, _ = SCHEMES[scheme]
    try:
        store: ObjectStore = getattr(stores, kind)(
            bucket,
            prefix=prefix or None,
            retry_config={"max_retries": _RETRIES, "retry_timeout": timedelta(seconds=_RETRY_SECONDS)},
        )
    except Exception as error:  # noqa: BLE001 - whatever it is, it may quote a key
        raise ColonyMemoryError(
            f"{scheme}://{bucket} cannot be opened with the settings of the environment: {shorten(error)}"
        ) from None
    return store


def describe(store: Any) -> str:
    """What a store is called: its URL where it has one, else its class. No setting is in it but bucket and prefix."""
    kind = type(store).__name__
    prefix = str(getattr(store, "prefix", None) or "").strip("/")
    for scheme, (name, setting) in SCHEMES.items():
        bucket = store.config.get(setting) if kind == name else None
        if bucket:
            return f"{scheme}://{bucket}" + (f"/{prefix}" if prefix else "")
    return f"{kind}({prefix!r})" if prefix else kind


def writes_on_condition(store: Any) -> bool:
    """Whether a store may, as far as can be told without asking it."""
    kind = type(store).__name__
    if kind == "S3Store":
        told = store.config.get("conditional_put") or os.environ.get("AWS_CONDITIONAL_PUT", "")
        return str(told).strip().lower() != "disabled"
    return kind not in {"HTTPStore", "LocalStore"}


def deleting_singly(store: Any) -> Any:
    """The same store, told to delete an object with a request of its own.

    A vault deletes no two at once, and some stores that speak S3 have nothing for several.
    """
    if type(store).__name__ != "S3Store":
        return store
    return type(store)(
        prefix=store.prefix,
        config={**store.config, "disable_bulk_delete": True},
        client_options=store.client_options,
        retry_config=store.retry_config,
        credential_provider=store.credential_provider,
    )


def refuse_fork(doing: str) -> None:
    """Go on only in the process that asked a store first: obstore's threads do not follow into a fork of it.

    Raises:
        VaultUnavailable: This is another one, and would wait for ever.
    """
    if not _asked_in:
        _asked_in.append(os.getpid())
    if _asked_in[0] != os.getpid():
        raise VaultUnavailable(
            f"{doing} failed: object stores were asked before this process was forked, and obstore does not work in a "
            "fork: start processes with 'spawn'"
        )


def _read_address(scheme: str, rest: str) -> tuple[str, str]:
    found = _ADDRESS.fullmatch(rest)
    prefix = found[2][1:] if found else ""
    if found is None or len(prefix) > _MOST_PREFIX or any(part in {".", ".."} for part in prefix.split("/")):
        # Not repeated: what stands there may be a key.
        raise ValueError(
            f"{scheme}: takes {scheme}://bucket/prefix of letters, digits and -._~+=@, without a user, a '?', a '#' or "
            "a variable; options and credentials come from the environment"
        )
    return found[1], prefix


def _import_stores() -> Any:
    try:
        import obstore.store
    except ImportError as error:
        raise ColonyMemoryError(
            "object stores need Python 3.11 or later and obstore: pip install 'colony-memory[objects]'"
        ) from error
    return obstore.store
