"""The verbs, one list of tests over both facades, each over a vault with and one without the optional methods."""

import asyncio
import json
import random
import string
from datetime import datetime, timedelta, timezone

import pytest
from faces import AsyncFakeVault

import colony_memory
from colony_memory import (
    AsyncColonyMemory,
    ColonyMemory,
    ColonyMemoryError,
    ColonyMemoryWarning,
    PruneIncomplete,
    QuotaExceeded,
    Retention,
    SnapshotCorrupt,
    SnapshotNotFound,
    VaultError,
    VaultUnavailable,
)
from colony_memory._format.v2.zstd import is_installed
from colony_memory.exceptions import Hint
from colony_memory.testing import FakeVault, FaultyVault

DOCS = {"MEMORY.md": "two years of notes\n", "notes/ß.md": "NUL \0, CRLF \r\n, half \ud83d", "empty": ""}


def files_of(vault, snapshot_id):
    return sorted(name for name in vault.files if f".{snapshot_id}." in name)


def later(mem, vault):
    fake = getattr(vault, "vault", vault)
    moment = datetime.now(timezone.utc) + timedelta(hours=2)
    fake.clock = moment.timestamp
    mem._session.now = lambda: moment


def test_restore_takes_globs(open_memory, vault):
    mem = open_memory(vault)
    mem.backup(DOCS)
    assert set(mem.restore(names="notes/*")) == {"notes/ß.md"}
    assert set(mem.restore(names=["*.md", "empty"])) == set(DOCS)
    for options in ({}, {"default": {}}, {"default": None}):
        with pytest.raises(ValueError, match=r"matches 'nothing': it has "):
            mem.restore(names=["nothing"], **options)


def test_unchanged_memory_is_saved_again_if_the_saved_one_is_broken(open_memory, vault):
    mem = open_memory(vault)
    first = mem.backup(DOCS)
    del vault.files[f"cmem.default.{first.snapshot_id}.p0.json"]
    assert not mem.backup(DOCS).reused
    assert mem.restore() == DOCS


@pytest.mark.parametrize("label", ["", "a b", "work/acme", "../x", "项目甲", "x" * 300, None, 3])
def test_unusable_labels_are_refused(open_memory, vault, label):
    mem = open_memory(vault)
    calls = [
        lambda: mem.backup(DOCS, label=label),
        lambda: mem.restore(label=label, default={}),
        lambda: mem.latest(label=label),
        lambda: mem.prune(label=label),
        lambda: mem.plan_prune(label=label),
        lambda: mem.delete_snapshot(label=label, snapshot_id="x"),
        lambda: mem.verify(label=label),
        lambda: mem.diff(DOCS, label=label),
    ]
    for call in calls if label is None else [*calls, lambda: mem.list_snapshots(label=label)]:
        with pytest.raises(ValueError, match="label"):
            call()
    assert not vault.files


@pytest.mark.parametrize("snapshot_id", ["", "../x", "a.b", "a/b", 7, "x" * 65])
def test_unusable_ids_are_refused(open_memory, vault, snapshot_id):
    mem = open_memory(vault)
    for call in (
        lambda: mem.restore(snapshot_id=snapshot_id, default={}),
        lambda: mem.delete_snapshot(label="default", snapshot_id=snapshot_id),
        lambda: mem.verify(snapshot_id=snapshot_id),
    ):
        with pytest.raises(ValueError, match="snapshot id"):
            call()


@pytest.mark.parametrize(
    ("documents", "named"),
    [({}, "nothing"), (None, "mapping"), ([("a", "b")], "mapping"), ({"a.md": 1}, "a.md"), ({3: "x"}, "3"),
     ({"b.md": b"x"}, "b.md")],
)  # fmt: skip
def test_unusable_documents_are_refused_by_name(open_memory, vault, documents, named):
    with pytest.raises(ValueError, match=named):
        open_memory(vault).backup(documents)
    assert not vault.files


