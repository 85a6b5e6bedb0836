"""What is proven of a damaged snapshot and of its neighbours, and what the damage costs."""

import json
import warnings

import age_keys as keys
import needs_age  # noqa: F401 - skips what needs it
import pytest
from chains import growing

from colony_memory import (
    ColonyMemory,
    ColonyMemoryWarning,
    DecryptionError,
    Ed25519Signer,
    SnapshotCorrupt,
    SnapshotNotFound,
    UntrustedSnapshot,
    VaultError,
    VaultUnavailable,
)
from colony_memory._format.names import manifest_filename, pack_filename, part_filename
from colony_memory._format.payload import tree_of
from colony_memory._format.record import RECORD_NAME
from colony_memory._format.v2 import chain as chains
from colony_memory.testing import FakeVault

HISTORY = growing(6)


@pytest.fixture(autouse=True)
def _quiet(monkeypatch):
    monkeypatch.setattr(chains, "_pays", lambda *_: True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColonyMemoryWarning)
        yield


class World:
    def __init__(self, history=HISTORY, *, label="default", **options):
        self.vault = FakeVault(operations_per_hour=None)
        self.options, self.label = {"format": 2, **options}, label
        self.history, self.writer = history, self.client()
        self.ids = [self.writer.backup(each, label=label).snapshot_id for each in history]

    def client(self, **options):
        return ColonyMemory(backend=self.vault, **{**self.options, **options})

    def file(self, n):
        if self.options["format"] == 1:
            return part_filename(self.label, self.ids[n], 0)
        return pack_filename(self.label, self.ids[n], 0)

    def spoil(self, n, old='"data":"', new='"data":"AAAA'):
        text = self.vault.files[self.file(n)]
        self.vault.files[self.file(n)] = text.replace(old, new, 1)
        assert self.vault.files[self.file(n)] != text

    def lose(self, *numbers, manifest=False):
        for n in numbers:
            del self.vault.files[manifest_filename(self.label, self.ids[n]) if manifest else self.file(n)]

    def sources(self, salvaged):
        return {self.ids.index(each) for each in salvaged.sources.values()}

    def salvaged(self, n=-1, **options):
        return self.client(**options).salvage(label=self.label, snapshot_id=self.ids[n])


def test_a_whole_snapshot_is_given_as_it_is():
    world = World()
    salvaged = world.client().salvage()
    assert salvaged
    assert (salvaged.documents, world.sources(salvaged)) == (HISTORY[-1], {5})
    assert (salvaged.damage, salvaged.doc_count) == (None, len(HISTORY[-1]))
    with pytest.raises(SnapshotNotFound):
        world.client().salvage(snapshot_id="20260101T000000000000Z-ffffff")
    with pytest.raises(SnapshotNotFound):
        world.client().salvage(label="other")


@pytest.mark.parametrize("manifests", [True, False])
@pytest.mark.parametrize(("spoilt", "proven"), [(5, 4), (3, 2), (1, 0)])
def test_the_newest_state_below_what_is_damaged(spoilt, proven, manifests):
    world = World()
    world.spoil(spoilt)
    if not manifests:
        world.lose(*range(5), manifest=True)
    salvaged = world.salvaged()
    assert not salvaged
    assert world.file(spoilt) in salvaged.damage
    assert (salvaged.documents, world.sources(salvaged)) == (HISTORY[proven], {proven})
    assert salvaged.missing == ()


@pytest.mark.parametrize(("lost", "proven"), [(5, 3), (3, 1)])
def test_below_a_lost_pack_counts_what_another_pack_names(lost, proven):
    world = World()
    world.lose(*range(5), manifest=True)
    world.lose(lost)
    assert world.sources(world.salvaged()) == {proven}


def test_nothing_below_a_lost_base_or_a_second_pack_is_proven():
    for lost in ((0,), (0, 1), (1,)):
        world = World()
        world.lose(*lost)
        world.lose(*range(5), manifest=True)
        with pytest.raises(SnapshotCorrupt, match="missing pack file"):
            world.salvaged()


def test_a_pack_that_is_as_it_was_written_and_does_not_unpack(monkeypatch):
    """What is below it counts."""
    world = World()
    world.spoil(5)
    world.lose(*range(5), manifest=True)
    real = chains.decompress
    seen = []

    def fails_once_there_are_four(frame, prefix, *, at_most):
        seen.append(frame)
        if len(seen) == 4:
            raise ValueError("it is damaged")
        return real(frame, prefix, at_most=at_most)

    monkeypatch.setattr(chains, "decompress", fails_once_there_are_four)
    salvaged = world.salvaged()
    assert world.sources(salvaged) == {2}
    assert salvaged.documents == HISTORY[2]


def test_neighbours_after_it_count_where_none_is_before_it():
    world = World()
    newest = world.client(format=1).backup({"MEMORY.md": "of format 1"})
    world.spoil(0)
    salvaged = world.salvaged()
    assert {*salvaged.sources.values()} == {newest.snapshot_id}
    assert salvaged.documents == {"MEMORY.md": "of format 1"}


