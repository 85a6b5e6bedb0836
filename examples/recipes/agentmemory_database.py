"""An agentmemory store in a vault, while its server has it open, and back on another host."""

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from colony_memory import ColonyMemory, open_vault
from colony_memory.app.sources import restore_sources, save_sources
from colony_memory.capture.sources import SourceSet, compare_sources
from colony_memory.capture.stores import AGENTMEMORY_SCHEMA, agentmemory_store


def memory_at(root: Path) -> SourceSet:
    """The store below ``~/.agentmemory``, or wherever it is."""
    return SourceSet(root, [agentmemory_store("agentmemory.db", versions={"agentmemory": "0.9.4"})])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        here, there = Path(scratch, "here"), Path(scratch, "there")
        here.mkdir()
        mem = ColonyMemory(backend=open_vault("memory:"))
        with closing(sqlite3.connect(here / "agentmemory.db")) as server:  # it stays open throughout
            server.execute("PRAGMA journal_mode=WAL")
            server.executescript(AGENTMEMORY_SCHEMA)
            with server:
                server.execute("INSERT INTO kv_store VALUES ('mem:memories', 'm1', '\"likes tea\"')")
            save_sources(mem, memory_at(here), label="agentmemory")
            before = mem.restore(label="agentmemory")
            with server:
                server.execute("INSERT INTO kv_store VALUES ('mem:memories', 'm2', '\"likes rain\"')")
                server.execute("INSERT INTO audit_log (ts, agent_id, message) VALUES (1, 'ada', 'remembered m2')")
            save_sources(mem, memory_at(here), label="agentmemory")
        print(*compare_sources(before, mem.restore(label="agentmemory")))

        restore_sources(mem, memory_at(there), label="agentmemory")
        with closing(sqlite3.connect(there / "agentmemory.db")) as server:
            assert server.execute("SELECT count(*) FROM kv_store WHERE scope='mem:memories'").fetchone() == (2,)
