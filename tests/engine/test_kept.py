"""Notes, what is missing, pins, and a retention that goes by them."""

import json
import warnings
from datetime import datetime, timedelta, timezone

import pytest
from faces import FORMATS

from colony_memory import ColonyMemory, ColonyMemoryWarning, PruneIncomplete, Retention, SnapshotNotFound, VaultDenied
from colony_memory._engine import prune
from colony_memory.testing import FakeVault, FaultyVault


def ids_of(vault):
    return [info.snapshot_id for info in ColonyMemory(backend=vault).list_snapshots()]


def test_a_backup_that_holds_less_than_half_of_the_one_before_says_so(open_memory, vault):
    mem = open_memory(vault)
    big = {f"{n}.md": "x" * 50 for n in range(10)}
    first = mem.backup(big)
    assert first.shrunk_from is None
    assert mem.backup(big).shrunk_from is None
    small = mem.backup({"a": "x"})
    assert small.shrunk_from == first.snapshot_id
    assert [each.shrunk_from for each in mem.list_snapshots()] == [first.snapshot_id, None]
    assert mem.backup({"a": "y"}).shrunk_from is None
    mem.backup(big)
    # Half of it is not less than half, and of the documents less than half are told though the bytes are the same.
    assert mem.backup({name: big[name] for name in list(big)[:5]}).shrunk_from is None
    before = mem.backup(big)
    assert mem.backup({"all.md": "x" * 600}, prune_keep=1).shrunk_from == before.snapshot_id
    assert before.snapshot_id in ids_of(vault)


def test_an_incomplete_snapshot_never_pushes_out_the_newest_complete_one(open_memory, vault):
    mem = open_memory(vault)
    complete = mem.backup({"MEMORY.md": "a", "b": "1"})
    for n in range(4):
        mem.backup({"bbbbbbbb": str(n)}, incomplete=["MEMORY.md: Permission denied"], prune_keep=1)
        assert complete.snapshot_id in ids_of(vault)
        assert len(ids_of(vault)) == 2
    mem.prune(label="default", keep=1)
    assert complete.snapshot_id in ids_of(vault)
    mem.backup({"MEMORY.md": "a", "b": "9"}, prune_keep=1)
    assert len(ids_of(vault)) == 1


def test_where_nothing_is_complete_the_newest_counts(open_memory, vault):
    mem = open_memory(vault)
    for n in range(3):
        newest = mem.backup({"m": str(n)}, incomplete=["x: gone"])
    assert mem.prune(label="default", keep=1) == 2
    assert ids_of(vault) == [newest.snapshot_id]
    reasons = mem.plan_prune(label="default", keep=1).reasons
    assert "newest" in reasons[newest.snapshot_id]


def test_where_the_newest_complete_one_is_damaged_nothing_goes(open_memory, vault):
    mem = open_memory(vault)
    older = mem.backup({"MEMORY.md": "0"})
    complete = mem.backup({"MEMORY.md": "1"})
    name = f"cmem.default.{complete.snapshot_id}.p0.json"
    vault.files[name] = vault.files[name][:-9] + "A" * 7 + vault.files[name][-2:]
    mem.backup({"b": "1"}, incomplete=["MEMORY.md: gone"], prune_keep=1)
    assert older.snapshot_id in ids_of(vault)
    with pytest.warns(ColonyMemoryWarning):
        assert open_memory(vault).restore(snapshot_id=complete.snapshot_id, fallback=True) in (
            {"b": "1"},
            {"MEMORY.md": "0"},
        )


def test_what_is_pinned_stays_until_it_is_unpinned(open_memory, vault):
    mem = open_memory(vault)
    first = mem.backup({"m": "0"})
    mem.pin(snapshot_id=first.snapshot_id)
    assert [info.pinned for info in mem.list_snapshots()] == [True]
    assert mem.latest().pinned in (True, False)  # a listing tells, and this may do without
    for n in range(1, 4):
        mem.backup({"m": str(n)}, prune_keep=1)
    assert first.snapshot_id in ids_of(vault)
    assert mem.prune(label="default", keep=1) == 0
    assert "pinned" in mem.plan_prune(label="default", keep=1).reasons[first.snapshot_id]
    mem.unpin(snapshot_id=first.snapshot_id)
    mem.unpin(snapshot_id=first.snapshot_id)
    assert mem.prune(label="default", keep=1) == 1
    assert first.snapshot_id not in ids_of(vault)