def test_unusable_options_are_refused(open_memory, vault):
    mem = open_memory(vault)
    for options in (
        {"on_conflict": "ask"},
        {"note": 3},
        {"incomplete": "one line"},
        {"incomplete": [3]},
        {"tags": "two words"},
        {"tags": None},
        {"tags": [3]},
        {"tags": [""]},
        {"tags": ["two words"]},
        {"tags": ["x" * 65]},
        {"tags": [str(n) for n in range(21)]},
        {"prune_keep": -1},
        {"prune_keep": True},
        {"retention": 3},
        {"prune_keep": 1, "retention": Retention(keep_last=1)},
    ):
        with pytest.raises(ValueError, match=r"must|not both|at most"):
            mem.backup(DOCS, **options)
    with pytest.raises(ValueError, match="count"):
        mem.prune(label="default", keep=-1)
    with pytest.raises(ValueError, match="count"):
        mem.prune(label="default", keep=None)
    assert not vault.files


def test_too_many_bytes_are_refused(open_memory, vault):
    with pytest.raises(ValueError, match="more than the 10 that this client takes"):
        open_memory(vault, max_bytes=10).backup(DOCS)
    assert not vault.files
    open_memory(vault).backup(DOCS)
    with pytest.raises(SnapshotCorrupt, match="more than the 10 that this client takes"):
        open_memory(vault, max_bytes=10).restore()


def test_a_manifest_over_the_cap_is_refused_before_the_first_write(open_memory, vault):
    with pytest.raises(QuotaExceeded, match="document names") as caught:
        open_memory(vault).backup({f"{n:05}" + "n" * 100: "" for n in range(10_000)})
    assert caught.value.needed > caught.value.available == 1_000_000
    assert not vault.files


def test_nothing_saved_yet_is_proven(open_memory, vault):
    mem = open_memory(vault)
    with pytest.raises(SnapshotNotFound):
        mem.restore()
    assert mem.restore(default=None) is None
    assert mem.restore(default={"fresh": "start"}) == {"fresh": "start"}
    assert mem.latest() is None
    assert mem.list_snapshots() == []
    assert mem.verify().snapshots == ()
    assert not mem.verify()
    assert mem.inspect().labels == ()
    mem.backup(DOCS, label="other")
    assert mem.restore(default=None) is None
    with pytest.raises(SnapshotNotFound, match="20200101T000000000000Z-abcdef"):
        mem.restore(label="other", snapshot_id="20200101T000000000000Z-abcdef")


@pytest.mark.parametrize("damage", ["missing", "garbled", "dangling"])
def test_a_useless_pointer_leads_to_the_newest_whole_snapshot(open_memory, vault, damage):
    mem = open_memory(vault)
    mem.backup({"n": "1"})
    newest = mem.backup({"n": "2"})
    name = "cmem.default.latest.json"
    if damage == "missing":
        del vault.files[name]
    elif damage == "garbled":
        vault.files[name] = vault.files[name][:20]
    else:
        vault.files[name] = vault.files[name].replace(newest.snapshot_id, "20990101T000000000000Z-abcdef")
    other = open_memory(vault)
    with pytest.warns(ColonyMemoryWarning, match=newest.snapshot_id):
        assert other.restore() == {"n": "2"}
    with pytest.warns(ColonyMemoryWarning, match=newest.snapshot_id):
        assert other.latest().snapshot_id == newest.snapshot_id
    assert [info.byte_size for info in other.list_snapshots()] == [9, 9]
    # The next backup mends it.
    other.backup({"n": "3"})
    assert open_memory(vault).restore() == {"n": "3"}


