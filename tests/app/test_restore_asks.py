"""A restore asks of content whether what it displaces is saved: which snapshots count, and what happens meanwhile."""

import contextlib
import os
import shutil
import sqlite3
import warnings
from dataclasses import replace

import pytest
from capture_trees import posix
from cut_off import cut_off

from colony_memory import ColonyMemory, ColonyMemoryError, ConflictDetected, open_vault, restore_folder, save_folder
from colony_memory.capture import _recover
from colony_memory.capture._moves import Moves
from colony_memory.capture._recover import recover
from colony_memory.capture.folder import read_by_index, read_folder
from colony_memory.capture.index import open_index, peek_index
from colony_memory.exceptions import ColonyMemoryWarning

pytestmark = posix


@pytest.fixture(autouse=True)
def state(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def url(tmp_path):
    open_vault(str(tmp_path / "vault"), create=True)
    return str(tmp_path / "vault")


@pytest.fixture
def ours(tmp_path):
    return folder(tmp_path / "ours", **{"a.md": "one\n", "b.md": "b\n"})


def folder(path, **files):
    path.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (path / name).write_text(text)
    return path


def client(url):
    """Another process, as far as a client can tell."""
    return ColonyMemory(backend=open_vault(url))


def saved(url, path, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return save_folder(client(url), path, **options).info.snapshot_id


def texts(path):
    return {each.name: each.read_text() for each in path.iterdir() if each.is_file()}


def basis(url, path):
    vault = client(url)._session.vault.backend.identity()
    return peek_index([path], vault=vault, label="default").read()


def other_host(url, path, text="theirs\n"):
    """What another folder saves: it becomes the latest."""
    restore_folder(client(url), path)
    (path / "a.md").write_text(text)
    return saved(url, path)


def a_part_of_the_snapshot(url, ours, tmp_path):
    saved(url, ours)
    other_host(url, tmp_path / "theirs", "one\ntwo\nthree\n")
    (ours / "a.md").write_text("one\nthree\n")


def the_basis(url, ours, tmp_path):
    saved(url, ours)
    other_host(url, tmp_path / "theirs")


def the_latest(url, ours, tmp_path):
    first = saved(url, ours)
    (ours / "a.md").write_text("two\n")
    saved(url, ours)
    return first


def what_was_restored_last(url, ours, tmp_path):
    first = saved(url, ours)
    (ours / "a.md").write_text("two\n")
    saved(url, ours)
    restore_folder(client(url), ours, snapshot=first)


def a_refused_save(url, ours, tmp_path):
    saved(url, ours)
    other_host(url, tmp_path / "theirs")
    (ours / "a.md").write_text("refused\n")
    with pytest.raises(ConflictDetected):
        save_folder(client(url), ours)


def nothing(url, ours, tmp_path):
    saved(url, ours)
    other_host(url, tmp_path / "theirs")
    (ours / "a.md").write_text("written here, and saved nowhere\n")


def an_older_one_that_nobody_asks(url, ours, tmp_path):
    saved(url, ours)
    for text in ("two\n", "three\n"):
        (ours / "a.md").write_text(text)
        saved(url, ours)
    other_host(url, tmp_path / "theirs")
    (ours / "a.md").write_text("one\n")


def one_that_was_deleted(url, ours, tmp_path):
    first = saved(url, ours)
    other_host(url, tmp_path / "theirs")
    client(url).delete_snapshot(label="default", snapshot_id=first)


ASKED = [
    (a_part_of_the_snapshot, True),
    (the_basis, True),
    (the_latest, True),
    (what_was_restored_last, True),
    (a_refused_save, True),
    (nothing, False),
    (an_older_one_that_nobody_asks, False),
    (one_that_was_deleted, False),
]


@pytest.mark.parametrize("clocks", [0, 10**6])
@pytest.mark.parametrize(("history", "goes"), ASKED, ids=lambda each: getattr(each, "__name__", None))
def test_what_is_displaced_is_in_one_of_a_few_snapshots_or_stays(url, ours, tmp_path, history, goes, clocks):
    snapshot = history(url, ours, tmp_path)
    warnings.simplefilter("ignore", ColonyMemoryWarning)  # that a save is not merged
    for each in ours.iterdir():
        os.utime(each, (clocks, clocks))  # which tells nothing
    before = texts(ours)
    plan = restore_folder(client(url), ours, snapshot=snapshot, dry_run=True)
    assert bool(plan) == goes
    assert texts(ours) == before
    if goes:
        assert restore_folder(client(url), ours, snapshot=snapshot).written.replaced == ("a.md",)
        assert texts(ours) != before
        return
    with pytest.raises(ColonyMemoryError, match=r"'a\.md' in .* would be replaced or removed, and is saved nowhere"):
        restore_folder(client(url), ours, snapshot=snapshot)
    assert texts(ours) == before
    done = restore_folder(client(url), ours, snapshot=snapshot, snapshot_first=True)
    kept = client(url).restore(label="default-before-restore", snapshot_id=done.before.info.snapshot_id)
    assert kept["a.md"] == before["a.md"]


def test_an_index_that_was_planted_gives_nothing_away(url, ours, tmp_path):
    nothing(url, ours, tmp_path)
    vault = client(url)._session.vault.backend.identity()
    with open_index([ours], vault=vault, label="default") as index:
        survey = read_by_index(ours, index).survey
        survey.documents()
        survey.note(index)
        index.write(replace(index.read(), tree=survey.tree))
    with pytest.raises(ColonyMemoryError, match="saved nowhere"):
        restore_folder(client(url), ours)


def test_what_is_written_through_an_open_file_before_it_is_moved_is_asked_for(url, ours, tmp_path, monkeypatch):
    the_basis(url, ours, tmp_path)
    real = Moves.take
    status = (ours / "a.md").stat()

    def late(*args):
        with (ours / "a.md").open("r+") as file:
            file.write("ONE\n")  # of the same size
        os.utime(ours / "a.md", ns=(status.st_atime_ns, status.st_mtime_ns))
        real(*args)

    monkeypatch.setattr(Moves, "take", late)
    with pytest.raises(ColonyMemoryError, match="saved nowhere"):
        restore_folder(client(url), ours)
    assert texts(ours)["a.md"] == "ONE\n"


def test_a_snapshot_that_is_deleted_meanwhile_is_relied_on_no_more(url, ours, tmp_path, monkeypatch):
    the_basis(url, ours, tmp_path)
    first = basis(url, ours).snapshot_id
    real = Moves.sync

    def late(*args):
        monkeypatch.setattr(Moves, "sync", real)
        real(*args)
        client(url).delete_snapshot(label="default", snapshot_id=first)

    monkeypatch.setattr(Moves, "sync", late)
    with pytest.raises(ColonyMemoryError, match="in no snapshot that is still listed"):
        restore_folder(client(url), ours)
    assert texts(ours)["a.md"] == "one\n"


def test_a_database_counts_with_its_log(url, ours, tmp_path):
    database = sqlite3.connect(ours / "memory.db", isolation_level=None)
    with contextlib.closing(database):
        database.execute("PRAGMA journal_mode=WAL").fetchall()
        database.execute("PRAGMA wal_autocheckpoint=0").fetchall()
        database.execute("CREATE TABLE t(x)")
        first = saved(url, ours)
        database.execute("INSERT INTO t VALUES ('in the log')")
        saved(url, ours)
        shutil.copytree(ours, tmp_path / "killed")
    for each in ours.glob("memory.db*"):
        each.unlink()
    for each in (tmp_path / "killed").glob("memory.db*"):
        shutil.move(each, ours)
    assert (ours / "memory.db-wal").stat().st_size
    done = restore_folder(client(url), ours, snapshot=first)
    assert (done.written.replaced, done.written.removed) == (("memory.db",), ("memory.db-wal",))
    with contextlib.closing(sqlite3.connect(ours / "memory.db")) as database:
        assert database.execute("SELECT count(*) FROM t").fetchall() == [(0,)]
        database.execute("INSERT INTO t VALUES ('saved nowhere')")
        database.commit()
    with pytest.raises(ColonyMemoryError, match=r"'memory\.db' in .* is saved nowhere"):
        restore_folder(client(url), ours)


@pytest.mark.parametrize("target", ["missing", "empty"])
def test_a_folder_that_comes_to_be_there_has_a_basis(url, ours, tmp_path, target):
    last = saved(url, ours)
    new = tmp_path / "new"
    if target == "empty":
        new.mkdir()
    restore_folder(client(url), new)
    assert basis(url, new).snapshot_id == last
    assert basis(url, new).tree == basis(url, ours).tree != ""


@pytest.mark.exhaustive
def test_a_restore_that_is_killed_anywhere_loses_no_text_and_no_basis(url, tmp_path):
    """Swap and note go together: the folder is as before with the basis from before, or as after with the new one."""
    theirs, seen = None, set()
    for at in range(1, 400):
        ours = folder(tmp_path / f"ours{at}", **{"a.md": "one\n", "b.md": "b\n"})
        first = saved(url, ours, on_conflict="continue")
        theirs = other_host(url, tmp_path / f"theirs{at}", f"theirs {at}\n")
        ended = cut_off(lambda ours=ours: restore_folder(client(url), ours), at=at)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            recover(ours)
            read_folder(ours)
        now = texts(ours)
        assert now in ({"a.md": "one\n", "b.md": "b\n"}, {"a.md": f"theirs {at}\n", "b.md": "b\n"}), (at, now)
        new = now["a.md"] != "one\n"
        assert basis(url, ours).snapshot_id == (theirs if new else first), (at, ended)
        seen.add(new)
        if ended == "done":
            break
        shutil.rmtree(ours)
        shutil.rmtree(tmp_path / f"theirs{at}")
    assert seen == {False, True}


@pytest.mark.parametrize("busy", [False, True])
def test_a_backup_goes_by_the_note_of_a_restore_that_it_finishes(url, ours, tmp_path, monkeypatch, busy):
    saved(url, ours)
    theirs = other_host(url, tmp_path / "theirs", "one\ntwo\n")

    def restore_and_die_before_the_note():
        _recover.finish_note = lambda _: os._exit(1)
        restore_folder(client(url), ours)

    assert cut_off(restore_and_die_before_the_note, at=10**6) == "killed"
    (ours / "a.md").write_text("one\ntwo\nthree\n")
    if busy:  # somebody has a file of the staging directory open, so that it cannot be removed
        monkeypatch.setattr("colony_memory.capture._recover.discard", lambda *_: False)
    mine = saved(url, ours)
    assert client(url).latest().snapshot_id == mine
    (ours / "a.md").write_text("one\ntwo\nthree\nfour\n")
    assert saved(url, ours) == client(url).latest().snapshot_id
    assert theirs < mine


def test_a_merge_by_hand_takes_nothing_away_and_changes_no_basis(url, ours, tmp_path):
    first = saved(url, ours)
    theirs = other_host(url, tmp_path / "theirs", "one\ntheirs\n")
    (ours / "a.md").write_text("ours\none\n")
    (ours / "c.md").write_text("c\n")
    done = restore_folder(client(url), ours, merge=True)
    assert texts(ours) == {"a.md": "ours\none\ntheirs\n", "b.md": "b\n", "c.md": "c\n"}
    assert done.written.replaced == ("a.md",)
    assert basis(url, ours).snapshot_id == theirs
    merged = saved(url, ours)
    assert client(url).latest().snapshot_id == merged
    assert theirs in client(url).latest().based_on
    # Of one that is not the latest it is only noted.
    restore_folder(client(url), ours, snapshot=first, merge=True)
    assert (basis(url, ours).snapshot_id, basis(url, ours).merged) == (merged, (first,))
    for wrong in ({"delete": True}, {"only": "a"}, {"snapshot_first": True}):
        with pytest.raises(ValueError, match="give it alone"):
            restore_folder(client(url), ours, merge=True, **wrong)
