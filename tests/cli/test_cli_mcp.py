"""The verb ``mcp``: what it refuses at the start, and what it hands to the server."""

import subprocess
import sys

import pytest

pytest.importorskip("click")


@pytest.fixture
def served(monkeypatch):
    """What would be served, in the place of serving it."""
    pytest.importorskip("mcp.server")
    from colony_memory.shell.mcp import server

    found = []
    monkeypatch.setattr(server, "serve_stdio", lambda server: found.append(server._served))
    return found


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--label", "a/b"], "label"),
        (["--secrets", "maybe"], "'maybe' is not one of"),
        (["--exclude", ""], "'--exclude': it is empty"),
    ],
)
def test_what_cannot_be_is_refused_before_a_host_is_answered(refused, vault, folder, served, options, says):
    assert says in refused(2, "mcp", *options, folder)
    assert served == []


def test_a_folder_that_is_none_is_refused(refused, cli, vault, folder, served, tmp_path):
    assert "is not a directory" in refused(2, "mcp", tmp_path / "none")
    assert "is not a directory" in refused(2, "mcp", folder / "MEMORY.md")
    assert "is not a directory" in refused(2, "mcp", "--allow-restore", folder / "MEMORY.md")
    assert "an empty path" in refused(2, "mcp", "")
    assert "is inside" in refused(2, "mcp", tmp_path)
    assert cli("mcp", "--allow-restore", tmp_path / "none")[0] == 0


@pytest.mark.once
def test_without_the_extra_it_says_what_to_install(tmp_path):
    (tmp_path / "mcp.py").write_text("raise ModuleNotFoundError(\"No module named 'mcp'\", name='mcp')\n")
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); from colony_memory.__main__ import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path), "mcp", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: the server needs the extra 'mcp': pip install -U 'colony-memory[mcp]'\n"
