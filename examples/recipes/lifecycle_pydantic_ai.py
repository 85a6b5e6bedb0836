"""A Pydantic AI agent's life: its message history is its memory."""

import json

from pydantic_ai import Agent, ModelMessagesTypeAdapter
from pydantic_ai.models.test import TestModel

from colony_memory import ColonyMemory, open_vault


def live(mem, agent, said):
    before = mem.restore(label="ada", default={}).get("messages.json", "[]")
    result = agent.run_sync(said, message_history=ModelMessagesTypeAdapter.validate_json(before))
    messages = json.loads(result.all_messages_json())
    mem.backup({"messages.json": json.dumps(messages, indent=1)}, label="ada")
    return messages


if __name__ == "__main__":
    vault, agent = open_vault("memory:"), Agent(TestModel(custom_output_text="noted"))
    assert len(live(ColonyMemory(backend=vault), agent, "I like tea")) == 2
    messages = live(ColonyMemory(backend=vault), agent, "what do I like?")
    assert messages[0]["parts"][-1]["content"] == "I like tea"
    assert len(messages) == 4
    print("remembered")