def test_tags_come_and_go_afterwards(open_memory, vault):
    mem = open_memory(vault)
    first = mem.backup({"m": "0"}, tags=["a", "b"])
    last = mem.backup({"m": "1"})
    before = vault.vault_get_file(f"cmem.default.{first.snapshot_id}.manifest.json")["content"]
    assert mem.tag(snapshot_id=first.snapshot_id, add=["c", "a"], remove="b") == ("a", "c")
    assert mem.tag(snapshot_id=last.snapshot_id, add="now") == ("now",)
    assert mem.tag(snapshot_id=last.snapshot_id, add="now", remove="never") == ("now",)
    assert vault.vault_get_file(f"cmem.default.{first.snapshot_id}.manifest.json")["content"] == before
    mem.backup({"m": "2"})
    fresh = open_memory(vault)
    assert [info.tags for info in fresh.list_snapshots()] == [(), ("now",), ("a", "c")]
    mem.delete_snapshot(label="default", snapshot_id=mem.latest().snapshot_id)
    assert fresh.latest().tags == ("now",)
    other = ColonyMemory(backend=FakeVault(operations_per_hour=None))
    ColonyMemory(backend=vault).copy_to(other)
    assert [info.tags for info in other.list_snapshots()] == [("now",), ("a", "c")]
    with pytest.raises(SnapshotNotFound):
        mem.tag(snapshot_id="20200101T000000000000Z-abcdef", add="x")
    with pytest.raises(ValueError, match="say which tags"):
        mem.tag(snapshot_id=last.snapshot_id)
    with pytest.raises(ValueError, match="at most 20"):
        mem.tag(snapshot_id=last.snapshot_id, add=[f"t{n}" for n in range(20)])


BEGIN = datetime(2026, 11, 27, 8, 15, tzinfo=timezone.utc)


class Hosts:
    """A client and a vault, each with a clock that is so many days after the beginning."""

    def __init__(self):
        self.host = self.there = 0
        self.vault = FakeVault(operations_per_hour=None, clock=lambda: self._at(self.there).timestamp())
        self.memory = ColonyMemory(backend=self.vault)
        self.memory._session.now = lambda: self._at(self.host)

    def _at(self, days):
        return BEGIN + timedelta(days=days)

    def save(self, text):
        return self.memory.backup({"m": text})

    def pin(self, info, days):
        self.memory._run(prune.pin, label="default", snapshot_id=info.snapshot_id, lasts=timedelta(days=days))

    def ends(self):
        return {info.snapshot_id: info.pinned_until for info in self.memory.list_snapshots() if info.pinned}


@pytest.mark.parametrize("sizes", [True, False])
@pytest.mark.parametrize(("host", "there", "ended"), [(29, 29, 0), (31, 0, 0), (0, 31, 0), (31, 31, 1)])
def test_a_pin_may_end_by_itself_by_the_clock_that_is_behind(monkeypatch, host, there, ended, sizes):
    at = Hosts()
    first, second = at.save("0"), at.save("1")
    at.pin(first, 30)
    at.memory.pin(snapshot_id=second.snapshot_id)
    if not sizes:
        bare = lambda prefix="": sorted(name for name in at.vault.files if name.startswith(prefix))  # noqa: E731
        monkeypatch.setattr(FakeVault, "vault_list_prefix", lambda self, prefix: {"items": bare(prefix)})
        ended = int(host > 30)  # it tells no times either
    at.host, at.there = host, there
    at.save("2")
    assert (
        at.ends() == {first.snapshot_id: "2026-12-27T08:15:00Z", second.snapshot_id: None}
        if not ended
        else {second.snapshot_id: None}
    )
    assert at.memory.prune(keep=1) == ended


def test_an_end_is_moved_on_and_never_back(monkeypatch):
    at = Hosts()
    info = at.save("0")
    for day, lasts, end in ((0, 30, 27), (0.5, 30, 27), (1, 30, 28), (2, 3, 28)):
        at.host = day
        at.pin(info, lasts)
        assert at.ends() == {info.snapshot_id: f"2026-12-{end}T08:15:00Z"}
    at.memory.pin(snapshot_id=info.snapshot_id)
    at.pin(info, 60)
    assert at.ends() == {info.snapshot_id: None}
    at.host = -9000  # a clock that lost its battery
    info = at.save("1")
    at.pin(info, 30)
    assert at.ends()[info.snapshot_id] > "2026-12-26"


@pytest.mark.parametrize("text", ["", "{", '{"until": 7}', '{"until": "soon"}', "[]", '{"until": null} ' + " " * 99])
def test_a_pin_that_tells_no_end_has_none(text):
    at = Hosts()
    info = at.save("0")
    at.memory.pin(snapshot_id=info.snapshot_id)
    at.vault.files[f"cmem.default.{info.snapshot_id}.pin.json"] = text
    assert at.ends() == {info.snapshot_id: None}


