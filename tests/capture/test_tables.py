"""Tables of SQLite as text and back: every value exactly, nothing lost unsaid, nothing out of a vault obeyed."""

from __future__ import annotations

import math
import sqlite3
from contextlib import closing

import pytest

from colony_memory import ColonyMemoryError, SnapshotCorrupt
from colony_memory.capture.tables import SqliteTables

SCHEMA = """
CREATE TABLE things (name TEXT PRIMARY KEY, value, size REAL) WITHOUT ROWID;
CREATE TABLE log (line TEXT);
CREATE TRIGGER noted AFTER INSERT ON things BEGIN INSERT INTO log VALUES ('trigger'); END;
"""
VALUES = [
    None,
    0,
    -1,
    2**63 - 1,
    -(2**63),
    0.1,
    -0.0,
    1e308,
    math.inf,
    -math.inf,
    "",
    "ä",
    "a\nb\0c\u2028",
    b"",
    b"\0\xff",
]


def made(path, script="", schema=SCHEMA):
    with closing(sqlite3.connect(path)) as database:
        database.executescript(schema + script)
    return path


def captured(folder, source=None):
    return (source or SqliteTables("a.db", SCHEMA)).capture(folder, max_bytes=10**8)


def restored(folder, documents, source=None):
    from colony_memory.capture import write_folder

    write_folder((source or SqliteTables("a.db", SCHEMA)).restore(documents), folder)
    return folder / "a.db"


def rows(path, query):
    with closing(sqlite3.connect(path)) as database:
        database.text_factory = lambda data: ("text", data)
        return database.execute(query).fetchall()


def test_every_value_comes_back_as_it_was(tmp_path):
    path = made(tmp_path / "a.db")
    with closing(sqlite3.connect(path)) as database, database:
        for number, value in enumerate(VALUES):
            database.execute("INSERT INTO things VALUES (?, ?, 1)", (f"{number}", value))
        database.execute("INSERT INTO things VALUES ('bad', CAST(x'ff41' AS TEXT), 2.5)")
        database.execute("PRAGMA user_version=7")
        database.execute("PRAGMA application_id=-3")
    part = captured(tmp_path)
    assert part.left_out == ()
    assert part.counts == {"rows of log": len(VALUES) + 1, "rows of things": len(VALUES) + 1}
    assert dict(captured(tmp_path).documents) == dict(part.documents)
    again = restored(tmp_path / "new", part.documents)
    for query in (
        "SELECT *, typeof(value), typeof(size) FROM things ORDER BY name",
        "SELECT line FROM log",  # the trigger did not run once more
        "SELECT type, name, sql FROM sqlite_master ORDER BY name",
        "PRAGMA user_version",
        "PRAGMA application_id",
        "PRAGMA journal_mode",
    ):
        assert rows(again, query) == rows(path, query), query
    assert repr(rows(again, "SELECT value FROM things WHERE name='6'")) == "[(-0.0,)]"


def test_what_the_schema_does_not_name_is_said(tmp_path):
    made(
        tmp_path / "a.db",
        "ALTER TABLE log ADD COLUMN extra; CREATE TABLE other (a); CREATE VIRTUAL TABLE found USING fts5(a);"
        "CREATE TABLE found_by (a);",
    )
    part = captured(tmp_path)
    assert [str(each) for each in part.left_out] == [
        "a.db/found_by: a table that its schema does not name",
        "a.db/log.extra: a column that its schema does not name",
        "a.db/other: a table that its schema does not name",
        "a.db/found: a virtual table, which is not saved",
    ]
    assert sorted(part.documents) == ["a.db/database.json", "a.db/log.jsonl", "a.db/things.jsonl"]


def test_an_older_database_comes_back_under_a_newer_schema(tmp_path):
    old = SqliteTables("a.db", "CREATE TABLE log (line TEXT);")
    made(tmp_path / "a.db", "INSERT INTO log VALUES ('x');", old.schema)
    new = SqliteTables("a.db", "CREATE TABLE log (line TEXT, level TEXT DEFAULT 'info'); CREATE TABLE more (a);")
    part = captured(tmp_path, new)
    assert part.left_out == ()
    assert rows(restored(tmp_path / "new", part.documents, new), "SELECT * FROM log") == [
        (("text", b"x"), ("text", b"info"))
    ]
    with pytest.raises(SnapshotCorrupt, match="is of no table"):
        restored(tmp_path / "older", captured(tmp_path, new).documents, old)


