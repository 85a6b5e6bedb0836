"""Encrypted snapshots where age is not installed: listed, checked and pruned, and the error says what to do."""

import sys

import age_keys as keys
import pytest
from chains import growing

from colony_memory import ColonyMemory, ColonyMemoryError, DecryptionError, Passphrase
from colony_memory._format import age
from colony_memory.testing import FakeVault

HISTORY = growing(3)


@pytest.fixture
def vault(monkeypatch):
    """Two encrypted snapshots, in a process that has lost age since."""
    vault = FakeVault(operations_per_hour=None)
    for documents in HISTORY[:2]:
        ColonyMemory(backend=vault, encrypt_to=keys.RECIPIENT).backup(documents)
    age._age.cache_clear()
    monkeypatch.setitem(sys.modules, "pyrage", None)
    yield vault
    monkeypatch.undo()
    age._age.cache_clear()


@pytest.mark.parametrize(
    "options",
    [{"encrypt_to": keys.RECIPIENT}, {"identities": keys.SECRET}, {"encrypt_to": Passphrase("x")}],
    ids=range(3),
)
def test_a_client_that_needs_it_says_what_to_install(vault, options):
    with pytest.raises(ColonyMemoryError, match=r"pip install 'colony-memory\[encrypt\]'"):
        ColonyMemory(backend=vault, **options)


def test_what_needs_no_key_works(vault):
    mem = ColonyMemory(backend=vault)
    with pytest.raises(DecryptionError, match=r"'colony-memory\[encrypt\]'; try ColonyMemory\(identities=…\)$"):
        mem.restore()
    assert mem.verify().sealed
    assert [info.encrypted for info in mem.list_snapshots()] == [True, True]
    assert mem.prune(keep=1) == 1
