"""A LangGraph checkpointer in SQLite: threads go on where they were, on another host."""

import sqlite3
import tempfile
from pathlib import Path
from typing import TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph

from colony_memory import ColonyMemory, open_vault, restore_folder, save_folder


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
        assert run_once(here, "ada") == 1
        assert run_once(here, "ada") == 2
        save_folder(mem, here, label="threads")

        restore_folder(mem, there, label="threads")
        assert run_once(there, "ada") == 3
        assert run_once(there, "someone else") == 1
        with sqlite3.connect(there / "checkpoints.db") as database:
            assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        print("the thread goes on")
