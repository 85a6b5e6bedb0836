"""Whether a vault would give the memory back."""

import random
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from faces import FORMATS
from no_zstd import lose_zstd
from snapshots import NOON, damage, label_map, save, snapshot, vault_map

from colony_memory import ColonyMemory, QuotaExceeded
from colony_memory._format.v2.zstd import is_installed
from colony_memory.exceptions import ConflictDetected
from colony_memory.schedule import last_run
from colony_memory.schedule.last_run import LastRun, RunLog
from colony_memory.shell.app.protection import Newest, assess, check_protection, read_newest
from colony_memory.testing import FakeVault

EMPTY = {"snapshots": 0, "oldest": None, "newest": None, "next_bytes": 0, "latest": None, "dangling": True}
ID = "20261101T130000300000Z-abcdef"
OLD = "cmem.default.20261101T110000300000Z-abcdef.manifest.json"
MANIFEST = f"cmem.default.{ID}.manifest.json"
NEWEST = snapshot().snapshot_id
ACCEPT = [("accept", "default", NEWEST)]


# --- the verdict


@pytest.mark.parametrize(
    ("label", "vault", "state", "problems"),
    [
        ({}, {}, "protected", []),
        ({}, {"complete": False}, "at risk", [("wait", None, None)]),
        ({"dangling": True}, {}, "at risk", [("backup", "default", None)]),
        ({}, {"available_bytes": 299}, "at risk", [("exclude", "default", None)]),
        ({"snapshots": 3}, {"available_bytes": 299}, "at risk", [("prune", "default", None)]),
        ({}, {"available_bytes": None}, "protected", []),
        ({"orphans": ("x",)}, {}, "protected", []),
        ({**EMPTY, "orphans": ("x",)}, {}, "not protected", [("backup", "default", None)] * 2),
        ({"broken": {MANIFEST: "bad"}, "latest": ID}, {}, "at risk", [("replace", "default", ID)]),
        ({"broken": {MANIFEST: "bad"}}, {}, "at risk", [("judge", "default", ID)]),
        ({"broken": {OLD: "bad"}}, {}, "protected", [("judge", "default", OLD[13:42])]),
        ({"broken": {OLD: "x"}, "untrusted": (OLD,)}, {}, "protected", [("judge", "default", OLD[13:42])]),
        ({"broken": {MANIFEST: "x"}, "untrusted": (MANIFEST,)}, {}, "at risk", [("judge", "default", ID)]),
        ({"broken": {f"cmem.default.{NEWEST}.manifest.json": "rolled back"}}, {}, "at risk", ACCEPT),
        ({"latest": None, "broken": {"cmem.default..manifest.json": "rolled back"}}, {}, "at risk", ACCEPT),
        ({**EMPTY, "broken": {"odd": "bad"}}, {}, "not protected", [("backup", "default", None)]),
    ],
)
def test_the_verdict(label, vault, state, problems):
    found, now = vault_map(label_map(**label), **vault), NOON + timedelta(hours=3)
    (of,) = found.labels
    read = Newest(of.newest) if of.newest else None
    verdict, unread = (assess(found, of, now=now, read=each) for each in (read, None))
    assert (unread.state, bool(unread)) == ("saved" if state == "protected" else state, False)
    assert (verdict.state, verdict.stale, bool(verdict)) == (state, state == "not protected", state == "protected")
    assert [(each.mending, each.label, each.snapshot_id) for each in verdict.problems] == problems
    for hours, stale in ((4, state == "not protected"), (2, True)):
        assert assess(found, of, now=now, max_age=timedelta(hours=hours), read=read).stale == stale


def test_reading_goes_back_to_the_newest_that_is_good(vault):
    good = save(vault, {"a.md": "good" * 99})
    bad = [save(vault, {"a.md": f"{n}" * 99}) for n in range(2)]
    memory = ColonyMemory(backend=vault)
    memory.restore()
    base = memory._session.home("default").read()
    for each in bad:
        damage(vault, each)
    (found,) = memory.inspect().labels
    newest = read_newest(memory, found)
    assert newest.good.snapshot_id == good.snapshot_id
    assert set(newest.damaged) == {each.snapshot_id for each in bad}
    assert memory._session.home("default").read() == base
    damage(vault, good)
    assert read_newest(memory, found).good is None
    for file in vault.path.glob("cmem.*manifest*"):
        file.unlink()
    assert "deleted in between" in read_newest(memory, found).damaged[bad[-1].snapshot_id]


