"""Every verb is stopped at every vault call, in every way: nothing is lost, nothing refused, nothing false listed.

A schedule is a history of a vault, a verb, the n-th call, and what happens there: the process dies after the call is
applied, the call fails once before or after it is applied, or everything fails from there on. Where there was no
attacker, a client of the same policy that starts afterwards restores what was there before or what was being saved, and
its next backups and prune leave nothing over.
"""

import contextlib
import itertools
import json
import time
import warnings
from datetime import datetime, timezone

import pytest
from counts import TRIED
from faces import PlainVault, copy_of, with_zstd

from colony_memory import (
    BackupUncertain,
    ColonyMemory,
    ColonyMemoryError,
    ColonyMemoryWarning,
    FileWitness,
    RateLimited,
    SnapshotNotFound,
    UntrustedSnapshot,
    VaultUnavailable,
    snapshot,
)
from colony_memory._format.names import id_order
from colony_memory._format.pointer import read_pointer
from colony_memory._format.v2 import chain
from colony_memory.snapshot import read_manifest
from colony_memory.testing import FakeVault, FaultyVault
from colony_memory.testing.faults import ProcessDied

pytestmark = pytest.mark.exhaustive

POINTER = "cmem.default.latest.json"
REFUSED = "refused"
#: What is saved in each format: states before, and one that takes three parts, or a patch.
STATES = {1: [{"MEMORY.md": f"version {n}"} for n in range(4)]}
STATES[1].append({"MEMORY.md": "three parts of noise " + "".join(map(chr, range(0x4E00, 0x4E36)))})
with contextlib.suppress(pytest.skip.Exception):
    from chains import growing

    STATES[2] = growing(7)[:4] + growing(7)[-1:]


def delete(*places):
    return lambda mem, ids, new: [mem.delete_snapshot(label="default", snapshot_id=ids[each]) for each in places]


#: How many snapshots are there, what is done, and which state is the latest then.
VERBS = {
    "first backup": (0, lambda mem, ids, new: mem.backup(new), -1),
    "backup": (2, lambda mem, ids, new: mem.backup(new), -1),
    "later backup": (3, lambda mem, ids, new: mem.backup(new), -1),
    "unchanged backup": (2, lambda mem, ids, new: mem.backup(mem.restore()), 1),
    "backup that prunes": (4, lambda mem, ids, new: mem.backup(new, prune_keep=2), -1),
    "prune": (4, lambda mem, ids, new: mem.prune(label="default", keep=1), 3),
    "delete of the latest": (4, delete(3), 2),
    # What was deleted last was made on top of what was deleted first, and the pointer goes back behind both.
    "delete of the one before the latest, then of the latest": (4, delete(2, 3), 1),
    "delete of the first": (4, delete(0), 3),
    "delete of an older one": (4, delete(1), 3),
    "delete of the last": (1, delete(0), None),
}
WAYS = {
    "dies before": lambda vault, n: vault.stop_after(n, applied=False),
    "dies after": lambda vault, n: vault.stop_after(n, applied=True),
    "fails once before": lambda vault, n: vault.fail("*", VaultUnavailable("503", status=503), skip=n - 1, times=1),
    "fails once after": lambda vault, n: vault.fail("*", TimeoutError("slow"), skip=n - 1, times=1, after=True),
    "is down from then on": lambda vault, n: vault.fail("*", ConnectionError("reset"), skip=n - 1),
    "is down after it": lambda vault, n: (
        vault.fail("*", ConnectionError("reset"), skip=n - 1, times=1, after=True),
        vault.fail("*", ConnectionError("down"), skip=n),
    ),
    "is rate limited from then on": lambda vault, n: [
        vault.fail(verb, RateLimited("60 an hour", status=429, retry_after=3600), skip=n - 1)
        for verb in ("upload", "delete")
    ],
}
#: Before a call the vault is as after the one before it. Whoever keeps nothing beside the vault, such as a witness,
#: leaves the same behind where it dies before a call as where it dies after the last.
STOPS = sorted(WAYS.keys() - {"dies before"})


def is_over(way, struck, calls, n):
    """Whether a fault, of which ``WAYS`` gave what struck, was never reached: the verb has fewer calls."""
    return calls < n if "rate" not in way else not any(injection.fired for injection in struck)


@pytest.fixture(autouse=True)
def _three_parts_and_small_chains(monkeypatch):
    monkeypatch.setattr(snapshot, "PART_CHARS", 120)
    monkeypatch.setattr(chain, "MAX_PACKS", 3)
    monkeypatch.setattr(chain, "_pays", lambda *_: True)


