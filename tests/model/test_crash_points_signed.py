"""Every verb of a signing client is stopped at every vault call, in every way: nothing is lost and nothing refused.

Where there was no attacker, a client with the same policy that starts afterwards restores what was there before or what
was being saved. Warnings are allowed, refusals are not, unless the memory was refused before.
"""

import itertools
import json
import warnings

import pytest
from counts import TRIED
from faces import PlainVault
from signed_histories import HISTORIES, POINTER, check_each_signature_once
from test_crash_points import LARGE, SMALL, STOPS, WAYS, is_over

from colony_memory import (
    ColonyMemory,
    ColonyMemoryError,
    ColonyMemoryWarning,
    FileWitness,
    SnapshotNotFound,
    UntrustedSnapshot,
    snapshot,
)
from colony_memory._format.names import id_order
from colony_memory.testing import FakeVault, FaultyVault
from colony_memory.testing.faults import ProcessDied

pytestmark = pytest.mark.exhaustive

OLD = [{"MEMORY.md": f"version {n}"} for n in range(4)]
NEXT = {"MEMORY.md": "next"}


def delete_both(mem, ids):
    """What was deleted last was made on top of what was deleted first, and the pointer goes back behind both."""
    for snapshot_id in ids[2:]:
        mem.delete_snapshot(label="default", snapshot_id=snapshot_id)


#: What is there, what is done, and what is the latest then.
VERBS = {
    "first backup": (0, lambda mem, ids: mem.backup(LARGE), LARGE),
    "changed backup": (4, lambda mem, ids: mem.backup(LARGE), LARGE),
    "unchanged backup": (4, lambda mem, ids: mem.backup(OLD[3]), OLD[3]),
    "backup that prunes": (4, lambda mem, ids: mem.backup(SMALL, prune_keep=2), SMALL),
    "prune": (4, lambda mem, ids: mem.prune(label="default", keep=1), OLD[3]),
    "delete of the latest": (4, lambda mem, ids: mem.delete_snapshot(label="default", snapshot_id=ids[3]), OLD[2]),
    "delete of the one before the latest, then of the latest": (4, delete_both, OLD[1]),
    "delete of an older one": (4, lambda mem, ids: mem.delete_snapshot(label="default", snapshot_id=ids[1]), OLD[3]),
    "delete of the last": (1, lambda mem, ids: mem.delete_snapshot(label="default", snapshot_id=ids[0]), None),
}
REFUSED = "refused"


@pytest.fixture(autouse=True)
def _quick_and_of_three_parts(monkeypatch):
    monkeypatch.setattr(snapshot, "PART_CHARS", 120)
    check_each_signature_once(monkeypatch)


