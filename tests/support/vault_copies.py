"""Vaults that stand as they stood, for tests that begin at the same place again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colony_memory.testing import FakeVault

if TYPE_CHECKING:
    from collections.abc import Callable


def copy_of(vault: FakeVault, clock: Callable[[], float] | None = None) -> FakeVault:
    """A vault of its own with the same files, of the same ages, without a limit of operations."""
    copied = FakeVault(operations_per_hour=None, clock=clock or vault.clock)
    copied.files.update(vault.files)
    copied._known.update(vault._known)
    copied._provisioned = vault._provisioned
    return copied
