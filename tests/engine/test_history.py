"""``history`` and ``search``: what became of a document, and of a line, by both faces."""

import json
import random
from collections import Counter
from datetime import datetime, timedelta, timezone

import pytest
from faces import FACES, DictWitness, PlainVault, with_zstd

from colony_memory import (
    ColonyMemory,
    ColonyMemoryWarning,
    Ed25519Signer,
    RollbackDetected,
    SnapshotCorrupt,
    VaultError,
    VaultUnavailable,
)
from colony_memory._diff import LINK, File
from colony_memory._engine import history as verbs
from colony_memory.testing import FakeVault, FaultyVault

NOON = datetime(2026, 11, 1, 12, tzinfo=timezone.utc)
STATES = (
    {"a.md": "one\n", "b.md": "tea\n"},
    {"a.md": "one\ntwo\n", "b.md": "tea\n"},
    {"b.md": "tea\ncoffee\n"},
    {"a.md": "two\n", "b.md": "coffee\n"},
    {"a.md": "two\n", "b.md": "coffee\nTea\n"},
)


def fill(vault, states=STATES, *, label="default", **options):
    """One snapshot an hour; their ids, oldest first."""
    memory = ColonyMemory(backend=vault, **options)
    ids = []
    for number, documents in enumerate(states):
        memory._session.now = lambda number=number: NOON + timedelta(hours=number)
        ids.append(memory.backup(documents, label=label, skip_unchanged=False).snapshot_id)
    return ids


def spoil(vault, snapshot_id, *, label="default"):
    name = f"cmem.{label}.{snapshot_id}.p0.json"
    vault.files[name] = vault.files[name].replace("H4sI", "AAAA")


@pytest.fixture
def vault():
    return FakeVault(operations_per_hour=None)


@pytest.fixture(params=FACES)
def face(request):
    return FACES[request.param]


def told(changes):
    return [(each.kind, each.lines and (each.lines.added, each.lines.removed), each.size) for each in changes]


def test_the_changes_of_a_document(face, vault):
    ids = fill(vault)
    changes = face(vault).history("a.md")
    assert told(changes) == [
        ("returned", (1, 0), 4),
        ("removed", (0, 2), 0),
        ("changed", (1, 0), 8),
        ("added", (1, 0), 4),
    ]
    assert [each.snapshot.snapshot_id for each in changes] == [ids[3], ids[2], ids[1], ids[0]]
    assert [each.before and each.before.snapshot_id for each in changes] == [ids[2], ids[1], ids[0], None]
    assert {each.patch for each in changes} == {None}
    assert face(vault).history("none.md") == ()


def test_the_lines_that_have_it(face, vault):
    ids = fill(vault)
    report = face(vault).search("tea")
    assert report
    assert (report.label, report.searched, report.passed_over, report.complete) == ("default", 5, {}, True)
    (match,) = report.matches
    assert (match.name, match.line, match.span, match.number) == ("b.md", "tea", (0, 3), 1)
    assert [each.snapshot_id for each in (match.first, match.last, match.gone)] == [ids[0], ids[2], ids[3]]
    assert (match.snapshots, match.in_latest) == (3, False)
    coffee, tea = face(vault).search("COFFEE|te.$", ignore_case=True, label=" Default ").matches[:2]
    assert (coffee.line, coffee.in_latest, coffee.gone) == ("coffee", True, None)
    assert (tea.line, tea.number) == ("Tea", 2)
    assert not face(vault).search("tea$|^x", fixed=True)


def test_a_line_that_came_back_is_one(vault):
    ids = fill(vault, ({"a": "x\n"}, {"a": "y\n"}, {"a": "y\nx\nx\n"}, {"a": "y\n"}))
    (match,) = ColonyMemory(backend=vault).search("x").matches
    assert (match.first.snapshot_id, match.last.snapshot_id) == (ids[0], ids[2])
    assert (match.gone.snapshot_id, match.snapshots, match.number) == (ids[3], 2, 2)


def test_bad_arguments(face, vault):
    fill(vault)
    memory = face(vault)
    for call in (
        lambda: memory.history(7),
        lambda: memory.history("a.md", label="no/label"),
        lambda: memory.search("["),
        lambda: memory.search(""),
        lambda: memory.search("a", label=7),
    ):
        with pytest.raises(ValueError, match=r"must be|cannot be used|not a regular|empty pattern"):
            call()


# --- what is not believed