class World:
    """A vault whose clock is turned by hand, what was saved in it two hours ago, and the policy of its clients."""

    def __init__(self, history, count, *, kind="full", witnesses=None):
        self.now, self.kind, self.format, self.history = time.time() - 7200, kind, 1, history
        self.vault = FakeVault(operations_per_hour=None, clock=lambda: self.now)
        if history in {"open", "format 2", "encrypted", "written without a key"}:
            self.format, self.policy = 1 if history == "open" else 2, {}
            if history[0] in "ew":
                import age_keys

                self.policy = {"encrypt_to": age_keys.RECIPIENT, "identities": age_keys.SECRET}
            mem = self.client()
            self.ids = [mem.backup(documents).snapshot_id for documents in STATES[self.format][:count]]
            self.now += 7200
        else:
            from signed_histories import HISTORIES

            self.ids, self.policy = HISTORIES[history](self.vault, STATES[1][:count])
            self.now = time.time()
        self.writer = dict(self.policy)
        if history == "written without a key":
            del self.writer["identities"]
        self.start, self.witnesses = self.vault, witnesses
        self.begin()
        self.latest, self.contents = self.find()
        self.everything = self.find_all()

    def begin(self):
        """The vault as it was, and a witness that has seen it."""
        self.vault = copy_of(self.start, clock=lambda: self.now)
        if self.witnesses is not None:
            self.policy["witness"] = self.writer["witness"] = FileWitness(next(self.witnesses))
            self.find()

    def client(self, vault=None, **options):
        vault = vault or self.vault
        options = options or self.policy
        mem = ColonyMemory(backend=vault if self.kind == "full" else PlainVault(vault), format=self.format, **options)
        mem._session.now = lambda: datetime.fromtimestamp(self.now, timezone.utc)
        return mem

    def find(self, *, strictly=False):
        """What a client finds that has just started: the latest, and every snapshot that it lists."""
        self.refusal = None
        with warnings.catch_warnings():
            warnings.simplefilter("error" if strictly else "ignore", ColonyMemoryWarning)
            try:
                latest = self.client().restore()
            except SnapshotNotFound:
                latest = None
            except UntrustedSnapshot as error:
                latest, self.refusal = REFUSED, error
            return latest, contents(self.client())

    def find_all(self):
        """Every snapshot that a client finds which pins nobody, and all that a catalogue lists and that is there."""
        reader = {name: self.policy[name] for name in ("identities",) if name in self.policy}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ColonyMemoryWarning)
            mem = ColonyMemory(backend=self.vault, **reader)
            found = contents(mem)
            text = self.vault.files.get(POINTER)
            for entry in (read_pointer(text, label="default").entries if text else None) or ():
                if f"cmem.default.{entry.snapshot_id}.manifest.json" in self.vault.files:
                    found[entry.snapshot_id] = mem.restore(snapshot_id=entry.snapshot_id)
            if self.ids and found:  # whoever pins nobody is not touched by any of this
                assert mem.restore() in found.values()
        return found


def contents(mem):
    return {info.snapshot_id: mem.restore(snapshot_id=info.snapshot_id) for info in mem.list_snapshots()}


def attempt(run, mem, world):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColonyMemoryWarning)
        try:
            run(mem, world.ids, STATES[world.format][-1])
        except (ColonyMemoryError, ProcessDied) as error:
            return error
    return True


