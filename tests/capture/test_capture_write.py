import errno
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from capture_trees import files, make, metadata, names, posix, rows, tree

from colony_memory._os.directory import Directory
from colony_memory.capture import read_folder, write_folder
from colony_memory.capture._metadata import METADATA_NAME
from colony_memory.capture._moves import Moves
from colony_memory.exceptions import ColonyMemoryError, ColonyMemoryWarning, SnapshotCorrupt, UnsupportedFormat


@posix
def test_what_is_made_belongs_to_the_owner_and_what_is_replaced_keeps_its_permissions(tmp_path):
    umask = os.umask(0o022)
    try:
        documents = {"new.md": "n", "sub/run.sh": "r", **metadata(executable=["sub/run.sh", "b.sh", "absent"])}
        write_folder(documents, tmp_path / "fresh")
        assert {name: oct(mode & 0o777) for name, (mode, _) in tree(tmp_path / "fresh").items()} == {
            "new.md": "0o600",
            "sub": "0o700",
            "sub/run.sh": "0o700",
        }
        there = make(tmp_path / "there", {"a.md": b"old", "b.sh": b"same", "c.sh": b"old"})
        for name, mode in {"a.md": 0o644, "b.sh": 0o640, "c.sh": 0o755}.items():
            (there / name).chmod(mode)
        done = write_folder({**documents, "a.md": "new", "b.sh": "same", "c.sh": "new"}, there)
        assert (done.replaced, done.permissions) == (("a.md", "c.sh"), ("b.sh",))
        modes = {name: oct(mode & 0o777) for name, (mode, _) in tree(there).items()}
        assert (modes["a.md"], modes["b.sh"], modes["c.sh"]) == ("0o644", "0o750", "0o755")
        again = write_folder({**documents, "a.md": "new", "b.sh": "same", "c.sh": "new"}, there)
        assert len(again.unchanged) == 5
    finally:
        os.umask(umask)


def test_the_current_directory_stays_the_same_one(tmp_path, monkeypatch):
    dst = tmp_path / "dst"
    dst.mkdir()
    monkeypatch.chdir(dst)
    write_folder({"a.md": "a", "b/c.md": "b"}, ".")
    assert names(Path()) == ["a.md", "b"]
    assert names(tmp_path) == ["dst"]


@posix
def test_the_target_may_be_a_link_and_nothing_under_it(tmp_path):
    outside = make(tmp_path / "outside", {"a.md": b"outside"})
    real = make(tmp_path / "real", {"x.md": b"x"})
    (tmp_path / "dst").symlink_to("real")
    write_folder({"y.md": "y"}, tmp_path / "dst")
    assert (tmp_path / "dst").is_symlink()
    assert files(real) == {"x.md": b"x", "y.md": b"y"}
    (tmp_path / "later").symlink_to("not-yet")
    write_folder({"y.md": "y"}, tmp_path / "later")
    assert files(tmp_path / "not-yet") == {"y.md": b"y"}

    (real / "dir").symlink_to(outside)
    (real / "file.md").symlink_to(outside / "a.md")
    (real / "dangling.md").symlink_to(outside / "new.md")
    before = tree(tmp_path)
    for documents in (
        {"y.md": "changed", "dir/a.md": "evil"},
        {"file.md": "evil"},
        {"dangling.md": "evil"},
        metadata(empty_dirs=["dir/sub"]),
        metadata(empty_dirs=["dir"]),
    ):
        for force in (False, True):
            with pytest.raises(ColonyMemoryError, match=r"symbolic link.*nothing was written"):
                write_folder(documents, tmp_path / "dst", force=force)
    assert tree(tmp_path) == before


def test_half_an_emoji_is_written_and_said(tmp_path):
    with pytest.warns(ColonyMemoryWarning, match=r"'t\.jsonl' has half of a surrogate pair"):
        write_folder({"t.jsonl": '{"out": "cut \ud83d"}', "a.md": "a"}, tmp_path / "dst")
    assert (tmp_path / "dst/t.jsonl").read_bytes() == b'{"out": "cut \xed\xa0\xbd"}'
    assert write_folder({"t.jsonl": '{"out": "cut \ud83d"}'}, tmp_path / "dst").unchanged == ("t.jsonl",)