def test_a_damaged_part_is_named_and_fallback_walks_back(open_memory, vault):
    mem = open_memory(vault)
    mem.backup({"n": "1"})
    bad = mem.backup({"n": "2"})
    part = f"cmem.default.{bad.snapshot_id}.p0.json"
    vault.files[part] = vault.files[part].replace("H4sI", "H4sJ")
    with pytest.raises(SnapshotCorrupt):
        open_memory(vault).restore()
    with pytest.warns(ColonyMemoryWarning, match=bad.snapshot_id):
        assert open_memory(vault).restore(fallback=True) == {"n": "1"}
    with pytest.warns(ColonyMemoryWarning):
        assert open_memory(vault).restore(fallback=True, snapshot_id=bad.snapshot_id) == {"n": "1"}
    del vault.files[part]
    with pytest.raises(SnapshotCorrupt, match="missing part file") as caught:
        open_memory(vault).restore()
    assert caught.value.file == part


def test_a_snapshot_that_is_deleted_while_it_is_read(open_memory, vault):
    faulty = FaultyVault(vault)
    other = ColonyMemory(backend=vault)
    other.backup({"n": "1"})

    def replace():
        old = other.latest()
        other.backup({"n": "2"})
        other.delete_snapshot(label="default", snapshot_id=old.snapshot_id)

    faulty.hook("get", replace, match=".p0.")
    assert open_memory(faulty).restore() == {"n": "2"}
    faulty.hook("get", replace, match=".manifest.")
    other.backup({"n": "3"})
    assert open_memory(faulty).restore() == {"n": "2"}


def test_prune_keeps_the_newest(open_memory, vault):
    mem = open_memory(vault)
    infos = [mem.backup({"n": str(n)}) for n in range(5)]
    plan = mem.plan_prune(label="default", keep=2)
    assert plan
    assert [info.snapshot_id for info in plan.keep] == [info.snapshot_id for info in reversed(infos[3:])]
    assert plan.reasons[infos[4].snapshot_id] == ("last", "newest", "latest")
    assert len(mem.list_snapshots()) == 5
    assert mem.prune(label="default", keep=2) == 3
    assert {info.snapshot_id for info in mem.list_snapshots()} == {info.snapshot_id for info in infos[3:]}
    assert not any(files_of(vault, info.snapshot_id) for info in infos[:3])
    assert mem.prune(label="default", keep=0) == 1
    assert mem.restore() == {"n": "4"}
    assert not mem.plan_prune(label="default", keep=0)


def test_prune_never_counts_what_does_not_restore(open_memory, vault):
    mem = open_memory(vault)
    good = mem.backup({"n": "good"})
    for damage in ("part lost", "part altered", "manifest altered"):
        bad = mem.backup({"n": damage})
        part, manifest = (f"cmem.default.{bad.snapshot_id}.{kind}.json" for kind in ("p0", "manifest"))
        if damage == "part lost":
            del vault.files[part]
        elif damage == "part altered":
            vault.files[part] = vault.files[part].replace("H4sI", "H4sJ")
        else:
            vault.files[manifest] = vault.files[manifest].replace('"gzip', '"zip', 1)
    other = open_memory(vault)
    assert other.prune(label="default", keep=1) == 0
    assert other.restore(snapshot_id=good.snapshot_id) == {"n": "good"}
    assert len(other.plan_prune(label="default", keep=1).unread) == 3


def test_delete_snapshot(open_memory, vault):
    mem = open_memory(vault)
    infos = [mem.backup({"n": str(n)}) for n in range(3)]
    mem.delete_snapshot(label="default", snapshot_id=infos[1].snapshot_id)
    assert [info.byte_size for info in mem.list_snapshots()] == [9, 9]
    mem.delete_snapshot(label="default", snapshot_id=infos[2].snapshot_id)
    assert mem.restore() == {"n": "0"}
    assert mem.latest().snapshot_id == infos[0].snapshot_id
    mem.delete_snapshot(label="default", snapshot_id=infos[0].snapshot_id)
    assert set(vault.files) == {"cmem.default.latest.json"}
    assert mem.restore(default=None) is mem.latest() is None
    assert mem.list_snapshots() == []
    with pytest.raises(SnapshotNotFound):
        mem.delete_snapshot(label="default", snapshot_id=infos[0].snapshot_id)


