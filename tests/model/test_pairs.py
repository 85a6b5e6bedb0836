"""Each verb of one client at every moment of each verb of another, and then whatever a third one finds.

The second verb runs whole, right before the n-th vault call of the first, for every n. Whatever the two report, what
was reported saved is there, what is listed restores, the pointer lists just what is there, and nobody is refused.
"""

import itertools
import warnings
from contextlib import nullcontext, suppress
from copy import copy as copy_scene
from datetime import datetime, timezone

import pytest
from counts import TRIED
from faces import PlainVault, copy_of

from colony_memory import (
    ColonyMemory,
    ColonyMemoryError,
    ColonyMemoryWarning,
    ConflictDetected,
    PruneIncomplete,
    Retention,
    RollbackDetected,
    SnapshotCorrupt,
    SnapshotNotFound,
)
from colony_memory._format.pointer import read_pointer
from colony_memory.testing import FakeVault, FaultyVault
from colony_memory.transfer import copy

pytestmark = pytest.mark.exhaustive

OLD = [{"MEMORY.md": f"line\nversion {n}\n"} for n in range(3)]
HOURS = 3 * 3600
#: The last word is with the later writer there, which makes more of the same for little more to learn.
KINDS = ["full", pytest.param("plain", marks=pytest.mark.long)]


class Scene:
    """A vault with three snapshots that are hours old, and clients of it."""

    def __init__(self, kind, signer):
        self.time = 1_750_000_000.0
        self.fake = FakeVault(operations_per_hour=None, clock=lambda: self.time)
        self.backend = self.fake if kind == "full" else PlainVault(self.fake)
        self.options = {"signer": signer} if signer else {}
        first = self.client()
        self.ids = []
        for documents in OLD:
            self.ids.append(first.backup(documents).snapshot_id)
            self.time += 1
        # Another vault that holds two of the same label, to be copied from.
        other = FakeVault(operations_per_hour=None, clock=lambda: self.time)
        elsewhere = self.client(other)
        for n in range(2):
            elsewhere.backup({"MEMORY.md": f"from elsewhere {n}"})
        self.elsewhere = elsewhere
        self.exported = elsewhere.export_snapshot()
        self.time += HOURS

    def again(self):
        other = copy_scene(self)
        other.fake = copy_of(self.fake, clock=lambda: other.time)
        other.backend = other.fake if self.backend is self.fake else PlainVault(other.fake)
        return other

    def client(self, backend=None):
        mem = ColonyMemory(backend=backend or self.backend, **self.options)
        mem._session.now = lambda: datetime.fromtimestamp(self.time, timezone.utc)
        return mem

    def based(self, backend=None):
        """A client that has restored what is the latest now."""
        mem = self.client(backend)
        mem.restore()
        return mem


def save(text, **options):
    def run(scene, mem):
        # Each time another: what equals its neighbour is pruned.
        documents = {"MEMORY.md": f"line\nversion 2\n{text} at {scene.time}\n", f"{text}.md": text}
        return documents, mem.backup(documents, **options)

    return run


def lessen(run):
    return lambda scene, mem: (None, run(scene, mem))


