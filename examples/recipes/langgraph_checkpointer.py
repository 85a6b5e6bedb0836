"""A LangGraph checkpointer in SQLite: threads go on where they were, on another host.

The checkpointer's own ``setup`` is the schema, so that a restore makes its tables as the installed version wants them.
"""

import sqlite3
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph

from colony_memory import ColonyMemory, open_vault
from colony_memory.app.sources import restore_sources, save_sources
from colony_memory.capture.sources import SourceSet, compare_sources
from colony_memory.capture.stores import SqliteTables

PROGRAMS = {name: version(name) for name in ("langgraph", "langgraph-checkpoint-sqlite")}


def threads_in(root: Path) -> SourceSet:
    """The checkpointer's database below a directory."""
    checkpoints = SqliteTables("checkpoints.db", lambda connection: SqliteSaver(connection).setup(), PROGRAMS)
    return SourceSet(root, [checkpoints])


class State(TypedDict):
    turns: int


def run_once(root: Path, thread: str) -> int:
    """One turn of an agent that counts its turns."""
    root.mkdir(exist_ok=True)
    with SqliteSaver.from_conn_string(str(root / "checkpoints.db")) as saver:
        graph = StateGraph(State)
        graph.add_node("turn", lambda state: {"turns": state.get("turns", 0) + 1})
        graph.add_edge(START, "turn")
        graph.add_edge("turn", END)
        return graph.compile(checkpointer=saver).invoke({}, {"configurable": {"thread_id": thread}})["turns"]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        here, there = Path(scratch, "here"), Path(scratch, "there")
        mem = ColonyMemory(backend=open_vault("memory:"))
        run_once(here, "ada")
        save_sources(mem, threads_in(here), label="threads")
        first = mem.restore(label="threads")
        assert run_once(here, "ada") == 2
        save_sources(mem, threads_in(here), label="threads")
        print(*compare_sources(first, mem.restore(label="threads")))

        restore_sources(mem, threads_in(there), label="threads")
        assert run_once(there, "ada") == 3
        assert run_once(there, "someone else") == 1
        with sqlite3.connect(there / "checkpoints.db") as database:
            assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        print("the thread goes on")
