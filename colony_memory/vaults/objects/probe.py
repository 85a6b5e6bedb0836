"""Whether a store writes on condition: found out by doing so, since some answer 501 and some pay no heed."""

from __future__ import annotations

import contextlib
from typing import Any

from colony_memory.exceptions import VaultError
from colony_memory.vaults.objects.errors import translate_store

_ANOTHER = '"00000000000000000000000000000000"'


def probe_conditions(store: Any, key: str, place: str) -> None:
    """Write an object of this key, which nobody has, on conditions that hold and that do not, and remove it.

    Raises:
        VaultError: The store does not write on condition, or does not delete, with the code ``"NOT_SUPPORTED"``.
        Exception: Whatever obstore raises where something else fails.
    """
    try:
        heeds = _try_conditions(store, key)
    except Exception as error:
        if translate_store(error, "").code != "NOT_SUPPORTED":
            with contextlib.suppress(Exception):  # it may be there all the same, and what was raised says more
                store.delete(key)
            raise
        heeds = False
    _remove(store, key, place)
    if not heeds:
        raise VaultError(
            f"{place} does not write on condition, and two writers could overwrite each other's latest snapshot "
            "unseen; where one program at a time saves to an S3 store, AWS_CONDITIONAL_PUT=disabled says so",
            status=501,
            code="NOT_SUPPORTED",
        )


def _try_conditions(store: Any, key: str) -> bool:
    store.put(key, b"0", mode="create", use_multipart=False)
    meta = store.get(key).meta
    if not meta["e_tag"] or not _refuses(store, key, "create"):
        return False
    version = {"version": "1"} if meta["version"] else {}
    if not _refuses(store, key, {"e_tag": _ANOTHER, **version}):
        return False
    now = {"e_tag": meta["e_tag"], **({"version": meta["version"]} if version else {})}
    return not _refuses(store, key, now)


def _remove(store: Any, key: str, place: str) -> None:
    try:
        store.delete(key)
    except FileNotFoundError:
        pass  # the store took none on condition
    except Exception as error:
        if translate_store(error, "").code != "NOT_SUPPORTED":
            raise
        raise VaultError(
            f"{place} does not delete in the way that it is asked to, so that {key} is left there: a vault has to be "
            "able to remove what it holds",
            status=501,
            code="NOT_SUPPORTED",
        ) from None


def _refuses(store: Any, key: str, mode: Any) -> bool:
    """Whether the store says that the condition does not hold."""
    try:
        store.put(key, b"1", mode=mode, use_multipart=False)
    except Exception as error:
        if translate_store(error, "").status != 412:
            raise
        return True
    return False