def test_a_damaged_one_is_passed_over_and_named(face, vault):
    ids = fill(vault)
    spoil(vault, ids[2])
    with pytest.warns(
        ColonyMemoryWarning, match=f"snapshot {ids[2]} of label 'default' is passed over: the parts"
    ) as caught:
        changes = face(vault).history("a.md")
    assert str(caught[0].message.hint) == f"verify(snapshot_id='{ids[2]}')"
    assert told(changes) == [("changed", (0, 1), 4), ("changed", (1, 0), 8), ("added", (1, 0), 4)]
    with pytest.warns(ColonyMemoryWarning):
        report = face(vault).search("tea")
    assert list(report.passed_over) == [ids[2]]
    assert report.matches[0].last.snapshot_id == ids[1]
    assert report.matches[0].gone.snapshot_id == ids[3]
    assert report.searched == 4


def test_manifests_that_are_none_are_no_empty_vault(vault):
    for each in fill(vault):
        vault.files[f"cmem.default.{each}.manifest.json"] = "{}"
    with pytest.warns(ColonyMemoryWarning), pytest.raises(SnapshotCorrupt):
        ColonyMemory(backend=vault).history("a.md")
    del vault.files["cmem.default.latest.json"]
    with pytest.warns(ColonyMemoryWarning), pytest.raises(SnapshotCorrupt):
        ColonyMemory(backend=vault).history("a.md")


@pytest.fixture
def signers():
    pytest.importorskip("cryptography")
    return Ed25519Signer(bytes(range(32))), Ed25519Signer(bytes(range(1, 33)))


def test_a_forged_one_is_passed_over(face, vault, signers):
    ids = fill(vault, signer=signers[0])
    name = f"cmem.default.{ids[1]}.manifest.json"
    manifest = json.loads(vault.files[name])
    manifest["note"] = "forged"
    vault.files[name] = json.dumps(manifest)
    with pytest.warns(ColonyMemoryWarning, match=f"snapshot {ids[1]} of label 'default' is passed over"):
        changes = face(vault, signer=signers[0]).history("a.md")
    assert ids[1] not in [each.snapshot.snapshot_id for each in changes]
    # Nobody who pins nobody believes a signature that does not verify either.
    with pytest.warns(ColonyMemoryWarning, match=ids[1]):
        assert list(face(vault).search("tea").passed_over) == [ids[1]]


def test_a_label_that_was_set_back_tells_nothing(face, vault, signers):
    signer = signers[0]
    fill(vault, STATES[:3], signer=signer)
    before = dict(vault.files)
    memory = ColonyMemory(backend=vault, signer=signer)
    head = memory.backup(STATES[3]).head
    vault.files.clear()
    vault.files.update(before)

    witness = DictWitness()
    witness.record("default", head)
    memory = face(vault, signer=signer, witness=witness)
    for call in (lambda: memory.history("a.md"), lambda: memory.search("tea")):
        with pytest.raises(RollbackDetected):
            call()


# --- faults


@pytest.mark.parametrize("name", FACES)
def test_an_outage_at_any_call_is_no_answer(name, vault):
    fill(vault)
    counted = FaultyVault(vault)
    FACES[name](counted).history("a.md")
    for call in range(counted.count):
        for run in (lambda memory: memory.history("a.md"), lambda memory: memory.search("nowhere")):
            faulty = FaultyVault(vault)
            faulty.fail("*", OSError, times=None, skip=call)
            with pytest.raises(VaultUnavailable):
                run(FACES[name](faulty))


def test_a_file_that_is_elsewhere_costs_its_own_snapshot_alone(face, vault):
    ids = fill(vault)
    faulty = FaultyVault(vault)
    faulty.fail("get", lambda: VaultUnavailable("in the cloud", code="ELSEWHERE"), match=f"{ids[1]}.p0", times=None)
    with pytest.warns(ColonyMemoryWarning, match=f"snapshot {ids[1]} .* in the cloud"):
        report = face(faulty).search("tea")
    assert (list(report.passed_over), report.searched) == ([ids[1]], 4)


def test_a_list_that_is_cut_is_refused(vault):
    fill(vault)

    class Cut(PlainVault):
        def vault_list_files(self):
            return {"items": self.vault.vault_list_files()["items"], "has_more": True}

    with pytest.raises(VaultError, match=r"searching every snapshot is refused: .* is cut"):
        ColonyMemory(backend=Cut(vault)).search("tea")


