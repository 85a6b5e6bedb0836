"""Pure: when the next run is due, on one clock of seconds that never goes back."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

from colony_memory._values import dataclass
from colony_memory.exceptions import RateLimited, VaultError

#: Seconds. What a vault may ask for at most: a bad Retry-After must not end the backups for good.
LONGEST_ASKED = 86_400.0
#: Seconds. The longest sleep in one piece: what a sleep is measured by may stand still while the machine is suspended.
LOOK = 30.0
# Seconds. The wait after the first of a run of errors; each further one doubles it.
_FIRST_RETRY = 30.0


class Reading(NamedTuple):
    """Two clocks at one moment: the one on the wall, and one that nobody sets but that may stand still in suspend."""

    wall: float
    steady: float


def passed(before: Reading, now: Reading) -> float:
    """Seconds between two readings: what the clock says that went further, and never less than none.

    After a suspend the wall clock may be the only one that knows; where it was set back, only the other one does.
    Where it was set ahead, a run comes early, once.
    """
    return max(0.0, now.wall - before.wall, now.steady - before.steady)


@dataclass(frozen=True)
class Timetable:
    """What has happened so far, as far as it decides on the next run."""

    every: float  # seconds between runs
    due: float  # when the next one is due
    longest_retry: float  # most seconds to wait after an error where the vault asks for nothing
    failures: int = 0  # errors in a row
    barred_until: float = -math.inf  # when the vault's rate limit ends

    def wait(self, now: float) -> float:
        """Seconds to sleep before the next look; 0 where a run is due."""
        return min(max(0.0, self.due - now), LOOK)

    def barred(self, now: float) -> float:
        """Seconds that the vault's rate limit still holds."""
        return max(0.0, self.barred_until - now)

    def after_success(self, now: float) -> Timetable:
        """The next run is due an interval after the end of this one."""
        return replace(self, due=now + self.every, failures=0)

    def after_failure(self, now: float, error: BaseException, *, share: float = 1.0) -> Timetable:
        """Try again in 30 s, doubled with each further error, and not before what the vault asked for."""
        asked = asked_wait(error)
        wait = min(self.longest_retry, _FIRST_RETRY * 2.0 ** min(self.failures, 20))
        return replace(
            self,
            due=now + max(wait * share, asked),
            failures=self.failures + 1,
            barred_until=now + asked if isinstance(error, RateLimited) else self.barred_until,
        )


def asked_wait(error: BaseException) -> float:
    """Seconds that the vault asked to be left alone for, a day at most; 0 where it did not."""
    if isinstance(error, VaultError) and error.retry_after is not None:
        return min(max(0.0, error.retry_after), LONGEST_ASKED)
    return 0.0


def require_seconds(name: str, value: object, *, most: float) -> float:
    """The value as a float."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= most:
        bound = "" if most == math.inf else f" and up to {most:.0f}"
        msg = f"{name} must be a number of seconds above 0{bound}, not {value!r}"
        raise ValueError(msg)
    return float(value)
