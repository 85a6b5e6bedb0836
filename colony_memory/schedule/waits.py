"""Pure: when to try again after a backup that failed."""

from __future__ import annotations

from colony_memory.exceptions import VaultError

#: Seconds. What a vault may ask for at most: a bad Retry-After must not end the backups for good.
LONGEST_ASKED = 86_400.0
# Seconds. The wait after the first of a run of errors; each further one doubles it.
_FIRST = 30.0


def asked_wait(error: BaseException) -> float:
    """Seconds that the vault asked to be left alone for, a day at most; 0 where it did not."""
    if isinstance(error, VaultError) and error.retry_after is not None:
        return min(max(0.0, error.retry_after), LONGEST_ASKED)
    return 0.0


def retry_delay(error: BaseException, *, failures: int, longest: float, share: float = 1.0) -> float:
    """Seconds until the next try: 30, doubled with each further error, and no less than the vault asked for.

    Args:
        error: What the latest try failed of.
        failures: Errors in a row, this one included.
        longest: Most seconds to wait where the vault asks for nothing.
        share: Part of that wait to take, above 0 and up to 1: by chance, many clients do not come back as one.
    """
    wait = min(longest, _FIRST * 2.0 ** min(failures - 1, 20))
    return max(wait * share, asked_wait(error))


def require_seconds(name: str, value: object, *, most: float) -> float:
    """The value as a float.

    Raises:
        ValueError: It is no number above 0 and up to ``most``.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= most:
        msg = f"{name} must be a number of seconds above 0, not {value!r}"
        raise ValueError(msg)
    return float(value)
