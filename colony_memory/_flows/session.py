"""What one client remembers, and how it tells of what it worked around."""

from __future__ import annotations

import os
import warnings
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from colony_memory.exceptions import ColonyMemoryWarning

if TYPE_CHECKING:
    from collections.abc import Callable

    from colony_memory._vault import Vault
    from colony_memory.signing import Signer
    from colony_memory.snapshot import Manifest


def _utc_now() -> datetime:
    return datetime.now(timezone.utc)


class Session:
    """One client.

    Attributes:
        vault: Where the snapshots are.
        signer: Signs what this client writes.
        max_bytes: Bytes of plain text to read or write at most.
        now: The clock.
        manifests: Manifests that were read, by file name; they never change.
        good: Ids of snapshots whose every byte this client has checked or written.
        newest: The newest id of its own, by label.
    """

    def __init__(
        self, vault: Vault, *, signer: Signer | None, max_bytes: int, now: Callable[[], datetime] = _utc_now
    ) -> None:
        self.vault = vault
        self.signer = signer
        self.max_bytes = max_bytes
        self.now = now
        self.manifests: dict[str, Manifest] = {}
        self.good: set[str] = set()
        self.newest: dict[str, str] = {}

    def stamp(self) -> str:
        """The time as manifests and pointers give it."""
        return f"{self.now().astimezone(timezone.utc):%Y-%m-%dT%H:%M:%SZ}"

    @staticmethod
    def token() -> str:
        """Six hex digits that no other writer picks."""
        return os.urandom(3).hex()


def log(message: str) -> None:
    """Leave a line in the log, for whoever looks there."""
    import logging  # slow to import, and rarely needed

    logging.getLogger("colony_memory").info(message)


def warn(message: str) -> None:
    """Tell of something that was worked around."""
    warnings.warn(message, ColonyMemoryWarning, stacklevel=2)