class Scene:
    def __init__(self, history, count, kind, path):
        fake = FakeVault(operations_per_hour=None)
        self.ids, self.options = HISTORIES[history](fake, OLD[:count])
        self.files = dict(fake.files)
        self.kind = kind
        self.paths = (path / f"{n}.json" for n in itertools.count()) if path else None
        self.open_vault()
        self.latest, self.contents = self.find()
        self.everything = self.find_all()

    def open_vault(self):
        """The vault as it was, and a witness that has seen it."""
        self.fake = FakeVault(operations_per_hour=None)
        self.fake.files.update(self.files)
        if self.paths is not None:
            self.options["witness"] = FileWitness(next(self.paths))
            self.find()

    def client(self, vault=None):
        vault = vault or self.fake
        return ColonyMemory(backend=vault if self.kind == "full" else PlainVault(vault), **self.options)

    def find(self):
        """What a client finds that has just started: the latest, and every snapshot that it lists."""
        self.refusal = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ColonyMemoryWarning)
            try:
                latest = self.client().restore()
            except SnapshotNotFound:
                latest = None
            except UntrustedSnapshot as error:
                latest, self.refusal = REFUSED, error
            return latest, contents(self.client())

    def find_all(self):
        """Every snapshot that a client finds which pins nobody."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ColonyMemoryWarning)
            return contents(ColonyMemory(backend=self.fake))


def contents(mem):
    return {info.snapshot_id: mem.restore(snapshot_id=info.snapshot_id) for info in mem.list_snapshots()}


def attempt(run, mem, ids):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColonyMemoryWarning)
        try:
            run(mem, ids)
        except (ColonyMemoryError, ProcessDied) as error:
            return error
    return True


# What a history changes is where the signing client starts from; a few ways to stop show that.
BEGINNINGS = [
    (history, verb)
    for history in sorted(HISTORIES.keys() - {"signed"})
    for verb in ("changed backup", "unchanged backup", "backup that prunes", "prune", "delete of the latest")
]


def in_turn(ways):
    """Each way with one kind of vault, in turn; both kinds with each of them take long."""
    return [
        pytest.param(way, kind, marks=[pytest.mark.long] if (row + column) % 2 else [])
        for row, way in enumerate(ways)
        for column, kind in enumerate(["full", "plain"])
    ]


@pytest.mark.parametrize(("way", "kind"), in_turn(STOPS))
@pytest.mark.parametrize("verb", sorted(VERBS))
def test_stopped_at_every_call(verb, way, kind):
    stop_everywhere(Scene("signed", VERBS[verb][0], kind, None), verb, way, f"stops, signed: {verb}")


@pytest.mark.parametrize(("way", "kind"), in_turn(["dies after", "fails once after"]))
@pytest.mark.parametrize(("history", "verb"), BEGINNINGS)
def test_stopped_on_the_first_day_of_a_signer(history, verb, way, kind):
    stop_everywhere(Scene(history, VERBS[verb][0], kind, None), verb, way, f"stops, {history}: {verb}")


@pytest.mark.parametrize(
    ("way", "kind"), in_turn(["dies before", "dies after", "fails once after", "is down after it"])
)
@pytest.mark.parametrize("verb", sorted(VERBS))
def test_a_witness_is_never_ahead(verb, way, kind, tmp_path):
    stop_everywhere(Scene("signed", VERBS[verb][0], kind, tmp_path), verb, way, f"stops, with a witness: {verb}")


def stop_everywhere(scene, verb, way, what):
    _, run, after = VERBS[verb]
    if "backup" not in verb and scene.latest is REFUSED:
        # What is not trusted stays so, and nothing is built upon it.
        assert isinstance(attempt(run, scene.client(), scene.ids), UntrustedSnapshot)
        assert scene.fake.files == scene.files
        return
    assert attempt(run, scene.client(), scene.ids) is True
    done = scene.find_all()
    n, finished = 0, False
    while not finished:
        n += 1
        assert n < 60, "the verb never comes to its end"
        TRIED[what] += 1
        scene.open_vault()
        vault = FaultyVault(scene.fake)
        mem = scene.client(vault)
        struck = WAYS[way](vault, n)
        injected = vault.count
        answer = attempt(run, mem, scene.ids)
        finished = is_over(way, struck, vault.count - injected, n)
        check(scene, after, answer, scene.everything.keys() - done.keys())
        heal(scene)


def check(scene, after, answer, given_up):
    latest, contents = scene.find()
    assert latest == after or (answer is not True and latest == scene.latest), scene.refusal
    assert latest in (None, REFUSED) or latest in contents.values()
    assert scene.contents.keys() - contents.keys() <= given_up
    everything = scene.find_all()
    assert scene.everything.keys() - everything.keys() <= given_up
    before, now = json.loads(scene.files.get(POINTER, "{}")), json.loads(scene.fake.files.get(POINTER, "{}"))
    if before and now:
        assert now.get("generation", 0) >= before.get("generation", 0)
        if before["snapshot_id"] not in given_up:
            assert id_order(now["snapshot_id"]) >= id_order(before["snapshot_id"])
    if "witness" in scene.options and now:
        assert int(scene.options["witness"].read("default").partition(":")[0]) <= now["generation"]
    # Whoever pins nobody is not touched by any of this.
    if scene.ids and everything:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ColonyMemoryWarning)
            assert ColonyMemory(backend=scene.fake).restore() in everything.values()


def heal(scene):
    """One more good backup, and everything that is trusted verifies again."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColonyMemoryWarning)
        scene.client().backup(NEXT)
    assert scene.client().restore() == NEXT
    report = scene.client().verify()
    foreign = {check.snapshot_id for check in report.snapshots if check.trust == "bad"}
    assert not foreign & scene.contents.keys()
    assert (report.problem, report.pointer, report.removed) == (None, "ok", ()), report
    assert set(report.forged) == foreign
    assert all(check or check.unsigned for check in report.snapshots if check.snapshot_id not in foreign), report
