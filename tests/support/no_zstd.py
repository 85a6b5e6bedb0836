"""A process that has no zstd."""

import sys
from contextlib import contextmanager

import pytest

from colony_memory._format.v2 import zstd as door


@contextmanager
def lose_zstd():
    """For the length of the block, the extra is not installed."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("backports", "backports.zstd", "compression", "compression.zstd"):
            patch.setitem(sys.modules, name, None)
        door._zstd.cache_clear()
        yield
    door._zstd.cache_clear()