def cases():
    """History, verb, way to stop and kind of vault; both kinds with each way take long where somebody signs."""
    kinds = ("full", "plain")
    for n, (way, kind) in enumerate(itertools.product(STOPS, kinds)):
        for verb in VERBS:
            yield pytest.param("open", verb, way, kind)
            yield pytest.param("signed", verb, way, kind, marks=[pytest.mark.long] if (n // 2 + n) % 2 else [])
    # What a history changes is where the signing client starts from; a few ways to stop show that.
    few = ("backup", "unchanged backup", "backup that prunes", "prune", "delete of the latest")
    for n, way in enumerate(("dies after", "fails once after")):
        for history in ("upgraded", "unsigned", "unsigned by 0.1.1", "rotated", "rotated from 0.1.1"):
            for verb, kind in itertools.product(few, kinds):
                marks = [pytest.mark.long] if (n + kinds.index(kind)) % 2 else []
                yield pytest.param(history, verb, way, kind, marks=marks)
    for way, verb in itertools.product(STOPS, [*VERBS, "cached later backup", "cached backup that prunes"]):
        yield pytest.param("format 2", verb, way, "full", marks=with_zstd)
    for way, verb in itertools.product(("dies after", "fails once after"), ("first backup", "backup that prunes")):
        for history in ("encrypted", "written without a key"):
            yield pytest.param(history, verb, way, "full", marks=with_zstd)


@pytest.mark.parametrize(("history", "verb", "way", "kind"), [*cases()])
def test_stopped_at_every_call(history, verb, way, kind, monkeypatch):
    if history not in {"open", "format 2"}:
        pytest.importorskip("cryptography")
        pytest.importorskip("pyrage" if history[0] in "ew" else "cryptography")
        from signed_histories import check_each_signature_once

        check_each_signature_once(monkeypatch)
    stop_everywhere(World(history, VERBS[verb.removeprefix("cached ")][0], kind=kind), verb, way)


@pytest.mark.parametrize("way", ["dies before", "dies after", "fails once after", "is down after it"])
@pytest.mark.parametrize("verb", sorted(VERBS))
def test_a_witness_is_never_ahead(verb, way, tmp_path, monkeypatch):
    pytest.importorskip("cryptography")
    from signed_histories import check_each_signature_once

    check_each_signature_once(monkeypatch)
    witnesses = (tmp_path / f"{n}.json" for n in itertools.count())
    kind = ("full", "plain")[(len(way) + len(verb)) % 2]
    stop_everywhere(World("signed", VERBS[verb][0], kind=kind, witnesses=witnesses), verb, way)


def stop_everywhere(world, verb, way):
    cached, (count, run, after) = verb.startswith("cached "), VERBS[verb.removeprefix("cached ")]
    after = None if after is None else STATES[world.format][after]
    if "backup" not in verb and world.latest is REFUSED:
        # What is not trusted stays so, and nothing is built upon it.
        assert isinstance(attempt(run, world.client(), world), UntrustedSnapshot)
        assert world.vault.files == world.start.files
        return
    if "unchanged" in verb and world.latest is REFUSED:
        run = lambda mem, ids, new: mem.backup(STATES[1][1])  # noqa: E731

    def client(vault):
        mem = world.client(vault, **world.writer)
        if cached:  # it has saved what is there by itself, hours ago
            mem.backup(STATES[world.format][count - 1], skip_unchanged=False)
            world.now += 7200
        return mem

    now = world.now
    assert attempt(run, client(world.vault), world) is True
    given_up = world.everything.keys() - world.find_all().keys()
    n, finished = 0, False
    while not finished:
        n += 1
        assert n < 80, "the verb never comes to its end"
        TRIED[f"stops, {world.history}: {verb}"] += 1
        world.now = now
        world.begin()
        vault = FaultyVault(world.vault)
        mem = client(vault)
        before = world.vault.files.get(POINTER, "{}")
        struck = WAYS[way](vault, n)
        injected = vault.count
        answer = attempt(run, mem, world)
        finished = is_over(way, struck, vault.count - injected, n)
        check(world, json.loads(before), after, answer, given_up)
        heal(world)


def check(world, before, after, answer, given_up):
    # A warning would be an error: but before the first pointer, and after the last, a snapshot may stand without one.
    latest, found = world.find(strictly=world.history == "open" and None not in (world.latest, after))
    assert latest == after or (answer is not True and latest == world.latest), world.refusal
    assert latest in (None, REFUSED) or latest in found.values()
    everything = world.find_all()
    for there, now in ((world.contents, found), (world.everything, everything)):
        assert there.keys() - now.keys() <= given_up
        assert all(there.get(snapshot_id, documents) == documents for snapshot_id, documents in now.items())
    if isinstance(answer, BackupUncertain):
        assert answer.snapshot_id
    now = json.loads(world.vault.files.get(POINTER, "{}"))
    if before and now:
        assert now.get("generation", 0) >= before.get("generation", 0)
        if before["snapshot_id"] not in given_up:
            assert id_order(now["snapshot_id"]) >= id_order(before["snapshot_id"])
    if "witness" in world.policy and now:
        assert int(world.policy["witness"].read("default").partition(":")[0]) <= now["generation"]


def heal(world):
    """The next backup and prune succeed, what is trusted verifies again, and once aged no leftover stays."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColonyMemoryWarning)
        world.client().backup({"MEMORY.md": "next"})
        report = world.client().verify()
        foreign = {each.snapshot_id for each in report.snapshots if each.trust == "bad"}
        world.now += 7200
        world.client().backup({"MEMORY.md": "much later"})
        world.client().prune(label="default", keep=2)
    assert not foreign & world.contents.keys()
    assert (report.problem, report.removed, set(report.forged)) == (None, (), foreign), report
    assert all(each or each.unsigned for each in report.snapshots if each.snapshot_id not in foreign), report
    assert world.client().restore() == {"MEMORY.md": "much later"}
    needed = set()
    for name, text in world.vault.files.items():
        if name.endswith(".manifest.json"):
            needed |= {*read_manifest(text, label="default", snapshot_id=name.split(".")[2]).part_files}
    assert {name for name in world.vault.files if ".p" in name.replace(".pin.", "") or ".k" in name} == needed
