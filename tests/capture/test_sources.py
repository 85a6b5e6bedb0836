"""Several stores below one root as one memory: what is captured, what is put back, and what a stranger's set may do."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from contextlib import closing

import pytest

from colony_memory import ColonyMemory, ColonyMemoryError, SecretsFound, SnapshotCorrupt
from colony_memory.app.sources import restore_sources, save_sources
from colony_memory.capture import LeftOut
from colony_memory.capture.sources import RECORD_NAME, Part, Source, SourceSet, compare_sources, file_documents
from colony_memory.capture.stores import GitDirectory, SqliteTables, StoredFile, agentmemory_store
from colony_memory.testing import FakeVault

SCHEMA = "CREATE TABLE events (id INTEGER PRIMARY KEY, text TEXT)"


@pytest.fixture
def memory():
    return ColonyMemory(backend=FakeVault(operations_per_hour=None))


def git(folder, *arguments):
    command = ["git", "-C", str(folder), "-c", "user.name=agent", "-c", "user.email=agent@example.org", *arguments]
    return subprocess.run(command, check=True, capture_output=True, encoding="utf-8").stdout


def commit(folder, name, text):
    (folder / name).write_text(text, encoding="utf-8")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", name)


def add_event(root, text):
    with closing(sqlite3.connect(root / "state.db")) as database, database:
        database.execute("INSERT INTO events (text) VALUES (?)", (text,))


def events(root):
    with closing(sqlite3.connect(root / "state.db")) as database:
        return [text for (text,) in database.execute("SELECT text FROM events ORDER BY id")]


@pytest.fixture
def root(tmp_path):
    """An agent's directory: a cursor, a database, a repository, and a file that is of no source."""
    folder = tmp_path / "agent"
    (folder / "notes").mkdir(parents=True)
    (folder / "cursor.json").write_text('{"event": 1}', encoding="utf-8")
    (folder / "own.log").write_text("not of the set", encoding="utf-8")
    with closing(sqlite3.connect(folder / "state.db")) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute(SCHEMA)
    add_event(folder, "born")
    git(folder / "notes", "init", "-q", "-b", "trunk")
    commit(folder / "notes", "a.md", "first")
    return folder


def as_set(root):
    return SourceSet(
        root,
        [StoredFile("cursor.json"), SqliteTables("state.db", SCHEMA, {"agent": "1.2"}), GitDirectory("notes")],
    )


def test_what_differs_is_counted(memory, root):
    assert compare_sources({}, as_set(root).capture().documents)[1].counts == {"commits": (0, 1), "files": (0, 1)}
    before = as_set(root).capture().documents
    assert not any(compare_sources(before, before))
    add_event(root, "spoke")
    add_event(root, "slept")
    commit(root / "notes", "b.md", "second")
    after = SourceSet(root, [*as_set(root).sources[::2], SqliteTables("state.db", SCHEMA, {"agent": "1.3"})]).capture()
    cursor, notes, state = compare_sources(before, after.documents)
    assert not cursor
    assert str(notes) == "notes: commits 1 -> 2, files 1 -> 2"
    assert str(state) == "state.db: rows of events 1 -> 3, agent 1.2 -> 1.3"
    record = json.loads(after.documents[RECORD_NAME])["sources"]
    assert record["notes"]["versions"]["git"][0].isdigit()


def test_nothing_that_is_saved_nowhere_is_overwritten_unasked(memory, root):
    first = save_sources(memory, as_set(root)).info.snapshot_id
    add_event(root, "later")
    commit(root / "notes", "b.md", "later")
    save_sources(memory, as_set(root))
    add_event(root, "saved nowhere")
    with pytest.raises(ColonyMemoryError, match=r"'state\.db' in .* is saved nowhere; nothing was written$"):
        restore_sources(memory, as_set(root), snapshot=first)
    assert not restore_sources(memory, as_set(root), snapshot=first, dry_run=True)
    assert events(root) == ["born", "later", "saved nowhere"]
    # Tables are made anew from their rows: nothing tells that the file is what was saved of it.
    assert restore_sources(memory, as_set(root), snapshot=first, force=True)
    assert events(root) == ["born"]
    # A repository keeps what it has: what came later is still there.
    assert git(root / "notes", "log", "--format=%s") == "b.md\na.md\n"
    assert (root / "own.log").read_text(encoding="utf-8") == "not of the set"


def test_a_database_that_is_open_is_not_replaced(memory, root):
    first = save_sources(memory, as_set(root)).info.snapshot_id
    with closing(sqlite3.connect(root / "state.db")) as database:
        database.execute("INSERT INTO events (text) VALUES ('now')")
        database.commit()
        with pytest.raises(ColonyMemoryError, match="nothing was written"):
            restore_sources(memory, as_set(root), snapshot=first)


@pytest.mark.parametrize("path", ["cursor.json", "state.db", "notes"])
def test_a_store_that_is_missing_is_said(root, path):
    (root / path).rename(root / "elsewhere")
    with pytest.raises(ValueError, match="cannot be read: there is none"):
        as_set(root).capture()


