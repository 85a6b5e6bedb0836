"""What comes of a save, by what its memory is based on, who else wrote and what was asked for, and what is kept."""

import asyncio
import json
import warnings

import pytest
from basis_world import Index
from faces import FACES

from colony_memory import ColonyMemory, ColonyMemoryWarning, ConflictDetected, SnapshotNotFound, open_vault
from colony_memory._engine.backup import backup
from colony_memory._engine.backup.job import Unread
from colony_memory._format.lineage import Lineage
from colony_memory.snapshot import build
from colony_memory.testing import FaultyVault

FIRM = "".join(f"what is known from the beginning, {n}\n" for n in range(20))
SAVING = {"signer": None, "prune_keep": None, "retention": None, "skip_unchanged": True, "on_conflict": "raise"}
BASE, NEW, OTHER = {"m": FIRM}, {"m": FIRM + "ours\n"}, {"m": FIRM + "theirs\n"}


class Folder:
    """A memory with an index: every command is of a new process."""

    def __init__(self, vault, face="sync", origin=None):
        self.vault, self.face, self.index, self.origin = FaultyVault(vault), FACES[face], Index(), origin

    def __getattr__(self, name):
        return getattr(self.client(), name)

    def client(self):
        mem = self.face(self.vault, format=1)
        session = getattr(mem, "memory", mem)._session
        if self.origin is None:
            session.homes["default"] = self.index
        else:
            session.origins["default"] = self.origin  # by value, on a machine of its own
        return mem


@pytest.fixture
def vault():
    return open_vault("memory:")


@pytest.fixture
def theirs(vault):
    return Folder(vault)


