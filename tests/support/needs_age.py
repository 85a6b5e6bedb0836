"""Imported by test modules that cannot do without age: they are skipped where there is none."""

import needs_zstd  # noqa: F401 - skips what imports this where there is none
import pytest

pytest.importorskip("pyrage")