def test_no_link_is_followed(root, tmp_path):
    (tmp_path / "outside").write_text("secret", encoding="utf-8")
    (root / "cursor.json").unlink()
    (root / "cursor.json").symlink_to(tmp_path / "outside")
    with pytest.raises(ValueError, match="cannot be read"):
        as_set(root).capture()


def test_secrets_are_looked_for_in_every_store(memory, root):
    key = f"ghp_{'aB3dE5gH7jK9' * 3}"
    add_event(root, key)
    with pytest.raises(SecretsFound) as raised:
        save_sources(memory, as_set(root), secrets="stop")
    (finding,) = raised.value.findings
    assert finding.name == "state.db/events.jsonl"
    assert save_sources(memory, as_set(root), secrets="stop", allow_secrets=finding.id)
    with pytest.raises(ValueError, match="secrets must be one of"):
        save_sources(memory, as_set(root), secrets="mask")


# Killed on the way


@pytest.mark.parametrize("calls", range(6))
def test_a_history_that_was_cut_off_comes_with_the_next_restore(memory, root, tmp_path, monkeypatch, calls):
    from colony_memory.capture import git as bundles

    save_sources(memory, as_set(root))
    run, done = bundles._run, []

    def cut_off(repository, *arguments):
        if len(done) == calls:
            raise KeyboardInterrupt
        done.append(arguments)
        return run(repository, *arguments)

    monkeypatch.setattr(bundles, "_run", cut_off)
    with pytest.raises(KeyboardInterrupt):
        restore_sources(memory, as_set(tmp_path / "new"))
    monkeypatch.setattr(bundles, "_run", run)
    assert events(tmp_path / "new") == ["born"]
    assert (tmp_path / "new" / "notes" / ".git.bundle").exists()
    assert restore_sources(memory, as_set(tmp_path / "new"))
    assert git(tmp_path / "new" / "notes", "log", "--format=%s") == "a.md\n"
    assert git(tmp_path / "new" / "notes", "status", "--short") == ""


def test_a_damaged_bundle_is_said_and_stays(memory, root, tmp_path):
    documents = as_set(root).capture().documents
    folder = json.loads(documents[".colony-memory/folder.json"])
    folder["files"]["notes/.git.bundle"] = "bm90IGEgYnVuZGxl"
    documents[".colony-memory/folder.json"] = json.dumps(folder)
    with pytest.raises(ColonyMemoryError, match="are in place, and its history is not"):
        as_set(tmp_path / "new").restore(documents)
    assert (tmp_path / "new" / "notes" / ".git.bundle").exists()
    assert not (tmp_path / "new" / "notes" / ".git").exists()


def test_a_repository_elsewhere_is_not_touched(memory, root, tmp_path):
    save_sources(memory, as_set(root))
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    commit(other, "o.md", "of somebody else")
    (tmp_path / "new" / "notes").mkdir(parents=True)
    (tmp_path / "new" / "notes" / ".git").symlink_to(other / ".git")
    with pytest.raises(ColonyMemoryError, match="leads out of the folder"):
        restore_sources(memory, as_set(tmp_path / "new"))
    assert git(other, "for-each-ref", "--format=%(refname)") in ("refs/heads/main\n", "refs/heads/master\n")


# Sets that do not fit


def test_sets_that_cannot_be(root):
    class Half:
        kind, path = "half", "half"

    for root_given in ("", None, 7):
        with pytest.raises(ValueError, match="path"):
            SourceSet(root_given, [StoredFile("a")])
    for sources, why in (
        (StoredFile("a"), "as a list"),
        ([], "needs at least one source"),
        ([Half()], "is not a source"),
        ([StoredFile("../out")], "path component"),
        ([StoredFile(".git/config")], "looks for programs"),
        ([StoredFile(".colony-memory/x")], "own record"),
        ([StoredFile("a"), StoredFile("a")], "given twice"),
        ([StoredFile("a-b"), GitDirectory("a"), StoredFile("a/b")], "lies within 'a'"),
    ):
        with pytest.raises(ValueError, match=why):
            SourceSet(root, sources)


def test_what_another_set_saved_is_refused(memory, root, tmp_path):
    documents = as_set(root).capture().documents
    new = tmp_path / "new"
    with pytest.raises(ValueError, match=r"has the source 'notes' of kind 'git', which this set does not have"):
        SourceSet(new, as_set(root).sources[:2]).restore(documents)
    with pytest.raises(ValueError, match="which this set does not have"):
        SourceSet(new, [*as_set(root).sources[:2], StoredFile("notes")]).restore(documents)
    with pytest.raises(ValueError, match="no snapshot of a set"):
        as_set(new).restore({"a": "b"})
    assert not new.exists()
    # One that came to be later is left as it is.
    assert SourceSet(new, [*as_set(root).sources, StoredFile("later.json")]).restore(documents)


