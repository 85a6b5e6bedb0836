"""Fixtures of the tests of backups along a time."""

import signal

import pytest
from agents import Memory
from turning_clock import TurningClock

from colony_memory import ColonyMemory
from colony_memory.testing import FaultyVault
from colony_memory.vaults.memory import MemoryVault


@pytest.fixture
def vault():
    return FaultyVault(MemoryVault())


@pytest.fixture
def mem(vault):
    return ColonyMemory(backend=vault)


@pytest.fixture
def memory():
    return Memory()


@pytest.fixture
def clock():
    return TurningClock()


@pytest.fixture
def sigterm():
    """Calls of a handler that was there before; the one of the test run is put back."""
    received = []
    before = signal.signal(signal.SIGTERM, lambda signum, frame: received.append(signum))
    yield received
    signal.signal(signal.SIGTERM, before)
