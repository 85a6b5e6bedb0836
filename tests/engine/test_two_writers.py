"""What a client's memory is based on, and what happens where another one has saved meanwhile."""

import asyncio
from datetime import datetime, timezone

import pytest
from faces import FORMATS, PlainVault

from colony_memory import ColonyMemory, ColonyMemoryError, ColonyMemoryWarning, ConflictDetected, PruneIncomplete
from colony_memory.testing import FakeVault, FaultyVault

BASE = {"MEMORY.md": "one\ntwo\nthree\n"}


def ids_of(vault):
    return {info.snapshot_id for info in ColonyMemory(backend=vault).list_snapshots()}


@pytest.fixture
def pair(open_memory, vault):
    ColonyMemory(backend=vault).backup(BASE)
    ours, theirs = open_memory(vault), open_memory(vault)
    assert ours.restore() == theirs.restore() == BASE
    return ours, theirs


def test_the_same_conflict_is_told_again_and_stored_once(pair, vault):
    ours, theirs = pair
    theirs.backup({**BASE, "b.md": "theirs"})
    told = []
    for _ in range(3):
        with pytest.raises(ConflictDetected) as caught:
            ours.backup({**BASE, "a.md": "ours"})
        told.append((caught.value.theirs, caught.value.snapshot_id))
    assert len(set(told)) == 1
    assert len(ids_of(vault)) == 3
    # Nor is what both started from stored once more by a client that has nothing new, which is no conflict.
    info = ours.backup(BASE)
    assert (info.reused, info.diverged_from) == (True, told[0][0])
    assert len(ids_of(vault)) == 3


# --- merge


def merged(memory, documents):
    return memory.backup(documents, on_conflict="merge")


def test_an_agent_that_goes_on_with_its_own_text_loses_nothing_of_the_others(pair, vault):
    ours, theirs = pair
    theirs.backup({**BASE, "b.md": "theirs"})
    merged(ours, {**BASE, "a.md": "1"})
    # It does not know of b.md, and has not removed it.
    merged(ours, {**BASE, "a.md": "2"})
    theirs.restore()
    theirs.backup({**BASE, "a.md": "2", "b.md": "theirs, later"})
    merged(ours, {**BASE, "a.md": "3"})
    info = merged(ours, {**BASE, "a.md": "3"})
    assert info.reused
    assert ColonyMemory(backend=vault).restore() == {**BASE, "a.md": "3", "b.md": "theirs, later"}
    # From where it has read what was joined, it may remove it.
    ours.restore()
    merged(ours, {**BASE, "a.md": "3"})
    assert ColonyMemory(backend=vault).restore() == {**BASE, "a.md": "3"}


def test_a_merge_that_was_cancelled_is_the_own_one(open_memory, vault):
    faulty = FaultyVault(vault)
    ours, theirs = open_memory(faulty), ColonyMemory(backend=vault)
    ours.backup({"m": "1\n2\n3\n4\n5\n"})
    theirs.backup({"m": "1\n2\n3\n4\ntheirs\n"})
    faulty.fail("upload", asyncio.CancelledError(), match="latest", times=1, after=True)
    with pytest.raises(asyncio.CancelledError):
        ours.backup({"m": "ours\n2\n3\n4\n5\n"}, on_conflict="merge")
    assert ours.backup({"m": "mine\n2\n3\n4\n5\n"}, on_conflict="merge").merged == ()
    assert theirs.restore() == {"m": "mine\n2\n3\n4\ntheirs\n"}


def test_a_race_is_merged_too(open_memory, vault):
    ColonyMemory(backend=vault).backup(BASE)
    faulty = FaultyVault(vault)
    mem = open_memory(faulty)
    mem.restore()
    other = ColonyMemory(backend=vault)
    other.restore()
    faulty.hook("upload", lambda: other.backup({**BASE, "b.md": "theirs"}), match=".manifest.")
    info = merged(mem, {**BASE, "a.md": "ours"})
    assert info.head
    assert ColonyMemory(backend=vault).restore() == {**BASE, "a.md": "ours", "b.md": "theirs"}
    # What was made before theirs was known is not left behind: there are both sides, and what they were merged to.
    assert len(ids_of(vault)) == 4


