"""Format 2: every verb is stopped at every vault call, in every way, with a retention and beside another writer."""

import copy
import time
import warnings
from datetime import datetime, timezone

import pytest
from chains import growing
from counts import TRIED
from faces import copy_of
from test_crash_points import STOPS, WAYS, is_over

from colony_memory import ColonyMemory, ColonyMemoryError, ColonyMemoryWarning, SnapshotNotFound
from colony_memory._format.pointer import read_pointer
from colony_memory._format.v2 import chain as chains
from colony_memory.snapshot import read_manifest
from colony_memory.testing import FakeVault, FaultyVault
from colony_memory.testing.faults import ProcessDied

HISTORY = growing(9)
OLD, NEW = HISTORY[:6], HISTORY[6]
VERBS = {
    "first": ([], lambda mem, ids: mem.backup(NEW), NEW),
    "patch": (OLD[:2], lambda mem, ids: mem.backup(NEW), NEW),
    "fold": (OLD[:3], lambda mem, ids: mem.backup(NEW), NEW),
    "backup that prunes": (OLD, lambda mem, ids: mem.backup(NEW, prune_keep=2), NEW),
    "prune": (OLD, lambda mem, ids: mem.prune(label="default", keep=1), OLD[-1]),
    "delete of the latest": (OLD, lambda mem, ids: mem.delete_snapshot(label="default", snapshot_id=ids[-1]), OLD[-2]),
    "delete of the base's": (OLD, lambda mem, ids: mem.delete_snapshot(label="default", snapshot_id=ids[0]), OLD[-1]),
    "delete of the last": (OLD[:1], lambda mem, ids: mem.delete_snapshot(label="default", snapshot_id=ids[0]), None),
}


@pytest.fixture(autouse=True)
def _small_chains(monkeypatch):
    monkeypatch.setattr(chains, "MAX_PACKS", 3)
    monkeypatch.setattr(chains, "_pays", lambda *_: True)


class World:
    """A vault whose clock is turned by hand, and what was saved in it two hours ago."""

    def __init__(self, versions, **options):
        self.now = time.time() - 7200
        self.options = options
        self.vault = FakeVault(operations_per_hour=None, clock=lambda: self.now)
        mem = self.client(self.vault)
        self.ids = [mem.backup(documents).snapshot_id for documents in versions]
        self.saved = dict(zip(self.ids, versions, strict=True))
        self.now += 7200

    def again(self):
        other = copy.copy(self)
        other.vault = copy_of(self.vault, clock=lambda: other.now)
        other.saved = dict(self.saved)
        return other

    def client(self, vault, wire=2):
        mem = ColonyMemory(backend=vault, format=wire, **self.options)
        mem._session.now = lambda: datetime.fromtimestamp(self.now, timezone.utc)
        return mem

    def check(self):
        """All that is listed restores as it was saved, whoever looks; what the packs need is there."""
        mem = self.client(self.vault)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ColonyMemoryWarning)
            found = {info.snapshot_id: mem.restore(snapshot_id=info.snapshot_id) for info in mem.list_snapshots()}
            # What a catalogue lists and is there is not to be broken, whether or not a listing would leave it out.
            text = self.vault.files.get("cmem.default.latest.json")
            for entry in (read_pointer(text, label="default").entries if text else None) or ():
                if f"cmem.default.{entry.snapshot_id}.manifest.json" in self.vault.files:
                    found[entry.snapshot_id] = mem.restore(snapshot_id=entry.snapshot_id)
            for snapshot_id, documents in found.items():
                assert self.saved.get(snapshot_id, documents) == documents
            try:
                latest = mem.restore()
            except SnapshotNotFound:
                latest = None
        return found, latest

    def heal(self):
        """The next backup and prune succeed, and once aged no pack stays that nobody needs."""
        mem = self.client(self.vault)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ColonyMemoryWarning)
            mem.backup(HISTORY[7])
            self.now += 7200
            mem = self.client(self.vault)
            mem.backup(HISTORY[8])
            mem.prune(label="default", keep=2)
        assert self.client(self.vault).restore() == HISTORY[8]
        needed = set()
        for name, text in self.vault.files.items():
            if name.endswith(".manifest.json"):
                label, snapshot_id = name.split(".")[1:3]
                needed |= {*read_manifest(text, label=label, snapshot_id=snapshot_id).part_files}
        assert {name for name in self.vault.files if ".k" in name} == needed


