"""DuckDB, and a FAISS index with its texts, in a vault: whoever writes them saves them, between two writes.

Neither lets another program copy it while it is written: DuckDB lets one process in, and FAISS is two files.
"""

import pickle
import tempfile
from pathlib import Path

import duckdb
import faiss
import numpy

from colony_memory import ColonyMemory, open_vault, restore_folder, save_folder


class Memory:
    """What an agent remembers, in a database and in an index with its texts."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.facts = duckdb.connect(str(folder / "facts.duckdb"))
        self.facts.execute("CREATE TABLE IF NOT EXISTS facts (text TEXT)")
        self.texts, self.index = [], faiss.IndexFlatL2(8)
        if (folder / "index.pkl").exists():
            self.texts = pickle.loads((folder / "index.pkl").read_bytes())
            self.index = faiss.read_index(str(folder / "index.faiss"))

    def learn(self, text: str) -> None:
        """Remember a text."""
        self.facts.execute("INSERT INTO facts VALUES (?)", [text])
        self.index.add(numpy.full((1, 8), len(self.texts), dtype="float32"))
        self.texts.append(text)

    def save(self, mem: ColonyMemory) -> None:
        """Write everything to the disk, and save it before anything else is written."""
        self.facts.execute("CHECKPOINT")
        faiss.write_index(self.index, str(self.folder / "index.faiss"))
        (self.folder / "index.pkl").write_bytes(pickle.dumps(self.texts))
        assert save_folder(mem, self.folder)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        mem = ColonyMemory(backend=open_vault("memory:"))
        memory = Memory(Path(scratch, "memory"))
        for number in range(1, 4):
            for each in range(100):
                memory.learn(f"{number}.{each}")
            memory.save(mem)
            restore_folder(mem, Path(scratch, str(number)))
            restored = Memory(Path(scratch, str(number)))
            found = restored.facts.execute("SELECT text FROM facts").fetchall()
            assert [text for (text,) in found] == restored.texts == memory.texts
            assert restored.index.ntotal == len(restored.texts)
            restored.facts.close()
        print("3 snapshots, each whole")
