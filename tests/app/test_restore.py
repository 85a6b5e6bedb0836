"""A snapshot into a folder, without a command line."""

from __future__ import annotations

import asyncio
import os
from datetime import datetime, timedelta, timezone

import pytest
from snapshots import damage

from colony_memory import ColonyMemory, ColonyMemoryError, SnapshotCorrupt, SnapshotNotFound, restore_folder
from colony_memory.app.restore import fetch
from colony_memory.capture import read_folder
from colony_memory.vaults.local import LocalVault
from colony_memory.vaults.memory import MemoryVault

NOON = datetime(2026, 11, 1, 12, 0, 0, 300_000, tzinfo=timezone.utc)
OLD, NEW = {"MEMORY.md": "one year", "notes/a.md": "a"}, {"MEMORY.md": "two years", "notes/b.md": "b"}


@pytest.fixture
def memory():
    return ColonyMemory(backend=MemoryVault())


@pytest.fixture
def infos(memory):
    """A snapshot of a day before noon, and one of noon."""
    made = []
    for documents, moment in ((OLD, NOON - timedelta(days=1)), (NEW, NOON)):
        memory._session.now = lambda moment=moment: moment
        made.append(memory.backup(documents))
    memory._session.now = lambda: datetime.now(timezone.utc)
    return made


def texts(path):
    return {each.relative_to(path).as_posix(): each.read_text() for each in path.rglob("*") if each.is_file()}


def test_the_latest_by_default(memory, infos, tmp_path):
    seen = []
    restored = restore_folder(memory, tmp_path / "out", on_progress=lambda *told: seen.append(told[:2]))
    assert restored
    assert restored.info.snapshot_id == infos[1].snapshot_id
    assert restored.written.created == ("MEMORY.md", "notes/b.md")
    assert (restored.before, seen) == (None, [(1, 2), (2, 2)])
    assert texts(tmp_path / "out") == NEW


@pytest.mark.parametrize(
    "choice",
    [
        {"snapshot": "latest~1"},
        {"snapshot": "20261031"},
        {"at": NOON - timedelta(seconds=1)},
        {"at": "2026-11-01T11:59Z"},
    ],
)
def test_another_by_any_name(memory, infos, tmp_path, choice):
    assert restore_folder(memory, tmp_path / "out", **choice).info.snapshot_id == infos[0].snapshot_id
    assert texts(tmp_path / "out") == OLD


@pytest.mark.parametrize(
    ("choice", "error", "says"),
    [
        ({"snapshot": "../x"}, ValueError, "names no snapshot"),
        ({"snapshot": "2026"}, ValueError, "the beginning of 2 ids"),
        ({"snapshot": "1999"}, SnapshotNotFound, "no snapshot has an id that begins with '1999' under label"),
        ({"snapshot": "latest~2"}, SnapshotNotFound, "further back"),
        ({"snapshot": "latest", "at": NOON}, ValueError, "give one of them"),
        ({"at": NOON - timedelta(days=9)}, SnapshotNotFound, "its oldest is"),
        ({"at": NOON.replace(tzinfo=None)}, ValueError, "time zone"),
        ({"at": "noon"}, ValueError, "is not a time"),
        ({"label": "none"}, SnapshotNotFound, "nothing is saved yet under label 'none'"),
        ({"label": "none", "at": NOON}, SnapshotNotFound, "nothing is saved yet under label 'none'"),
        ({"only": "*.txt"}, ValueError, "nothing in the snapshot matches"),
        ({"only": "*.md", "delete": True}, ValueError, "give one of them"),
    ],
)
def test_what_is_not_restored(memory, infos, tmp_path, choice, error, says):
    with pytest.raises(error, match=says):
        restore_folder(memory, tmp_path / "out", **choice)
    assert not (tmp_path / "out").exists()


