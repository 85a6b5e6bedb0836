"""Where hosts of agents keep memory, what of their folders is none, and Claude Code's projects on another machine."""

import os
from pathlib import Path

import pytest
from agent_hosts import HOSTS, make_host

from colony_memory import ColonyMemory, open_vault, save_folder
from colony_memory.capture._metadata import METADATA_NAME, METADATA_NAMES, Metadata, described_by, dump_metadata
from colony_memory.shell.app.agents import AGENTS, folder_of_project, locate_project, read_maps, rename_projects


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


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/home/ada/my_app.v2", "-home-ada-my-app-v2"),
        ("/home/ada/\u041f\u0440\u043e\u0435\u043a\u0442 \U0001f98a x", "-home-ada-----------x"),
        ("/a" * 150, ("-a" * 100) + "-g3ckr0"),
        ("/\u00e4\U0001f98ab" * 90, ("----b" * 40) + "-3dzt9c"),
        (r"C:\dev\repo", "C--dev-repo"),
        ("/", "-"),
    ],
)
def test_the_names_are_those_that_javascript_gives(path, name):
    # Made by node, with the expression and the hash that version 2.1.332 has.
    assert folder_of_project(path) == name


def test_a_project_is_its_repository(tmp_path):
    inner = tmp_path / "app" / "src"
    inner.mkdir(parents=True)
    assert locate_project(str(inner)) == str(inner)
    assert locate_project(str(tmp_path / "not-yet")) == str(tmp_path / "not-yet")
    (tmp_path / "app" / ".git").mkdir()
    assert locate_project(str(tmp_path / "app")) == str(tmp_path / "app")
    with pytest.raises(ValueError, match=r"is in the repository .*app', which has one memory as a whole"):
        locate_project(str(inner))
    worktree = tmp_path / "tree"
    worktree.mkdir()
    (worktree / ".git").write_text(f"gitdir: {tmp_path}/app/.git/worktrees/tree\n")
    with pytest.raises(ValueError, match="is a worktree, which shares the memory of its repository"):
        locate_project(str(worktree))
    (worktree / ".git").write_text("gitdir: ../.git/modules/sub\n")
    assert locate_project(str(worktree)) == str(worktree)
    (tmp_path / "link").symlink_to(tmp_path / "app")
    assert locate_project(str(tmp_path / "link")) == str(tmp_path / "app")
    with pytest.raises(ValueError, match="an empty path"):
        locate_project(" ")


def test_one_of_several_is_named_by_its_path_or_its_folder(tmp_path):
    new = tmp_path / "app"
    for old in ("/home/ada/app", "/home/ada/app/", "-home-ada-app"):
        documents, _ = rename_projects(TWO, None, read_maps([f"{old}={new}"]))
        assert set(documents) == {
            "CLAUDE.md",
            f"projects/{folder_of_project(str(new))}/memory/M.md",
            "projects/-home-ada-api/memory/M.md",
        }


ONE = {"CLAUDE.md": "x", "projects/-home-ada-app/memory/M.md": "m"}
TWO = {**ONE, "projects/-home-ada-api/memory/M.md": "n"}


@pytest.mark.parametrize(
    ("project", "by_name", "documents", "message"),
    [
        ("/x", {}, TWO, "does not hold exactly one project; there are -home-ada-api, -home-ada-app: say whi"),
        ("/x", {}, {"CLAUDE.md": "x"}, "it has no memory of a project"),
        (None, {"-other": "/x"}, ONE, "the snapshot has no project folder '-other'; there are -home-ada-app"),
        (None, {"-home-ada-app": "/home/ada/api"}, TWO, "two project folders .* would both be '-home-ada-api'"),
        (None, {"-home-ada-app": "/x", "-home-ada-api": "/x"}, TWO, "would both be '-x'"),
    ],
)
def test_nothing_is_guessed(project, by_name, documents, message):
    with pytest.raises(ValueError, match=message):
        rename_projects(documents, project, by_name)


@pytest.mark.parametrize("given", [["/a"], ["=/a"], ["/a="], ["a/b=/c"], ["/a=/b", "/a=/c"]])
def test_what_says_nothing_is_refused(given):
    with pytest.raises(ValueError, match=r"not of the form OLD=NEW|neither an absolute path nor the .* two places"):
        read_maps(given)


def known(of):
    """All that a record may say of the files of a project."""
    return Metadata(
        files={f"{of}/face.png": b"\xff"},
        empty_dirs=(f"{of}/empty",),
        executable=frozenset({f"{of}/run.sh"}),
        masked=(f"{of}/keys.md",),
        links={f"{of}/today.md": "M.md", "projects/-c/memory/of-a.md": f"../../{of[9:]}/M.md", "rules/-a": "-a"},
        modes={f"{of}/": 0o700, f"{of}/M.md": 0o600},
        times={f"{of}/": 1, f"{of}/M.md": 2},
        left_out={f"{of}/pipe": "named pipe", f"{of}/closed/": "no right"},
    )


def test_all_that_is_known_of_a_file_goes_along():
    old, new = "projects/-a/memory", "projects/-b/memory"
    documents = {f"{old}/M.md": "m", f"{old}/run.sh": "r", METADATA_NAME: dump_metadata(known(old))}
    moved, changes = rename_projects(documents, None, {"-a": "/b"})
    assert changes == {"-a": "-b"}
    assert {*moved} - {*METADATA_NAMES} == {f"{new}/M.md", f"{new}/run.sh"}
    assert described_by(moved) == known(new)
