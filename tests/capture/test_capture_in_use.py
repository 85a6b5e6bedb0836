"""What somebody has open is not replaced unasked."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest
from capture_trees import held, linux, make, names, posix, rows, running, tree

from colony_memory._os import open_files as processes
from colony_memory._os.directory import Directory
from colony_memory.capture import _question, read_folder, write_folder
from colony_memory.capture import sqlite as sqlite_capture
from colony_memory.exceptions import ColonyMemoryError, ColonyMemoryWarning

pytestmark = posix


def agent(path, mode):
    """A program that has the database open and waits."""
    row = "INSERT INTO t VALUES ('by the agent')"
    return held(path, f"PRAGMA journal_mode={mode}", "CREATE TABLE IF NOT EXISTS t(x)", row)


@pytest.fixture
def saved(tmp_path):
    with closing(sqlite3.connect(make(tmp_path / "src", {}) / "memory.db", isolation_level=None)) as source:
        source.execute("CREATE TABLE t(x)")
        source.execute("INSERT INTO t VALUES ('saved')")
    return {**read_folder(tmp_path / "src").documents, "a.md": "a"}


@pytest.mark.parametrize("mode", ["wal", pytest.param("delete", marks=linux)])
def test_a_database_that_a_program_has_open_is_not_replaced(tmp_path, saved, monkeypatch, mode):
    dst = make(tmp_path / "dst", {})
    with agent(dst / "memory.db", mode):
        before = {name: each for name, each in tree(dst).items() if not name.endswith("-shm")}
        plan = write_folder(saved, dst, dry_run=True)
        assert (plan.in_use, plan.unsaved, plan.replaced, plan.created) == (("memory.db",), (), (), ("a.md",))
        with pytest.raises(
            ColonyMemoryError, match=r"open in .* by .*\(process \d+\), .*'memory\.db'; nothing was written; stop what"
        ):
            write_folder(saved, dst)
        assert {name: each for name, each in tree(dst).items() if not name.endswith("-shm")} == before
        with pytest.warns(ColonyMemoryWarning, match=r"'memory\.db' was replaced while a program has it open: "):
            write_folder(saved, dst, force=True)
        assert rows(dst / "memory.db") == [("saved",)]
        assert names(dst) == ["a.md", "memory.db"]
    # What the program did when it ended went to the database from before.
    assert rows(dst / "memory.db") == [("saved",)]
    if mode == "wal":  # without a look at other processes the locks still tell
        monkeypatch.setattr(processes, "PROCESSES", str(tmp_path / "none"))
        with agent(dst / "memory.db", mode), pytest.raises(ColonyMemoryError, match="open in"):
            write_folder(saved, dst)


def test_a_database_that_this_process_has_open_keeps_its_locks(tmp_path, saved, monkeypatch):
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


def test_a_program_that_opens_it_while_files_are_staged_stops_the_restore(tmp_path, saved):
    dst = make(tmp_path / "dst", {})
    with closing(sqlite3.connect(dst / "memory.db")) as made:
        made.execute("CREATE TABLE t(x)")
    opened = []

    def open_it(done, total, name):
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


def test_deleting_takes_a_database_with_what_belongs_to_it(tmp_path):
    dst = make(tmp_path / "dst", {"a.md": b"a", "alone-wal": b"text"})
    with agent(dst / "memory.db", "wal"):
        with pytest.raises(ColonyMemoryError, match="open in"):
            write_folder({"a.md": "a"}, dst, delete=True)
        assert set(names(dst)) >= {"memory.db", "memory.db-wal", "memory.db-shm", "alone-wal"}
        with pytest.warns(ColonyMemoryWarning, match="while a program has it open"):
            done = write_folder({"a.md": "a"}, dst, delete=True, force=True)
        assert {"memory.db", "memory.db-wal", "alone-wal"} <= set(done.removed)
        assert names(dst) == ["a.md"]


@linux
def test_what_cannot_be_asked_is_not_in_use(tmp_path, monkeypatch):
    dst = make(tmp_path / "dst", {"memory.db": b"SQLite format 3\0"})
    os.mkfifo(dst / "memory.db-shm")
    assert write_folder({"memory.db": "new"}, dst, dry_run=True).in_use == ()
    with Directory.open(dst) as folder:
        assert _question._lock_holder(folder, "memory.db-shm", (0, 0)) is None
        monkeypatch.setattr(processes.struct, "calcsize", lambda _: 4)
        assert _question._lock_holder(folder, "memory.db", (0, 0)) is None
    monkeypatch.setattr(sys, "platform", "darwin")
    assert processes.open_files() == processes.OpenFiles()


HOLDER = """
import mmap, sys
path, how = sys.argv[1:]
if how == "map":
    with open(path, "rb") as f:
        kept = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
elif how == "lock":
    import fcntl
    kept = open(path, "r+b")
    fcntl.lockf(kept, fcntl.LOCK_EX)