def test_another_snapshot_of_the_same_memory_proves_all_of_it():
    world = World([*HISTORY[:3], HISTORY[0]], format=1)
    world.lose(3)
    salvaged = world.salvaged()
    assert salvaged
    assert (salvaged.documents, world.sources(salvaged)) == (HISTORY[0], {3})
    assert salvaged.damage is not None


def test_in_format_1_names_are_known_and_texts_come_from_neighbours():
    history = [
        {"a.md": "a0", "gone.md": "was there", "far.md": "far0"},
        {"a.md": "a1", "gone.md": "still there"},
        {"a.md": "a2", "new.md": "never saved again", "far.md": "far2"},
        {"a.md": "a3", "later.md": "x"},
    ]
    world = World(history, format=1)
    world.lose(2)
    salvaged = world.salvaged(2)
    assert salvaged.documents == {"a.md": "a1", "far.md": "far0"}
    assert [world.ids.index(salvaged.sources[name]) for name in ("a.md", "far.md")] == [1, 0]
    assert salvaged.missing == ("new.md",)
    assert not salvaged
    assert salvaged.doc_count == 3


def test_a_composition_that_has_the_tree_of_the_snapshot_is_the_snapshot():
    history = [{"a.md": "a", "b.md": "b0"}, {"a.md": "a"}, {"a.md": "a", "b.md": "b0", "c.md": "c"}, {"c.md": "c"}]
    world = World(history, format=1)
    world.lose(2)
    salvaged = world.salvaged(2)
    assert salvaged
    assert salvaged.documents == history[2]
    assert (
        tree_of(salvaged.documents) == json.loads(world.vault.files[manifest_filename("default", world.ids[2])])["tree"]
    )


def test_the_record_of_a_folder_contradicts_no_document():
    record = '{"empty_dirs":[],"executable":[],"files":{"x":"AAEC","y":"AAEC"},"format":"colony-memory/folder/1"}'
    history = [{"x": "a text"}, {"a.md": "a", RECORD_NAME: record}, {"a.md": "b", "x": "text", RECORD_NAME: record}]
    world = World(history, format=1)
    world.lose(2)
    salvaged = world.salvaged()
    assert salvaged.documents["x"] == "a text"
    assert json.loads(salvaged.documents[RECORD_NAME])["files"] == {"y": "AAEC"}


def test_all_is_damaged():
    for options in ({"format": 1}, {"format": 2}):
        world = World(**options)
        world.lose(*range(6))
        with pytest.raises(SnapshotCorrupt):
            world.salvaged()
        for name in [*world.vault.files]:
            world.vault.files[name] = "\0"
        with pytest.raises(SnapshotCorrupt):
            world.salvaged()
        with pytest.raises(SnapshotCorrupt):
            world.client().salvage()


def test_a_damaged_manifest_leaves_its_neighbours():
    world = World()
    world.vault.files[manifest_filename("default", world.ids[5])] = "{"
    salvaged = world.client().salvage()
    assert (salvaged.documents, world.sources(salvaged)) == (HISTORY[4], {4})
    assert (salvaged.snapshot_id, salvaged.doc_count) == (world.ids[5], None)


# --- attacks


def test_with_a_pinned_signer_only_what_is_signed_is_proven():
    """Who holds the vault makes a pack that names what it likes."""
    world = World(signer=Ed25519Signer.generate())
    world.spoil(5)
    world.lose(*range(5), manifest=True)
    # The damaged pack names the one below it, which is whole; nobody signed that.
    with pytest.raises((SnapshotCorrupt, UntrustedSnapshot)):
        world.salvaged()
    assert world.sources(ColonyMemory(backend=world.vault).salvage(snapshot_id=world.ids[5])) == {4}


def test_with_a_pinned_signer_strangers_add_nothing():
    signer = Ed25519Signer.generate()
    world = World(HISTORY[:3], signer=signer)
    world.spoil(2)
    forger = ColonyMemory(backend=world.vault, format=2, signer=Ed25519Signer.generate(), require_signature=False)
    forged = forger.backup({"MEMORY.md": "forged"}, on_conflict="continue")
    pinned = world.client()
    salvaged = pinned.salvage(snapshot_id=world.ids[2])
    assert world.sources(salvaged) == {1}
    assert salvaged.documents == HISTORY[1]
    with pytest.raises((UntrustedSnapshot, SnapshotCorrupt)):
        pinned.salvage()  # the pointer is a stranger's
    # A stranger's manifest under the id of an own one is damage.
    other = json.loads(world.vault.files[manifest_filename("default", forged.snapshot_id)])
    world = World(HISTORY[:3], signer=signer)
    name = manifest_filename("default", world.ids[2])
    world.vault.files[name] = json.dumps({**json.loads(world.vault.files[name]), "signature": other["signature"]})
    salvaged = world.client().salvage(snapshot_id=world.ids[2])
    assert world.sources(salvaged) == {1}
    assert "signature" in salvaged.damage


