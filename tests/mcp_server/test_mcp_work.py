"""Calls in a thread: progress, an end where nobody waits, one after the other, and faults of the vault."""

from __future__ import annotations

import threading

import pytest

pytest.importorskip("mcp.server")

import anyio
import anyio.to_thread
from mcp_calls import ERAS, Desk, desk

from colony_memory import ColonyMemory
from colony_memory.mcp import served, tools
from colony_memory.testing import FakeVault

__all__ = ["desk"]


class Slow(FakeVault):
    """A vault whose uploads wait until they are told to go on."""

    def __init__(self):
        super().__init__(operations_per_hour=None)
        self.reached, self.go_on = threading.Event(), threading.Event()

    def vault_upload_file(self, *args, **options):
        self.reached.set()
        assert self.go_on.wait(30)
        return super().vault_upload_file(*args, **options)


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
    real = served.Job.on_reading

    def slowly(self, *args):
        here.set()
        assert go_on.wait(30)
        # The other thread has to be heard first.
        assert self.stop.wait(30)
        real(self, *args)

    monkeypatch.setattr(served.Job, "on_reading", slowly)
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
    real = served.Job.on_writing

    def slowly(self, *args):
        if args[0] > 10:
            here.set()
            assert go_on.wait(30)
            assert self.stop.wait(30)
        real(self, *args)

    monkeypatch.setattr(served.Job, "on_writing", slowly)
    called_off(desk, "restore", until=here, then=go_on, arguments={"force": True})
    assert {each.read_text() for each in (desk.root / "notes").iterdir()} == {"spoilt"}
    assert sorted(each.name for each in desk.root.parent.iterdir()) == ["memory", "vault"]


@pytest.mark.parametrize("era", ERAS)
def test_progress_is_told_and_only_grows(tmp_path, era, monkeypatch):
    monkeypatch.setattr(served, "_EVERY", 0.01)
    vault = Slow()
    desk = Desk(tmp_path, vault)
    desk.era, told = era, []

    async def hear(progress, total, message):
        told.append((progress, message))
        vault.go_on.set()

    found = desk.run(lambda client: client.call_tool("backup", {}, progress_callback=hear))
    assert not found.is_error
    steps = [progress for progress, _ in told]
    assert steps
    assert steps == sorted(set(steps))
    assert told[0][1] == "reading: 1 file, 10 B"


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
    real = served.Job.on_reading

    def at_the_end(self, *args):
        desk.server().worker.rest(0)
        real(self, *args)

    monkeypatch.setattr(served.Job, "on_reading", at_the_end)
    assert desk.refused("backup") == "the call was stopped, as the server is about to end"
    assert list(desk.vault_path.glob("cmem.*")) == []