else:
    kept = open(path, how)
print("ready", flush=True)
sys.stdin.readline()
"""
PARTS = {"store/data.bin": b"\xff\x00old", "store/CURRENT": b"old", "store/LOCK": b""}
STORE = {**PARTS, "log.jsonl": b"{}\n", "a.md": b"a"}
NEWER = {"store/data.bin": "new", "store/CURRENT": "new", "log.jsonl": "[]\n", "a.md": "new", "top.json": "new"}
CURRENT = {"store/CURRENT", "store/new.bin"}


@linux
@pytest.mark.parametrize(
    ("opened", "how", "written", "in_use"),
    [
        ("log.jsonl", "a", {"log.jsonl", "a.md", "top.json", "store/CURRENT"}, {"log.jsonl"}),  # text is one file
        ("log.jsonl", "r", {"log.jsonl"}, set()),
        ("store/data.bin", "r", {"store/data.bin"}, set()),
        ("store/data.bin", "r+", {"store/data.bin"}, {"store/data.bin"}),
        ("store/data.bin", "r+", CURRENT, CURRENT),  # a store is more than what it has open
        ("store/data.bin", "map", CURRENT, CURRENT),
        ("store/LOCK", "a", CURRENT, CURRENT),
        ("store/LOCK", "lock", {"store/deeper/new"}, {"store/deeper/new"}),
        (
            "store/data.bin",
            "r+",
            {"store/a.md", "log.jsonl", "other/new", "top.json"},
            set(),
        ),  # notes, and what is apart
        ("top.bin", "r+", {"top.json", "a.md", "store/CURRENT"}, {"top.json"}),
        ("store/data.bin", "r+", set(), set()),
    ],
)
def test_what_a_process_has_open(tmp_path, opened, how, written, in_use):
    dst = make(tmp_path / "dst", {**STORE, "top.bin": b"\xff\x00"})
    before = tree(dst)
    documents = {"same.md": "s", **{name: NEWER.get(name, "new") for name in written}}
    make(dst, {"same.md": b"s"})
    with running(HOLDER, dst / opened, how) as holder:
        plan = write_folder(documents, dst, dry_run=True)
        assert set(plan.in_use) == in_use
        assert {plan.why[name] for name in in_use} <= {f"python{three} (process {holder.pid})" for three in ("", "3")}
        assert set(plan.created) | set(plan.replaced) == written - in_use
        if in_use:
            with pytest.raises(ColonyMemoryError, match=rf"by python3? \(process {holder.pid}\), which .*; stop what"):
                write_folder(documents, dst)
            assert {**tree(dst), **before} == tree(dst)
        else:
            write_folder(documents, dst)
    write_folder(documents, dst)


@linux
def test_what_is_taken_away_counts_too(tmp_path):
    dst = make(tmp_path / "dst", STORE)
    with running(HOLDER, dst / "store/data.bin", "r+"):
        keeping = {"log.jsonl": "{}\n", "a.md": "a"}
        assert set(write_folder(keeping, dst, delete=True, dry_run=True).in_use) == set(PARTS)
        with pytest.warns(ColonyMemoryWarning, match="was replaced while a program has it open: "):
            assert set(write_folder(keeping, dst, delete=True, force=True).removed) >= set(PARTS)


@linux
def test_processes_as_the_system_tells_of_them(tmp_path, monkeypatch):
    """A process that cannot be looked at, one without a name, a mapping that tells another device."""
    dst = make(tmp_path / "dst", {"a.npy": b"\xff\x00", "b.npy": b"\xff\x00", "c.npy": b"\xff\x00"})
    proc = make(tmp_path / "proc", {"7/comm": b"faiss\n", "8/comm": b"\x1b[0m", "self/comm": b"x"})
    inode = {name: (dst / name).stat().st_ino for name in ("a.npy", "b.npy", "c.npy")}
    lines = [
        f"7f00-7f01 r--s 00000000 00:ff {inode['a.npy']}   /elsewhere/a.npy",
        f"7f00-7f01 r--s 00000000 00:ff {inode['c.npy']}   /elsewhere/other",
        "7f00-7f01 rw-p 00000000 00:00 0   [heap]",
    ]
    (proc / "7/maps").write_text("\n".join(lines))
    (proc / "8/fd").mkdir()
    (proc / "8/fd/3").symlink_to(dst / "b.npy")
    (proc / "8/fd/4").symlink_to(dst / "gone")
    monkeypatch.setattr(processes, "PROCESSES", str(proc))
    found = processes.open_files()
    held = {name: processes.holder_of(found, name, (dst / name).stat()) for name in inode}
    assert held == {"a.npy": 7, "b.npy": 8, "c.npy": None}
    assert [processes.name_process(each) for each in (7, 8, 9, -1)] == [
        "faiss (process 7)",
        "process 8",
        "process 9",
        "a program",
    ]
    assert processes.holder_of(found, "dst", dst.stat()) is None
