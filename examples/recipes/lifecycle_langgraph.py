"""A LangGraph agent's life: its messages are its memory."""

import json
from typing import Annotated, TypedDict

from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import messages_from_dict, messages_to_dict
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

from colony_memory import ColonyMemory, open_vault


class State(TypedDict):
    messages: Annotated[list, add_messages]


def live(mem, model, said):
    graph = StateGraph(State)
    graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_edge(START, "model")
    graph.add_edge("model", END)
    before = json.loads(mem.restore(label="ada", default={}).get("messages.json", "[]"))
    state = graph.compile().invoke({"messages": [*messages_from_dict(before), ("user", said)]})
    mem.backup({"messages.json": json.dumps(messages_to_dict(state["messages"]), indent=1)}, label="ada")
    return [message.content for message in state["messages"]]


if __name__ == "__main__":
    vault = open_vault("memory:")
    live(ColonyMemory(backend=vault), FakeListChatModel(responses=["noted"]), "I like tea")
    spoken = live(ColonyMemory(backend=vault), FakeListChatModel(responses=["tea"]), "what do I like?")
    assert spoken == ["I like tea", "noted", "what do I like?", "tea"], spoken
    print("remembered")
