"""What Claude Code calls the folder of a project, and its folders on another machine."""

from __future__ import annotations

import pytest

from colony_memory.app.claude_code import folder_of_project, locate_project, read_maps, rename_projects
from colony_memory.capture._metadata import METADATA_NAME, METADATA_NAMES, Metadata, described_by, dump_metadata


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


def test_all_that_is_known_of_a_file_goes_along():
    old, new = "projects/-a/memory", "projects/-b/memory"
    metadata = Metadata(
        files={f"{old}/face.png": b"\xff"},
        empty_dirs=(f"{old}/empty",),
        executable=frozenset({f"{old}/run.sh"}),
        masked=(f"{old}/keys.md",),
        links={f"{old}/today.md": "M.md", "projects/-c/memory/of-a.md": "../../-a/memory/M.md", "rules/-a": "-a"},
        modes={f"{old}/": 0o700, f"{old}/M.md": 0o600},
        times={f"{old}/": 1, f"{old}/M.md": 2},
        left_out={f"{old}/pipe": "named pipe", f"{old}/closed/": "no right"},
    )
    documents = {f"{old}/M.md": "m", f"{old}/run.sh": "r", METADATA_NAME: dump_metadata(metadata)}
    moved, changes = rename_projects(documents, None, {"-a": "/b"})
    assert changes == {"-a": "-b"}
    assert {*moved} - {*METADATA_NAMES} == {f"{new}/M.md", f"{new}/run.sh"}
    assert described_by(moved) == Metadata(
        files={f"{new}/face.png": b"\xff"},
        empty_dirs=(f"{new}/empty",),
        executable=frozenset({f"{new}/run.sh"}),
        masked=(f"{new}/keys.md",),
        links={f"{new}/today.md": "M.md", "projects/-c/memory/of-a.md": "../../-b/memory/M.md", "rules/-a": "-a"},
        modes={f"{new}/": 0o700, f"{new}/M.md": 0o600},
        times={f"{new}/": 1, f"{new}/M.md": 2},
        left_out={f"{new}/pipe": "named pipe", f"{new}/closed/": "no right"},
    )