# --- all of it


def test_all_labels_are_read_or_the_one(vault):
    save(vault, {"a.md": "x"}, at=NOON)
    damage(vault, save(vault, {"a.md": "y" * 300}, at=NOON, label="other"))
    memory, now = ColonyMemory(backend=vault), NOON + timedelta(hours=1)
    checked = check_protection(memory, now=now)
    assert (bool(checked), checked.verdict.damaged, checked.runs) == (False, True, {})
    assert {each: verdict.state for each, verdict in checked.verdicts.items()} == {
        "default": "protected",
        "other": "not protected",
    }
    assert checked.verdict == checked.verdicts["other"]
    one = check_protection(memory, label="Default", now=now)
    assert (bool(one), one.verdict.damaged, one.verdict.age) == (True, False, now - NOON.replace(microsecond=0))
    assert [each.label for each in one.found.labels] == ["default"]
    quick = check_protection(memory, label="other", quick=True)
    assert (bool(quick), quick.verdict.damaged, quick.verdict.state) == (False, False, "saved")
    assert check_protection(memory, now=now, max_age=timedelta(minutes=30)).verdict.stale
    none = check_protection(memory, label="none")
    assert (none.verdict.label, none.verdict.newest, none.verdict.empty) == ("none", None, True)
    assert none.there == ("default", "other")
    with pytest.raises(ValueError, match="label 'a/b'"):
        check_protection(memory, label="a/b")


def test_a_run_of_watch_on_this_host_counts(vault, monkeypatch):
    info = save(vault, {"a.md": "x"}, at=NOON)
    now = NOON + timedelta(days=3)
    run = LastRun(now - timedelta(hours=1), True, "unchanged", info.snapshot_id, None, 1)
    asked = []

    def read_runs(url, label):
        asked.append((url, label))
        return log if label == "default" else None

    log = RunLog(run, None, 0)
    monkeypatch.setattr(last_run, "read_runs", read_runs)
    options = {"now": now, "max_age": timedelta(days=1)}
    memory = ColonyMemory(backend=vault)
    checked = check_protection(memory, url="the vault", **options)
    assert (bool(checked), checked.runs) == (True, {"default": log})
    assert asked == [("the vault", "default")]
    # Without the vault's name nothing is known of one; nor does a run count that failed, or saved nothing.
    assert not check_protection(memory, **options)
    assert len(asked) == 1
    failed = replace(run, ok=False, snapshot_id=None)
    for noted in (RunLog(None, failed, 1), RunLog(replace(run, snapshot_id=None), None, 0)):
        log = noted
        assert not check_protection(memory, url="the vault", **options)
    # What failed after it does not undo what it has found.
    log = RunLog(run, failed, 1)
    assert check_protection(memory, url="the vault", **options)
    log = None
    assert check_protection(memory, url="the vault", label="other").runs == {}
    assert asked[-2:] == [("the vault", "other"), ("the vault", "default")]


def test_what_is_listed_and_gone_is_told_until_it_is_forgotten(vault):
    memory = ColonyMemory(backend=vault)
    first = memory.backup({"a": "1"}).snapshot_id
    memory.backup({"a": "2"})
    (vault.path / f"cmem.default.{first}.manifest.json").unlink()
    checked = check_protection(memory)
    (problem,) = checked.verdict.problems
    assert (checked.verdict.state, problem.mending, problem.snapshot_id) == ("at risk", "forget", first)
    assert not memory.verify()
    memory.prune(keep=10**6)
    assert check_protection(memory).verdict.state == "protected"


def meet_a_conflict(other):
    """Store a snapshot, and leave the latest."""
    with pytest.raises(ConflictDetected):
        other.backup({"a": "theirs"})