VERBS = {
    "save": save("plain"),
    "save on": save("on", on_conflict="continue"),
    "save merging": save("merging", on_conflict="merge"),
    "save three times, keep 1": lambda scene, mem: [VERBS["save on, keep 1"](scene, mem) for _ in range(3)][2],
    "save, keep 1": save("keep 1", prune_keep=1),
    "save on, keep 1": save("on and keep 1", prune_keep=1, on_conflict="continue"),
    "save merging, keep 2": save("merging and keep 2", retention=Retention(keep_last=2), on_conflict="merge"),
    "save the same": lambda scene, mem: (OLD[2], mem.backup(OLD[2])),
    "prune": lessen(lambda scene, mem: mem.prune(keep=1)),
    "delete the latest": lessen(lambda scene, mem: mem.delete_snapshot(label="default", snapshot_id=scene.ids[2])),
    "delete an older one": lessen(lambda scene, mem: mem.delete_snapshot(label="default", snapshot_id=scene.ids[1])),
    "delete all": lessen(
        lambda scene, mem: [mem.delete_snapshot(label="default", snapshot_id=each) for each in reversed(scene.ids)]
    ),
    "import": lessen(lambda scene, mem: mem.import_snapshot(scene.exported)),
    "copy": lessen(lambda scene, mem: copy(scene.elsewhere, mem)),
    "another label": lambda scene, mem: (None, mem.backup({"m": "other"}, label="other", prune_keep=1)),
}
#: What only looks comes first: what it gives is true of some moment meanwhile.
LOOKS = {
    "restore": lambda mem: mem.restore(default={}),
    "latest": lambda mem: mem.latest(),
    "list": lambda mem: mem.list_snapshots(),
    "verify": lambda mem: mem.verify(),
    "plan a prune": lambda mem: mem.plan_prune(keep=2) is not None,
}
#: What a verb may say in the face of another client. Nothing of it is a refusal of what anybody saved.
TOLD = (ConflictDetected, SnapshotNotFound, PruneIncomplete)


def attempt(name, scene, mem):
    """What was given to save, and the id under which it is reported stored, if any."""
    if name in LOOKS:
        assert LOOKS[name](mem) or not set_of(scene, name, "delete all")  # as it may have been emptied
        return None
    try:
        documents, result = VERBS[name](scene, mem)
    except ConflictDetected as error:
        return error.snapshot_id
    except TOLD:
        return None
    except RollbackDetected:
        if scene.backend is scene.fake:
            raise
        return None  # a pointer that another's late write took back looks just so
    return result.snapshot_id if documents is not None else None


@pytest.fixture(params=[False, pytest.param(True, marks=pytest.mark.long)], ids=["unsigned", "signed"])
def signer(request):
    if not request.param:
        return None
    pytest.importorskip("cryptography")
    from colony_memory import Ed25519Signer

    return Ed25519Signer(bytes(range(32)))


#: What differs in what is stored by the way of a conflict alone.
ALIKE = ("save on", "save merging", "save on, keep 1", "import")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "first", [pytest.param(each, marks=[pytest.mark.long] * (each in ALIKE)) for each in sorted({*VERBS, *LOOKS})]
)
def test_a_verb_at_every_moment_of_another(first, kind, signer):
    start = Scene(kind, signer)
    for second in sorted(VERBS):
        place, struck = 0, True
        while struck:
            scene = start.again()
            vault, turns = FaultyVault(scene.backend), itertools.count()
            mem, other = scene.based(vault), scene.based()
            stored = {}

            def between(scene=scene, turns=turns, place=place, other=other, second=second, stored=stored):
                if next(turns) == place:
                    scene.time += 1
                    stored["second"] = attempt(second, scene, other)
                    scene.time += 1

            vault.hook("*", between, times=None)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ColonyMemoryWarning)
                stored["first"] = attempt(first, scene, mem)
                struck = next(turns) > place
                try:
                    check(scene, first, second, stored)
                    later(scene, first, second)
                except (AssertionError, ColonyMemoryError) as error:
                    msg = f"{second!r} before call {place + 1} of {first!r}: {error!r}"
                    raise AssertionError(msg) from error
            place += 1
            TRIED["a verb at every moment of another"] += 1


def set_of(scene, first, second):
    try:
        return {info.snapshot_id for info in scene.client().list_snapshots(label="default")}
    except SnapshotCorrupt:
        # The later writer's pointer may name what the other one has just deleted. That is said, not taken for nothing.
        if scene.backend is scene.fake or "delete all" not in (first, second):
            raise
        return set()


