"""The verb ``mcp``: what it refuses at the start, and what it hands to the server."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("click")


from colony_memory.app.options import BackupOptions


@pytest.fixture
def served(monkeypatch):
    """What would be served, in the place of serving it."""
    pytest.importorskip("mcp.server")
    from colony_memory.mcp import server

    found = []
    monkeypatch.setattr(server, "serve_stdio", lambda server: found.append(server._served))
    return found


def test_what_the_person_gives_is_fixed(cli, vault, folder, served):
    options = [
        "--label",
        "Notes",
        "--keep",
        "3",
        "--exclude",
        "*.log",
        "--secrets",
        "mask",
        "--on-conflict",
        "continue",
    ]
    assert cli("mcp", *options, folder) == (0, "", "")
    (it,) = served
    assert it.options == BackupOptions(
        label="notes", prune_keep=3, exclude=("*.log",), secrets="mask", on_conflict="continue"
    )
    assert (it.root, it.label, it.restore) == (folder.resolve(), "notes", "no")
    assert it.place.backend.path == vault.path


def test_a_link_leads_to_the_folder_for_good(cli, vault, folder, served, tmp_path):
    (tmp_path / "link").symlink_to(folder)
    assert cli("mcp", "--allow-restore", tmp_path / "link")[0] == 0
    assert (served[0].root, served[0].restore) == (folder.resolve(), "asked")
    assert cli("mcp", "--allow-restore", "--restore-unasked", folder)[0] == 0
    assert served[1].restore == "unasked"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--restore-unasked"], "--restore-unasked is for --allow-restore"),
        (["--label", "a/b"], "label"),
        (["--secrets", "maybe"], "--secrets is stop, warn, mask or allow"),
        (["--exclude", ""], "--exclude is given without a value"),
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


def test_a_vault_that_is_missing_is_told_before_a_host_is_answered(refused, folder, served, tmp_path):
    told = refused(5, "mcp", "--vault", tmp_path / "none", folder)
    assert "make one with: colony-memory init" in told
    assert served == []


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
