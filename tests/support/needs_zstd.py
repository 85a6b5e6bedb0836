"""Imported by test modules that cannot do without zstd: they are skipped where there is none."""

import pytest

from colony_memory import ColonyMemoryError
from colony_memory._format.v2.zstd import require_zstd

try:
    require_zstd()
except ColonyMemoryError as error:
    pytest.skip(str(error), allow_module_level=True)