def test_pins_that_cannot_be_read_count():
    at = Hosts()
    info = at.save("0")
    at.pin(info, 1)
    faulty = FaultyVault(at.vault)
    faulty.fail("get", TimeoutError, match="*.pin.json")
    memory = ColonyMemory(backend=faulty)
    memory._session.now = lambda: BEGIN + timedelta(days=400)
    assert [each.pinned for each in memory.list_snapshots()] == [True]
    at.vault.calls.clear()
    for n in range(300):
        other = f"20260101T{n:012d}Z-abcdef"
        at.vault.files[f"cmem.default.{other}.pin.json"] = at.vault.files[f"cmem.default.{other}.manifest.json"] = "{}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColonyMemoryWarning)
        at.memory.list_snapshots()
    assert len({name for _, name in at.vault.calls if name.endswith("pin.json")}) == 100


def test_only_what_is_there_is_pinned(open_memory, vault):
    with pytest.raises(SnapshotNotFound):
        open_memory(vault).pin(snapshot_id="20260101T000000000000Z-abcdef")
    with pytest.raises(ValueError, match="not a snapshot id"):
        open_memory(vault).pin(snapshot_id="../x")
    assert not vault.files


def noise(seed, size=300):
    return "".join(chr(0x4E00 + (n * n * 7919 + n * seed) % 20000) for n in range(size))


def test_a_full_vault_keeps_fewer_and_says_how_many():
    vault = FakeVault(operations_per_hour=None, quota_bytes=8_000)
    mem = ColonyMemory(backend=vault)
    for n in range(4):
        mem.backup({"m": noise(n)}, prune_keep=100)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for n in range(4, 12):
            mem.backup({"m": noise(n)}, prune_keep=100)
            assert ColonyMemory(backend=vault).restore() == {"m": noise(n)}
    assert {str(each.message).split(":")[0] for each in told} == {"the vault is full"}
    assert all("that the retention keeps, only" in str(each.message) for each in told)
    assert 2 <= len(ids_of(vault)) <= 5


@pytest.mark.once
def test_the_pointer_does_not_grow_over_400_backups_under_a_retention(vault):
    mem, sizes = ColonyMemory(backend=vault), {}
    for n in range(400):
        mem.backup({"m": str(n)}, retention=Retention(keep_last=5))
        sizes[n] = len(vault.files["cmem.default.latest.json"])
    assert max(sizes[n] for n in range(200, 400)) <= 1.1 * max(sizes[n] for n in range(10, 50))
    assert len(ids_of(vault)) == 5
    assert len(vault.files) == 11


def test_a_full_vault_recovers_from_a_backup_that_stopped_half_way():
    now = [1_700_000_000.0]
    vault = FakeVault(operations_per_hour=None, quota_bytes=9_000, clock=lambda: now[0])
    mem = ColonyMemory(backend=vault)
    mem.backup({"m": "small"})
    junk = json.dumps({"format": "colony-memory/1", "snapshot_id": "x", "seq": 0, "b64": "A" * 7_500})
    vault.vault_upload_file("cmem.default.20231114T221320000000Z-abcdef.p0.json", junk)
    now[0] += 60
    with pytest.raises(Exception, match="free in the vault"):
        mem.backup({"m": noise(1)}, prune_keep=3)  # it may be the work of another client
    now[0] += 2 * 3600
    # Nothing newer shows the vault's time, and nothing newer fits; the pointer can be written as it is.
    assert mem.backup({"m": noise(1)}, prune_keep=3).head
    assert not [name for name in vault.files if "abcdef" in name]


@pytest.mark.parametrize("wire", FORMATS)
def test_where_nothing_may_be_deleted_backups_go_on_and_say_what_they_gave_up(wire):
    class Locked(FakeVault):
        def vault_delete_file(self, filename):
            raise VaultDenied(f"deleting {filename}: AccessDenied", status=403)

    vault = Locked(operations_per_hour=None)
    memory = ColonyMemory(backend=vault, format=wire)
    first, *_ = [memory.backup({"a.md": f"text {turn}"}, prune_keep=2).snapshot_id for turn in range(2)]
    with pytest.warns(
        ColonyMemoryWarning, match=f"these credentials may not delete: {first} of label 'default' left the"
    ):
        memory.backup({"a.md": "text 2"}, prune_keep=2)
    assert memory.restore() == {"a.md": "text 2"}
    assert memory.restore(snapshot_id=first) == {"a.md": "text 0"}
    with pytest.raises(PruneIncomplete, match="AccessDenied"):
        memory.prune(keep=1)
    assert memory.restore() == {"a.md": "text 2"}
