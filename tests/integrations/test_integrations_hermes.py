"""The memory provider for Hermes Agent, under a stand-in of what Hermes has providers inherit from."""

import importlib.util
import sys
import types
from abc import ABC, abstractmethod

import pytest
from documentation_pages import ROOT

from colony_memory import ColonyMemory, SecretsFound
from colony_memory.exceptions import VaultMissing
from colony_memory.vaults.local import LocalVault

PROVIDER = ROOT / "integrations" / "hermes" / "colony_memory_provider" / "__init__.py"
TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5"
MESSAGES = [{"role": "user", "content": f"my token is {TOKEN}"}, {"role": "assistant", "content": "I forget it"}]


class MemoryProvider(ABC):
    """The methods that every provider must have, as Hermes' guide lists them."""

    pre_compress_checkpoint_api_version = 1

    @property
    @abstractmethod
    def name(self): ...

    @abstractmethod
    def is_available(self): ...

    @abstractmethod
    def initialize(self, session_id, **kwargs): ...

    @abstractmethod
    def get_tool_schemas(self): ...


@pytest.fixture
def vault(tmp_path, monkeypatch):
    monkeypatch.setenv("COLONY_MEMORY_VAULT", str(tmp_path / "vault"))
    return LocalVault(tmp_path / "vault", create=True)


@pytest.fixture
def provider(monkeypatch):
    agent, module = types.ModuleType("agent"), types.ModuleType("agent.memory_provider")
    module.MemoryProvider = MemoryProvider
    monkeypatch.setitem(sys.modules, "agent", agent)
    monkeypatch.setitem(sys.modules, "agent.memory_provider", module)
    spec = importlib.util.spec_from_file_location("colony_memory_provider", PROVIDER)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    found = []
    loaded.register(types.SimpleNamespace(register_memory_provider=found.append))
    return found[0]


@pytest.fixture
def memories(tmp_path, vault, provider):
    path = tmp_path / "hermes" / "memories"
    path.mkdir(parents=True)
    (path / "MEMORY.md").write_text("two years")
    provider.initialize("s1", hermes_home=str(tmp_path / "hermes"), platform="cli", agent_context="primary")
    return path


def ids(vault, label="default"):
    return [info.snapshot_id for info in ColonyMemory(backend=vault).list_snapshots(label=label)]


def test_it_saves_before_a_compression_and_at_the_end(vault, provider, memories, monkeypatch):
    assert provider.on_pre_compress(MESSAGES) == ""
    assert ColonyMemory(backend=vault).restore()["MEMORY.md"] == "two years"
    provider.on_session_end(MESSAGES)
    assert len(ids(vault)) == 1  # nothing had changed
    monkeypatch.setenv("COLONY_MEMORY_KEEP", "2")
    for state in ("a", "b", "c"):
        (memories / "MEMORY.md").write_text(state * 10)
        provider.on_session_switch("s2", reset=True)
    assert len(ids(vault)) == 2
    assert ids(vault, "default-transcripts") == []


def test_what_cannot_be_saved_raises_before_a_compression_alone(vault, provider, memories, tmp_path, caplog):
    provider.on_pre_compress(MESSAGES)
    vault.path.rename(tmp_path / "away")
    (memories / "MEMORY.md").write_text("more")
    with pytest.raises(VaultMissing):
        provider.on_pre_compress(MESSAGES)
    provider.on_session_end(MESSAGES)
    assert "was not saved" in caplog.text
    (tmp_path / "away").rename(vault.path)
    (memories / "MEMORY.md").write_text(TOKEN)
    with pytest.raises(SecretsFound):
        provider.on_pre_compress(MESSAGES)
    assert len(ids(vault)) == 1


def test_memory_that_is_gone_raises_and_one_that_never_was_does_not(vault, provider, memories):
    (memories / "MEMORY.md").unlink()
    provider.on_pre_compress(MESSAGES)
    assert ids(vault) == []
    (memories / "MEMORY.md").write_text("two years")
    provider.on_pre_compress(MESSAGES)
    (memories / "MEMORY.md").unlink()
    with pytest.raises(ValueError, match="memories"):
        provider.on_pre_compress(MESSAGES)
    assert len(ids(vault)) == 1
