"""An agentmemory store in a vault, while its server has it open, and back on another host."""

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from colony_memory import ColonyMemory, open_vault, restore_folder, save_folder

SCHEMA = """
CREATE TABLE kv_store (scope TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (scope, key));
CREATE TABLE audit_log (
    id INTEGER PRIMARY KEY AUTOINCREMENT, ts INTEGER NOT NULL, agent_id TEXT NOT NULL, message TEXT NOT NULL
);
"""

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        here, there = Path(scratch, "here"), Path(scratch, "there")  # ~/.agentmemory, for most
        here.mkdir()
        mem = ColonyMemory(backend=open_vault("memory:"))
        with closing(sqlite3.connect(here / "agentmemory.db")) as server:  # it stays open throughout
            server.execute("PRAGMA journal_mode=WAL")
            server.executescript(SCHEMA)
            with server:
                server.execute("INSERT INTO kv_store VALUES ('mem:memories', 'm1', '\"likes tea\"')")
            server.execute("INSERT INTO kv_store VALUES ('mem:memories', 'm2', '\"not committed\"')")
            saved = save_folder(mem, here, label="agentmemory")
            print(f"{saved.size} bytes saved")

        restore_folder(mem, there, label="agentmemory")
        with closing(sqlite3.connect(there / "agentmemory.db")) as server:
            assert server.execute("SELECT key FROM kv_store WHERE scope='mem:memories'").fetchall() == [("m1",)]
