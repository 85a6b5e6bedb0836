"""Format 2: importers and copiers among writers, a pruner and deleters, in any order."""

from __future__ import annotations

import pytest
from chain_schedules import (
    HISTORY,
    HOURS,
    SCENES,
    VERBS,
    Told,
    Turn,
    World,
    finish,
    is_there,
    losses,
    play,
    save,
    signer_of,
    small_chains,  # noqa: F401 - a fixture
)

from colony_memory import ColonyMemory
from colony_memory._engine.prune import delete_snapshot, prune
from colony_memory._engine.transfer import copy, deliver, destination, import_snapshot, whole
from colony_memory._format.constants import FORMAT_2
from colony_memory._format.names import latest_filename
from colony_memory.retention import Retention
from colony_memory.testing import FakeVault

VERBS |= {
    "import newer": lambda world, session: import_snapshot(session, world.newer, label=None),
    "import older": lambda world, session: import_snapshot(session, world.older, label=None),
    "copy": lambda world, session: copy(world.elsewhere._session, session, labels=None, progress=None),
    "convert": lambda world, session: copy(world.flat._session, session, labels=None, progress=None, wire=FORMAT_2),
}


#: Verbs that may delete.
DELETES = ("prune", "delete")


class LeftOpen(Exception):
    """A file comes back that one client has deleted and another may be about to delete: the gap that is documented."""


class Shared(World):
    """A vault that takes note of what is deleted and comes back."""

    def __init__(self, scene, signer=None):
        self.actors, self.deleted = [], {}
        super().__init__(scene, signer)

    def copy(self):
        other = super().copy()
        other.actors, other.deleted = [], {}
        return other

    def before(self, actor):
        if actor not in self.actors:
            self.actors.append(actor)
        method, args, _ = actor.call
        name = args[0] if args else ""
        if "delete" in method:
            self.deleted[name] = actor
        late = [each for each in self.actors if not each.ended and any(word in str(each.verb) for word in DELETES)]
        if "upload" in method and name in self.deleted and {*late} - {self.deleted[name], actor}:
            raise LeftOpen


def start_of(scene, signer=None):
    """A vault, what was saved on top of that elsewhere, and what was deleted from it long ago."""
    world = Shared(scene, signer)
    other = world.copy()
    for documents in HISTORY[4:6]:
        finish(other, save(documents)(other, Told(other, signer)))
    world.elsewhere = ColonyMemory(backend=other.vault, signer=signer)
    world.flat = ColonyMemory(backend=FakeVault(operations_per_hour=None, clock=lambda: world.now), signer=signer)
    world.elsewhere.copy_to(world.flat, format=1)
    world.newer = world.elsewhere.export_snapshot()
    world.older = world.elsewhere.export_snapshot(snapshot_id=world.ids[-2])
    finish(world, delete_snapshot(world.writer, label="default", snapshot_id=world.ids.pop(-2)))
    world.now += HOURS
    finish(world, prune(world.writer, label="default", policy=Retention(keep_last=9)))
    world.now += HOURS
    world.first = frozenset()  # turns may end before a call for any file
    return world


TOGETHER = [
    ("import newer", "write and prune", "delete the latest"),
    ("copy", "prune", "write", "delete all"),
    ("copy", "delete all", "write or raise"),
    ("import older", "write", "prune"),
    ("import older", "import newer", "delete all", "write or raise"),
    ("copy", "write and prune", "import older"),
    ("copy", "import newer", "prune"),
    ("convert", "write and prune", "write"),
    ("convert", "delete all", "import newer"),
    ("import newer", "write", "write or raise", "prune", "delete the latest"),
]


def search(verbs, seeds, signer=None):
    kind = "interleavings: format 2, transfers among others"
    return list(losses(verbs, SCENES, seeds, kind=kind, start_of=start_of, signer=signer, left_open=LeftOpen))


@pytest.mark.parametrize("verbs", TOGETHER[:2], ids="-".join)
def test_nothing_is_lost(verbs):
    assert not search(verbs, range(4))


@pytest.mark.exhaustive
@pytest.mark.parametrize("verbs", TOGETHER, ids="-".join)
def test_nothing_is_lost_in_more_schedules(verbs):
    assert not search(verbs, range(100, 106))


@pytest.mark.exhaustive
@pytest.mark.long
@pytest.mark.parametrize("signs", [False, True], ids=["unsigned", "signed"])
@pytest.mark.parametrize("verbs", TOGETHER, ids="-".join)
def test_nothing_is_lost_in_many_schedules(verbs, signs):
    assert not search(verbs, range(1000, 1150 if signs else 1600), signer_of(signs))


# --- each rule left out


def _whateveris_there(monkeypatch):
    """Whatever is there is relied upon."""
    everywhere = latest_filename("default")

    def keep_all(there):
        there.keepers = dict.fromkeys(there.state.listed.packs, everywhere)

    monkeypatch.setattr(destination.Destination, "__post_init__", keep_all)


def _nothing_beside(monkeypatch):
    """No list shows, once the manifest is there, that what keeps the packs is still there too."""
    compare = destination.Destination.compare

    async def alone(there, whole):
        lacking = await compare(there, whole)
        return lacking and destination.Lacking(lacking.missing, lacking.found, (), lacking.stale)

    monkeypatch.setattr(destination.Destination, "compare", alone)


def _whatever_its_age(monkeypatch):
    """A manifest counts that came hours after the pack that it was written with."""
    monkeypatch.setattr(whole, "_is_proven", lambda *_: True)
    monkeypatch.setattr(deliver, "prove", is_there)


#: A pruner is about to delete what it has seen nobody need; then the importer, who relies on it, begins.
PRUNED = [Turn(1, 99, 0, ("delete", ".k0.json")), Turn(0, 99, 0), Turn(1, 99, 0)]
#: The importer has looked, and means to rely on what the pruner then takes; the pruner has listed before it is done.
TAKEN = [
    Turn(0, 99, 0, ("upload", ".manifest.json")),
    Turn(1, 99, 0, ("delete", ".k0.json")),
    Turn(0, 99, 0),
    Turn(1, 99, 0),
]
#: The importer's pack is hours old when its manifest comes, and a pruner has listed before that.
LATE = [
    Turn(0, 99, 0, ("upload", ".manifest.json")),
    Turn(1, 99, 2, ("delete", ".k0.json")),
    Turn(0, 99, 0),
    Turn(1, 99, 0),
]
RULES = {
    "17: only what a committed snapshot needs": (_whateveris_there, ("import newer", "delete all"), "patch", PRUNED),
    "16: what keeps the packs is there afterwards": (_nothing_beside, ("import newer", "delete all"), "patch", TAKEN),
    "16: less than a grace period": (_whatever_its_age, ("import newer", "prune"), "base", LATE),
}


@pytest.mark.parametrize("rule", RULES)
def test_without_a_rule_something_is_lost(rule, monkeypatch):
    leave_out, verbs, scene, turns = RULES[rule]
    start = start_of(scene)
    play(start, verbs, turns)
    leave_out(monkeypatch)
    with pytest.raises(AssertionError, match="is listed, and needs"):
        play(start, verbs, turns)