def test_a_snapshot_of_another_label_is_pointed_to(memory, infos, tmp_path):
    with pytest.raises(SnapshotNotFound, match="there is one under 'default': give that label"):
        restore_folder(memory, tmp_path / "out", label="other", snapshot=infos[0].snapshot_id[:-2])


def test_a_part_of_it(memory, infos, tmp_path):
    restore_folder(memory, tmp_path / "one", only="notes/*")
    assert texts(tmp_path / "one") == {"notes/b.md": "b"}
    restore_folder(memory, tmp_path / "two", only=["notes/*", "MEM*"])
    assert texts(tmp_path / "two") == NEW


def test_what_is_saved_nowhere_stops_it_and_a_dry_run_tells(memory, infos, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "MEMORY.md").write_text("three years")
    plan = restore_folder(memory, out, dry_run=True)
    assert not plan
    assert (plan.written.unsaved, plan.written.created, plan.before) == (("MEMORY.md",), ("notes/b.md",), None)
    assert plan.written.why == {"MEMORY.md": "saved nowhere"}
    assert restore_folder(memory, out, dry_run=True, snapshot_first=True).written.replaced == ("MEMORY.md",)
    with pytest.raises(ColonyMemoryError, match=r"MEMORY\.md.*snapshot_first=True"):
        restore_folder(memory, out)
    assert texts(out) == {"MEMORY.md": "three years"}
    assert len(memory.list_snapshots()) == 2
    assert restore_folder(memory, out, force=True).written.replaced == ("MEMORY.md",)
    assert texts(out) == NEW


def test_what_is_here_is_saved_first(memory, infos, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "MEMORY.md").write_text("three years")
    (out / "more.md").write_text("more")
    held = read_folder(out, attributes=True).documents
    restored = restore_folder(memory, out, delete=True, snapshot_first=True)
    assert texts(out) == NEW
    assert restored.written.removed == ("more.md",)
    assert memory.restore(label=restored.before.info.label) == held
    assert restored.before.info.label == "default-before-restore"


def test_a_folder_that_holds_the_vault_is_not_emptied_around_it(tmp_path):
    memory = ColonyMemory(backend=LocalVault(tmp_path / "here" / "vault", create=True))
    memory.backup(NEW)
    for options in ({"delete": True}, {"snapshot_first": True}):
        with pytest.raises(ValueError, match="is inside"):
            restore_folder(memory, tmp_path / "here", **options)
    assert restore_folder(memory, tmp_path / "here")
    assert memory.restore() == NEW


def test_a_damaged_one_falls_back_on_demand(tmp_path):
    vault = LocalVault(tmp_path / "vault", create=True)
    memory = ColonyMemory(backend=vault)
    good = memory.backup({"a.md": "good" * 99})
    bad = memory.backup({"a.md": "bad" * 99})
    damage(vault, bad)
    with pytest.raises(SnapshotCorrupt):
        restore_folder(memory, tmp_path / "out")
    assert not os.path.lexists(tmp_path / "out")
    with pytest.warns(UserWarning, match=bad.snapshot_id):
        restored = restore_folder(memory, tmp_path / "out", fallback=True)
    assert restored.info.snapshot_id == good.snapshot_id
    assert texts(tmp_path / "out") == {"a.md": "good" * 99}


def test_in_an_event_loop_it_goes_to_a_thread(memory, infos, tmp_path):
    assert asyncio.run(asyncio.to_thread(restore_folder, memory, tmp_path / "out"))
    assert texts(tmp_path / "out") == NEW


def test_what_is_fetched_has_its_summary(memory, infos):
    found = fetch(memory)
    assert (found.info.snapshot_id, found.documents) == (infos[1].snapshot_id, NEW)
    assert fetch(memory, snapshot="latest").documents == NEW
    assert fetch(memory, snapshot=infos[0].snapshot_id).documents == OLD
    with pytest.raises(SnapshotNotFound):
        fetch(memory, snapshot="20200101T000000000000Z-abcdef")
