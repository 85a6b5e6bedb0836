"""Lifecycle events on NATS: one message a verb, under ``colony.memory.<action>.<label>``.

The verb does not wait for the network: events go into a queue, and one task sends them.
"""

import asyncio
import dataclasses
import json
import sys

import nats

from colony_memory import AsyncColonyMemory, LifecycleEvent, open_vault


class Publisher:
    """An ``on_event`` for an asynchronous client; ``async with`` sends what is left at its end."""

    def __init__(self, connection, most=1000):
        self.connection = connection
        self.queue = asyncio.Queue(most)

    def __call__(self, event):
        if isinstance(event, LifecycleEvent):
            self.queue.put_nowait(event)  # where it is full this raises, which is logged and nothing else

    async def __aenter__(self):
        self.task = asyncio.create_task(self.send())
        return self

    async def __aexit__(self, *exc):
        await self.queue.join()
        self.task.cancel()
        await self.connection.flush()

    async def send(self):
        while True:
            event = await self.queue.get()
            try:
                message = json.dumps(dataclasses.asdict(event)).encode()
                await self.connection.publish(f"colony.memory.{event.action}.{event.label or '-'}", message)
            finally:
                self.queue.task_done()


async def main(url):
    connection = await nats.connect(url)
    heard = await connection.subscribe("colony.memory.>")
    async with Publisher(connection) as publisher:
        mem = AsyncColonyMemory(backend=open_vault("memory:"), on_event=publisher)
        await mem.backup({"MEMORY.md": "two years of notes"}, label="ada")
        await mem.restore(label="ada")
    for subject in ("colony.memory.created.ada", "colony.memory.restored.ada"):
        message = await heard.next_msg(timeout=10)
        assert message.subject == subject
        print(subject, json.loads(message.data)["writes"])
    await connection.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
