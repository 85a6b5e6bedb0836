"""No verb infers from one listing what is gone, and none leaves a vault in which it is stuck."""

import contextlib
import json
import random
import time
from datetime import datetime, timezone

import pytest
from faces import PlainVault

from colony_memory import (
    ColonyMemory,
    ColonyMemoryError,
    ConflictDetected,
    Ed25519Signer,
    SnapshotCorrupt,
    SnapshotNotFound,
    VaultUnavailable,
)
from colony_memory._format.v2.zstd import is_installed
from colony_memory.testing import FakeVault, FaultyVault
from colony_memory.testing.faults import ProcessDied

pytestmark = pytest.mark.filterwarnings("ignore::colony_memory.exceptions.ColonyMemoryWarning")


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


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_one_list_that_lags_takes_no_pointer_back(verb):
    fake = FakeVault(operations_per_hour=None)
    vault = FaultyVault(fake)
    ids = saved(vault)
    there = dict(fake.files)

    def lag(reply):
        items = [item for item in reply["items"] if not any(each in item["filename"] for each in ids[3:])]
        return {**reply, "items": items, "total": len(items)}

    vault.lie("list", lag)
    with pytest.raises(VaultUnavailable, match="out of date"):
        verb(ColonyMemory(backend=vault), ids)
    assert fake.files == there
    vault.heal()
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


@pytest.mark.parametrize("signs", [False, True])
def test_a_save_beside_the_deletion_of_the_last_snapshot_is_memory(signs, request):
    options = {"signer": request.getfixturevalue("signer")} if signs else {}
    fake = FakeVault(operations_per_hour=None)
    plain = PlainVault(fake)
    first = ColonyMemory(backend=plain, **options).backup({"m": "0"})
    vault = FaultyVault(plain)
    other = ColonyMemory(backend=plain, **options)
    vault.hook("upload", lambda: other.backup({"m": "reported"}), match="latest.json")
    ColonyMemory(backend=vault, **options).delete_snapshot(label="default", snapshot_id=first.snapshot_id)
    assert ColonyMemory(backend=plain, **options).restore(default={}) == {"m": "reported"}
    last = ColonyMemory(backend=plain, **options).latest()
    ColonyMemory(backend=plain, **options).delete_snapshot(label="default", snapshot_id=last.snapshot_id)
    assert ColonyMemory(backend=plain, **options).restore(default={}) == {}


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
    vault = FaultyVault(fake)
    vault.fail("delete", ProcessDied(0), skip=place)
    with pytest.raises(ProcessDied):
        ColonyMemory(backend=vault).backup({"m": texts[2]}, prune_keep=2)
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


def test_the_age_of_what_is_alone_where_nothing_shows_a_time_is_not_known():
    fake = FakeVault(operations_per_hour=None)
    vault, page = FaultyVault(fake), "cmem.default.20200101T000000000000Z-abcdef.c0.json"
    vault.lie("list", lambda reply: {"items": [{"filename": item["filename"]} for item in reply["items"]]})
    mem = ColonyMemory(backend=vault)
    mem.delete_snapshot(label="default", snapshot_id=mem.backup({"m": "x"}).snapshot_id)
    fake.vault_upload_file(page, "{}")
    assert (mem.plan_prune(keep=1).orphans, mem.prune(keep=1), page in fake.files) == ((), 0, True)
    mem.backup({"m": "y"}, prune_keep=1)
    assert (mem.prune(keep=1), page in fake.files) == (0, False)


LEFT = {
    "tag": lambda mem, ids: mem.tag(snapshot_id=ids[1], add="x"),
    "prune": lambda mem, ids: mem.prune(keep=1),
    "rewrite": lambda mem, ids: mem.rewrite(replace={"text": "words"}),
    "delete": lambda mem, ids: mem.delete_snapshot(label="default", snapshot_id=ids[1]),
}


class Lost:
    """Three snapshots, of which the pointer names the last, which is gone, and a younger one that it does not list."""

    def __init__(self):
        self.fake, self.now = FakeVault(operations_per_hour=None, clock=lambda: self.now), time.time() - 90_000
        self.ids, latest = [], "cmem.default.latest.json"
        for n in range(4):
            pointer, self.now = self.fake.files.get(latest), self.now + 7200
            self.ids.append(self.client().backup({"m": f"some text {n}"}).snapshot_id)
        self.fake.files[latest] = pointer
        self.lose(self.ids[2])

    def client(self, vault=None):
        mem = ColonyMemory(backend=vault or self.fake, format=1)
        mem._session.now = lambda: datetime.fromtimestamp(self.now, timezone.utc)
        return mem

    def lose(self, *ids, kind=""):
        for name in [name for name in self.fake.files if any(f".{each}.{kind}" in name for each in ids)]:
            del self.fake.files[name]


def test_a_prune_deletes_what_the_pointer_lists_only_once_it_is_off_the_list():
    lost = Lost()
    assert lost.client().prune(keep=1) == 0
    report = lost.client().verify()
    assert report.problem == f"the pointer names snapshot {lost.ids[2]}, which is not there"
    assert len(report.snapshots) == 3
    lost.now += 7200
    assert (lost.client().prune(keep=1), bool(lost.client().verify())) == (2, True)


