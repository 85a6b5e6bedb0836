from __future__ import annotations

import contextlib
import re
import shutil
import sqlite3
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from capture_trees import files, make, names, posix, tree

from colony_memory.capture import LeftOut, _contents, read_folder, read_paths, sqlite, write_folder
from colony_memory.capture._metadata import split_documents

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOLDER = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
for statement in sys.argv[2:]:
    database.execute(statement).fetchall()
print("ready", flush=True)
sys.stdin.readline()
"""
WAL = ("PRAGMA journal_mode=WAL", "PRAGMA wal_autocheckpoint=0")
ROWS = ("CREATE TABLE t(x UNIQUE)", "INSERT INTO t VALUES ('committed'), (hex(randomblob(9000)))")


@contextlib.contextmanager
def held(path: Path, *statements: str, kill: bool = False) -> Iterator[None]:
    """Another process that has the database open, having run these."""
    command = [sys.executable, "-c", HOLDER, str(path), *statements]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            yield
        finally:
            if kill:
                process.kill()
            process.stdin.close()
            process.wait(20)


def crash(path: Path, *statements: str) -> None:
    with held(path, *statements, kill=True):
        pass


def run(path: Path, *statements: str) -> list[object]:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        return [database.execute(statement).fetchall() for statement in statements][-1]


def saved(folder: Path, name: str = "memory.db") -> bytes:
    capture = read_folder(folder, secrets="allow")
    assert capture.left_out == ()
    assert capture.notes == ()
    contents, _ = split_documents(capture.documents)
    assert not [each for each in contents if each.endswith(("-wal", "-shm", "-journal"))]
    content = contents[name]
    assert isinstance(content, bytes)
    return content


def rows(data: bytes, where: Path) -> set[object]:
    """The first columns, of a database that is whole and needs nothing beside it."""
    where.mkdir()
    (where / "copy").write_bytes(data)
    assert run(where / "copy", "PRAGMA integrity_check") == [("ok",)]
    found = {value for (value,) in run(where / "copy", "SELECT x FROM t")}
    shutil.rmtree(where)
    return found


def state(folder: Path) -> dict[str, tuple[int, object]]:
    return {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in sorted(folder.iterdir())}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make(tmp_path / "src", {"MEMORY.md": b"m"})


def test_a_log_that_another_process_has_open_is_merged(folder: Path, tmp_path: Path) -> None:
    database = folder / "memory.db"
    with held(database, *WAL, *ROWS, "BEGIN", "INSERT INTO t VALUES ('uncommitted')"):
        before = {name: each for name, each in state(folder).items() if not name.endswith("-shm")}
        assert set(before) == {"MEMORY.md", "memory.db", "memory.db-wal"}
        first, second = saved(folder), saved(folder)
        assert before == {name: each for name, each in state(folder).items() if not name.endswith("-shm")}
    found = rows(first, tmp_path / "check")
    assert "committed" in found
    assert "uncommitted" not in found
    assert second == first
    # The log is merged when the last one closes the database: the content is the same, and so is the copy.
    assert names(folder) == ["MEMORY.md", "memory.db"]
    assert saved(folder) == first == database.read_bytes()


def test_it_is_restored_as_a_database(folder: Path, tmp_path: Path) -> None:
    with held(folder / "no suffix", *WAL, *ROWS):
        write_folder(read_folder(folder, secrets="allow").documents, tmp_path / "dst")
    assert names(tmp_path / "dst") == ["MEMORY.md", "no suffix"]
    assert run(tmp_path / "dst/no suffix", "PRAGMA integrity_check") == [("ok",)]
    assert ("committed",) in run(tmp_path / "dst/no suffix", "SELECT x FROM t")
    assert run(tmp_path / "dst/no suffix", "PRAGMA journal_mode") == [("wal",)]


@pytest.mark.parametrize("mode", ["DELETE", "PERSIST", "WAL"])
@pytest.mark.parametrize("page_size", [512, 65536])
def test_a_database_at_rest_is_saved_byte_for_byte(folder: Path, mode: str, page_size: int) -> None:
    run(folder / "memory.db", f"PRAGMA page_size={page_size}", f"PRAGMA journal_mode={mode}", *ROWS)
    run(folder / "memory.db", "CREATE INDEX i ON t(x)", "DROP INDEX i", "DELETE FROM t WHERE x != 'committed'")
    before = state(folder)
    assert saved(folder) == (folder / "memory.db").read_bytes()
    assert state(folder) == before


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_a_transaction_of_another_process_that_goes_on_does_not_matter(folder: Path, tmp_path: Path, mode: str) -> None:
    run(folder / "memory.db", f"PRAGMA journal_mode={mode}", *ROWS)
    rest = (folder / "memory.db").read_bytes()
    with held(folder / "memory.db", "BEGIN IMMEDIATE", "INSERT INTO t VALUES ('uncommitted')"):
        assert saved(folder) == rest


def test_a_database_that_this_process_has_open(folder: Path, tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(folder / "memory.db", isolation_level=None)) as database:
        for statement in (*WAL, *ROWS, "BEGIN", "INSERT INTO t VALUES ('uncommitted')"):
            database.execute(statement).fetchall()
        first = saved(folder)
        assert "uncommitted" not in rows(first, tmp_path / "check")
        assert saved(folder) == first
        database.execute("COMMIT")
        second = saved(folder)
        assert "uncommitted" in rows(second, tmp_path / "check")
    assert saved(folder) == second


@posix
def test_reading_keeps_the_locks_that_this_process_holds(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "_WAIT", 0.1)
    locked = [LeftOut("memory.db", "locked by another program for 0.1 seconds")]
    attempt = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('SELECT * FROM t')"
    run(folder / "memory.db", *ROWS)
    with contextlib.closing(sqlite3.connect(folder / "memory.db", isolation_level=None)) as database:
        database.execute("BEGIN EXCLUSIVE")
        assert list(read_folder(folder, secrets="allow").left_out) == locked
        done = subprocess.run(
            [sys.executable, "-c", attempt, folder / "memory.db"], capture_output=True, text=True, check=False
        )
        assert "database is locked" in done.stderr


def test_a_database_that_stays_locked_is_left_out_whole(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "_WAIT", 0.2)
    run(folder / "memory.db", *ROWS)
    with held(folder / "memory.db", "BEGIN EXCLUSIVE", "INSERT INTO t VALUES ('uncommitted')"):
        assert "memory.db-journal" in names(folder)
        capture = read_folder(folder)
    assert capture.documents == {"MEMORY.md": "m"}
    assert capture.left_out == (LeftOut("memory.db", "locked by another program for 0.2 seconds"),)


def test_a_lock_that_goes_is_waited_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(folder / "memory.db", *ROWS)
    rest = (folder / "memory.db").read_bytes()
    with contextlib.ExitStack() as stack:
        stack.enter_context(held(folder / "memory.db", "BEGIN EXCLUSIVE"))
        monkeypatch.setattr(sqlite.time, "sleep", lambda _: stack.close())
        assert saved(folder) == rest


def test_a_log_without_index_is_merged_in_a_copy(folder: Path, tmp_path: Path) -> None:
    """Left by a crash and moved to another host, or of a program that keeps the index to itself."""
    crash(tmp_path / "memory.db", *WAL, *ROWS)
    for name in ("memory.db", "memory.db-wal"):
        shutil.move(tmp_path / name, folder / name)
    before = state(folder)
    first = saved(folder)
    assert "committed" in rows(first, tmp_path / "check")
    assert saved(folder) == first
    assert state(folder) == before
    with held(folder / "memory.db", "PRAGMA locking_mode=EXCLUSIVE", "INSERT INTO t VALUES ('later')"):
        assert "later" in rows(saved(folder), tmp_path / "check")


def test_what_a_crash_left_is_put_in_order_in_the_copy_only(folder: Path, tmp_path: Path) -> None:
    crash(folder / "memory.db", *WAL, *ROWS)
    assert "memory.db-shm" in names(folder)
    before = {name: each for name, each in state(folder).items() if not name.endswith("-shm")}
    first = saved(folder)
    assert "committed" in rows(first, tmp_path / "check")
    assert before == {name: each for name, each in state(folder).items() if not name.endswith("-shm")}
    assert saved(folder) == first


def test_a_journal_is_rolled_back_in_the_copy_only(folder: Path, tmp_path: Path) -> None:
    run(folder / "memory.db", "PRAGMA page_size=512", *ROWS)
    rest = (folder / "memory.db").read_bytes()
    # A cache of a few pages overflows into the file within the transaction.
    spill = "UPDATE t SET x = x || hex(randomblob(60000))"
    crash(folder / "memory.db", "PRAGMA cache_size=2", "BEGIN", spill, "INSERT INTO t VALUES (hex(randomblob(60000)))")
    assert "memory.db-journal" in names(folder)
    before = state(folder)
    assert before["memory.db"][1] != rest
    assert rows(saved(folder), tmp_path / "check") == rows(rest, tmp_path / "check")
    assert state(folder) == before


def test_files_that_never_hold_still_are_left_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(folder / "memory.db", *WAL[:1], *ROWS)
    moments = iter(range(1_000))
    monkeypatch.setattr(sqlite, "_state", lambda path: (next(moments), None, None))
    reason = "changed while it was read, 3 times in a row"
    assert read_folder(folder).left_out == (LeftOut("memory.db", reason),)
    (folder / "memory.db-wal").write_bytes(b"not a log")
    monkeypatch.setattr(sqlite, "_copy_state", lambda path, suffix: (next(moments), 0, 0))
    assert read_folder(folder).left_out == (LeftOut("memory.db", reason),)


def test_a_log_that_begins_while_an_idle_database_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(folder / "memory.db", *WAL[:1], *ROWS)
    real, calls = sqlite._backup, []

    def slow(*args: object) -> bytes:
        data = real(*args)  # type: ignore[arg-type]
        if not calls:
            calls.append(run(folder / "memory.db", "INSERT INTO t VALUES ('meanwhile')"))
        return data

    monkeypatch.setattr(sqlite, "_backup", slow)
    assert b"meanwhile" in saved(folder)
    assert calls


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda data: data[:60], "header is damaged"),
        (lambda data: data[:16] + b"\0\3" + data[18:], "header is damaged"),
        (lambda data: data + b"\0", "whole number of pages"),
        (lambda data: data[:18] + b"\x09\x09" + data[20:], "file is not a database|unsupported"),
        (lambda data: data[:100] + b"\xff" * (len(data) - 100), "malformed"),
    ],
)
def test_what_only_looks_like_a_database_is_saved_as_it_is(
    folder: Path, damage: object, why: str, tmp_path: Path
) -> None:
    run(folder / "memory.db", *ROWS)
    spoiled = damage((folder / "memory.db").read_bytes())  # type: ignore[operator]
    (folder / "memory.db").write_bytes(spoiled)
    (folder / "memory.db-journal").write_bytes(b"\xff")
    capture = read_folder(folder)
    assert capture.left_out == ()
    (note,) = capture.notes
    assert note.name == "memory.db"
    assert re.search(f"saved as it is: .*({why})", note.text)
    write_folder(capture.documents, tmp_path / "dst")
    assert files(tmp_path / "dst") == {"MEMORY.md": b"m", "memory.db": spoiled, "memory.db-journal": b"\xff"}


def test_a_damaged_database_that_this_process_has_open(folder: Path) -> None:
    run(folder / "memory.db", *ROWS)
    spoiled = (folder / "memory.db").read_bytes()[:100] + b"\xff" * 4096
    (folder / "memory.db").write_bytes(spoiled[:4096])
    with (folder / "memory.db").open("rb"):
        capture = read_folder(folder)
    assert [note.name for note in capture.notes] == ["memory.db"]
    assert split_documents(capture.documents)[0]["memory.db"] == spoiled[:4096]


@posix
def test_a_database_that_this_process_has_open_is_opened_by_sqlite_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(folder / "memory.db", *ROWS)

    def fail(*_: object) -> bytes:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(sqlite, "_copy_in_place", fail)
    monkeypatch.setattr(sqlite, "_copy_apart", None)
    with (folder / "memory.db").open("rb") as file:
        # Neither to write nor closed: these are passed over.
        with (folder / "memory.db").open("ab"):
            (note,) = read_folder(folder).notes
        assert not file.closed
    assert note.text.endswith("saved as it is: disk I/O error")


def test_where_descriptors_cannot_be_listed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(folder / "memory.db", *ROWS)
    monkeypatch.setattr(_contents, "_DESCRIPTORS", folder / "missing")
    assert saved(folder) == (folder / "memory.db").read_bytes()


def test_a_file_put_in_the_place_of_a_database_is_not_taken_for_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(folder / "memory.db", *ROWS)
    real = sqlite._backup

    def swapping(*args: object) -> bytes:
        shutil.copyfile(folder / "memory.db", folder / "other")
        (folder / "other").replace(folder / "memory.db")
        return real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(sqlite, "_backup", swapping)
    assert read_folder(folder).left_out == (LeftOut("memory.db", "replaced by another file while it was read"),)


def test_files_beside_a_database_that_were_named_too_are_a_part_of_it(folder: Path) -> None:
    with held(folder / "memory.db", *WAL, *ROWS):
        capture = read_paths([path for path in folder.iterdir() if path.name.startswith("memory.db")])
    assert set(split_documents(capture.documents)[0]) == {"memory.db"}
    assert capture.left_out == ()


def test_files_of_such_names_without_a_database_are_files(folder: Path) -> None:
    make(folder, {"a": b"text", "a-wal": b"1", "a-journal": b"2", "b-shm": b"3"})
    assert {"a-wal", "a-journal", "b-shm"} <= set(read_folder(folder).documents)


def test_an_interrupt_leaves_nothing_behind(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(folder / "memory.db", *ROWS)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(sqlite.tempfile, "tempdir", str(scratch))

    def interrupt(*_: object) -> None:
        assert list(scratch.iterdir())
        raise KeyboardInterrupt

    before = tree(folder)
    monkeypatch.setattr(sqlite, "_restore_counters", interrupt)
    with pytest.raises(KeyboardInterrupt):
        read_folder(folder)
    assert list(scratch.iterdir()) == []
    assert tree(folder) == before
    assert set(files(folder)) == {"MEMORY.md", "memory.db"}