def check(scene, first, second, stored):
    new = scene.client()
    listed = set_of(scene, first, second)
    for snapshot_id in listed:
        assert scene.client().restore(snapshot_id=snapshot_id)
    if scene.backend is not scene.fake and not listed and "delete all" in (first, second):
        with suppress(SnapshotCorrupt, RollbackDetected):
            assert scene.client().restore(default={}) == {}
        return
    latest = new.latest()
    got = scene.client().restore(default={})
    if latest is None:
        assert got == {}
    else:
        assert latest.snapshot_id in listed
        assert got == scene.client().restore(snapshot_id=latest.snapshot_id)
    takes = any(word in name for name in (first, second) for word in ("keep", "prune", "delete"))
    for who, snapshot_id in stored.items():
        # What a retention or a deletion of another client may have taken since is not asked for.
        if snapshot_id is not None and not takes:
            assert snapshot_id in listed, who
    if {first, second} <= {"save", "save on", "save merging", "another label"}:
        assert set(scene.ids) <= set(listed)
    report = scene.client().verify()
    # Where nothing is written on condition, what one client writes may bring back rows that another took out, and lose
    # those of an import: both is told, and neither stands in the way of a restore.
    lost = scene.backend is not scene.fake and (takes or {first, second} & {"copy", "import"})
    assert report or not listed or lost, report.problem
    text = scene.fake.files.get("cmem.default.latest.json")
    if text is not None and scene.backend is scene.fake:
        pointer = read_pointer(text, label="default")
        assert {entry.snapshot_id for entry in pointer.entries or ()} <= set(listed)
        assert (pointer.snapshot_id is None) == (latest is None)


def later(scene, first, second):
    """Hours later somebody saves and prunes: nothing is left over, and nothing comes back."""
    scene.time += HOURS
    before = set_of(scene, first, second)
    mem = scene.client()
    saved = mem.backup({"MEMORY.md": "hours later"}).snapshot_id
    scene.time += HOURS
    mem.prune(keep=100)
    after = {info.snapshot_id for info in scene.client().list_snapshots(label="default")}
    assert after == before | {saved}
    assert scene.client().restore() == {"MEMORY.md": "hours later"}
    files = {name.split(".")[2] for name in scene.fake.files if name.startswith("cmem.default.2")}
    # Nor is a row of an import safe there, without which a client that pins issuers takes it for another history.
    assert files == after or (files > after and scene.options and scene.backend is not scene.fake)
    pointer = read_pointer(scene.fake.files["cmem.default.latest.json"], label="default")
    assert {entry.snapshot_id for entry in pointer.entries} == after
    assert not set(pointer.removed) & after


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("verb", ["prune", "save, keep 1", "delete the latest", "copy", "restore"])
def test_damage_at_every_moment_of_a_verb(verb, kind, signer):
    """The newest snapshot rots while a client that has read it works: an older one that restores stays in reach."""
    run = {**VERBS, "restore": lessen(lambda scene, mem: mem.restore(fallback=True))}[verb]
    start = Scene(kind, signer)
    place, struck = 0, True
    while struck:
        scene = start.again()
        vault, turns = FaultyVault(scene.backend), itertools.count()
        mem = scene.based(vault)
        name = f"cmem.default.{scene.ids[2]}.p0.json"

        def rot(scene=scene, turns=turns, place=place, name=name):
            if next(turns) == place and name in scene.fake.files:
                text = scene.fake.files[name]
                at = text.index('"b64": "') + 30
                scene.fake.files[name] = text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :]

        vault.hook("*", rot, times=None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ColonyMemoryWarning)
            with nullcontext() if verb == "restore" else suppress(ColonyMemoryError):
                run(scene, mem)
            struck = next(turns) > place
            # Rot that comes after the newest was read in full is nobody's fault; before that, an older one stays.
            if place < 2:
                assert scene.client().restore(fallback=True)
        place += 1
        TRIED["damage at every moment of a verb"] += 1