def test_bad_arguments_are_named(tmp_path):
    make(tmp_path, {"file": b"x"})
    for target in (tmp_path / "file", tmp_path / "file/below", "a\0b"):
        with pytest.raises(ValueError, match="directory"):
            write_folder({"a": "a"}, target)
    with pytest.raises(ValueError, match="no documents"):
        write_folder({}, tmp_path / "dst")
    with pytest.raises(ValueError, match=r"'a\.md' is not a string"):
        write_folder({"a.md": b"bytes"}, tmp_path / "dst")
    assert names(tmp_path) == ["file"]


MALFORMED = {
    "not JSON": "{",
    "not an object": "[]",
    "no format": "{}",
    "another format": '{"format": "colony-memory/folder/2"}',
    "a key twice": '{"format": "colony-memory/folder/1", "format": "colony-memory/folder/1"}',
    "a file twice": '{"format": "colony-memory/folder/1", "files": {"a": "", "a": ""}}',
    "too deep": "[" * 100_000,
    "a long number": '{"format": ' + "9" * 5000 + "}",
    **{
        what: metadata(**fields)[METADATA_NAME]
        for what, fields in {
            "files not an object": {"files": []},
            "base64 not text": {"files": {"a": 1}},
            "base64 alphabet": {"files": {"a": "a-b_"}},
            "base64 not ASCII": {"files": {"a": "\u00e9\u00e9\u00e9\u00e9"}},
            "base64 loose bits": {"files": {"a": "QR=="}},
            "base64 padding": {"files": {"a": "QQ"}},
            "base64 blanks": {"files": {"a": "QQ==\n"}},
            "empty_dirs not a list": {"empty_dirs": {}},
            "empty_dirs not names": {"empty_dirs": [1]},
            "executable not a list": {"executable": "MEMORY.md"},
            "executable not names": {"executable": [None]},
            "a file that is a document": {"files": {"MEMORY.md": ""}},
            "a directory that is a document": {"empty_dirs": ["MEMORY.md"]},
            "a directory that is a file": {"files": {"x": ""}, "empty_dirs": ["x"]},
        }.items()
    },
}


@pytest.mark.parametrize("what", MALFORMED)
def test_a_malformed_metadata_document_is_corrupt(tmp_path, what):
    with pytest.raises(SnapshotCorrupt) as caught:
        write_folder({"MEMORY.md": "m", METADATA_NAME: MALFORMED[what]}, tmp_path / "dst")
    assert METADATA_NAME in str(caught.value)
    assert caught.value.file == METADATA_NAME
    assert isinstance(caught.value, UnsupportedFormat) == ("format" in what)
    assert names(tmp_path) == []


def test_progress_is_told_file_by_file_and_may_stop_it(tmp_path):
    dst = make(tmp_path / "dst", {"a.md": b"old", "same.md": b"same"})
    told = []
    documents = {"b.md": "b", "a.md": "a", "same.md": "same"}

    def stop(done, total, name):
        raise RuntimeError("enough")

    before = tree(tmp_path)
    with pytest.raises(RuntimeError, match="enough"):
        write_folder(documents, dst, on_progress=stop)
    assert tree(tmp_path) == before
    write_folder(documents, dst, on_progress=lambda *step: told.append(step))
    assert told == [(1, 2, "a.md"), (2, 2, "b.md")]


def test_files_and_directories_do_not_replace_each_other(tmp_path):
    dst = make(tmp_path / "dst", {"dir/x.md": b"x", "file": b"f"})
    before = tree(dst)
    for documents, named in (
        ({"dir": "text"}, "dir"),
        ({"file/below.md": "text"}, "file/below.md"),
        (metadata(empty_dirs=["file"]), "file"),
        (metadata(empty_dirs=["file/d"]), "file/d"),
    ):
        for force in (False, True):
            with pytest.raises(ColonyMemoryError, match=f"document '{named}'.*director.*nothing was written"):
                write_folder({"a.md": "a", **documents}, dst, force=force)
    assert tree(dst) == before
    if os.name != "nt":
        os.mkfifo(dst / "pipe")
        with pytest.raises(ColonyMemoryError, match=r"'pipe'.*is a device, pipe or socket"):
            write_folder({"pipe": "text"}, dst, force=True)


