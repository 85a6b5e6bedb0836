"""The bounds that format 2 was made for: 100,000 documents, 100 MB, 40 MB in one line.

Each verb runs in a process of its own, whose memory is what it takes. The figures are printed at the end of the run.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import needs_zstd  # noqa: F401 - skips this module where there is none
import pytest
from counts import TRIED

from colony_memory.vaults.local import LocalVault

WORKER = Path(__file__).parent.parent / "support" / "limits_worker.py"

#: Memory beyond what the process had before, in times the text. A document takes some hundred bytes however short it
#: is.
MOST = {"large": 4.0, "line": 4.2, "many": 7.0}


def run(verb, vault, kind, state):
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path.cwd()), *sys.path])}
    command = [sys.executable, str(WORKER), verb, str(vault), kind, str(state)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="memory is told by Linux")
@pytest.mark.parametrize("kind", sorted(MOST))
def test_a_memory_as_large_as_that(tmp_path, kind):
    """A base, a patch by a client that has to read what it goes on from, and a restore by a third."""
    LocalVault(tmp_path / "vault", create=True)
    first, second = (run("save", tmp_path / "vault", kind, state) for state in (0, 1))
    restored = run("restore", tmp_path / "vault", kind, 1)
    verified = run("verify", tmp_path / "vault", kind, 1)
    for what, told in {"base": first, "patch": second, "restore": restored, "verify": verified}.items():
        times = told["peak"] / told["text"]
        TRIED[f"limits: {kind}, {told['text'] // 10**6} MB, {what}: memory in hundredths of the text"] = round(
            100 * times
        )
        TRIED[f"limits: {kind}, {told['text'] // 10**6} MB, {what}: CPU in ms"] = round(1000 * told["cpu"])
        assert times <= MOST[kind], what
    assert restored["same"]
    assert verified["ok"]
    assert first["format"] == second["format"] == "colony-memory/2"
    assert second["stored"] * 100 < first["stored"]
