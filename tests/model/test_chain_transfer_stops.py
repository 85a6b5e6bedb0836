"""Transfers of chains are stopped at every vault call: nothing is lost, and doing it again completes it."""

from __future__ import annotations

import itertools
import time
import warnings
from datetime import datetime, timezone

import pytest
from chains import growing
from counts import TRIED
from test_crash_points import STOPS, WAYS, is_over

from colony_memory import ColonyMemory, ColonyMemoryError, ColonyMemoryWarning
from colony_memory._format.v2 import chain as chains
from colony_memory.snapshot import read_manifest
from colony_memory.testing import FakeVault, FaultyVault
from colony_memory.testing.faults import ProcessDied
from colony_memory.transfer import copy, export_snapshot, import_snapshot

HISTORY = growing(8)


@pytest.fixture(autouse=True)
def _small_chains(monkeypatch):
    monkeypatch.setattr(chains, "MAX_PACKS", 3)
    monkeypatch.setattr(chains, "_pays", lambda *_: True)


class World:
    """Two vaults of one clock: where snapshots come from, and where they go, which has the first ``there`` of them."""

    def __init__(self, there, wire=2):
        self.now = time.time() - 7200
        self.source, self.target = (FakeVault(operations_per_hour=None, clock=lambda: self.now) for _ in range(2))
        agent = self.client(self.source, wire=wire)
        self.ids = []
        for n, documents in enumerate(HISTORY[:6]):
            if n == there and there:
                copy(self.client(self.source), self.client(self.target))
            self.ids.append(agent.backup(documents).snapshot_id)
        self.now += 7200
        self.held = self.contents()

    def copy(self):
        """The same, to go on from anew."""
        other = World.__new__(World)
        other.__dict__.update(self.__dict__)
        for name in ("source", "target"):
            vault = FakeVault(operations_per_hour=None, clock=lambda: other.now)
            vault.files.update(getattr(self, name).files)
            vault._known.update(getattr(self, name)._known)
            setattr(other, name, vault)
        return other

    def client(self, vault, wire=None):
        memory = ColonyMemory(backend=vault, format=wire)
        memory._session.now = lambda: datetime.fromtimestamp(self.now, timezone.utc)
        return memory

    def contents(self):
        """What a new client finds in the target: nothing that is listed is broken."""
        memory = self.client(self.target)
        return {info.snapshot_id: memory.restore(snapshot_id=info.snapshot_id) for info in memory.list_snapshots()}

    def check(self):
        with warnings.catch_warnings():
            # Before its first pointer a label may have snapshots already.
            warnings.simplefilter("error" if self.held else "ignore", ColonyMemoryWarning)
            found = self.contents()
            latest = self.client(self.target).restore(default=None)
        assert found.items() >= self.held.items()
        assert all(HISTORY[self.ids.index(each)] == documents for each, documents in found.items())
        assert latest is None or latest in found.values()
        return found, latest

    def complete(self, run, *, at_once):
        """The next run brings what lacks, after an hour and a prune at the latest; no pack stays that nobody needs."""
        for _ in range(1 if at_once else 3):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ColonyMemoryWarning)
                done = attempt(lambda: run(self, self.client(self.target)))
                if done:
                    break
                self.now += 7200
                self.client(self.target).prune(label="default", keep=9)
        assert done, done
        needed = set()
        for name, text in self.target.files.items():
            if name.endswith(".manifest.json"):
                needed |= {*read_manifest(text, label="default", snapshot_id=name.split(".")[2]).part_files}
        assert {name for name in self.target.files if ".k" in name or ".p" in name} == needed
        assert self.client(self.target).verify()


def attempt(run):
    """What it gave, or the error, which is false."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ColonyMemoryWarning)
            return run()
    except (ColonyMemoryError, ProcessDied) as error:
        return Failed(error)


class Failed:
    def __init__(self, error):
        self.error = error

    def __bool__(self):
        return False

    def __repr__(self):
        return repr(self.error)


def bring(n, **options):
    return lambda world, memory: import_snapshot(
        memory, export_snapshot(world.client(world.source), snapshot_id=world.ids[n]), **options
    )


def mirror(**options):
    return lambda world, memory: copy(world.client(world.source), memory, **options)


#: What is done, how many snapshots are there already, and the format that the source has.
SCENES = {
    "import into an empty vault": (bring(5), 0, 2),
    "import of the next": (bring(3), 3, 2),
    "import of the last": (bring(5), 3, 2),
    "copy into an empty vault": (mirror(), 0, 2),
    "copy of what is new": (mirror(), 3, 2),
    "copy as format 1": (mirror(format=1), 0, 2),
    "copy as format 2": (mirror(format=2), 0, 1),
}
QUICK = {("import of the last", "dies after")}
ONCE = {
    ("import of the last", "fails once after"),
    ("copy of what is new", "dies after"),
    ("copy of what is new", "fails once before"),
    ("copy into an empty vault", "is down after it"),
    ("copy as format 2", "dies after"),
}


def _marks(case):
    return (
        () if case in QUICK else pytest.mark.exhaustive if case in ONCE else (pytest.mark.exhaustive, pytest.mark.long)
    )


@pytest.mark.parametrize(
    ("name", "way"), [pytest.param(*case, marks=_marks(case)) for case in itertools.product(SCENES, STOPS)]
)
def test_stopped_at_every_call(name, way):
    run, there, wire = SCENES[name]
    first = World(there, wire)
    n, finished = 0, False
    while not finished:
        n += 1
        assert n < 120, "the verb never comes to its end"
        TRIED[f"stops: chains, {name}"] += 1
        world = first.copy()
        vault = FaultyVault(world.target)
        struck = WAYS[way](vault, n)
        done = attempt(lambda world=world, vault=vault: run(world, world.client(vault)))
        finished = is_over(way, struck, vault.count, n)
        _, latest = world.check()
        if finished and "rate" not in way:
            assert done
            assert latest == HISTORY[3 if "next" in name else 5]
        world.complete(run, at_once=bool(done) or way == "fails once before")
