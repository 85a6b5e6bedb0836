"""Locks that this process has on files stay, whatever is read of them."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from capture_trees import make, metadata, posix

from colony_memory._os import open_files
from colony_memory.capture import read_folder, write_folder

if sys.platform != "win32":
    import fcntl

pytestmark = posix
TAKE = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
"""
BEGIN = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None).execute('BEGIN IMMEDIATE')"


def another_gets(code, path):
    """Whether another process gets a lock."""
    return subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, check=False).returncode == 0


def descriptors():
    return len(list(Path("/dev/fd").iterdir()))


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("mode", [os.O_RDWR, os.O_WRONLY])
def test_the_lock_on_any_file_stays(tmp_path, monkeypatch, mode, listed):
    """Of lock files, key-value stores and whatever else an agent has open, also where it cannot be read from."""
    if not listed:  # descriptors are tried where they cannot be
        monkeypatch.setattr(open_files, "_LISTINGS", (str(tmp_path / "missing"),))
    path = make(tmp_path, {"a.lock": b"pid 7\n", "b.md": b"b"}) / "a.lock"
    descriptor = os.open(path, mode)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX)
        for _ in range(3):
            assert read_folder(tmp_path).documents == {"a.lock": "pid 7\n", "b.md": "b"}
            assert not another_gets(TAKE, path)
    finally:
        os.close(descriptor)
    assert another_gets(TAKE, path)


def test_the_lock_stays_on_what_a_restore_compares_or_gives_permissions(tmp_path):
    path = make(tmp_path, {"a.lock": b"pid 7\n"}) / "a.lock"
    with path.open("r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        for mode in ("640", "600"):
            written = write_folder({"a.lock": "pid 7\n", **metadata(modes={"a.lock": mode})}, tmp_path)
            assert (written.unchanged, written.permissions) == (("a.lock",), ("a.lock",))
            assert not another_gets(TAKE, path)
        assert write_folder({"a.lock": "pid 8\n"}, tmp_path, dry_run=True).replaced == ("a.lock",)
        assert not another_gets(TAKE, path)
    assert another_gets(TAKE, path)


def test_it_stays_where_the_file_is_excluded_or_cannot_be_saved(tmp_path, monkeypatch):
    make(tmp_path, {"a.md": b"a", ".cmemignore": b"*.db\n"})
    with closing(sqlite3.connect(tmp_path / "m.db", isolation_level=None)) as database:
        for statement in ("PRAGMA journal_mode=WAL", "CREATE TABLE t(x)", "BEGIN IMMEDIATE"):
            database.execute(statement).fetchall()
        assert "m.db" in read_folder(tmp_path).ignored
        assert not another_gets(BEGIN, tmp_path / "m.db")
        (tmp_path / ".cmemignore").unlink()
        monkeypatch.setattr("colony_memory.capture.sqlite.tempfile.tempdir", str(tmp_path / "missing"))
        assert "m.db" in [each.name for each in read_folder(tmp_path).left_out]
        assert not another_gets(BEGIN, tmp_path / "m.db")


def test_one_descriptor_of_each_such_file_is_kept_and_no_more(tmp_path):
    make(tmp_path, {f"{number}.md": b"x" for number in range(70)})
    read_folder(tmp_path)
    before = descriptors()
    opened = [(tmp_path / f"{number}.md").open("rb") for number in range(3)]
    for _ in range(4):
        read_folder(tmp_path)
    assert descriptors() == before + 2 * len(opened)
    for each in opened:
        each.close()
    read_folder(tmp_path)
    assert descriptors() == before


def test_a_number_that_somebody_else_has_taken_is_left_alone(tmp_path):
    path = make(tmp_path, {"a.md": b"a"}) / "a.md"
    other = make(tmp_path / "other", {"b.md": b"b"}) / "b.md"
    with path.open("rb"):
        read_folder(tmp_path)
        (one,) = open_files._kept.values()
        os.close(one.descriptors[0])  # by a program that closes all it finds
        with other.open("rb") as taken:
            os.dup2(taken.fileno(), one.descriptors[0])
        assert read_folder(tmp_path).documents == {"a.md": "a", "other/b.md": "b"}
    open_files.close_unused()
    assert os.fstat(one.descriptors[0]).st_ino == other.stat().st_ino
    os.close(one.descriptors[0])
    open_files._kept.clear()


@pytest.mark.parametrize("of_open_files", [True, False])
def test_a_shared_lock_is_taken_and_given_back_and_none_of_this_process_is_touched(
    tmp_path, monkeypatch, of_open_files
):
    if sys.platform != "linux" and of_open_files:
        pytest.skip("needs locks of open files")
    monkeypatch.setattr(open_files, "_OF_OPEN_FILES", of_open_files)
    path = tmp_path / "m.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("CREATE TABLE t(x)")
        database.execute("BEGIN IMMEDIATE")
        assert read_folder(tmp_path).left_out == ()
        assert not another_gets(BEGIN, path)
        database.execute("COMMIT")
    exclusive, status = BEGIN.replace("IMMEDIATE", "EXCLUSIVE"), path.stat()
    with open_files.keeping_locks((status.st_dev, status.st_ino), lambda: os.open(path, os.O_RDONLY)) as descriptor:
        with open_files.shared_lock(descriptor):
            assert not another_gets(exclusive, path)
        assert another_gets(exclusive, path)
    open_files.close_unused()


def test_a_file_system_without_locks_is_read_without(tmp_path, monkeypatch):
    def none(*_):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(open_files, "_set", none)
    with closing(sqlite3.connect(tmp_path / "m.db", isolation_level=None)) as database:
        database.execute("CREATE TABLE t(x)")
    assert read_folder(tmp_path).left_out == ()
