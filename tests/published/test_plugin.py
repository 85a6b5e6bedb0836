"""The published plugin, unchanged, in a process of its own: an outage at boot, and retention behind its back."""

import pytest

from colony_memory import ColonyMemory
from colony_memory.testing import FakeVault, VaultServer
from published.environments import our_python, published_python
from published.peer_client import LineProcess

pytestmark = pytest.mark.network

SESSIONS = 20
KEEP = 2
OLD_MEMORY = {
    "MEMORY.md": "# What I know\n" + "".join(f"- fact {n}: {n**7 % 99991}\n" for n in range(4000)),
    "notes/日記.md": "".join(f"第{n}日: 今日は{n * 7919 % 365}番目の話。\n" for n in range(2000)),
    "state.json": "{" + ", ".join(f'"k{n}": {n * n}' for n in range(2000)) + "}",
}
OUTAGES = {"status": {"status": 500}, "drop": {}, "torn": {}, "garbage": {}}


@pytest.fixture
def server():
    # Sessions are hours apart in life and not here, so the hourly limit is left out.
    with VaultServer(FakeVault(operations_per_hour=None), api_key="col_plugin") as running:
        yield running


class Agent(LineProcess):
    """An agent on a host of its own: an empty memory folder, the plugin, automatic backup and restore."""

    def __init__(self, python, server, memory):
        self.memory = memory
        memory.mkdir()
        super().__init__(
            python,
            "plugin_agent.py",
            COLONY_API_KEY=server.api_key,
            COLONY_MEMORY_API_BASE=server.url,
            COLONY_MEMORY_DIR=str(memory),
            COLONY_MEMORY_AUTO_BACKUP="1",
            COLONY_MEMORY_AUTO_RESTORE="1",
            COLONY_MEMORY_AUTO_PRUNE_KEEP=str(KEEP),
            COLONY_SDK_NO_TOKEN_CACHE="1",
        )

    def begin_session(self):
        self.ask({"do": "fire", "hooks": ["on_session_reset"]})

    def end_session(self):
        self.ask({"do": "fire", "hooks": ["on_session_end", "on_session_finalize"]})

    def tool(self, name, **arguments):
        return self.ask({"do": "tool", "name": f"colony_memory_{name}", "arguments": arguments})

    def remember(self, documents):
        for name, text in documents.items():
            path = self.memory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode("utf-8"))

    def recall(self):
        files = [path for path in self.memory.rglob("*") if path.is_file()]
        return {path.relative_to(self.memory).as_posix(): path.read_bytes().decode("utf-8") for path in files}


def lose_memory_at_boot(python, server, outage, hosts):
    """Save the old memory; boot on a new host while the vault is down; end sessions. The old snapshot's id."""
    with Agent(python, server, hosts / "first") as agent:
        agent.remember(OLD_MEMORY)
        agent.end_session()
        saved = agent.tool("list_snapshots")
        snapshot_id = saved["snapshots"][0]["snapshot_id"]

    with Agent(python, server, hosts / "second") as agent:
        struck = server.fault("*", outage, path="/vault", times=None, **OUTAGES[outage])
        agent.begin_session()
        server.heal()
        assert struck.fired > 0
        assert agent.recall() == {}, "the outage was not swallowed, so nothing is shown"
        for number in range(SESSIONS):
            agent.remember({"MEMORY.md": f"# I am new here\nsession {number}\n"})
            agent.end_session()
        stored = {path.name for path in agent.memory.iterdir()}
        assert stored == {"MEMORY.md"}
        assert "auto-backup failed" not in agent.stderr()
    return snapshot_id


def our_client(server):
    return ColonyMemory(backend=server.vault)


@pytest.mark.parametrize("outage", OUTAGES)
def test_old_memory_outlives_an_outage_at_boot(server, outage, tmp_path):
    snapshot_id = lose_memory_at_boot(our_python(), server, outage, tmp_path)
    memory = our_client(server)
    assert memory.restore() == {"MEMORY.md": f"# I am new here\nsession {SESSIONS - 1}\n"}
    listed = [info.snapshot_id for info in memory.list_snapshots(label="default")]
    assert listed[-1] == snapshot_id
    assert memory.restore(snapshot_id=snapshot_id) == OLD_MEMORY
    # Retention did its work: what is kept beyond its rule is that one snapshot.
    assert len(listed) == KEEP + 1


def test_the_same_schedule_ends_the_old_memory_with_the_published_package(server, tmp_path):
    """The control: the schedule above does what it is made for."""
    snapshot_id = lose_memory_at_boot(published_python(), server, "status", tmp_path)
    assert not [name for name in server.vault.files if snapshot_id in name]


def test_new_host_starts_with_the_old_memory(server, tmp_path):
    with Agent(our_python(), server, tmp_path / "first") as agent:
        assert agent.ask({"do": "hello"})["plugin"] == "0.2.0"
        agent.remember(OLD_MEMORY)
        agent.end_session()
    with Agent(our_python(), server, tmp_path / "second") as agent:
        agent.begin_session()
        assert agent.recall() == OLD_MEMORY
        agent.remember({"MEMORY.md": "changed"})
        agent.end_session()
        snapshots = agent.tool("list_snapshots")["snapshots"]
        assert len(snapshots) == 2
    assert our_client(server).restore() == {**OLD_MEMORY, "MEMORY.md": "changed"}
