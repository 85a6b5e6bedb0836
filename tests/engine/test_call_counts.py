"""Vault calls of each verb. A signature costs none to save and list, and one to see that a pointer is no older one."""

import pytest
from faces import PlainVault

from colony_memory import ColonyMemory, ColonyMemoryWarning, Ed25519Signer
from colony_memory.testing import FakeVault, FaultyVault

#: What 0.1.1 writes.
LEGACY = ("format", "label", "snapshot_id", "manifest_file", "updated_at")
WRITES = ("upload", "delete")


class Metered:
    """A vault, and the clients of it; each snapshot has one part."""

    def __init__(self, kind, signs):
        if signs:
            pytest.importorskip("cryptography")
        self.options = {"signer": Ed25519Signer(bytes(range(32)))} if signs else {}
        self.fake = FakeVault(operations_per_hour=None)
        self.vault = FaultyVault(self.fake if kind == "full" else PlainVault(self.fake))
        self.mem = self.client()

    def client(self):
        return ColonyMemory(backend=self.vault, **self.options)

    def fill(self, number, *, label="default"):
        return [self.mem.backup({"n": f"{n:03}"}, label=label).snapshot_id for n in range(number)]

    def count(self, run, mem=None):
        """``(reads, writes)`` of a verb, by a client that has just started where none is given."""
        mem = mem or self.client()
        before = len(self.vault.calls)
        run(mem)
        verbs = [verb for verb, _ in self.vault.calls[before:]]
        writes = sum(verb in WRITES for verb in verbs)
        return len(verbs) - writes, writes


@pytest.fixture(params=["full", "plain"])
def kind(request):
    return request.param


@pytest.fixture(params=[False, True], ids=["unsigned", "signed"])
def metered(request, kind):
    return Metered(kind, request.param)


def test_a_first_backup(metered):
    assert metered.count(lambda mem: mem.backup({"n": "0"})) == (3, 3)


def test_a_changed_backup(metered, kind):
    metered.fill(5)
    most = 2 if kind == "full" else 3
    assert metered.count(lambda mem: mem.backup({"n": "new"}), metered.mem) == (most, 3)
    assert metered.count(lambda mem: mem.backup({"n": "newer"})) == (most, 3)


def test_a_backup_over_the_latest_of_another_host_reads_that_once(metered, kind):
    metered.fill(5)

    def save(mem):
        mem._session.origins["default"] = "1" * 16
        with pytest.warns(ColonyMemoryWarning, match="text that this memory lacks"):
            mem.backup({"n": "new"})

    assert metered.count(save) == ((2 if kind == "full" else 3) + 2, 3)


def test_an_unchanged_backup(metered):
    metered.fill(5)
    assert metered.count(lambda mem: mem.backup({"n": "004"}), metered.mem) == (2, 0)
    # A client that has not read the bytes itself reads them, and then says so for a day.
    mem = metered.client()
    assert metered.count(lambda mem: mem.backup({"n": "004"}), mem) == (4, 0)
    assert metered.count(lambda mem: mem.backup({"n": "004"}), mem) == (2, 0)


def test_a_backup_that_keeps_five(metered, kind):
    metered.fill(5)
    assert metered.count(lambda mem: mem.backup({"n": "new"}, prune_keep=5)) == (4 if kind == "full" else 5, 5)


def test_a_restore(metered):
    metered.fill(5)
    assert metered.count(lambda mem: mem.restore()) == (4 if metered.options else 3, 0)


@pytest.mark.once
def test_a_list_of_100_among_300(metered):
    for label in ("default", "work", "home"):
        metered.fill(100, label=label)
    found = []
    assert metered.count(lambda mem: found.extend(mem.list_snapshots(label="default"))) == (2, 0)
    assert len(found) == 100


def test_a_delete_of_the_latest(metered, kind):
    ids = metered.fill(5)
    # The two files of what becomes the latest on top.
    reads = 5 if kind == "full" else 7
    assert metered.count(lambda mem: mem.delete_snapshot(label="default", snapshot_id=ids[-1])) == (reads, 3)


@pytest.mark.once
def test_a_prune_of_50_of_100(metered, kind):
    metered.fill(100)
    # The pointer, a list, the two files of the newest, and the list that shows that the manifests are gone.
    reads = 5 if kind == "full" else 7
    assert metered.count(lambda mem: mem.prune(keep=50)) == (reads, 1 + 2 * 50)