def test_a_target_that_cannot_be_looked_at_is_named(tmp_path, monkeypatch):
    dst = make(tmp_path / "dst", {"a.md": b"old", "b.md": b"old"})
    real = Directory.file

    def closed(directory, name):
        if name == "a.md":
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(directory, name)

    monkeypatch.setattr(Directory, "file", closed)
    with pytest.raises(ColonyMemoryError, match=r"'a\.md'.*cannot be read \(Permission denied\); nothing was written"):
        write_folder({"a.md": "new"}, dst)
    monkeypatch.setattr(Directory, "look", lambda *_: (_ for _ in ()).throw(OSError(errno.EIO, "Input/output error")))
    with pytest.raises(ColonyMemoryError, match=r"'b\.md'.*cannot be looked at \(Input/output error\)"):
        write_folder({"b.md": "new"}, dst)


def test_a_database_of_a_promised_size_costs_no_memory(tmp_path):
    saved = make(tmp_path / "src", {})
    with closing(sqlite3.connect(saved / "memory.db")) as database:
        database.execute("CREATE TABLE t(x)")
    documents = read_folder(saved).documents
    dst = make(tmp_path / "dst", {"memory.db": (saved / "memory.db").read_bytes(), "memory.db-wal": b"x"})
    os.truncate(dst / "memory.db", 1 << 40)
    assert write_folder(documents, dst, dry_run=True).replaced == ("memory.db",)


@pytest.fixture
def database(tmp_path):
    """A folder with a database whose last rows are in its log alone, as a program that was killed leaves it."""
    dst = make(tmp_path / "dst", {"a.md": b"old"})
    with closing(sqlite3.connect(dst / "live.db", isolation_level=None)) as live:
        live.execute("PRAGMA journal_mode=wal")
        live.execute("CREATE TABLE t(x)")
        live.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        live.execute("INSERT INTO t VALUES ('in the log')")
        for suffix in ("", "-wal"):
            shutil.copy(dst / f"live.db{suffix}", dst / f"memory.db{suffix}")
    (dst / "live.db").unlink()
    assert names(dst) == ["a.md", "memory.db", "memory.db-wal"]
    return dst


def saved_database(tmp_path, text):
    with closing(sqlite3.connect(make(tmp_path / "src", {}) / "memory.db", isolation_level=None)) as source:
        source.execute("PRAGMA journal_mode=wal")
        source.execute("CREATE TABLE t(x)")
        source.executemany("INSERT INTO t VALUES (?)", [(text,)] * 200)
    return read_folder(tmp_path / "src").documents


def test_a_failure_after_the_log_is_gone_brings_it_back(database, tmp_path, monkeypatch):
    before = tree(database)
    real = Moves._take

    def fails(moves, reach, step):
        if step.name == "memory.db":
            assert not (database / "memory.db-wal").exists()
            raise OSError(errno.EIO, "Input/output error")
        real(moves, reach, step)

    monkeypatch.setattr(Moves, "_take", fails)
    with pytest.raises(ColonyMemoryError, match="nothing was changed"):
        write_folder(saved_database(tmp_path, "saved"), database)
    assert tree(database) == before
    assert rows(database / "memory.db") == [("in the log",)]


def test_a_log_without_its_database_is_not_merged_into_the_saved_one(database, tmp_path):
    (database / "memory.db").unlink()
    done = write_folder(saved_database(tmp_path, "saved"), database)
    assert (done.created, done.removed) == (("memory.db",), ("memory.db-wal",))
    assert rows(database / "memory.db") == [("saved",)] * 200
