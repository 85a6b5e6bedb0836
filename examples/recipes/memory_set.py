"""A cursor, a database and a repository that point into each other, saved and restored as one."""

import json
import sqlite3
import subprocess
import tempfile
from contextlib import closing
from pathlib import Path

from colony_memory import ColonyMemory, open_vault, restore_folder, save_folder

BUNDLE = "git -C notes -c pack.threads=1 bundle create -q ../notes.bundle --all"


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=agent", "-c", "user.email=agent@example.org", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def work(root: Path, text: str) -> None:
    """One step of an agent: write it down, commit it, record it, and move the cursor."""
    with (root / "notes" / "diary.md").open("a") as diary:
        diary.write(f"{text}\n")
    git(root / "notes", "add", ".")
    git(root / "notes", "commit", "-qm", text)
    with closing(sqlite3.connect(root / "state.db")) as database, database:
        commit = git(root / "notes", "rev-parse", "HEAD")
        event = database.execute("INSERT INTO events (text, written_in) VALUES (?, ?)", (text, commit)).lastrowid
    (root / "cursor.json").write_text(json.dumps({"event": event}))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        here, there = Path(scratch, "here"), Path(scratch, "there")
        (here / "notes").mkdir(parents=True)
        git(here / "notes", "init", "-q", "-b", "main")
        with closing(sqlite3.connect(here / "state.db")) as database:
            database.execute("CREATE TABLE events (id INTEGER PRIMARY KEY, text TEXT NOT NULL, written_in TEXT)")
        mem = ColonyMemory(backend=open_vault("memory:"))
        for text in ("it rained", "it stopped"):
            work(here, text)
            save_folder(mem, here, before=BUNDLE)

        print(*restore_folder(mem, there).written.created)
        notes = there / "notes"
        git(notes, "init", "-q", "-b", "main")
        git(notes, "fetch", "-q", "--update-head-ok", "../notes.bundle", "refs/*:refs/*")
        git(notes, "reset", "-q")
        event = json.loads((there / "cursor.json").read_text())["event"]
        with closing(sqlite3.connect(there / "state.db")) as database:
            ((commit,),) = database.execute("SELECT written_in FROM events WHERE id = ?", (event,))
        assert git(notes, "show", "-s", "--format=%s", commit) == "it stopped"
        assert git(notes, "status", "--short") == ""