def attempt(run):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ColonyMemoryWarning)
            run()
    except (ColonyMemoryError, ProcessDied) as error:
        return error
    return True


@pytest.mark.exhaustive
@pytest.mark.parametrize("way", STOPS)
@pytest.mark.parametrize("verb", [*sorted(VERBS), "cached patch", "cached backup that prunes"])
def test_stopped_at_every_call(verb, way, **options):
    cached = verb.startswith("cached ")
    versions, run, after = VERBS[verb.removeprefix("cached ")]
    start = World(versions, **options)
    n, finished = 0, False
    while not finished:
        n += 1
        assert n < 80, "the verb never comes to its end"
        TRIED[f"stops: format 2, {'encrypted, ' if options else ''}{verb}"] += 1
        world = start.again()
        vault = FaultyVault(world.vault)
        mem = world.client(vault)
        if cached:
            mem.backup(versions[-1], skip_unchanged=False)
            world.now += 7200
        struck = WAYS[way](vault, n)
        injected = vault.count
        answer = attempt(lambda world=world, mem=mem: run(mem, world.ids))
        finished = is_over(way, struck, vault.count - injected, n)
        _, latest = world.check()
        assert latest in ((after,) if answer is True else (versions[-1] if versions else None, after))
        world.heal()


@pytest.mark.exhaustive
@pytest.mark.parametrize(("way", "reads"), [("fails once after", True), ("dies after", True), ("dies after", False)])
@pytest.mark.parametrize("verb", ["first", "patch", "backup that prunes"])
def test_what_is_encrypted_is_stopped_at_every_call(verb, way, reads):
    """With a key it goes on from what is there; without one, every snapshot is whole, and others look."""
    keys = pytest.importorskip("age_keys")
    reader = {"encrypt_to": keys.RECIPIENT, "identities": keys.SECRET}
    if reads:
        test_stopped_at_every_call(verb, way, **reader)
        return
    versions, run, after = VERBS[verb]
    start = World(versions, **reader)
    n, finished = 0, False
    while not finished:
        n += 1
        assert n < 80, "the verb never comes to its end"
        TRIED[f"stops: format 2, written without a key, {verb}"] += 1
        world = start.again()
        vault = FaultyVault(world.vault)
        world.options = {"encrypt_to": keys.RECIPIENT}
        mem = world.client(vault)
        WAYS[way](vault, n)
        answer = attempt(lambda world=world, mem=mem: run(mem, world.ids))
        finished = vault.count < n
        world.options = reader
        _, latest = world.check()
        assert latest in ((after,) if answer is True else (versions[-1] if versions else None, after))
        world.heal()


@pytest.mark.exhaustive
@pytest.mark.parametrize("other", ["backup", "prune", "delete all", "backup that prunes"])
@pytest.mark.parametrize("hours", [0, 2])
@pytest.mark.parametrize("verb", ["patch", "fold", "backup that prunes"])
def test_another_client_at_every_call(verb, hours, other):
    """A second client does its work between any two calls of the first, whose parent is cached for hours."""
    versions, run, _ = VERBS[verb]
    start = World(versions)
    n, finished = 0, False
    while not finished:
        n += 1
        world = start.again()
        calls = 0

        def between(world=world, n=n):
            nonlocal calls
            calls += 1
            if calls == n:
                world.now += hours * 3600
                second = world.client(world.vault)
                if other == "backup":
                    second.backup(HISTORY[7])
                elif other == "prune":
                    second.prune(label="default", keep=1)
                elif other == "backup that prunes":
                    second.backup(HISTORY[7], prune_keep=1)
                else:
                    for each in second.list_snapshots():
                        second.delete_snapshot(label="default", snapshot_id=each.snapshot_id)

        mem = world.client(Between(world.vault, between))
        mem._session.homes.clear()
        answer = attempt(lambda world=world, mem=mem: run(mem, world.ids))
        finished = calls < n
        found, _ = world.check()
        if answer is True:
            assert NEW in found.values() or other in ("delete all", "prune", "backup that prunes")
        world.heal()


class Between:
    """The vault, with something done before each call."""

    def __init__(self, vault, before):
        self._vault, self._before, self._busy = vault, before, False

    def __getattr__(self, name):
        method = getattr(self._vault, name)
        if not name.startswith("vault_"):
            return method

        def call(*args, **kwargs):
            if not self._busy:
                self._busy = True
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", ColonyMemoryWarning)
                        self._before()
                finally:
                    self._busy = False
            return method(*args, **kwargs)

        return call
