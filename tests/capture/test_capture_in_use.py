"""Databases that somebody has open are not replaced unasked."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pytest
from capture_trees import linux, make, names, posix, tree

from colony_memory._os.directory import Directory
from colony_memory.capture import _locks, read_folder, write_folder
from colony_memory.capture import sqlite as sqlite_capture
from colony_memory.exceptions import ColonyMemoryError, ColonyMemoryWarning

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = posix

AGENT = """
import sqlite3, sys
path, mode = sys.argv[1:]
db = sqlite3.connect(path, isolation_level=None)
db.execute(f"PRAGMA journal_mode={mode}").fetchone()
db.execute("CREATE TABLE IF NOT EXISTS t(x)")
db.execute("INSERT INTO t VALUES ('by the agent')")
print("open", flush=True)
sys.stdin.readline()
"""


@contextmanager
def agent(path: Path, mode: str) -> Iterator[None]:
    """A program that has the database open and waits."""
    with subprocess.Popen(
        [sys.executable, "-c", AGENT, path, mode], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        try:
            yield
        finally:
            process.communicate("\n")


@pytest.fixture
def saved(tmp_path: Path) -> dict[str, str]:
    with closing(sqlite3.connect(make(tmp_path / "src", {}) / "memory.db", isolation_level=None)) as source:
        source.execute("CREATE TABLE t(x)")
        source.execute("INSERT INTO t VALUES ('saved')")
    return {**read_folder(tmp_path / "src").documents, "a.md": "a"}


def rows(path: Path) -> list[tuple[str]]:
    with closing(sqlite3.connect(path)) as opened:
        assert opened.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return opened.execute("SELECT x FROM t").fetchall()


@pytest.mark.parametrize("mode", ["wal", pytest.param("delete", marks=linux)])
def test_a_database_that_a_program_has_open_is_not_replaced(tmp_path: Path, saved: dict[str, str], mode: str) -> None:
    dst = make(tmp_path / "dst", {})
    with agent(dst / "memory.db", mode):
        before = {name: each for name, each in tree(dst).items() if not name.endswith("-shm")}
        plan = write_folder(saved, dst, dry_run=True)
        assert (plan.in_use, plan.unsaved, plan.replaced, plan.created) == (("memory.db",), (), (), ("a.md",))
        with pytest.raises(
            ColonyMemoryError, match=r"open in .* by a program .*'memory\.db'; nothing was written; stop what"
        ):
            write_folder(saved, dst)
        assert {name: each for name, each in tree(dst).items() if not name.endswith("-shm")} == before
        with pytest.warns(ColonyMemoryWarning, match=r"'memory\.db' is replaced while a program has it open"):
            write_folder(saved, dst, force=True)
        assert rows(dst / "memory.db") == [("saved",)]
        assert names(dst) == ["a.md", "memory.db"]
    # What the program did when it ended went to the database from before.
    assert rows(dst / "memory.db") == [("saved",)]


def test_without_a_look_at_other_processes_the_locks_still_tell(
    tmp_path: Path, saved: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_locks, "_is_written_elsewhere", lambda identity: False)
    dst = make(tmp_path / "dst", {})
    with agent(dst / "memory.db", "wal"), pytest.raises(ColonyMemoryError, match="open in"):
        write_folder(saved, dst)


def test_a_database_that_this_process_has_open_keeps_its_locks(
    tmp_path: Path, saved: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_capture, "_WAIT", 0.1)
    dst = make(tmp_path / "dst", {})
    with closing(sqlite3.connect(dst / "memory.db", isolation_level=None)) as own:
        own.execute("CREATE TABLE t(x)")
        own.execute("BEGIN EXCLUSIVE")
        same_size = "x" * (dst / "memory.db").stat().st_size
        for documents in (saved, {"memory.db": same_size, "a.md": "a"}):
            assert write_folder(documents, dst, dry_run=True).in_use == ("memory.db",)
            with pytest.raises(ColonyMemoryError, match="open in"):
                write_folder(documents, dst)
        assert write_folder({"a.md": "a"}, dst, delete=True, dry_run=True).in_use == ("memory.db",)
        other = [
            sys.executable,
            "-c",
            "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')",
        ]
        done = subprocess.run([*other, dst / "memory.db"], capture_output=True, text=True, check=False)
        assert "database is locked" in done.stderr


def test_a_database_that_is_as_it_was_saved_may_stay_open(tmp_path: Path) -> None:
    dst = make(tmp_path / "dst", {})
    with agent(dst / "memory.db", "wal"):
        documents = read_folder(dst).documents
        assert write_folder(documents, dst).unchanged == ("memory.db",)


def test_a_program_that_opens_it_while_files_are_staged_stops_the_restore(
    tmp_path: Path, saved: dict[str, str]
) -> None:
    dst = make(tmp_path / "dst", {})
    with closing(sqlite3.connect(dst / "memory.db")) as made:
        made.execute("CREATE TABLE t(x)")
    opened = []

    def open_it(done: int, total: int, name: str) -> None:
        if done == total:
            opened.append(sqlite3.connect(dst / "memory.db"))
            opened[0].execute("SELECT * FROM t").fetchall()

    before = tree(dst)
    try:
        with pytest.raises(ColonyMemoryError, match="open in"):
            write_folder(saved, dst, on_progress=open_it)
    finally:
        opened[0].close()
    assert tree(dst) == before


def test_deleting_takes_a_database_with_what_belongs_to_it(tmp_path: Path) -> None:
    dst = make(tmp_path / "dst", {"a.md": b"a", "alone-wal": b"text"})
    with agent(dst / "memory.db", "wal"):
        with pytest.raises(ColonyMemoryError, match="open in"):
            write_folder({"a.md": "a"}, dst, delete=True)
        assert set(names(dst)) >= {"memory.db", "memory.db-wal", "memory.db-shm", "alone-wal"}
        with pytest.warns(ColonyMemoryWarning, match="while a program has it open"):
            done = write_folder({"a.md": "a"}, dst, delete=True, force=True)
        assert {"memory.db", "memory.db-wal", "alone-wal"} <= set(done.removed)
        assert names(dst) == ["a.md"]


def test_the_log_of_a_database_that_stays_is_no_surplus(tmp_path: Path) -> None:
    dst = make(tmp_path / "dst", {"a.md": b"a"})
    with agent(dst / "memory.db", "wal"):
        documents = read_folder(dst).documents
        before = names(dst)
        done = write_folder(documents, dst, delete=True)
        assert (done.removed, done.unchanged) == ((), ("a.md", "memory.db"))
        assert names(dst) == before
    assert rows(dst / "memory.db") == [("by the agent",)]


@linux
def test_what_cannot_be_asked_is_not_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dst = make(tmp_path / "dst", {"memory.db": b"SQLite format 3\0"})
    os.mkfifo(dst / "memory.db-shm")
    with Directory.open(dst) as folder:
        there = folder.look("memory.db")
        assert there is not None
        assert not _locks.is_in_use(folder, "memory.db", there)
        monkeypatch.setattr(_locks.struct, "calcsize", lambda _: 4)
        assert not _locks._is_locked(folder, "memory.db", (0, 1))
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not _locks._is_written_elsewhere((there.st_dev, there.st_ino))


@linux
def test_a_file_that_another_process_has_open_to_write_to_is_not_replaced(tmp_path: Path) -> None:
    dst = make(tmp_path / "dst", {"session.jsonl": b"{}\n", "idle.md": b"old"})
    script = "import sys; f = open(sys.argv[1], 'a'); print('up', flush=True); sys.stdin.readline()"
    with subprocess.Popen(
        [sys.executable, "-c", script, str(dst / "session.jsonl")], stdin=-1, stdout=-1, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        documents = {"session.jsonl": "[]\n", "idle.md": "new"}
        assert write_folder(documents, dst, dry_run=True).in_use == ("session.jsonl",)
        with pytest.raises(ColonyMemoryError, match=r"'session\.jsonl'; nothing was written; stop what has it open"):
            write_folder(documents, dst)
        assert write_folder({"idle.md": "new"}, dst).replaced == ("idle.md",)
        process.communicate("\n")
    with (dst / "session.jsonl").open("a"):  # this process knows what it does
        assert write_folder(documents, dst).replaced == ("session.jsonl",)
