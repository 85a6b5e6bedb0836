import base64
import contextlib
import os
import re
import shutil
import sqlite3
import struct
import sys
import warnings
from pathlib import Path

import pytest
from capture_trees import contents, files, held, make, metadata, names, posix, running

from colony_memory.capture import LeftOut, read_folder, read_paths, sqlite, write_folder
from colony_memory.capture._metadata import split_documents
from colony_memory.exceptions import ColonyMemoryWarning

WAL = ("PRAGMA journal_mode=WAL", "PRAGMA wal_autocheckpoint=0")
ROWS = ("CREATE TABLE t(x UNIQUE)", "INSERT INTO t VALUES ('committed'), (hex(randomblob(9000)))")


def crash(path, *statements):
    with held(path, *statements, kill=True):
        pass


def run(path, *statements):
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        return [database.execute(statement).fetchall() for statement in statements][-1]


def saved(folder, name="memory.db"):
    capture = read_folder(folder, secrets="allow")
    assert capture.left_out == ()
    assert capture.notes == ()
    contents, _ = split_documents(capture.documents)
    assert not [each for each in contents if each.endswith(("-wal", "-shm", "-journal"))]
    content = contents[name]
    assert isinstance(content, bytes)
    return content


def rows(data, where):
    """The first columns, of a database that is whole and needs nothing beside it."""
    where.mkdir()
    (where / "copy").write_bytes(data)
    assert run(where / "copy", "PRAGMA integrity_check") == [("ok",)]
    found = {value for (value,) in run(where / "copy", "SELECT x FROM t")}
    shutil.rmtree(where)
    return found


def state(folder):
    return {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in sorted(folder.iterdir())}


@pytest.fixture
def folder(tmp_path):
    return make(tmp_path / "src", {"MEMORY.md": b"m"})


def test_a_log_that_another_process_has_open_is_merged(folder, tmp_path):
    database = folder / "memory.db"
    with held(database, *WAL, *ROWS, "BEGIN", "INSERT INTO t VALUES ('uncommitted')"):
        before = {name: each for name, each in state(folder).items() if not name.endswith("-shm")}
        assert set(before) == {"MEMORY.md", "memory.db", "memory.db-wal"}
        first, second = saved(folder), saved(folder)
        write_folder(read_folder(folder, secrets="allow").documents, tmp_path / "dst")
        assert before == {name: each for name, each in state(folder).items() if not name.endswith("-shm")}
    found = rows(first, tmp_path / "check")
    assert "committed" in found
    assert "uncommitted" not in found
    assert second == first
    assert names(tmp_path / "dst") == ["MEMORY.md", "memory.db"]
    assert ("committed",) in run(tmp_path / "dst/memory.db", "SELECT x FROM t")
    assert run(tmp_path / "dst/memory.db", "PRAGMA journal_mode") == [("wal",)]
    # The log is merged when the last one closes the database: the content is the same, and so is the copy.
    assert names(folder) == ["MEMORY.md", "memory.db"]
    assert saved(folder) == first == database.read_bytes()


@pytest.mark.parametrize("mode", ["DELETE", "PERSIST", "WAL"])
@pytest.mark.parametrize("page_size", [512, 65536])
def test_a_database_at_rest_is_saved_byte_for_byte(folder, mode, page_size):
    run(folder / "memory.db", f"PRAGMA page_size={page_size}", f"PRAGMA journal_mode={mode}", *ROWS)
    run(folder / "memory.db", "CREATE INDEX i ON t(x)", "DROP INDEX i", "DELETE FROM t WHERE x != 'committed'")
    before = state(folder)
    assert saved(folder) == (folder / "memory.db").read_bytes()
    assert state(folder) == before


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_a_transaction_of_another_process_that_goes_on_does_not_matter(folder, tmp_path, mode):
    run(folder / "memory.db", f"PRAGMA journal_mode={mode}", *ROWS)
    rest = (folder / "memory.db").read_bytes()
    with held(folder / "memory.db", "BEGIN IMMEDIATE", "INSERT INTO t VALUES ('uncommitted')"):
        assert saved(folder) == rest