def test_a_schema_may_be_what_its_program_does(tmp_path):
    def setup(connection):
        connection.execute("PRAGMA journal_mode=WAL")
        connection.executescript(SCHEMA)
        connection.execute("INSERT INTO log VALUES ('filled in by setup')")

    source = SqliteTables("a.db", setup)
    with closing(sqlite3.connect(tmp_path / "a.db")) as database:
        setup(database)
        database.execute("UPDATE log SET line = 'kept'")
        database.commit()
        part = captured(tmp_path, source)
    again = restored(tmp_path / "new", part.documents, source)
    assert rows(again, "SELECT line FROM log") == [(("text", b"kept"),)]
    assert rows(again, "PRAGMA journal_mode") == [(("text", b"wal"),)]
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["a.db"]


@pytest.mark.parametrize(
    ("schema", "why"), [("", "makes no table"), ('CREATE TABLE "a/b" (c)', "cannot be part of a document")]
)
def test_schemas_that_cannot_be(tmp_path, schema, why):
    made(tmp_path / "a.db")
    with pytest.raises(ValueError, match=why):
        captured(tmp_path, SqliteTables("a.db", schema))


def test_what_is_no_database_is_said(tmp_path):
    (tmp_path / "a.db").write_bytes(b"SQLite format 3\0" + b"\0" * 200)
    with pytest.raises(ColonyMemoryError, match="cannot be captured"):
        captured(tmp_path)
    made(tmp_path / "b.db")
    data = bytearray((tmp_path / "b.db").read_bytes())
    data[100:4096] = b"\xff" * 3996
    (tmp_path / "a.db").write_bytes(data)
    with pytest.raises(ColonyMemoryError, match="cannot be captured"):
        captured(tmp_path)


HEAD = '{"application_id": 0, "logs_ahead": false, "sequences": {}, "user_version": 0}'


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("log", '["line"]'),
        ("log", ""),
        ("log", "{}\n"),
        ("log", "[1]\n"),
        ("log", '["line","line"]\n'),
        ("log", '["lime"]\n'),
        ("log", '["line\\") SELECT 1; --"]\n'),
        ("log", '["line"]\n[]\n'),
        ("log", '["line"]\n[1,2]\n'),
        ("log", '["line"]\nnull\n'),
        ("log", '["line"]\n[true]\n'),
        ("log", '["line"]\n[[1]]\n'),
        ("log", '["line"]\n[{"blob":"x"}]\n'),
        ("log", '["line"]\n[{"blob":7}]\n'),
        ("log", '["line"]\n[{"text":"ä"}]\n'),
        ("log", '["line"]\n[{"real":"nan"}]\n'),
        ("log", '["line"]\n[{"sql":"eA=="}]\n'),
        ("log", '["line"]\n[NaN]\n'),
        ("log", '["line"]\n[9223372036854775808]\n'),
        ("log", '["line"]\n["\\ud800"]\n'),
        ("log", '["line"]\n' + "[" * 100_000 + "\n"),
        ("things", '["name"]\n["a"]\n["a"]\n'),
        ("things", '["name"]\n[null]\n'),
        ("database", "{}"),
        ("database", "["),
        ("database", HEAD.replace("false", "0")),
        ("database", HEAD.replace("{}", '{"log": 1}')),
        ("database", HEAD.replace("{}", '{"sqlite_master": 1}')),
        ("database", HEAD.replace("{}", '{"log": -1}')),
        ("database", HEAD.replace(": 0,", ': "0; DROP TABLE log",')),
        ("database", HEAD.replace(": 0,", ": 4294967296,")),
        ("sqlite_master", '["name"]\n["a"]\n'),
        ("other", '["a"]\n'),
    ],
)
def test_nothing_that_does_not_fit_is_restored(tmp_path, name, text):
    documents = {
        "a.db/database.json": HEAD,
        "a.db/log.jsonl": '["line"]\n["x"]\n',
        "a.db/things.jsonl": '["name"]\n',
    }
    SqliteTables("a.db", SCHEMA).restore(documents)
    suffix = "json" if name == "database" else "jsonl"
    with pytest.raises(SnapshotCorrupt):
        SqliteTables("a.db", SCHEMA).restore({**documents, f"a.db/{name}.{suffix}": text})


def test_a_head_that_is_missing_is_refused():
    with pytest.raises(SnapshotCorrupt, match="is missing"):
        SqliteTables("a.db", SCHEMA).restore({"a.db/log.jsonl": '["line"]\n'})
