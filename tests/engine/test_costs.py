"""Whatever lies in a vault: what it costs whoever reads it, in memory by max_bytes, and in CPU by the bytes unpacked.

On Linux alone, which tells the memory of a process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import needs_zstd  # noqa: F401 - skips this module where there is none
import pytest
from cost_worker import KINDS, VERBS

WORKER = Path(__file__).parent.parent / "support" / "cost_worker.py"
MB = 2**20
# What a verb takes whatever the bound: its modules, and files of some megabytes as Python's values.
BESIDE = 64 * MB
DEAREST = [
    "1: one wide text", "2: one long wide name", "2: documents in turn", "2: all of it anew", "catalogue: one name",
    "pointer: objects",
]  # fmt: skip

pytestmark = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="memory is told by Linux")


@pytest.mark.parametrize(
    ("most", "verbs", "kinds"),
    [
        pytest.param(8 * MB, ["restore", "list"], DEAREST, id="the dearest"),
        *(
            pytest.param(most * MB, list(VERBS), [kind], id=f"{kind}, {most} MiB", marks=pytest.mark.exhaustive)
            for kind in KINDS
            for most in (8, 64)
        ),
    ],
)
def test_it_costs_eight_times_max_bytes_at_most(most, verbs, kinds):
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path.cwd()), *sys.path])}
    command = [sys.executable, str(WORKER), str(most), ",".join(verbs), *kinds]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(verbs) * len(kinds)
    # 0.1 microseconds for each byte that one snapshot may unpack to, and 3 for each that is stored. A verb looks up to
    # three times where another client may be at work.
    seconds = {each["kind"]: 3 * (1 + 1e-7 * (8 * most + 16 * MB) + 3e-6 * each["stored"]) for each in found}
    wrong = [
        each
        for each in found
        if each["said"].startswith("a bare") or each["bytes"] > 8 * most + BESIDE or each["cpu"] > seconds[each["kind"]]
    ]
    assert not wrong