def test_a_database_that_this_process_has_open(folder, tmp_path):
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


def test_a_database_that_stays_locked_is_left_out_whole(folder, monkeypatch):
    monkeypatch.setattr(sqlite, "_WAIT", 0.2)
    run(folder / "memory.db", *ROWS)
    with held(folder / "memory.db", "BEGIN EXCLUSIVE", "INSERT INTO t VALUES ('uncommitted')"):
        assert "memory.db-journal" in names(folder)
        capture = read_folder(folder)
    assert contents(capture) == {"MEMORY.md": "m"}
    assert capture.left_out == (
        LeftOut("memory.db", "locked by another program for 0.2 seconds"),
        LeftOut("memory.db-journal", "a part of 'memory.db', which is left out"),
    )


def test_a_lock_that_goes_is_waited_for(folder, monkeypatch):
    run(folder / "memory.db", *ROWS)
    rest = (folder / "memory.db").read_bytes()
    with contextlib.ExitStack() as stack:
        stack.enter_context(held(folder / "memory.db", "BEGIN EXCLUSIVE"))
        monkeypatch.setattr(sqlite.time, "sleep", lambda _: stack.close())
        assert saved(folder) == rest


@pytest.mark.parametrize("beside", [("-wal",), ("-wal", "-shm")])
def test_what_a_crash_left_is_merged_in_the_copy_only(folder, tmp_path, beside):
    """Also where the log was moved to another host without its index, or its program keeps that to itself."""
    crash(tmp_path / "memory.db", *WAL, *ROWS)
    for suffix in ("", *beside):
        shutil.move(tmp_path / f"memory.db{suffix}", folder / f"memory.db{suffix}")
    before = state(folder)
    first = saved(folder)
    assert "committed" in rows(first, tmp_path / "check")
    assert saved(folder) == first
    assert state(folder) == before
    with held(folder / "memory.db", "PRAGMA locking_mode=EXCLUSIVE", "INSERT INTO t VALUES ('later')"):
        assert "later" in rows(saved(folder), tmp_path / "check")


def hot_journal(folder):
    """What a program leaves that is killed in the middle of a transaction: a cache of few pages has overflowed."""
    run(folder / "memory.db", "PRAGMA page_size=512", *ROWS)
    spill = "UPDATE t SET x = x || hex(randomblob(60000))"
    crash(folder / "memory.db", "PRAGMA cache_size=2", "BEGIN", spill, "INSERT INTO t VALUES (hex(randomblob(60000)))")
    return folder / "memory.db-journal"


def test_a_journal_is_rolled_back_in_the_copy_only(folder, tmp_path):
    assert hot_journal(folder).exists()
    before = state(folder)
    assert "committed" in rows(saved(folder), tmp_path / "check")
    assert state(folder) == before


def change_while_read(monkeypatch, act):
    real, calls = sqlite.still_holds, []

    def holding(*args, **more):
        calls.append(args)
        act(len(calls))
        return real(*args, **more)

    monkeypatch.setattr(sqlite, "still_holds", holding)


@pytest.mark.parametrize("suffix", ["", "-wal", "-journal"])
def test_files_that_never_hold_still_are_left_out(folder, monkeypatch, suffix):
    monkeypatch.setattr(sqlite, "_WAIT", 0.1)
    monkeypatch.setattr(sqlite, "_PAUSE", 0.001)
    database = folder / "memory.db"
    run(database, *WAL[:1], *ROWS)
    make(folder, {"memory.db-wal": sqlite._LOG_MAGIC[0] + b"x" * 99, "memory.db-journal": b"\0" * 99})

    def change(number):
        with (folder / f"memory.db{suffix}").open("r+b") as file:
            file.seek(60)
            file.write(f"{number:9}".encode())

    change_while_read(monkeypatch, change)
    capture = read_folder(folder)
    assert [each.name for each in capture.left_out] == ["memory.db", "memory.db-journal", "memory.db-wal"]
    assert re.fullmatch(r"changed while it was read, \d+ times in a row", capture.left_out[0].reason)
    assert set(contents(capture)) == {"MEMORY.md"}


