"""Two clients, faults and clock jumps against a dict."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from memory_machine import MemoryMachine

pytestmark = pytest.mark.exhaustive

TestMemory = MemoryMachine.TestCase
TestMemory.settings = settings(
    max_examples=60,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
