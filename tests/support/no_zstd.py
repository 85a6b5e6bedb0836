"""A process that has no zstd."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from colony_memory._format.v2 import zstd as door

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def lose_zstd() -> Iterator[None]:
    """For the length of the block, the extra is not installed."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("backports", "backports.zstd", "compression", "compression.zstd"):
            patch.setitem(sys.modules, name, None)
        door._zstd.cache_clear()
        yield
    door._zstd.cache_clear()
