"""The README alone leads from one host to another: signed, encrypted, and with nothing but what it says to carry."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from documentation_pages import README, read_blocks

for needed in ("click", "cryptography", "pyrage"):
    pytest.importorskip(needed)

pytestmark = pytest.mark.once


class Host:
    """A user's home and working directory on a machine of their own."""

    def __init__(self, path):
        self.here = path / "here"
        self.here.mkdir(parents=True)
        self._env = {"HOME": str(path), "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        for name in ("CONFIG", "DATA", "STATE", "CACHE"):
            self._env[f"XDG_{name}_HOME"] = str(path / name.lower())

    def run(self, command):
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=self.here,
            env=self._env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            check=False,
            timeout=60,
        )
        assert (done.returncode, done.stderr) == (0, ""), f"{command}\n{done.stderr}"
        return done.stdout


def test_memory_comes_back_on_another_host(tmp_path):
    blocks = [block for block in read_blocks(README) if block.heading == "On another host"]
    first, second = (block.text.splitlines() for block in blocks)
    here, there = Host(tmp_path / "one"), Host(tmp_path / "two")
    (here.here / "memory" / "notes").mkdir(parents=True)
    (here.here / "memory" / "notes" / "today.md").write_text("two years\n", encoding="utf-8")
    known = {"did:key:z6Mk…": "", "age1…": ""}

    def filled(command):
        for shown, value in known.items():
            command = command.replace(shown, value)
        return command

    for command in first:
        told = here.run(filled(command.partition("  #")[0]))
        for shown in known:
            if found := re.search(rf"^public key  ({shown[:-1]}\w+)$", told, re.MULTILINE):
                known[shown] = found[1]
    shutil.copytree(here.here / "vault", there.here / "vault")
    shutil.copy(here.here / "identity.txt", there.here)
    installing, restoring = second
    assert any(installing in block.text for block in read_blocks(README) if block.heading == "Install")
    there.run(filled(restoring))
    assert (there.here / "memory" / "notes" / "today.md").read_text(encoding="utf-8") == "two years\n"
    listed = there.run(filled("colony-memory list --vault ./vault --trust did:key:z6Mk… --json"))
    assert '"encrypted": true' in listed
    assert known["did:key:z6Mk…"] in listed
