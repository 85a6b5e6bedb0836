"""A watch in a thread of its own, beside a command that the main thread waits for."""

from __future__ import annotations

import os
import threading
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from colony_memory.exceptions import VaultUnavailable, message_of
from colony_memory.schedule.last_run import LastRun
from colony_memory.schedule.watch import Ended

if TYPE_CHECKING:
    from typing_extensions import Self

    from colony_memory.schedule.watch import Watch

__all__ = ["Beside"]

# Seconds that the watch may take beyond its own time for the last backup, to note and tell how that went.
_GRACE = 2.0


class Beside:
    """Runs a :class:`~colony_memory.schedule.watch.Watch` that is told to be ``beside`` something.

    The thread is there from the ``with`` on, so that what has begun is never without one; backups begin with
    :meth:`go`.

    Args:
        watch: The watch.
        final_timeout: Seconds that its last backup may take.
    """

    def __init__(self, watch: Watch, *, final_timeout: float) -> None:
        self._watch = watch
        self._final_timeout = final_timeout
        self._decided = threading.Event()
        self._wanted = False
        self._ended: Ended | None = None
        self._thread = threading.Thread(target=self._work, name="colony-memory-beside", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._decided.set()

    @property
    def busy(self) -> bool:
        """Whether a backup is under way; after the end, whether one was left behind."""
        return self._watch.busy or (self._wanted and self._thread.is_alive())

    def go(self) -> None:
        """Let the backups begin."""
        self._wanted = True
        self._decided.set()

    def end(self, reason: str) -> Ended:
        """Have the last backup made, and wait for it no longer than it may take; how that went.

        Raises:
            KeyboardInterrupt: SIGINT came meanwhile.
        """
        self._watch.stop(reason)
        self._thread.join(self._final_timeout + _GRACE)
        if self._ended is not None:
            return self._ended
        return _failed(VaultUnavailable(f"not done within {self._final_timeout:g} s"))

    def _work(self) -> None:
        self._decided.wait()
        if not self._wanted:
            return
        try:
            self._ended = self._watch.run()
        except BaseException as error:  # noqa: BLE001 - told at the end, when somebody hears it
            self._ended = _failed(error)


def _failed(error: BaseException) -> Ended:
    why = message_of(error) or type(error).__name__
    last = LastRun(datetime.now(timezone.utc), ok=False, message=why, snapshot_id=None, next_run=None, pid=os.getpid())
    return Ended(last, error)