@pytest.mark.parametrize(
    "record",
    [
        "{",
        "[]",
        '{"format": "colony-memory/sources/2", "sources": {}}',
        '{"format": "colony-memory/sources/1"}',
        '{"format": "colony-memory/sources/1", "sources": {"a": 1}}',
        '{"format": "colony-memory/sources/1", "sources": {"../a": {"kind": "file", "counts": {}, "versions": {}}}}',
        '{"format": "colony-memory/sources/1", "sources": {"a": {"kind": "b", "counts": {"c": "1"}, "versions": {}}}}',
        '{"format": "colony-memory/sources/1", "sources": {"a": {"kind": "b", "counts": {"c": true}, "versions": {}}}}',
    ],
)
def test_a_record_that_is_none_is_refused(root, tmp_path, record):
    documents = {**as_set(root).capture().documents, RECORD_NAME: record}
    with pytest.raises(SnapshotCorrupt):
        as_set(tmp_path / "new").restore(documents)
    assert not (tmp_path / "new").exists()


def test_a_file_of_no_source_is_refused(root, tmp_path):
    documents = as_set(root).capture().documents
    for name in ("stray.md", "notesx/a.md", "state.db/more.jsonl", "../a"):
        with pytest.raises(SnapshotCorrupt):
            as_set(tmp_path / "new").restore({**documents, name: "x\n"})
    assert not (tmp_path / "new").exists()


# Sources of others


class Upper:
    """Somebody's own source: it keeps text in capitals."""

    kind, path = "upper", "upper.txt"

    def capture(self, root, *, max_bytes):
        text = (root / self.path).read_text(encoding="utf-8")
        left_out = (LeftOut("upper.txt", "half of it"),) if "half" in text else ()
        return Part({"upper.txt/text": text.upper()}, {"letters": len(text)}, {"upper": "1"}, left_out)

    def restore(self, documents):
        return file_documents({self.path: documents["upper.txt/text"].lower().encode()})


class Greedy(Upper):
    def restore(self, documents):
        return file_documents({"elsewhere": b"x"})


def test_a_source_of_others(memory, tmp_path):
    assert isinstance(Upper(), Source)
    (tmp_path / "upper.txt").write_text("half", encoding="utf-8")
    saved = save_sources(memory, SourceSet(tmp_path, [Upper()]))
    assert not saved
    assert saved.info.incomplete == ("upper.txt: half of it",)
    restore_sources(memory, SourceSet(tmp_path / "new", [Upper()]))
    assert (tmp_path / "new" / "upper.txt").read_text(encoding="utf-8") == "half"
    with pytest.raises(ValueError, match="gave 'elsewhere', which is not its own"):
        restore_sources(memory, SourceSet(tmp_path / "new", [Greedy()]))


def test_two_writers_of_a_set_are_not_merged(memory, root):
    with pytest.raises(ValueError, match="joins texts"):
        save_sources(memory, as_set(root), on_conflict="merge")


def test_an_agentmemory_store(memory, tmp_path):
    """With a writer that has a transaction open: what is committed is saved, and ids are not given twice."""
    with closing(sqlite3.connect(tmp_path / "agentmemory.db")) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.executescript(
            "CREATE TABLE kv_store (scope TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, "
            "PRIMARY KEY (scope, key));"
            "CREATE TABLE audit_log (id INTEGER PRIMARY KEY AUTOINCREMENT, ts INTEGER NOT NULL, "
            "agent_id TEXT NOT NULL, message TEXT NOT NULL);"
        )
        with database:
            database.execute("INSERT INTO kv_store VALUES ('mem:memories', 'm1', '{\"text\": \"likes tea\"}')")
            database.execute("INSERT INTO audit_log (ts, agent_id, message) VALUES (1, 'ada', 'remembered')")
            database.execute("INSERT INTO audit_log (ts, agent_id, message) VALUES (2, 'ada', 'forgot')")
            database.execute("DELETE FROM audit_log WHERE id = 2")
        database.execute("INSERT INTO kv_store VALUES ('mem:memories', 'm2', 'not yet')")
        save_sources(memory, SourceSet(tmp_path, [agentmemory_store()]))
        database.rollback()
    assert memory.restore()["agentmemory.db/kv_store.jsonl"] == (
        '["scope","key","value"]\n["mem:memories","m1","{\\"text\\": \\"likes tea\\"}"]\n'
    )
    restore_sources(memory, SourceSet(tmp_path / "new", [agentmemory_store()]))
    with closing(sqlite3.connect(tmp_path / "new" / "agentmemory.db")) as database:
        assert database.execute("SELECT * FROM kv_store").fetchall() == [
            ("mem:memories", "m1", '{"text": "likes tea"}')
        ]
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        added = database.execute("INSERT INTO audit_log (ts, agent_id, message) VALUES (3, 'ada', 'new')")
        assert added.lastrowid == 3