def test_prune_says_what_was_not_deleted(open_memory, vault):
    faulty = FaultyVault(vault)
    mem = open_memory(faulty)
    infos = [mem.backup({"n": str(n)}) for n in range(4)]
    stuck = f"cmem.default.{infos[1].snapshot_id}.manifest.json"
    faulty.fail("delete", VaultUnavailable("down", status=500), match=stuck)
    with pytest.raises(PruneIncomplete) as caught:
        mem.prune(label="default", keep=1)
    assert caught.value.deleted == 2
    assert caught.value.failed == (stuck, stuck.replace("manifest", "p0"))
    assert mem.restore(snapshot_id=infos[1].snapshot_id) == {"n": "1"}
    faulty.heal()
    # A pointer that has forgotten it already knows no more of it than of a backup under way: then it goes in an hour.
    first = mem.prune(label="default", keep=1)
    later(mem, vault)
    mem.backup({"n": "later"})
    assert first + mem.prune(label="default", keep=1) == 2


def test_prune_does_not_wait_for_a_vault_that_is_gone(open_memory, vault):
    faulty = FaultyVault(vault)
    mem = open_memory(faulty)
    for n in range(5):
        mem.backup({"n": str(n)})
    faulty.fail("delete", ConnectionError("reset"))
    faulty.fail("get", ConnectionError("reset"), match=".manifest.", skip=5)
    before = sum(verb == "delete" for verb, _ in faulty.calls)
    with pytest.raises(PruneIncomplete) as caught:
        mem.prune(label="default", keep=1)
    assert caught.value.deleted == 0
    assert len(caught.value.failed) == 8
    assert sum(verb == "delete" for verb, _ in faulty.calls) == before + 1


def test_a_cut_listing_prunes_nothing(open_memory, vault):
    faulty = FaultyVault(vault)
    mem = open_memory(faulty)
    infos = [mem.backup({"n": str(n)}) for n in range(3)]
    before = dict(vault.files)
    faulty.lie("list", lambda reply: {**reply, "has_more": True})
    for call in (
        lambda: mem.prune(label="default", keep=1),
        lambda: mem.delete_snapshot(label="default", snapshot_id=infos[2].snapshot_id),
        mem.verify,
    ):
        with pytest.raises(VaultError, match="cut"):
            call()
    assert vault.files == before
    with pytest.warns(ColonyMemoryWarning, match="cut"):
        mem.list_snapshots()
    with pytest.warns(ColonyMemoryWarning, match="nothing is removed"):
        mem.backup({"n": "new"}, prune_keep=1)
    del vault.files["cmem.default.latest.json"]
    with pytest.raises(VaultError, match="cut"):
        open_memory(faulty).restore(default={})
    faulty.heal()
    assert len(mem.list_snapshots()) == 4


class Restless:
    """Another client that saves, keeping one snapshot, whenever a manifest is about to be read."""

    def __init__(self, vault, rounds):
        self.vault, self.rounds = vault, rounds
        self.save()

    def save(self):
        memory = ColonyMemory(backend=self.vault)
        memory.backup({"n": f"{self.rounds} to go"})
        memory.prune(label="default", keep=1)

    def __call__(self):
        if self.rounds:
            self.rounds -= 1
            self.save()


def test_a_label_that_never_holds_still_is_not_reported_as_empty(open_memory, vault):
    faulty = FaultyVault(vault)
    faulty.hook("get", Restless(vault, 99), match=".manifest.", times=None)
    with pytest.raises(VaultError, match="try again"):
        open_memory(faulty).restore(default={})


def test_a_prune_in_between_is_no_conflict(open_memory, vault):
    faulty = FaultyVault(vault)
    mem, other = open_memory(faulty), ColonyMemory(backend=vault)
    for n in range(3):
        mem.backup({"n": str(n)})
    faulty.hook("upload", lambda: other.prune(label="default", keep=1), match=".manifest.")
    assert mem.backup({"n": "mine"}).head
    assert mem.restore() == {"n": "mine"}


