"""An agent of the OpenAI Agents SDK: its session's items are its memory."""

import asyncio
import json

from agents import Agent, Model, ModelResponse, Runner, SQLiteSession, Usage, set_tracing_disabled
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

from colony_memory import AsyncColonyMemory, open_vault


async def live(vault, model, said):
    async with AsyncColonyMemory(backend=vault) as mem:
        session = SQLiteSession("ada")  # in memory: the vault keeps it
        before = await mem.restore(label="ada", default={})
        await session.add_items(json.loads(before.get("session.json", "[]")))
        await Runner.run(Agent("Ada", model=model), said, session=session)
        items = await session.get_items()
        await mem.backup({"session.json": json.dumps(items, indent=1)}, label="ada")
        return items


class Parrot(Model):
    """Stands in for a model: it says how many items it was given."""

    async def get_response(self, system_instructions, input, *args, **options):
        text = ResponseOutputText(type="output_text", text=f"{len(input)} items", annotations=[])
        said = ResponseOutputMessage(id="1", type="message", role="assistant", status="completed", content=[text])
        return ModelResponse(output=[said], usage=Usage(), response_id=None)

    def stream_response(self, *args, **options):
        raise NotImplementedError


if __name__ == "__main__":
    set_tracing_disabled(True)
    vault = open_vault("memory:")
    assert len(asyncio.run(live(vault, Parrot(), "I like tea"))) == 2
    items = asyncio.run(live(vault, Parrot(), "what do I like?"))
    assert items[0]["content"] == "I like tea"
    assert items[-1]["content"][0]["text"] == "3 items"
    print("remembered")
