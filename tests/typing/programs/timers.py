"""Saving by itself, from a thread and in an event loop."""

from __future__ import annotations

import asyncio
import logging
import math
from datetime import datetime, timezone

from colony_memory import AsyncColonyMemory, ColonyMemory, ColonyMemoryError, Retention, open_vault
from colony_memory.schedule.autobackup import AsyncAutobackup, Autobackup
from colony_memory.testing import AsyncFakeVault


def age(auto: Autobackup | AsyncAutobackup) -> float:
    return math.inf if auto.last_success is None else (datetime.now(timezone.utc) - auto.last_success).total_seconds()


def work(memory: ColonyMemory) -> None:
    documents = memory.restore(default={})
    with memory.autobackup(lambda: documents, every=600, retention=Retention(keep_last=10)) as auto:
        documents["MEMORY.md"] = "what happened"
        saved = auto.backup_now()
        if saved is None:
            logging.warning("not saved: %s", auto.last_error)
        assert auto.running
        assert auto.next_run is not None
    assert age(auto) < 60


async def work_later(memory: AsyncColonyMemory) -> None:
    documents = await memory.restore(default={})

    async def collect() -> dict[str, str]:
        await asyncio.sleep(0)
        return dict(documents)

    async with memory.autobackup(collect, every=math.inf, label="default", final_timeout=5) as auto:
        documents["MEMORY.md"] = "what happened"
        now = await auto.backup_now()
        assert now is not None
        assert now.doc_names == ["MEMORY.md"]
    if isinstance(auto.last_error, ColonyMemoryError):
        raise auto.last_error


def main() -> None:
    work(ColonyMemory(backend=open_vault("memory:")))
    asyncio.run(work_later(AsyncColonyMemory(backend=AsyncFakeVault())))


if __name__ == "__main__":
    main()
