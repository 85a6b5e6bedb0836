"""The one rule of what fits into a vault and into its hour."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from colony_memory.exceptions import Hint, QuotaExceeded, RateLimited
from colony_memory.snapshot import MAX_FILE_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from colony_memory._engine.session import Session

#: Bytes that a hosted vault is given with its first write, until which it reports zeros.
FIRST_QUOTA = 10_000_000
# An hour begins with the first operation, so that it has ended by then at the latest.
_HOUR = 3600.0


async def available(session: Session) -> int | None:
    """Free bytes, None where the vault does not tell, or has no quota."""
    if session.vault.unlimited:
        return None
    known = await session.vault.free_bytes()
    return free_in(await session.vault.status()) if known is None else known


def free_in(status: Mapping[str, Any]) -> int | None:
    """Free bytes as a vault's status tells them, None where it does not."""
    quota, free = status.get("quota_bytes"), status.get("available_bytes")
    if quota == 0 and not status.get("used_bytes") and not status.get("file_count"):
        return FIRST_QUOTA
    return free if isinstance(quota, int) and quota > 0 and isinstance(free, int) else None


def check_files(files: Mapping[str, str], what: str) -> None:
    """Raise a QuotaExceeded where a file is larger than a vault takes."""
    for name, text in files.items():
        size = len(text.encode("utf-8", "surrogatepass"))
        if size > MAX_FILE_BYTES:
            why = "its list of document names is too long" if name.endswith(".manifest.json") else "a part is too long"
            msg = (
                f"{what} was not written: {name} would be {size} bytes and a vault file holds {MAX_FILE_BYTES}; {why}: "
                "save fewer documents, or spread them over several labels"
            )
            raise QuotaExceeded(msg, needed=size, available=MAX_FILE_BYTES)


async def require(session: Session, need: int, what: str, *, label: str | None = None) -> None:
    """Raise a QuotaExceeded unless so many bytes are free."""
    free = await available(session)
    if free is not None and need > free:
        raise full(need, free, what, label)


def full(need: int, free: int, what: str, label: str | None, *, gain: int | None = None) -> QuotaExceeded:
    """The error of what does not fit; ``gain`` bytes a prune would free at most, None where nobody knows."""
    msg = f"{what} does not fit: it takes about {need} bytes, and {free} are free in the vault"
    hint = Hint("prune", label=label) if gain is None or need <= free + gain else None
    return QuotaExceeded(msg, needed=need, available=free, hint=hint)


async def require_operations(session: Session, need: int, what: str) -> None:
    """Raise a RateLimited where the vault says that it takes fewer uploads and deletes this hour."""
    left = await session.vault.operations_left()
    if left is not None and left < need:
        wait = await session.vault.operations_reset() or _HOUR
        when = f"{math.ceil(wait / 60)} min" if wait <= _HOUR - 60 else "an hour"
        msg = f"the vault takes {left} more uploads and deletes this hour, and {what} needs {need}; try again in {when}"
        raise RateLimited(msg, retry_after=wait)