@pytest.mark.parametrize(
    "meanwhile",
    [lambda other: other.restore() and other.backup({"a": "more"}), lambda other: other.prune(keep=1), meet_a_conflict],
)
def test_what_another_does_while_it_looks_is_nothing_that_is_gone(monkeypatch, meanwhile):
    vault = FakeVault(operations_per_hour=None)
    memory, other = ColonyMemory(backend=vault), ColonyMemory(backend=vault)
    memory.backup({"a": "0"})
    other.restore()
    for n in (1, 2):
        memory.backup({"a": str(n)})
    looked, done = memory._session.vault.list, []

    async def list_and_go_on(*args, **kwargs):
        listing = await looked(*args, **kwargs)
        if not done:
            done.append(True)
            meanwhile(other)
        return listing

    monkeypatch.setattr(memory._session.vault, "list", list_and_go_on)
    assert memory.inspect().labels[0].removed == ()
    assert done


def test_what_this_host_cannot_read_is_not_to_be_saved_over():
    if not is_installed():
        pytest.skip("needs zstd")
    vault = FakeVault()
    older = ColonyMemory(backend=vault, format=1).backup({"a.md": "1"})
    info = ColonyMemory(backend=vault, format=2).backup({"a.md": "2"})
    with lose_zstd():
        checked = check_protection(ColonyMemory(backend=vault))
    assert checked.verdict.state == "at risk"
    assert [(each.mending, each.snapshot_id) for each in checked.verdict.problems] == [("judge", info.snapshot_id)]
    assert checked.verdict.newest.snapshot_id == older.snapshot_id


def test_what_only_a_newer_version_reads_is_not_to_be_saved_over_either(vault):
    save(vault, {"a.md": "older"}, at=NOON)
    info = save(vault, {"a.md": "newest"})
    file = vault.path / f"cmem.default.{info.snapshot_id}.manifest.json"
    file.write_text(file.read_text().replace(info.format, "colony-memory/9"))
    (vault.path / "cmem.default.latest.json").unlink()  # so that its manifest alone tells of it
    problems = check_protection(ColonyMemory(backend=vault)).verdict.problems
    assert [each.mending for each in problems if each.snapshot_id == info.snapshot_id] == ["judge"]


@pytest.mark.parametrize("format_", FORMATS)
def test_what_is_said_comes_true(format_):
    """A vault is filled to the brim; what was said a third of the way is what fitted then, more or less."""
    now = [datetime(2026, 11, 1, tzinfo=timezone.utc)]
    vault = FakeVault(operations_per_hour=None, quota_bytes=50_000)
    memory = ColonyMemory(backend=vault, format=format_)
    memory._session.now = lambda: now[-1]
    rng = random.Random(1)
    text, said, made = " ".join(str(rng.getrandbits(30)) for _ in range(500)), {}, 0
    with pytest.raises(QuotaExceeded):
        while True:
            text += "".join(f" {rng.getrandbits(30)}" for _ in range(5))
            memory.backup({"MEMORY.md": text})
            made += 1
            now.append(now[-1] + timedelta(hours=8))
            said[made] = memory.status(label="default")
    third = said[made // 3]
    left = made - made // 3
    assert (third["restore_points"], third["next_at_most"]) == (made // 3, False)
    assert 0.7 * left < third["fits"] < 1.4 * left
    assert said[made]["fits"] <= 1
    assert memory.inspect().labels[0].fits == said[made]["fits"]
    assert set(memory.status()) == {"quota_bytes", "used_bytes", "available_bytes", "file_count"}
    other = memory.status(label="other")
    facts = ("restore_points", "newest", "encrypted", "before_loss", "unmerged", "unsigned")
    assert [other[each] for each in facts] == [0, None, None, None, [], []]
    answer = memory.status(label="default")
    assert (answer["newest"], answer["encrypted"]) == (memory.latest().snapshot_id, False)


def test_a_save_that_is_gone_was_met_by_a_conflict_all_the_same(monkeypatch):
    monkeypatch.setattr("colony_memory._os.machine.machine_id", lambda: b"of this machine")
    vault = FakeVault(operations_per_hour=None)
    memory, other = ColonyMemory(backend=vault), ColonyMemory(backend=vault)
    memory.backup({"a": "0"})
    other.restore()
    memory.backup({"a": "1"})
    meet_a_conflict(other)
    (refused,) = memory.inspect().labels[0].unmerged
    for file in [each for each in vault.files if refused.snapshot_id in each]:
        del vault.files[file]
    assert check_protection(other).verdict.conflict == memory.latest().snapshot_id