# --- what it costs


def test_files_are_asked_for_several_at_once(vault, monkeypatch):
    fill(vault, [{"a": f"{number}\n"} for number in range(30)])
    memory, asked = ColonyMemory(backend=vault), []
    inner = memory._session.vault.gather

    async def gather(names, *args):
        asked.append(list(names))
        return await inner(names, *args)

    monkeypatch.setattr(memory._session.vault, "gather", gather)
    memory.history("a")
    assert [len(names) for names in asked if names] == [24, 24, 12]
    asked.clear()
    monkeypatch.setattr(verbs, "_BATCH_BYTES", 1)
    memory.history("a")
    assert [len(names) for names in asked if names] == [2] * 30


def test_patches_take_no_more_memory_than_there_is_for_them(vault, monkeypatch):
    fill(vault, [{"a": f"{number}\n"} for number in range(5)])
    size = len(ColonyMemory(backend=vault).history("a", patch=True)[0].patch)
    monkeypatch.setattr(verbs, "_PATCHES", 2 * size + 1)
    patches = [each.patch for each in ColonyMemory(backend=vault).history("a", patch=True)]
    assert [patch is not None for patch in patches] == [True, True, False, False, False]


def test_a_search_gives_no_more_lines_than_it_says(vault, monkeypatch):
    monkeypatch.setattr(verbs, "MOST_LINES", 2)
    ids = fill(vault, ({"a": "old\nx3\n"}, {"a": "x1\nx2\nx3\n"}, {"a": "x1\n"}))
    report = ColonyMemory(backend=vault).search("x")
    assert [each.line for each in report.matches] == ["x1", "x2"]
    assert not report.complete
    assert [each.first.snapshot_id for each in report.matches] == [ids[1], ids[1]]


# --- what documents stand for


def test_what_is_no_text_is_told_as_a_whole(vault):
    fill(vault, ({"a": "x\0old"}, {"a": "x\0new\nx"}, {"a": "text\n"}))
    memory = ColonyMemory(backend=vault)
    assert told(memory.history("a")) == [("changed", None, 5), ("changed", None, 7), ("added", None, 5)]
    newest, middle, _ = memory.history("a", patch=True)
    assert newest.patch == middle.patch == "Binary files a/a and b/a differ\n"
    (match,) = memory.search("x").matches[:1]
    binary = [each for each in memory.search("x").matches if each.line is None]
    assert (match.line, len(binary)) == ("text", 1)
    assert (binary[0].span, binary[0].number, binary[0].snapshots) == ((0, 0), 0, 2)


def test_a_view_says_what_the_documents_stand_for(vault):
    fill(vault, ({"a": "1"}, {"a": "2"}))

    def view(documents):
        return {"picture": File(b"\xff tea " + documents["a"].encode()), "link": File("there", LINK)}

    memory = ColonyMemory(backend=vault)
    found = memory._run(verbs.histories, "picture", label="default", patch=False, view=view)
    assert told(found.changes["picture"]) == [("changed", None, 7), ("added", None, 7)]
    every = memory._run(verbs.histories, label="default", patch=False, view=view).changes
    assert (told(every["picture"]), told(every["link"])) == (told(found.changes["picture"]), [("added", (1, 0), 5)])
    assert (found.read, found.passed_over) == (2, {})
    searched = memory._run(verbs.search, "tea 1", label="default", fixed=True, ignore_case=False, view=view)
    (match,) = searched.matches
    assert (match.name, match.line) == ("picture", None)


@with_zstd
@pytest.mark.parametrize(
    "verb", [lambda mem: mem.verify(), lambda mem: mem.search("day"), lambda mem: mem.history("a")]
)
@pytest.mark.parametrize(("max_bytes", "is_room"), [(2**28, True), (38_000, False)])
def test_each_pack_is_read_once_where_there_is_room_for_them(verb, max_bytes, is_room):
    vault, text = FakeVault(operations_per_hour=None), random.Random(1).randbytes(15_000).hex()
    writer = ColonyMemory(backend=vault, format=2)
    for number in range(20):
        text += f"line {number} of the day\n"
        writer.backup({"a": text})
    faulty = FaultyVault(vault)
    verb(ColonyMemory(backend=faulty, max_bytes=max_bytes))
    packs = Counter(name for _, name in faulty.calls if ".k0." in name)
    assert len(packs) == 20
    assert (max(packs.values()) == 1) == is_room
