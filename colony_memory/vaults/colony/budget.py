"""How many uploads and deletes are left this hour, as the vault's replies tell."""

from __future__ import annotations

import threading
import time

_HOUR = 3600.0
_EPOCH_FROM = 1_000_000_000
"""A reset from here on is in seconds since the epoch, one below in seconds from now."""


class Budget:
    """Uploads and deletes left, as the latest reply to one of them said."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left: int | None = None
        self._until = 0.0

    def note(self, left: int | None, reset: float | None) -> None:
        """Keep a count until its reset: seconds from now, or since the epoch; an hour where that is not said."""
        wait = _HOUR if reset is None else reset if reset < _EPOCH_FROM else reset - time.time()
        with self._lock:
            self._left = left
            self._until = time.monotonic() + min(wait, _HOUR)

    def left(self) -> int | None:
        """The count, None where there is none or its hour is over."""
        with self._lock:
            return self._left if time.monotonic() < self._until else None
