"""Where hosts of agents keep memory, and what of their folders is none."""

import os
from pathlib import Path

import pytest
from agent_hosts import HOSTS, make_host

from colony_memory import ColonyMemory, open_vault, save_folder
from colony_memory._values import names_of
from colony_memory.capture._metadata import METADATA_NAME, METADATA_NAMES, Metadata, described_by, dump_metadata
from colony_memory.shell.app.agents import AGENTS
from colony_memory.shell.app.content import reshape


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in (*(each.variable for each in AGENTS.values()), "OPENCLAW_STATE_DIR", "OPENCLAW_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.mark.parametrize("name", HOSTS)
def test_memory_is_saved_and_nothing_else(home, name):
    folder, agent = make_host(home, name), AGENTS[name]
    assert agent.require_folder() == folder
    saved = save_folder(ColonyMemory(backend=open_vault("memory:")), folder, exclude=agent.exclude(), secrets="stop")
    assert bool(saved)
    assert set(saved.info.doc_names) - {*METADATA_NAMES} == HOSTS[name][2]


@pytest.mark.parametrize("name", AGENTS)
def test_a_variable_names_another_place(home, tmp_path, monkeypatch, name):
    agent = AGENTS[name]
    monkeypatch.setenv(agent.variable, str(tmp_path / "elsewhere"))
    assert agent.folder() == tmp_path / "elsewhere"
    with pytest.raises(ValueError, match=f"keeps its memory; if that is elsewhere, set {agent.variable}"):
        agent.require_folder()
    monkeypatch.setenv(agent.variable, "~/mine")
    assert agent.folder() == home / "mine"
    monkeypatch.setenv(agent.variable, "here")
    with pytest.raises(ValueError, match=f"{agent.variable}: must be an absolute path"):
        agent.folder()
    monkeypatch.setenv(agent.variable, "")
    with pytest.raises(ValueError, match=f"{agent.variable} is empty"):
        agent.folder()


def test_a_profile_or_a_state_directory_moves_openclaw(home, tmp_path, monkeypatch):
    openclaw = AGENTS["openclaw"]
    monkeypatch.setenv("OPENCLAW_PROFILE", "work")
    assert openclaw.folder() == home / ".openclaw-work" / "workspace"
    monkeypatch.setenv("OPENCLAW_PROFILE", "default")
    assert openclaw.folder() == home / ".openclaw" / "workspace"
    monkeypatch.setenv("OPENCLAW_STATE_DIR", str(tmp_path / "state"))
    assert openclaw.folder() == tmp_path / "state" / "workspace"


@pytest.mark.skipif(os.name == "nt", reason="POSIX")
def test_a_home_that_is_none_is_the_one_of_the_account(home, monkeypatch):
    import pwd

    monkeypatch.setenv("HOME", "")
    assert AGENTS["codex"].folder() == Path(pwd.getpwuid(os.geteuid()).pw_dir, ".codex")

    def unknown(user):
        raise KeyError(user)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    with pytest.raises(ValueError, match="this user has no home directory: set HOME"):
        AGENTS["codex"].folder()


@pytest.mark.parametrize("name", ["settings.json", ".credentials.json", "settings.local.json", "plugins/x", "x"])
def test_no_setting_of_claude_code_is_memory(name):
    for each in (name, f"projects/-a/{name}", f"../{name}"):
        assert not AGENTS["claude-code"].holds(each)


def known(of):
    """All that a record may say of the files of a project."""
    return Metadata(
        files={f"{of}/face.png": b"\xff"},
        empty_dirs=(f"{of}/empty",),
        executable=frozenset({f"{of}/run.sh"}),
        masked=(f"{of}/keys.md",),
        links={f"{of}/today.md": "M.md"},
        modes={f"{of}/": 0o700, f"{of}/M.md": 0o600},
        times={f"{of}/": 1, f"{of}/M.md": 2},
        left_out={f"{of}/pipe": "named pipe", f"{of}/closed/": "no right"},
    )


def test_all_that_is_known_of_a_file_goes_along():
    one, other = "projects/-a/memory", "projects/-b/memory"
    records = [known(one), known(other)]
    both = Metadata(
        **{
            name: {**first, **second} if isinstance(first, dict) else type(first)([*first, *second])
            for name in names_of(Metadata)
            for first, second in [[getattr(each, name) for each in records]]
        }
    )
    documents = {f"{each}/M.md": "m" for each in (one, other)} | {METADATA_NAME: dump_metadata(both)}
    kept = reshape(documents, lambda name: name.startswith(one))
    assert {*kept} - {*METADATA_NAMES} == {f"{one}/M.md"}
    assert described_by(kept) == known(one)
