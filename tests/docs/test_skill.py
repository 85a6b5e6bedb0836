"""The skill as an agent follows it that reads nothing else: start, work, save, and start again on another host."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from documentation_pages import ROOT, is_installation, read_blocks

from colony_memory.testing import FakeVault, VaultServer

SET_UP = "Set up, once"
START = "When you start"
SAVE = "When something is worth keeping, and before you end"
SIGN = "If others can write to your vault"
BLOCKS = [block for block in read_blocks(ROOT / "skill.md") if not is_installation(block)]


def blocks_of(heading, language):
    found = [block.text for block in BLOCKS if (block.heading, block.language) == (heading, language)]
    assert found, (heading, language)
    return found


def files(folder):
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.once
@pytest.mark.parametrize("signed", [False, True])
def test_with_files(tmp_path, signed):
    pytest.importorskip("click")
    if signed:
        pytest.importorskip("cryptography")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    settings = {**os.environ, "PATH": path, "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "data")}

    def follow(host, *steps):
        (tmp_path / host).mkdir(exist_ok=True)
        subprocess.run(
            ["bash", "-euo", "pipefail", "-c", "\n".join(steps)],
            cwd=tmp_path / host,
            env=settings,
            stdin=subprocess.DEVNULL,
            check=True,
            timeout=60,
        )
        return files(tmp_path / host / "memory")

    start, save = blocks_of(START, "sh"), blocks_of(SAVE, "sh")
    saved = follow("first", *blocks_of(SET_UP, "sh"), *start, *save)
    assert saved
    if signed:
        follow("first", *blocks_of(SIGN, "sh"))
        settings["COLONY_MEMORY_KEY_FILE"] = str(tmp_path / "first" / "agent.pem")
    assert follow("second", *start) == saved
    added = follow("second", "echo 'more' > memory/more.md", *save)
    assert "more.md" in added
    assert follow("third", *start) == added


@pytest.mark.once
def test_with_python(monkeypatch):
    with VaultServer(FakeVault(operations_per_hour=None), api_key="col_...") as server:
        monkeypatch.setenv("COLONY_API_KEY", "col_...")
        monkeypatch.setenv("COLONY_BASE_URL", server.url)
        first, second, third = {}, {}, {}
        for code in (*blocks_of(START, "python"), *blocks_of(SAVE, "python")):
            exec(code, first)
        assert first["memory"]
        for code in (*blocks_of(START, "python"), "found = dict(memory)", *blocks_of(SAVE, "python")):
            exec(code, second)
        assert second["found"] == first["memory"]
        for code in blocks_of(START, "python"):
            exec(code, third)
        assert third["memory"] == second["memory"]
