"""Calls in a thread: progress, an end where nobody waits, one after the other, and faults of the vault."""

import threading

import pytest

pytest.importorskip("mcp.server")

import anyio
import anyio.to_thread
from mcp_calls import ERAS, Desk, desk

from colony_memory import ColonyMemory
from colony_memory.shell.mcp import served, tools

__all__ = ["desk"]


async def reached(event):
    assert await anyio.to_thread.run_sync(event.wait, 30)


def called_off(desk, name, *, until, then, arguments=None):
    """Call a tool, call it off when ``until`` is set, and let it go on after that."""

    async def run():
        async with desk.client() as client:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.call_tool, name, arguments or {})
                await reached(until)
                tasks.cancel_scope.cancel()
                then.set()
            # The next call waits for its turn.
            with anyio.fail_after(30):
                return (await client.call_tool("list", {})).structured_content

    return anyio.run(run)


@pytest.mark.parametrize("era", ERAS)
def test_a_backup_that_is_called_off_while_it_reads_writes_nothing(desk, era, monkeypatch):
    desk.era = era
    for number in range(50):
        desk.write(f"notes/{number}.md", "x")
    here, go_on = threading.Event(), threading.Event()
    real = served.Job.go_on

    def slowly(self, *args):
        here.set()
        assert go_on.wait(30)
        # The other thread has to be heard first.
        assert self.stop.wait(30)
        real(self, *args)

    monkeypatch.setattr(served.Job, "go_on", slowly)
    listed = called_off(desk, "backup", until=here, then=go_on)
    assert listed["snapshots"] == []
    assert list(desk.vault_path.glob("cmem.*")) == []


def test_a_restore_that_is_called_off_while_it_writes_changes_nothing(tmp_path, monkeypatch):
    desk = Desk(tmp_path, allow_restore=True)
    for number in range(20):
        desk.write(f"notes/{number}.md", "saved")
    desk.call("backup")
    for number in range(20):
        desk.write(f"notes/{number}.md", "spoilt")
    here, go_on = threading.Event(), threading.Event()
    real = served.Job.go_on

    def slowly(self, *args):
        if args and args[0] > 10:
            here.set()
            assert go_on.wait(30)
            assert self.stop.wait(30)
        real(self, *args)

    monkeypatch.setattr(served.Job, "go_on", slowly)
    called_off(desk, "restore", until=here, then=go_on, arguments={"force": True})
    assert {each.read_text() for each in (desk.root / "notes").iterdir()} == {"spoilt"}
    assert sorted(each.name for each in desk.root.parent.iterdir()) == ["memory", "vault"]


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


def test_a_call_that_the_end_of_the_server_stops_is_told_so(desk, monkeypatch):
    real = served.Job.go_on

    def at_the_end(self, *args):
        desk.server().worker.rest(0)
        real(self, *args)

    monkeypatch.setattr(served.Job, "go_on", at_the_end)
    assert desk.refused("backup") == "the call was stopped, as the server is about to end"
    assert list(desk.vault_path.glob("cmem.*")) == []
