"""An agent's life in plain asyncio: restore, work, save meanwhile, save at the end."""

import asyncio

from colony_memory import AsyncColonyMemory, open_vault


async def live(vault, words):
    async with AsyncColonyMemory(backend=vault) as mem:
        memory = await mem.restore(default={})
        async with mem.autobackup(lambda: memory, every=900, final_timeout=10):
            for word in words:
                memory["MEMORY.md"] = memory.get("MEMORY.md", "") + f"{word}\n"
                await asyncio.sleep(0)
        return memory


if __name__ == "__main__":
    vault = open_vault("memory:")
    asyncio.run(live(vault, ["one", "two"]))
    assert asyncio.run(live(vault, ["three"])) == {"MEMORY.md": "one\ntwo\nthree\n"}
    print("remembered")