def quietly(call, *args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call(*args, **options)


def rows(vault):
    return {info.snapshot_id: info for info in ColonyMemory(backend=vault).list_snapshots()}


def latest(vault):
    return ColonyMemory(backend=vault).latest().snapshot_id


def cancelled(ours, documents, *, after):
    ours.vault.fail("upload", asyncio.CancelledError(), match="latest", times=1, after=after)
    with pytest.raises(asyncio.CancelledError):
        ours.backup(documents)


def refused(ours, theirs):
    ours.restore()
    theirs.restore()
    theirs.backup({"m": FIRM + "first\n"})
    with pytest.raises(ConflictDetected):
        ours.backup({"m": FIRM + "refused\n"})


# What happened to our memory, in a label whose latest is BASE, over BEFORE.
HISTORIES = {
    "nothing": lambda ours, theirs, old: None,
    "restored": lambda ours, theirs, old: ours.restore(),
    "saved": lambda ours, theirs, old: quietly(ours.backup, BASE),
    "reverted": lambda ours, theirs, old: (ours.restore(), ours.restore(snapshot_id=old)),
    "reverted from nothing": lambda ours, theirs, old: ours.restore(snapshot_id=old),
    "a part": lambda ours, theirs, old: ours.restore(names="m"),
    "pending, and live": lambda ours, theirs, old: (ours.restore(), cancelled(ours, {"m": FIRM + "p\n"}, after=True)),
    "pending, and not": lambda ours, theirs, old: (ours.restore(), cancelled(ours, {"m": FIRM + "p\n"}, after=False)),
    "refused": lambda ours, theirs, old: refused(ours, theirs),
}
# What theirs does then.
OTHERS = {
    "nobody": lambda theirs: None,
    "saves": lambda theirs: (quietly(theirs.restore), theirs.backup(OTHER)),
    "saves the same": lambda theirs: (quietly(theirs.restore), theirs.backup(NEW)),
    "deletes": lambda theirs: theirs.delete_snapshot(label="default", snapshot_id=theirs.latest().snapshot_id),
}
# What comes of a save of NEW: it is the latest, is the latest and tells of theirs, a conflict, or nothing to write.
SILENT, TOLD, CONFLICT, SAME = "latest", "told", "conflict", "reused"
TABLE = {
    #                         nobody    saves     same  deletes
    "nothing":               (SILENT,   TOLD,     SAME, TOLD),
    "restored":              (SILENT,   CONFLICT, SAME, SILENT),
    "saved":                 (SILENT,   CONFLICT, SAME, SILENT),
    "reverted":              (SILENT,   CONFLICT, SAME, SILENT),
    "reverted from nothing": (SILENT,   CONFLICT, SAME, SILENT),
    "a part":                (SILENT,   TOLD,     SAME, TOLD),
    "pending, and live":     (SILENT,   CONFLICT, SAME, SILENT),
    "pending, and not":      (SILENT,   CONFLICT, SAME, SILENT),
    "refused":               (CONFLICT, CONFLICT, SAME, SILENT),
}  # fmt: skip


def outcome(ours, documents, on_conflict):
    try:
        info = quietly(ours.backup, documents, on_conflict=on_conflict)
    except ConflictDetected:
        return CONFLICT
    if info.reused:
        return SAME
    return SILENT if info.diverged_from is None else TOLD


@pytest.mark.parametrize("history", HISTORIES)
@pytest.mark.parametrize(("other", "column"), [(other, n) for n, other in enumerate(OTHERS)])
@pytest.mark.parametrize(
    ("face", "on_conflict"), [("sync", "raise"), ("async", "raise"), ("sync", "continue"), ("async", "merge")]
)
def test_what_comes_of_a_save(vault, theirs, face, history, other, column, on_conflict):
    ours = Folder(vault, face)
    old = theirs.backup({"m": FIRM + "before\n"}).snapshot_id
    theirs.backup(BASE)
    HISTORIES[history](ours, theirs, old)
    OTHERS[other](theirs)
    before, there = latest(vault), rows(vault)
    expected = TABLE[history][column]
    if on_conflict != "raise" and expected == CONFLICT:
        expected = TOLD
    assert outcome(ours, NEW, on_conflict) == expected
    after = rows(vault)
    if expected == CONFLICT:
        (mine,) = after.keys() - there.keys()
        assert after[mine].refused
        assert latest(vault) == before
    elif expected == TOLD:
        text = "".join(ColonyMemory(backend=vault).restore().values())
        assert "ours\n" in text
        assert any(f"{line}\n" in text for line in ("theirs", "first", "before")) == (on_conflict == "merge")
        assert before in after
    # What was the latest is still there, and in the latest or kept for whoever merges it.
    assert before in after or expected == SILENT
    if expected != CONFLICT and on_conflict != "merge":
        assert outcome(ours, {"m": f"{NEW['m']}more\n"}, "raise") == SILENT


@pytest.mark.parametrize("on_conflict", ["raise", "continue", "merge"])
@pytest.mark.parametrize("history", ["restored", "saved", "pending, and live"])
def test_where_nothing_is_new_nothing_is_written(vault, theirs, history, on_conflict):
    ours = Folder(vault)
    old = theirs.backup({"m": FIRM + "before\n"}).snapshot_id
    theirs.backup(BASE)
    HISTORIES[history](ours, theirs, old)
    mine = ColonyMemory(backend=vault).restore()
    OTHERS["saves"](theirs)
    there = rows(vault)
    info = ours.backup(mine, on_conflict=on_conflict, prune_keep=1)
    assert (info.reused, info.diverged_from) == (True, latest(vault))
    assert rows(vault) == there
    # Nor does that settle anything.
    assert outcome(ours, NEW, "raise") == CONFLICT


def test_a_refused_save_that_the_latest_is_based_on_is_saved(vault, theirs):
    ours, mine = Folder(vault), {"m": FIRM + "refused\n"}
    theirs.backup(BASE)
    refused(ours, theirs)
    with pytest.raises(ConflictDetected):
        ours.backup(mine)
    joined = quietly(ours.backup, mine, on_conflict="merge").snapshot_id
    theirs.restore()
    for _ in range(2):  # the merged one is the latest, then another one that goes on from it
        there = rows(vault)
        info = ours.backup(mine)
        assert (info.reused, info.snapshot_id in there[joined].based_on) == (True, True)
        assert (info.diverged_from, rows(vault)) == (latest(vault), there)
        theirs.backup({"m": FIRM + "on\n"})
    assert outcome(ours, NEW, "raise") == CONFLICT
    (part,) = [name for name in vault.files if f".{latest(vault)}.p" in name]
    vault.files[part] = "{}"
    with pytest.raises(ConflictDetected):  # what cannot be restored holds nothing of ours
        ours.backup(mine)
    assert quietly(ours.backup, mine, on_conflict="continue").head
    assert ours.restore() == mine


def test_a_folder_that_is_as_it_was_is_not_even_read(vault, theirs):
    ours = Folder(vault)
    ours.backup(BASE)
    OTHERS["saves"](theirs)
    mem, never = ours.client(), Unread(ours.index.read().tree, lambda: pytest.fail("it was read"))
    info = mem._run(backup, never, label="default", **SAVING)
    assert (info.reused, info.diverged_from) == (True, latest(vault))
    read = Unread("sha256:" + "0" * 64, lambda: (NEW, ()))
    with pytest.raises(ConflictDetected):
        mem._run(backup, read, label="default", **SAVING)


def test_falling_back_gives_nothing_newer_and_the_next_save_is_the_latest(vault):
    ours = Folder(vault)
    ids = [ours.backup({"m": FIRM + str(n)}).snapshot_id for n in range(4)]
    for own in ids[2:]:
        (part,) = [f["filename"] for f in vault.vault_list_files()["items"] if f".{own}.p" in f["filename"]]
        vault.vault_upload_file(part, "{}")
    assert quietly(ours.restore, snapshot_id=ids[2], fallback=True) == {"m": FIRM + "1"}
    assert quietly(ours.restore, fallback=True) == {"m": FIRM + "1"}
    assert ours.backup({"m": FIRM + "on"}).head


# --- without a basis


def test_by_value_a_host_is_one_writer_and_another_is_told(vault):
    one, other = Folder(vault, origin="1" * 16), Folder(vault, origin="2" * 16)
    for n in range(5):
        assert one.backup({"m": FIRM + str(n)}, prune_keep=2).diverged_from is None
    assert len(rows(vault)) == 2
    mine = latest(vault)
    with pytest.warns(ColonyMemoryWarning, match="text that this memory lacks") as told:
        info = other.backup({"n": FIRM}, prune_keep=1)
    assert info.diverged_from == mine
    assert told[0].message.hint.action == "merge"
    assert mine in rows(vault)
    # What has all of its text goes on from it.
    info = other.backup({"n": FIRM, "m": FIRM + "4"}, prune_keep=1)
    assert info.diverged_from is None
    assert one.backup({"n": FIRM, "m": FIRM + "4\nmore"}, prune_keep=1).diverged_from is None


def test_of_what_is_overtaken_without_a_basis_the_newest_three_stay(vault):
    hosts = [Folder(vault, origin=f"{n:016x}") for n in range(6)]
    ids = [quietly(host.backup, {"m": FIRM + str(n)}, prune_keep=1).snapshot_id for n, host in enumerate(hosts)]
    assert sorted(rows(vault)) == ids[-4:]


def test_a_conflict_by_value_is_merged_from_a_fresh_process(vault):
    first = Folder(vault, origin="1" * 16)
    first.backup(BASE)
    agent = FACES["sync"](vault, format=1)
    agent._session.origins["default"] = "1" * 16
    memory = agent.restore()
    Folder(vault, origin="1" * 16).backup({**BASE, "theirs.md": "x"})
    with pytest.raises(ConflictDetected) as caught:
        agent.backup({**memory, "ours.md": "y"})
    assert str(caught.value.hint) == "backup(on_conflict='merge')"
    info = first.backup({**memory, "ours.md": "y"}, on_conflict="merge")
    assert info.based_on == tuple(sorted((caught.value.theirs, caught.value.snapshot_id)))
    assert ColonyMemory(backend=vault).restore() == {**BASE, "theirs.md": "x", "ours.md": "y"}


# --- what is unmerged


def test_what_met_a_conflict_is_kept_until_something_goes_on_from_it(vault, theirs):
    ours = Folder(vault)
    theirs.backup(BASE)
    refused(ours, theirs)
    (mine,) = [own for own, info in rows(vault).items() if info.refused]
    for n in range(4):
        theirs.backup({"m": FIRM + f"on {n}\n"}, prune_keep=1)
    assert set(rows(vault)) == {mine, latest(vault)}
    plan = theirs.plan_prune(keep=1)
    assert plan.reasons[mine] == ("before-divergence",)
    assert theirs.prune(keep=0) == 0
    with pytest.warns(ColonyMemoryWarning, match=f"{mine}.*met a conflict") as told:
        memory = ours.restore()
    assert (told[0].message.hint.action, told[0].message.hint.value) == ("merge", mine)
    merged = ours.merge(memory, snapshot_id=mine)
    assert "on 3\n" in merged.documents["m"]
    assert "refused\n" in "".join(merged.documents.values())
    info = ours.backup(merged.documents, prune_keep=1)
    assert mine in info.based_on
    assert set(rows(vault)) == {info.snapshot_id, mine}  # as long as that is the latest
    ours.backup({**merged.documents, "m": merged.documents["m"] + "more\n"}, prune_keep=1)
    assert len(rows(vault)) == 1
    assert ours.index.read().merged == ()


def test_what_met_a_conflict_becomes_no_latest_by_itself(vault, theirs):
    ours = Folder(vault)
    theirs.backup(BASE)
    refused(ours, theirs)
    ids = sorted(rows(vault))
    assert theirs.latest().snapshot_id == ids[-2]
    theirs.delete_snapshot(label="default", snapshot_id=ids[-2])
    assert latest(vault) == ids[0]
    vault.vault_delete_file("cmem.default.latest.json")
    with pytest.warns(ColonyMemoryWarning, match=ids[0]):
        assert theirs.latest().snapshot_id == ids[0]
    quietly(theirs.delete_snapshot, label="default", snapshot_id=ids[0])
    assert latest(vault) == ids[-1]  # there is nothing else


def test_a_pointer_by_an_old_client_forgets_nothing(vault, theirs):
    ours = Folder(vault)
    theirs.backup(BASE)
    refused(ours, theirs)
    (mine,) = [own for own, info in rows(vault).items() if info.refused]
    theirs.backup({"m": FIRM + "later\n"})
    named = latest(vault)
    old = {"format": "colony-memory/latest/1", "label": "default", "snapshot_id": named, "updated_at": "",
           "manifest_file": f"cmem.default.{named}.manifest.json"}  # fmt: skip
    vault.vault_upload_file("cmem.default.latest.json", json.dumps(old))
    theirs.backup({"m": FIRM + "later still\n"}, prune_keep=1)
    assert set(rows(vault)) == {mine, latest(vault)}


def test_what_stands_for_the_basis_is_the_basis(vault, theirs):
    ours = Folder(vault)
    old = ours.backup(BASE).snapshot_id
    new = "2030" + old[4:]
    made = build(OTHER, label="default", snapshot_id=new, created_at="", lineage=Lineage((), rewrites=old))
    for name, text in made.files.items():
        vault.vault_upload_file(name, text)
    for name in (f"cmem.default.{old}.manifest.json", "cmem.default.latest.json"):
        vault.vault_delete_file(name)
    assert quietly(theirs.latest).snapshot_id == new
    assert outcome(ours, NEW, "raise") == SILENT


def test_beside_a_refused_save_that_is_newer_another_host_merges(vault, theirs):
    theirs.backup(BASE)
    refused(Folder(vault), theirs)
    newer = sorted(rows(vault))
    stranger = Folder(vault)
    assert outcome(stranger, {"m": FIRM + "of the stranger\n"}, "merge") == TOLD
    merged = "".join(ColonyMemory(backend=vault).restore().values())
    assert ("first\n" in merged, "of the stranger\n" in merged, "refused\n" in merged) == (True, True, False)
    assert {*newer} <= {*rows(vault)}


def test_a_race_is_a_conflict_of_which_the_row_tells(vault, theirs):
    ours = Folder(vault)
    theirs.backup(BASE)
    ours.restore()
    ours.vault.hook("upload", lambda: theirs.backup(OTHER), match=".manifest.")
    with pytest.raises(ConflictDetected) as caught:
        ours.backup(NEW)
    assert rows(vault)[caught.value.snapshot_id].refused


def test_merging_what_is_not_there_is_an_error(vault, theirs):
    theirs.backup(BASE)
    with pytest.raises(SnapshotNotFound):
        theirs.merge(BASE, snapshot_id="20200101T000000000000Z-aaaaaa")
    with pytest.raises(ValueError, match="non-empty"):
        theirs.merge({}, snapshot_id="20200101T000000000000Z-aaaaaa")
    assert theirs.index.read().merged == ()
