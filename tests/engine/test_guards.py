"""No verb writes over a pointer that is refused, or infers from one listing what is gone."""

from __future__ import annotations

import random
import time
from datetime import datetime, timezone

import pytest
from faces import PlainVault

from colony_memory import (
    ColonyMemory,
    Ed25519Signer,
    RollbackDetected,
    VaultUnavailable,
)
from colony_memory._format.v2.zstd import is_installed
from colony_memory.testing import FakeVault

pytestmark = pytest.mark.filterwarnings("ignore::colony_memory.exceptions.ColonyMemoryWarning")


class Remembered:
    """A witness that keeps what it was told."""

    def __init__(self):
        self.heads = {}

    def read(self, label):
        return self.heads.get(label)

    def record(self, label, head):
        self.heads[label] = head


class Lagging:
    """A vault whose lists lack some snapshots for a while."""

    def __init__(self, fake):
        self.fake, self.lacks = fake, ()

    def __getattr__(self, name):
        return getattr(self.fake, name)

    def vault_list_files(self):
        return self.shown(self.fake.vault_list_files())

    def vault_list_prefix(self, prefix):
        return self.shown(self.fake.vault_list_prefix(prefix))

    def shown(self, listing):
        items = [item for item in listing["items"] if not any(each in item["filename"] for each in self.lacks)]
        return {**listing, "items": items, "total": len(items)}


VERBS = {
    "delete an old one": lambda mem, ids: mem.delete_snapshot(label="default", snapshot_id=ids[0]),
    "delete one that is gone": lambda mem, ids: mem.delete_snapshot(label="default", snapshot_id=ids[4]),
    "delete what the pointer names": lambda mem, ids: mem.delete_snapshot(label="default", snapshot_id=ids[-1]),
    "delete what is the newest left": lambda mem, ids: mem.delete_snapshot(label="default", snapshot_id=ids[2]),
    "prune": lambda mem, ids: mem.prune(keep=1),
}


@pytest.fixture
def signer():
    pytest.importorskip("cryptography")
    return Ed25519Signer(bytes(range(32)))


def saved(vault, **options):
    mem = ColonyMemory(backend=vault, **options)
    return [mem.backup({"n": str(n)}).snapshot_id for n in range(7)]


@pytest.mark.parametrize("plain", [False, True], ids=["full", "plain"])
@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_no_verb_hides_that_the_newest_were_removed(verb, plain, signer):
    fake, witness = FakeVault(operations_per_hour=None), Remembered()
    vault = PlainVault(fake) if plain else fake
    options = {"signer": signer, "witness": witness}
    ids = saved(vault, **options)
    for name in [*fake.files]:
        if any(each in name for each in ids[3:]):
            del fake.files[name]
    there, head = dict(fake.files), witness.read("default")
    with pytest.raises(RollbackDetected):
        verb(ColonyMemory(backend=vault, **options), ids)
    assert fake.files == there
    assert witness.read("default") == head
    with pytest.raises(RollbackDetected):
        ColonyMemory(backend=vault, **options).restore()


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_one_list_that_lags_takes_no_pointer_back(verb):
    fake = FakeVault(operations_per_hour=None)
    vault = Lagging(fake)
    ids = saved(vault)
    there = dict(fake.files)
    vault.lacks = ids[3:]
    with pytest.raises(VaultUnavailable, match="out of date"):
        verb(ColonyMemory(backend=vault), ids)
    assert fake.files == there
    vault.lacks = ()
    assert ColonyMemory(backend=vault).restore() == {"n": "6"}


def test_a_full_vault_gives_up_incomplete_snapshots_before_the_newest_complete_one():
    text = "x" * 20
    probe = FakeVault()
    ColonyMemory(backend=probe).backup({"MEMORY.md": text})
    fake = FakeVault(quota_bytes=5 * sum(map(len, probe.files.values())), operations_per_hour=None)
    whole = ColonyMemory(backend=fake).backup({"MEMORY.md": text}).snapshot_id
    for n in range(12):
        mem = ColonyMemory(backend=fake)
        mem.backup({"MEMORY.md": f"{text}{n}"}, incomplete=["b.md: is a socket"], prune_keep=50)
        assert whole in {each.snapshot_id for each in mem.list_snapshots()}
    assert len(mem.list_snapshots()) < 12