@pytest.mark.parametrize(("kind", "more"), [("p0", ""), ("p0", "latest"), ("", "")])
@pytest.mark.parametrize("verb", LEFT)
def test_no_verb_makes_a_loss_look_like_nothing_saved(verb, kind, more):
    lost = Lost()
    lost.lose(*lost.ids, kind=kind)
    lost.lose(more)
    with contextlib.suppress(SnapshotCorrupt, SnapshotNotFound):
        LEFT[verb](lost.client(), lost.ids)
    with pytest.raises(SnapshotCorrupt, match="though it had one"):
        lost.client().restore(default={})


@pytest.mark.parametrize(("damaged", "other", "pointer"), [(0, 1, True), (1, 0, False)])
def test_a_deletion_tells_no_damaged_snapshot_as_nothing_saved(damaged, other, pointer):
    fake = FakeVault(operations_per_hour=None)
    mem = ColonyMemory(backend=fake, format=1)
    ids = [mem.backup({"m": f"text {n}"}).snapshot_id for n in range(2)]
    del fake.files[f"cmem.default.{ids[damaged]}.p0.json"]
    if not pointer:
        del fake.files["cmem.default.latest.json"]
    mem = ColonyMemory(backend=fake, format=1)
    mem.delete_snapshot(label="default", snapshot_id=ids[other])
    with pytest.raises(SnapshotCorrupt, match="missing part file"):
        mem.restore(default={})
    assert mem.backup({"m": "more"}, prune_keep=1).head
    mem.delete_snapshot(label="default", snapshot_id=mem.latest().snapshot_id)
    with contextlib.suppress(SnapshotNotFound):
        mem.delete_snapshot(label="default", snapshot_id=ids[damaged])
    assert mem.restore(default={}) == {}


def rewrite_waits(mem, ids):
    with pytest.raises(ConflictDetected):  # it would leave the text of that one as it is
        mem.rewrite(replace={"text": "words"})


@pytest.mark.parametrize(
    "verb",
    [
        lambda mem, ids: mem.tag(snapshot_id=ids[1], add="x"),
        rewrite_waits,
        lambda mem, ids: mem.delete_snapshot(label="default", snapshot_id=ids[0]),
    ],
    ids=["tag", "rewrite", "delete"],
)
def test_a_save_under_way_is_the_latest_only_by_its_own_pointer(verb):
    lost = Lost()
    verb(lost.client(), lost.ids)
    assert json.loads(lost.fake.files["cmem.default.latest.json"])["snapshot_id"] == lost.ids[2]
    assert lost.client().restore() == {"m": "some text 3"}
    lost.now += 3 * 3600
    lost.client().prune(keep=1)
    assert lost.client().restore() == {"m": "some text 3"}
    assert lost.client().verify()
    assert lost.client().backup({"m": "on"}).head


def test_room_is_made_without_a_pointer_that_names_nothing():
    lost = Lost()
    fake, before = lost.fake, dict(lost.fake.files)
    lost.client().delete_snapshot(label="default", snapshot_id=lost.ids[1])
    fake.files |= {name: text for name, text in before.items() if lost.ids[1] in name}
    lost.lose(lost.ids[0], lost.ids[3])
    fake.quota_bytes, vault = 500 + fake.vault_status()["used_bytes"], FaultyVault(fake)
    vault.fail("upload", ProcessDied(0), match=lambda name: ".p0." in name)
    lost.now += 7200
    with pytest.raises(ProcessDied):
        lost.client(vault).backup({"m": "more"}, prune_keep=1)
    assert [*fake.files] == ["cmem.default.latest.json"]
    with pytest.raises(SnapshotCorrupt, match="though it had one"):
        lost.client().restore(default={})


def prune_at(turn, kind):
    """Delete the latest of two, and prune before that call; whether there were so many calls, and a restore."""
    now, calls = [time.time() - 90_000], []
    fake = FakeVault(operations_per_hour=None, clock=lambda: now[0])
    mem, other = (ColonyMemory(backend=kind(fake), format=1) for _ in range(2))
    vault = FaultyVault(kind(fake))

    def prune():
        calls.append(turn)
        if len(calls) == turn:
            with contextlib.suppress(ColonyMemoryError):
                other.prune(label="default", keep=1)

    for text in "01":
        now[0] += 7200
        latest = mem.backup({"m": text}).snapshot_id
    vault.hook("*", prune, times=None)
    with contextlib.suppress(ColonyMemoryError):
        ColonyMemory(backend=vault, format=1).delete_snapshot(label="default", snapshot_id=latest)
    return len(calls) >= turn, ColonyMemory(backend=kind(fake)).restore(default={})


@pytest.mark.parametrize("kind", [PlainVault, lambda fake: fake])
def test_of_two_that_delete_the_last_two_at_once_none_leaves_a_loss(kind):
    turn, goes_on = 0, True
    while goes_on:
        goes_on, restored = prune_at(turn := turn + 1, kind)
        assert restored in ({}, {"m": "0"}, {"m": "1"})
    assert turn > 5