def test_a_signing_client_does_not_reuse_what_only_claims_its_signature():
    pytest.importorskip("cryptography")
    from colony_memory import Ed25519Signer

    vault = FakeVault(operations_per_hour=None)
    signer = Ed25519Signer(bytes(range(32)))
    info = ColonyMemory(backend=vault, signer=signer).backup(DOCS)
    name = f"cmem.default.{info.snapshot_id}.manifest.json"
    manifest = json.loads(vault.files[name])
    del manifest["signature"]
    vault.files[name] = json.dumps(manifest)
    mem = ColonyMemory(backend=vault, signer=signer)
    assert not mem.backup(DOCS).reused
    # Where nobody signed the pointer, a manifest of the same size is read too.
    manifest["signature"] = {"alg": "ed25519", "key_id": signer.did_key, "sig": "A" * 86}
    vault.files[name] = json.dumps(manifest)
    pointer = json.loads(vault.files["cmem.default.latest.json"])
    pointer.update(snapshot_id=info.snapshot_id, manifest_file=name)
    del pointer["signature"]
    vault.files["cmem.default.latest.json"] = json.dumps(pointer)
    with pytest.warns(ColonyMemoryWarning, match="saved anew.*does not verify"):
        assert not ColonyMemory(backend=vault).backup(DOCS, signer=signer).reused


def test_verify_tells_facts_apart(open_memory, vault, small_parts):
    mem = open_memory(vault)
    good, lost, altered, garbled, swapped = (
        mem.backup({"n": "long enough for some parts" * 9 + str(n)}) for n in range(5)
    )
    assert mem.verify()
    assert mem.verify().latest == swapped.snapshot_id
    name = "cmem.default.{}.{}.json".format
    del vault.files[name(lost.snapshot_id, "p1")]
    part = vault.files[name(altered.snapshot_id, "p0")]
    vault.files[name(altered.snapshot_id, "p0")] = part[:-3] + ("A" if part[-3] != "A" else "B") + part[-2:]
    vault.files[name(garbled.snapshot_id, "manifest")] = "[]"
    vault.files[name(swapped.snapshot_id, "p0")] = vault.files[name(swapped.snapshot_id, "p1")]
    report = open_memory(vault).verify()
    facts = {
        check.snapshot_id: (check.manifest, check.parts, check.digest, check.signature) for check in report.snapshots
    }
    assert facts == {
        good.snapshot_id: ("ok", "ok", "ok", "missing"),
        lost.snapshot_id: ("ok", "missing", "unchecked", "missing"),
        altered.snapshot_id: ("ok", "ok", "bad", "missing"),
        garbled.snapshot_id: ("bad", "unchecked", "unchecked", "unchecked"),
        swapped.snapshot_id: ("ok", "bad", "unchecked", "missing"),
    }
    assert [bool(check) for check in report.snapshots] == [False, False, False, False, True]
    assert not report
    assert all(check.problem for check in report.snapshots if not check)
    with pytest.raises(SnapshotNotFound):
        mem.verify(snapshot_id="20200101T000000000000Z-abcdef")


def test_inspect_maps_the_vault(open_memory, vault):
    mem = open_memory(vault)
    assert mem.inspect().available_bytes is None
    for n in range(2):
        mem.backup({"n": str(n)}, label="work")
    last = mem.backup({"n": "home"}, label="home")
    vault.files["diary.md"] = "mine"
    vault.files["cmem.work.20200101T000000000000Z-abcdef.p0.json"] = "left over"
    found = mem.inspect()
    assert found
    assert [(each.label, each.snapshots, len(each.orphans)) for each in found.labels] == [
        ("home", 1, 0),
        ("work", 2, 1),
    ]
    assert found.foreign_files == 1
    assert found.files == len(vault.files)
    assert found.used_bytes + found.available_bytes == found.quota_bytes
    home = found.labels[0]
    assert home.newest.snapshot_id == home.oldest.snapshot_id == home.latest == last.snapshot_id
    assert home.stored_bytes == home.next_bytes == last.stored_bytes
    assert home.next_operations == 3
    del vault.files["cmem.home.latest.json"]
    assert not mem.inspect()
    assert mem.inspect().labels[0].dangling