def test_a_file_of_another_label_or_snapshot_proves_nothing():
    world = World()
    other = World(growing(6, seed=2), label="other")
    world.vault.files[world.file(5)] = other.vault.files[other.file(5)]
    assert world.sources(world.salvaged()) == {4}
    world.vault.files[world.file(4)] = world.vault.files[world.file(3)]
    assert world.sources(world.salvaged()) == {3}
    name = manifest_filename("default", world.ids[3])
    world.vault.files[name] = other.vault.files[manifest_filename("other", other.ids[3])]
    assert world.sources(world.salvaged()) == {2}


def test_what_is_larger_than_it_may_be_is_not_read():
    world = World()
    world.vault.files[world.file(5)] = "x" * 999_000
    world.lose(*range(4), manifest=True)
    assert world.sources(world.salvaged()) == {4}
    with pytest.raises(SnapshotCorrupt):
        world.salvaged(max_bytes=100)


def test_a_vault_that_fails_is_no_damage():
    world = World()
    world.spoil(5)
    broken, real = VaultUnavailable("no answer"), world.vault.vault_get_file

    def get(name):
        if name == world.file(4):
            raise broken
        return real(name)

    world.vault.vault_get_file = get
    with pytest.raises(VaultError, match="no answer"):
        world.salvaged()
    broken = VaultError("no file", code="UNFIT_FILE")
    assert world.sources(world.salvaged()) == {3}


def test_what_is_encrypted_takes_an_identity():
    world = World(encrypt_to=keys.RECIPIENT, identities=keys.SECRET)
    world.spoil(5)
    assert world.sources(world.salvaged()) == {4}
    with pytest.raises(DecryptionError):
        world.salvaged(identities=None)
    world.lose(*range(5), manifest=True)
    assert world.salvaged().documents == HISTORY[4]
    with pytest.raises(DecryptionError):
        world.salvaged(identities=None)


# --- afterwards


@pytest.mark.parametrize("wire", [1, 2])
def test_the_next_backup_becomes_the_latest_and_builds_on_nothing_that_is_damaged(wire):
    world = World(format=wire)
    world.spoil(5, *(() if wire == 2 else ('"b64": "', '"b64": "AAAA')))
    mem = world.client()
    salvaged = mem.salvage()
    info = mem.backup(salvaged.documents)
    assert not info.reused
    assert world.client().restore() == salvaged.documents
    assert world.client().latest().snapshot_id == info.snapshot_id
    with pytest.raises(SnapshotCorrupt):
        world.writer.restore(snapshot_id=world.ids[5])
    info = world.writer.backup(HISTORY[5], on_conflict="continue")  # who still has the text, and the chain in memory
    assert world.client().restore() == HISTORY[5]
    if wire == 2:
        packs = json.loads(world.vault.files[manifest_filename("default", info.snapshot_id)])["packs"]
        assert world.ids[5] not in packs


# --- what it costs


def test_verify_names_what_may_be_lost():
    history = [
        {"same.md": "s", "a.md": "a0"},
        {"same.md": "s", "a.md": "a1", "new.md": "n"},
        {"same.md": "s", "a.md": "a2"},
        {"same.md": "s", "a.md": "a2"},
    ]
    for options in ({"format": 1}, {"format": 2}):
        world = World(history[:3], **options)
        world.spoil(1, *(() if options["format"] == 2 else ('"b64": "', '"b64": "AAAA')))
        if options["format"] == 2:
            world.spoil(2)
        checks = {check.snapshot_id: check for check in world.client().verify().snapshots}
        costs = checks[world.ids[1]].costs
        assert costs == (("a.md", "new.md") if options["format"] == 1 else ("a.md", "same.md"))
        assert "lost with it may be the text of that time of 'a.md'" in checks[world.ids[1]].problem
        assert checks[world.ids[0]].costs == ()
        alone = world.client().verify(snapshot_id=world.ids[1]).snapshots[0]
        assert alone.costs == costs


def test_verify_names_what_its_own_packs_prove_where_nothing_is_beside_it():
    world = World()
    world.lose(*range(5), manifest=True)
    world.spoil(5)
    assert world.client().verify().snapshots[0].costs == tuple(sorted(HISTORY[4]))


def test_a_damaged_copy_of_what_another_has_whole_costs_nothing():
    world = World([HISTORY[0], HISTORY[1], HISTORY[0]], format=1)
    world.lose(2)
    check = world.client().verify().snapshots[0]
    assert not check
    assert check.costs == ()


def test_without_an_identity_nobody_tells_what_it_costs():
    world = World(encrypt_to=keys.RECIPIENT, identities=keys.SECRET)
    world.spoil(5)
    check = world.client(identities=None).verify().snapshots[0]
    assert check.parts == "bad"
    assert check.costs == ()
