"""Calls in a thread, one after the other."""

import pytest

pytest.importorskip("mcp.server")

import anyio
from mcp_calls import desk

from colony_memory import ColonyMemory
from colony_memory.shell.mcp import tools

__all__ = ["desk"]


def test_calls_at_once_are_made_one_after_the_other(desk, monkeypatch):
    under_way, most = [], []

    def watched(real, *args, **options):
        under_way.append(1)
        most.append(len(under_way))
        try:
            return real(*args, **options)
        finally:
            under_way.pop()

    for home, name in ((tools, "read_for"), (tools.FolderSave, "read")):
        real = getattr(home, name)
        monkeypatch.setattr(home, name, lambda *args, _real=real, **more: watched(_real, *args, **more))

    async def work(client):
        found = []

        async def call(name, arguments):
            found.append(await client.call_tool(name, arguments))

        async with anyio.create_task_group() as tasks:
            for number in range(4):
                tasks.start_soon(call, "backup", {"note": f"{number}"})
                tasks.start_soon(call, "diff", {"a": "folder"})
        return found

    found = desk.run(work)
    assert [each.content for each in found if each.is_error] == []
    assert most == [1] * len(most)
    assert len(most) == 12
    assert ColonyMemory(backend=desk.place.backend).verify()