def test_what_cannot_be_read_is_passed_over_with_a_warning(pair, vault):
    ours, theirs = pair
    other = theirs.backup({**BASE, "b.md": "theirs"})
    vault.files[f"cmem.default.{other.snapshot_id}.p0.json"] = "{}"
    with pytest.warns(ColonyMemoryWarning, match="could not be merged"):
        info = merged(ours, {**BASE, "a.md": "ours"})
    assert info.diverged_from == other.snapshot_id
    assert ColonyMemory(backend=vault).restore() == {**BASE, "a.md": "ours"}


def test_a_conflict_whose_row_was_written_over_stays_unmerged():
    hours, now = 2 * 3600, [1_767_000_000.0]
    fake = FakeVault(operations_per_hour=None, clock=lambda: now[0])

    def client():
        mem = ColonyMemory(backend=PlainVault(fake))
        mem._session.now = lambda: datetime.fromtimestamp(now[0], timezone.utc)
        return mem

    client().backup(BASE)
    ours = client()
    ours.restore()
    client().backup({**BASE, "b.md": "theirs"})
    before, now[0] = fake.files["cmem.default.latest.json"], now[0] + hours
    with pytest.raises(ConflictDetected) as caught:
        ours.backup({**BASE, "a.md": "ours"})
    # Another client, which cannot write on condition, puts back the list that it had read before.
    fake.files["cmem.default.latest.json"] = before
    for _ in range(2):
        now[0] += hours
        client().backup({**BASE, "b.md": f"theirs at {now[0]}"})
    client().prune(keep=1)
    assert client().restore(snapshot_id=caught.value.snapshot_id) == {**BASE, "a.md": "ours"}


@pytest.mark.parametrize("wire", FORMATS)
def test_another_client_removes_what_is_being_verified_each_time_that_it_looks_again(wire):
    vault = FaultyVault(FakeVault(operations_per_hour=None))
    mem, other = (ColonyMemory(backend=each, format=wire) for each in (vault, vault.vault))
    for number in range(4):
        mem.backup({"m": f"{number}"})

    def save():
        other.backup({"m": f"{vault.count}"}, prune_keep=2)

    vault.hook("get", save, match=".manifest", times=None)
    assert mem.verify()


def test_a_snapshot_that_goes_while_its_files_are_read_is_not_damaged():
    vault = FaultyVault(FakeVault(operations_per_hour=None))
    mem = ColonyMemory(backend=vault, format=1)
    old = mem.backup({"m": "old"}).snapshot_id
    mem.backup({"m": "new"})
    faulty = FaultyVault(vault.vault)
    faulty.fail("delete", ConnectionResetError("gone"))
    with pytest.raises(PruneIncomplete):
        ColonyMemory(backend=faulty).prune(keep=1)  # the pointer lists it no more

    def go_on():
        for name in ("manifest", "p0"):
            vault.vault.vault_delete_file(f"cmem.default.{old}.{name}.json")

    vault.hook("get", go_on, match=f"{old}.p0")
    assert mem.verify()


class Hosts:
    """One that is frozen for hours before it writes a manifest; others pin and prune meanwhile, and move no pointer."""

    def __init__(self, wire):
        self.hours = 0
        self.fake = FakeVault(operations_per_hour=None, clock=lambda: 1.8e9 + 3600 * self.hours)
        self.wire = wire
        self.before = self.client().backup({"m": "before"}).snapshot_id

    def client(self):
        return ColonyMemory(backend=self.fake, format=self.wire)

    def frozen(self):
        vault = FaultyVault(self.fake)

        def hours_later():
            self.hours += 3
            self.client().pin(snapshot_id=self.before)
            self.client().prune(keep=5)

        vault.hook("upload", hours_later, match=".manifest.json")
        return ColonyMemory(backend=vault, format=self.wire)


@pytest.mark.parametrize("verb", ["backup", "import"])
@pytest.mark.parametrize("wire", FORMATS)
def test_what_was_frozen_is_there_when_it_says_so(wire, verb):
    """What is done again is done, and what was said to be done is."""
    elsewhere = ColonyMemory(backend=FakeVault(operations_per_hour=None), format=wire)
    elsewhere.backup({"m": "frozen"})
    exported, hosts = elsewhere.export_snapshot(), Hosts(wire)
    mem = hosts.frozen()
    run = (lambda: mem.backup({"m": "frozen"})) if verb == "backup" else lambda: mem.import_snapshot(exported)
    try:
        info = run()
    except ColonyMemoryError:
        info = run()
    assert hosts.client().restore(snapshot_id=info.snapshot_id) == {"m": "frozen"}
    assert verb == "import" or hosts.client().restore() == {"m": "frozen"}