class Beside:
    """A vault without conditions, in which another client saves just before a pointer is written."""

    def __init__(self, fake, save):
        self._plain, self._save = PlainVault(fake), save

    def __getattr__(self, name):
        return getattr(self._plain, name)

    def vault_upload_file(self, filename, content):
        if filename.endswith("latest.json") and self._save:
            save, self._save = self._save, None
            save()
        return self._plain.vault_upload_file(filename, content)


@pytest.mark.parametrize("signs", [False, True])
def test_a_save_beside_the_deletion_of_the_last_snapshot_is_memory(signs, request):
    options = {"signer": request.getfixturevalue("signer")} if signs else {}
    fake = FakeVault(operations_per_hour=None)
    plain = PlainVault(fake)
    first = ColonyMemory(backend=plain, **options).backup({"m": "0"})
    vault = Beside(fake, lambda: ColonyMemory(backend=plain, **options).backup({"m": "reported"}))
    ColonyMemory(backend=vault, **options).delete_snapshot(label="default", snapshot_id=first.snapshot_id)
    assert ColonyMemory(backend=plain, **options).restore(default={}) == {"m": "reported"}
    last = ColonyMemory(backend=plain, **options).latest()
    ColonyMemory(backend=plain, **options).delete_snapshot(label="default", snapshot_id=last.snapshot_id)
    assert ColonyMemory(backend=plain, **options).restore(default={}) == {}


class Died(BaseException):
    """The process ends."""


def dies_at(vault, verb, place):
    """Let a vault end the process at the n-th call of a verb."""

    class Mortal:
        def __init__(self):
            self.left = place

        def __getattr__(self, name):
            method = getattr(vault, name)
            if name != verb:
                return method

            def call(*args, **options):
                self.left -= 1
                if self.left < 0:
                    raise Died
                return method(*args, **options)

            return call

    return Mortal()


@pytest.mark.parametrize("place", range(2))
def test_a_full_vault_is_not_stuck_after_a_death_between_giving_up_and_deleting(place):
    texts = [random.Random(n).randbytes(2_000).hex() for n in range(6)]
    probe = FakeVault()
    ColonyMemory(backend=probe).backup({"m": texts[0]})
    one = sum(map(len, probe.files.values()))
    now = [1_800_000_000.0]
    fake = FakeVault(quota_bytes=2 * one + one // 3, operations_per_hour=None, clock=lambda: now[0])
    for n in range(2):
        ColonyMemory(backend=fake).backup({"m": texts[n]})
    with pytest.raises(Died):
        ColonyMemory(backend=dies_at(fake, "vault_delete_file", place)).backup({"m": texts[2]}, prune_keep=2)
    for n in (3, 4, 5):
        now[0] += 7200
        ColonyMemory(backend=fake).backup({"m": texts[n]}, prune_keep=2)
        assert ColonyMemory(backend=fake).restore() == {"m": texts[n]}
    listed = {info.snapshot_id for info in ColonyMemory(backend=fake).list_snapshots()}
    assert {name.split(".")[2] for name in fake.files} == {*listed, "latest"}


@pytest.mark.parametrize("kind", [1, 2])
@pytest.mark.parametrize("idle", [0, 7200])
def test_a_plan_names_what_a_prune_deletes(kind, idle):
    if kind == 2 and not is_installed():
        pytest.skip("zstd is not installed")
    start = time.time() - 20_000
    now = [start]
    fake = FakeVault(operations_per_hour=None, clock=lambda: now[0])

    def client():
        mem = ColonyMemory(backend=fake, format=kind)
        mem._session.now = lambda: datetime.fromtimestamp(now[0], timezone.utc)
        return mem

    docs = {f"{n}.md": random.Random(n).randbytes(500).hex() for n in range(4)}
    for n in range(4):
        docs["0.md"] = random.Random(90 + n).randbytes(500).hex()
        last = client().backup(docs).snapshot_id
        now[0] += 60
    client().delete_snapshot(label="default", snapshot_id=last)
    fake.vault_upload_file("cmem.default.20270101T000000000000Z-abcdef.p0.json", "{}")
    now[0] += 7200
    client().backup({**docs, "1.md": "after"})
    now[0] += idle
    before = {*fake.files}
    plan = client().plan_prune(keep=2)
    assert {*fake.files} == before
    client().prune(keep=2)
    removed = {info.snapshot_id for info in plan.remove}
    gone = before - {*fake.files}
    assert gone == {*plan.orphans} | {name for name in before if name.split(".")[2] in removed and ".k" not in name}
    assert any("abcdef" in name for name in plan.orphans)
    assert not client().plan_prune(keep=2)
