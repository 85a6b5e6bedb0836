"""A snapshot into a folder, without a command line."""

from datetime import datetime, timedelta, timezone

import pytest
from snapshots import NOON

from colony_memory import ColonyMemory, ColonyMemoryError, SnapshotNotFound, restore_folder
from colony_memory.vaults.local import LocalVault

OLD, NEW = {"MEMORY.md": "one year", "notes/a.md": "a"}, {"MEMORY.md": "two years", "notes/b.md": "b"}


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


@pytest.mark.parametrize(
    ("choice", "error", "says"),
    [
        ({"snapshot": "../x"}, ValueError, "names no snapshot"),
        ({"snapshot": "2026"}, ValueError, r"'2026' is the beginning of 2 ids: 2026\S+, 2026\S+$"),
        ({"snapshot": "1999"}, SnapshotNotFound, "no snapshot has an id that begins with '1999' under label"),
        ({"snapshot": "latest~2"}, SnapshotNotFound, "further back"),
        ({"snapshot": "latest", "at": NOON}, ValueError, "give one of them"),
        ({"at": NOON - timedelta(days=9)}, SnapshotNotFound, "its oldest is .* of 2026-10-31 12:00 UTC"),
        ({"at": NOON.replace(tzinfo=None)}, ValueError, "time zone"),
        ({"at": "noon"}, ValueError, "is not a time"),
        ({"at": 20261101}, ValueError, "time zone"),
        ({"at": "20261101T120000300000Z-000000"}, SnapshotNotFound, "under label 'default'"),
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


def test_a_folder_that_holds_the_vault_is_not_emptied_around_it(tmp_path):
    memory = ColonyMemory(backend=LocalVault(tmp_path / "here" / "vault", create=True))
    memory.backup(NEW)
    for options in ({"delete": True}, {"snapshot_first": True}):
        with pytest.raises(ValueError, match="is inside"):
            restore_folder(memory, tmp_path / "here", **options)
    assert restore_folder(memory, tmp_path / "here")
    assert memory.restore() == NEW
