"""Fixtures of the tests of what is done with folders and vaults."""

import warnings

import pytest

from colony_memory import ColonyMemory
from colony_memory.exceptions import ColonyMemoryWarning
from colony_memory.vaults.local import LocalVault
from colony_memory.vaults.memory import MemoryVault


@pytest.fixture
def memory():
    return ColonyMemory(backend=MemoryVault())


@pytest.fixture
def vault(tmp_path):
    return LocalVault(tmp_path / "vault", create=True)


@pytest.fixture
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColonyMemoryWarning)
        yield
