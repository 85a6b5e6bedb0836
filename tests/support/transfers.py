"""Memories to move, for the tests of export, import and copy."""

from contextlib import contextmanager

from colony_memory import ColonyMemory
from colony_memory.testing import FakeVault

#: Makes three parts of the last but one of the versions.
PART_CHARS = 120
LARGE = {"MEMORY.md": "three parts of noise " + "".join(map(chr, range(0x4E00, 0x4E60)))}
VERSIONS = [{"MEMORY.md": "version 0"}, LARGE, {"MEMORY.md": "version 2"}]
POINTER = "cmem.default.latest.json"


def fake(**options):
    return FakeVault(**{"operations_per_hour": None, **options})


def filled(versions=VERSIONS, *, label="default", vault=None, **options):
    """A memory that holds these versions, and their ids."""
    memory = ColonyMemory(backend=vault if vault is not None else fake(), **options)
    return memory, [memory.backup(documents, label=label).snapshot_id for documents in versions]


def backend_of(memory):
    return memory._session.vault.backend


def files(memory):
    return backend_of(memory).files


def no_pointers(found):
    return {name: text for name, text in found.items() if not name.endswith(".latest.json")}


def contents(memory):
    return [memory.restore(label=info.label, snapshot_id=info.snapshot_id) for info in memory.list_snapshots()]


@contextmanager
def nothing_uploaded(vault):
    before = len(vault.calls)
    yield
    assert [call for call in vault.calls[before:] if call[0] in ("upload", "delete")] == []


def hours_later(vault, hours=2):
    """The vault's clock goes on; what is written from now on shows it."""
    backend = getattr(vault, "vault", vault)
    before = backend.clock
    backend.clock = lambda: before() + hours * 3600