def test_status_and_progenly(open_memory, vault):
    mem = open_memory(vault)
    assert mem.status() == {"quota_bytes": 0, "used_bytes": 0, "available_bytes": 0, "file_count": 0}
    mem.backup(DOCS)
    assert mem.status()["file_count"] == 3
    assert mem.to_progenly_export(DOCS) == {"memory": DOCS, "memory_format": colony_memory.FORMAT}
    with pytest.raises(ValueError, match="mapping"):
        mem.to_progenly_export({})


def test_what_fits_goes_by_the_room_that_a_backup_goes_by(open_memory):
    class Tight(FakeVault):
        vault_free_bytes = lambda self: self.free  # noqa: E731

    Tight.free, mem = None, open_memory(Tight(), format=1)
    need = mem.backup(DOCS).stored_bytes
    for Tight.free, fits in ((2 * need, 1), (need - 1, 0)):
        assert mem.inspect().labels[0].fits == mem.status(label="default")["fits"] == fits
    with pytest.raises(QuotaExceeded):
        mem.backup({**DOCS, "more": "text"})


def test_no_vault_names_the_choices():
    for make in (ColonyMemory, AsyncColonyMemory):
        with pytest.raises(ColonyMemoryError, match=r"COLONY_API_KEY, .*; try ColonyMemory\(api_key="):
            make()
        with pytest.raises(ValueError, match="vault_status"):
            make(backend=object())
    with pytest.raises(ValueError, match="AsyncColonyMemory"):
        ColonyMemory(backend=AsyncFakeVault(FakeVault()))


def test_the_async_client_closes_only_what_it_opened(monkeypatch):
    pytest.importorskip("httpx")
    monkeypatch.setenv("COLONY_API_KEY", "col_test")

    async def use():
        async with AsyncColonyMemory() as mem:
            assert isinstance(mem, AsyncColonyMemory)
        async with AsyncColonyMemory(backend=AsyncFakeVault(FakeVault())) as mem:
            await mem.backup(DOCS)

    asyncio.run(use())


@pytest.mark.parametrize("wire", [1, pytest.param(2, marks=pytest.mark.skipif(not is_installed(), reason="no zstd"))])
def test_a_prune_is_offered_where_it_can_help(wire):
    vault = FakeVault(quota_bytes=3_000_000)
    memory = ColonyMemory(backend=vault, format=wire)
    memory.backup({"a": "x"}, label="other")  # from when on the vault has its quota
    noise = {name: "".join(random.Random(name).choices(string.printable, k=900_000)) for name in "abc"}
    with pytest.raises(QuotaExceeded, match="does not fit") as caught:
        memory.backup(noise)
    assert caught.value.hint is None  # nothing is there to prune
    memory.backup({"a": noise["a"]})
    memory.backup({"a": noise["b"]})
    for documents, helps in (({"c": noise["c"]}, True), (noise, False)):
        with pytest.raises(QuotaExceeded, match="does not fit") as caught:
            memory.backup(documents)
        assert caught.value.hint == (
            Hint("prune", "keep", 1, "default") if helps else None
        )  # a larger number would not
    with pytest.raises(QuotaExceeded, match="does not fit") as caught:
        memory.backup(noise, prune_keep=1)
    assert caught.value.hint is None


def test_the_loop_of_asyncio_is_needed_and_said():
    async def call():
        await AsyncColonyMemory(backend=AsyncFakeVault()).backup({"a.md": "x"})

    coroutine = call()
    with pytest.raises(ColonyMemoryError, match="needs the event loop of asyncio"):
        coroutine.send(None)  # as another loop does it
