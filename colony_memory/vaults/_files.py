"""Pure: what all vaults say alike of a file: its bytes, its etag, its time, and why it cannot be written or read."""

from __future__ import annotations

import hashlib
from datetime import datetime, timezone
from functools import lru_cache

from colony_memory.exceptions import VaultError

#: Most bytes of a file that are written or read: twice what a snapshot takes unless told otherwise.
MOST_BYTES = 512 * 2**20
#: Codes of :class:`~colony_memory.VaultUnavailable` that say it of one file, not of the vault: what bears its name is
#: no plain file or too large; a sync service keeps its place.
UNFIT_FILE, ELSEWHERE = "UNFIT_FILE", "ELSEWHERE"


def encode_text(filename: str, content: str) -> bytes:
    """A file's text as it is stored."""
    try:
        return content.encode("utf-8")
    except UnicodeEncodeError as exc:
        raise VaultError(
            f"{filename}: character {exc.start} of the text is half of a surrogate pair, which UTF-8 cannot hold",
            status=400,
            code="INVALID_INPUT",
        ) from exc


def etag_of(data: bytes) -> str:
    """The etag of a vault that makes its own."""
    return hashlib.sha256(data).hexdigest()


def written_time(moment: datetime) -> str:
    """A time in UTC as a vault gives it."""
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


@lru_cache(maxsize=4096)
def time_at(seconds: float) -> str | None:
    """The same of seconds since the epoch; None for a time that no calendar has, which must not hide the file."""
    try:
        moment = datetime.fromtimestamp(seconds, timezone.utc)
    except (OverflowError, ValueError, OSError):
        return None
    return written_time(moment)


def check_none_match(if_none_match: str | None) -> None:
    """See that a condition on absence is one that vaults know."""
    if if_none_match not in {None, "*"}:
        raise ValueError(f"if_none_match must be None or '*', not {if_none_match!r}")


def no_such_file(place: object, filename: str) -> VaultError:
    """The error that proves a file's absence."""
    return VaultError(f"no such file in {place}: {filename}", status=404, code="NOT_FOUND")


def not_a_name(place: object, filename: str) -> VaultError:
    """The error about a name that no file can have."""
    return VaultError(f"not a name of a file in {place}: {filename!r}", status=400, code="INVALID_INPUT")


def too_large(place: object, filename: str, size: int, most: int) -> VaultError:
    """The error about a file that is larger than one may be."""
    return VaultError(
        f"{filename} takes {size} bytes; a file in {place} may take {most}", status=400, code="QUOTA_EXCEEDED"
    )