@pytest.mark.parametrize(("change", "found"), [("a log begins", "meanwhile"), ("another takes its place", "other")])
def test_what_changes_while_a_database_is_read_is_not_mixed(folder, tmp_path, monkeypatch, change, found):
    database, begins = folder / "memory.db", change == "a log begins"
    run(database, *WAL[:1], *ROWS) if begins else crash(database, *WAL, *ROWS)
    run(tmp_path / "other.db", *WAL[:1], "CREATE TABLE t(x)", "INSERT INTO t VALUES ('other')")
    with contextlib.ExitStack() as stack:

        def act(number):
            if number == 1 and begins:
                stack.enter_context(held(database, *WAL[1:], "INSERT INTO t VALUES ('meanwhile')"))
            elif number == 1:
                (tmp_path / "other.db").replace(database)
                (folder / "memory.db-wal").unlink()

        change_while_read(monkeypatch, act)
        there = rows(saved(folder), tmp_path / "check")
    assert found in there
    assert ("committed" in there) == begins


def test_a_log_that_only_grows_meanwhile_is_merged_up_to_where_it_was(folder, tmp_path, monkeypatch):
    with contextlib.closing(sqlite3.connect(folder / "memory.db", isolation_level=None)) as database:
        for statement in (*WAL, *ROWS):
            database.execute(statement).fetchall()
        change_while_read(monkeypatch, lambda number: run(folder / "memory.db", f"INSERT INTO t VALUES ({number})"))
        assert rows(saved(folder), tmp_path / "check").isdisjoint(range(1, 99))


def test_a_database_that_another_process_writes_to_all_the_time(folder, tmp_path):
    writer = """
import sqlite3, sys, time
database = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)
number = 0
while True:
    number += 1
    database.execute("BEGIN IMMEDIATE")
    database.executemany("INSERT INTO t VALUES (?)", [(f"{number}.{part}" + "x" * 500,) for part in range(7)])
    database.execute("DELETE FROM t WHERE rowid <= ?", [7 * (number - 100)])  # or a fast disk fills with it
    database.execute("COMMIT")
    time.sleep(0.002)  # what a disk takes, were it one
    if number == 3:
        print("ready", flush=True)
"""
    for mode in ("DELETE", "WAL"):
        database = folder / "memory.db"
        database.unlink(missing_ok=True)
        run(database, f"PRAGMA journal_mode={mode}", "CREATE TABLE t(x)")
        with running(writer, database, kill=True):
            copies = [saved(folder) for _ in range(5)]
        for copy in copies:
            assert len(rows(copy, tmp_path / "check")) % 7 == 0  # no transaction is torn


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda data: data[:60], "header is damaged"),
        (lambda data: data[:16] + b"\0\3" + data[18:], "header is damaged"),
        (lambda data: data + b"\0", "whole number of pages"),
        (lambda data: data[:100] + b"\xff" * (len(data) - 100), None),
    ],
)
def test_what_only_looks_like_a_database_is_saved_as_it_is(folder, damage, why, beside, tmp_path):
    run(folder / "memory.db", *ROWS)
    spoiled = damage((folder / "memory.db").read_bytes())
    make(folder, {"memory.db": spoiled, "memory.db-journal": b"\xff"})
    expected = {"MEMORY.md": b"m", "memory.db": spoiled, "memory.db-journal": b"\xff"}
    if beside:
        expected |= make_log(folder)
    capture = read_folder(folder)
    assert capture.left_out == ()
    if why is not None:
        (note,) = capture.notes
        assert note.name == "memory.db"
        assert re.search(f"saved as it is: .*({why})", note.text)
        assert written(capture, tmp_path / "dst") == expected
    else:
        assert set(split_documents(capture.documents)[0]) >= {"memory.db", "memory.db-journal"}


