"""Two clients, faults and clock jumps against a dict."""

import importlib.util

import pytest
from hypothesis import HealthCheck, settings
from memory_machine import MemoryMachine

from colony_memory._format.v2.zstd import is_installed

pytestmark = pytest.mark.exhaustive

FEW = settings(
    max_examples=30,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

TestMemory = MemoryMachine.TestCase
TestMemory.settings = FEW

if importlib.util.find_spec("cryptography"):
    from signed_machine import SignedMemoryMachine

    TestSignedMemory = SignedMemoryMachine.TestCase
    TestSignedMemory.settings = FEW

if is_installed():
    from mixed_machine import Mixed, MixedMachine, short_chains

    @pytest.fixture(autouse=True, scope="module")
    def _short_chains():
        with short_chains():
            yield

    TestMixedMemory = MixedMachine.TestCase
    TestMixedMemory.settings = FEW

    if importlib.util.find_spec("cryptography"):

        class SignedMixedMachine(Mixed, SignedMemoryMachine):
            """The same, by clients that sign."""

        TestSignedMixedMemory = SignedMixedMachine.TestCase
        TestSignedMixedMemory.settings = FEW
