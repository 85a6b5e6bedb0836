"""Both facades behind one synchronous surface, so that one list of tests runs over both."""

import asyncio
import inspect

import pytest

from colony_memory import AsyncColonyMemory, ColonyMemory
from colony_memory._format.v2.zstd import is_installed
from colony_memory.testing import FakeVault

with_zstd = pytest.mark.skipif(not is_installed(), reason="needs zstd")
FORMATS = [1, pytest.param(2, marks=with_zstd)]


def _suspending(method):
    async def call(*args, **kwargs):
        await asyncio.sleep(0)
        return method(*args, **kwargs)

    return call


class AsyncFakeVault:
    """A vault behind coroutines, each of which really suspends before it calls the vault."""

    def __init__(self, vault=None):
        self.vault = FakeVault() if vault is None else vault
        for name in dir(self.vault):
            if name.startswith("vault_") and not hasattr(type(self), name):
                setattr(self, name, _suspending(getattr(self.vault, name)))


class Awaited:
    """An :class:`AsyncColonyMemory` whose verbs are awaited to the end."""

    def __init__(self, memory):
        self.memory = memory

    def __getattr__(self, name):
        attribute = getattr(self.memory, name)
        if not inspect.iscoroutinefunction(attribute):
            return attribute

        def call(*args, **kwargs):
            return asyncio.run(attribute(*args, **kwargs))

        return call


class InsideLoop:
    """A :class:`ColonyMemory` that is called from inside a running event loop."""

    def __init__(self, memory):
        self.memory = memory

    def __getattr__(self, name):
        attribute = getattr(self.memory, name)
        if not callable(attribute):
            return attribute

        def call(*args, **kwargs):
            async def inside():
                return attribute(*args, **kwargs)

            return asyncio.run(inside())

        return call


#: How to open a memory over a plain vault, by the name of the face.
FACES = {
    "sync": lambda vault, **options: ColonyMemory(backend=vault, **options),
    "sync-in-loop": lambda vault, **options: InsideLoop(ColonyMemory(backend=vault, **options)),
    "async": lambda vault, **options: Awaited(AsyncColonyMemory(backend=AsyncFakeVault(vault), **options)),
    "async-plain-vault": lambda vault, **options: Awaited(AsyncColonyMemory(backend=vault, **options)),
}


class PlainVault:
    """The five methods and nothing more, as any user's own vault has them."""

    def __init__(self, vault):
        self.vault = vault

    @property
    def files(self):
        return self.vault.files

    def vault_status(self):
        return self.vault.vault_status()

    def vault_list_files(self):
        return self.vault.vault_list_files()

    def vault_get_file(self, filename):
        return self.vault.vault_get_file(filename)

    def vault_upload_file(self, filename, content):
        return self.vault.vault_upload_file(filename, content)

    def vault_delete_file(self, filename):
        return self.vault.vault_delete_file(filename)


class DictWitness:
    def __init__(self):
        self.heads = {}

    def read(self, label):
        return self.heads.get(label)

    def record(self, label, head):
        known = self.heads.get(label)
        if known is None or int(known.partition(":")[0]) <= int(head.partition(":")[0]):
            self.heads[label] = head


class Clock:
    """Stands still until it is set."""

    def __init__(self, now=1_767_225_600.0):
        self.now = now

    def __call__(self):
        return self.now


def copy_of(vault, clock=None):
    """A vault of its own with the same files, of the same ages, without a limit of operations."""
    copied = FakeVault(operations_per_hour=None, clock=clock or vault.clock)
    copied.files.update(vault.files)
    copied._known.update(vault._known)
    copied._provisioned = vault._provisioned
    return copied