def written(capture, where):
    """What a restore writes, the log of a database under the name that it had."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColonyMemoryWarning)
        write_folder(capture.documents, where)
    return {name.removesuffix(".saved"): content for name, content in files(where).items()}


def make_log(folder):
    log = {"memory.db-wal": sqlite._LOG_MAGIC[1] + b"\0" * 60}
    make(folder, log)
    return log


@pytest.mark.parametrize(
    "beside",
    [
        {"memory.db-wal": b"my own text", "memory.db-journal": b"a diary", "memory.db-shm": b"more"},
        {f"memory.db{suffix}/notes.md": b"notes" for suffix in ("-wal", "-journal", "-shm")},
        {"a": b"text", "a-wal": b"1", "a-journal": b"2", "b-shm": b"3"},
    ],
)
def test_what_is_beside_a_database_and_not_of_it_is_saved_too(folder, tmp_path, beside):
    run(folder / "memory.db", *ROWS)
    before = files(make(folder, beside))
    capture = read_folder(folder)
    write_folder(capture.documents, tmp_path / "dst")
    assert files(tmp_path / "dst") == before
    assert (capture.left_out, capture.notes) == ((), ())


@posix
@pytest.mark.parametrize("suffix", ["-wal", "-journal", "-shm"])
def test_a_link_of_such_a_name_is_not_followed(folder, tmp_path, suffix):
    run(folder / "memory.db", *ROWS)
    crash(tmp_path / "other.db", *WAL, *ROWS)
    (folder / f"memory.db{suffix}").symlink_to(tmp_path / "other.db-wal")
    capture = read_folder(folder)
    contents, _ = split_documents(capture.documents)
    assert contents["memory.db"] == (folder / "memory.db").read_bytes()
    assert [each.name for each in capture.left_out] == [f"memory.db{suffix}"]


def naming(victim):
    """The end of a journal that belongs to a transaction over several databases."""
    name, magic = str(victim).encode(), sqlite._JOURNAL_MAGIC
    return (
        struct.pack(">I", 0x40000000 // 512 + 1)
        + name
        + struct.pack(">2I", len(name), sum(each - 256 if each > 127 else each for each in name) & 0xFFFFFFFF)
        + magic
    )


def test_a_journal_that_names_a_file_is_not_played_back(folder, tmp_path):
    """SQLite would delete that file."""
    victim = make(tmp_path, {"agent.pem": b"the only copy"}) / "agent.pem"
    with hot_journal(folder).open("ab") as file:
        file.write(naming(victim))
    before = state(folder)
    capture = read_folder(folder, secrets="allow")
    assert victim.read_bytes() == b"the only copy"
    assert state(folder) == before
    with pytest.warns(ColonyMemoryWarning, match=r"'memory\.db-journal' is written as 'memory\.db-journal\.saved'"):
        write_folder(capture.documents, tmp_path / "dst")
    expected = {name: content for name, (_, content) in before.items()}
    expected["memory.db-journal.saved"] = expected.pop("memory.db-journal")
    assert files(tmp_path / "dst") == expected
    assert capture.left_out == ()
    assert "names a file of another database" in capture.notes[0].text
    run(tmp_path / "dst/memory.db", "SELECT count(*) FROM sqlite_master")
    assert victim.read_bytes() == b"the only copy"


@pytest.mark.parametrize("name", ["memory.db-journal", "memory.db-wal"])
@pytest.mark.parametrize("there", ["in the snapshot", "in the folder", "nowhere"])
def test_a_journal_out_of_a_vault_is_never_one_here(tmp_path, name, there):
    victim = make(tmp_path, {"agent.pem": b"the only copy"}) / "agent.pem"
    make(tmp_path / "src", {})
    run(tmp_path / "src/memory.db", *ROWS)
    # Of a journal its end alone counts.
    planted = sqlite._LOG_MAGIC[0] + b"\0" * 60 if name.endswith("-wal") else b"my diary" + naming(victim)
    files = {name: base64.b64encode(planted).decode(), f"{name}.saved": base64.b64encode(b"\xff").decode()}
    if there == "in the snapshot":
        files["memory.db"] = base64.b64encode((tmp_path / "src/memory.db").read_bytes()).decode()
    elif there == "in the folder":
        make(tmp_path / "dst", {"memory.db": (tmp_path / "src/memory.db").read_bytes()})
    with pytest.warns(ColonyMemoryWarning, match=f"{name}.saved2"):
        write_folder(metadata(files=files), tmp_path / "dst")
    assert not (tmp_path / "dst" / name).exists()
    assert (tmp_path / "dst" / f"{name}.saved2").read_bytes() == planted
    if there != "nowhere":
        assert run(tmp_path / "dst/memory.db", "SELECT count(*) FROM t")
    assert victim.exists()


def test_sqlite_opens_nothing_but_copies(folder, tmp_path, monkeypatch):
    hot_journal(folder)
    crash(folder / "log.db", *WAL, *ROWS)
    run(folder / "idle.db", *ROWS)
    opened, real = [], sqlite3.connect

    def connect(path, **more):
        opened.append(Path(str(path)))
        return real(path, **more)

    monkeypatch.setattr(sqlite3, "connect", connect)
    assert read_folder(folder, secrets="allow").left_out == ()
    assert len(opened) == 2
    assert all(path.name == "database" and folder not in path.parents for path in opened)
    assert not any(path.parent.exists() for path in opened)


@posix
@pytest.mark.parametrize("lack", ["No such file or directory", "database or disk is full", "this Python has none"])
def test_what_is_lacking_to_merge_is_not_taken_for_damage(folder, tmp_path, monkeypatch, lack):
    crash(folder / "memory.db", *WAL, *ROWS)
    run(folder / "idle.db", *ROWS)

    def connect(*_, **__):
        raise sqlite3.OperationalError(lack)

    if lack.startswith("No such"):
        monkeypatch.setattr(sqlite.tempfile, "tempdir", str(tmp_path / "missing"))
    elif lack.startswith("this"):
        monkeypatch.setitem(sys.modules, "sqlite3", None)
    else:
        monkeypatch.setattr(sqlite3, "connect", connect)
    capture = read_folder(folder)
    assert {"idle.db", "MEMORY.md"} == set(split_documents(capture.documents)[0])
    assert capture.notes == ()
    reasons = {each.name: each.reason for each in capture.left_out}
    assert reasons.keys() == {"memory.db", "memory.db-wal", "memory.db-shm"}
    assert "what is beside it" in reasons["memory.db"]
    assert lack in reasons["memory.db"]


def test_a_log_that_promises_a_giant_database_is_left_out(folder, monkeypatch):
    crash(folder / "memory.db", *WAL, *ROWS)
    real = sqlite.Path.stat

    def stat(path, **more):
        found = real(path, **more)
        return os.stat_result((*found[:6], 1 << 40, *found[7:])) if path.name == "database" else found

    monkeypatch.setattr(sqlite.Path, "stat", stat)
    assert "1.1 TB" in str(read_folder(folder).left_out[0])


@posix
def test_a_journal_kept_in_memory_shows_in_the_lock_alone(folder, monkeypatch):
    monkeypatch.setattr(sqlite, "_WAIT", 0.1)
    run(folder / "memory.db", "PRAGMA page_size=512", *ROWS)
    spill = (
        "PRAGMA journal_mode=MEMORY",
        "PRAGMA cache_size=2",
        "BEGIN",
        "UPDATE t SET x = x || hex(randomblob(60000))",
    )
    rest = (folder / "memory.db").read_bytes()
    with held(folder / "memory.db", *spill):
        assert (folder / "memory.db").read_bytes() != rest
        assert read_folder(folder).left_out == (LeftOut("memory.db", "locked by another program for 0.1 seconds"),)
    with contextlib.closing(sqlite3.connect(folder / "memory.db", isolation_level=None)) as database:
        for statement in spill:
            database.execute(statement).fetchall()
        if sys.platform == "linux":  # where the locks of this process are told apart from its readers'
            assert [each.name for each in read_folder(folder).left_out] == ["memory.db"]
        database.execute("ROLLBACK")


def test_files_beside_a_database_that_were_named_too_are_a_part_of_it(folder):
    with held(folder / "memory.db", *WAL, *ROWS):
        capture = read_paths([path for path in folder.iterdir() if path.name.startswith("memory.db")])
    assert set(split_documents(capture.documents)[0]) == {"memory.db"}
    assert capture.left_out == ()
